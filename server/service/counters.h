// What the service has done since it started, for whoever shows it (server/metrics). Each number
// only grows. Threads: safe; the numbers are not of one moment.
#ifndef LETHE_SERVER_SERVICE_COUNTERS_H_
#define LETHE_SERVER_SERVICE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/svdd/memory.h"
#include "server/service/types.h"

namespace lethe::service {

inline constexpr size_t kVerdicts = 4;
inline constexpr size_t kQuotas = 8;
inline constexpr size_t kErasureEnds = 4;

struct ServiceCounters {
  using Count = std::atomic<uint64_t>;

  // svdd::SolverCounters of all memories, those that are solved at an opening included.
  Count updates = 0;
  Count proofs = 0;
  Count climbs = 0;
  Count fallbacks = 0;
  Count refits = 0;
  // On states after an erasure, an edit or an eviction, and of Verify; by Verdict, from 1.
  std::array<Count, kVerdicts> verdicts = {};
  Count failed_checks = 0;  // of the independent check, or of a comparison with a refit
  Count inserted = 0;       // tokens
  Count erased = 0;         // tokens, those that an edit replaced included
  std::array<Count, kErasureEnds> erasures_ended = {};  // by ErasureState, from kCompleted
  Count queries = 0;                                    // that were answered, not calls
  Count certificates = 0;                               // appended to logs
  std::atomic<int64_t> last_append_micros = 0;     // Unix time of the last of them; 0: none yet
  std::array<Count, kQuotas> quota_refusals = {};  // by Quota (quotas.h)

  void Add(const svdd::SolverCounters& before, const svdd::SolverCounters& after) {
    updates += after.updates - before.updates;
    proofs += after.proofs - before.proofs;
    climbs += after.climbs - before.climbs;
    fallbacks += after.fallbacks - before.fallbacks;
    refits += after.refits - before.refits;
  }
  void Add(Verdict verdict) { ++verdicts[static_cast<size_t>(verdict) - 1]; }
};

// For who has none to count into.
inline ServiceCounters* UnreadCounters() {
  static ServiceCounters unread;
  return &unread;
}

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_COUNTERS_H_
