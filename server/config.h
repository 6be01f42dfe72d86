// The settings of lethed and where they come from: flags, then environment variables, then
// defaults.
#ifndef LETHE_SERVER_CONFIG_H_
#define LETHE_SERVER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/witness.h"
#include "server/service/event_log.h"

namespace lethe::server {

struct Config {
  // --data, LETHE_DATA: the folder of everything the server keeps; made when missing.
  std::string data = "./var/lethe";
  // --vault, LETHE_VAULT: the folder of the keys of all rows; made with a new data folder alone;
  // empty for "vault" in the data folder.
  std::string vault;
  // --listen, LETHE_LISTEN: "host:port" or "[ipv6]:port"; port 0 lets the kernel choose.
  std::string listen = "127.0.0.1:7421";
  // --http-listen, LETHE_HTTP_LISTEN: where the logs of certificates can be read over HTTP; empty
  // for nowhere.
  std::string http_listen;
  // --allow-insecure-non-loopback, LETHE_ALLOW_INSECURE_NON_LOOPBACK.
  bool allow_insecure_non_loopback = false;
  // --port-file, LETHE_PORT_FILE: receives the port once it listens; empty for none.
  std::string port_file;
  // --origin, LETHE_ORIGIN: the first part of the name of every certificate log made from now on.
  std::string origin = "lethe.local";
  // --verify-forget, LETHE_VERIFY_FORGET: whether each erasure is also compared with a cold refit.
  bool refit_on_forget = false;
  // --witness, LETHE_WITNESS (separated by white space): the keys whose cosignatures are taken.
  std::vector<audit::WitnessKey> witnesses = {};
  // --max-open-tenants, LETHE_MAX_OPEN_TENANTS; absent: what the limit on open files allows.
  std::optional<uint64_t> max_open_tenants = {};
  // --memory-limit, LETHE_MEMORY_LIMIT: bytes that open tenants may take; absent: half of what
  // there is.
  std::optional<uint64_t> memory_limit = {};
  // --ballast, LETHE_BALLAST: bytes on the disk that are kept for erasures; 0 for none.
  uint64_t ballast = uint64_t{64} << 20;
  // --log-level, LETHE_LOG_LEVEL: lines of this level and above are written.
  service::LogLevel log_level = service::LogLevel::kInfo;
};

// What the command line asks for besides running: --help and --version print and end.
struct PrintAndExit {
  std::string text;
};

// Parses the arguments after the program's name and the environment of the process.
// INVALID_ARGUMENT names the flag. The result has passed Validate.
absl::StatusOr<std::variant<Config, PrintAndExit>> ParseCommandLine(
    const std::vector<std::string>& arguments);

// INVALID_ARGUMENT names the flag: a malformed address or origin, or an address beyond loopback
// without the flag that allows it. Whether the machine can keep the limits is TenantLimits's to say
// (limits.h).
absl::Status Validate(const Config& config);

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};
// INVALID_ARGUMENT names `flag`.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view flag, absl::string_view address);

// True for 127.0.0.0/8, ::1 and "localhost". Other names are taken for reachable from elsewhere.
bool IsLoopback(absl::string_view host);

}  // namespace lethe::server

#endif  // LETHE_SERVER_CONFIG_H_
