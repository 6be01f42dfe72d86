#include "core/batched/cuda/kernels_of.h"

namespace lethe::batched {

template <>
const void* SolveKernel<float>(uint32_t row_registers) {
  switch (row_registers) {
    case kFewRowRegisters:
      return reinterpret_cast<const void*>(&SolveBlocks<float, kFewRowRegisters>);
    case kManyRowRegisters:
      return reinterpret_cast<const void*>(&SolveBlocks<float, kManyRowRegisters>);
    default:
      return reinterpret_cast<const void*>(&SolveBlocks<float, 0>);
  }
}

template <>
const void* BackwardKernel<float>() {
  return reinterpret_cast<const void*>(&BackwardBlocks<float>);
}

}  // namespace lethe::batched
