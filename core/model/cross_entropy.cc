#include "core/model/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/model/elementwise.h"

namespace lethe::model {
namespace {
constexpr size_t kRows = 32;
}  // namespace

template <typename T>
void CrossEntropyForward(Team* team,
                         std::span<const uint32_t> targets,
                         Matrix<T> logits,
                         std::span<T> losses) {
  LETHE_CHECK(targets.size() == logits.rows && losses.size() == logits.rows);
  const auto rows = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      T* z = logits.row(i);
      const T largest = *std::max_element(z, z + logits.columns);
      for (size_t j = 0; j < logits.columns; ++j) z[j] -= largest;
      T at_target = 0;
      if (targets[i] != kNoTarget) {
        LETHE_CHECK(targets[i] < logits.columns);
        at_target = z[targets[i]];
      }
      Exp(z, logits.columns);
      T sum = 0;
      for (size_t j = 0; j < logits.columns; ++j) sum += z[j];
      for (size_t j = 0; j < logits.columns; ++j) z[j] /= sum;
      losses[i] = targets[i] == kNoTarget ? T(0) : std::log(sum) - at_target;
    }
  };
  team == nullptr ? rows(0, 0, logits.rows) : team->Run(logits.rows, kRows, rows);
}

template <typename T>
void CrossEntropyBackward(Team* team,
                          std::span<const uint32_t> targets,
                          std::type_identity_t<T> scale,
                          Matrix<T> probabilities) {
  LETHE_CHECK(targets.size() == probabilities.rows);
  const auto rows = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      T* p = probabilities.row(i);
      if (targets[i] == kNoTarget) {
        std::fill_n(p, probabilities.columns, T(0));
        continue;
      }
      p[targets[i]] -= T(1);
      for (size_t j = 0; j < probabilities.columns; ++j) p[j] *= scale;
    }
  };
  team == nullptr ? rows(0, 0, probabilities.rows) : team->Run(probabilities.rows, kRows, rows);
}

#define LETHE_INSTANTIATE(T)                                                                    \
  template void CrossEntropyForward(Team*, std::span<const uint32_t>, Matrix<T>, std::span<T>); \
  template void CrossEntropyBackward(Team*, std::span<const uint32_t>, T, Matrix<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
