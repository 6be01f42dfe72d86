// CholeskyFactor in double-double, several numbers at a time: what the walk spends its time in.
//
// Columns are contiguous: substitution forwards adds multiples of a column, backwards takes dot
// products with one, and a rotation mixes two. Cost, k rows: Append and Solve O(k^2), Remove
// O((k - i)^2); no allocation while the size stays below its highest.
#ifndef LETHE_CORE_SVDD_CHOLESKY_DD_H_
#define LETHE_CORE_SVDD_CHOLESKY_DD_H_

#include <cmath>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/dd_vector.h"
#include "core/svdd/cholesky.h"

namespace lethe::svdd {

template <>
class CholeskyFactor<DoubleDouble> {
 public:
  size_t size() const { return size_; }
  void Clear() { size_ = 0; }

  // See the general factor.
  bool Append(std::span<const DoubleDouble> row,
              const DoubleDouble& diagonal,
              const DoubleDouble& threshold) {
    LETHE_CHECK(row.size() == size_);
    Reserve(size_ + 1);
    scratch_.Resize(size_);
    for (size_t j = 0; j < size_; ++j) scratch_.Set(j, row[j]);
    SolveLower(scratch_);
    const DoubleDouble pivot =
        diagonal - Dot(scratch_.high(), scratch_.low(), scratch_.high(), scratch_.low(), size_);
    if (!(pivot > threshold)) return false;
    for (size_t j = 0; j < size_; ++j) Set(size_, j, scratch_[j]);
    const DoubleDouble root = Sqrt(pivot);
    Set(size_, size_, root);
    inverse_.Set(size_, DoubleDouble(1.0) / root);
    ++size_;
    return true;
  }

  void Remove(size_t index) {
    LETHE_CHECK(index < size_);
    // Rows below move up by one; a column to the right of `index` then starts one above the
    // diagonal.
    for (size_t j = 0; j < size_; ++j) {
      const size_t first = j > index ? j - 1 : index;
      std::copy(High(j) + first + 1, High(j) + size_, High(j) + first);
      std::copy(Low(j) + first + 1, Low(j) + size_, Low(j) + first);
    }
    --size_;
    for (size_t j = index; j < size_; ++j) {
      // A rotation of columns j and j + 1 moves what stands above the diagonal into it.
      const DoubleDouble a = Get(j, j);
      const DoubleDouble b = Get(j, j + 1);
      const DoubleDouble length = Sqrt(a * a + b * b);
      Rotate(j, a / length, b / length);
      Set(j, j, length);
      inverse_.Set(j, DoubleDouble(1.0) / length);
    }
  }

  // x <- K^{-1} x. Requires x.size() == size().
  void Solve(DdVector& x) const {
    LETHE_CHECK(x.size() == size_);
    SolveLower(x);
    for (size_t j = size_; j-- > 0;) {
      const DoubleDouble rest =
          Dot(High(j) + j + 1, Low(j) + j + 1, x.high() + j + 1, x.low() + j + 1, size_ - j - 1);
      x.Set(j, (x[j] - rest) * inverse_[j]);
    }
  }
  // |L|_F and |L^{-1}|_F, rounded as it falls. O(size^3 / 6).
  void Norms(double* lower, double* inverse) const {
    double lower_sum = 0.0;
    double inverse_sum = 0.0;
    DdVector column;
    for (size_t j = 0; j < size_; ++j) {
      column.Zero(size_);
      column.Set(j, DoubleDouble(1.0));
      SolveLower(column, j);
      for (size_t i = j; i < size_; ++i) {
        lower_sum += High(j)[i] * High(j)[i];
        inverse_sum += column[i].hi * column[i].hi;
      }
    }
    *lower = std::sqrt(lower_sum);
    *inverse = std::sqrt(inverse_sum);
  }

  void Solve(std::vector<DoubleDouble>& x) const {
    DdVector packed;
    packed.Resize(x.size());
    for (size_t i = 0; i < x.size(); ++i) packed.Set(i, x[i]);
    Solve(packed);
    for (size_t i = 0; i < x.size(); ++i) x[i] = packed[i];
  }

 private:
  double* High(size_t column) { return high_.data() + column * stride_; }
  double* Low(size_t column) { return low_.data() + column * stride_; }
  const double* High(size_t column) const { return high_.data() + column * stride_; }
  const double* Low(size_t column) const { return low_.data() + column * stride_; }
  DoubleDouble Get(size_t row, size_t column) const {
    return {High(column)[row], Low(column)[row]};
  }
  void Set(size_t row, size_t column, DoubleDouble value) {
    High(column)[row] = value.hi;
    Low(column)[row] = value.lo;
  }

  void Reserve(size_t size) {
    if (size <= stride_) return;
    const size_t wider = std::max<size_t>(16, 2 * stride_);
    std::vector<double> high(wider * wider);
    std::vector<double> low(wider * wider);
    for (size_t j = 0; j < size_; ++j) {
      std::copy(High(j), High(j) + size_, high.data() + j * wider);
      std::copy(Low(j), Low(j) + size_, low.data() + j * wider);
    }
    high_ = std::move(high);
    low_ = std::move(low);
    stride_ = wider;
    inverse_.Resize(wider);
  }

  // From the first-th number on; those before it are zero.
  void SolveLower(DdVector& x, size_t first = 0) const {
    for (size_t j = first; j < size_; ++j) {
      const DoubleDouble value = x[j] * inverse_[j];
      x.Set(j, value);
      AddScaled(-value, High(j) + j + 1, Low(j) + j + 1, x.high() + j + 1, x.low() + j + 1,
                size_ - j - 1);
    }
  }

  // (x, y) <- (c x + s y, c y - s x) for columns j and j + 1 below row j.
  void Rotate(size_t j, DoubleDouble c, DoubleDouble s) {
    const DoubleDoublePack cosine(Splat(c.hi), Splat(c.lo));
    const DoubleDoublePack sine(Splat(s.hi), Splat(s.lo));
    size_t i = j + 1;
    for (; i + kLanes <= size_; i += kLanes) {
      const DoubleDoublePack x(Load(High(j) + i), Load(Low(j) + i));
      const DoubleDoublePack y(Load(High(j + 1) + i), Load(Low(j + 1) + i));
      const DoubleDoublePack left = cosine * x + sine * y;
      const DoubleDoublePack right = cosine * y - sine * x;
      Store(left.hi, High(j) + i);
      Store(left.lo, Low(j) + i);
      Store(right.hi, High(j + 1) + i);
      Store(right.lo, Low(j + 1) + i);
    }
    for (; i < size_; ++i) {
      const DoubleDouble x = Get(i, j);
      const DoubleDouble y = Get(i, j + 1);
      Set(i, j, c * x + s * y);
      Set(i, j + 1, c * y - s * x);
    }
  }

  size_t size_ = 0;
  size_t stride_ = 0;
  std::vector<double> high_;  // column-major
  std::vector<double> low_;
  DdVector inverse_;  // of the diagonal
  DdVector scratch_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_CHOLESKY_DD_H_
