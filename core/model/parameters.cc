#include "core/model/parameters.h"

#include <utility>

#include "core/model/random.h"

namespace lethe::model {

size_t ParameterTable::Add(std::string name, size_t rows, size_t columns, Decays decays) {
  parts_.push_back({std::move(name), size_, rows, columns, decays});
  size_ += rows * columns;
  return parts_.size() - 1;
}

template <typename T>
void FillNormal(uint64_t seed, uint64_t stream, double deviation, std::span<T> part) {
  const CounterRandom random(seed, stream);
  for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<T>(deviation * random.Normal(i));
}
template void FillNormal(uint64_t, uint64_t, double, std::span<float>);
template void FillNormal(uint64_t, uint64_t, double, std::span<double>);

}  // namespace lethe::model
