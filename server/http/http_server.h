// All that a server says over HTTP: the calls in JSON, the logs, erasure requests and their
// adapters, and the document that describes it.
#ifndef LETHE_SERVER_HTTP_HTTP_SERVER_H_
#define LETHE_SERVER_HTTP_HTTP_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/calls/served_call.h"
#include "server/http/erasure_channel.h"
#include "server/http/http_listener.h"
#include "server/http/tls.h"
#include "server/service/service.h"

namespace lethe::http {

struct HttpSettings {
  std::string host;
  uint16_t port = 0;
  // The logs of certificates are for everybody, also where there is access control.
  bool public_logs = false;
};

// Threads: Start and Stop from one thread; the rest is safe.
class HttpServer {
 public:
  // Serves; `tls` null: not encrypted. What the arguments name must outlive it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(service::Service* service,
                                                           const HttpSettings& settings,
                                                           const ErasureChannel& erasure,
                                                           const calls::CallHooks& hooks,
                                                           const TlsContext* tls);
  // As Stop, with some seconds.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const { return listener_->port(); }
  const Router& routes() const { return listener_->routes(); }
  // HttpListener's.
  void Stop(absl::Duration grace) { listener_->Stop(grace); }

 private:
  HttpServer() = default;

  std::unique_ptr<HttpListener> listener_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_SERVER_H_
