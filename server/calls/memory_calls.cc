#include <utility>

#include "core/base/status_macros.h"
#include "lethe/v1/memory_service.pb.h"
#include "server/calls/unary_calls.h"

namespace lethe::calls {

using service::CallOptions;

absl::Status Query(service::Service* service,
                   const v1::QueryRequest& request,
                   const CallOptions& call,
                   v1::QueryResponse* response) {
  return Answer(service->Query(FromProto(request), call), response);
}

std::vector<UnaryCall> MemoryCalls(service::Service* service) {
  return {
      MakeUnary<v1::CreateMemoryRequest, v1::Memory>(
          "CreateMemory",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const auto config, FromProto(request.config()));
            return Answer(service->CreateMemory(request.tenant(), request.name(), config, call),
                          response);
          }),
      MakeUnary<v1::GetMemoryRequest, v1::Memory>(
          "GetMemory",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetMemory(request.tenant(), request.name(), call), response);
          }),
      MakeUnary<v1::ListMemoriesRequest, v1::ListMemoriesResponse>(
          "ListMemories",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(auto page,
                                   service->ListMemories(request.tenant(), PageOf(request), call));
            for (const service::MemoryInfo& memory : page.items) {
              ToProto(memory, response->add_memories());
            }
            response->set_next_page_token(std::move(page.next_page_token));
            return absl::OkStatus();
          }),
      MakeUnary<v1::DeleteMemoryRequest, v1::DeleteMemoryResponse>(
          "DeleteMemory",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->DeleteMemory(request.tenant(), request.name(), call), response);
          }),
      MakeUnary<v1::InsertRequest, v1::InsertResponse>(
          "Insert",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->Insert(request.tenant(), request.memory(),
                                          FromProto(request.tokens()), call),
                          response);
          }),
      MakeUnary<v1::QueryRequest, v1::QueryResponse>(
          "Query", [service](const auto& request, const CallOptions& call,
                             auto* response) { return Query(service, request, call, response); }),
      MakeUnary<v1::ForgetRequest, v1::ForgetResponse>(
          "Forget",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const service::ForgetInput input, FromProto(request));
            return Answer(service->Forget(input, call), response);
          }),
      MakeUnary<v1::EvictRequest, v1::EvictResponse>(
          "Evict",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->Evict(FromProto(request), call), response);
          }),
      MakeUnary<v1::EditRequest, v1::EditResponse>(
          "Edit",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->Edit(FromProto(request), call), response);
          }),
      MakeUnary<v1::DescribeRequest, v1::DescribeResponse>(
          "Describe",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(
                service->Describe(request.tenant(), request.memory(), request.refit(), call),
                response);
          }),
      MakeUnary<v1::VerifyRequest, v1::VerifyResponse>(
          "Verify",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->Verify(request.tenant(), request.memory(), call), response);
          }),
  };
}

}  // namespace lethe::calls
