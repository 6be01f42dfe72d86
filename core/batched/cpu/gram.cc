#include "core/batched/cpu/gram.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lethe::batched {
namespace {

template <typename T>
constexpr T kLeastValue = sizeof(T) == 8 ? T(0x1p-1009)
                                         : T(0x1p-115);  // just above exp of kLeastExponent

template <typename T>
T OneOrEach(std::span<const T> values, size_t b) {
  return values[values.size() == 1 ? 0 : b];
}

template <typename T>
using Segment = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>, Eigen::Aligned32>;
template <typename T>
Segment<T> SegmentOf(T* first, size_t size) {
  return {first, static_cast<Eigen::Index>(size)};
}

// The sums of |K_ij| over kColumns columns from j on; `largest` gains their entries.
template <typename T, size_t kColumns>
void MeasureColumns(const Workspace<T>& work, size_t j, PackOf<T>* largest, T (&sums)[kColumns]) {
  using Pack = PackOf<T>;
  const T* const columns = work.matrix.get() + j * work.stride;
  Pack most[kColumns];
  Pack sum[kColumns] = {};
  for (size_t c = 0; c < kColumns; ++c) most[c] = *largest;
  for (size_t i = 0; i < work.rows; i += kPack<T>) {
    for (size_t c = 0; c < kColumns; ++c) {
      const Pack entry = LoadPack(columns + c * work.stride + i);
      const Pack magnitude = Larger(entry, Pack{} - entry);
      most[c] = Larger(most[c], magnitude);
      sum[c] += magnitude;
    }
  }
  for (size_t c = 0; c < kColumns; ++c) {
    *largest = Larger(*largest, most[c]);
    sums[c] = SumOf<T>(sum[c]);
  }
}

// Largest entry and row sum; false where an entry is not finite or too large.
template <typename T>
bool Measure(Workspace<T>& work) {
  constexpr size_t kColumns = 4;
  PackOf<T> largest = {};
  T row_sum = 0;
  // A sum is not finite where an entry is not; where all are small enough it is.
  const auto add = [&](T sum) {
    row_sum = std::max(row_sum, sum);
    return std::isfinite(sum);
  };
  size_t j = 0;
  for (; j + kColumns <= work.n; j += kColumns) {
    T sums[kColumns];
    MeasureColumns<T, kColumns>(work, j, &largest, sums);
    for (const T sum : sums) {
      if (!add(sum)) return false;
    }
  }
  for (; j < work.n; ++j) {
    T sums[1];
    MeasureColumns<T, 1>(work, j, &largest, sums);
    if (!add(sums[0])) return false;
  }
  work.scale = 0;
  for (size_t lane = 0; lane < kPack<T>; ++lane) work.scale = std::max(work.scale, largest[lane]);
  for (size_t i = 0; i < work.n; ++i) work.diagonal[i] = work.matrix[i * work.stride + i];
  work.row_sum = row_sum;
  return work.scale <= kLargestEntry<T>;
}

template <typename T>
bool Symmetric(const Workspace<T>& work) {
  constexpr size_t kTile = 16;
  const T most = kSymmetric<T> * work.scale;
  T difference = 0;
  const T* matrix = work.matrix.get();
  for (size_t first = 0; first < work.n; first += kTile) {
    for (size_t j = 0; j <= first; j += kTile) {
      const size_t rows = std::min(first + kTile, work.n);
      const size_t columns = std::min(j + kTile, work.n);
      for (size_t i = first; i < rows; ++i) {
        for (size_t k = j; k < columns; ++k) {
          difference = std::max(
              difference, std::abs(matrix[i * work.stride + k] - matrix[k * work.stride + i]));
        }
      }
    }
  }
  return difference <= most;
}

// Points as rows and as coordinates; kZeroKey, kNotFinite or kUnsolved.
template <typename T>
Outcome LoadPoints(const T* from, bool normalise, Workspace<T>& work) {
  PackOf<T> nothing = {};  // becomes NaN with any coordinate that is not finite
  for (size_t i = 0; i < work.n; ++i) {
    const T* point = from + i * work.dimension;
    T factor = 1;
    if (normalise) {
      T square = 0;
      for (size_t k = 0; k < work.dimension; ++k) square += point[k] * point[k];
      if (!std::isfinite(square)) return Outcome::kNotFinite;
      if (square < std::numeric_limits<T>::min()) return Outcome::kZeroKey;
      work.lengths[i] = std::sqrt(square);
      factor = 1 / work.lengths[i];
    }
    T* row = work.points.get() + i * work.padded_dimension;
    for (size_t k = 0; k < work.dimension; ++k) {
      const T coordinate = point[k] * factor;
      row[k] = coordinate;
      work.coordinates[k * work.rows + i] = coordinate;
    }
    for (size_t k = 0; k < work.padded_dimension; k += kPack<T>) {
      nothing += LoadPack(row + k) * PackOf<T>{};
    }
  }
  return SumOf<T>(nothing) == 0 ? Outcome::kUnsolved : Outcome::kNotFinite;
}

// Eight points against a pack of points: squared distances or dot products.
template <typename T, bool kDistance>
void Pairs(const Workspace<T>& work, size_t first, size_t j, T* to) {
  using Pack = PackOf<T>;
  Pack sum[kPadding] = {};
  for (size_t k = 0; k < work.dimension; ++k) {
    const T* coordinate = work.coordinates.get() + k * work.rows;
    const Pack other = LoadPack(coordinate + j);
    for (size_t i = 0; i < kPadding; ++i) {
      const Pack own = SplatOf<T>(coordinate[first + i]);
      if constexpr (kDistance) {
        const Pack difference = own - other;
        sum[i] = MultiplyAdd(difference, difference, sum[i]);
      } else {
        sum[i] = MultiplyAdd(own, other, sum[i]);
      }
    }
  }
  for (size_t i = 0; i < kPadding; ++i) StorePack<T>(sum[i], to + i * work.stride);
}

// row = exp(scale row). False where an exponent is too large, or not a number. Entries count as the
// matrix's, padding too (which is exp of 0 or of a sum of squares of the row's own point).
template <typename T>
bool Exponentials(T scale, size_t size, T* row) {
  using Pack = PackOf<T>;
  const Pack factor = SplatOf<T>(scale);
  const Pack least = SplatOf<T>(kLeastExponent<T>);
  Pack largest = least;
  Pack nothing = {};
  for (size_t i = 0; i < size; i += kPack<T>) {
    const Pack exponent = LoadPack(row + i) * factor;
    nothing += exponent * Pack{};
    largest = Larger(exponent, largest);
    StorePack<T>(Larger(exponent, least), row + i);
  }
  for (size_t lane = 0; lane < kPack<T>; ++lane) {
    if (!(nothing[lane] == 0) || !(largest[lane] < kMostExponent<T>)) return false;
  }
  // Whole packs on boundaries of packs: the same bits wherever the row stands.
  SegmentOf(row, size) = SegmentOf(row, size).exp();
  const Pack smallest = SplatOf<T>(kLeastValue<T>);
  for (size_t i = 0; i < size; i += kPack<T>) {
    const Pack value = LoadPack(row + i);
    const BitsOf<T> mask = value > smallest;
    StorePack<T>(std::bit_cast<Pack>(std::bit_cast<BitsOf<T>>(value) & mask), row + i);
  }
  return true;
}

// On and right of the diagonal, in blocks; then the rest by symmetry. False as Exponentials.
template <typename T>
bool MakeMatrix(KernelKind kind, Workspace<T>& work) {
  T* matrix = work.matrix.get();
  const bool distance = kind == KernelKind::kRbf || kind == KernelKind::kLaplacian;
  const T scale = distance ? -work.parameter : work.parameter;
  for (size_t first = 0; first < work.rows; first += kPadding) {
    for (size_t j = first; j < work.rows; j += kPack<T>) {
      T* to = matrix + first * work.stride + j;
      if (distance) {
        Pairs<T, true>(work, first, j, to);
      } else {
        Pairs<T, false>(work, first, j, to);
      }
    }
    for (size_t i = first; i < std::min(first + kPadding, work.n); ++i) {
      T* const row = matrix + i * work.stride + first;
      const size_t size = work.rows - first;
      if (kind == KernelKind::kDot) {
        SegmentOf(row, size) *= scale;
      } else {
        if (kind == KernelKind::kLaplacian) SegmentOf(row, size) = SegmentOf(row, size).sqrt();
        if (!Exponentials(scale, size, row)) return false;
      }
      T* all = matrix + i * work.stride;
      if (distance) all[i] = 1;
      std::fill(all + work.n, all + work.rows, T{0});
    }
  }
  for (size_t first = 0; first < work.n; first += kPadding) {
    const size_t last = std::min(first + kPadding, work.n);
    for (size_t j = first; j < work.n; ++j) {
      for (size_t i = first; i < std::min(last, j); ++i) {
        matrix[j * work.stride + i] = matrix[i * work.stride + j];
      }
    }
  }
  return true;
}

}  // namespace

