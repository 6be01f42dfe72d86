// Options of models and optimisers to bytes and back, for checkpoints and artefacts. Reading says
// nothing of their meaning: Validate does.
#ifndef LETHE_CORE_MODEL_OPTIONS_BYTES_H_
#define LETHE_CORE_MODEL_OPTIONS_BYTES_H_

#include <algorithm>
#include <cmath>

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
