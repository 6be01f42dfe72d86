// The JSON twins of the RPCs with one request and one answer: the same messages, in proto3's JSON
// (json.h), the same rows in the table of access, the same code behind them (server/calls).
//
//     POST /v1/tenants/{tenant}/memories/{memory}:query    {"queries":[{"values":[0.5,1]}]}
//
// The variables of a path are fields of the request, which a body need not repeat and may not
// contradict; GET and DELETE take the other fields from the query (?pageSize=10). docs/http_api.md
// lists them, /openapi.json describes them. Threads: safe.
#ifndef LETHE_SERVER_HTTP_CALL_ROUTES_H_
#define LETHE_SERVER_HTTP_CALL_ROUTES_H_

#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "server/http/router.h"
#include "server/service/service.h"

namespace lethe::http {

// As for a message of gRPC; JSON takes about twice as many bytes for the same numbers.
inline constexpr size_t kMaxJsonBytes = size_t{32} << 20;

struct CallRoute {
  absl::string_view method;
  absl::string_view pattern;
  absl::string_view operation;  // "/lethe.v1.MemoryService/Query"
  absl::string_view summary;
};

// One for each RPC that is no stream.
std::span<const CallRoute> CallRoutes();

// `service` must outlive the routes.
void AddCallRoutes(service::Service* service, Router& router);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_CALL_ROUTES_H_
