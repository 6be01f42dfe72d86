// The loops of method/adjoint.h.
#ifndef LETHE_CORE_BATCHED_CPU_ADJOINT_H_
#define LETHE_CORE_BATCHED_CPU_ADJOINT_H_

#include "core/batched/cpu/workspace.h"
#include "core/batched/method/adjoint.h"

namespace lethe::batched {

// Requires a loaded problem with x and labels of its solution. `weights_bar` has n entries. Sets
// lambda (padding 0) and what is returned.
template <typename T>
GradientOutcome Adjoint(const T* weights_bar,
                        T threshold_bar,
                        Workspace<T>& work,
                        ScalarGradients<T>* gradients);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_ADJOINT_H_
