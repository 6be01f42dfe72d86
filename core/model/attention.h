// Causal softmax attention of one head over one sequence of length n:
//
//     o_i = sum_j p_ij v_j,   p_ij = m_ij exp(q_i'k_j / sqrt d) / sum_l m_il exp(q_i'k_l / sqrt d)
//
// with m_ij = 0 for j > i, and otherwise
//
//     full     m_ij = 1
//     window   m_ij = 1 for i - j < window, else 0
//     gated    m_ij = gates(c, j) where j lies before the chunk c = floor(i / chunk) of i, else 1
//
// Gates are the weights of the tokens of the prefix, frozen for a chunk (svdd_gate.h): the local
// chunk is ungated, the first chunk is plain causal attention. The sum in the denominator makes
// rows sum to 1 again. A gate of 0 takes its token out: its score is not looked at.
//
// Shapes: q, k n x d, v and o n x e, log_sums n (written by Forward, read by Backward), gates
// ceil(n / chunk) x n with entries >= 0; row c is read before column c chunk. o must be Forward's.
// Gradients are set, not added; gates_bar is set where the gates were read, and there is 0 for
// gates of 0.
//
// Probabilities are computed again by Backward, a tile of rows at a time: memory O(64 n), not n^2.
// Cost 2 n^2 (d + e) / 2 operations and n^2 / 2 exp forward, about three times that backward; a
// window costs its part.
//
// Threads: one call is one thread's; each thread has a workspace of its own.
#ifndef LETHE_CORE_MODEL_ATTENTION_H_
#define LETHE_CORE_MODEL_ATTENTION_H_

#include "core/model/matrix.h"

namespace lethe::model {

struct AttentionMask {
  size_t window = 0;  // 0: all before
  size_t chunk = 0;   // 0: no gates
};

inline constexpr size_t kAttentionTileRows = 64;  // of queries at a time

template <typename T>
struct AttentionWorkspace {
  Buffer<T> scores;
  Buffer<T> scores_bar;

  // After it the pass asks for no more for sequences of up to n, here and in the other kinds.
  void Reserve(size_t n, Pass pass) {
    scores.Resize(kAttentionTileRows, n);
    if (pass == Pass::kBackward) scores_bar.Resize(kAttentionTileRows, n);
  }
};

template <typename T>
void AttentionForward(const AttentionMask& mask,
                      In<T> q,
                      In<T> k,
                      In<T> v,
                      In<T> gates,
                      AttentionWorkspace<T>* workspace,
                      Matrix<T> o,
                      std::span<T> log_sums);

template <typename T>
void AttentionBackward(const AttentionMask& mask,
                       In<T> q,
                       In<T> k,
                       In<T> v,
                       In<T> gates,
                       In<T> o,
                       InVector<T> log_sums,
                       In<T> o_bar,
                       AttentionWorkspace<T>* workspace,
                       Matrix<T> q_bar,
                       Matrix<T> k_bar,
                       Matrix<T> v_bar,
                       Matrix<T> gates_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_ATTENTION_H_
