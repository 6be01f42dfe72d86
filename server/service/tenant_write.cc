// Tenant: inserting and describing.
#include <algorithm>
#include <span>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/insert.h"
#include "server/service/names.h"
#include "server/service/rows.h"
#include "server/service/tenant.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

// Tokens that are appended before it is asked whether anybody waits for the call. Each part costs
// the proof of a state, whose cost hardly depends on the part, so they are never smaller than this.
constexpr size_t kFirstPart = 256;
constexpr absl::Duration kShort = absl::Milliseconds(50);
constexpr absl::Duration kLong = absl::Seconds(1);

absl::Status AppendInParts(MemoryState& state,
                           std::span<const AcceptedToken> tokens,
                           const CallOptions& call) {
  size_t part = kFirstPart;
  while (!tokens.empty()) {
    const size_t count = std::min(part, tokens.size());
    const absl::Time begin = absl::Now();
    if (absl::Status status = state.Append(tokens.first(count)); !status.ok()) {
      if (absl::IsInternal(status)) return status;  // a state that cannot be proven
      // Every token passed the core's own validation a moment ago.
      return absl::InternalError(absl::StrCat("checked tokens were refused: ", status.message()));
    }
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    const absl::Duration took = absl::Now() - begin;
    if (took < kShort) part *= 4;
    if (took > kLong) part = std::max(kFirstPart, part / 4);
    tokens = tokens.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<InsertReply>> Tenant::Insert(
    absl::string_view memory_name,
    std::vector<std::vector<TokenInput>> batches,
    const CallOptions& call,
    const TenantQuotas& quotas) {
  size_t total = 0;
  for (const std::vector<TokenInput>& batch : batches) {
    LETHE_RETURN_IF_ERROR(CheckBatchSize("tokens", batch.size()));
    total += batch.size();
  }
  LETHE_RETURN_IF_ERROR(CheckBatchSize("tokens", total));
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(memory_name));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  if (memory->encoder != nullptr) {
    LETHE_RETURN_IF_ERROR(CheckEncodedTokens(*memory->encoder, total));
  }
  InsertPlan plan =
      PlanInsert(*memory->state, memory->encoder.get(), memory->next_handle, std::move(batches));
  if (!plan.accepted.empty()) {
    LETHE_RETURN_IF_ERROR(CheckRoom(plan.accepted, quotas));
    // Whatever ends this call before the store has committed, an exception included, must not leave
    // a state behind that differs from the stored rows.
    absl::Cleanup drop_state = [&memory] { memory->state.reset(); };
    LETHE_RETURN_IF_ERROR(AppendInParts(*memory->state, plan.accepted, call));
    const uint64_t next_handle = plan.accepted.back().handle + 1;
    std::vector<store::TokenRow> rows;
    rows.reserve(plan.accepted.size());
    for (AcceptedToken& token : plan.accepted) rows.push_back(ToRow(std::move(token)));
    if (absl::Status status = store_->InsertTokens(memory->uid, rows); !status.ok()) {
      return StoreFailed(memory.get(), status);
    }
    memory->next_handle = next_handle;
    PublishNext(*memory);
    options_.counters->inserted += plan.accepted.size();
    std::move(drop_state).Cancel();
  }
  const std::shared_ptr<const Published> state = memory->published.Get();
  for (InsertReply& reply : plan.replies) {
    reply.phase = state->snapshot->phase;
    reply.partition = state->snapshot->counts;
  }
  options_.log->Write(program::LogLevel::kDebug, "inserted",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"tokens", static_cast<int64_t>(plan.accepted.size())}});
  return std::move(plan.replies);
}

absl::Status Tenant::CheckRoom(const std::vector<AcceptedToken>& tokens,
                               const TenantQuotas& quotas) {
  if (const uint64_t most = quotas[Quota::kTokens]; most != 0) {
    if (EstimateSize().tokens + tokens.size() > most) {
      return QuotaExceeded(Quota::kTokens, most, options_.counters);
    }
  }
  uint64_t bytes = 0;
  for (const AcceptedToken& token : tokens) {
    bytes += token.content.payload.size() +
             sizeof(double) * (token.content.key.size() + token.content.value.size());
  }
  return CheckBytes(bytes, quotas);
}

absl::Status Tenant::CheckBytes(uint64_t bytes, const TenantQuotas& quotas) {
  const uint64_t most = quotas[Quota::kBytes];
  if (most == 0) return absl::OkStatus();
  const absl::StatusOr<uint64_t> used = store_->UsedBytes();
  if (!used.ok()) return StoreFailed(nullptr, used.status());
  if (*used + bytes <= most) return absl::OkStatus();
  return QuotaExceeded(Quota::kBytes, most, options_.counters);
}

absl::StatusOr<DescribeReply> Tenant::Describe(absl::string_view memory_name,
                                               bool refit,
                                               const CallOptions& call) {
  if (gone()) return absl::NotFoundError("tenant: there is none with this name");
  Verdict verdict = Verdict::kProven;
  MemoryPtr memory;
  std::shared_ptr<const Published> state;
  if (refit) {
    MutexLock lock(writer_);
    LETHE_ASSIGN_OR_RETURN(memory, WritableMemory(memory_name));
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    std::optional<audit::RefitComparison> comparison;
    absl::Status status = memory->state->Check();
    if (status.ok()) status = CompareWithRefit(*memory, &comparison);
    if (!status.ok()) {
      LogFailedCheck(*memory);
      memory->state.reset();
      return status;
    }
    PublishNext(*memory);  // the same state with the fresh check
    // Taken under the lock: the verdict is about this state and not about a later one.
    state = memory->published.Get();
    verdict = Verdict::kBitIdentical;
  } else {
    memory = FindMemory(memory_name);
    if (memory == nullptr) return absl::NotFoundError("memory: there is none with this name");
    LETHE_ASSIGN_OR_RETURN(state, memory->published.Serve());
  }
  const svdd::Snapshot& snapshot = *state->snapshot;
  DescribeReply reply;
  reply.memory = InfoOf(*memory);
  reply.memory.phase = snapshot.phase;
  reply.memory.partition = snapshot.counts;
  if (snapshot.phase == svdd::Phase::kActive) {
    reply.mu = snapshot.mu;
    reply.mu_is_interval = !snapshot.mu.has_value();
    reply.mu_low = snapshot.mu_low;
    reply.mu_high = snapshot.mu_high;
    reply.radius_squared = snapshot.radius_squared;
    const svdd::Proof& proof = snapshot.proof;
    reply.solver.condition = proof.condition;
    reply.solver.slack = proof.slack;
    reply.solver.precision_bits = static_cast<uint32_t>(std::max(0, proof.precision_bits));
    reply.solver.residual = proof.residual;
    reply.solver.weight_bound = proof.weight_bound;
    reply.solver.decision_bound = proof.decision_bound;
    reply.solver.readout_bound = proof.readout_bound;
    reply.solver.gap_bound = proof.gap_bound;
    reply.solver.lambda_min = proof.lambda_min;
    reply.solver.kkt_residual = state->last_check.max_violation;
    reply.solver.duality_gap = state->last_check.gap;
  }
  reply.solver.climbs = state->counters.climbs;
  reply.solver.fallbacks = state->counters.fallbacks;
  reply.state_digest = StateDigestHex(*state);
  reply.verdict = verdict;
  reply.subjects = state->subjects;
  return reply;
}

}  // namespace lethe::service
