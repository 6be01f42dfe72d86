#include "tests/bench/baselines.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lethe::bench {
namespace {

constexpr double kDecay = 0.01;

}  // namespace

Kept Top(std::span<const double> scores, size_t budget) {
  Kept order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(budget, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

Vector KernelMass(std::span<const Vector> keys, std::span<const Vector> observers, double gamma) {
  Vector mass(keys.size(), 0.0);
  for (size_t i = 0; i < keys.size(); ++i) {
    for (const Vector& observer : observers) mass[i] += Rbf(observer, keys[i], gamma);
  }
  return mass;
}

Kept StreamingH2O(std::span<const Vector> keys, size_t budget, double gamma) {
  Kept kept;
  Vector sums(keys.size(), 0.0);
  Vector scores;
  for (size_t t = 0; t < keys.size(); ++t) {
    kept.push_back(t);
    scores.clear();
    double total = 0.0;
    for (const size_t i : kept) {
      scores.push_back(Rbf(keys[t], keys[i], gamma));  // the largest is 1, at t itself
      total += scores.back();
    }
    for (size_t p = 0; p < kept.size(); ++p) sums[kept[p]] += scores[p] / total;
    if (kept.size() <= budget) continue;
    const auto recent = kept.end() - static_cast<std::ptrdiff_t>(budget / 2);
    kept.erase(std::min_element(kept.begin(), recent,
                                [&](size_t a, size_t b) { return sums[a] < sums[b]; }));
  }
  return kept;
}

Kept Recent(size_t tokens, size_t budget) {
  Kept kept(std::min(tokens, budget));
  std::iota(kept.begin(), kept.end(), tokens - kept.size());
  return kept;
}

Kept AtRandom(size_t tokens, size_t budget, Random& random) {
  return random.Subset(std::min(tokens, budget), tokens);
}

Vector DecayedByAge(size_t tokens, size_t budget) {
  Vector coefficients(tokens, kDecay);
  for (const size_t i : Recent(tokens, budget)) coefficients[i] = 1.0;
  return coefficients;
}

Vector DecayedWeights(const svdd::Snapshot& state, std::span<const svdd::TokenHandle> forgotten) {
  Vector weights;
  double sum = 0.0;
  for (const svdd::SupportToken& support : state.supports) {
    const bool gone =
        std::find(forgotten.begin(), forgotten.end(), support.handle) != forgotten.end();
    weights.push_back(support.alpha * (gone ? kDecay : 1.0));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace lethe::bench
