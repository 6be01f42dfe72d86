// What the programs of this folder share that measure a server and are run by hand (tests/show).
#ifndef LETHE_TESTS_INTEGRATION_MEASURE_H_
#define LETHE_TESTS_INTEGRATION_MEASURE_H_

#include <errno.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lethe::tests {

// Ends the program with status 1, and says what it was about, when something is not OK: there is
// nothing to measure then.
inline void Must(const absl::Status& status, const std::string& doing) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, doing.c_str(),
               status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Must(absl::StatusOr<T> result, const std::string& doing) {
  Must(result.status(), doing);
  return *std::move(result);
}

inline std::vector<double> NormalNumbers(std::mt19937_64& random, size_t count) {
  std::normal_distribution<double> normal;
  std::vector<double> numbers(count);
  for (double& number : numbers) number = normal(random);
  return numbers;
}

// Requires a sample that is not empty, and a share in [0, 1].
inline double Quantile(std::vector<double> sample, double share) {
  std::sort(sample.begin(), sample.end());
  return sample[static_cast<size_t>(share * static_cast<double>(sample.size() - 1))];
}

}  // namespace lethe::tests

#endif  // LETHE_TESTS_INTEGRATION_MEASURE_H_
