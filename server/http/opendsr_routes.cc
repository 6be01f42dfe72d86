#include "server/http/opendsr_routes.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/encoding.h"
#include "core/base/status_macros.h"
#include "server/calls/convert_erasure.h"

namespace lethe::http {
namespace {

using Json = nlohmann::ordered_json;
using service::ErasureRequestInfo;

constexpr char kApiVersion[] = "2.0";

struct Spelling {
  const char* source;  // "opendsr", and the beginning of "opendsr_requests"
  const char* header;
};
constexpr std::array<Spelling, 3> kSpellings = {{{"opendsr", "X-OpenDSR-"},
                                                 {"opengdpr", "X-OpenGDPR-"},
                                                 {"opencompliance", "X-OpenCompliance-"}}};

constexpr std::array<const char*, 11> kIdentityTypes = {"controller_customer_id",
                                                        "android_advertising_id",
                                                        "android_id",
                                                        "email",
                                                        "fire_advertising_id",
                                                        "ios_advertising_id",
                                                        "ios_vendor_id",
                                                        "microsoft_advertising_id",
                                                        "microsoft_publisher_id",
                                                        "roku_publisher_id",
                                                        "roku_advertising_id"};
constexpr std::array<const char*, 4> kFormats = {"raw", "sha1", "md5", "sha256"};

// Lower-case, version 4.
bool IsUuid4(absl::string_view text) {
  constexpr absl::string_view kForm = "xxxxxxxx-xxxx-4xxx-Nxxx-xxxxxxxxxxxx";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (kForm[i] == 'x'   ? !hex
        : kForm[i] == 'N' ? c != '8' && c != '9' && c != 'a' && c != 'b'
                          : c != kForm[i]) {
      return false;
    }
  }
  return true;
}

std::string Now() { return absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()); }

// OpenDSR's own form of an error; its codes are HTTP's.
HttpResponse DsrError(const absl::Status& status, int code) {
  HttpResponse response = ErrorResponse(status, code);
  const std::string message(status.message());
  const bool invalid = absl::IsInvalidArgument(status);
  response.body = Text({{"error",
                         {{"code", response.status},
                          {"message", message},
                          {"errors",
                           {{{"domain", invalid ? "Validation" : "Service"},
                             {"reason", absl::StatusCodeToString(status.code())},
                             {"message", message}}}}}}}) +
                  "\n";
  return response;
}

// What answers are signed with; UNAVAILABLE where they cannot be. To be asked before anything is
// done.
absl::StatusOr<std::shared_ptr<const DsrSigner>> SignerOf(const ErasureHttp& http) {
  std::shared_ptr<const DsrSigner> signer = http.dsr->current();
  if (signer == nullptr) return absl::UnavailableError("answers cannot be signed now");
  return signer;
}

absl::StatusOr<HttpResponse> Signed(const DsrSigner& signer,
                                    const Spelling& spelling,
                                    int status,
                                    const Json& body) {
  HttpResponse response{.status = status, .body = Text(body)};
  LETHE_ASSIGN_OR_RETURN(std::string signature, signer.Sign(response.body));
  response.headers = {{absl::StrCat(spelling.header, "Processor-Domain"), signer.domain()},
                      {absl::StrCat(spelling.header, "Signature"), std::move(signature)}};
  return response;
}

// Ours among the extensions.
absl::StatusOr<std::string> ExtensionTenant(const ErasureHttp& http, const nlohmann::json& body) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* extensions, ObjectField(body, "", "extensions"));
  if (extensions == nullptr) return std::string();
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* ours,
                         ObjectField(*extensions, "extensions.", http.dsr->domain().c_str()));
  if (ours == nullptr) return std::string();
  const std::string prefix = absl::StrCat("extensions.", http.dsr->domain(), ".");
  for (const auto& [name, value] : ours->items()) {
    if (name == "memory") {
      return absl::InvalidArgumentError(absl::StrCat(
          prefix, "memory: a request is for every memory of the tenant; leave it out"));
    }
    if (name != "tenant") {
      return absl::InvalidArgumentError(absl::StrCat(prefix, "tenant: nothing else is known here"));
    }
  }
  return TextField(*ours, prefix, "tenant");
}

