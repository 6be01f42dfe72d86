#include "server/http/erasure_routes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "lethe/v1/certificate_service.pb.h"
#include "lethe/v1/erasure_service.pb.h"
#include "server/calls/convert.h"
#include "server/calls/convert_erasure.h"
#include "server/http/json.h"
#include "server/service/paging.h"

namespace lethe::http {
namespace {

using Json = nlohmann::ordered_json;
using service::ErasureRequestInfo;

absl::StatusOr<HttpResponse> Create(const ErasureHttp& http,
                                    const HttpRequest& request,
                                    HttpCall& call) {
  v1::CreateErasureRequestRequest message;
  LETHE_RETURN_IF_ERROR(FromJson(request.body, &message));
  const std::string key(request.Header("idempotency-key"));
  if (!message.idempotency_key().empty() && message.idempotency_key() != key) {
    return absl::InvalidArgumentError("idempotency_key: belongs into the header Idempotency-Key");
  }
  message.set_idempotency_key(key);
  LETHE_RETURN_IF_ERROR(call.Admit(message));
  LETHE_ASSIGN_OR_RETURN(const service::ErasureRequestInput input, calls::FromProto(message));
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo info,
                         http.service->CreateErasureRequest(input, call.options()));
  const std::string url = StatusUrl(UrlOf(http, request, ""), info);
  const Json body = {{"id", PublicId(info)},
                     {"status", StateName(info.state)},
                     {"status_url", url},
                     {"received_time", info.received_time},
                     {"expected_completion_time", ExpectedTime(info)},
                     {"due_time", info.due_time}};
  return HttpResponse{.status = 202, .body = Text(body) + "\n", .headers = {{"Location", url}}};
}

// The request that the path names, for a caller who may ask for it.
absl::StatusOr<RequestName> Named(const HttpRequest& request, HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(RequestName name, ParsePublicId(request.Variable("id")));
  LETHE_RETURN_IF_ERROR(call.Admit(name.tenant, ""));
  return name;
}

HttpResponse StatusResponse(const ErasureHttp& http,
                            const HttpRequest& request,
                            const ErasureRequestInfo& info,
                            int status) {
  return {.status = status,
          .body = Text(ErasureStatus(UrlOf(http, request, ""), info, info.state)) + "\n"};
}

absl::StatusOr<HttpResponse> Get(const ErasureHttp& http,
                                 const HttpRequest& request,
                                 HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const RequestName name, Named(request, call));
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo info,
                         http.service->GetErasureRequest(name.tenant, name.id, call.options()));
  return StatusResponse(http, request, info, 200);
}

absl::StatusOr<HttpResponse> Cancel(const ErasureHttp& http,
                                    const HttpRequest& request,
                                    HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const RequestName name, Named(request, call));
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo info,
                         http.service->CancelErasureRequest(name.tenant, name.id, call.options()));
  return StatusResponse(http, request, info, 202);
}

// From ?pageSize= and ?pageToken=, as the lists of the RPCs have them.
absl::StatusOr<service::PageRequest> PageOf(const HttpRequest& request) {
  service::PageRequest page;
  for (const auto& [name, value] : request.query) {
    if (name == "pageSize" && page.size == 0) {
      if (!absl::SimpleAtoi(value, &page.size)) {
        return absl::InvalidArgumentError("page_size: must be a number");
      }
    } else if (name == "pageToken" && page.token.empty()) {
      page.token = value;
    } else {
      return absl::InvalidArgumentError(
          "target: only ?pageSize= and ?pageToken= are known here, each once");
    }
  }
  return page;
}

