// Bounded reading of what lethe-verify is given. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_INPUT_H_
#define LETHE_AUDIT_CLI_INPUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lethe::audit::cli {

// A whole file, or standard input for "-". UNAVAILABLE when it cannot be read, RESOURCE_EXHAUSTED
// when it is longer than `limit`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit);

// INVALID_ARGUMENT that says in which file.
absl::Status InFile(const std::string& path, const absl::Status& status);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_INPUT_H_