absl::StatusOr<std::vector<service::Identity>> IdentitiesOf(const nlohmann::json& body) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* list, ListField(body, "", "subject_identities"));
  if (list == nullptr) return absl::InvalidArgumentError("subject_identities: is missing");
  std::vector<service::Identity> identities;
  for (size_t i = 0; i < list->size(); ++i) {
    const nlohmann::json& item = (*list)[i];
    const std::string prefix = absl::StrCat("subject_identities[", i, "].");
    if (!item.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("subject_identities[", i, "]: must be an object"));
    }
    service::Identity identity;
    LETHE_ASSIGN_OR_RETURN(identity.type, TextField(item, prefix, "identity_type"));
    LETHE_ASSIGN_OR_RETURN(identity.value, TextField(item, prefix, "identity_value"));
    LETHE_ASSIGN_OR_RETURN(const std::string format, TextField(item, prefix, "identity_format"));
    LETHE_ASSIGN_OR_RETURN(identity.format,
                           ParseFormat(absl::StrCat(prefix, "identity_format"), format));
    identities.push_back(std::move(identity));
  }
  return WithoutRepetitions(std::move(identities));
}

absl::StatusOr<std::vector<std::string>> CallbacksOf(const nlohmann::json& body) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json* list, ListField(body, "", "status_callback_urls"));
  std::vector<std::string> urls;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (!(*list)[i].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("status_callback_urls[", i, "]: must be a text"));
    }
    urls.push_back((*list)[i].get<std::string>());
  }
  return urls;
}

std::string KeyOf(absl::string_view subject_request_id) {
  return absl::StrCat("opendsr:", subject_request_id);
}

absl::StatusOr<HttpResponse> Create(const ErasureHttp& http,
                                    const Spelling& spelling,
                                    const HttpRequest& request,
                                    HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json body, ParseObject(request.body));
  service::ErasureRequestInput input;
  LETHE_ASSIGN_OR_RETURN(input.tenant, TenantOf(request));
  LETHE_ASSIGN_OR_RETURN(const std::string named, ExtensionTenant(http, body));
  if (!input.tenant.empty() && !named.empty() && named != input.tenant) {
    return absl::InvalidArgumentError("tenant: the extension names another one than the path");
  }
  if (input.tenant.empty()) input.tenant = named;
  LETHE_RETURN_IF_ERROR(call.Admit(input.tenant, ""));
  LETHE_ASSIGN_OR_RETURN(const auto signer, SignerOf(http));
  LETHE_ASSIGN_OR_RETURN(const std::string id, TextField(body, "", "subject_request_id"));
  if (!IsUuid4(id)) {
    return absl::InvalidArgumentError(
        "subject_request_id: must be a UUID of version 4 in lower case");
  }
  LETHE_ASSIGN_OR_RETURN(const std::string type, TextField(body, "", "subject_request_type"));
  if (type != "erasure") {
    return absl::InvalidArgumentError("subject_request_type: only erasure is supported");
  }
  // The first version, which had this name, knew one regulation only.
  const bool first_version = absl::string_view(spelling.source) == "opengdpr";
  LETHE_ASSIGN_OR_RETURN(input.regulation, TextField(body, "", "regulation", !first_version));
  if (input.regulation.empty()) input.regulation = "gdpr";
  LETHE_ASSIGN_OR_RETURN(const std::string submitted, TextField(body, "", "submitted_time"));
  LETHE_ASSIGN_OR_RETURN(input.received_time, calls::ParseTime("submitted_time", submitted));
  LETHE_ASSIGN_OR_RETURN(input.identities, IdentitiesOf(body));
  LETHE_ASSIGN_OR_RETURN(input.callback_urls, CallbacksOf(body));
  LETHE_RETURN_IF_ERROR(TextField(body, "", "api_version", false).status());
  input.idempotency_key = KeyOf(id);
  input.source = spelling.source;
  input.source_class = kSpellings.front().source;
  input.controller_id = id;
  const absl::StatusOr<ErasureRequestInfo> made =
      http.service->CreateErasureRequest(input, call.options());
  if (!made.ok()) return WithCallbacksNamed(made.status(), "status_callback_urls");
  const ErasureRequestInfo& info = *made;
  return Signed(*signer, spelling, 201,
                {{"controller_id", info.tenant},
                 {"expected_completion_time", ExpectedTime(info)},
                 {"received_time", Now()},
                 {"encoded_request", audit::Base64(request.body)},
                 {"subject_request_id", id},
                 {"extensions", {{http.dsr->domain(), {{"id", PublicId(info)}}}}}});
}

