#include "core/model/linear.h"

namespace lethe::model {

template <typename T>
void LinearForward(Team* team, In<T> x, In<T> weights, InVector<T> bias, Matrix<T> y) {
  Multiply(team, x, weights, y, Store::kSet);
  if (bias.empty()) return;
  LETHE_CHECK(bias.size() == y.columns);
  for (size_t i = 0; i < y.rows; ++i) {
    for (size_t j = 0; j < y.columns; ++j) y.row(i)[j] += bias[j];
  }
}

template <typename T>
void LinearBackward(Team* team,
                    In<T> x,
                    In<T> weights,
                    In<T> y_bar,
                    Matrix<T> x_bar,
                    Store store,
                    Matrix<T> weights_bar,
                    std::span<T> bias_bar) {
  if (x_bar.data != nullptr) MultiplyTransposed(team, y_bar, weights, x_bar, store);
  TransposedMultiply(team, x, y_bar, weights_bar, Store::kAdd);
  if (!bias_bar.empty()) AddColumnSums(team, y_bar, bias_bar);
}

template <typename T>
void AddColumnSums(Team* team, In<T> m, std::span<T> sums) {
  LETHE_CHECK(sums.size() == m.columns);
  const auto add = [&](size_t, size_t first, size_t last) {
    for (size_t i = 0; i < m.rows; ++i) {
      for (size_t j = first; j < last; ++j) sums[j] += m.row(i)[j];
    }
  };
  constexpr size_t kColumns = 64;
  team == nullptr ? add(0, 0, m.columns) : team->Run(m.columns, kColumns, add);
}

#define LETHE_INSTANTIATE(T)                                                            \
  template void LinearForward(Team*, In<T>, In<T>, InVector<T>, Matrix<T>);             \
  template void LinearBackward(Team*, In<T>, In<T>, In<T>, Matrix<T>, Store, Matrix<T>, \
                               std::span<T>);                                           \
  template void AddColumnSums(Team*, In<T>, std::span<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
