// Whether an eviction changed nothing that it must not change.
//
// Holds the states before and after against each other, and trusts nothing of the plan: every token
// with weight that stayed has its label and its weight, bit for bit; where copies with weight were
// taken out, the others of the group have equal values, stay in the margin and carry the same mass
// together, up to the rounding of each weight; mu is the same, bit for bit, or an interval that is
// no narrower. Then every readout of the exact problem is what it was.
//
// Errors: INTERNAL says which of these fails, without ids or numbers. Cost O(supports d). Threads:
// a function without state.
#ifndef LETHE_SERVER_SERVICE_EVICTION_CHECK_H_
#define LETHE_SERVER_SERVICE_EVICTION_CHECK_H_

#include <span>

#include "absl/status/status.h"
#include "core/svdd/snapshot.h"

namespace lethe::service {

// `evicted` increases.
absl::Status CheckEviction(const svdd::Snapshot& before,
                           const svdd::Snapshot& after,
                           std::span<const svdd::TokenHandle> evicted);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_EVICTION_CHECK_H_
