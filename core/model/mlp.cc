#include "core/model/mlp.h"

#include <algorithm>

#include "core/model/elementwise.h"
#include "core/model/linear.h"

namespace lethe::model {
namespace {

constexpr double kGeluSlope = 1.5957691216057308;  // 2 sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;
constexpr size_t kRows = 16;
constexpr size_t kBlock = 64;

// s(f(a)) for a block of a, f the argument of the logistic function.
template <typename T>
void Logistic(MlpKind kind, const T* a, size_t size, T* s) {
  if (kind == MlpKind::kGelu) {
    for (size_t j = 0; j < size; ++j) {
      s[j] = static_cast<T>(kGeluSlope) * (a[j] + static_cast<T>(kGeluCube) * a[j] * a[j] * a[j]);
    }
  } else {
    std::copy_n(a, size, s);
  }
  Sigmoid(s, size);
}

template <typename T>
void ActiveRow(MlpKind kind, const T* inner, size_t h, T* active) {
  T s[kBlock];
  for (size_t first = 0; first < h; first += kBlock) {
    const size_t count = std::min(kBlock, h - first);
    Logistic(kind, inner + first, count, s);
    for (size_t j = 0; j < count; ++j) active[first + j] = inner[first + j] * s[j];
  }
  if (kind == MlpKind::kGelu) return;
  for (size_t j = 0; j < h; ++j) active[j] *= inner[h + j];
}

template <typename T>
void InnerBarRow(MlpKind kind, const T* inner, const T* active_bar, size_t h, T* inner_bar) {
  T s[kBlock];
  for (size_t first = 0; first < h; first += kBlock) {
    const size_t count = std::min(kBlock, h - first);
    Logistic(kind, inner + first, count, s);
    for (size_t j = 0; j < count; ++j) {
      const T a = inner[first + j];
      const T bar = active_bar[first + j];
      if (kind == MlpKind::kGelu) {
        const T slope = static_cast<T>(kGeluSlope) * (T(1) + 3 * static_cast<T>(kGeluCube) * a * a);
        inner_bar[first + j] = bar * s[j] * (T(1) + a * (T(1) - s[j]) * slope);
      } else {
        const T gate = inner[h + first + j];
        inner_bar[first + j] = bar * gate * s[j] * (T(1) + a * (T(1) - s[j]));
        inner_bar[h + first + j] = bar * a * s[j];
      }
    }
  }
}

}  // namespace

template <typename T>
void MlpForward(Team* team,
                MlpKind kind,
                In<T> x,
                In<T> up,
                In<T> down,
                MlpWorkspace<T>* workspace,
                Matrix<T> y) {
  const size_t h = down.rows;
  LETHE_CHECK(up.columns == (kind == MlpKind::kGelu ? h : 2 * h));
  const Matrix<T> inner = workspace->inner.Resize(x.rows, up.columns);
  const Matrix<T> active = workspace->active.Resize(x.rows, h);
  Multiply(team, x, up, inner, Store::kSet);
  const auto rows = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) ActiveRow(kind, inner.row(i), h, active.row(i));
  };
  team == nullptr ? rows(0, 0, x.rows) : team->Run(x.rows, kRows, rows);
  Multiply<T>(team, active, down, y, Store::kSet);
}

template <typename T>
void MlpBackward(Team* team,
                 MlpKind kind,
                 In<T> x,
                 In<T> up,
                 In<T> down,
                 In<T> y_bar,
                 const MlpWorkspace<T>& workspace,
                 MlpScratch<T>* scratch,
                 Matrix<T> x_bar,
                 Matrix<T> up_bar,
                 Matrix<T> down_bar) {
  const Matrix<T> inner = workspace.inner.get();
  const Matrix<T> active = workspace.active.get();
  LETHE_CHECK(inner.Is(x.rows, up.columns) && active.Is(x.rows, down.rows));
  const Matrix<T> active_bar = scratch->active_bar.Resize(x.rows, down.rows);
  const Matrix<T> inner_bar = scratch->inner_bar.Resize(x.rows, up.columns);
  LinearBackward<T>(team, active, down, y_bar, active_bar, Store::kSet, down_bar, {});
  const auto rows = [&](size_t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      InnerBarRow(kind, inner.row(i), active_bar.row(i), down.rows, inner_bar.row(i));
    }
  };
  team == nullptr ? rows(0, 0, x.rows) : team->Run(x.rows, kRows, rows);
  LinearBackward<T>(team, x, up, inner_bar, x_bar, Store::kSet, up_bar, {});
}

#define LETHE_INSTANTIATE(T)                                                                    \
  template void MlpForward(Team*, MlpKind, In<T>, In<T>, In<T>, MlpWorkspace<T>*, Matrix<T>);   \
  template void MlpBackward(Team*, MlpKind, In<T>, In<T>, In<T>, In<T>, const MlpWorkspace<T>&, \
                            MlpScratch<T>*, Matrix<T>, Matrix<T>, Matrix<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
