// tests/golden/svdd.json: problems solved elsewhere in 60-digit arithmetic, with the answer after
// deleting each token.
#ifndef LETHE_TESTS_CORE_VECTORS_H_
#define LETHE_TESTS_CORE_VECTORS_H_

#include <string>
#include <vector>

#include "tests/core/state_checks.h"

namespace lethe::svdd {

struct VectorState {
  std::string name;  // "full", or which token was deleted
  std::vector<OwnedToken> tokens;
  // 25 significant digits each.
  std::vector<std::string> alpha;
  std::string mu;                     // empty where there is none
  std::vector<std::string> decision;  // sum a_i kappa(q, x_i), a query each
  std::vector<std::vector<std::string>> readout;
};

struct VectorCase {
  std::string name;
  MemoryOptions options;
  std::vector<std::vector<double>> queries;
  std::vector<VectorState> states;
};

const std::vector<VectorCase>& Vectors();

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_VECTORS_H_
