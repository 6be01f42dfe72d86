// Service: erasure requests and legal holds, and the thread that works on the requests.
#include <algorithm>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "server/service/low_priority.h"
#include "server/service/names.h"
#include "server/service/service.h"
#include "server/service/tenant_registry_entry.h"

namespace lethe::service {
namespace {

// How long the thread sleeps at most; a change wakes it.
constexpr absl::Duration kLongestNap = absl::Seconds(30);
// Before a tenant is tried again that could not be opened in the time that callbacks have for it.
constexpr absl::Duration kCallbackPause = absl::Seconds(5);

}  // namespace

absl::StatusOr<Service::Turn> Service::TakeTurn(WriteTickets::Use kind,
                                                const std::string& tenant,
                                                TenantRegistry::Use use,
                                                const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(WriteTicket ticket, writes_.Take(kind, tenant));
  LETHE_ASSIGN_OR_RETURN(TenantHold found, Find("tenant", tenant, use, call));
  return Turn{.ticket = std::move(ticket), .tenant = std::move(found)};
}

absl::StatusOr<ErasureRequestInfo> Service::CreateErasureRequest(const ErasureRequestInput& input,
                                                                 const CallOptions& call) {
  return AtRate(Quota::kErasures, input.tenant, 1, [&]() -> absl::StatusOr<ErasureRequestInfo> {
    LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kErasure, input.tenant,
                                                     TenantRegistry::Use::kWrite, call));
    return turn.tenant->CreateErasureRequest(input, call);
  });
}

absl::StatusOr<ErasureRequestInfo> Service::GetErasureRequest(const std::string& tenant,
                                                              const std::string& id,
                                                              const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kCall, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->GetErasureRequest(id);
}

absl::StatusOr<ErasureRequestInfo> Service::FindErasureRequest(const std::string& tenant,
                                                               const std::string& key,
                                                               const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kCall, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->FindErasureRequest(key);
}

absl::StatusOr<Page<ErasureRequestInfo>> Service::ListErasureRequests(
    const std::string& tenant,
    std::optional<ErasureState> state,
    const PageRequest& page,
    const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kCall, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->ListErasureRequests(state, page);
}

absl::StatusOr<ErasureRequestInfo> Service::CancelErasureRequest(const std::string& tenant,
                                                                 const std::string& id,
                                                                 const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kErasure, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->CancelErasureRequest(id);
}

absl::StatusOr<ErasureRequestInfo> Service::ExtendErasureRequest(const std::string& tenant,
                                                                 const std::string& id,
                                                                 absl::Time due,
                                                                 const std::string& reason,
                                                                 const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kErasure, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->ExtendErasureRequest(id, due, reason);
}

absl::StatusOr<std::vector<ErasureReceipt>> Service::TakeErasureReceipts(const std::string& tenant,
                                                                         const std::string& id,
                                                                         bool discard,
                                                                         const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kCall, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->TakeErasureReceipts(id, discard);
}

absl::StatusOr<DiscoveryReply> Service::Discover(const std::string& tenant,
                                                 const std::vector<Identity>& identities,
                                                 const CallOptions& call) {
  return AtRate(Quota::kErasures, tenant, 1, [&]() -> absl::StatusOr<DiscoveryReply> {
    LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kCall, tenant,
                                                     TenantRegistry::Use::kRead, call));
    return AtLowPriority([&] { return turn.tenant->Discover(identities, call); });
  });
}

absl::StatusOr<HoldInfo> Service::PlaceHold(const HoldInput& input, const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kErasure, input.tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->PlaceHold(input, call);
}

absl::StatusOr<HoldInfo> Service::ReleaseHold(const std::string& tenant,
                                              const std::string& id,
                                              const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kErasure, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->ReleaseHold(id);
}

absl::StatusOr<Page<HoldInfo>> Service::ListHolds(const std::string& tenant,
                                                  bool released_too,
                                                  const PageRequest& page,
                                                  const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kCall, tenant,
                                                   TenantRegistry::Use::kRead, call));
  return turn.tenant->ListHolds(released_too, page);
}

OpenErasureCounts Service::ErasureCounts() const { return agenda_->Counts(NowMicros()); }

