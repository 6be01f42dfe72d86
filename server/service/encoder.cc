#include "server/service/encoder.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

constexpr size_t kQueriesBetween = 256;  // before it is asked whether they are still wanted

using Encode = void (model::MemoryEncoder::*)(std::span<const double>, std::span<double>) const;

// In place. INVALID_ARGUMENT names `field`, never the numbers.
absl::Status Project(const model::MemoryEncoder& encoder,
                     Encode encode,
                     absl::string_view field,
                     size_t from,
                     size_t to,
                     std::vector<double>& numbers) {
  if (numbers.size() != from) {
    return FieldError(
        field, absl::StrCat("has ", numbers.size(), " values, the memory's encoder takes ", from));
  }
  const auto finite = [](double number) { return std::isfinite(number); };
  if (!std::ranges::all_of(numbers, finite)) return FieldError(field, "must be finite");
  std::vector<double> projected(to);
  (encoder.*encode)(numbers, projected);
  if (!std::ranges::all_of(projected, finite)) {
    return FieldError(field, "is too large for the memory's encoder: what it makes is not finite");
  }
  numbers = std::move(projected);
  return absl::OkStatus();
}

absl::Status ProjectKey(const model::MemoryEncoder& encoder,
                        absl::string_view field,
                        std::vector<double>& key) {
  return Project(encoder, &model::MemoryEncoder::EncodeKey, field, encoder.options().key_dimension,
                 encoder.options().key_out(), key);
}
absl::Status ProjectValue(const model::MemoryEncoder& encoder,
                          absl::string_view field,
                          std::vector<double>& value) {
  return Project(encoder, &model::MemoryEncoder::EncodeValue, field,
                 encoder.options().value_dimension, encoder.options().value_out(), value);
}

absl::Status TakeDimension(absl::string_view field, size_t of_encoder, uint32_t& dimension) {
  const auto made = static_cast<uint32_t>(of_encoder);
  if (dimension != 0 && dimension != made) {
    return FieldError(
        field, absl::StrCat("is ", dimension, ", the encoder makes ", made, "; leave it out"));
  }
  dimension = made;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EncoderPtr> AttachEncoder(MemoryConfig& config) {
  const std::string artefact = std::exchange(config.encoder, {});
  if (artefact.size() > kMaxEncoderBytes) {
    return FieldError(
        "config.encoder",
        absl::StrCat("is ", artefact.size(), " bytes long, the limit is ", kMaxEncoderBytes));
  }
  absl::StatusOr<EncoderPtr> read = model::MemoryEncoder::Read(artefact);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("config.", read.status().message()));
  }
  const model::EncoderOptions& options = (*read)->options();
  LETHE_RETURN_IF_ERROR(
      TakeDimension("config.key_dimension", options.key_out(), config.key_dimension));
  LETHE_RETURN_IF_ERROR(
      TakeDimension("config.value_dimension", options.value_out(), config.value_dimension));
  if (!config.kernel.has_value()) config.kernel = (*read)->kernel();
  config.encoder_info =
      EncoderInfo{.sha256 = audit::Hex(audit::Sha256(artefact)),
                  .raw_key_dimension = static_cast<uint32_t>(options.key_dimension),
                  .raw_value_dimension = static_cast<uint32_t>(options.value_dimension)};
  return *std::move(read);
}

absl::StatusOr<EncoderPtr> ReadEncoder(const std::string& artefact, const EncoderInfo& info) {
  if (audit::Hex(audit::Sha256(artefact)) != info.sha256) {
    return absl::DataLossError("a stored encoder is not the one of its memory's configuration");
  }
  absl::StatusOr<EncoderPtr> read = model::MemoryEncoder::Read(artefact);
  if (!read.ok()) return absl::DataLossError("a stored encoder cannot be read");
  return read;
}

std::optional<ItemError> EncodeToken(const model::MemoryEncoder& encoder,
                                     absl::string_view prefix,
                                     TokenInput& token) {
  absl::Status status = ProjectKey(encoder, "key", token.key);
  if (status.ok()) status = ProjectValue(encoder, "value", token.value);
  if (status.ok()) return std::nullopt;
  return ToItemError(status, prefix);
}

absl::Status CheckEncodedSize(absl::string_view field, uint64_t rows, uint64_t numbers) {
  if (numbers == 0 || rows <= kMaxEncodedNumbers / numbers) return absl::OkStatus();
  return FieldError(field, absl::StrCat("the memory's encoder would make more than ",
                                        kMaxEncodedNumbers, " numbers of them; send at most ",
                                        kMaxEncodedNumbers / numbers, " at a time"));
}

absl::Status CheckEncodedTokens(const model::MemoryEncoder& encoder, uint64_t tokens) {
  return CheckEncodedSize("tokens", tokens,
                          encoder.options().key_out() + encoder.options().value_out());
}

absl::Status EncodeQueries(const model::MemoryEncoder& encoder,
                           const CallOptions& call,
                           QueryInput& input) {
  LETHE_RETURN_IF_ERROR(
      CheckEncodedSize("queries", input.queries.size(), encoder.options().key_out()));
  if (input.local.has_value()) {
    LETHE_RETURN_IF_ERROR(CheckLocalCounts(*input.local, input.queries.size()));
    LETHE_RETURN_IF_ERROR(
        CheckEncodedSize("local.keys", input.local->keys.size(),
                         encoder.options().key_out() + encoder.options().value_out()));
  }
  for (size_t i = 0; i < input.queries.size(); ++i) {
    if (i % kQueriesBetween == 0 && call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    LETHE_RETURN_IF_ERROR(Project(encoder, &model::MemoryEncoder::EncodeQuery,
                                  Indexed("queries", i), encoder.options().key_dimension,
                                  encoder.options().key_out(), input.queries[i]));
  }
  if (!input.local.has_value()) return absl::OkStatus();
  LocalChunkInput& local = *input.local;
  for (size_t i = 0; i < local.keys.size(); ++i) {
    LETHE_RETURN_IF_ERROR(ProjectKey(encoder, Indexed("local.keys", i), local.keys[i]));
  }
  for (size_t i = 0; i < local.values.size(); ++i) {
    LETHE_RETURN_IF_ERROR(ProjectValue(encoder, Indexed("local.values", i), local.values[i]));
  }
  return absl::OkStatus();
}

}  // namespace lethe::service
