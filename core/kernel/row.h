// Kernel values of one point against many, several at a time.
//
//     row_j = kappa(x, y_j),  j = 0 .. n - 1
//
// The points y_j are kept sixteen side by side, so that a row reads one stream of memory and needs
// no sum across lanes.
#ifndef LETHE_CORE_KERNEL_ROW_H_
#define LETHE_CORE_KERNEL_ROW_H_

#include <cstddef>
#include <span>
#include <vector>

#include "core/kernel/kernel.h"

namespace lethe::kernel {

// Points of one dimension, by index. Points that were never set are 0. Memory 8 d bytes a point.
class PointBlocks {
 public:
  static constexpr size_t kWidth = 16;

  explicit PointBlocks(size_t dimension) : dimension_(dimension) {}
  size_t dimension() const { return dimension_; }
  // Indices below it can be read; a multiple of kWidth.
  size_t size() const { return size_; }
  void Clear() {
    size_ = 0;
    data_.clear();
  }
  // Grows to hold `index`.
  void Set(size_t index, std::span<const double> point);
  // Coordinate k of the points [16 block, 16 block + 16) at Block(block)[16 k].
  const double* Block(size_t block) const { return data_.data() + block * dimension_ * kWidth; }

 private:
  size_t dimension_;
  size_t size_ = 0;
  std::vector<double> data_;
};

// Rows hold PointBlocks::size() numbers. Requires x.size() == points.dimension().

// In double. Every value is within RowError of the exact one: decides signs when they are far from
// zero, never a published bit. Cost a value: d subtractions, d + 15 fused operations, 4 more.
void Row(const Kernel& kernel, std::span<const double> x, const PointBlocks& points, double* row);
// The same for the points of the blocks [first, last) alone; row holds 16 (last - first) numbers.
void RowOfBlocks(const Kernel& kernel,
                 std::span<const double> x,
                 const PointBlocks& points,
                 size_t first,
                 size_t last,
                 double* row);

// Bounds on |row_j - kappa(x, y_j)| from `square` = scale |x|^2 and the largest scale |y_j|^2,
// which matter to exp_dot alone: at most relative kappa + absolute.
struct RowErrorBound {
  double relative;
  double absolute;
};
RowErrorBound RowError(const Kernel& kernel, size_t dimension, double square, double largest);

// In double-double, each with a bound on its absolute error. Cost about 60 d + 700 operations a
// value.
void RowDoubleDouble(const Kernel& kernel,
                     std::span<const double> x,
                     const PointBlocks& points,
                     double* high,
                     double* low,
                     double* error);

}  // namespace lethe::kernel

#endif  // LETHE_CORE_KERNEL_ROW_H_
