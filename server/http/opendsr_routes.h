// Erasure requests as OpenDSR has them, under the three names that it has had:
//
//     POST   /v1/opendsr_requests          201, signed; also opengdpr_ and opencompliance_requests
//     GET    /v1/opendsr_requests/{id}     the state, signed; {id} is the controller's
//     DELETE /v1/opendsr_requests/{id}     202, signed
//     GET    /v1/discovery                 what is supported, and where the certificate is
//     GET    /v1/discovery/certificate.pem
//
// The tenant stands in the path before all that (/tenants/clinic/v1/opendsr_requests), in
// `extensions`.<our domain>.`tenant` of a POST, or in the query (?tenant=clinic). Headers are named
// as the path is: X-OpenDSR-Signature, X-OpenGDPR-Signature, X-OpenCompliance-Signature. Errors
// have OpenDSR's form. docs/erasure_requests.md says how the states are told. Threads: safe.
// Source: github.com/opengdpr/OpenDSR, specification.md.
#ifndef LETHE_SERVER_HTTP_OPENDSR_ROUTES_H_
#define LETHE_SERVER_HTTP_OPENDSR_ROUTES_H_

#include "server/http/erasure_http.h"
#include "server/http/router.h"

namespace lethe::http {

// Requires ErasureHttp::dsr. While it cannot sign, these answer UNAVAILABLE.
void AddOpenDsrRoutes(const ErasureHttp& http, Router& router);

// One of the three, which is also the source of the requests that came in by it: "opendsr".
bool IsOpenDsr(absl::string_view source);
// "X-OpenDSR-" for "opendsr".
std::string OpenDsrHeaderPrefix(absl::string_view source);

// The state of a request in OpenDSR's words: completed, pending and in_progress as they are; denied
// and failed, which it does not know, are cancelled there and said by `extensions`.
nlohmann::ordered_json OpenDsrStatus(const std::string& base,
                                     const std::string& domain,
                                     const service::ErasureRequestInfo& info,
                                     service::ErasureState state,
                                     const std::string& subject_request_id);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_OPENDSR_ROUTES_H_
