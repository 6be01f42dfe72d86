#include "server/http/openapi_schemas.h"

namespace lethe::http {
namespace {

constexpr char kSchemas[] = R"json({
  "Double": {
    "oneOf": [
      {"type": "number", "format": "double"},
      {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
    ]
  },
  "OpenApi": {"type": "object", "required": ["openapi", "info", "paths"]},
  "Error": {
    "type": "object",
    "required": ["error"],
    "properties": {
      "error": {
        "type": "object",
        "required": ["code", "status", "message", "details"],
        "properties": {
          "code": {"type": "integer"},
          "status": {"type": "string"},
          "message": {"type": "string"},
          "details": {"type": "array", "items": {"type": "object", "required": ["@type"]}}
        }
      }
    }
  }
})json";

}  // namespace

const std::map<std::string, nlohmann::ordered_json>& ExtraSchemas() {
  static const auto& schemas = *new std::map<std::string, nlohmann::ordered_json>(
      nlohmann::ordered_json::parse(kSchemas).get<std::map<std::string, nlohmann::ordered_json>>());
  return schemas;
}

}  // namespace lethe::http
