// Bounded reading of what lethe-verify is given. Threads: compatible.
#ifndef LETHE_AUDIT_CLI_INPUT_H_
#define LETHE_AUDIT_CLI_INPUT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lethe::audit::cli {

struct OwnedEntry {
  std::string envelope;
  std::string leaf;
  uint64_t sequence = 0;  // as the input says
};

// A whole file, or standard input for "-". UNAVAILABLE when it cannot be read, RESOURCE_EXHAUSTED
// when it is longer than `limit`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit);

// Calls `consume` for each entry of an exported log in order until it returns false. The path is a
// JSON Lines file (or "-") with {"sequence":n,"envelope":"base64","leaf":"base64"} a line, a folder
// that holds such a file as chain.jsonl, or else one with <sequence>.envelope.json and
// <sequence>.leaf.json. UNAVAILABLE when something cannot be read, INVALID_ARGUMENT when a folder
// has neither or an entry has no such form, with its line or name.
absl::Status ReadChain(const std::string& path,
                       const std::function<bool(const OwnedEntry&)>& consume);

}  // namespace lethe::audit::cli

#endif  // LETHE_AUDIT_CLI_INPUT_H_
