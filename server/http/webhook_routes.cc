#include "server/http/webhook_routes.h"

#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"

namespace lethe::http {
namespace {

using Json = nlohmann::ordered_json;
using service::ErasureRequestInfo;

constexpr char kApi[] = "dsr/v1";
constexpr size_t kMaxMetadataBytes = 60;

// Words of others, where the service takes [a-z0-9._-].
std::string PlainWord(const std::string& text) {
  std::string plain;
  for (const char c : absl::AsciiStrToLower(text)) {
    const bool good = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-';
    plain += good ? c : '_';
  }
  return plain.substr(0, service::kMaxSourceBytes);
}

absl::StatusOr<std::string> RequiredPlain(const nlohmann::json& object,
                                          absl::string_view prefix,
                                          const char* name) {
  LETHE_ASSIGN_OR_RETURN(std::string text, TextField(object, prefix, name));
  const auto plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  if (text.empty() || text.size() > kMaxMetadataBytes ||
      !std::all_of(text.begin(), text.end(), plain)) {
    return absl::InvalidArgumentError(absl::StrCat(
        prefix, name, ": must be 1 to ", kMaxMetadataBytes, " letters, digits, '-', '_' and '.'"));
  }
  return text;
}

absl::StatusOr<std::vector<service::Identity>> KetchIdentities(const nlohmann::json& request) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* list, ListField(request, "request.", "identities"));
  if (list == nullptr) return absl::InvalidArgumentError("request.identities: is missing");
  std::vector<service::Identity> identities;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string prefix = absl::StrCat("request.identities[", i, "].");
    const nlohmann::json& item = (*list)[i];
    if (!item.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("request.identities[", i, "]: must be an object"));
    }
    service::Identity identity;
    LETHE_ASSIGN_OR_RETURN(identity.type, TextField(item, prefix, "identitySpace"));
    LETHE_ASSIGN_OR_RETURN(identity.value, TextField(item, prefix, "identityValue"));
    LETHE_ASSIGN_OR_RETURN(std::string format, TextField(item, prefix, "identityFormat", false));
    if (format.empty()) format = "raw";
    LETHE_ASSIGN_OR_RETURN(identity.format,
                           ParseFormat(absl::StrCat(prefix, "identityFormat"), format));
    identities.push_back(std::move(identity));
  }
  return WithoutRepetitions(std::move(identities));
}

absl::Status ReadKetchCallbacks(const nlohmann::json& request,
                                service::ErasureRequestInput& input) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* list, ListField(request, "request.", "callbacks"));
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string prefix = absl::StrCat("request.callbacks[", i, "].");
    const nlohmann::json& item = (*list)[i];
    if (!item.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("request.callbacks[", i, "]: must be an object"));
    }
    LETHE_ASSIGN_OR_RETURN(const std::string url, TextField(item, prefix, "url"));
    LETHE_ASSIGN_OR_RETURN(const nlohmann::json* headers, ObjectField(item, prefix, "headers"));
    std::string authorization;
    if (headers != nullptr) {
      for (const auto& [name, value] : headers->items()) {
        if (!absl::EqualsIgnoreCase(name, "authorization") || !value.is_string()) {
          return absl::InvalidArgumentError(
              absl::StrCat(prefix, "headers: only Authorization is sent"));
        }
        authorization = value.get<std::string>();
      }
    }
    const bool printable = std::all_of(authorization.begin(), authorization.end(),
                                       [](char c) { return c >= 0x20 && c < 0x7f; });
    if (!printable || authorization.size() > service::kMaxAuthorizationBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(prefix, "headers: its Authorization is no header's value"));
    }
    input.callback_urls.push_back(url);
    input.callback_authorizations.push_back(std::move(authorization));
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpResponse> Ketch(const ErasureHttp& http,
                                   const HttpRequest& request,
                                   HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json body, ParseObject(request.body));
  service::ErasureRequestInput input;
  LETHE_ASSIGN_OR_RETURN(input.tenant, TenantOf(request));
  LETHE_RETURN_IF_ERROR(call.Admit(input.tenant, ""));
  LETHE_ASSIGN_OR_RETURN(const std::string api, TextField(body, "", "apiVersion"));
  if (api != kApi) return absl::InvalidArgumentError("apiVersion: must be dsr/v1");
  LETHE_ASSIGN_OR_RETURN(const std::string kind, TextField(body, "", "kind"));
  if (kind != "DeleteRequest") {
    return absl::InvalidArgumentError("kind: only DeleteRequest is supported");
  }
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* metadata, ObjectField(body, "", "metadata"));
  if (metadata == nullptr) return absl::InvalidArgumentError("metadata: is missing");
  LETHE_ASSIGN_OR_RETURN(const std::string uid, RequiredPlain(*metadata, "metadata.", "uid"));
  LETHE_ASSIGN_OR_RETURN(const std::string of, RequiredPlain(*metadata, "metadata.", "tenant"));
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* asked, ObjectField(body, "", "request"));
  if (asked == nullptr) return absl::InvalidArgumentError("request: is missing");
  LETHE_ASSIGN_OR_RETURN(const std::string regulation,
                         TextField(*asked, "request.", "regulation", false));
  LETHE_ASSIGN_OR_RETURN(input.identities, KetchIdentities(*asked));
  LETHE_RETURN_IF_ERROR(ReadKetchCallbacks(*asked, input));
  if (const auto submitted = asked->find("submittedTimestamp");
      submitted != asked->end() && !submitted->is_null()) {
    if (!submitted->is_number_integer()) {
      return absl::InvalidArgumentError("request.submittedTimestamp: must be seconds");
    }
    input.received_time = absl::FromUnixSeconds(submitted->get<int64_t>());
  }
  input.regulation = PlainWord(regulation);
  input.source = kKetch;
  input.controller_id = absl::StrCat(uid, " ", of);
  input.idempotency_key = absl::StrCat("ketch:", uid);
  const absl::StatusOr<ErasureRequestInfo> made =
      http.service->CreateErasureRequest(input, call.options());
  if (!made.ok()) return WithCallbacksNamed(made.status(), "request.callbacks");
  const ErasureRequestInfo& info = *made;
  const Json answer = {{"apiVersion", kApi},
                       {"kind", "DeleteResponse"},
                       {"metadata", KetchMetadata(input.controller_id)},
                       {"response", KetchStatus(UrlOf(http, request, ""), info, info.state)}};
  return HttpResponse{.body = Text(answer) + "\n"};
}

