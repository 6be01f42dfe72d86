// Normalisation of rows of width d, with a gain g and, for LayerNorm, a bias b:
//
//     kRms    y = g . x r,              r = (x'x / d + eps)^(-1/2)
//     kLayer  y = g . (x - m) r + b,    m = 1'x / d,  r = (|x - m|^2 / d + eps)^(-1/2)
//
// and lengths of one:  y = x (x'x + eps)^(-1/2).
//
// Shapes: x and y rows x d, gain d, bias d or empty. Gradients of gain and bias are added, x_bar is
// set or added as asked. Backward computes m and r again from x: two passes over a row cost less
// than keeping them. Cost O(rows d). Deterministic: rows are independent, gain and bias sum over
// rows in order.
#ifndef LETHE_CORE_MODEL_NORM_H_
#define LETHE_CORE_MODEL_NORM_H_

#include <cstdint>

#include "core/model/matmul.h"
#include "core/model/matrix.h"

namespace lethe::model {

enum class NormKind : uint8_t { kRms = 1, kLayer = 2 };

template <typename T>
void NormForward(Team* team,
                 NormKind kind,
                 In<T> x,
                 InVector<T> gain,
                 InVector<T> bias,
                 Matrix<T> y);

template <typename T>
void NormBackward(Team* team,
                  NormKind kind,
                  In<T> x,
                  InVector<T> gain,
                  In<T> y_bar,
                  Matrix<T> x_bar,
                  Store store,
                  std::span<T> gain_bar,
                  std::span<T> bias_bar);

// Returns (x'x + eps)^(-1/2); x and y may be the same.
template <typename T>
T UnitLengthForward(const T* x, size_t size, T* y);
// x_bar += the gradient, from y and what Forward returned.
template <typename T>
void UnitLengthBackward(const T* y, T inverse_length, const T* y_bar, size_t size, T* x_bar);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_NORM_H_
