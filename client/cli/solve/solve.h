// Solves a case, then takes out each token in turn by the decremental path and compares the
// outcome, bit by bit, with a memory that never saw the token.
#ifndef LETHE_CLIENT_CLI_SOLVE_SOLVE_H_
#define LETHE_CLIENT_CLI_SOLVE_SOLVE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/solve/vector_file.h"

namespace lethe::cli {

struct SolvedState {
  std::string partition;      // a letter a token, in insertion order: S, E, R
  std::vector<double> alpha;  // a weight a token
  int precision_bits = 0;     // rung of the precision ladder that decided it
  // A row a query; empty without queries, or when no token is left. The readout is also empty when
  // the file has no values.
  std::vector<std::vector<double>> readout;
  std::vector<double> decision;  // sum_i alpha_i kappa(q, x_i)
};

struct SolvedDeletion {
  size_t deleted = 0;
  SolvedState state;
  bool equal_bits_to_refit = false;
  bool fallback = false;  // the walk was given up and the cold solver finished
};

struct SolvedCase {
  SolvedState full;  // by the cold solver
  bool insert_equals_refit = false;
  std::vector<SolvedDeletion> deletions;  // of each token
};

// INVALID_ARGUMENT when the solver refuses a token, naming it.
absl::StatusOr<SolvedCase> SolveCase(const VectorCase& problem);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_SOLVE_SOLVE_H_
