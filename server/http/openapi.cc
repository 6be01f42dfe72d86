#include "server/http/openapi.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/access/methods.h"
#include "server/http/openapi_schemas.h"

namespace lethe::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;
using Json = nlohmann::ordered_json;

// The RPC whose messages the route takes and gives; null where its schemas say otherwise.
const MethodDescriptor* RpcOf(const Route& route) {
  if (!absl::StartsWith(route.operation, "/") || !route.schemas.answer.empty()) return nullptr;
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(route.operation.substr(1), {{"/", "."}}));
}

std::string SchemaName(const Descriptor& message) {
  return std::string(absl::StripPrefix(message.full_name(), "lethe.v1."));
}

constexpr absl::string_view kSchemas = "#/components/schemas/";

Json Reference(const std::string& name) { return {{"$ref", absl::StrCat(kSchemas, name)}}; }

// Collects the schemas of messages, each once.
class Schemas {
 public:
  Json Of(const Descriptor& message) {
    const std::string name = SchemaName(message);
    if (known_.insert(name).second) {
      Json properties = Json::object();
      for (int i = 0; i < message.field_count(); ++i) {
        const FieldDescriptor& field = *message.field(i);
        properties[field.json_name()] = Field(field);
      }
      all_[name] = {{"type", "object"},
                    {"properties", std::move(properties)},
                    {"additionalProperties", false}};
    }
    return Reference(name);
  }
  // One of openapi_schemas.h, or a message.
  Json Named(const std::string& name) {
    const Descriptor* message =
        google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName("lethe.v1." +
                                                                                  name);
    if (message != nullptr) return Of(*message);
    if (known_.insert(name).second) {
      const Json& schema = ExtraSchemas().at(name);
      all_[name] = schema;
      FollowReferences(schema);
    }
    return Reference(name);
  }
  Json Field(const FieldDescriptor& field) {
    if (field.is_map()) {
      return {{"type", "object"},
              {"additionalProperties", Single(*field.message_type()->map_value())}};
    }
    Json one = Single(field);
    if (!field.is_repeated()) return one;
    return {{"type", "array"}, {"items", std::move(one)}};
  }
  // By name.
  Json All() const { return Json(all_); }

 private:
  void FollowReferences(const Json& schema) {
    if (!schema.is_structured()) return;
    for (const auto& [name, value] : schema.items()) {
      if (name == "$ref" && value.is_string()) {
        Named(std::string(absl::StripPrefix(value.get<std::string>(), kSchemas)));
      }
      FollowReferences(value);
    }
  }
  Json Single(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return {{"type", "boolean"}};
      case FieldDescriptor::CPPTYPE_INT32:
        return {{"type", "integer"}, {"format", "int32"}};
      case FieldDescriptor::CPPTYPE_UINT32:
        return {{"type", "integer"}, {"format", "int64"}, {"minimum", 0}, {"maximum", UINT32_MAX}};
      case FieldDescriptor::CPPTYPE_INT64:
        return {{"type", "string"}, {"format", "int64"}, {"pattern", "^-?[0-9]+$"}};
      case FieldDescriptor::CPPTYPE_UINT64:
        return {{"type", "string"}, {"format", "uint64"}, {"pattern", "^[0-9]+$"}};
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Named("Double");
      case FieldDescriptor::CPPTYPE_ENUM: {
        Json names = Json::array();
        for (int i = 0; i < field.enum_type()->value_count(); ++i) {
          names.push_back(field.enum_type()->value(i)->name());
        }
        return {{"type", "string"}, {"enum", std::move(names)}};
      }
      case FieldDescriptor::CPPTYPE_STRING:
        if (field.type() == FieldDescriptor::TYPE_BYTES) {
          return {{"type", "string"}, {"contentEncoding", "base64"}};
        }
        return {{"type", "string"}};
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Of(*field.message_type());
    }
    return Json::object();
  }

  std::set<std::string> known_;
  std::map<std::string, Json> all_;
};

Json Content(const std::string& type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}

Json Parameter(const std::string& name, const char* place, bool required, Json schema) {
  return {{"name", name}, {"in", place}, {"required", required}, {"schema", std::move(schema)}};
}

// "{name}" for each variable; the names go to `variables`.
std::string PathOf(const Route& route, std::vector<std::string>& variables) {
  std::string path = absl::StrReplaceAll(route.pattern, {{"...}", "}"}});
  for (const absl::string_view piece : absl::StrSplit(path, '{')) {
    const size_t end = piece.find('}');
    if (end != absl::string_view::npos) variables.emplace_back(piece.substr(0, end));
  }
  return path;
}

