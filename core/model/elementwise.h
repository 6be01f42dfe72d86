// Functions of many numbers at once, and sums of them, the same bits in every run.
//
// Eigen's own loops over arrays treat the first few entries apart until the address is even, by
// another exp; so everything here goes through blocks of a fixed size in aligned memory.
#ifndef LETHE_CORE_MODEL_ELEMENTWISE_H_
#define LETHE_CORE_MODEL_ELEMENTWISE_H_

#include <cstddef>

namespace lethe::model {

// x_i = exp(x_i). Cost about 1 ns an entry in float.
template <typename T>
void Exp(T* x, size_t size);
// x_i = 1 / (1 + exp(-x_i))
template <typename T>
void Sigmoid(T* x, size_t size);

// sum_i x_i y_i, in an order that depends on `size` alone.
template <typename T>
inline T Dot(const T* x, const T* y, size_t size) {
  constexpr size_t kLanes = 8;
  T sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  T sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  for (; i < size; ++i) sum += x[i] * y[i];
  return sum;
}
// y += a x
template <typename T>
inline void AddScaled(T a, const T* x, size_t size, T* y) {
  for (size_t i = 0; i < size; ++i) y[i] += a * x[i];
}

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_ELEMENTWISE_H_
