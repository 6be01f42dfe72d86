// Erasure requests as two privacy platforms send them:
//
//     POST /v1/ketch       a DeleteRequest of Ketch's forwarder; answered with a DeleteResponse
//     POST /v1/transcend   a webhook of Transcend, for one identifier of a person
//
// also under /tenants/{tenant}, or with ?tenant=. Each shows its credentials as every caller does:
// both platforms send a header Authorization that is configured there. A repetition is the same
// request, and tells its state. docs/erasure_requests.md. Threads: safe.
// Source: github.com/ketch-com/ketch-forwarder, api/dsr/v1; docs.transcend.io, "Webhook: New DSR
// job".
#ifndef LETHE_SERVER_HTTP_WEBHOOK_ROUTES_H_
#define LETHE_SERVER_HTTP_WEBHOOK_ROUTES_H_

#include <string>

#include "server/http/erasure_http.h"
#include "server/http/router.h"

namespace lethe::http {

void AddWebhookRoutes(const ErasureHttp& http, Router& router);

inline constexpr char kKetch[] = "ketch";  // the source of its requests

// What Ketch is told of a request, as its response or event. `metadata`: the controller's id that
// the request was made with.
nlohmann::ordered_json KetchStatus(const std::string& base,
                                   const service::ErasureRequestInfo& info,
                                   service::ErasureState state);
// {"uid":..,"tenant":..} from that id.
nlohmann::ordered_json KetchMetadata(const std::string& controller_id);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_WEBHOOK_ROUTES_H_
