// Which tokens a memory can do without: the rule behind ExactMemory::PlanEviction.
//
// Requires `state` to be the published state of `tokens`. Cost O(n log n). Deterministic: a
// function of the retained tokens, the options and the budget.
#ifndef LETHE_CORE_SVDD_EVICTION_H_
#define LETHE_CORE_SVDD_EVICTION_H_

#include "core/svdd/memory.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

EvictionPlan PlanEviction(const TokenTable& tokens, const Snapshot& state, size_t budget);

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_EVICTION_H_
