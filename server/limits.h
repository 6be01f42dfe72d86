// What this process may use, and the limits on open tenants that follow from it.
//
// Errors: INVALID_ARGUMENT names the flag. Threads: functions without state of their own.
// Source: getrlimit(2); the kernel's Documentation/admin-guide/cgroup-v2.rst (memory.max) and
// cgroup-v1/memory.rst (memory.limit_in_bytes).
#ifndef LETHE_SERVER_LIMITS_H_
#define LETHE_SERVER_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/tenant_registry.h"

namespace lethe::server {

// "67108864", "64MiB", "4GiB", "4G"; units KiB, MiB, GiB, TiB, or their first letter, all powers of
// 1,024.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view flag, absl::string_view text);

// Raises the soft limit on open files to the hard one. The limit that holds then.
uint64_t RaiseOpenFiles();

// Bytes that this process may take: of the machine, or of its cgroup and those above it where that
// is less. `root` stands for "/" in tests.
uint64_t MemoryOfMachine(const std::string& root = "");

// Limits for so many files and bytes. Where the settings are absent: half of the files go to
// tenants, 1,000 tenants at most; half of the memory to what they hold. Refused: no tenant at all,
// more tenants than there are files for, less than 64 MiB, more memory than there is.
// `http_connections`: how many the HTTP server takes, 0 where there is none.
absl::StatusOr<service::RegistryLimits> TenantLimits(std::optional<uint64_t> max_open_tenants,
                                                     std::optional<uint64_t> memory_limit,
                                                     uint64_t open_files,
                                                     uint64_t http_connections,
                                                     uint64_t memory);

// Connections of gRPC that are served at a time: what is asked for, or an eighth of the open files,
// 16 to 4,096 and not more than so many open tenants leave. Refused: none, and more than they
// leave.
absl::StatusOr<size_t> ConnectionLimit(std::optional<uint64_t> max_connections,
                                       uint64_t open_files,
                                       uint64_t http_connections,
                                       uint64_t open_tenants);

}  // namespace lethe::server

#endif  // LETHE_SERVER_LIMITS_H_
