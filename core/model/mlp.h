// The position-wise part of a layer:
//
//     kGelu    y = gelu(x U) D,                 U d x h, D h x d
//     kSwiglu  y = (silu(x U1) . (x U2)) D,     U = [U1 U2] d x 2h
//
// gelu(a) = a s(2 c (a + 0.044715 a^3)), c = sqrt(2 / pi), and silu(a) = a s(a), with s the
// logistic function (Hendrycks and Gimpel 2016, in the form by tanh; Shazeer 2020).
//
// The workspace holds what Backward needs of the last Forward. Gradients of U and D are added,
// x_bar is set. Cost 4 rows d h operations forward (6 for kSwiglu), twice that backward.
#ifndef LETHE_CORE_MODEL_MLP_H_
#define LETHE_CORE_MODEL_MLP_H_

#include <cstdint>

#include "core/model/matmul.h"
#include "core/model/matrix.h"

namespace lethe::model {

enum class MlpKind : uint8_t { kGelu = 1, kSwiglu = 2 };

template <typename T>
struct MlpWorkspace {
  Buffer<T> inner;   // x U
  Buffer<T> active;  // what D reads
};
// Of no meaning between calls: one serves all layers.
template <typename T>
struct MlpScratch {
  Buffer<T> inner_bar;
  Buffer<T> active_bar;
};

template <typename T>
void MlpForward(Team* team,
                MlpKind kind,
                In<T> x,
                In<T> up,
                In<T> down,
                MlpWorkspace<T>* workspace,
                Matrix<T> y);

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
                 Matrix<T> down_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_MLP_H_
