#include "core/model/encoder.h"

#include <algorithm>
#include <cmath>

#include "core/base/status_macros.h"
#include "core/model/elementwise.h"
#include "core/model/limits.h"
#include "core/model/norm.h"

namespace lethe::model {
namespace {

template <typename T>
void Identity(Matrix<T> m) {
  for (size_t i = 0; i < m.rows; ++i) m.row(i)[i] = T(1);
}

template <typename T>
void Project(In<T> matrix, InVector<T> raw, std::span<T> out) {
  LETHE_CHECK(raw.size() == matrix.rows && out.size() == matrix.columns);
  std::ranges::fill(out, T(0));
  for (size_t i = 0; i < matrix.rows; ++i) {
    AddScaled(raw[i], matrix.row(i), matrix.columns, out.data());
  }
}

}  // namespace

absl::Status Validate(const EncoderOptions& options) {
  constexpr size_t kMost = 4096;
  absl::Status status = InRange("encoder.key_dimension", options.key_dimension, 1, kMost);
  status.Update(InRange("encoder.value_dimension", options.value_dimension, 1, kMost));
  status.Update(InRange("encoder.projected_key", options.projected_key, 0, kMost));
  status.Update(InRange("encoder.projected_value", options.projected_value, 0, kMost));
  status.Update(InRange("encoder.kernel", static_cast<size_t>(options.kernel), 1, 3));
  status.Update(InRange("encoder.box", options.box, 1e-6, 1.0));
  status.Update(InRange("encoder.ridge", options.ridge, 1e-7, 1e3));
  status.Update(InRange("encoder.width", options.width, 0.0, 1e6));
  status.Update(InRange("encoder.scale", options.scale, 1e-6, 1e6));
  status.Update(InRange("encoder.sharpness", options.sharpness, 1e-6, 1e6));
  return status;
}

Encoder::Encoder(const EncoderOptions& options) : options_(options) {
  query_ = table_.Add("query", options.key_dimension, options.key_out(), Decays::kNo);
  key_ = table_.Add("key", options.key_dimension, options.key_out(), Decays::kNo);
  if (options.projected_value > 0) {
    value_ = table_.Add("value", options.value_dimension, options.projected_value, Decays::kNo);
  }
  width_ = table_.Add("width", 1, 1, Decays::kNo);
  scale_ = table_.Add("scale", 1, 1, Decays::kNo);
  sharpness_ = table_.Add("sharpness", 1, 1, Decays::kNo);
}

absl::StatusOr<Encoder> Encoder::Create(const EncoderOptions& options) {
  LETHE_RETURN_IF_ERROR(Validate(options));
  return Encoder(options);
}

template <typename T>
void Encoder::Initialise(uint64_t seed, std::span<T> values) const {
  LETHE_CHECK(values.size() == table_.size());
  std::ranges::fill(values, T(0));
  const auto start = [&](size_t number, size_t stream) {
    const Parameter& part = table_[number];
    if (part.rows == part.columns) {
      Identity(part.View(values));
    } else {
      // Keeps lengths in the mean.
      const double deviation = 1.0 / std::sqrt(static_cast<double>(part.columns));
      FillNormal(seed, stream, deviation, part.Part(values));
    }
  };
  start(query_, key_);
  start(key_, key_);
  if (options_.projected_value > 0) start(value_, value_);
  const double width =
      options_.width > 0 ? options_.width : 1.0 / static_cast<double>(options_.key_out());
  LogWidth(values) = static_cast<T>(std::log(width));
  LogScale(values) = static_cast<T>(std::log(options_.scale));
  LogSharpness(values) = static_cast<T>(std::log(options_.sharpness));
}

template <typename T>
void Encoder::EncodeKey(std::span<const T> values, std::span<const T> raw, std::span<T> out) const {
  Project<T>(KeyMatrix(values), raw, out);
  if (options_.unit_length) UnitLengthForward(out.data(), out.size(), out.data());
}
template <typename T>
void Encoder::EncodeQuery(std::span<const T> values,
                          std::span<const T> raw,
                          std::span<T> out) const {
  Project<T>(QueryMatrix(values), raw, out);
  if (options_.unit_length) UnitLengthForward(out.data(), out.size(), out.data());
}
template <typename T>
void Encoder::EncodeValue(std::span<const T> values,
                          std::span<const T> raw,
                          std::span<T> out) const {
  if (options_.projected_value == 0) {
    LETHE_CHECK(raw.size() == out.size());
    std::ranges::copy(raw, out.begin());
  } else {
    Project<T>(ValueMatrix(values), raw, out);
  }
}

#define LETHE_INSTANTIATE(T)                                                                      \
  template void Encoder::Initialise(uint64_t, std::span<T>) const;                                \
  template void Encoder::EncodeKey(std::span<const T>, std::span<const T>, std::span<T>) const;   \
  template void Encoder::EncodeQuery(std::span<const T>, std::span<const T>, std::span<T>) const; \
  template void Encoder::EncodeValue(std::span<const T>, std::span<const T>, std::span<T>) const;
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