bool Service::WorkOnNextErasure() {
  const std::optional<ErasureAgenda::Item> item = agenda_->DueWork(NowMicros());
  if (!item.has_value() || agenda_->stopped()) return false;
  const CallOptions call{.still_wanted = [this]() -> absl::Status {
    if (!agenda_->stopped()) return absl::OkStatus();
    return absl::CancelledError("the server stops");
  }};
  bool opened = false;
  const absl::Status status = Guarded([&]() -> absl::Status {
    ballast_->Restore();
    LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kOwn, item->tenant,
                                                     TenantRegistry::Use::kWrite, call));
    opened = true;
    return turn.tenant->WorkOnErasure(item->number, call);
  });
  if (absl::IsNotFound(status) && !registry_.Contains(item->tenant)) {
    agenda_->Replace(item->tenant, {});
  } else if (!status.ok() && !agenda_->stopped()) {
    options_.tenant.log->Write(
        program::LogLevel::kWarning, "erasure_request_postponed",
        {{"tenant", item->tenant}, {"code", static_cast<int64_t>(status.code())}});
    // What can be written down has a time of its own (Tenant::NoteFailure). A store that fails
    // fails for all; a row that is damaged, or an answer that is wrong, is of this request alone.
    if (opened && (absl::IsDataLoss(status) || absl::IsInternal(status))) {
      agenda_->PostponeOne(item->tenant, item->number, NowMicros());
    } else {
      agenda_->Postpone(item->tenant, NowMicros());
    }
  }
  return true;
}

void Service::RunDueErasures() {
  while (WorkOnNextErasure()) {
  }
}

void Service::StartErasures() {
  if (erasures_.joinable()) return;
  erasures_ = std::thread([this] {
    LowerPriority();
    while (!agenda_->stopped()) {
      RunDueErasures();
      absl::Duration nap = kLongestNap;
      if (const std::optional<int64_t> next = agenda_->NextWork()) {
        nap = std::clamp(absl::Microseconds(*next - NowMicros()), absl::Milliseconds(1), nap);
      }
      agenda_->Wait(nap);
    }
  });
}

void Service::StopErasures() {
  agenda_->Stop();
  if (erasures_.joinable()) erasures_.join();
}

std::vector<CallbackDelivery> Service::DueCallbacks(size_t limit, const CallOptions& call) {
  std::vector<CallbackDelivery> due;
  std::set<std::string> waited_for;
  const auto later = [this](const ErasureAgenda::Item& item) {
    agenda_->PostponeCallback(item.tenant, item.number,
                              NowMicros() + absl::ToInt64Microseconds(kCallbackPause));
  };
  for (const ErasureAgenda::Item& item : agenda_->DueCallbacks(NowMicros(), limit)) {
    if (due.size() >= limit) break;
    if (waited_for.contains(item.tenant)) {
      later(item);
      continue;
    }
    const bool in_time = !call.still_wanted || call.still_wanted().ok();
    bool opened = false;
    const absl::Status status = Guarded([&]() -> absl::Status {
      LETHE_ASSIGN_OR_RETURN(const Turn turn, TakeTurn(WriteTickets::Use::kOwn, item.tenant,
                                                       TenantRegistry::Use::kRead, call));
      opened = true;
      LETHE_ASSIGN_OR_RETURN(std::vector<CallbackDelivery> of_request,
                             turn.tenant->DueCallbacks(item.number));
      std::ranges::move(of_request, std::back_inserter(due));
      return absl::OkStatus();
    });
    if (status.ok()) continue;
    if (!opened && (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status))) {
      // Nothing is wrong with the tenant, which others may be able to wait for; and those that come
      // when the time is over are not the ones that took it.
      if (in_time) {
        waited_for.insert(item.tenant);
        later(item);
      }
      continue;
    }
    options_.tenant.log->Write(
        program::LogLevel::kWarning, "erasure_callbacks_postponed",
        {{"tenant", item.tenant}, {"code", static_cast<int64_t>(status.code())}});
    if (opened && (absl::IsDataLoss(status) || absl::IsInternal(status))) {
      agenda_->PostponeOne(item.tenant, item.number, NowMicros());
    } else {
      agenda_->Postpone(item.tenant, NowMicros());
    }
  }
  return due;
}

void Service::PostponeCallback(const CallbackDelivery& delivery, absl::Duration pause) {
  agenda_->PostponeCallback(delivery.request.tenant, delivery.number,
                            NowMicros() + absl::ToInt64Microseconds(pause));
}

absl::Status Service::SettleCallback(const CallbackDelivery& delivery,
                                     CallbackOutcome outcome,
                                     const CallOptions& call) {
  const std::string& tenant = delivery.request.tenant;
  LETHE_ASSIGN_OR_RETURN(
      const Turn turn, TakeTurn(WriteTickets::Use::kOwn, tenant, TenantRegistry::Use::kRead, call));
  return turn.tenant->SettleCallback(delivery.request.id, delivery.sequence, delivery.url_index,
                                     outcome);
}

}  // namespace lethe::service
