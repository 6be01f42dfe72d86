// The block of block.h on a CUDA device: a lane is a thread. Included by .cu files alone.
#ifndef LETHE_CORE_BATCHED_CUDA_CUDA_BLOCK_H_
#define LETHE_CORE_BATCHED_CUDA_CUDA_BLOCK_H_

#if defined(__CUDACC__)

#include <cstddef>
#include <cstdint>

#include "core/batched/cuda/block.h"

namespace lethe::batched {

class CudaBlock {
 public:
  template <typename T>
  using Array = T*;

  // N registers: every `k` is known once loops are unrolled.
  template <typename T, uint32_t kCount>
  class Private {
   public:
    LETHE_STEP T& At(uint32_t, uint32_t k) { return values_[k]; }
    LETHE_STEP const T& At(uint32_t, uint32_t k) const { return values_[k]; }

   private:
    T values_[kCount];
  };

  // Room for two results of each warp.
  static constexpr size_t kMostBytes = 32;
  struct Partials {
    alignas(16) std::byte bytes[2][kMaxPoints / 32 * kMostBytes];
  };

  // Memory of the block, its part of the device's, and partials in memory of the block.
  LETHE_STEP CudaBlock(std::byte* shared, std::byte* scratch, Partials* partials)
      : shared_(shared), scratch_(scratch), partials_(partials) {}

  LETHE_STEP uint32_t lanes() const { return blockDim.x; }

  template <typename T>
  LETHE_STEP T* Shared(size_t at, uint32_t) {
    return reinterpret_cast<T*>(shared_ + at);
  }
  template <typename T>
  LETHE_STEP T* Scratch(size_t at, uint32_t) {
    return reinterpret_cast<T*>(scratch_ + at);
  }

  template <typename Body>
  LETHE_STEP void Ahead(uint32_t first, uint32_t last, const Body& body) {
    const uint32_t i = threadIdx.x;
    if (i >= first && i < last) body(i);
  }
  template <typename Body>
  LETHE_STEP void AheadStrided(uint32_t count, const Body& body) {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) body(i);
  }
  LETHE_STEP void Barrier() { __syncthreads(); }

  // Halves of a warp, then the warps in order: the same tree whatever the values are. Two sets of
  // partial results take turns, so that one barrier is enough.
  template <typename V, typename Term, typename Combine>
  LETHE_STEP V Reduce(uint32_t count, V nothing, const Term& term, const Combine& combine) {
    static_assert(sizeof(V) <= kMostBytes && sizeof(V) % sizeof(uint32_t) == 0);
    V value = nothing;
    if (threadIdx.x < count) value = term(threadIdx.x);
    for (uint32_t half = 16; half > 0; half /= 2) value = combine(value, Below(value, half));
    V* const partials = reinterpret_cast<V*>(partials_->bytes[turn_]);
    const uint32_t warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = value;
    __syncthreads();
    turn_ ^= 1;
    // Read by all from the same place, so that the number is uniform even if it is a NaN.
    V result = partials[0];
    for (uint32_t warp = 1; warp < warps; ++warp) result = combine(result, partials[warp]);
    return result;
  }

  template <typename T>
  LETHE_STEP void Agree(T* uniform, T value) {
    *uniform = value;
  }

  template <typename T>
  LETHE_STEP Four<T> ReadFour(const T* array, uint32_t at) const {
    return *reinterpret_cast<const Four<T>*>(array + at);
  }

 private:
  // The value of the lane so many further on in the warp.
  template <typename V>
  LETHE_STEP static V Below(const V& value, uint32_t by) {
    constexpr size_t kWords = sizeof(V) / sizeof(uint32_t);
    union Words {
      LETHE_STEP Words() {}
      V value;
      uint32_t words[kWords];
    };
    Words own, other;
    own.value = value;
#pragma unroll
    for (size_t i = 0; i < kWords; ++i) {
      other.words[i] = __shfl_down_sync(0xffffffffU, own.words[i], by);
    }
    return other.value;
  }

  std::byte* const shared_;
  std::byte* const scratch_;
  Partials* const partials_;
  uint32_t turn_ = 0;
};

}  // namespace lethe::batched

#endif  // __CUDACC__

#endif  // LETHE_CORE_BATCHED_CUDA_CUDA_BLOCK_H_
