// A problem is brought into the workspace: checked, and K made from its points where it has those.
#ifndef LETHE_CORE_BATCHED_CPU_GRAM_H_
#define LETHE_CORE_BATCHED_CPU_GRAM_H_

#include <cstddef>

#include "core/batched/cpu/workspace.h"
#include "core/batched/problem.h"

namespace lethe::batched {

// Problem b of the batch: matrix, diagonal, points, box, ridge, parameter, scale and row_sum.
// Returns kUnsolved, or what is wrong with it. Squared distances are sums of squared differences,
// so near-duplicates keep their digits and K is symmetric to the bit. Cost n^2 d / 2 + n^2 / 2 exp.
template <typename T>
Outcome Load(const Batch<T>& batch, size_t b, Workspace<T>& work);

// The derivatives by points and kernel parameter, from those by K, which are (9)'s:
//
//     dL = sum_ij G_ij dK_ij,  G = diag(lambda) - lambda a' - a lambda'
//
// lambda and x of the workspace have padding 0; points that are 0 in both are left out.
// `points_bar` has n x dimension entries. Where two points of laplacian coincide it has a kink; the
// mean over all directions, 0, is taken. Cost |S u E|^2 d.
template <typename T>
void PointsBackward(const Batch<T>& batch, Workspace<T>& work, T* points_bar, T* parameter_bar);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_GRAM_H_
