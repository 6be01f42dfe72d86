#include "server/http/call_routes.h"

#include <google/protobuf/message.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/calls/unary_calls.h"
#include "server/http/json.h"

namespace lethe::http {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::array kRoutes = {
    CallRoute{"POST", "/v1/tenants", "/lethe.v1.TenantService/CreateTenant", "Make a tenant"},
    CallRoute{"GET", "/v1/tenants", "/lethe.v1.TenantService/ListTenants",
              "The tenants that the caller may see"},
    CallRoute{"GET", "/v1/tenants/{name}", "/lethe.v1.TenantService/GetTenant", "A tenant"},
    CallRoute{"DELETE", "/v1/tenants/{name}", "/lethe.v1.TenantService/DeleteTenant",
              "Erase a tenant with everything in it"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories", "/lethe.v1.MemoryService/CreateMemory",
              "Make a memory"},
    CallRoute{"GET", "/v1/tenants/{tenant}/memories", "/lethe.v1.MemoryService/ListMemories",
              "The memories of a tenant"},
    CallRoute{"GET", "/v1/tenants/{tenant}/memories/{name}", "/lethe.v1.MemoryService/GetMemory",
              "A memory"},
    CallRoute{"DELETE", "/v1/tenants/{tenant}/memories/{name}",
              "/lethe.v1.MemoryService/DeleteMemory", "Erase a memory with every token in it"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:insert",
              "/lethe.v1.MemoryService/Insert", "Add tokens"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:query",
              "/lethe.v1.MemoryService/Query", "Read kernel-weighted averages"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:forget",
              "/lethe.v1.MemoryService/Forget", "Erase tokens, with a certificate"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:evict",
              "/lethe.v1.MemoryService/Evict", "Bring a memory to a budget of tokens"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:edit", "/lethe.v1.MemoryService/Edit",
              "Replace the content of tokens"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:describe",
              "/lethe.v1.MemoryService/Describe", "The state of a memory and its proof"},
    CallRoute{"POST", "/v1/tenants/{tenant}/memories/{memory}:verify",
              "/lethe.v1.MemoryService/Verify", "Solve anew and compare every bit"},
    CallRoute{"GET", "/v1/tenants/{tenant}/certificates",
              "/lethe.v1.CertificateService/ListCertificates", "The certificates of a tenant"},
    CallRoute{"GET", "/v1/tenants/{tenant}/certificates/{id}",
              "/lethe.v1.CertificateService/GetCertificate", "A certificate"},
    CallRoute{"GET", "/v1/tenants/{tenant}/checkpoint",
              "/lethe.v1.CertificateService/GetCheckpoint",
              "The signed checkpoint of a tenant's log"},
    CallRoute{"POST", "/v1/tenants/{tenant}/checkpoint:cosign",
              "/lethe.v1.CertificateService/AddCosignature",
              "Add a witness's line to the checkpoint"},
    CallRoute{"GET", "/v1/tenants/{tenant}/inclusion-proof",
              "/lethe.v1.CertificateService/GetInclusionProof", "That a certificate is in the log"},
    CallRoute{"GET", "/v1/tenants/{tenant}/consistency-proof",
              "/lethe.v1.CertificateService/GetConsistencyProof", "That the log only grew"},
    CallRoute{"POST", "/v1/tenants/{tenant}:rewrap-keys", "/lethe.v1.CertificateService/RewrapKeys",
              "Replace the key-encryption key of a tenant"},
    CallRoute{"POST", "/v1:rotate-key", "/lethe.v1.CertificateService/RotateKey",
              "Replace the signing key of the server"},

    CallRoute{"POST", "/v1/tenants/{tenant}/erasure-requests",
              "/lethe.v1.ErasureService/CreateErasureRequest", "Ask for the erasure of a person"},
    CallRoute{"GET", "/v1/tenants/{tenant}/erasure-requests",
              "/lethe.v1.ErasureService/ListErasureRequests", "The erasure requests of a tenant"},
    CallRoute{"GET", "/v1/tenants/{tenant}/erasure-requests/{id}",
              "/lethe.v1.ErasureService/GetErasureRequest", "An erasure request"},
    CallRoute{"POST", "/v1/tenants/{tenant}/erasure-requests/{id}:cancel",
              "/lethe.v1.ErasureService/CancelErasureRequest",
              "Cancel an erasure request that is pending"},
    CallRoute{"POST", "/v1/tenants/{tenant}/erasure-requests/{id}:extend",
              "/lethe.v1.ErasureService/ExtendErasureRequest",
              "Give an erasure request a later due time, with a reason"},
    CallRoute{"POST", "/v1/tenants/{tenant}/erasure-requests/{id}:take-receipts",
              "/lethe.v1.ErasureService/TakeErasureReceipts",
              "The receipts of an erasure request that has ended"},
    CallRoute{"POST", "/v1/tenants/{tenant}:discover", "/lethe.v1.ErasureService/Discover",
              "What an erasure request would erase"},
    CallRoute{"POST", "/v1/tenants/{tenant}/holds", "/lethe.v1.ErasureService/PlaceHold",
              "Place a legal hold on a subject"},
    CallRoute{"GET", "/v1/tenants/{tenant}/holds", "/lethe.v1.ErasureService/ListHolds",
              "The legal holds of a tenant"},
    CallRoute{"POST", "/v1/tenants/{tenant}/holds/{id}:release",
              "/lethe.v1.ErasureService/ReleaseHold", "Release a legal hold"},

