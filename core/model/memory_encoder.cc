#include "core/model/memory_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/kernel/exp.h"
#include "core/model/encoder_trainer.h"
#include "core/model/options_bytes.h"

namespace lethe::model {
namespace {

// Of ExpDouble's range, and beyond the limits of any kernel.
constexpr double kMostExponent = 700.0;

}  // namespace

absl::StatusOr<std::shared_ptr<const MemoryEncoder>> MemoryEncoder::Read(
    std::string_view artefact) {
  const auto made = [](Encoder encoder, std::vector<double> values) {
    return std::shared_ptr<const MemoryEncoder>(
        new MemoryEncoder(std::move(encoder), std::move(values)));
  };
  absl::StatusOr<TrainedEncoder<float>> single = ReadEncoderArtefact<float>(artefact);
  if (single.ok()) {
    return made(std::move(single->encoder), {single->values.begin(), single->values.end()});
  }
  absl::StatusOr<TrainedEncoder<double>> pair = ReadEncoderArtefact<double>(artefact);
  if (pair.ok()) return made(std::move(pair->encoder), std::move(pair->values));
  const bool other = single.status() == OtherPrecision("artefact");
  const absl::Status& why = other ? pair.status() : single.status();
  return absl::InvalidArgumentError(absl::StrCat("encoder: ", why.message()));
}

kernel::Kernel MemoryEncoder::kernel() const {
  const double log_width = encoder_.LogWidth(std::span<const double>(values_));
  const double in_range = std::clamp(log_width, -kMostExponent, kMostExponent);
  return {.kind = static_cast<kernel::KernelKind>(options().kernel),
          .parameter = kernel::ExpDouble({in_range, 0.0})};
}

void MemoryEncoder::EncodeKey(std::span<const double> raw, std::span<double> out) const {
  encoder_.EncodeKey<double>(values_, raw, out);
}
void MemoryEncoder::EncodeQuery(std::span<const double> raw, std::span<double> out) const {
  encoder_.EncodeQuery<double>(values_, raw, out);
}
void MemoryEncoder::EncodeValue(std::span<const double> raw, std::span<double> out) const {
  encoder_.EncodeValue<double>(values_, raw, out);
}

}  // namespace lethe::model
