// Linear attention, with or without decay, one head over one sequence (Katharopoulos et al. 2020,
// Yang et al. 2024):
//
//     S_t = e^g_t S_{t-1} + f(k_t) v_t',   z_t = e^g_t z_{t-1} + f(k_t)
//     o_t = S_t'f(q_t) / z_t'f(q_t),       f(x) = elu(x) + 1 (at least 1e-12)
//
// Shapes: q, k n x d, v and o n x e, g n x 1 or empty (no decay), g <= 0. State S d x e and z d, 0
// at first. Gradients are set, not added.
//
// Backward needs no state but the one at hand: f(q)'s gradient follows a sweep forward, f(k)'s and
// v's one backward, and that of the decays from both, dL/dg_t = sum_{s >= t} (f(q_s)'f(q_s)bar -
// f(k_s)'f(k_s)bar). Cost 4 n d (e + 1) operations forward, about 12 backward.
// Threads: one call is one thread's; each thread has a workspace of its own.
#ifndef LETHE_CORE_MODEL_LINEAR_ATTENTION_H_
#define LETHE_CORE_MODEL_LINEAR_ATTENTION_H_

#include "core/model/matrix.h"

namespace lethe::model {

template <typename T>
struct LinearAttentionWorkspace {
  Buffer<T> q, k;   // f of them
  Buffer<T> decay;  // e^g
  Buffer<T> state;  // S with z as its last column
  Buffer<T> row;
  Buffer<T> ratio_bar, q_unit_bar;

  void Reserve(size_t n, size_t d, size_t e, Pass pass) {
    q.Resize(n, d);
    k.Resize(n, d);
    decay.Resize(1, n);
    state.Resize(d, e + 1);
    row.Resize(1, d > e + 1 ? d : e + 1);
    if (pass == Pass::kForward) return;
    ratio_bar.Resize(n, e + 1);
    q_unit_bar.Resize(n, d);
  }
};

template <typename T>
void LinearAttentionForward(In<T> q,
                            In<T> k,
                            In<T> v,
                            In<T> g,
                            LinearAttentionWorkspace<T>* workspace,
                            Matrix<T> o);

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
                             Matrix<T> g_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_LINEAR_ATTENTION_H_
