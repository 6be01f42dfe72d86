// The loops of method/polish.h over packs.
#ifndef LETHE_CORE_BATCHED_CPU_POLISH_H_
#define LETHE_CORE_BATCHED_CPU_POLISH_H_

#include "core/batched/cpu/workspace.h"

namespace lethe::batched {

// Requires x and labels of Fista. Ends with x, labels, thresholds, gap and rounds of the answer.
template <typename T>
Outcome Polish(const Options& options, Workspace<T>& work);

// The factor of 2 K_SS + rho I for the labels, and the order of its rows. False: not positive
// definite. Cost |S|^3 / 6.
template <typename T>
bool FactoriseMargin(Workspace<T>& work);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_POLISH_H_
