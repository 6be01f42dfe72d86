// Tenant: taking out what no readout shows, down to a budget.
#include <algorithm>
#include <limits>
#include <utility>

#include "audit/random.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/outcome.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

absl::Status CheckEvict(const EvictInput& input) {
  LETHE_RETURN_IF_ERROR(CheckRequestId("request_id", input.request_id));
  if (input.budget == 0) {
    return FieldError("budget", "must be at least 1; to erase every token, forget everything");
  }
  return absl::OkStatus();
}

std::vector<svdd::TokenHandle> HandlesOf(const svdd::EvictionPlan& plan) {
  std::vector<svdd::TokenHandle> handles = plan.reserve;
  handles.insert(handles.end(), plan.surplus.begin(), plan.surplus.end());
  std::sort(handles.begin(), handles.end());
  return handles;
}

}  // namespace

// What holds keep is passed over, and the next in the order of the plan is taken in its place. A
// plan for a larger budget is the beginning of one for a smaller, and any part of one changes no
// readout.
Tenant::Choice Tenant::Choose(const Memory& memory, size_t budget) {
  if (holds_.empty()) return {.plan = options_.planner(memory.state->exact(), budget)};
  const svdd::EvictionPlan whole = options_.planner(memory.state->exact(), 1);
  Choice choice;
  choice.plan.retained = memory.state->size();
  for (const auto part : {&svdd::EvictionPlan::reserve, &svdd::EvictionPlan::surplus}) {
    for (const svdd::TokenHandle handle : whole.*part) {
      if (choice.plan.retained <= budget) return choice;
      if (HoldOn(memory.state->SubjectOf(handle)) != nullptr) {
        ++choice.held;
        continue;
      }
      (choice.plan.*part).push_back(handle);
      --choice.plan.retained;
    }
  }
  return choice;
}

absl::StatusOr<EvictReply> Tenant::Evict(const EvictInput& input, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckEvict(input));
  const Request request{
      .id = input.request_id, .memory = input.memory, .content = ContentOf(input)};
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (!input.dry_run) {
    LETHE_ASSIGN_OR_RETURN(std::optional<Answer> replayed, Replay(request));
    if (replayed.has_value()) return std::get<EvictReply>(*std::move(replayed));
  }
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(input.memory));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  const uint64_t budget = std::min<uint64_t>(input.budget, std::numeric_limits<size_t>::max());
  const Choice choice = Choose(*memory, static_cast<size_t>(budget));
  const svdd::EvictionPlan& plan = choice.plan;
  const std::vector<svdd::TokenHandle> handles = HandlesOf(plan);

  EvictReply reply;
  reply.reserve = plan.reserve.size();
  reply.surplus = plan.surplus.size();
  reply.held = choice.held;
  reply.retained = memory->state->size() - handles.size();
  reply.budget_reached = reply.retained <= input.budget;
  reply.request_id = input.request_id.empty() ? audit::RandomUid() : input.request_id;
  SetUnchanged(reply, *memory->published.Get());
  if (handles.empty()) {
    if (!input.dry_run) LETHE_RETURN_IF_ERROR(AnswerWithoutChange(*memory, request, reply));
    return reply;
  }
  if (input.dry_run) {
    LETHE_ASSIGN_OR_RETURN(MemoryState::Foreseen foreseen, Foresee(*memory, handles));
    SetForeseen(reply, std::move(foreseen));
    return reply;
  }
  Erasure erasure{.kind = audit::CertificateKind::kEvict,
                  .handles = handles,
                  .counts = {.matched = handles.size() + choice.held,
                             .erased = handles.size(),
                             .held = choice.held},
                  .request_id = reply.request_id,
                  .still_wanted = call.still_wanted,
                  .selection = audit::Selection{.budget = input.budget,
                                                .reserve = reply.reserve,
                                                .surplus = reply.surplus,
                                                .retained = reply.retained}};
  LETHE_ASSIGN_OR_RETURN(Erased erased, Erase(*memory, erasure, request,
                                              [&reply](const PreparedErasure& prepared) -> Answer {
                                                SetOutcome(reply, prepared);
                                                return reply;
                                              }));
  SetErased(reply, std::move(erased));
  options_.log->Write(program::LogLevel::kInfo, "evicted",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"reserve", static_cast<int64_t>(reply.reserve)},
                       {"surplus", static_cast<int64_t>(reply.surplus)},
                       {"retained", static_cast<int64_t>(reply.retained)},
                       {"certificate", reply.certificate_id}});
  return reply;
}

}  // namespace lethe::service
