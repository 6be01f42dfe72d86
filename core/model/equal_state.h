// What a layer keeps of a sequence in order to go on with it, in bytes; so that kinds of attention
// are compared at equal state.
//
//     full          n tokens                      a token: its key and value, 2 width numbers
//     window        min(window, n) tokens
//     hybrid        the tokens with weight, mean over heads, each with its weight; the local chunk
//     delta-net     a matrix a head               width^2 / heads numbers
//     linear        a matrix and a vector a head  width^2 / heads + width numbers
#ifndef LETHE_CORE_MODEL_EQUAL_STATE_H_
#define LETHE_CORE_MODEL_EQUAL_STATE_H_

#include "core/model/mixer.h"

namespace lethe::model {

// For one layer after n tokens, with `kept` tokens with weight a head (mean; kHybrid alone reads
// it) and numbers of `number_bytes`.
double StateBytes(const MixerOptions& options, size_t n, double kept, size_t number_bytes);

// The least window whose state is at least `bytes`, so that the baseline never has less; at
// least 1.
size_t WindowOfBytes(const MixerOptions& options, double bytes, size_t number_bytes);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_EQUAL_STATE_H_