Json Operation(const Route& route, const std::vector<std::string>& variables, Schemas& schemas) {
  const access::Method* row = access::FindMethod(route.operation);
  const MethodDescriptor* rpc = RpcOf(route);
  Json operation = {{"summary", route.summary}};
  if (rpc != nullptr) {
    operation["operationId"] = absl::StrCat(rpc->service()->name(), "_", rpc->name());
    operation["tags"] = Json::array({rpc->service()->name()});
  }
  Json parameters = Json::array();
  for (const std::string& name : variables) {
    parameters.push_back(Parameter(name, "path", true, {{"type", "string"}}));
  }
  if (rpc != nullptr && route.max_body_bytes == 0) {
    for (int i = 0; i < rpc->input_type()->field_count(); ++i) {
      const FieldDescriptor& field = *rpc->input_type()->field(i);
      if (std::count(variables.begin(), variables.end(), field.name()) > 0) continue;
      parameters.push_back(Parameter(field.json_name(), "query", false, schemas.Field(field)));
    }
  }
  for (const std::string& name : route.schemas.headers) {
    parameters.push_back(Parameter(name, "header", false, {{"type", "string"}}));
  }
  for (const std::string& name : route.schemas.query) {
    parameters.push_back(Parameter(name, "query", false, {{"type", "string"}}));
  }
  if (!parameters.empty()) operation["parameters"] = std::move(parameters);
  if (route.max_body_bytes > 0) {
    Json schema =
        rpc != nullptr ? schemas.Of(*rpc->input_type()) : schemas.Named(route.schemas.request);
    operation["requestBody"] = {{"required", rpc == nullptr},
                                {"content", Content(route.body_type, std::move(schema))}};
  }
  Json answer = {{"description", "done"}};
  const std::string type = route.schemas.answer_type.empty() ? kJson : route.schemas.answer_type;
  if (rpc != nullptr) {
    answer["content"] = Content(kJson, schemas.Of(*rpc->output_type()));
  } else if (!route.schemas.answer.empty()) {
    answer["content"] = Content(type, schemas.Named(route.schemas.answer));
  } else if (route.schemas.status != 204) {
    answer["content"] = Content(type, {{"type", "string"}});
  }
  const std::string error = route.schemas.error.empty() ? "Error" : route.schemas.error;
  operation["responses"] = {
      {absl::StrCat(route.schemas.status), std::move(answer)},
      {"default",
       {{"description", "an error"}, {"content", Content(kJson, schemas.Named(error))}}}};
  if (row != nullptr && row->scope == access::Scope::kOpen) {
    operation["security"] = Json::array();
  } else if (row != nullptr) {
    const std::vector<std::string> roles = absl::StrSplit(row->roles.Names(), ", ");
    operation["x-lethe-roles"] = roles;
    operation["x-lethe-effect"] = std::string(access::EffectName(row->effect));
  }
  return operation;
}

}  // namespace

std::string OpenApiDocument(const Router& router) {
  Schemas schemas;
  Json paths = Json::object();
  for (const Route& route : router.routes()) {
    std::vector<std::string> variables;
    const std::string path = PathOf(route, variables);
    paths[path][absl::AsciiStrToLower(route.method)] = Operation(route, variables, schemas);
  }
  const Json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Lethe"},
        {"version", LETHE_VERSION},
        {"summary", "Memory for applications that can prove it has forgotten."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"security", {{{"bearer", Json::array()}}, {{"certificate", Json::array()}}}},
      {"paths", std::move(paths)},
      {"components",
       {{"securitySchemes",
         {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
          {"certificate", {{"type", "mutualTLS"}}}}},
        {"schemas", schemas.All()}}}};
  return document.dump(1) + "\n";
}

void AddOpenApiRoute(Router& router) {
  const auto document = std::make_shared<std::string>();
  router.Add(
      {.method = "GET",
       .pattern = "/openapi.json",
       .operation = "GET /openapi.json",
       .summary = "This document",
       .schemas = {.answer = "OpenApi"},
       .handler = [document](const HttpRequest&, HttpCall& call) -> absl::StatusOr<HttpResponse> {
         if (absl::Status admitted = call.Admit("", ""); !admitted.ok()) return admitted;
         return HttpResponse{.body = *document};
       }});
  *document = OpenApiDocument(router);
}

}  // namespace lethe::http
