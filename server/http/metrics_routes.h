// GET /metrics: what the server shows of itself, in the text format of Prometheus.
#ifndef LETHE_SERVER_HTTP_METRICS_ROUTES_H_
#define LETHE_SERVER_HTTP_METRICS_ROUTES_H_

#include <functional>
#include <string>

#include "server/http/router.h"

namespace lethe::http {

// Before the listener starts. `text` is called from its threads.
void AddMetricsRoute(std::function<std::string()> text, Router& router);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_METRICS_ROUTES_H_
