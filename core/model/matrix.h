// A matrix in somebody else's memory: rows of numbers, one row `stride` numbers after the other.
//
// Operations take what they read as In<T> and what they write as Matrix<T>; the type of the numbers
// follows from what is written, so that a Matrix<T> can be handed in for either.
#ifndef LETHE_CORE_MODEL_MATRIX_H_
#define LETHE_CORE_MODEL_MATRIX_H_

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/check.h"

namespace lethe::model {

template <typename T>
struct Matrix {
  T* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t stride = 0;

  Matrix() = default;
  Matrix(T* memory, size_t n_rows, size_t n_columns, size_t row_stride)
      : data(memory), rows(n_rows), columns(n_columns), stride(row_stride) {}
  Matrix(std::span<T> memory, size_t n_rows, size_t n_columns)
      : Matrix(memory.data(), n_rows, n_columns, n_columns) {
    LETHE_CHECK(memory.size() >= n_rows * n_columns);
  }

  T* row(size_t i) const { return data + i * stride; }
  Matrix Rows(size_t first, size_t count) const {
    LETHE_CHECK(first + count <= rows);
    return {data + first * stride, count, columns, stride};
  }
  Matrix Columns(size_t first, size_t count) const {
    LETHE_CHECK(first + count <= columns);
    return {data + first, rows, count, stride};
  }
  bool Is(size_t n_rows, size_t n_columns) const { return rows == n_rows && columns == n_columns; }

  // NOLINTNEXTLINE(google-explicit-constructor): reading is always possible.
  operator Matrix<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, columns, stride};
  }
};

template <typename T>
using In = Matrix<const std::type_identity_t<T>>;
template <typename T>
using InVector = std::span<const std::type_identity_t<T>>;

// What memory is made ready for: backward needs more.
enum class Pass { kForward, kBackward };

// Memory for a matrix; grows and never shrinks, so that a workspace allocates in its first use
// only. What it holds after Resize is anything.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  // A copy would show the original's memory.
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;

  Matrix<T> Resize(size_t rows, size_t columns) {
    if (memory_.size() < rows * columns) memory_.resize(rows * columns);
    matrix_ = {memory_.data(), rows, columns, columns};
    return matrix_;
  }
  Matrix<T> get() const { return matrix_; }

 private:
  std::vector<T> memory_;
  Matrix<T> matrix_;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_MATRIX_H_
