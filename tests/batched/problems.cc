#include "tests/batched/problems.h"

#include <algorithm>
#include <random>

namespace lethe::batched {

std::vector<Regime> StandardRegimes(size_t dimension) {
  const double d = static_cast<double>(dimension);
  const std::vector<Regime> kinds = {
      {"rbf, normalised keys", {KernelKind::kRbf, true}, 1.0},
      {"rbf, raw keys", {KernelKind::kRbf, false}, 1 / (4 * d)},
      {"dot product, raw keys", {KernelKind::kDot, false}, 1.0},
  };
  std::vector<Regime> regimes;
  for (const Regime& kind : kinds) {
    regimes.push_back(kind);
    Regime near = kind;
    near.name += ", near-duplicates";
    near.copies = 4;
    near.noise = 1e-3;
    regimes.push_back(near);
  }
  return regimes;
}

template <typename T>
Batch<T> OwnedBatch<T>::view() const {
  Batch<T> batch;
  batch.problems = problems;
  batch.n = n;
  batch.box = box;
  batch.ridge = ridge;
  if (!matrices.empty()) {
    batch.matrices = matrices;
    return batch;
  }
  batch.points = points;
  batch.dimension = dimension;
  batch.kernel = kernel;
  batch.parameter = parameter;
  return batch;
}

template <typename T>
OwnedBatch<T> RandomBatch(const Regime& regime,
                          size_t problems,
                          size_t n,
                          size_t dimension,
                          double nu,
                          double ridge,
                          uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  OwnedBatch<T> batch;
  batch.problems = problems;
  batch.n = n;
  batch.dimension = dimension;
  batch.kernel = regime.kernel;
  batch.points.resize(problems * n * dimension);
  const size_t own = std::max<size_t>(1, n / regime.copies);
  for (size_t b = 0; b < problems; ++b) {
    T* points = batch.points.data() + b * n * dimension;
    for (size_t i = 0; i < n * dimension; ++i) {
      const double value =
          i < own * dimension
              ? normal(random)
              : static_cast<double>(points[i % (own * dimension)]) + regime.noise * normal(random);
      points[i] = static_cast<T>(value);
    }
  }
  batch.parameter = {static_cast<T>(regime.parameter)};
  batch.box = {static_cast<T>(std::min(1.0, 1 / (nu * static_cast<double>(n))))};
  batch.ridge = {static_cast<T>(ridge)};
  return batch;
}

template struct OwnedBatch<float>;
template struct OwnedBatch<double>;
template OwnedBatch<float>
RandomBatch(const Regime&, size_t, size_t, size_t, double, double, uint64_t);
template OwnedBatch<double>
RandomBatch(const Regime&, size_t, size_t, size_t, double, double, uint64_t);

}  // namespace lethe::batched
