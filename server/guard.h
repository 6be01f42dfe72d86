// What stands between lethed and its callers, as the settings say: the access file, the files of
// TLS, the operations log. Threads: compatible; what it gives out is safe.
#ifndef LETHE_SERVER_GUARD_H_
#define LETHE_SERVER_GUARD_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/program/event_log.h"
#include "grpcpp/security/server_credentials.h"
#include "server/access/access.h"
#include "server/access/gate.h"
#include "server/access/operations_log.h"
#include "server/config.h"
#include "server/http/tls.h"
#include "server/lifecycle.h"
#include "server/reload.h"
#include "server/service/service.h"

namespace lethe::server {

class Guard {
 public:
  // Reads the access file, looks at the files of TLS and at the operations log, where the settings
  // name one; changes nothing and starts no thread.
  // Errors begin with the flag.
  static absl::StatusOr<std::unique_ptr<Guard>> Read(const Config& config);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Opens the operations log, which may take room from the service's ballast, and follows the files
  // of TLS from here on. Says in the log where callers are not kept out. Once; both outlive this.
  absl::Status Open(service::Service* service, program::EventLog* log);
  // The rest requires Open.
  const access::Gate* gate() const { return &*gate_; }
  // Null without TLS.
  std::shared_ptr<grpc::ServerCredentials> grpc_credentials() const;
  const http::TlsContext* http_tls() const { return http_tls_.get(); }
  // The access file and the files of TLS are read anew with the settings, by the paths of the
  // start.
  void AddTo(Reloader& reloader);

 private:
  explicit Guard(const Config& config) : config_(config) {}
  absl::Status CheckTls() const;
  void FollowTls();

  const Config config_;
  program::EventLog* log_ = nullptr;
  std::unique_ptr<access::Access> access_;  // null without an access file
  std::unique_ptr<access::OperationsLog> operations_;
  std::optional<access::Gate> gate_;
  std::unique_ptr<http::TlsContext> http_tls_;  // null without TLS
  std::optional<Periodically> follow_tls_;      // last: its thread uses the rest
};

}  // namespace lethe::server

#endif  // LETHE_SERVER_GUARD_H_
