#include "server/http/http_server.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/http/call_routes.h"
#include "server/http/erasure_http.h"
#include "server/http/erasure_routes.h"
#include "server/http/log_routes.h"
#include "server/http/openapi.h"
#include "server/http/opendsr_routes.h"
#include "server/http/webhook_routes.h"

namespace lethe::http {
namespace {

absl::Status Prefixed(const absl::Status& status, absl::string_view option) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", std::string(status.message())));
}

// Null without a key.
absl::StatusOr<std::unique_ptr<DsrSigner>> LoadSigner(const HttpSettings& settings) {
  if (settings.dsr_key.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<DsrSigner>> signer =
      DsrSigner::Load(settings.dsr_domain, settings.dsr_key, settings.dsr_certificate);
  if (!signer.ok()) return Prefixed(signer.status(), "--dsr-key");
  return signer;
}

absl::StatusOr<std::unique_ptr<SombraKey>> LoadTranscend(const HttpSettings& settings) {
  if (settings.transcend_key.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<SombraKey>> key = SombraKey::Load(settings.transcend_key);
  if (!key.ok()) return Prefixed(key.status(), "--transcend-key");
  return key;
}

}  // namespace

absl::Status CheckHttpSettings(const HttpSettings& settings) {
  const int dsr = (settings.dsr_key.empty() ? 0 : 1) + (settings.dsr_certificate.empty() ? 0 : 1) +
                  (settings.dsr_domain.empty() ? 0 : 1);
  if (dsr != 0 && dsr != 3) {
    return absl::InvalidArgumentError(
        "--dsr-key: --dsr-domain, --dsr-key and --dsr-certificate go together");
  }
  const std::string& url = settings.public_url;
  if (!url.empty() &&
      ((!absl::StartsWith(url, "https://") && !absl::StartsWith(url, "http://")) ||
       absl::EndsWith(url, "/") || url.find_first_of(" \t\"<>#?") != std::string::npos)) {
    return absl::InvalidArgumentError(
        "--public-url: must be like https://lethe.example, without a slash at the end");
  }
  if (!settings.callbacks.hosts.empty() && url.empty()) {
    return absl::InvalidArgumentError(
        "--callback-host: wants --public-url, since callbacks hold links");
  }
  LETHE_RETURN_IF_ERROR(LoadSigner(settings).status());
  return LoadTranscend(settings).status();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(service::Service* service,
                                                              const HttpSettings& settings,
                                                              const calls::CallHooks& hooks,
                                                              const TlsContext* tls) {
  LETHE_RETURN_IF_ERROR(CheckHttpSettings(settings));
  std::unique_ptr<HttpServer> server(new HttpServer(settings));
  LETHE_ASSIGN_OR_RETURN(server->signer_, LoadSigner(settings));
  LETHE_ASSIGN_OR_RETURN(server->transcend_, LoadTranscend(settings));
  server->listener_ = std::make_unique<HttpListener>(
      HttpOptions{.host = settings.host, .port = settings.port, .hooks = hooks, .tls = tls});
  Router& router = server->listener_->routes();
  const ErasureHttp erasure = {.service = service,
                               .callbacks = &server->settings_.callbacks,
                               .signer = server->signer_.get(),
                               .public_url = settings.public_url};
  AddLogRoutes(service, router);
  AddCallRoutes(service, router);
  AddErasureRoutes(erasure, router);
  if (server->signer_ != nullptr) AddOpenDsrRoutes(erasure, router);
  AddWebhookRoutes(erasure, server->transcend_.get(), router);
  AddOpenApiRoute(router);
  LETHE_RETURN_IF_ERROR(server->listener_->Start());
  server->sender_ = std::make_unique<CallbackSender>(
      service, CallbackOptions{.policy = &server->settings_.callbacks,
                               .signer = server->signer_.get(),
                               .public_url = settings.public_url,
                               .authorities = settings.callback_authorities,
                               .log = hooks.log});
  server->sender_->Start();
  return server;
}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Stop() {
  if (listener_ != nullptr) listener_->Stop();
  if (sender_ != nullptr) sender_->Stop();
}

}  // namespace lethe::http
