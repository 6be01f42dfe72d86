// The loops of method/fista.h over packs.
#ifndef LETHE_CORE_BATCHED_CPU_FISTA_H_
#define LETHE_CORE_BATCHED_CPU_FISTA_H_

#include "core/batched/cpu/workspace.h"

namespace lethe::batched {

// Requires a loaded problem. `start`: n weights, or null for equal ones. Sets x, which is feasible
// to a few roundings, and labels by its exact zeros and C.
template <typename T>
void Fista(const Options& options, const T* start, Workspace<T>& work);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_FISTA_H_
