// What grpc.health.v1 says of a server.
#ifndef LETHE_CLIENT_CLI_HEALTH_H_
#define LETHE_CLIENT_CLI_HEALTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/options.h"

namespace lethe::cli {

// "SERVING", "NOT_SERVING" or "UNKNOWN", of the server or, where `service` is not empty, of that
// service, whose name has at most 127 bytes. One try, since whoever asks wants to know of this
// moment. Errors: those of the call, UNAVAILABLE where nobody listens. Threads: safe.
absl::StatusOr<std::string> CheckHealth(const client::Options& options, const std::string& service);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_HEALTH_H_
