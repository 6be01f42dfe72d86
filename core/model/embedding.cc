#include "core/model/embedding.h"

#include <algorithm>

namespace lethe::model {

template <typename T>
void EmbeddingForward(Team* team,
                      In<T> table,
                      std::span<const uint32_t> ids,
                      Matrix<T> y,
                      Store store) {
  LETHE_CHECK(y.Is(ids.size(), table.columns));
  const auto read = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      LETHE_CHECK(ids[i] < table.rows);
      const T* from = table.row(ids[i]);
      if (store == Store::kSet) {
        std::copy_n(from, y.columns, y.row(i));
      } else {
        for (size_t j = 0; j < y.columns; ++j) y.row(i)[j] += from[j];
      }
    }
  };
  constexpr size_t kRows = 256;
  team == nullptr ? read(0, 0, y.rows) : team->Run(y.rows, kRows, read);
}

template <typename T>
void EmbeddingBackward(Team* team,
                       std::span<const uint32_t> ids,
                       In<T> y_bar,
                       Matrix<T> table_bar) {
  LETHE_CHECK(y_bar.Is(ids.size(), table_bar.columns));
  const auto add = [&](size_t, size_t first, size_t last) {
    for (size_t i = 0; i < y_bar.rows; ++i) {
      LETHE_CHECK(ids[i] < table_bar.rows);
      T* to = table_bar.row(ids[i]);
      for (size_t j = first; j < last; ++j) to[j] += y_bar.row(i)[j];
    }
  };
  constexpr size_t kColumns = 64;
  team == nullptr ? add(0, 0, y_bar.columns) : team->Run(y_bar.columns, kColumns, add);
}

#define LETHE_INSTANTIATE(T)                                                                 \
  template void EmbeddingForward(Team*, In<T>, std::span<const uint32_t>, Matrix<T>, Store); \
  template void EmbeddingBackward(Team*, std::span<const uint32_t>, In<T>, Matrix<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
