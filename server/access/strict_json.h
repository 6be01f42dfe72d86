// JSON of others, read so that nobody else can read something different in it.
#ifndef LETHE_SERVER_ACCESS_STRICT_JSON_H_
#define LETHE_SERVER_ACCESS_STRICT_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::access {

// An object; no key twice in any object of it, at most 16 deep. INVALID_ARGUMENT otherwise.
// Threads: safe.
absl::StatusOr<nlohmann::json> ParseStrictObject(absl::string_view text);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_STRICT_JSON_H_
