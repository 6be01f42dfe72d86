#include <utility>

#include "core/base/status_macros.h"
#include "server/calls/convert_erasure.h"
#include "server/calls/unary_calls.h"
#include "server/service/names.h"

namespace lethe::calls {

using service::CallOptions;

std::vector<UnaryCall> ErasureCalls(service::Service* service) {
  return {
      MakeUnary<v1::CreateErasureRequestRequest, v1::ErasureRequest>(
          "CreateErasureRequest",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const service::ErasureRequestInput input, FromProto(request));
            return Answer(service->CreateErasureRequest(input, call), response);
          }),
      MakeUnary<v1::GetErasureRequestRequest, v1::ErasureRequest>(
          "GetErasureRequest",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            if (request.id().empty() == request.idempotency_key().empty()) {
              return service::FieldError("id", "set either this or idempotency_key");
            }
            return Answer(
                request.id().empty()
                    ? service->FindErasureRequest(request.tenant(), request.idempotency_key(), call)
                    : service->GetErasureRequest(request.tenant(), request.id(), call),
                response);
          }),
      MakeUnary<v1::ListErasureRequestsRequest, v1::ListErasureRequestsResponse>(
          "ListErasureRequests",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const auto state, FromProto(request.state()));
            LETHE_ASSIGN_OR_RETURN(auto page, service->ListErasureRequests(request.tenant(), state,
                                                                           PageOf(request), call));
            for (const service::ErasureRequestInfo& info : page.items) {
              ToProto(info, response->add_requests());
            }
            response->set_next_page_token(std::move(page.next_page_token));
            return absl::OkStatus();
          }),
      MakeUnary<v1::CancelErasureRequestRequest, v1::ErasureRequest>(
          "CancelErasureRequest",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->CancelErasureRequest(request.tenant(), request.id(), call),
                          response);
          }),
      MakeUnary<v1::ExtendErasureRequestRequest, v1::ErasureRequest>(
          "ExtendErasureRequest",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const absl::Time due, ParseTime("due_time", request.due_time()));
            return Answer(service->ExtendErasureRequest(request.tenant(), request.id(), due,
                                                        request.reason(), call),
                          response);
          }),
      MakeUnary<v1::TakeErasureReceiptsRequest, v1::TakeErasureReceiptsResponse>(
          "TakeErasureReceipts",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->TakeErasureReceipts(request.tenant(), request.id(),
                                                       request.discard(), call),
                          response);
          }),
      MakeUnary<v1::DiscoverRequest, v1::DiscoverResponse>(
          "Discover",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const auto identities, FromProto(request.identities()));
            return Answer(service->Discover(request.tenant(), identities, call), response);
          }),
      MakeUnary<v1::PlaceHoldRequest, v1::Hold>(
          "PlaceHold",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->PlaceHold(FromProto(request), call), response);
          }),
      MakeUnary<v1::ReleaseHoldRequest, v1::Hold>(
          "ReleaseHold",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->ReleaseHold(request.tenant(), request.id(), call), response);
          }),
      MakeUnary<v1::ListHoldsRequest, v1::ListHoldsResponse>(
          "ListHolds",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(auto page,
                                   service->ListHolds(request.tenant(), request.released_too(),
                                                      PageOf(request), call));
            for (const service::HoldInfo& hold : page.items) ToProto(hold, response->add_holds());
            response->set_next_page_token(std::move(page.next_page_token));
            return absl::OkStatus();
          }),
  };
}

}  // namespace lethe::calls
