// The delta rule with a matrix as memory, one head over one sequence (Schlag et al. 2021, Yang et
// al. 2024):
//
//     q, k of length one,  b = logistic(beta)
//     u_t = v_t - S_{t-1}'k_t,   S_t = S_{t-1} + b_t k_t u_t',   o_t = S_t'q_t
//
// Shapes: q, k n x d, v and o n x e, beta n x 1 (before the logistic function). State S d x e, 0 at
// first. Gradients are set, not added.
//
// Backward computes the states again from one kept every 32 steps. Cost 6 n d e operations forward,
// about 18 backward; memory of a workspace (n / 32 + 33) d e + 2 n (d + e).
// Threads: one call is one thread's; each thread has a workspace of its own.
#ifndef LETHE_CORE_MODEL_DELTA_NET_H_
#define LETHE_CORE_MODEL_DELTA_NET_H_

#include "core/model/matrix.h"

namespace lethe::model {

inline constexpr size_t kDeltaNetSegment = 32;  // steps between two states that are kept

template <typename T>
struct DeltaNetWorkspace {
  Buffer<T> q, k, rows;  // of length one; beta and inverse lengths
  Buffer<T> u;           // what is written
  Buffer<T> kept;        // a state a segment
  Buffer<T> states;      // of the segment at hand
  Buffer<T> state_bar, row_bar;

  void Reserve(size_t n, size_t d, size_t e, Pass pass) {
    q.Resize(n, d);
    k.Resize(n, d);
    rows.Resize(n, 3);
    if (pass == Pass::kForward) {
      u.Resize(1, e);
      states.Resize(d, e);
      return;
    }
    u.Resize(n, e);
    kept.Resize((n + kDeltaNetSegment - 1) / kDeltaNetSegment * d, e);
    states.Resize((kDeltaNetSegment + 1) * d, e);
    state_bar.Resize(d, e);
    row_bar.Resize(2, d > e ? d : e);
  }
};

template <typename T>
void DeltaNetForward(In<T> q,
                     In<T> k,
                     In<T> v,
                     In<T> beta,
                     DeltaNetWorkspace<T>* workspace,
                     Matrix<T> o);

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
                      Matrix<T> beta_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_DELTA_NET_H_
