// What a model learns: one array, with names for its parts.
//
// A ParameterTable says where each part lies; values, gradients and the optimiser's moments are
// arrays of its size, so that each is copied, written and compared as one.
#ifndef LETHE_CORE_MODEL_PARAMETERS_H_
#define LETHE_CORE_MODEL_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model/matrix.h"

namespace lethe::model {

// Whether the optimiser pulls a part towards 0: matrices yes; gains, biases and widths no.
enum class Decays { kYes, kNo };

struct Parameter {
  std::string name;  // "layer.2.mlp.up"
  size_t first = 0;
  size_t rows = 0;
  size_t columns = 0;
  Decays decays = Decays::kYes;

  size_t size() const { return rows * columns; }
  template <typename T>
  Matrix<T> View(std::span<T> array) const {
    return Matrix<T>(array.subspan(first, size()), rows, columns);
  }
  template <typename T>
  std::span<T> Part(std::span<T> array) const {
    return array.subspan(first, size());
  }
};

class ParameterTable {
 public:
  // Returns the number of the part.
  size_t Add(std::string name, size_t rows, size_t columns, Decays decays);

  size_t size() const { return size_; }  // of the whole array
  const std::vector<Parameter>& parts() const { return parts_; }
  const Parameter& operator[](size_t number) const { return parts_[number]; }

 private:
  std::vector<Parameter> parts_;
  size_t size_ = 0;
};

// Normal deviates of mean 0, from stream `stream` of `seed` (random.h), by place in the array.
template <typename T>
void FillNormal(uint64_t seed, uint64_t stream, double deviation, std::span<T> part);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_PARAMETERS_H_
