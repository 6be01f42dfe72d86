// What one thread computes with: one problem at a time, nothing allocated a problem.
#ifndef LETHE_CORE_BATCHED_CPU_WORKSPACE_H_
#define LETHE_CORE_BATCHED_CPU_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "core/batched/cpu/packs.h"
#include "core/batched/cpu/product.h"
#include "core/batched/method/numbers.h"
#include "core/batched/problem.h"

namespace lethe::batched {

// An array on a boundary of 64 bytes, all zero at first. Throws std::bad_alloc.
template <typename T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(size_t size) {
    constexpr size_t kBoundary = 64;
    const size_t bytes = (size * sizeof(T) + kBoundary) / kBoundary * kBoundary;
    memory_.reset(static_cast<T*>(std::aligned_alloc(kBoundary, bytes)));
    if (memory_ == nullptr) throw std::bad_alloc();
    std::memset(static_cast<void*>(memory_.get()), 0, bytes);
  }
  T* get() { return memory_.get(); }
  const T* get() const { return memory_.get(); }
  T& operator[](size_t i) { return memory_.get()[i]; }
  const T& operator[](size_t i) const { return memory_.get()[i]; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
};

// One problem as loaded (gram.h) and what is known of its solution. Vectors have `rows` entries,
// those from n on are 0 unless said otherwise.
template <typename T>
struct Workspace : Numbers<T> {
  using Numbers<T>::n;

  Workspace() = default;
  // Room for problems of that many points of dimension d (0: matrices).
  Workspace(size_t n_points, size_t d)
      : Numbers<T>{.n = n_points},
        rows(Padded(n)),
        // Columns a multiple of a KiB apart would share few sets of the cache.
        stride(rows * sizeof(T) % 1024 == 0 ? rows + kPadding : rows),
        factor_stride(rows + 2 * kPadding),
        dimension(d),
        padded_dimension(Padded(d)),
        matrix(rows * stride),
        factor(n * factor_stride),
        points(rows * padded_dimension),
        coordinates(d * rows),
        lengths(d > 0 ? rows : 0),
        points_bar(rows * padded_dimension),
        diagonal(rows),
        x(rows),
        previous(rows),
        y(rows),
        v(rows),
        gradient(rows),
        values(rows),
        saved(rows),
        lambda(rows),
        inverse_pivots(factor_stride),
        solution(factor_stride),
        ones(factor_stride),
        update(factor_stride),
        columns(rows),
        order(rows),
        position(rows),
        labels(rows),
        flips(rows) {}

  size_t rows = 0, stride = 0, factor_stride = 0, dimension = 0, padded_dimension = 0;
  AlignedArray<T> matrix;       // K, column j at j * stride
  AlignedArray<T> factor;       // L with L L' = 2 K_SS + rho I, column j at j * factor_stride
  AlignedArray<T> points;       // a point a row, normalised where asked
  AlignedArray<T> coordinates;  // the same, a coordinate a row
  AlignedArray<T> lengths;      // of the points before they were normalised
  AlignedArray<T> points_bar;
  AlignedArray<T> diagonal;

  AlignedArray<T> x, previous, y, v;  // FISTA; x is the answer of whatever ran last
  AlignedArray<T> gradient;           // g at x, mu included
  AlignedArray<T> values;             // scratch of Product
  AlignedArray<T> saved;
  AlignedArray<T> lambda;

  // In the order of the margin.
  AlignedArray<T> inverse_pivots, solution, ones, update;
  AlignedArray<uint32_t> columns;   // scratch of Product
  AlignedArray<uint32_t> order;     // the margin: points in the order of the factor's columns
  AlignedArray<uint32_t> position;  // where a margin point stands in it
  AlignedArray<uint8_t> labels;
  AlignedArray<uint32_t> flips;
  Label label(size_t i) const { return static_cast<Label>(labels[i]); }
  // result = K weights
  void Multiply(const T* weights, T* result) {
    Product(matrix.get(), stride, rows, n, weights, columns.get(), values.get(), result);
  }
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_WORKSPACE_H_