// By the controller's id, for a caller who may ask.
absl::StatusOr<ErasureRequestInfo> Find(const ErasureHttp& http,
                                        const HttpRequest& request,
                                        HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const std::string tenant, TenantOf(request));
  LETHE_RETURN_IF_ERROR(call.Admit(tenant, ""));
  const std::string id = request.Variable("id");
  if (!IsUuid4(id)) return absl::NotFoundError("there is no such request");
  return http.service->FindErasureRequest(tenant, KeyOf(id), call.options());
}

absl::StatusOr<HttpResponse> Status(const ErasureHttp& http,
                                    const Spelling& spelling,
                                    const HttpRequest& request,
                                    HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo info, Find(http, request, call));
  LETHE_ASSIGN_OR_RETURN(const auto signer, SignerOf(http));
  return Signed(*signer, spelling, 200,
                OpenDsrStatus(UrlOf(http, request, ""), http.dsr->domain(), info, info.state,
                              request.Variable("id")));
}

absl::StatusOr<HttpResponse> Cancel(const ErasureHttp& http,
                                    const Spelling& spelling,
                                    const HttpRequest& request,
                                    HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo found, Find(http, request, call));
  LETHE_ASSIGN_OR_RETURN(const auto signer, SignerOf(http));
  LETHE_ASSIGN_OR_RETURN(
      const ErasureRequestInfo info,
      http.service->CancelErasureRequest(found.tenant, found.id, call.options()));
  return Signed(*signer, spelling, 202,
                {{"controller_id", info.tenant},
                 {"subject_request_id", request.Variable("id")},
                 {"received_time", Now()},
                 {"api_version", kApiVersion}});
}

absl::StatusOr<HttpResponse> Discovery(const ErasureHttp& http,
                                       const HttpRequest& request,
                                       HttpCall& call) {
  LETHE_RETURN_IF_ERROR(call.Admit("", ""));
  Json identities = Json::array();
  for (const char* type : kIdentityTypes) {
    for (const char* format : kFormats) {
      identities.push_back({{"identity_type", type}, {"identity_format", format}});
    }
  }
  const Json body = {
      {"api_version", kApiVersion},
      {"supported_identities", std::move(identities)},
      {"supported_subject_request_types", Json::array({"erasure"})},
      {"processor_certificate", UrlOf(http, request, "/v1/discovery/certificate.pem")}};
  return HttpResponse{.body = Text(body)};
}

absl::StatusOr<HttpResponse> CertificateFile(const ErasureHttp& http, HttpCall& call) {
  LETHE_RETURN_IF_ERROR(call.Admit("", ""));
  LETHE_ASSIGN_OR_RETURN(const auto signer, SignerOf(http));
  return HttpResponse{.type = "application/x-pem-file", .body = signer->certificate_pem()};
}

}  // namespace

bool IsOpenDsr(absl::string_view source) {
  return std::any_of(kSpellings.begin(), kSpellings.end(),
                     [&](const Spelling& spelling) { return source == spelling.source; });
}

std::string OpenDsrHeaderPrefix(absl::string_view source) {
  for (const Spelling& spelling : kSpellings) {
    if (source == spelling.source) return spelling.header;
  }
  return kSpellings.front().header;
}

