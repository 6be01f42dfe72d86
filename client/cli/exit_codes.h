// What the exit status of `lethe` says.
#ifndef LETHE_CLIENT_CLI_EXIT_CODES_H_
#define LETHE_CLIENT_CLI_EXIT_CODES_H_

namespace lethe::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage =
    1;  // unknown or missing arguments; a destructive verb without --yes
inline constexpr int kExitFile = 2;  // a file cannot be read or written, or its content is bad
inline constexpr int kExitNotVerified = 3;  // a certificate or a backup failed a check
inline constexpr int kExitUnsound = 4;      // the doctor found what is not in order
inline constexpr int kExitJob = 5;          // a job that was watched failed or was cancelled
inline constexpr int kExitRpcBase = 64;     // plus the gRPC code of a failed call

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_EXIT_CODES_H_
