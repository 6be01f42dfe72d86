// What an encoder is trained for: that reading a memory with a query gives the value that belongs
// to it.
//
//     p_ji = m_i kappa(q_j, x_i) / sum_l m_l kappa(q_j, x_l),   o_j = sum_i p_ji u_i
//     r_ji = softmax over i of -t |o_j - u_i|^2,   L = -sum_j ln sum_{i: u_i belongs to j} r_ji
//
// m_i = e^s a_i for the tokens of the memory, with a the weights of its problem, and 1 for those of
// the local chunk behind them; o is the readout of the exact memory (with a local chunk: of the
// hybrid layer) in the projected space. Tokens with weight 0 are not read, but can be what a query
// asks for: then what it reads must be nearest to their value.
//
// A query counts where there is something to read and a token that it may ask for; it is recalled
// when the largest r_ji is that of such a token.
//
// Shapes: queries Q x d, keys n x d, values n x e, weights of the first of the keys, groups n,
// targets Q: token i belongs to query j when groups[i] == targets[j]. Gradients are set. Cost Q n
// (d + e). Deterministic. Threads: one call is one thread's.
#ifndef LETHE_CORE_MODEL_RECALL_H_
#define LETHE_CORE_MODEL_RECALL_H_

#include <cstdint>
#include <vector>

#include "core/batched/problem.h"
#include "core/model/matrix.h"

namespace lethe::model {

template <typename T>
struct RecallInput {
  batched::KernelKind kernel = batched::KernelKind::kRbf;  // kDot has no readout
  Matrix<const T> queries, keys, values;
  std::span<const T> weights;
  std::span<const uint32_t> groups, targets;
  T parameter = 1;  // of kappa
  T scale = 1;      // e^s
  T sharpness = 1;  // t
};

struct RecallReport {
  double loss = 0.0;  // sum, nats
  size_t counted = 0;
  size_t recalled = 0;
};

// Of factor L. By the logarithms of parameter, scale and sharpness, as they are learned.
template <typename T>
struct RecallGradient {
  Matrix<T> queries, keys, values;
  std::span<T> weights;
  T log_parameter = 0, log_scale = 0, log_sharpness = 0;
};

template <typename T>
struct RecallScratch {
  std::vector<T> logits, read, out, away, ranked, in_group, read_bar, out_bar;

  // After it Recall of up to n keys and values of up to e entries asks for no more.
  void Reserve(size_t n, size_t e) {
    for (std::vector<T>* part : {&logits, &read, &away, &ranked, &in_group, &read_bar}) {
      part->reserve(n);
    }
    out.reserve(e);
    out_bar.reserve(e);
  }
};

// `gradient` may be null.
template <typename T>
RecallReport Recall(const RecallInput<T>& input,
                    std::type_identity_t<T> factor,
                    RecallScratch<T>* scratch,
                    RecallGradient<T>* gradient);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_RECALL_H_
