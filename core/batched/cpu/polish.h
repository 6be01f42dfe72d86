// The second half of a solution: solves on the labels, flips of points that violate (8).
//
// From any weights with gradients g (mu included) and r = 1 - sum a, the solution on the margin is
// the correction
//
//     (2 K_SS + rho I) delta + nu 1 = -g_S,   1'delta = r (10)
//
// which is small near the answer, so that it keeps its digits where the solution itself would
// lose them to the cancellation of mu 1. A point of S whose weight leaves [0, C] goes to the bound
// that it passed; a point of E with g > 0, or of R with g < 0, joins S.
#ifndef LETHE_CORE_BATCHED_CPU_POLISH_H_
#define LETHE_CORE_BATCHED_CPU_POLISH_H_

#include "core/batched/cpu/workspace.h"

namespace lethe::batched {

// Gradients, threshold and gap of x at its labels. Cost n |S u E|.
template <typename T>
void Judge(Workspace<T>& work);

// Requires x and labels of Fista. Ends with x, labels, thresholds, gap and rounds of the answer.
template <typename T>
Outcome Polish(const Options& options, Workspace<T>& work);

// The factor of 2 K_SS + rho I for the labels, and the order of its rows. False: not positive
// definite. Cost |S|^3 / 6.
template <typename T>
bool FactoriseMargin(Workspace<T>& work);

// What fp arithmetic leaves of a gap that is 0, in the units of K.
template <typename T>
T GapTolerance(const Options& options, const Workspace<T>& work);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_POLISH_H_
