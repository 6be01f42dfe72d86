// Every backend that can be had here, in both precisions: what the suite of this folder runs over.
#ifndef LETHE_TESTS_BATCHED_BACKENDS_H_
#define LETHE_TESTS_BATCHED_BACKENDS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/batched/backend.h"

namespace lethe::batched {

struct BackendCase {
  std::string name;  // of letters and digits: "cpu2Double"
  bool single = false;
  size_t largest = kMaxPoints;  // problems that it takes no minutes for
  std::function<std::unique_ptr<Backend>()> make;
};
inline void PrintTo(const BackendCase& which, std::ostream* out) { *out << which.name; }
std::vector<BackendCase> BackendCases();
// Those of one precision.
std::vector<BackendCase> BackendCasesOf(bool single);

class BackendTest : public testing::TestWithParam<BackendCase> {
 protected:
  BackendTest() : backend_(GetParam().make()) {}

  // test(T{}) with the case's T: `using T = decltype(zero)`.
  template <typename Test>
  void InPrecision(Test&& test) {
    if (GetParam().single) {
      test(float{});
    } else {
      test(double{});
    }
  }
  template <typename T>
  Solution<T> Solve(const Batch<T>& batch, const Options& options = {}) {
    Solution<T> solution;
    const absl::Status status = backend_->Solve(batch, options, &solution);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return solution;
  }
  // A gap above it is a wrong answer.
  template <typename T>
  static double GapBar() {
    return sizeof(T) == sizeof(double) ? 1e-8 : 1e-4;
  }

  std::unique_ptr<Backend> backend_;
};

inline std::string NameOfCase(const testing::TestParamInfo<BackendCase>& which) {
  return which.param.name;
}
#define LETHE_OVER_ALL_BACKENDS(Suite) \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, testing::ValuesIn(BackendCases()), NameOfCase)

}  // namespace lethe::batched

#endif  // LETHE_TESTS_BATCHED_BACKENDS_H_
