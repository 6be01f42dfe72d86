// All that a server says over HTTP: the calls in JSON, the logs, erasure requests and their
// adapters, the document that describes it, and the callbacks that go out.
#ifndef LETHE_SERVER_HTTP_HTTP_SERVER_H_
#define LETHE_SERVER_HTTP_HTTP_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/served_call.h"
#include "server/http/callback_policy.h"
#include "server/http/callback_sender.h"
#include "server/http/dsr_signer.h"
#include "server/http/http_listener.h"
#include "server/http/sombra_token.h"
#include "server/http/tls.h"
#include "server/service/event_log.h"
#include "server/service/service.h"

namespace lethe::http {

struct HttpSettings {
  std::string host;
  uint16_t port = 0;
  std::string public_url;  // what links begin with; empty: as the caller addressed the server
  // Of DsrSigner; without a key nothing is signed and OpenDSR is not served.
  std::string dsr_domain;
  std::string dsr_key;
  std::string dsr_certificate;
  CallbackPolicy callbacks;
  std::string callback_authorities;  // CallbackOptions::authorities
  std::string transcend_key;         // of SombraKey; empty: not looked at
};

// INVALID_ARGUMENT, beginning with the option of lethed, for what cannot go together; reads no
// file.
absl::Status CheckHttpSettings(const HttpSettings& settings);

// Threads: Start and Stop from one thread; the rest is safe.
class HttpServer {
 public:
  // Serves; `tls` null: not encrypted. What the arguments name must outlive it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(service::Service* service,
                                                           const HttpSettings& settings,
                                                           const calls::CallHooks& hooks,
                                                           const TlsContext* tls);
  // As Stop.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const { return listener_->port(); }
  const Router& routes() const { return listener_->routes(); }
  // HttpListener's, and no callback is begun any more.
  void Stop();

 private:
  explicit HttpServer(HttpSettings settings) : settings_(std::move(settings)) {}

  const HttpSettings settings_;
  std::unique_ptr<DsrSigner> signer_;
  std::unique_ptr<SombraKey> transcend_;
  std::unique_ptr<HttpListener> listener_;
  std::unique_ptr<CallbackSender> sender_;
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_HTTP_SERVER_H_
