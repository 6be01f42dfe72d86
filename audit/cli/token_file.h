// The token files of `lethe insert`, as lethe-verify reads them. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_TOKEN_FILE_H_
#define LETHE_AUDIT_CLI_TOKEN_FILE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/cli/token_source.h"

namespace lethe::audit::cli {

struct TokenFileOptions {
  std::string path;
  std::string format;  // csv, ndjson; empty: by the name
  std::string id_columns;
  std::string key_columns;
  std::string value_columns;
  std::string subject_column;
  std::string label_columns;
};

// --tokens and what describes its columns.
CLI::Option* AddTokenFileOptions(CLI::App& command,
                                 TokenFileOptions& options,
                                 const std::string& what);

// Calls `take` with each token, in the order of the file, until it fails. UNAVAILABLE when the file
// cannot be read, INVALID_ARGUMENT for a line that is no token.
absl::Status ReadTokens(const TokenFileOptions& options,
                        absl::FunctionRef<absl::Status(::lethe::cli::TokenSource::Item item)> take);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_TOKEN_FILE_H_