absl::StatusOr<HttpResponse> Transcend(const ErasureHttp& http,
                                       const HttpRequest& request,
                                       HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json body, ParseObject(request.body));
  service::ErasureRequestInput input;
  LETHE_ASSIGN_OR_RETURN(input.tenant, TenantOf(request));
  LETHE_RETURN_IF_ERROR(call.Admit(input.tenant, ""));
  if (http.transcend != nullptr &&
      !http.transcend->Verify(std::string(request.Header("x-sombra-token")), absl::Now()).ok()) {
    return absl::UnauthenticatedError("x-sombra-token: is not signed by the key that is known");
  }
  LETHE_ASSIGN_OR_RETURN(const std::string type, TextField(body, "", "type"));
  if (type != "ERASURE") return absl::InvalidArgumentError("type: only ERASURE is supported");
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* extras, ObjectField(body, "", "extras"));
  if (extras == nullptr) return absl::InvalidArgumentError("extras: is missing");
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* profile, ObjectField(*extras, "extras.", "profile"));
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* asked, ObjectField(*extras, "extras.", "request"));
  if (profile == nullptr || asked == nullptr) {
    return absl::InvalidArgumentError("extras: must have profile and request");
  }
  service::Identity identity;
  LETHE_ASSIGN_OR_RETURN(identity.value, TextField(*profile, "extras.profile.", "identifier"));
  LETHE_ASSIGN_OR_RETURN(identity.type, TextField(*profile, "extras.profile.", "type", false));
  LETHE_ASSIGN_OR_RETURN(const std::string id, RequiredPlain(*asked, "extras.request.", "id"));
  // One request of a person comes here once for each identifier.
  const std::string part =
      audit::Hex(audit::Sha256(absl::StrCat(identity.type, std::string(1, '\0'), identity.value)));
  input.identities = {std::move(identity)};
  input.source = "transcend";
  input.controller_id = id;
  input.idempotency_key = absl::StrCat("transcend:", id, ":", part.substr(0, 32));
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo info,
                         http.service->CreateErasureRequest(input, call.options()));
  const std::string base = UrlOf(http, request, "");
  return HttpResponse{.body = Text({{"id", PublicId(info)},
                                    {"status", StateName(info.state)},
                                    {"status_url", StatusUrl(base, info)}}) +
                              "\n"};
}

}  // namespace

Json KetchMetadata(const std::string& controller_id) {
  const size_t blank = controller_id.find(' ');
  if (blank == std::string::npos) return Json::object();
  return {{"uid", controller_id.substr(0, blank)}, {"tenant", controller_id.substr(blank + 1)}};
}

Json KetchStatus(const std::string& base,
                 const ErasureRequestInfo& info,
                 service::ErasureState state) {
  Json status = {{"status", StateName(state)},
                 {"reason", "unknown"},
                 {"expectedCompletionTimestamp", UnixSeconds(ExpectedTime(info))},
                 {"requestID", PublicId(info)}};
  if (state == service::ErasureState::kFailed) status["status"] = "cancelled";
  if (state == service::ErasureState::kCompleted) {
    status["reason"] = info.counts.erased > 0 ? "executed" : "no_match";
    status["documents"] =
        Json::array({{{"url", absl::StrCat(StatusUrl(base, info), "/certificate")}}});
  }
  return status;
}

void AddWebhookRoutes(const ErasureHttp& http, Router& router) {
  for (const char* prefix : {"/v1/", "/tenants/{tenant}/v1/"}) {
    RouteSchemas schemas = {.request = "KetchRequest", .answer = "KetchResponse"};
    if (absl::string_view(prefix) == "/v1/") schemas.query = {"tenant"};
    router.Add({.method = "POST",
                .pattern = absl::StrCat(prefix, "ketch"),
                .operation = kCreateErasure,
                .summary = "Ask for the erasure of a person, as Ketch does",
                .schemas = schemas,
                .max_body_bytes = kMaxErasureBytes,
                .handler = [http](const HttpRequest& request, HttpCall& call) {
                  return Ketch(http, request, call);
                }});
    schemas.request = "TranscendRequest";
    schemas.answer = "TranscendResponse";
    schemas.headers = {"x-sombra-token"};
    router.Add({.method = "POST",
                .pattern = absl::StrCat(prefix, "transcend"),
                .operation = kCreateErasure,
                .summary = "Ask for the erasure of a person, as Transcend does",
                .schemas = schemas,
                .max_body_bytes = kMaxErasureBytes,
                .handler = [http](const HttpRequest& request, HttpCall& call) {
                  return Transcend(http, request, call);
                }});
  }
}

}  // namespace lethe::http
