// The kernels in one precision; included by one .cu file each.
#ifndef LETHE_CORE_BATCHED_CUDA_KERNELS_OF_H_
#define LETHE_CORE_BATCHED_CUDA_KERNELS_OF_H_

#if defined(__CUDACC__)

#include "core/batched/cuda/block_problem.h"
#include "core/batched/cuda/cuda_block.h"
#include "core/batched/cuda/kernels.h"

namespace lethe::batched {

// Blocks stand in x alone, and a block takes every gridDim.x-th problem, so that a launch may have
// any number of them.
template <typename T, uint32_t kRowRegisters>
__global__ void __launch_bounds__(kRowRegisters > 0 ? kRowRegisters : kMaxPoints)
    SolveBlocks(const SolveArguments<T> arguments) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ CudaBlock::Partials partials;
  const DeviceProblems<T>& problems = arguments.problems;
  CudaBlock block(shared, problems.scratch + blockIdx.x * problems.layout.scratch_bytes, &partials);
  for (size_t b = blockIdx.x; b < problems.count; b += gridDim.x) {
    SolveProblem<kRowRegisters>(block, arguments, b);
  }
}

template <typename T>
__global__ void __launch_bounds__(kMaxPoints) BackwardBlocks(const BackwardArguments<T> arguments) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ CudaBlock::Partials partials;
  const DeviceProblems<T>& problems = arguments.problems;
  CudaBlock block(shared, problems.scratch + blockIdx.x * problems.layout.scratch_bytes, &partials);
  for (size_t b = blockIdx.x; b < problems.count; b += gridDim.x) {
    BackwardProblem(block, arguments, b);
  }
}

}  // namespace lethe::batched

#endif  // __CUDACC__

#endif  // LETHE_CORE_BATCHED_CUDA_KERNELS_OF_H_
