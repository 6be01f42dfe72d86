#include "server/http/metrics_routes.h"

#include <utility>

#include "core/base/status_macros.h"

namespace lethe::http {

void AddMetricsRoute(std::function<std::string()> text, Router& router) {
  router.Add({.method = "GET",
              .pattern = "/metrics",
              .operation = "GET /metrics",
              .handler = [text = std::move(text)](const HttpRequest& /*request*/,
                                                  HttpCall& call) -> absl::StatusOr<HttpResponse> {
                LETHE_RETURN_IF_ERROR(call.Admit("", ""));
                return HttpResponse{.type = "text/plain; version=0.0.4; charset=utf-8",
                                    .body = text()};
              }});
}

}  // namespace lethe::http
