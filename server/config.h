// The settings of lethed, as the rest of the server sees them. Where they come from and what they
// are called outside is in options.h, the order of precedence in command_line.h.
#ifndef LETHE_SERVER_CONFIG_H_
#define LETHE_SERVER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "audit/witness.h"
#include "core/jobs/job_config.h"
#include "core/program/event_log.h"
#include "server/service/quotas.h"

namespace lethe::server {

// A member's default here is the option's default; its help is in options.cc.
struct Config {
  std::string data = "./var/lethe";
  // Empty for "vault" in the data folder.
  std::string vault;
  std::string listen = "127.0.0.1:7421";
  // Empty for nowhere.
  std::string http_listen;
  // What links in answers and callbacks begin with; empty: as the caller addressed the server.
  std::string public_url;
  // What is signed about erasure requests; all three, or none.
  std::string dsr_domain;
  std::string dsr_key;
  std::string dsr_certificate;
  // Hosts that callbacks may go to; server/http/callback_policy.h.
  std::vector<std::string> callback_hosts = {};
  bool callback_private_networks = false;
  bool callback_insecure_loopback = false;
  // Empty: the system's authorities.
  std::string callback_ca;
  // Empty: what Transcend signs is not looked at.
  std::string transcend_key;
  // The files of TLS; without a certificate none.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  bool tls_client_certificates_required = true;
  // The access file; empty: no access control.
  std::string access;
  // The logs of certificates are for everybody, with an access file too; without one they are.
  bool public_logs = false;
  // Neither TLS nor access control are wanted, and only this machine is served.
  bool insecure_loopback = false;
  // Empty for "operations.log" in the data folder.
  std::string operations_log;
  // Empty for none.
  std::string port_file;
  std::string origin = "lethe.local";
  bool refit_on_forget = false;
  std::vector<audit::WitnessKey> witnesses = {};
  // Absent: what the limit on open files allows.
  std::optional<uint64_t> max_open_tenants = {};
  // Of gRPC; absent: what the limit on open files allows.
  std::optional<uint64_t> max_connections = {};
  // Bytes; absent: half of what there is.
  std::optional<uint64_t> memory_limit = {};
  // Bytes; 0 for none.
  uint64_t ballast = uint64_t{64} << 20;
  // After the receipt of an erasure request.
  uint64_t erasure_due_days = 30;
  // Of training jobs.
  absl::Duration job_lease = absl::Seconds(30);
  uint64_t job_file_limit = jobs::kMaxFileBytes;  // a checkpoint, an artefact
  program::LogLevel log_level = program::LogLevel::kInfo;
  // Empty for nowhere.
  std::string metrics_listen;
  bool metrics_beyond_loopback = false;
  uint64_t metrics_tenants = 0;
  service::QuotaSettings quotas = {};
  absl::Duration slow_call = absl::Seconds(1);
  absl::Duration drain_delay = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(25);
  // 0: none.
  absl::Duration max_connection_age = absl::ZeroDuration();
};

// What no option can say by itself. INVALID_ARGUMENT begins with the flag: an address that needs
// TLS and access control and has them not, half of the files of TLS, what is for HTTP where that is
// not served. Whether the machine can keep the limits is for limits.h to say.
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
