// Where a block's arrays lie: within what there is, and apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/batched/cuda/block_layout.h"
#include "core/batched/problem.h"

namespace lethe::batched {
namespace {

TEST(BlockLayout, ArraysAreApartAndWithinTheirMemory) {
  for (const size_t size : {sizeof(float), sizeof(double)}) {
    for (const size_t shared : {size_t{57344}, size_t{163} * 1024, size_t{226} * 1024}) {
      for (const uint32_t registers : {0U, kFewRowRegisters, kManyRowRegisters}) {
        for (size_t n = 1; n <= kMaxPoints; n += n < 140 ? 1 : 31) {
          const BlockLayout layout = PlanBlock(n, 3, size, registers, shared);
          SCOPED_TRACE(testing::Message() << n << " points of " << size << ", " << registers
                                          << " registers, shared " << shared);
          ASSERT_EQ(layout.n, n);
          ASSERT_GE(layout.lanes, n);
          ASSERT_EQ(layout.lanes % 32, 0);
          ASSERT_LE(layout.lanes, kMaxPoints);
          ASSERT_GE(layout.lanes, layout.rows);  // a lane clears an entry
          ASSERT_EQ(layout.rows % 8, 0);
          ASSERT_LE(layout.shared_bytes, shared);
          ASSERT_EQ(layout.row_registers > 0, n <= registers);
          if (layout.row_registers > 0) {
            ASSERT_GE(layout.row_registers, layout.lanes);
            ASSERT_FALSE(layout.matrix_shared);
          }
          std::vector<std::pair<size_t, size_t>> in_shared = {
              {0, BlockLayout::kVectors * layout.rows * size},
              {layout.integers_at,
               layout.integers_at + BlockLayout::kIntegers * layout.rows * sizeof(uint32_t)},
              {layout.labels_at, layout.labels_at + layout.rows}};
          std::vector<std::pair<size_t, size_t>> in_scratch;
          const auto add = [&](bool is_shared, size_t at, size_t entries) {
            (is_shared ? in_shared : in_scratch).push_back({at, at + entries * size});
            ASSERT_EQ(at % 16, 0);
          };
          add(layout.factor_shared, layout.factor_at, n * (n + 1) / 2);
          add(layout.matrix_shared, layout.matrix_at, n * layout.rows);
          for (auto* arrays : {&in_shared, &in_scratch}) {
            std::sort(arrays->begin(), arrays->end());
            const size_t end = arrays == &in_shared ? layout.shared_bytes : layout.scratch_bytes;
            for (size_t i = 0; i < arrays->size(); ++i) {
              const size_t next = i + 1 < arrays->size() ? (*arrays)[i + 1].first : end;
              ASSERT_LE((*arrays)[i].second, next);
            }
          }
        }
      }
    }
  }
}

// What a device of each kind holds of the sizes that matter.
TEST(BlockLayout, SharedMemoryHoldsTheFactorFirst) {
  constexpr size_t kH200 = 226 * 1024;
  BlockLayout layout = PlanBlock(128, 16, sizeof(double), kFewRowRegisters, kH200);
  EXPECT_TRUE(layout.factor_shared);
  EXPECT_TRUE(layout.matrix_shared);
  EXPECT_EQ(layout.scratch_bytes, 0);
  layout = PlanBlock(256, 16, sizeof(float), kManyRowRegisters, kH200);
  EXPECT_TRUE(layout.factor_shared);
  EXPECT_FALSE(layout.matrix_shared);
  layout = PlanBlock(512, 16, sizeof(double), kFewRowRegisters, kH200);
  EXPECT_FALSE(layout.factor_shared);
  EXPECT_FALSE(layout.matrix_shared);
  EXPECT_GE(layout.scratch_bytes, (512 * 513 / 2 + 512 * 512) * sizeof(double));
  layout = PlanBlock(64, 16, sizeof(float), kManyRowRegisters, kH200);
  EXPECT_EQ(layout.row_registers, kFewRowRegisters);
  EXPECT_LE(layout.shared_bytes, 13 * 1024);  // 16 blocks a multiprocessor
}

}  // namespace
}  // namespace lethe::batched
