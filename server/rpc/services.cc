#include "server/rpc/services.h"

#include <utility>

#include "core/base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/export_stream.h"
#include "server/rpc/insert_stream.h"

namespace lethe::rpc {
namespace {

using service::CallOptions;

template <typename Request>
service::PageRequest PageOf(const Request& request) {
  return {.size = request.page_size(), .token = request.page_token()};
}

// Converts the service's answer, or passes its status on.
template <typename From, typename To>
absl::Status Answer(const absl::StatusOr<From>& from, To* to) {
  if (!from.ok()) return from.status();
  ToProto(*from, to);
  return absl::OkStatus();
}

absl::Status HandleQuery(service::Service* service,
                         const v1::QueryRequest& request,
                         const CallOptions& call,
                         v1::QueryResponse* response) {
  return Answer(service->Query(FromProto(request), call), response);
}

}  // namespace

TenantHandlers::TenantHandlers(service::Service* service, const CallHooks& hooks)
    : RawService(hooks) {
  Unary<v1::CreateTenantRequest, v1::Tenant>(
      "CreateTenant", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->CreateTenant(request.name(), call), response);
      });
  Unary<v1::GetTenantRequest, v1::Tenant>(
      "GetTenant", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(service->GetTenant(request.name()), response);
      });
  Unary<v1::ListTenantsRequest, v1::ListTenantsResponse>(
      "ListTenants",
      [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
        LETHE_ASSIGN_OR_RETURN(auto page, service->ListTenants(PageOf(request), call));
        for (const service::TenantInfo& tenant : page.items) {
          ToProto(tenant, response->add_tenants());
        }
        response->set_next_page_token(std::move(page.next_page_token));
        return absl::OkStatus();
      });
  Unary<v1::DeleteTenantRequest, v1::DeleteTenantResponse>(
      "DeleteTenant", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->DeleteTenant(request.name(), call), response);
      });
}

void MemoryHandlers::StopCalls() {
  RawService::StopCalls();
  insert_streams_.StopAll();
  query_streams_.StopAll();
}

void MemoryHandlers::WaitForCalls(std::chrono::system_clock::time_point deadline) {
  RawService::WaitForCalls(deadline);
  insert_streams_.WaitUntilEmpty(deadline);
  query_streams_.WaitUntilEmpty(deadline);
}

MemoryHandlers::MemoryHandlers(service::Service* service,
                               const CallHooks& hooks,
                               size_t max_streams)
    : RawService(hooks), insert_streams_(max_streams), query_streams_(max_streams) {
  Unary<v1::CreateMemoryRequest, v1::Memory>(
      "CreateMemory",
      [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
        LETHE_ASSIGN_OR_RETURN(const auto config, FromProto(request.config()));
        return Answer(service->CreateMemory(request.tenant(), request.name(), config, call),
                      response);
      });
  Unary<v1::GetMemoryRequest, v1::Memory>(
      "GetMemory", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(service->GetMemory(request.tenant(), request.name()), response);
      });
  Unary<v1::ListMemoriesRequest, v1::ListMemoriesResponse>(
      "ListMemories",
      [service](const auto& request, const CallOptions&, auto* response) -> absl::Status {
        LETHE_ASSIGN_OR_RETURN(auto page, service->ListMemories(request.tenant(), PageOf(request)));
        for (const service::MemoryInfo& memory : page.items) {
          ToProto(memory, response->add_memories());
        }
        response->set_next_page_token(std::move(page.next_page_token));
        return absl::OkStatus();
      });
  Unary<v1::DeleteMemoryRequest, v1::DeleteMemoryResponse>(
      "DeleteMemory", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->DeleteMemory(request.tenant(), request.name(), call), response);
      });
  Unary<v1::InsertRequest, v1::InsertResponse>(
      "Insert", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(
            service->Insert(request.tenant(), request.memory(), FromProto(request.tokens()), call),
            response);
      });
  const auto* insert_stream =
      MethodOf(v1::InsertStreamRequest::descriptor()->file(), "InsertStream");
  MarkMethodRawCallback(
      insert_stream->index(),
      new grpc::internal::CallbackBidiHandler<ByteBuffer, ByteBuffer>(
          [this, service, calls = CallsOf(insert_stream)](grpc::CallbackServerContext* context) {
            return new rpc::InsertStream(context, service, calls, &insert_streams_);
          }));
  Unary<v1::QueryRequest, v1::QueryResponse>(
      "Query", [service](const auto& request, const CallOptions& call, auto* response) {
        return HandleQuery(service, request, call, response);
      });
  OneByOneStream<v1::QueryRequest, v1::QueryResponse>(
      "QueryStream", &query_streams_,
      [service](const auto& request, const CallOptions& call, auto* response) {
        return HandleQuery(service, request, call, response);
      });
  Unary<v1::ForgetRequest, v1::ForgetResponse>(
      "Forget",
      [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
        LETHE_ASSIGN_OR_RETURN(const service::ForgetInput input, FromProto(request));
        return Answer(service->Forget(input, call), response);
      });
  Unary<v1::EvictRequest, v1::EvictResponse>(
      "Evict", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->Evict(FromProto(request), call), response);
      });
  Unary<v1::EditRequest, v1::EditResponse>(
      "Edit", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->Edit(FromProto(request), call), response);
      });
  Unary<v1::DescribeRequest, v1::DescribeResponse>(
      "Describe", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->Describe(request.tenant(), request.memory(), request.refit(), call),
                      response);
      });
  Unary<v1::VerifyRequest, v1::VerifyResponse>(
      "Verify", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->Verify(request.tenant(), request.memory(), call), response);
      });
}

