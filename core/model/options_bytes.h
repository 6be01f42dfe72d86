// Options of models and optimisers to bytes and back, for checkpoints and artefacts. Reading says
// nothing of their meaning: Validate does.
#ifndef LETHE_CORE_MODEL_OPTIONS_BYTES_H_
#define LETHE_CORE_MODEL_OPTIONS_BYTES_H_

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/model/encoder.h"
#include "core/model/language_model.h"
#include "core/model/optimizer.h"
#include "core/model/state_bytes.h"

namespace lethe::model {

// Each visits its fields in one order for both directions: `field` is called with every field.
template <typename Field>
void VisitFields(batched::KernelForm& form, const Field& field) {
  field(form.kind);
  field(form.normalise);
}
template <typename Field>
void VisitFields(SvddGateOptions& options, const Field& field) {
  VisitFields(options.kernel, field);
  field(options.box);
  field(options.ridge);
  field(options.width);
  field(options.scale);
}
template <typename Field>
void VisitFields(MixerOptions& options, const Field& field) {
  field(options.kind);
  field(options.width);
  field(options.heads);
  field(options.window);
  field(options.chunk);
  VisitFields(options.gate, field);
}
template <typename Field>
void VisitFields(LanguageModelOptions& options, const Field& field) {
  field(options.layers);
  field(options.block);
  field(options.vocabulary);
  VisitFields(options.mixer, field);
  field(options.mlp);
  field(options.mlp_width);
  field(options.norm);
  field(options.deviation);
}
template <typename Field>
void VisitFields(EncoderOptions& options, const Field& field) {
  field(options.key_dimension);
  field(options.value_dimension);
  field(options.projected_key);
  field(options.projected_value);
  field(options.unit_length);
  field(options.kernel);
  field(options.box);
  field(options.ridge);
  field(options.width);
  field(options.scale);
  field(options.sharpness);
}
template <typename Field>
void VisitFields(OptimizerOptions& options, const Field& field) {
  field(options.peak_rate);
  field(options.last_rate);
  field(options.warm_up);
  field(options.steps);
  field(options.beta1);
  field(options.beta2);
  field(options.decay);
  field(options.epsilon);
  field(options.clip);
}

// How the file begins: a line for kind and version, and the size of its numbers.
template <typename T>
void WriteHead(std::string_view line, ByteWriter* writer) {
  writer->WriteRaw(line);
  writer->Write<uint8_t>(sizeof(T));
}
inline absl::Status Damaged(absl::string_view what, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(what, ": ", why));
}
inline absl::Status OtherPrecision(absl::string_view what) {
  return Damaged(what, "holds the other precision");
}
template <typename T>
absl::Status ReadHead(absl::string_view what, std::string_view line, ByteReader* reader) {
  if (!reader->ReadRaw(line)) return Damaged(what, "not of this kind or version");
  if (reader->Read<uint8_t>() != sizeof(T)) return OtherPrecision(what);
  return absl::OkStatus();
}

template <typename Options>
void WriteOptions(Options options, ByteWriter* writer) {
  VisitFields(options, [writer](const auto& value) { writer->Write(value); });
}
template <typename Options>
Options ReadOptions(ByteReader* reader) {
  Options options;
  VisitFields(options, [reader](auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, bool>) {
      value = reader->Read<uint8_t>() != 0;  // any other byte in a bool is undefined
    } else {
      value = reader->Read<Value>();
    }
  });
  return options;
}

// Whether every number of an array of a checkpoint can be one.
template <typename T>
bool AllFinite(const std::vector<T>& numbers) {
  return std::ranges::all_of(numbers, [](T number) { return std::isfinite(number); });
}

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_OPTIONS_BYTES_H_
