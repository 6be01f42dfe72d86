#include "core/model/delta_net.h"

#include <algorithm>

#include "core/model/elementwise.h"
#include "core/model/norm.h"

namespace lethe::model {
namespace {

// Columns of workspace.rows.
enum : size_t { kRate = 0, kInverseQ = 1, kInverseK = 2, kRowColumns = 3 };

template <typename T>
void Prepare(In<T> q, In<T> k, In<T> beta, DeltaNetWorkspace<T>* workspace) {
  const size_t n = q.rows;
  const Matrix<T> unit_q = workspace->q.Resize(n, q.columns);
  const Matrix<T> unit_k = workspace->k.Resize(n, q.columns);
  const Matrix<T> rows = workspace->rows.Resize(n, kRowColumns);
  for (size_t t = 0; t < n; ++t) {
    T* row = rows.row(t);
    row[kRate] = beta.row(t)[0];
    Sigmoid(row, 1);
    row[kInverseQ] = UnitLengthForward(q.row(t), q.columns, unit_q.row(t));
    row[kInverseK] = UnitLengthForward(k.row(t), q.columns, unit_k.row(t));
  }
}

// u = v - S'k;  S += b k u'
template <typename T>
void Write(const T* k, const T* v, T rate, Matrix<T> state, T* u) {
  std::copy_n(v, state.columns, u);
  for (size_t i = 0; i < state.rows; ++i) AddScaled(-k[i], state.row(i), state.columns, u);
  for (size_t i = 0; i < state.rows; ++i) AddScaled(rate * k[i], u, state.columns, state.row(i));
}

// State number `slot` of a buffer of them.
template <typename T>
Matrix<T> StateOf(Matrix<T> states, size_t slot, size_t d) {
  return states.Rows(slot * d, d);
}
template <typename T>
void Copy(In<T> from, Matrix<T> to) {
  std::copy_n(from.data, from.rows * from.columns, to.data);
}

}  // namespace

template <typename T>
void DeltaNetForward(In<T> q,
                     In<T> k,
                     In<T> v,
                     In<T> beta,
                     DeltaNetWorkspace<T>* workspace,
                     Matrix<T> o) {
  const size_t n = q.rows;
  LETHE_CHECK(k.Is(n, q.columns) && v.rows == n && beta.Is(n, 1) && o.Is(n, v.columns));
  Prepare<T>(q, k, beta, workspace);
  const Matrix<T> unit_q = workspace->q.get();
  const Matrix<T> unit_k = workspace->k.get();
  const Matrix<T> state = workspace->states.Resize(q.columns, v.columns);
  const Matrix<T> u = workspace->u.Resize(1, v.columns);
  std::fill_n(state.data, state.rows * state.columns, T(0));
  for (size_t t = 0; t < n; ++t) {
    Write(unit_k.row(t), v.row(t), workspace->rows.get().row(t)[kRate], state, u.data);
    T* out = o.row(t);
    std::fill_n(out, o.columns, T(0));
    for (size_t i = 0; i < state.rows; ++i) {
      AddScaled(unit_q.row(t)[i], state.row(i), state.columns, out);
    }
  }
}

template <typename T>
void DeltaNetBackward(In<T> q,
                      In<T> k,
                      In<T> v,
                      In<T> beta,
                      In<T> o_bar,
                      DeltaNetWorkspace<T>* workspace,
                      Matrix<T> q_bar,
                      Matrix<T> k_bar,
                      Matrix<T> v_bar,
                      Matrix<T> beta_bar) {
  const size_t n = q.rows;
  const size_t d = q.columns;
  const size_t e = v.columns;
  LETHE_CHECK(k.Is(n, d) && v.rows == n && beta.Is(n, 1) && o_bar.Is(n, e));
  LETHE_CHECK(q_bar.Is(n, d) && k_bar.Is(n, d) && v_bar.Is(n, e) && beta_bar.Is(n, 1));
  Prepare<T>(q, k, beta, workspace);
  const Matrix<T> unit_q = workspace->q.get();
  const Matrix<T> unit_k = workspace->k.get();
  const Matrix<T> rows = workspace->rows.get();
  const Matrix<T> u = workspace->u.Resize(n, e);
  const size_t segments = (n + kDeltaNetSegment - 1) / kDeltaNetSegment;
  const Matrix<T> kept = workspace->kept.Resize(segments * d, e);
  const Matrix<T> states = workspace->states.Resize((kDeltaNetSegment + 1) * d, e);

  // All states once, to keep some.
  const Matrix<T> running = StateOf(states, 0, d);
  std::fill_n(running.data, d * e, T(0));
  for (size_t t = 0; t < n; ++t) {
    if (t % kDeltaNetSegment == 0) Copy<T>(running, StateOf(kept, t / kDeltaNetSegment, d));
    Write(unit_k.row(t), v.row(t), rows.row(t)[kRate], running, u.row(t));
  }

  const Matrix<T> state_bar = workspace->state_bar.Resize(d, e);
  const Matrix<T> scratch = workspace->row_bar.Resize(2, std::max(d, e));
  T* u_bar = scratch.row(0);
  T* unit_bar = scratch.row(1);
  std::fill_n(state_bar.data, d * e, T(0));
  for (size_t segment = segments; segment-- > 0;) {
    const size_t first = segment * kDeltaNetSegment;
    const size_t last = std::min(first + kDeltaNetSegment, n);
    Copy<T>(StateOf(kept, segment, d), StateOf(states, 0, d));
    for (size_t t = first; t < last; ++t) {
      const Matrix<T> after = StateOf(states, t - first + 1, d);
      Copy<T>(StateOf(states, t - first, d), after);
      Write(unit_k.row(t), v.row(t), rows.row(t)[kRate], after, u.row(t));
    }
    for (size_t t = last; t-- > first;) {
      const Matrix<T> before = StateOf(states, t - first, d);
      const Matrix<T> after = StateOf(states, t - first + 1, d);
      const T rate = rows.row(t)[kRate];
      const T* key = unit_k.row(t);
      const T* written = u.row(t);
      // o = S'q
      for (size_t i = 0; i < d; ++i) {
        unit_bar[i] = Dot(after.row(i), o_bar.row(t), e);
        AddScaled(unit_q.row(t)[i], o_bar.row(t), e, state_bar.row(i));
      }
      std::fill_n(q_bar.row(t), d, T(0));
      UnitLengthBackward(unit_q.row(t), rows.row(t)[kInverseQ], unit_bar, d, q_bar.row(t));
      // S = S_ + b k u'
      T rate_bar = 0;
      std::fill_n(u_bar, e, T(0));
      for (size_t i = 0; i < d; ++i) {
        const T product = Dot(state_bar.row(i), written, e);
        rate_bar += key[i] * product;
        unit_bar[i] = rate * product;
        AddScaled(rate * key[i], state_bar.row(i), e, u_bar);
      }
      beta_bar.row(t)[0] = rate_bar * rate * (T(1) - rate);
      // u = v - S_'k
      std::copy_n(u_bar, e, v_bar.row(t));
      for (size_t i = 0; i < d; ++i) {
        unit_bar[i] -= Dot(before.row(i), u_bar, e);
        AddScaled(-key[i], u_bar, e, state_bar.row(i));
      }
      std::fill_n(k_bar.row(t), d, T(0));
      UnitLengthBackward(key, rows.row(t)[kInverseK], unit_bar, d, k_bar.row(t));
    }
  }
}

#define LETHE_INSTANTIATE(T)                                                                   \
  template void DeltaNetForward(In<T>, In<T>, In<T>, In<T>, DeltaNetWorkspace<T>*, Matrix<T>); \
  template void DeltaNetBackward(In<T>, In<T>, In<T>, In<T>, In<T>, DeltaNetWorkspace<T>*,     \
                                 Matrix<T>, Matrix<T>, Matrix<T>, Matrix<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
