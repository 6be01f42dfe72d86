#include "core/batched/cpu/fista.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/batched/cpu/projection.h"

namespace lethe::batched {
namespace {

constexpr int kLook = 5;  // iterations between two looks at the labels

// Signs and sizes without a pattern, the same for every problem: a start for the power iteration
// that is orthogonal to no eigenvector, with a part along (1, ..., 1), where a kernel of positive
// values has most.
template <typename T>
void FillStart(size_t n, T* y) {
  uint32_t state = 0x9e3779b9U;
  for (size_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    y[i] = 1 + static_cast<T>(static_cast<int32_t>(state)) * T(0x1p-32);
  }
}

// A number that is rarely below the largest eigenvalue of K, and then by little.
template <typename T>
T LargestEigenvalue(int iterations, Workspace<T>& work) {
  if (iterations == 0) return work.row_sum;
  FillStart(work.n, work.y.get());
  T estimate = work.row_sum;
  for (int i = 0; i < iterations; ++i) {
    const T square = DotPadded(work.y.get(), work.y.get(), work.rows);
    if (!(square > 0)) return work.row_sum;
    const T inverse = 1 / std::sqrt(square);
    for (size_t k = 0; k < work.rows; ++k) work.y[k] *= inverse;
    work.Multiply(work.y.get(), work.v.get());
    estimate = std::sqrt(DotPadded(work.v.get(), work.v.get(), work.rows));
    std::copy(work.v.get(), work.v.get() + work.rows, work.y.get());
  }
  return std::min(work.row_sum, T(1.1) * estimate);
}

template <typename T>
T Project(T guess, Workspace<T>& work, T* to) {
  using Pack = PackOf<T>;
  std::fill(work.v.get() + work.n, work.v.get() + work.rows, kFarBelow<T>);
  const T t = ProjectionThreshold(work.v.get(), work.rows, work.n, work.box, guess);
  const Pack shift = SplatOf<T>(t);
  const Pack upper = SplatOf<T>(work.box);
  for (size_t i = 0; i < work.rows; i += kPack<T>) {
    StorePack<T>(Smaller(Larger(LoadPack(work.v.get() + i) - shift, Pack{}), upper), to + i);
  }
  return t;
}

// Labels of x; whether they are as before.
template <typename T>
bool ReadLabels(const T* x, Workspace<T>& work) {
  uint8_t changed = 0;
  for (size_t i = 0; i < work.n; ++i) {
    // 0 in reserve, 1 in the margin, 2 in error: what is above 0, and what is at C, counted.
    const auto label = static_cast<uint8_t>((x[i] > 0 ? 1 : 0) + (x[i] >= work.box ? 1 : 0));
    changed = static_cast<uint8_t>(changed | (label ^ work.labels[i]));
    work.labels[i] = label;
  }
  return changed == 0;
}

}  // namespace

template <typename T>
void Fista(const Options& options, const T* start, Workspace<T>& work) {
  using Pack = PackOf<T>;
  constexpr size_t kW = kPack<T>;
  const size_t rows = work.rows;
  const T lipschitz = 2 * LargestEigenvalue(options.power_iterations, work) + work.ridge;
  const T step = lipschitz > 0 ? 1 / lipschitz : T{1};

  T* x = work.x.get();
  T* previous = work.previous.get();
  T* y = work.y.get();
  T* v = work.v.get();
  if (start != nullptr) {
    for (size_t i = 0; i < work.n; ++i) v[i] = std::clamp(start[i], T{0}, work.box);
    Project<T>(0, work, x);
  } else {
    std::fill(x, x + work.n, 1 / static_cast<T>(work.n));
    std::fill(x + work.n, x + rows, T{0});
  }
  std::copy(x, x + rows, y);

  const Pack twice = SplatOf<T>(-2 * step);
  const Pack once = SplatOf<T>(step);
  const Pack keep = SplatOf<T>(1 - step * work.ridge);
  T momentum = 1;
  T threshold = 0;
  work.iterations = 0;
  int stable = 0;
  // Unlike any label, so that the first look finds nothing of the problem before.
  std::fill(work.labels.get(), work.labels.get() + work.n, uint8_t{4});
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (iteration % kLook == 0 && iteration > 0 && options.stable_iterations > 0) {
      stable = ReadLabels(x, work) ? stable + kLook : 0;
      if (stable >= options.stable_iterations) break;
    }
    ++work.iterations;
    work.Multiply(y, v);
    for (size_t i = 0; i < rows; i += kW) {
      const Pack kept =
          MultiplyAdd(LoadPack(y + i), keep, once * LoadPack(work.diagonal.get() + i));
      StorePack<T>(MultiplyAdd(LoadPack(v + i), twice, kept), v + i);
    }
    std::swap(x, previous);
    threshold = Project(threshold, work, x);
    Pack turned = {};
    for (size_t i = 0; i < rows; i += kW) {
      const Pack now = LoadPack(x + i);
      turned = MultiplyAdd(LoadPack(y + i) - now, now - LoadPack(previous + i), turned);
    }
    if (SumOf<T>(turned) > 0) {
      momentum = 1;
      std::copy(x, x + rows, y);
      continue;
    }
    const T next = (1 + std::sqrt(1 + 4 * momentum * momentum)) / 2;
    const Pack beta = SplatOf<T>((momentum - 1) / next);
    momentum = next;
    for (size_t i = 0; i < rows; i += kW) {
      const Pack now = LoadPack(x + i);
      StorePack<T>(MultiplyAdd(beta, now - LoadPack(previous + i), now), y + i);
    }
  }
  if (x != work.x.get()) std::copy(x, x + rows, work.x.get());
  ReadLabels(work.x.get(), work);
}

template void Fista(const Options&, const float*, Workspace<float>&);
template void Fista(const Options&, const double*, Workspace<double>&);

}  // namespace lethe::batched
