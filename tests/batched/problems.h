// Random problems for the tests and benches of the batched path.
#ifndef LETHE_TESTS_BATCHED_PROBLEMS_H_
#define LETHE_TESTS_BATCHED_PROBLEMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/batched/problem.h"

namespace lethe::batched {

// What keys are made of and how they are compared.
struct Regime {
  std::string name;
  KernelForm kernel;
  double parameter = 1.0;
  // Every key is one of n / copies, moved by so much in each coordinate; 1: all are their own.
  size_t copies = 1;
  double noise = 0.0;
};

// rbf over normalised keys, rbf and dot product over raw ones, each over keys of their own and over
// near-duplicates a thousandth apart: six. The widths suit N(0, 1) keys of dimension d.
std::vector<Regime> StandardRegimes(size_t dimension);

// A batch that owns its arrays. Made in double; a float batch holds the rounded numbers.
template <typename T>
struct OwnedBatch {
  size_t problems = 0;
  size_t n = 0;
  size_t dimension = 0;
  KernelForm kernel;
  std::vector<T> points;
  std::vector<T> matrices;  // where not empty, the batch has these instead of the points
  std::vector<T> parameter;
  std::vector<T> box;
  std::vector<T> ridge;

  Batch<T> view() const;
};

// Keys from the seed; C = 1/(nu n), the same ridge for all.
template <typename T>
OwnedBatch<T> RandomBatch(const Regime& regime,
                          size_t problems,
                          size_t n,
                          size_t dimension,
                          double nu,
                          double ridge,
                          uint64_t seed);

}  // namespace lethe::batched

#endif  // LETHE_TESTS_BATCHED_PROBLEMS_H_