template <typename T>
Outcome Load(const Batch<T>& batch, size_t b, Workspace<T>& work) {
  const size_t n = work.n;
  work.box = OneOrEach(batch.box, b);
  work.ridge = OneOrEach(batch.ridge, b);
  const Outcome numbers = CheckNumbers<T>(work);
  if (numbers != Outcome::kUnsolved) return numbers;

  if (batch.dimension > 0) {
    work.parameter = OneOrEach(batch.parameter, b);
    const Outcome parameter = CheckParameter(work.parameter);
    if (parameter != Outcome::kUnsolved) return parameter;
    const Outcome points =
        LoadPoints(batch.points.data() + b * n * work.dimension, batch.kernel.normalise, work);
    if (points != Outcome::kUnsolved) return points;
    if (!MakeMatrix(batch.kernel.kind, work) || !Measure(work)) return Outcome::kNotFinite;
  } else {
    const T* from = batch.matrices.data() + b * n * n;
    for (size_t j = 0; j < n; ++j) {
      std::copy(from + j * n, from + (j + 1) * n, work.matrix.get() + j * work.stride);
    }
    if (!Measure(work)) return Outcome::kNotFinite;
    if (!Symmetric(work)) return Outcome::kNotSymmetric;
  }
  if (!batch.start.empty()) {
    T nothing = 0;
    for (const T weight : batch.start.subspan(b * n, n)) nothing += weight * 0;
    if (!(nothing == 0)) return Outcome::kNotFinite;
  }
  return Outcome::kUnsolved;
}

