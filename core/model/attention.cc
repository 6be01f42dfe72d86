#include "core/model/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/model/elementwise.h"
#include "core/model/matmul.h"

namespace lethe::model {
namespace {

// Rows [first, last) of queries, all of one chunk, and the keys [low, last) that one of them reads.
struct Tile {
  size_t first = 0, last = 0, low = 0;
  size_t chunk = 0;   // its number
  size_t prefix = 0;  // keys before it have gates

  size_t rows() const { return last - first; }
  size_t keys() const { return last - low; }
};

Tile TileAt(const AttentionMask& mask, size_t first, size_t n) {
  Tile tile;
  tile.first = first;
  tile.last = std::min(first + kAttentionTileRows, n);
  if (mask.chunk > 0) {
    tile.chunk = first / mask.chunk;
    tile.prefix = tile.chunk * mask.chunk;
    tile.last = std::min(tile.last, tile.prefix + mask.chunk);
  }
  if (mask.window > 0 && first + 1 > mask.window) tile.low = first + 1 - mask.window;
  return tile;
}

// The keys of row i are [begin, end) within the tile's.
struct Range {
  size_t begin = 0, end = 0;
};
Range KeysOf(const AttentionMask& mask, const Tile& tile, size_t i) {
  const size_t begin = mask.window > 0 && i + 1 > mask.window ? i + 1 - mask.window : 0;
  return {begin - tile.low, i + 1 - tile.low};
}

template <typename T>
T ScaleOf(size_t d) {
  return T(1) / std::sqrt(static_cast<T>(d));
}

template <typename T>
Matrix<T> Scores(const Tile& tile, In<T> q, In<T> k, Buffer<T>* buffer) {
  const Matrix<T> scores = buffer->Resize(tile.rows(), tile.keys());
  MultiplyTransposed<T>(nullptr, q.Rows(tile.first, tile.rows()), k.Rows(tile.low, tile.keys()),
                        scores, Store::kSet);
  return scores;
}

// Scores become m exp(scale score - shift): `shift` as given, or the row's largest.
template <typename T>
struct RowSum {
  T largest;
  T sum;
};
template <typename T>
RowSum<T> Exponents(const Range& keys,
                    size_t gated,
                    const T* gates,
                    T scale,
                    const T* shift,
                    T* row,
                    size_t size) {
  const size_t gated_end = std::min(std::max(gated, keys.begin), keys.end);
  T largest = -std::numeric_limits<T>::infinity();
  for (size_t j = keys.begin; j < gated_end; ++j) {
    if (gates[j] > 0) largest = std::max(largest, row[j]);
  }
  for (size_t j = gated_end; j < keys.end; ++j) largest = std::max(largest, row[j]);
  largest *= scale;
  const T down = shift == nullptr ? largest : *shift;
  for (size_t j = keys.begin; j < keys.end; ++j) row[j] = row[j] * scale - down;
  // A key that is out may score above all others.
  for (size_t j = keys.begin; j < gated_end; ++j) row[j] = gates[j] > 0 ? row[j] : T(0);
  Exp(row + keys.begin, keys.end - keys.begin);
  for (size_t j = keys.begin; j < gated_end; ++j) row[j] *= gates[j];
  std::fill(row, row + keys.begin, T(0));
  std::fill(row + keys.end, row + size, T(0));
  T sum = 0;
  for (size_t j = keys.begin; j < keys.end; ++j) sum += row[j];
  return {largest, sum};
}

template <typename T>
void Check(const AttentionMask& mask, In<T> q, In<T> k, In<T> v, In<T> gates) {
  LETHE_CHECK(k.Is(q.rows, q.columns) && v.rows == q.rows);
  if (mask.chunk == 0) return;
  LETHE_CHECK(mask.window == 0);
  LETHE_CHECK(gates.Is((q.rows + mask.chunk - 1) / mask.chunk, q.rows));
}

}  // namespace

template <typename T>
void AttentionForward(const AttentionMask& mask,
                      In<T> q,
                      In<T> k,
                      In<T> v,
                      In<T> gates,
                      AttentionWorkspace<T>* workspace,
                      Matrix<T> o,
                      std::span<T> log_sums) {
  const size_t n = q.rows;
  Check<T>(mask, q, k, v, gates);
  LETHE_CHECK(o.Is(n, v.columns) && log_sums.size() == n);
  const T scale = ScaleOf<T>(q.columns);
  for (size_t first = 0; first < n;) {
    const Tile tile = TileAt(mask, first, n);
    const Matrix<T> scores = Scores<T>(tile, q, k, &workspace->scores);
    const T* gate = tile.prefix > 0 ? gates.row(tile.chunk) : nullptr;
    for (size_t i = tile.first; i < tile.last; ++i) {
      T* row = scores.row(i - tile.first);
      const RowSum<T> sum =
          Exponents<T>(KeysOf(mask, tile, i), tile.prefix, gate, scale, nullptr, row, tile.keys());
      log_sums[i] = sum.largest + std::log(sum.sum);
      const T inverse = T(1) / sum.sum;
      for (size_t j = 0; j < tile.keys(); ++j) row[j] *= inverse;
    }
    Multiply<T>(nullptr, scores, v.Rows(tile.low, tile.keys()), o.Rows(tile.first, tile.rows()),
                Store::kSet);
    first = tile.last;
  }
}

template <typename T>
void AttentionBackward(const AttentionMask& mask,
                       In<T> q,
                       In<T> k,
                       In<T> v,
                       In<T> gates,
                       In<T> o,
                       InVector<T> log_sums,
                       In<T> o_bar,
                       AttentionWorkspace<T>* workspace,
                       Matrix<T> q_bar,
                       Matrix<T> k_bar,
                       Matrix<T> v_bar,
                       Matrix<T> gates_bar) {
  const size_t n = q.rows;
  Check<T>(mask, q, k, v, gates);
  LETHE_CHECK(o.Is(n, v.columns) && o_bar.Is(n, v.columns) && log_sums.size() == n);
  LETHE_CHECK(q_bar.Is(n, q.columns) && k_bar.Is(n, q.columns) && v_bar.Is(n, v.columns));
  const T scale = ScaleOf<T>(q.columns);
  for (size_t i = 0; i < n; ++i) {
    std::fill_n(k_bar.row(i), k_bar.columns, T(0));
    std::fill_n(v_bar.row(i), v_bar.columns, T(0));
  }
  if (mask.chunk > 0) {
    LETHE_CHECK(gates_bar.Is(gates.rows, gates.columns));
    for (size_t c = 0; c < gates.rows; ++c) std::fill_n(gates_bar.row(c), c * mask.chunk, T(0));
  }
  for (size_t first = 0; first < n;) {
    const Tile tile = TileAt(mask, first, n);
    const Matrix<T> p = Scores<T>(tile, q, k, &workspace->scores);
    const T* gate = tile.prefix > 0 ? gates.row(tile.chunk) : nullptr;
    T* gate_bar = tile.prefix > 0 ? gates_bar.row(tile.chunk) : nullptr;
    for (size_t i = tile.first; i < tile.last; ++i) {
      Exponents<T>(KeysOf(mask, tile, i), tile.prefix, gate, scale, &log_sums[i],
                   p.row(i - tile.first), tile.keys());
    }
    const In<T> rows_bar = o_bar.Rows(tile.first, tile.rows());
    const Matrix<T> p_bar = workspace->scores_bar.Resize(tile.rows(), tile.keys());
    MultiplyTransposed<T>(nullptr, rows_bar, v.Rows(tile.low, tile.keys()), p_bar, Store::kSet);
    TransposedMultiply<T>(nullptr, p, rows_bar, v_bar.Rows(tile.low, tile.keys()), Store::kAdd);
    // p_bar becomes the gradient of q'k / sqrt d.
    for (size_t i = tile.first; i < tile.last; ++i) {
      const T along = Dot(o.row(i), o_bar.row(i), o.columns);
      const T* probability = p.row(i - tile.first);
      T* bar = p_bar.row(i - tile.first);
      for (size_t j = 0; j < tile.keys(); ++j) bar[j] = probability[j] * (bar[j] - along);
      for (size_t j = 0; j < tile.prefix; ++j) gate_bar[j] += bar[j];
    }
    // p = m exp(..), so dL/dm = sum_i p_bar_ij / m_j; divided once, when its chunk is done.
    const bool chunk_ends =
        mask.chunk > 0 && (tile.last == n || tile.last == tile.prefix + mask.chunk);
    for (size_t j = 0; chunk_ends && j < tile.prefix; ++j) {
      gate_bar[j] = gate[j] > 0 ? gate_bar[j] / gate[j] : T(0);
    }
    for (size_t i = 0; i < tile.rows(); ++i) {
      for (size_t j = 0; j < tile.keys(); ++j) p_bar.row(i)[j] *= scale;
    }
    Multiply<T>(nullptr, p_bar, k.Rows(tile.low, tile.keys()), q_bar.Rows(tile.first, tile.rows()),
                Store::kSet);
    TransposedMultiply<T>(nullptr, p_bar, q.Rows(tile.first, tile.rows()),
                          k_bar.Rows(tile.low, tile.keys()), Store::kAdd);
    first = tile.last;
  }
}

#define LETHE_INSTANTIATE(T)                                                               \
  template void AttentionForward(const AttentionMask&, In<T>, In<T>, In<T>, In<T>,         \
                                 AttentionWorkspace<T>*, Matrix<T>, std::span<T>);         \
  template void AttentionBackward(const AttentionMask&, In<T>, In<T>, In<T>, In<T>, In<T>, \
                                  InVector<T>, In<T>, AttentionWorkspace<T>*, Matrix<T>,   \
                                  Matrix<T>, Matrix<T>, Matrix<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
