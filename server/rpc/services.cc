#include "server/rpc/services.h"

#include "core/base/status_macros.h"
#include "server/calls/convert.h"
#include "server/calls/unary_calls.h"
#include "server/rpc/export_stream.h"

namespace lethe::rpc {

TenantHandlers::TenantHandlers(service::Service* service, const Shared& shared)
    : RawService(shared) {
  for (const calls::UnaryCall& call : calls::TenantCalls(service)) Unary(call);
}

ErasureHandlers::ErasureHandlers(service::Service* service, const Shared& shared)
    : RawService(shared) {
  for (const calls::UnaryCall& call : calls::ErasureCalls(service)) Unary(call);
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
                               const Shared& shared,
                               size_t max_streams,
                               const StartThread& start_thread)
    : RawService(shared), insert_streams_(max_streams), query_streams_(max_streams) {
  for (const calls::UnaryCall& call : calls::MemoryCalls(service)) Unary(call);
  const auto* insert_stream =
      MethodOf(v1::InsertStreamRequest::descriptor()->file(), "InsertStream");
  MarkMethodRawCallback(
      insert_stream->index(),
      new grpc::internal::CallbackBidiHandler<ByteBuffer, ByteBuffer>(
          [this, service, calls = CallsOf(insert_stream), limits = shared.watch->options(),
           start_thread](grpc::CallbackServerContext* context) {
            return new rpc::InsertStream(context, service, calls, &insert_streams_, limits,
                                         start_thread);
          }));
  OneByOneStream<v1::QueryRequest, v1::QueryResponse>(
      "QueryStream", &query_streams_,
      [service](const auto& request, const service::CallOptions& call, auto* response) {
        return calls::Query(service, request, call, response);
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
                                         const Shared& shared,
                                         size_t max_exports,
                                         absl::Duration max_write)
    : RawService(shared), exports_(max_exports) {
  for (const calls::UnaryCall& call : calls::CertificateCalls(service)) Unary(call);
  AnswerStream<v1::ExportRequest, v1::ExportPiece>(
      "Export", &exports_, max_write,
      [service](const auto& request, const service::CallOptions& call,
                const auto& write) -> absl::Status {
        ExportStream stream(write, call);
        LETHE_RETURN_IF_ERROR(
            service->Export(request.tenant(), calls::FromProto(request), stream, call));
        return stream.Done();
      });
}

}  // namespace lethe::rpc