template <typename T>
void PointsBackward(const Batch<T>& batch, Workspace<T>& work, T* points_bar, T* parameter_bar) {
  const size_t d = work.padded_dimension;
  const T p = work.parameter;
  size_t count = 0;
  for (size_t i = 0; i < work.n; ++i) {
    if (work.x[i] != 0 || work.lambda[i] != 0) work.columns[count++] = static_cast<uint32_t>(i);
  }
  std::fill(work.points_bar.get(), work.points_bar.get() + work.rows * d, T{0});
  T parameter = 0;
  // By x_i and x_j at once: dL = 2 G_ij dK_ij.
  const auto pair = [&](size_t i, size_t j) {
    const T weight = -2 * (work.lambda[i] * work.x[j] + work.x[i] * work.lambda[j]);
    if (weight == 0) return;
    const T* xi = work.points.get() + i * d;
    const T* xj = work.points.get() + j * d;
    T* to_i = work.points_bar.get() + i * d;
    T* to_j = work.points_bar.get() + j * d;
    const T value = work.matrix[j * work.stride + i];
    if (batch.kernel.kind == KernelKind::kRbf || batch.kernel.kind == KernelKind::kLaplacian) {
      T square = 0;
      for (size_t k = 0; k < d; ++k) square += (xi[k] - xj[k]) * (xi[k] - xj[k]);
      T slope = -2 * p;  // dK = K slope <x_i - x_j, dx_i - dx_j>
      if (batch.kernel.kind == KernelKind::kLaplacian) {
        const T length = std::sqrt(square);
        slope = length > 0 ? -p / length : T{0};
        parameter -= weight * value * length;
      } else {
        parameter -= weight * value * square;
      }
      const T factor = weight * value * slope;
      for (size_t k = 0; k < d; ++k) {
        const T step = factor * (xi[k] - xj[k]);
        to_i[k] += step;
        to_j[k] -= step;
      }
      return;
    }
    T dot = 0;
    for (size_t k = 0; k < d; ++k) dot += xi[k] * xj[k];
    const T slope = batch.kernel.kind == KernelKind::kDot ? T{1} : value;  // by p <x_i, x_j>
    parameter += weight * slope * dot;
    const T factor = weight * slope * p;
    for (size_t k = 0; k < d; ++k) {
      to_i[k] += factor * xj[k];
      to_j[k] += factor * xi[k];
    }
  };
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < a; ++b) pair(work.columns[a], work.columns[b]);
  }
  if (batch.kernel.kind == KernelKind::kExpDot || batch.kernel.kind == KernelKind::kDot) {
    for (size_t a = 0; a < count; ++a) {
      const size_t i = work.columns[a];
      const T slope = batch.kernel.kind == KernelKind::kDot ? T{1} : work.diagonal[i];
      const T weight = work.lambda[i] * (1 - 2 * work.x[i]) * slope;
      const T* xi = work.points.get() + i * d;
      T square = 0;
      for (size_t k = 0; k < d; ++k) square += xi[k] * xi[k];
      parameter += weight * square;
      for (size_t k = 0; k < d; ++k) work.points_bar[i * d + k] += 2 * weight * p * xi[k];
    }
  }
  *parameter_bar = parameter;
  for (size_t i = 0; i < work.n; ++i) {
    const T* from = work.points_bar.get() + i * d;
    T* to = points_bar + i * work.dimension;
    if (!batch.kernel.normalise) {
      std::copy(from, from + work.dimension, to);
      continue;
    }
    // x = y / |y|:  dL/dy = (xbar - <xbar, x> x) / |y|
    const T* x = work.points.get() + i * d;
    T along = 0;
    for (size_t k = 0; k < d; ++k) along += from[k] * x[k];
    for (size_t k = 0; k < work.dimension; ++k) to[k] = (from[k] - along * x[k]) / work.lengths[i];
  }
}

template Outcome Load(const Batch<float>&, size_t, Workspace<float>&);
template Outcome Load(const Batch<double>&, size_t, Workspace<double>&);
template void PointsBackward(const Batch<float>&, Workspace<float>&, float*, float*);
template void PointsBackward(const Batch<double>&, Workspace<double>&, double*, double*);

}  // namespace lethe::batched
