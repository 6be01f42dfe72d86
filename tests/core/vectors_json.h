// What every reader of tests/golden/svdd.json needs: numbers are decimals of 25 digits in strings.
#ifndef LETHE_TESTS_CORE_VECTORS_JSON_H_
#define LETHE_TESTS_CORE_VECTORS_JSON_H_

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/svdd/problem.h"

namespace lethe::svdd {

inline double Number(const nlohmann::json& text) {
  return std::strtod(text.get<std::string>().c_str(), nullptr);
}

inline std::vector<double> Numbers(const nlohmann::json& array) {
  std::vector<double> result;
  for (const nlohmann::json& entry : array) result.push_back(Number(entry));
  return result;
}

// Of one of its cases.
inline MemoryOptions VectorOptions(const nlohmann::json& data) {
  const std::string name = data["kernel"];
  kernel::Kernel kernel;
  if (name == "exp_dot") {
    kernel = {kernel::KernelKind::kExpDot, Number(data["params"]["scale"])};
  } else {
    kernel = {name == "rbf" ? kernel::KernelKind::kRbf : kernel::KernelKind::kLaplacian,
              Number(data["params"]["gamma"])};
  }
  const std::string duplicates = data["duplicates"];
  return {kernel, Capacity::FromBox(Number(data["C"])).value(),
          duplicates == "shared"         ? DuplicatesPolicy::kShared
          : duplicates == "oldest_first" ? DuplicatesPolicy::kOldestFirst
                                         : DuplicatesPolicy::kNewestFirst,
          static_cast<int>(data["keys"][0].size()), 2};
}

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_VECTORS_JSON_H_
