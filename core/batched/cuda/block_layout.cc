#include "core/batched/cuda/block_layout.h"

#include "core/base/check.h"

namespace lethe::batched {
namespace {

constexpr size_t Up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

BlockLayout PlanBlock(size_t n,
                      size_t dimension,
                      size_t size,
                      uint32_t most_registers,
                      size_t shared) {
  constexpr size_t kWarp = 32;
  constexpr size_t kBoundary = 16;
  BlockLayout layout;
  layout.n = static_cast<uint32_t>(n);
  layout.dimension = static_cast<uint32_t>(dimension);
  layout.lanes = static_cast<uint32_t>(Up(n, kWarp));
  layout.rows = static_cast<uint32_t>(Up(n, 8));
  if (n <= most_registers)
    layout.row_registers = n <= kFewRowRegisters ? kFewRowRegisters : most_registers;
  size_t used = BlockLayout::kVectors * layout.rows * size;
  layout.integers_at = static_cast<uint32_t>(used);
  used += BlockLayout::kIntegers * layout.rows * sizeof(uint32_t);
  layout.labels_at = static_cast<uint32_t>(used);
  used = Up(used + layout.rows, kBoundary);
  LETHE_CHECK(used <= shared);
  uint64_t scratch = 0;
  // To shared memory where it fits and is wanted there, else to scratch.
  const auto place = [&](size_t bytes, bool wanted, uint64_t* at) {
    bytes = Up(bytes, kBoundary);
    const bool fits = wanted && used + bytes <= shared;
    if (fits) {
      *at = used;
      used += bytes;
    } else {
      *at = scratch;
      scratch += bytes;
    }
    return fits;
  };
  layout.factor_shared = place(n * (n + 1) / 2 * size, true, &layout.factor_at);
  layout.matrix_shared =
      place(n * layout.rows * size, layout.row_registers == 0, &layout.matrix_at);
  layout.shared_bytes = static_cast<uint32_t>(used);
  layout.scratch_bytes = scratch;
  return layout;
}

}  // namespace lethe::batched