// A page has whole erasures: the certificate of each, and the one that says its keys are gone.
absl::StatusOr<HttpResponse> Certificates(const ErasureHttp& http,
                                          const HttpRequest& request,
                                          HttpCall& call) {
  LETHE_ASSIGN_OR_RETURN(const RequestName name, Named(request, call));
  LETHE_ASSIGN_OR_RETURN(const ErasureRequestInfo info,
                         http.service->GetErasureRequest(name.tenant, name.id, call.options()));
  const std::string scope = absl::StrCat("erasure-certificates/", PublicId(info));
  LETHE_ASSIGN_OR_RETURN(const service::PageRequest page, PageOf(request));
  LETHE_ASSIGN_OR_RETURN(const size_t size, service::PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string cursor, service::DecodePageToken(scope, page.token));
  size_t next = 0;
  if (!cursor.empty() && !absl::SimpleAtoi(cursor, &next)) {
    return absl::InvalidArgumentError("page_token: is not a token that this list has given out");
  }
  const size_t end = std::min(info.certificates.size(), next + std::max(size / 2, size_t{1}));
  v1::ListCertificatesResponse list;
  for (; next < end; ++next) {
    const service::ErasureCertificate& made = info.certificates[next];
    for (const std::string* id : {&made.id, &made.shredded_id}) {
      if (id->empty()) continue;
      LETHE_ASSIGN_OR_RETURN(const service::CertificateInfo certificate,
                             http.service->GetCertificate(name.tenant, *id, call.options()));
      calls::ToProto(certificate, list.add_certificates());
    }
  }
  if (next < info.certificates.size()) {
    list.set_next_page_token(service::EncodePageToken(scope, absl::StrCat(next)));
  }
  HttpResponse response;
  LETHE_ASSIGN_OR_RETURN(response.body, ToJson(list));
  return response;
}

}  // namespace

Json ErasureStatus(const std::string& base,
                   const ErasureRequestInfo& info,
                   service::ErasureState state) {
  Json certificates = Json::array();
  for (const service::ErasureCertificate& certificate : info.certificates) {
    certificates.push_back(
        {{"id", certificate.id},
         {"memory", certificate.memory},
         {"url", absl::StrCat(base, "/v1/tenants/", info.tenant, "/certificates/", certificate.id)},
         {"sha256", certificate.sha256},
         {"shredded_id", certificate.shredded_id}});
  }
  Json stores = Json::array();
  for (const service::StoreLevel& store : info.stores) {
    stores.push_back(
        {{"store", store.store}, {"level", store.level}, {"evidence", store.evidence}});
  }
  const service::ErasureCounts& counts = info.counts;
  return {{"id", PublicId(info)},
          {"tenant", info.tenant},
          {"status", StateName(state)},
          {"status_url", StatusUrl(base, info)},
          {"source", info.source},
          {"regulation", info.regulation},
          {"controller_id", info.controller_id},
          {"received_time", info.received_time},
          {"expected_completion_time", ExpectedTime(info)},
          {"due_time", info.due_time},
          {"extended", info.extended},
          {"begin_time", info.begin_time},
          {"end_time", info.end_time},
          {"counts",
           {{"matched", counts.matched},
            {"erased", counts.erased},
            {"not_found", counts.not_found},
            {"already_erased", counts.already_erased},
            {"held", counts.held}}},
          {"stores", std::move(stores)},
          {"certificate_id", info.certificates.empty() ? "" : info.certificates.front().id},
          {"certificates", std::move(certificates)},
          {"hold_id", info.hold_id},
          {"failure", info.failure}};
}

void AddErasureRoutes(const ErasureHttp& http, Router& router) {
  const auto bound = [&http](auto handler) -> Handler {
    return [http, handler](const HttpRequest& request, HttpCall& call) {
      return handler(http, request, call);
    };
  };
  router.Add({.method = "POST",
              .pattern = "/v1/erasure-requests",
              .operation = kCreateErasure,
              .summary = "Ask for the erasure of a person",
              .schemas = {.request = "CreateErasureRequestRequest",
                          .answer = "ErasureReceived",
                          .status = 202,
                          .headers = {"Idempotency-Key"}},
              .max_body_bytes = kMaxErasureBytes,
              .handler = bound(Create)});
  router.Add({.method = "GET",
              .pattern = "/v1/erasure-requests/{id}",
              .operation = kGetErasure,
              .summary = "The state of an erasure request",
              .schemas = {.answer = "ErasureStatus"},
              .handler = bound(Get)});
  router.Add({.method = "DELETE",
              .pattern = "/v1/erasure-requests/{id}",
              .operation = kCancelErasure,
              .summary = "Cancel an erasure request that is pending",
              .schemas = {.answer = "ErasureStatus", .status = 202},
              .handler = bound(Cancel)});
  router.Add({.method = "GET",
              .pattern = "/v1/erasure-requests/{id}/certificate",
              .operation = kGetErasure,
              .summary = "The certificates of an erasure request",
              .schemas = {.answer = "ListCertificatesResponse", .query = {"pageSize", "pageToken"}},
              .handler = bound(Certificates)});
}

}  // namespace lethe::http
