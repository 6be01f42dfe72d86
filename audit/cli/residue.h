// `lethe-verify residue`: whether traces of given things stand in files. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_RESIDUE_H_
#define LETHE_AUDIT_CLI_RESIDUE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "audit/cli/token_file.h"
#include "audit/trace_forms.h"
#include "audit/trace_search.h"

namespace lethe::audit::cli {

// Something was found; with --expect-found or --control: something was not.
inline constexpr int kResidue = 8;
// Files that could not be read or that changed, and nothing of the above.
inline constexpr int kIncomplete = 9;

struct ResidueOptions {
  std::vector<std::string> paths;
  std::vector<std::string> texts;
  std::string texts_file;
  std::vector<std::string> vectors;
  std::string vectors_file;
  TokenFileOptions tokens;
  TraceRules rules;
  size_t list = 100;
  std::string control;
  bool expect_found = false;
  bool live = false;
  std::string output = "text";
  bool quiet = false;

  bool json() const { return output == "json"; }
};

void AddResidueOptions(CLI::App& command, ResidueOptions& options);

// What the options name. `things` are at least one.
struct ResidueThings {
  std::vector<TraceThing> things;
  // Parts of tokens that say too little to be looked for: "token 3 id", why.
  std::vector<std::pair<std::string, std::string>> left_out;
};
// INVALID_ARGUMENT "text 3 is shorter ..."; UNAVAILABLE when a file cannot be read. No message
// repeats a thing.
absl::StatusOr<ResidueThings> ReadResidueThings(const ResidueOptions& options);

int RunResidue(const ResidueOptions& options);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_RESIDUE_H_
