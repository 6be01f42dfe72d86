// The OpenAPI 3.1 document of a router's routes: paths from their patterns, schemas from the
// messages of the RPCs that they are twins of, who may call from the table of access. So it cannot
// say other than what is served. Threads: safe.
#ifndef LETHE_SERVER_HTTP_OPENAPI_H_
#define LETHE_SERVER_HTTP_OPENAPI_H_

#include <string>

#include "server/http/router.h"

namespace lethe::http {

// In lines, with a line break at the end. The same routes give the same bytes.
std::string OpenApiDocument(const Router& router);

// GET /openapi.json, over all routes that there are by then: to be added last.
void AddOpenApiRoute(Router& router);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_OPENAPI_H_
