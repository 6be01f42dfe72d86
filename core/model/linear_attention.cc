#include "core/model/linear_attention.h"

#include <algorithm>

#include "core/model/elementwise.h"

namespace lethe::model {
namespace {

constexpr double kLeastFeature = 1e-12;

template <typename T>
void Features(In<T> x, Matrix<T> f) {
  for (size_t t = 0; t < x.rows; ++t) {
    T* to = f.row(t);
    for (size_t i = 0; i < x.columns; ++i) to[i] = std::min(x.row(t)[i], T(0));
    Exp(to, x.columns);
    for (size_t i = 0; i < x.columns; ++i) {
      const T value = x.row(t)[i];
      to[i] = value > 0 ? value + T(1) : std::max(to[i], static_cast<T>(kLeastFeature));
    }
  }
}
// x_bar = f_bar . f'(x)
template <typename T>
void FeaturesBackward(const T* x, const T* f, const T* f_bar, size_t d, T* x_bar) {
  for (size_t i = 0; i < d; ++i) {
    const T slope = x[i] > 0 ? T(1) : f[i] > static_cast<T>(kLeastFeature) ? f[i] : T(0);
    x_bar[i] = f_bar[i] * slope;
  }
}

template <typename T>
void Prepare(In<T> q, In<T> k, In<T> v, In<T> g, LinearAttentionWorkspace<T>* workspace) {
  const size_t n = q.rows;
  LETHE_CHECK(k.Is(n, q.columns) && v.rows == n && (g.data == nullptr || g.Is(n, 1)));
  Features<T>(q, workspace->q.Resize(n, q.columns));
  Features<T>(k, workspace->k.Resize(n, q.columns));
  const Matrix<T> decay = workspace->decay.Resize(1, n);
  for (size_t t = 0; t < n; ++t) decay.data[t] = g.data == nullptr ? T(0) : g.row(t)[0];
  Exp(decay.data, n);
  const Matrix<T> state = workspace->state.Resize(q.columns, v.columns + 1);
  std::fill_n(state.data, state.rows * state.columns, T(0));
}

// S = decay S + f(k) (v, 1)'
template <typename T>
void Write(T decay, const T* k, const T* v, Matrix<T> state) {
  const size_t e = state.columns - 1;
  for (size_t i = 0; i < state.rows; ++i) {
    T* row = state.row(i);
    for (size_t j = 0; j < e; ++j) row[j] = decay * row[j] + k[i] * v[j];
    row[e] = decay * row[e] + k[i];
  }
}
// sums = S'f(q)
template <typename T>
void Read(In<T> state, const T* q, T* sums) {
  std::fill_n(sums, state.columns, T(0));
  for (size_t i = 0; i < state.rows; ++i) AddScaled(q[i], state.row(i), state.columns, sums);
}

}  // namespace

template <typename T>
void LinearAttentionForward(In<T> q,
                            In<T> k,
                            In<T> v,
                            In<T> g,
                            LinearAttentionWorkspace<T>* workspace,
                            Matrix<T> o) {
  const size_t n = q.rows;
  const size_t e = v.columns;
  LETHE_CHECK(o.Is(n, e));
  Prepare<T>(q, k, v, g, workspace);
  const Matrix<T> state = workspace->state.get();
  T* sums = workspace->row.Resize(1, e + 1).data;
  for (size_t t = 0; t < n; ++t) {
    Write(workspace->decay.get().data[t], workspace->k.get().row(t), v.row(t), state);
    Read<T>(state, workspace->q.get().row(t), sums);
    for (size_t j = 0; j < e; ++j) o.row(t)[j] = sums[j] / sums[e];
  }
}

template <typename T>
void LinearAttentionBackward(In<T> q,
                             In<T> k,
                             In<T> v,
                             In<T> g,
                             In<T> o_bar,
                             LinearAttentionWorkspace<T>* workspace,
                             Matrix<T> q_bar,
                             Matrix<T> k_bar,
                             Matrix<T> v_bar,
                             Matrix<T> g_bar) {
  const size_t n = q.rows;
  const size_t d = q.columns;
  const size_t e = v.columns;
  LETHE_CHECK(o_bar.Is(n, e) && q_bar.Is(n, d) && k_bar.Is(n, d) && v_bar.Is(n, e));
  LETHE_CHECK(g.data == nullptr || g_bar.Is(n, 1));
  Prepare<T>(q, k, v, g, workspace);
  const Matrix<T> state = workspace->state.get();
  const Matrix<T> feature_q = workspace->q.get();
  const Matrix<T> feature_k = workspace->k.get();
  const T* decay = workspace->decay.get().data;
  const Matrix<T> sums_bar = workspace->ratio_bar.Resize(n, e + 1);
  const Matrix<T> feature_q_bar = workspace->q_unit_bar.Resize(n, d);
  T* scratch = workspace->row.Resize(1, std::max(d, e + 1)).data;

  for (size_t t = 0; t < n; ++t) {
    Write(decay[t], feature_k.row(t), v.row(t), state);
    Read<T>(state, feature_q.row(t), scratch);
    // o = sums / last, so sums' gradient is (o_bar, -o'o_bar) / last.
    const T inverse = T(1) / scratch[e];
    T along = 0;
    for (size_t j = 0; j < e; ++j) {
      along += scratch[j] * inverse * o_bar.row(t)[j];
      sums_bar.row(t)[j] = o_bar.row(t)[j] * inverse;
    }
    sums_bar.row(t)[e] = -along * inverse;
    for (size_t i = 0; i < d; ++i) {
      feature_q_bar.row(t)[i] = Dot(state.row(i), sums_bar.row(t), e + 1);
    }
    FeaturesBackward(q.row(t), feature_q.row(t), feature_q_bar.row(t), d, q_bar.row(t));
  }

  std::fill_n(state.data, d * (e + 1), T(0));  // from here on the gradient of the state
  T decays_bar = 0;
  for (size_t t = n; t-- > 0;) {
    T* value_bar = v_bar.row(t);
    std::fill_n(value_bar, e, T(0));
    for (size_t i = 0; i < d; ++i) {
      T* row = state.row(i);
      AddScaled(feature_q.row(t)[i], sums_bar.row(t), e + 1, row);
      scratch[i] = Dot(row, v.row(t), e) + row[e];
      AddScaled(feature_k.row(t)[i], row, e, value_bar);
      for (size_t j = 0; j <= e; ++j) row[j] *= decay[t];
    }
    FeaturesBackward(k.row(t), feature_k.row(t), scratch, d, k_bar.row(t));
    if (g.data == nullptr) continue;
    decays_bar +=
        Dot(feature_q.row(t), feature_q_bar.row(t), d) - Dot(feature_k.row(t), scratch, d);
    g_bar.row(t)[0] = decays_bar;
  }
}

#define LETHE_INSTANTIATE(T)                                                                     \
  template void LinearAttentionForward(In<T>, In<T>, In<T>, In<T>, LinearAttentionWorkspace<T>*, \
                                       Matrix<T>);                                               \
  template void LinearAttentionBackward(In<T>, In<T>, In<T>, In<T>, In<T>,                       \
                                        LinearAttentionWorkspace<T>*, Matrix<T>, Matrix<T>,      \
                                        Matrix<T>, Matrix<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
