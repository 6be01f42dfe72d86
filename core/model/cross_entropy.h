// Cross entropy of rows of logits:  L_i = ln sum_j exp(z_ij) - z_i,t(i), in nats.
//
// Shapes: logits rows x classes, targets rows. A row whose target is kNoTarget counts for nothing.
// Forward replaces the logits by probabilities and writes L_i (0 for kNoTarget); Backward replaces
// the probabilities by dL/dz for L = scale sum_i L_i. Cost: an exp an entry. Rows are independent;
// whoever sums L_i does so in order.
#ifndef LETHE_CORE_MODEL_CROSS_ENTROPY_H_
#define LETHE_CORE_MODEL_CROSS_ENTROPY_H_

#include <cstdint>
#include <span>

#include "core/base/team.h"
#include "core/model/matrix.h"

namespace lethe::model {

inline constexpr uint32_t kNoTarget = UINT32_MAX;

template <typename T>
void CrossEntropyForward(Team* team,
                         std::span<const uint32_t> targets,
                         Matrix<T> logits,
                         std::span<T> losses);

template <typename T>
void CrossEntropyBackward(Team* team,
                          std::span<const uint32_t> targets,
                          std::type_identity_t<T> scale,
                          Matrix<T> probabilities);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_CROSS_ENTROPY_H_
