// Tenant: inserting, describing and closing.
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/commitments.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/insert.h"
#include "server/service/names.h"
#include "server/service/records.h"
#include "server/service/tenant.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

store::TokenRow ToRow(AcceptedToken& token) {
  return {.handle = token.handle,
          .id = std::move(token.content.id),
          .key = std::move(token.content.key),
          .value = std::move(token.content.value),
          .subject = std::move(token.content.subject),
          .payload = std::move(token.content.payload),
          .labels = EncodeLabels(token.content.labels),
          .salt = token.salt};
}

}  // namespace

absl::StatusOr<std::vector<InsertReply>> Tenant::Insert(
    absl::string_view memory_name,
    std::vector<std::vector<TokenInput>> batches,
    const CallOptions& call) {
  size_t total = 0;
  for (const std::vector<TokenInput>& batch : batches) {
    LETHE_RETURN_IF_ERROR(CheckBatchSize("tokens", batch.size()));
    total += batch.size();
  }
  LETHE_RETURN_IF_ERROR(CheckBatchSize("tokens", total));
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const MemoryPtr memory, WritableMemory(memory_name));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  InsertPlan plan = PlanInsert(*memory->state, memory->next_handle, std::move(batches));
  if (!plan.accepted.empty()) {
    if (absl::Status status = memory->state->Append(plan.accepted); !status.ok()) {
      // Every token passed the core's own validation a moment ago.
      memory->state.reset();
      return absl::InternalError(absl::StrCat("checked tokens were refused: ", status.message()));
    }
    const uint64_t next_handle = plan.accepted.back().handle + 1;
    std::vector<store::TokenRow> rows;
    rows.reserve(plan.accepted.size());
    for (AcceptedToken& token : plan.accepted) rows.push_back(ToRow(token));
    if (absl::Status status = store_->InsertTokens(memory->uid, rows); !status.ok()) {
      return StoreFailed(memory.get(), status);
    }
    memory->next_handle = next_handle;
    PublishNext(*memory);
  }
  const std::shared_ptr<const Published> state = memory->published.Get();
  for (InsertReply& reply : plan.replies) {
    reply.phase = state->snapshot->phase;
    reply.partition = state->snapshot->counts;
  }
  options_.log->Write(LogLevel::kDebug, "inserted",
                      {{"tenant", record_.name},
                       {"memory", memory->name},
                       {"tokens", static_cast<int64_t>(plan.accepted.size())}});
  return std::move(plan.replies);
}

absl::StatusOr<DescribeReply> Tenant::Describe(absl::string_view memory_name,
                                               bool refit,
                                               const CallOptions& call) {
  if (closed()) return absl::NotFoundError("tenant: there is none with this name");
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
      options_.log->Write(LogLevel::kError, "check_failed",
                          {{"tenant", record_.name}, {"memory", memory->name}});
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
    state = memory->published.Get();
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
    reply.solver.condition = snapshot.proof.condition;
    reply.solver.slack = snapshot.proof.slack;
    reply.solver.precision_bits = static_cast<uint32_t>(std::max(0, snapshot.proof.precision_bits));
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

absl::StatusOr<DeleteTenantReply> Tenant::Close(const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  DeleteTenantReply reply;
  {
    MutexLock map_lock(map_mutex_);
    for (const auto& [name, memory] : memories_) {
      LETHE_ASSIGN_OR_RETURN(const store::MemoryCounts counts, store_->CountMemory(memory->uid));
      reply.erased_tokens += counts.tokens;
    }
  }
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, store_->GetLogHead());
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, head, audit::CertificateKind::kTenantClosed, now);
  body.request_commitment =
      audit::RequestCommitment(audit::RandomSalt(), record_.name, audit::RandomUid());
  body.counts.matched = reply.erased_tokens;
  body.counts.erased = reply.erased_tokens;
  LETHE_ASSIGN_OR_RETURN(const store::CertificateAppend certificate,
                         SignForStore(body, signer_, "", "", now));
  absl::StatusOr<store::EraseResult> result = store_->CloseTenant(certificate);
  if (!result.ok()) return StoreFailed(nullptr, result.status());
  FinishErase(*result);
  closed_.store(true);
  certificate_count_.store(head.count + 1);
  {
    MutexLock map_lock(map_mutex_);
    memories_.clear();
  }
  store_.reset();
  reply.certificate_id = certificate.record.id;
  reply.envelope = certificate.record.envelope;
  return reply;
}

void Tenant::FinishErase(const store::EraseResult& result) {
  if (result.checkpoint.ok()) return;
  // Committed, but old pages may still stand in the write-ahead log: once more, then say so.
  const absl::Status status = store_->Checkpoint();
  if (status.ok()) return;
  options_.log->Write(LogLevel::kError, "checkpoint_failed",
                      {{"tenant", record_.name}, {"message", std::string(status.message())}});
}

}  // namespace lethe::service
