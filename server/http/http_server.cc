#include "server/http/http_server.h"

#include "core/base/status_macros.h"
#include "server/http/call_routes.h"
#include "server/http/erasure_routes.h"
#include "server/http/log_routes.h"
#include "server/http/openapi.h"
#include "server/http/opendsr_routes.h"
#include "server/http/webhook_routes.h"

namespace lethe::http {

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(service::Service* service,
                                                              const HttpSettings& settings,
                                                              const ErasureChannel& erasure,
                                                              const calls::CallHooks& hooks,
                                                              const TlsContext* tls) {
  std::unique_ptr<HttpServer> server(new HttpServer);
  server->listener_ = std::make_unique<HttpListener>(
      HttpOptions{.host = settings.host, .port = settings.port, .hooks = hooks, .tls = tls});
  Router& router = server->listener_->routes();
  const ErasureHttp http = erasure.HttpOf(service);
  AddLogRoutes(service, settings.public_logs, router);
  AddCallRoutes(service, router);
  AddErasureRoutes(http, router);
  if (http.dsr != nullptr) AddOpenDsrRoutes(http, router);
  AddWebhookRoutes(http, router);
  AddOpenApiRoute(router);
  LETHE_RETURN_IF_ERROR(server->listener_->Start());
  return server;
}

HttpServer::~HttpServer() = default;

}  // namespace lethe::http
