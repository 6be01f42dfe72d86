// K as a block has it: stored, and while FISTA runs, where it fits, a row in the registers of the
// point's lane. Row i is only asked for by lane i.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_MATRIX_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_MATRIX_H_

#include "core/batched/cuda/block.h"
#include "core/batched/cuda/block_layout.h"

namespace lethe::batched {

// K_ij at j * rows + i: neighbours read neighbours, since K is symmetric and lane i reads row i.
//
//     void Set(i, entry)             row i from entry(j)
//     Real Dot(i, v)                 (K v)_i; v has `rows` entries, those from n on 0
//     Real At(i, j)                  K_ij
//     void Row(i, body)              body(j, K_ij) for all j
//     void Put(i, j, value)          lane i's own copy of an entry
template <typename Block, typename T>
class StoredMatrix {
 public:
  LETHE_STEP StoredMatrix(Block& block, const BlockLayout& layout)
      : n_(layout.n),
        rows_(layout.rows),
        entries_(layout.matrix_shared
                     ? block.template Shared<T>(layout.matrix_at, layout.n * layout.rows)
                     : block.template Scratch<T>(layout.matrix_at, layout.n * layout.rows)) {}

  template <typename Entry>
  LETHE_STEP void Set(uint32_t i, const Entry& entry) {
    for (uint32_t j = 0; j < n_; ++j) entries_[j * rows_ + i] = entry(j);
  }

  // Weights are sparse: four that are 0 cost no column.
  template <typename Array>
  LETHE_STEP T Dot(Block& block, uint32_t i, const Array& v) const {
    T sum[4] = {};
    for (uint32_t j = 0; j < n_; j += 4) {
      const Four<T> weights = block.ReadFour(v, j);
      if (weights.at[0] == 0 && weights.at[1] == 0 && weights.at[2] == 0 && weights.at[3] == 0) {
        continue;
      }
      LETHE_UNROLLED
      for (uint32_t k = 0; k < 4; ++k) {
        if (j + k < n_) sum[k] += entries_[(j + k) * rows_ + i] * weights.at[k];
      }
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

  LETHE_STEP T At(uint32_t i, uint32_t j) const { return entries_[j * rows_ + i]; }

  LETHE_STEP void Put(uint32_t i, uint32_t j, T value) { entries_[j * rows_ + i] = value; }

  template <typename Body>
  LETHE_STEP void Row(uint32_t i, const Body& body) const {
    for (uint32_t j = 0; j < n_; ++j) body(j, static_cast<T>(entries_[j * rows_ + i]));
  }

 private:
  const uint32_t n_;
  const uint32_t rows_;
  typename Block::template Array<T> entries_;
};

// The rows that FISTA multiplies by, in kColumns registers each. Loops over j are unrolled to the
// end, so that every entry has its own.
template <typename Block, typename T, uint32_t kColumns>
class RegisterRows {
 public:
  // Of all points.
  LETHE_STEP RegisterRows(Block& block, const StoredMatrix<Block, T>& matrix, uint32_t n) : n_(n) {
    block.Ahead(0, n, [&](uint32_t i) {
      LETHE_UNROLLED
      for (uint32_t j = 0; j < kColumns; ++j) row_.At(i, j) = j < n ? matrix.At(i, j) : T{0};
    });
  }

  template <typename Array>
  LETHE_STEP T Dot(Block& block, uint32_t i, const Array& v) const {
    T sum[4] = {};
    LETHE_UNROLLED
    for (uint32_t j = 0; j < kColumns; j += 4) {
      if (j < n_) {
        const Four<T> weights = block.ReadFour(v, j);
        LETHE_UNROLLED
        for (uint32_t k = 0; k < 4; ++k) sum[k] += row_.At(i, j + k) * weights.at[k];
      }
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

 private:
  const uint32_t n_;
  typename Block::template Private<T, kColumns> row_;
};

// The same where registers do not hold them: as they are stored.
template <typename Block, typename T>
class RegisterRows<Block, T, 0> {
 public:
  LETHE_STEP RegisterRows(Block&, const StoredMatrix<Block, T>& matrix, uint32_t)
      : matrix_(matrix) {}

  template <typename Array>
  LETHE_STEP T Dot(Block& block, uint32_t i, const Array& v) const {
    return matrix_.Dot(block, i, v);
  }

 private:
  const StoredMatrix<Block, T> matrix_;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_MATRIX_H_
