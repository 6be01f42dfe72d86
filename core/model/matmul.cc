#include "core/model/matmul.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstring>

namespace lethe::model {
namespace {

// Below what Eigen splits by itself with a first-level cache of 32 KiB, in either precision.
constexpr size_t kDepth = 240;
constexpr size_t kTileRows = 128;
constexpr size_t kTileColumns = 128;
// Below it Eigen computes entry by entry, by paths that depend on where c lies in memory.
constexpr size_t kSmallest = 20;

template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using ConstMap = Eigen::Map<const RowMajor<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <typename T>
using MutableMap = Eigen::Map<RowMajor<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

Eigen::Index Signed(size_t n) { return static_cast<Eigen::Index>(n); }

template <typename T>
ConstMap<T> Map(Matrix<const T> m) {
  return {m.data, Signed(m.rows), Signed(m.columns), Eigen::OuterStride<>(Signed(m.stride))};
}

// Where an operand's entry (row of c or column of c, index of the reduction) lies.
template <typename T>
struct Operand {
  Matrix<const T> matrix;
  bool reduce_rows;  // the reduction runs over the matrix's rows

  size_t depth() const { return reduce_rows ? matrix.rows : matrix.columns; }
  size_t width() const { return reduce_rows ? matrix.columns : matrix.rows; }
  T at(size_t i, size_t k) const { return reduce_rows ? matrix.row(k)[i] : matrix.row(i)[k]; }
  Matrix<const T> Part(size_t first, size_t count, size_t depth_first, size_t depth_count) const {
    return reduce_rows ? matrix.Rows(depth_first, depth_count).Columns(first, count)
                       : matrix.Rows(first, count).Columns(depth_first, depth_count);
  }
};

template <typename T>
void Small(const Operand<T>& a, const Operand<T>& b, Matrix<T> c) {
  const size_t depth = a.depth();
  for (size_t i = 0; i < c.rows; ++i) {
    for (size_t j = 0; j < c.columns; ++j) {
      T sum = 0;
      for (size_t k = 0; k < depth; ++k) sum += a.at(i, k) * b.at(j, k);
      c.row(i)[j] += sum;
    }
  }
}

template <typename T>
void Tile(const Operand<T>& a, const Operand<T>& b, size_t row, size_t column, Matrix<T> c) {
  const size_t depth = a.depth();
  MutableMap<T> result(c.data, Signed(c.rows), Signed(c.columns),
                       Eigen::OuterStride<>(Signed(c.stride)));
  // Pieces of nearly one length, so that none is tiny.
  const size_t pieces = (depth + kDepth - 1) / kDepth;
  for (size_t piece = 0; piece < pieces; ++piece) {
    const size_t first = depth * piece / pieces;
    const size_t count = depth * (piece + 1) / pieces - first;
    const Operand<T> left = {a.Part(row, c.rows, first, count), a.reduce_rows};
    const Operand<T> right = {b.Part(column, c.columns, first, count), b.reduce_rows};
    if (c.rows == 1 || c.columns == 1 || c.rows + c.columns + count < kSmallest) {
      Small(left, right, c);
      continue;
    }
    const ConstMap<T> x = Map(left.matrix);
    const ConstMap<T> y = Map(right.matrix);
    if (a.reduce_rows) {
      result.noalias() += x.transpose() * y;
    } else if (b.reduce_rows) {
      result.noalias() += x * y;
    } else {
      result.noalias() += x * y.transpose();
    }
  }
}

template <typename T>
void Product(Team* team, const Operand<T>& a, const Operand<T>& b, Matrix<T> c, Store store) {
  LETHE_CHECK(c.rows == a.width() && c.columns == b.width() && a.depth() == b.depth());
  const size_t down = (c.rows + kTileRows - 1) / kTileRows;
  const size_t across = (c.columns + kTileColumns - 1) / kTileColumns;
  const auto tiles = [&](size_t, size_t first, size_t last) {
    for (size_t tile = first; tile < last; ++tile) {
      const size_t row = tile / across * kTileRows;
      const size_t column = tile % across * kTileColumns;
      const Matrix<T> part = c.Rows(row, std::min(kTileRows, c.rows - row))
                                 .Columns(column, std::min(kTileColumns, c.columns - column));
      if (store == Store::kSet) {
        for (size_t i = 0; i < part.rows; ++i) std::fill_n(part.row(i), part.columns, T(0));
      }
      Tile(a, b, row, column, part);
    }
  };
  if (team == nullptr) {
    tiles(0, 0, down * across);
  } else {
    team->Run(down * across, 1, tiles);
  }
}

}  // namespace

template <typename T>
void Multiply(Team* team, In<T> a, In<T> b, Matrix<T> c, Store store) {
  Product<T>(team, {a, false}, {b, true}, c, store);
}
template <typename T>
void MultiplyTransposed(Team* team, In<T> a, In<T> b, Matrix<T> c, Store store) {
  Product<T>(team, {a, false}, {b, false}, c, store);
}
template <typename T>
void TransposedMultiply(Team* team, In<T> a, In<T> b, Matrix<T> c, Store store) {
  Product<T>(team, {a, true}, {b, true}, c, store);
}

#define LETHE_INSTANTIATE(T)                                               \
  template void Multiply(Team*, In<T>, In<T>, Matrix<T>, Store);           \
  template void MultiplyTransposed(Team*, In<T>, In<T>, Matrix<T>, Store); \
  template void TransposedMultiply(Team*, In<T>, In<T>, Matrix<T>, Store);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
