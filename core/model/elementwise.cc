#include "core/model/elementwise.h"

#include <Eigen/Core>
#include <algorithm>

namespace lethe::model {
namespace {

constexpr int kBlock = 64;

template <typename T, typename Function>
void InBlocks(T* x, size_t size, const Function& function) {
  Eigen::Array<T, kBlock, 1> block;
  for (size_t first = 0; first < size; first += kBlock) {
    const size_t count = std::min<size_t>(kBlock, size - first);
    if (count < kBlock) block.setZero();
    std::copy_n(x + first, count, block.data());
    function(block);
    std::copy_n(block.data(), count, x + first);
  }
}

}  // namespace

template <typename T>
void Exp(T* x, size_t size) {
  InBlocks(x, size, [](auto& block) { block = block.exp(); });
}
template <typename T>
void Sigmoid(T* x, size_t size) {
  InBlocks(x, size, [](auto& block) { block = T(1) / (T(1) + (-block).exp()); });
}
#define LETHE_INSTANTIATE(T)     \
  template void Exp(T*, size_t); \
  template void Sigmoid(T*, size_t);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
