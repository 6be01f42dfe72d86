// The derivative of one solution, (9) of backend.h.
#ifndef LETHE_CORE_BATCHED_CPU_ADJOINT_H_
#define LETHE_CORE_BATCHED_CPU_ADJOINT_H_

#include "core/batched/cpu/workspace.h"

namespace lethe::batched {

template <typename T>
struct ScalarGradients {
  T box = 0;
  T ridge = 0;
};

// Requires a loaded problem with x and labels of its solution. `weights_bar` has n entries. Sets
// lambda (padding 0) and what is returned. Solves, and refines once.
template <typename T>
GradientOutcome Adjoint(const T* weights_bar,
                        T threshold_bar,
                        Workspace<T>& work,
                        ScalarGradients<T>* gradients);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_ADJOINT_H_
