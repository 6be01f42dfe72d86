// The kernels that there are, to be launched; a translation unit a precision makes them.
#ifndef LETHE_CORE_BATCHED_CUDA_KERNELS_H_
#define LETHE_CORE_BATCHED_CUDA_KERNELS_H_

#include "core/batched/cuda/arguments.h"

namespace lethe::batched {

// A kernel's address, for the CUDA runtime: __global__ void(SolveArguments<T>). `row_registers` as
// in BlockLayout.
template <typename T>
const void* SolveKernel(uint32_t row_registers);
// __global__ void(BackwardArguments<T>).
template <typename T>
const void* BackwardKernel();

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_KERNELS_H_
