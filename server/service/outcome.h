// The fields that the answers of Forget, Evict and Edit have in common. Threads: functions without
// state.
#ifndef LETHE_SERVER_SERVICE_OUTCOME_H_
#define LETHE_SERVER_SERVICE_OUTCOME_H_

#include <utility>

#include "server/service/memory_state.h"
#include "server/service/published.h"

namespace lethe::service {

// As long as nothing is changed: the present state, before and after.
template <typename Reply>
void SetUnchanged(Reply& reply, const Published& state) {
  reply.partition_before = state.snapshot->counts;
  reply.partition_after = state.snapshot->counts;
  reply.verdict = Verdict::kProven;
  reply.state_digest = StateDigestHex(state);
}

// What a dry run foresees.
template <typename Reply>
void SetForeseen(Reply& reply, MemoryState::Foreseen foreseen) {
  reply.partition_after = foreseen.partition;
  reply.state_digest = std::move(foreseen.state_digest);
}

// What an erasure, prepared for its commit (Tenant), leaves behind.
template <typename Reply, typename Prepared>
void SetOutcome(Reply& reply, const Prepared& prepared) {
  reply.partition_after = prepared.after->snapshot->counts;
  reply.verdict = prepared.verdict;
  reply.certificate_id = prepared.certificate.record.id;
  reply.state_digest = StateDigestHex(*prepared.after);
}

// What an erasure that is finished gives to its requester.
template <typename Reply, typename Erased>
void SetErased(Reply& reply, Erased erased) {
  reply.receipt = std::move(erased.receipt);
  reply.destruction = std::move(erased.destruction);
}

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_OUTCOME_H_
