// Where the arrays of a block's problem lie.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_LAYOUT_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace lethe::batched {

struct BlockLayout {
  uint32_t n = 0;
  uint32_t dimension = 0;
  uint32_t lanes = 0;  // n, up to a whole number of warps
  // Entries of a vector: n, up to a multiple of 8; 0 from n on where that counts.
  uint32_t rows = 0;
  // FISTA has a row of K in so many registers of a lane; 0: reads it where it is stored.
  uint32_t row_registers = 0;
  bool matrix_shared = false;
  bool factor_shared = false;
  // Offsets in bytes; of what is not shared, into the block's scratch.
  uint32_t integers_at = 0;
  uint32_t labels_at = 0;
  uint64_t factor_at = 0;
  uint64_t matrix_at = 0;
  uint32_t shared_bytes = 0;
  uint64_t scratch_bytes = 0;

  static constexpr uint32_t kVectors = 12;
  static constexpr uint32_t kIntegers = 3;
};

// Rows of K in registers: of 64 entries in both precisions, of 128 in single.
inline constexpr uint32_t kFewRowRegisters = 64;
inline constexpr uint32_t kManyRowRegisters = 128;

// For problems of n points, numbers of `size` bytes, blocks of at most `shared` bytes. Vectors are
// always shared; then the factor, which is half of K, and K as far as they fit. Where FISTA has K
// in registers, K is stored in scratch: shared memory is what limits how many blocks run at once.
// `most_registers`: one of the two above, or 0.
BlockLayout PlanBlock(size_t n,
                      size_t dimension,
                      size_t size,
                      uint32_t most_registers,
                      size_t shared);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_LAYOUT_H_
