#include "core/batched/cuda/kernels_of.h"

namespace lethe::batched {

template <>
const void* SolveKernel<double>(uint32_t row_registers) {
  if (row_registers == kFewRowRegisters) {
    return reinterpret_cast<const void*>(&SolveBlocks<double, kFewRowRegisters>);
  }
  return reinterpret_cast<const void*>(&SolveBlocks<double, 0>);
}

template <>
const void* BackwardKernel<double>() {
  return reinterpret_cast<const void*>(&BackwardBlocks<double>);
}

}  // namespace lethe::batched
