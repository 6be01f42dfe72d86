// Linear map of rows:  y = x W + 1 b'.
//
// Shapes: x rows x in, W in x out, b out or empty (no bias), y rows x out. Parameters' gradients
// are added to what is there, since parameters may be used more than once; dx is set or added as
// asked, and left out where its data is null. Cost 2 rows in out operations forward, twice that
// backward. Deterministic and threads: see matmul.h.
#ifndef LETHE_CORE_MODEL_LINEAR_H_
#define LETHE_CORE_MODEL_LINEAR_H_

#include "core/model/matmul.h"
#include "core/model/matrix.h"

namespace lethe::model {

template <typename T>
void LinearForward(Team* team, In<T> x, In<T> weights, InVector<T> bias, Matrix<T> y);

template <typename T>
void LinearBackward(Team* team,
                    In<T> x,
                    In<T> weights,
                    In<T> y_bar,
                    Matrix<T> x_bar,
                    Store store,
                    Matrix<T> weights_bar,
                    std::span<T> bias_bar);

// sums_j += sum_i m_ij
template <typename T>
void AddColumnSums(Team* team, In<T> m, std::span<T> sums);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_LINEAR_H_
