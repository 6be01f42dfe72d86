// The logs of certificates over HTTP, to be read only: for auditors, monitors and witnesses that
// speak C2SP tlog-tiles and no gRPC.
//
//     GET /v1/tenants/TENANT/log/keys                the log's keys: "FIRST_SEQUENCE VKEY" a line
//     GET /v1/tenants/TENANT/log/checkpoint          the signed note, cosignatures included
//     GET /v1/tenants/TENANT/log/tile/L/N[.p/W]      hashes
//     GET /v1/tenants/TENANT/log/tile/entries/N[.p/W]    log entries
//
// Everything here is what an export holds: public by design, and without personal data. Errors are
// one line of text: 400 a malformed path, 404 no such tenant or tile, 405 another method, 429 too
// many calls, 503 a tenant that cannot be served. Threads: safe; at most kThreads calls at a time.
// Source: c2sp.org/tlog-tiles, section "APIs".
#ifndef LETHE_SERVER_HTTP_LOG_SERVER_H_
#define LETHE_SERVER_HTTP_LOG_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/service/service.h"

namespace lethe::http {

class LogServer {
 public:
  // Listens on host and port (0: the kernel chooses) and serves. UNAVAILABLE when it cannot listen
  // there. `service` must outlive the server. Not encrypted.
  static absl::StatusOr<std::unique_ptr<LogServer>> Start(service::Service* service,
                                                          const std::string& host,
                                                          uint16_t port);
  // As Stop.
  ~LogServer();
  LogServer(const LogServer&) = delete;
  LogServer& operator=(const LogServer&) = delete;

  uint16_t port() const;
  // Takes no new connections and returns when no call runs. A call that waits for a tenant ends
  // with 503; one that opens a tenant's log takes as long as that does, and one that reads it as
  // long as its turn with the tenant's writer. Sending takes seconds at most: an answer (256 log
  // entries at the most, 110 KB) fits into a socket's buffer, and a silent connection is closed.
  void Stop();

 private:
  struct Impl;
  explicit LogServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_LOG_SERVER_H_
