// Small files that decide about access: the access file, keys of issuers, TLS keys.
#ifndef LETHE_SERVER_ACCESS_GUARDED_FILE_H_
#define LETHE_SERVER_ACCESS_GUARDED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace lethe::access {

// Whether others may read it.
enum class Secrecy : uint8_t { kPublic, kPrivate };

// The file's bytes, at most `max_bytes`. Links are followed, since mounted secrets are links.
// FAILED_PRECONDITION for what is no regular file, for one that belongs neither to the process's
// user nor to root (its owner can change it), for one that its group or others can write, and for a
// private one that others can read (its group may: that is how a service gets a secret that root
// put there); RESOURCE_EXHAUSTED for a larger one. Errors name the path and hold no byte of the
// file. Threads: safe.
absl::StatusOr<std::string> ReadGuardedFile(const std::string& path,
                                            size_t max_bytes,
                                            Secrecy secrecy);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_GUARDED_FILE_H_