    CallRoute{"POST", "/v1/tenants/{tenant}/jobs", "/lethe.v1.JobService/SubmitJob",
              "Submit a training job"},
    CallRoute{"GET", "/v1/tenants/{tenant}/jobs", "/lethe.v1.JobService/ListJobs",
              "The training jobs of a tenant"},
    CallRoute{"GET", "/v1/tenants/{tenant}/jobs/{id}", "/lethe.v1.JobService/GetJob",
              "A training job"},
    CallRoute{"POST", "/v1/tenants/{tenant}/jobs/{id}:cancel", "/lethe.v1.JobService/CancelJob",
              "Cancel a training job"},
    CallRoute{"DELETE", "/v1/tenants/{tenant}/jobs/{id}", "/lethe.v1.JobService/DeleteJob",
              "Delete a training job that has ended, with its artefact"},
};

absl::Status ReadQuery(const HttpRequest& request, Message* message) {
  if (request.query.empty()) return absl::OkStatus();
  // Text stands for any scalar in proto3's JSON, and FromJson knows which are none.
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [name, value] : request.query) {
    if (!fields.emplace(name, value).second) {
      return absl::InvalidArgumentError("target: a name is twice in its query");
    }
  }
  return FromJson(fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), message);
}

// Puts the variables of the path into their fields.
absl::Status ReadPath(const HttpRequest& request, Message* message) {
  const google::protobuf::Reflection* reflection = message->GetReflection();
  for (const auto& [name, value] : request.variables) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    const std::string there = reflection->GetString(*message, field);
    if (!there.empty() && there != value) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": is another one than in the path"));
    }
    reflection->SetString(message, field, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpResponse> Serve(const calls::UnaryCall& unary,
                                   const HttpRequest& request,
                                   HttpCall& call) {
  const std::unique_ptr<Message> message(unary.request->New());
  const bool takes_body = request.method == "POST";
  if (takes_body && !request.query.empty()) {
    return absl::InvalidArgumentError("target: this call takes no query, but a body");
  }
  LETHE_RETURN_IF_ERROR(takes_body ? FromJson(request.body, message.get())
                                   : ReadQuery(request, message.get()));
  LETHE_RETURN_IF_ERROR(ReadPath(request, message.get()));
  LETHE_RETURN_IF_ERROR(call.Admit(*message));
  const std::unique_ptr<Message> answer(unary.response->New());
  LETHE_RETURN_IF_ERROR(call.Answer(unary.handle(*message, call.options(), answer.get()), *answer));
  HttpResponse response;
  LETHE_ASSIGN_OR_RETURN(response.body, ToJson(*answer));
  return response;
}

}  // namespace

std::span<const CallRoute> CallRoutes() { return kRoutes; }

void AddCallRoutes(service::Service* service, Router& router) {
  std::map<std::string, calls::UnaryCall> unary_calls;
  for (calls::UnaryCall& unary : calls::AllUnaryCalls(service)) {
    std::string name = calls::NameOf(unary.method);
    unary_calls.emplace(std::move(name), std::move(unary));
  }
  for (const CallRoute& route : kRoutes) {
    const auto found = unary_calls.find(std::string(route.operation));
    LETHE_CHECK(found != unary_calls.end());
    router.Add({.method = std::string(route.method),
                .pattern = std::string(route.pattern),
                .operation = std::string(route.operation),
                .summary = std::string(route.summary),
                .max_body_bytes = route.method == "POST" ? kMaxJsonBytes : 0,
                .handler = [unary = found->second](const HttpRequest& request, HttpCall& call) {
                  return Serve(unary, request, call);
                }});
  }
}

}  // namespace lethe::http
