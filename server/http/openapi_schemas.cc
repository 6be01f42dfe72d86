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
  "ErasureReceived": {
    "type": "object",
    "required": ["id", "status", "status_url", "received_time", "expected_completion_time",
      "due_time"],
    "properties": {
      "id": {"type": "string"},
      "status": {"$ref": "#/components/schemas/ErasureStatusName"},
      "status_url": {"type": "string", "format": "uri"},
      "received_time": {"type": "string", "format": "date-time"},
      "expected_completion_time": {"type": "string", "format": "date-time"},
      "due_time": {"type": "string", "format": "date-time"}
    }
  },
  "ErasureStatusName": {
    "type": "string",
    "enum": ["pending", "in_progress", "completed", "denied", "cancelled", "failed"]
  },
  "ErasureStatus": {
    "type": "object",
    "required": ["id", "tenant", "status", "status_url", "received_time", "due_time", "counts",
      "stores", "certificates"],
    "properties": {
      "id": {"type": "string"},
      "tenant": {"type": "string"},
      "status": {"$ref": "#/components/schemas/ErasureStatusName"},
      "status_url": {"type": "string", "format": "uri"},
      "source": {"type": "string"},
      "regulation": {"type": "string"},
      "controller_id": {"type": "string"},
      "received_time": {"type": "string", "format": "date-time"},
      "expected_completion_time": {"type": "string", "format": "date-time"},
      "due_time": {"type": "string", "format": "date-time"},
      "extended": {"type": "boolean"},
      "begin_time": {"type": "string"},
      "end_time": {"type": "string"},
      "counts": {
        "type": "object",
        "required": ["matched", "erased", "not_found", "already_erased", "held"],
        "additionalProperties": {"type": "integer"}
      },
      "stores": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "store": {"type": "string"},
            "level": {"type": "string"},
            "evidence": {"type": "string"}
          }
        }
      },
      "certificate_id": {"type": "string"},
      "certificates": {
        "type": "array",
        "items": {
          "type": "object",
          "properties": {
            "id": {"type": "string"},
            "memory": {"type": "string"},
            "url": {"type": "string", "format": "uri"},
            "sha256": {"type": "string"},
            "shredded_id": {"type": "string"}
          }
        }
      },
      "hold_id": {"type": "string"},
      "failure": {"type": "string"}
    }
  },
  "OpenDsrRequest": {
    "type": "object",
    "required": ["subject_request_id", "subject_request_type", "submitted_time",
      "subject_identities"],
    "properties": {
      "regulation": {"type": "string"},
      "subject_request_id": {"type": "string", "format": "uuid"},
      "subject_request_type": {"const": "erasure"},
      "submitted_time": {"type": "string", "format": "date-time"},
      "subject_identities": {
        "type": "array",
        "minItems": 1,
        "maxItems": 32,
        "items": {
          "type": "object",
          "required": ["identity_type", "identity_value", "identity_format"],
          "properties": {
            "identity_type": {"type": "string"},
            "identity_value": {"type": "string"},
            "identity_format": {"enum": ["raw", "sha256", "sha1", "md5"]}
          }
        }
      },
      "api_version": {"type": "string"},
      "status_callback_urls": {
        "type": "array",
        "maxItems": 4,
        "items": {"type": "string", "format": "uri"}
      },
      "extensions": {"type": "object"}
    }
  },
  "OpenDsrReceived": {
    "type": "object",
    "required": ["controller_id", "expected_completion_time", "received_time", "encoded_request",
      "subject_request_id"],
    "properties": {
      "controller_id": {"type": "string"},
      "expected_completion_time": {"type": "string", "format": "date-time"},
      "received_time": {"type": "string", "format": "date-time"},
      "encoded_request": {"type": "string", "contentEncoding": "base64"},
      "subject_request_id": {"type": "string", "format": "uuid"},
      "extensions": {"type": "object"}
    }
  },
  "OpenDsrStatus": {
    "type": "object",
    "required": ["controller_id", "expected_completion_time", "subject_request_id",
      "request_status"],
    "properties": {
      "controller_id": {"type": "string"},
      "expected_completion_time": {"type": "string", "format": "date-time"},
      "subject_request_id": {"type": "string", "format": "uuid"},
      "request_status": {"enum": ["pending", "in_progress", "completed", "cancelled"]},
      "api_version": {"type": "string"},
      "results_url": {"type": "string", "format": "uri"},
      "results_count": {"type": "integer"},
      "extensions": {"type": "object"}
    }
  },
  "OpenDsrCancelled": {
    "type": "object",
    "required": ["controller_id", "subject_request_id", "received_time"],
    "properties": {
      "controller_id": {"type": "string"},
      "subject_request_id": {"type": "string", "format": "uuid"},
      "received_time": {"type": "string", "format": "date-time"},
      "api_version": {"type": "string"}
    }
  },
  "OpenDsrDiscovery": {
    "type": "object",
    "required": ["api_version", "supported_identities", "supported_subject_request_types",
      "processor_certificate"]
  },
  "OpenDsrError": {
    "type": "object",
    "required": ["error"],
    "properties": {
      "error": {
        "type": "object",
        "required": ["code", "message", "errors"],
        "properties": {
          "code": {"type": "integer"},
          "message": {"type": "string"},
          "errors": {"type": "array", "items": {"type": "object"}}
        }
      }
    }
  },
  "KetchRequest": {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "request"],
    "properties": {
      "apiVersion": {"const": "dsr/v1"},
      "kind": {"const": "DeleteRequest"},
      "metadata": {"type": "object", "required": ["uid", "tenant"]},
      "request": {"type": "object", "required": ["identities"]}
    }
  },
  "KetchResponse": {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "response"],
    "properties": {
      "apiVersion": {"const": "dsr/v1"},
      "kind": {"const": "DeleteResponse"},
      "metadata": {"type": "object"},
      "response": {"type": "object", "required": ["status", "requestID"]}
    }
  },
  "TranscendRequest": {
    "type": "object",
    "required": ["type", "extras"],
    "properties": {
      "type": {"const": "ERASURE"},
      "extras": {"type": "object", "required": ["profile", "request"]}
    }
  },
  "TranscendResponse": {
    "type": "object",
    "required": ["id", "status", "status_url"],
    "properties": {
      "id": {"type": "string"},
      "status": {"$ref": "#/components/schemas/ErasureStatusName"},
      "status_url": {"type": "string", "format": "uri"}
    }
  },
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
