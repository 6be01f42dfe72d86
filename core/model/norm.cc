#include "core/model/norm.h"

#include <cmath>

#include "core/model/elementwise.h"

namespace lethe::model {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr double kLengthEpsilon = 1e-12;
constexpr size_t kRows = 64;
constexpr size_t kColumns = 64;

template <typename T>
struct RowScale {
  T mean = 0;
  T inverse = 0;
};

template <typename T>
RowScale<T> ScaleOf(NormKind kind, const T* x, size_t d) {
  RowScale<T> scale;
  T squares = 0;
  if (kind == NormKind::kLayer) {
    T sum = 0;
    for (size_t j = 0; j < d; ++j) sum += x[j];
    scale.mean = sum / static_cast<T>(d);
    for (size_t j = 0; j < d; ++j) squares += (x[j] - scale.mean) * (x[j] - scale.mean);
  } else {
    squares = Dot(x, x, d);
  }
  scale.inverse = T(1) / std::sqrt(squares / static_cast<T>(d) + static_cast<T>(kEpsilon));
  return scale;
}

}  // namespace

template <typename T>
void NormForward(Team* team,
                 NormKind kind,
                 In<T> x,
                 InVector<T> gain,
                 InVector<T> bias,
                 Matrix<T> y) {
  const size_t d = x.columns;
  LETHE_CHECK(y.Is(x.rows, d) && gain.size() == d && (bias.empty() || bias.size() == d));
  const auto rows = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const T* from = x.row(i);
      T* to = y.row(i);
      const RowScale<T> scale = ScaleOf(kind, from, d);
      for (size_t j = 0; j < d; ++j) to[j] = gain[j] * ((from[j] - scale.mean) * scale.inverse);
      if (bias.empty()) continue;
      for (size_t j = 0; j < d; ++j) to[j] += bias[j];
    }
  };
  team == nullptr ? rows(0, 0, x.rows) : team->Run(x.rows, kRows, rows);
}

template <typename T>
void NormBackward(Team* team,
                  NormKind kind,
                  In<T> x,
                  InVector<T> gain,
                  In<T> y_bar,
                  Matrix<T> x_bar,
                  Store store,
                  std::span<T> gain_bar,
                  std::span<T> bias_bar) {
  const size_t d = x.columns;
  LETHE_CHECK(y_bar.Is(x.rows, d) && x_bar.Is(x.rows, d) && gain_bar.size() == d);
  std::vector<RowScale<T>> scales(x.rows);
  const auto rows = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const RowScale<T> scale = scales[i] = ScaleOf(kind, x.row(i), d);
      const T* from = x.row(i);
      const T* bar = y_bar.row(i);
      T* to = x_bar.row(i);
      T sum = 0;
      T product = 0;
      for (size_t j = 0; j < d; ++j) {
        sum += gain[j] * bar[j];
        product += gain[j] * bar[j] * ((from[j] - scale.mean) * scale.inverse);
      }
      sum = kind == NormKind::kLayer ? sum / static_cast<T>(d) : T(0);
      product /= static_cast<T>(d);
      for (size_t j = 0; j < d; ++j) {
        const T normal = (from[j] - scale.mean) * scale.inverse;
        const T value = scale.inverse * (gain[j] * bar[j] - sum - normal * product);
        to[j] = store == Store::kSet ? value : to[j] + value;
      }
    }
  };
  const auto columns = [&](size_t, size_t first, size_t last) {
    for (size_t i = 0; i < x.rows; ++i) {
      const RowScale<T> scale = scales[i];
      for (size_t j = first; j < last; ++j) {
        gain_bar[j] += y_bar.row(i)[j] * ((x.row(i)[j] - scale.mean) * scale.inverse);
        if (!bias_bar.empty()) bias_bar[j] += y_bar.row(i)[j];
      }
    }
  };
  if (team == nullptr) {
    rows(0, 0, x.rows);
    columns(0, 0, d);
  } else {
    team->Run(x.rows, kRows, rows);
    team->Run(d, kColumns, columns);
  }
}

template <typename T>
T UnitLengthForward(const T* x, size_t size, T* y) {
  const T inverse = T(1) / std::sqrt(Dot(x, x, size) + static_cast<T>(kLengthEpsilon));
  for (size_t j = 0; j < size; ++j) y[j] = x[j] * inverse;
  return inverse;
}

template <typename T>
void UnitLengthBackward(const T* y, T inverse_length, const T* y_bar, size_t size, T* x_bar) {
  const T along = Dot(y, y_bar, size);
  for (size_t j = 0; j < size; ++j) x_bar[j] += inverse_length * (y_bar[j] - y[j] * along);
}

#define LETHE_INSTANTIATE(T)                                                               \
  template void NormForward(Team*, NormKind, In<T>, InVector<T>, InVector<T>, Matrix<T>);  \
  template void NormBackward(Team*, NormKind, In<T>, InVector<T>, In<T>, Matrix<T>, Store, \
                             std::span<T>, std::span<T>);                                  \
  template T UnitLengthForward(const T*, size_t, T*);                                      \
  template void UnitLengthBackward(const T*, T, const T*, size_t, T*);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