Json OpenDsrStatus(const std::string& base,
                   const std::string& domain,
                   const ErasureRequestInfo& info,
                   service::ErasureState state,
                   const std::string& subject_request_id) {
  const bool unknown =
      state == service::ErasureState::kDenied || state == service::ErasureState::kFailed;
  Json body = {{"controller_id", info.tenant},
               {"expected_completion_time", ExpectedTime(info)},
               {"subject_request_id", subject_request_id},
               {"request_status", unknown ? "cancelled" : StateName(state)},
               {"api_version", kApiVersion}};
  if (state == service::ErasureState::kCompleted) {
    body["results_url"] = absl::StrCat(StatusUrl(base, info), "/certificate");
    body["results_count"] = info.counts.erased;
  }
  Json ours = {{"id", PublicId(info)}, {"status", StateName(state)}};
  if (!info.hold_id.empty()) ours["hold_id"] = info.hold_id;
  if (!info.failure.empty()) ours["failure"] = info.failure;
  body["extensions"] = {{domain, std::move(ours)}};
  return body;
}

void AddOpenDsrRoutes(const ErasureHttp& http, Router& router) {
  using Bound = absl::StatusOr<HttpResponse> (*)(const ErasureHttp&, const Spelling&,
                                                 const HttpRequest&, HttpCall&);
  const auto bound = [&http](const Spelling& spelling, Bound handler) -> Handler {
    return [http, &spelling, handler](const HttpRequest& request, HttpCall& call) {
      return handler(http, spelling, request, call);
    };
  };
  for (const char* prefix : {"/v1/", "/tenants/{tenant}/v1/"}) {
    for (const Spelling& spelling : kSpellings) {
      const std::string path = absl::StrCat(prefix, spelling.source, "_requests");
      RouteSchemas schemas = {.request = "OpenDsrRequest",
                              .answer = "OpenDsrReceived",
                              .error = "OpenDsrError",
                              .status = 201,
                              .query = {"tenant"}};
      if (absl::string_view(prefix) != "/v1/") schemas.query.clear();
      router.Add({.method = "POST",
                  .pattern = path,
                  .operation = kCreateErasure,
                  .summary = "Ask for the erasure of a person, as OpenDSR does",
                  .schemas = schemas,
                  .max_body_bytes = kMaxErasureBytes,
                  .handler = bound(spelling, Create),
                  .error = DsrError});
      schemas.answer = "OpenDsrStatus";
      schemas.status = 200;
      router.Add({.method = "GET",
                  .pattern = path + "/{id}",
                  .operation = kGetErasure,
                  .summary = "The state of a request, as OpenDSR tells it",
                  .schemas = schemas,
                  .handler = bound(spelling, Status),
                  .error = DsrError});
      schemas.answer = "OpenDsrCancelled";
      schemas.status = 202;
      router.Add({.method = "DELETE",
                  .pattern = path + "/{id}",
                  .operation = kCancelErasure,
                  .summary = "Cancel a request that is pending, as OpenDSR does",
                  .schemas = schemas,
                  .handler = bound(spelling, Cancel),
                  .error = DsrError});
    }
    router.Add({.method = "GET",
                .pattern = absl::StrCat(prefix, "discovery"),
                .operation = "GET /v1/discovery",
                .summary = "What this processor supports, as OpenDSR tells it",
                .schemas = {.answer = "OpenDsrDiscovery"},
                .handler = [http](const HttpRequest& request,
                                  HttpCall& call) { return Discovery(http, request, call); },
                .error = DsrError});
  }
  router.Add({.method = "GET",
              .pattern = "/v1/discovery/certificate.pem",
              .operation = "GET /v1/discovery",
              .summary = "The certificate that answers and callbacks are signed by",
              .schemas = {.answer_type = "application/x-pem-file"},
              .handler = [http](const HttpRequest&, HttpCall& call) {
                return CertificateFile(http, call);
              }});
}

}  // namespace lethe::http
