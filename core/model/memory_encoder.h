// An encoder in front of an exact memory: what it was trained to, applied to raw vectors on their
// way in.
//
//     key:  x = raw W_k      query:  q = raw W_q      value:  u = raw W_v, or raw as it is
//
// with keys and queries brought to length 1 afterwards where the encoder does that (encoder.h). All
// of it in double, also where the artefact's numbers are float: the bits depend on the artefact and
// the raw vector alone, on every machine.
#ifndef LETHE_CORE_MODEL_MEMORY_ENCODER_H_
#define LETHE_CORE_MODEL_MEMORY_ENCODER_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "core/model/encoder.h"

namespace lethe::model {

// Immutable. Threads: any.
class MemoryEncoder {
 public:
  // Of what EncoderTrainer::Artefact wrote, in either precision. INVALID_ARGUMENT "encoder: ...":
  // it is none. Cost O(bytes).
  static absl::StatusOr<std::shared_ptr<const MemoryEncoder>> Read(std::string_view artefact);

  const EncoderOptions& options() const { return encoder_.options(); }
  // That it was trained with; the parameter has the same bits on every machine. Perhaps out of the
  // limits of an exact memory: kernel::Validate says so.
  kernel::Kernel kernel() const;
  size_t numbers() const { return values_.size(); }

  // `raw` and `out` of the encoder's dimensions. Cost O(raw out).
  void EncodeKey(std::span<const double> raw, std::span<double> out) const;
  void EncodeQuery(std::span<const double> raw, std::span<double> out) const;
  void EncodeValue(std::span<const double> raw, std::span<double> out) const;

 private:
  MemoryEncoder(Encoder encoder, std::vector<double> values)
      : encoder_(std::move(encoder)), values_(std::move(values)) {}

  const Encoder encoder_;
  const std::vector<double> values_;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_MEMORY_ENCODER_H_