void CertificateHandlers::StopCalls() {
  RawService::StopCalls();
  exports_.StopAll();
}

void CertificateHandlers::WaitForCalls(std::chrono::system_clock::time_point deadline) {
  RawService::WaitForCalls(deadline);
  exports_.WaitUntilEmpty(deadline);
}

CertificateHandlers::CertificateHandlers(service::Service* service,
                                         const CallHooks& hooks,
                                         size_t max_exports,
                                         absl::Duration max_write)
    : RawService(hooks), exports_(max_exports) {
  Unary<v1::GetCheckpointRequest, v1::Checkpoint>(
      "GetCheckpoint", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(service->GetCheckpoint(request.tenant()), response);
      });
  Unary<v1::GetInclusionProofRequest, v1::InclusionProof>(
      "GetInclusionProof", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(
            service->GetInclusionProof(request.tenant(), FromProto(request), request.size()),
            response);
      });
  Unary<v1::GetConsistencyProofRequest, v1::ConsistencyProof>(
      "GetConsistencyProof", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(
            service->GetConsistencyProof(request.tenant(), request.old_size(), request.new_size()),
            response);
      });
  AnswerStream<v1::ExportRequest, v1::ExportPiece>(
      "Export", &exports_, max_write,
      [service](const auto& request, const CallOptions& call, const auto& write) -> absl::Status {
        ExportStream stream(write, call);
        LETHE_RETURN_IF_ERROR(service->Export(request.tenant(), FromProto(request), stream));
        return stream.Done();
      });
  Unary<v1::AddCosignatureRequest, v1::Checkpoint>(
      "AddCosignature", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(service->AddCosignature(request.tenant(), request.line()), response);
      });
  Unary<v1::RotateKeyRequest, v1::RotateKeyResponse>(
      "RotateKey", [service](const auto&, const CallOptions& call, auto* response) {
        return Answer(service->RotateKey(call), response);
      });
  Unary<v1::RewrapKeysRequest, v1::RewrapKeysResponse>(
      "RewrapKeys", [service](const auto& request, const CallOptions& call, auto* response) {
        return Answer(service->RewrapKeys(request.tenant(), call), response);
      });
  Unary<v1::GetCertificateRequest, v1::Certificate>(
      "GetCertificate", [service](const auto& request, const CallOptions&, auto* response) {
        return Answer(service->GetCertificate(request.tenant(), request.id()), response);
      });
  Unary<v1::ListCertificatesRequest, v1::ListCertificatesResponse>(
      "ListCertificates",
      [service](const auto& request, const CallOptions&, auto* response) -> absl::Status {
        LETHE_ASSIGN_OR_RETURN(auto page, service->ListCertificates(
                                              request.tenant(), request.memory(), PageOf(request)));
        for (const service::CertificateInfo& certificate : page.items) {
          ToProto(certificate, response->add_certificates());
        }
        response->set_next_page_token(std::move(page.next_page_token));
        return absl::OkStatus();
      });
}

}  // namespace lethe::rpc
