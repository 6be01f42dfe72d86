// The logs of certificates over HTTP, to be read only: for auditors, monitors and witnesses that
// speak C2SP tlog-tiles and no gRPC.
//
//     GET /v1/tenants/TENANT/log/keys                the log's keys: "FIRST_SEQUENCE VKEY" a line
//     GET /v1/tenants/TENANT/log/checkpoint          the signed note, cosignatures included
//     GET /v1/tenants/TENANT/log/tile/L/N[.p/W]      hashes
//     GET /v1/tenants/TENANT/log/tile/entries/N[.p/W]    log entries
//
// Everything here is what an export holds, and without personal data; but it tells that there is
// such a tenant, and how much it erases. So it is asked who reads it (an eraser or an auditor of
// the tenant), unless whoever runs the server opens it to everybody. Errors: 400 a malformed path,
// 404 no such tenant or tile, 429 too many calls, 503 a tenant that cannot be served. When the
// listener stops, a call that waits for a tenant ends with 503; one that opens a tenant's log takes
// as long as that does, and one that reads it as long as its turn with the tenant's writer.
// Threads: safe. Source: c2sp.org/tlog-tiles, section "APIs".
#ifndef LETHE_SERVER_HTTP_LOG_ROUTES_H_
#define LETHE_SERVER_HTTP_LOG_ROUTES_H_

#include "server/http/router.h"
#include "server/service/service.h"

namespace lethe::http {

// `open`: for everybody. `service` must outlive the routes.
void AddLogRoutes(service::Service* service, bool open, Router& router);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_LOG_ROUTES_H_
