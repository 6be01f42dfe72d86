// The resource of an erasure request, for controllers and tools that poll:
//
//     POST   /v1/erasure-requests                   202; Idempotency-Key: KEY
//     GET    /v1/erasure-requests/{id}              state, counts, levels, certificates
//     DELETE /v1/erasure-requests/{id}              202: cancelled, while it was pending
//     GET    /v1/erasure-requests/{id}/certificate  the certificates themselves
//
// An id is "TENANT.ID". What is sent is the message of the RPC; docs/erasure_requests.md has the
// rest. Threads: safe.
#ifndef LETHE_SERVER_HTTP_ERASURE_ROUTES_H_
#define LETHE_SERVER_HTTP_ERASURE_ROUTES_H_

#include "server/http/erasure_http.h"
#include "server/http/router.h"

namespace lethe::http {

void AddErasureRoutes(const ErasureHttp& http, Router& router);

// How the state of a request is told, to whoever asks and to whoever wants to be told. `base`: what
// its links begin with. `state`: as it was, where that is another one.
nlohmann::ordered_json ErasureStatus(const std::string& base,
                                     const service::ErasureRequestInfo& info,
                                     service::ErasureState state);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_ERASURE_ROUTES_H_
