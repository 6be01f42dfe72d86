// The schemas of the OpenAPI document that no message of an RPC has. Threads: safe.
#ifndef LETHE_SERVER_HTTP_OPENAPI_SCHEMAS_H_
#define LETHE_SERVER_HTTP_OPENAPI_SCHEMAS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace lethe::http {

// By name.
const std::map<std::string, nlohmann::ordered_json>& ExtraSchemas();

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_OPENAPI_SCHEMAS_H_
