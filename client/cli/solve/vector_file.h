// Files of solved or unsolved problems for `lethe solve`, such as tests/golden/svdd.json.
//
//     {"cases": [{"name", "kernel": "rbf"|"laplacian"|"exp_dot", "params": {"gamma" or "scale"},
//     "C",
//                 "duplicates": "shared"|"oldest_first"|"newest_first" (default shared),
//                 "keys": [n][d], "values": [n][m] (optional), "queries": [q][d] (optional)}, ...]}
//
// Every number is a C99 hex float in a string, a decimal in a string, or a JSON number. Other
// members, among them the expected answers, are not read.
#ifndef LETHE_CLIENT_CLI_SOLVE_VECTOR_FILE_H_
#define LETHE_CLIENT_CLI_SOLVE_VECTOR_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/svdd/problem.h"

namespace lethe::cli {

struct VectorCase {
  std::string name;
  std::optional<svdd::MemoryOptions> options;  // always set by the reader
  size_t tokens = 0;
  std::vector<double> keys;    // row-major, tokens x key_dimension
  std::vector<double> values;  // row-major, tokens x value_dimension; zeros when the file has none
  bool has_values = false;
  std::vector<std::vector<double>> queries;
};

// INVALID_ARGUMENT names the case and the field: `cases[2] "grid": keys[3][1]: not a number`.
absl::StatusOr<std::vector<VectorCase>> ParseVectorFile(absl::string_view text);
// Also NOT_FOUND, and RESOURCE_EXHAUSTED above 256 MiB.
absl::StatusOr<std::vector<VectorCase>> ReadVectorFile(const std::string& path);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_SOLVE_VECTOR_FILE_H_
