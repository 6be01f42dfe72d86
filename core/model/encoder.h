// Learned projections in front of a memory.
//
//     key:    x = raw W_k      query:  q = raw W_q      value:  u = raw W_v, or raw as it is
//
// with keys and queries brought to length 1 afterwards where asked. Beside the matrices an encoder
// has the kernel's parameter e^w, the gate's scale e^s (svdd_gate.h) and the sharpness e^t of the
// loss it was trained with (recall.h).
//
// Before training the matrices are the identity where the dimensions are equal, and otherwise
// random with W_q = W_k: what is measured then is the raw keys, or a random projection of them.
#ifndef LETHE_CORE_MODEL_ENCODER_H_
#define LETHE_CORE_MODEL_ENCODER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/batched/problem.h"
#include "core/model/parameters.h"

namespace lethe::model {

struct EncoderOptions {
  size_t key_dimension = 0;  // of raw keys and queries
  size_t value_dimension = 0;
  size_t projected_key = 0;    // 0: key_dimension
  size_t projected_value = 0;  // 0: values stay as they are
  bool unit_length = false;
  batched::KernelKind kernel = batched::KernelKind::kRbf;  // one that the exact memory has
  double box = 0.25;
  double ridge = 1e-3;
  double width = 0.0;      // e^w before training; 0: 1 / projected_key
  double scale = 1.0;      // e^s
  double sharpness = 1.0;  // e^t

  size_t key_out() const { return projected_key == 0 ? key_dimension : projected_key; }
  size_t value_out() const { return projected_value == 0 ? value_dimension : projected_value; }
  friend bool operator==(const EncoderOptions&, const EncoderOptions&) = default;
};
// INVALID_ARGUMENT names the field: "encoder.box: ...".
absl::Status Validate(const EncoderOptions& options);

class Encoder {
 public:
  static absl::StatusOr<Encoder> Create(const EncoderOptions& options);

  const EncoderOptions& options() const { return options_; }
  const ParameterTable& table() const { return table_; }
  template <typename T>
  void Initialise(uint64_t seed, std::span<T> values) const;

  // Of arrays of the table's size.
  template <typename T>
  Matrix<T> KeyMatrix(std::span<T> array) const {
    return table_[key_].View(array);
  }
  template <typename T>
  Matrix<T> QueryMatrix(std::span<T> array) const {
    return table_[query_].View(array);
  }
  // Requires projected_value > 0.
  template <typename T>
  Matrix<T> ValueMatrix(std::span<T> array) const {
    LETHE_CHECK(options_.projected_value > 0);
    return table_[value_].View(array);
  }
  template <typename T>
  T& LogWidth(std::span<T> array) const {
    return array[table_[width_].first];
  }
  template <typename T>
  T& LogScale(std::span<T> array) const {
    return array[table_[scale_].first];
  }
  template <typename T>
  T& LogSharpness(std::span<T> array) const {
    return array[table_[sharpness_].first];
  }

  // One raw row, as a memory that the encoder is attached to takes it. The same bits whatever else
  // is encoded and on every machine: sums in order, no fused products, but for the square root and
  // division of unit_length, which are exact to the bit as well. Requires sizes that fit.
  template <typename T>
  void EncodeKey(std::span<const T> values, std::span<const T> raw, std::span<T> out) const;
  template <typename T>
  void EncodeQuery(std::span<const T> values, std::span<const T> raw, std::span<T> out) const;
  template <typename T>
  void EncodeValue(std::span<const T> values, std::span<const T> raw, std::span<T> out) const;

 private:
  explicit Encoder(const EncoderOptions& options);

  EncoderOptions options_;
  ParameterTable table_;
  size_t key_ = 0, query_ = 0, value_ = 0, width_ = 0, scale_ = 0, sharpness_ = 0;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_ENCODER_H_
