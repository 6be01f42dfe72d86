// One problem in a block's memory: the counterpart of cpu/workspace.h.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_WORK_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_WORK_H_

#include "core/batched/cuda/block.h"
#include "core/batched/cuda/block_layout.h"
#include "core/batched/cuda/block_matrix.h"

namespace lethe::batched {

// The lower triangle of a symmetric matrix or a factor, a column after another.
LETHE_STEP uint32_t LowerAt(uint32_t n, uint32_t i, uint32_t k) {
  return k * n - k * (k - 1) / 2 + (i - k);  // of k = 0, 0
}

template <typename BlockType, typename T>
struct BlockWork {
  using Block = BlockType;
  using Real = T;
  template <typename Value>
  using Array = typename Block::template Array<Value>;

  LETHE_STEP BlockWork(Block& own_block, const BlockLayout& own_layout)
      : block(own_block),
        layout(own_layout),
        n(own_layout.n),
        matrix(own_block, own_layout),
        x(Vector(0)),
        diagonal(Vector(1)),
        inverse_length(Vector(2)),
        lambda(Vector(3)),
        y(Vector(4)),
        gradient(Vector(5)),
        saved(Vector(6)),
        delta(Vector(7)),
        ones(Vector(8)),
        inverse_pivots(Vector(9)),
        update(Vector(10)),
        tile(block.template Shared<T>(4 * layout.rows * sizeof(T), 8 * layout.rows)),
        order(Integers(0)),
        position(Integers(1)),
        flips(Integers(2)),
        labels(block.template Shared<uint8_t>(layout.labels_at, layout.rows)),
        factor(layout.factor_shared
                   ? block.template Shared<T>(layout.factor_at, n * (n + 1) / 2)
                   : block.template Scratch<T>(layout.factor_at, n * (n + 1) / 2)) {
    numbers.n = n;
  }

  LETHE_STEP Label label(uint32_t i) const {
    return static_cast<Label>(static_cast<uint8_t>(labels[i]));
  }
  LETHE_STEP bool InMargin(uint32_t i) const { return label(i) == Label::kMargin; }
  LETHE_STEP uint32_t margin() const { return static_cast<uint32_t>(numbers.margin); }

  Block& block;
  const BlockLayout& layout;
  const uint32_t n;
  Numbers<T> numbers;  // each lane has its own, all the same
  StoredMatrix<Block, T> matrix;

  Array<T> x, diagonal;
  Array<T> inverse_length;  // of the points that are normalised, else 1
  Array<T> lambda;
  // Once K is there; until then their room is `tile`: eight coordinates of all points.
  Array<T> y, gradient, saved;
  Array<T> delta, ones, inverse_pivots, update;  // in the order of the margin
  Array<T> tile;
  Array<uint32_t> order;     // the margin: points in the order of the factor's rows
  Array<uint32_t> position;  // where a margin point stands in it
  Array<uint32_t> flips;
  Array<uint8_t> labels;
  // L with L L' = 2 K_SS + rho I, LowerAt; while K is made, what it is made of, a pair an entry.
  Array<T> factor;

 private:
  LETHE_STEP Array<T> Vector(uint32_t which) {
    return block.template Shared<T>(which * layout.rows * sizeof(T), layout.rows);
  }
  LETHE_STEP Array<uint32_t> Integers(uint32_t which) {
    return block.template Shared<uint32_t>(
        layout.integers_at + which * layout.rows * sizeof(uint32_t), layout.rows);
  }
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_WORK_H_
