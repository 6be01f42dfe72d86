// LIBSVM's one-class SVM with the rbf kernel on the same problem: for a kernel with constant
// diagonal it is problem (1) of core/svdd/problem.h with nu = 1 / (n C).
#ifndef LETHE_TESTS_BENCH_PERF_LIBSVM_H_
#define LETHE_TESTS_BENCH_PERF_LIBSVM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lethe::bench {

// Tokens in the form that LIBSVM reads.
class LibsvmProblem {
 public:
  // Rows of keys. Requires at least one.
  explicit LibsvmProblem(std::span<const std::span<const double>> keys);
  ~LibsvmProblem();
  LibsvmProblem(const LibsvmProblem&) = delete;
  LibsvmProblem& operator=(const LibsvmProblem&) = delete;

  // False where this program was built without LIBSVM; nothing else may be called then.
  static bool Available();

  // Trains with this stopping tolerance, a cache of 1000 MB and the shrinking heuristic: its
  // defaults but for the cache. `seconds` is the time of svm_train alone. The weights sum to 1, one
  // a key.
  std::vector<double> Train(double gamma, double capacity, double tolerance, double* seconds) const;

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_PERF_LIBSVM_H_
