#include "server/service/validate.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/kernel/kernel.h"
#include "server/service/names.h"

namespace lethe::service {
namespace {

// Puts `prefix` before the field that a message of ours starts with.
absl::Status Prefixed(absl::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

absl::Status CheckText(const TokenInput& token) {
  if (!token.id.empty()) LETHE_RETURN_IF_ERROR(CheckTokenId("id", token.id));
  LETHE_RETURN_IF_ERROR(CheckSubject("subject", token.subject));
  if (token.payload.size() > kMaxPayloadBytes) {
    return FieldError("payload", absl::StrCat("is ", token.payload.size(),
                                              " bytes long, the limit is ", kMaxPayloadBytes));
  }
  if (token.labels.size() > kMaxLabels) {
    return FieldError(
        "labels", absl::StrCat("has ", token.labels.size(), " entries, the limit is ", kMaxLabels));
  }
  for (const auto& [name, value] : token.labels) {
    LETHE_RETURN_IF_ERROR(CheckLabelName("labels", name));
    LETHE_RETURN_IF_ERROR(CheckLabelValue("labels", value));
  }
  return absl::OkStatus();
}

absl::Status CheckDimension(absl::string_view field, uint32_t dimension, int limit) {
  if (dimension == 0 || dimension > static_cast<uint32_t>(limit)) {
    return FieldError(field, absl::StrCat("is ", dimension, ", it must be from 1 to ", limit));
  }
  return absl::OkStatus();
}

}  // namespace

ItemError ToItemError(const absl::Status& status, absl::string_view prefix) {
  ItemError error;
  error.code = status.code();
  const absl::string_view message = status.message();
  const size_t colon = message.find(": ");
  if (colon == absl::string_view::npos) {
    error.field = std::string(prefix);
    error.message = std::string(message);
  } else {
    error.field = absl::StrCat(prefix, ".", message.substr(0, colon));
    error.message = std::string(message.substr(colon + 2));
  }
  return error;
}

absl::StatusOr<svdd::MemoryOptions> ToOptions(const MemoryConfig& config) {
  if (!config.kernel.has_value()) {
    return FieldError("config.kernel", "must be rbf, laplacian or exp_dot");
  }
  LETHE_RETURN_IF_ERROR(Prefixed("config.", kernel::Validate(*config.kernel)));
  if (config.box.has_value() == config.capacity.has_value()) {
    return FieldError(
        config.box.has_value() ? "config.box and config.capacity" : "config.box",
        config.box.has_value() ? "only one of them can be set" : "set either box or capacity");
  }
  LETHE_ASSIGN_OR_RETURN(const svdd::Capacity capacity, [&]() -> absl::StatusOr<svdd::Capacity> {
    auto result = config.box.has_value() ? svdd::Capacity::FromBox(*config.box)
                                         : svdd::Capacity::FromCapacity(*config.capacity);
    if (!result.ok()) return Prefixed("config.", result.status());
    return result;
  }());
  LETHE_RETURN_IF_ERROR(
      CheckDimension("config.key_dimension", config.key_dimension, svdd::kMaxKeyDimension));
  LETHE_RETURN_IF_ERROR(
      CheckDimension("config.value_dimension", config.value_dimension, svdd::kMaxValueDimension));
  svdd::MemoryOptions options{.kernel = *config.kernel,
                              .capacity = capacity,
                              .duplicates = config.duplicates,
                              .key_dimension = static_cast<int>(config.key_dimension),
                              .value_dimension = static_cast<int>(config.value_dimension)};
  LETHE_RETURN_IF_ERROR(Prefixed("config.", svdd::Validate(options)));
  return options;
}

void NormaliseKey(std::vector<double>& key) {
  for (double& coordinate : key) {
    if (coordinate == 0.0) coordinate = 0.0;
  }
}

std::optional<ItemError> CheckToken(const TokenInput& token,
                                    const svdd::ExactMemory& memory,
                                    absl::string_view prefix) {
  if (absl::Status status = CheckText(token); !status.ok()) return ToItemError(status, prefix);
  if (absl::Status status = memory.Validate(token.key, token.value); !status.ok()) {
    return ToItemError(status, prefix);
  }
  return std::nullopt;
}

absl::Status CheckQuery(std::span<const double> query,
                        const svdd::MemoryOptions& options,
                        size_t index) {
  const std::string field = Indexed("queries", index);
  if (query.size() != static_cast<size_t>(options.key_dimension)) {
    return FieldError(field, absl::StrCat("has ", query.size(), " values, the memory's keys have ",
                                          options.key_dimension));
  }
  for (size_t j = 0; j < query.size(); ++j) {
    if (!std::isfinite(query[j])) {
      return FieldError(absl::StrCat(field, ".values[", j, "]"), "must be finite");
    }
  }
  if (absl::Status status = kernel::ValidateKey(options.kernel, query); !status.ok()) {
    return Prefixed(absl::StrCat(field, ": as a "), status);
  }
  return absl::OkStatus();
}

absl::Status CheckLocalCounts(const LocalChunkInput& chunk, size_t queries) {
  if (chunk.keys.size() > kMaxLocalKeys) {
    return FieldError("local.keys", absl::StrCat("has ", chunk.keys.size(),
                                                 " entries, the limit is ", kMaxLocalKeys));
  }
  if (chunk.values.size() != chunk.keys.size()) {
    return FieldError("local.values", absl::StrCat("has ", chunk.values.size(), " entries for ",
                                                   chunk.keys.size(), " keys"));
  }
  if (chunk.causal && queries != chunk.keys.size()) {
    return FieldError("local.causal", absl::StrCat("needs as many queries as keys, there are ",
                                                   queries, " and ", chunk.keys.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckLocalChunk(const LocalChunkInput& chunk,
                             const svdd::MemoryOptions& options,
                             size_t queries) {
  LETHE_RETURN_IF_ERROR(CheckLocalCounts(chunk, queries));
  const auto check = [](absl::string_view field, absl::string_view of,
                        const std::vector<double>& numbers, int dimension,
                        double most) -> absl::Status {
    if (numbers.size() != static_cast<size_t>(dimension)) {
      return FieldError(field, absl::StrCat("has ", numbers.size(), " values, the memory's ", of,
                                            " have ", dimension));
    }
    for (size_t j = 0; j < numbers.size(); ++j) {
      if (!(std::abs(numbers[j]) <= most)) {
        return FieldError(absl::StrCat(field, ".values[", j, "]"),
                          absl::StrCat("must be finite and at most ", most, " in magnitude"));
      }
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < chunk.keys.size(); ++i) {
    LETHE_RETURN_IF_ERROR(check(Indexed("local.keys", i), "keys", chunk.keys[i],
                                options.key_dimension, kernel::kMaxCoordinate));
    LETHE_RETURN_IF_ERROR(check(Indexed("local.values", i), "values", chunk.values[i],
                                options.value_dimension, svdd::kMaxValue));
  }
  for (const auto& [field, number] :
       {std::pair("local.scale", chunk.scale), std::pair("local.gate", chunk.gate)}) {
    if (number.has_value() &&
        !(*number >= kernel::kMinParameter && *number <= kernel::kMaxParameter)) {
      return FieldError(field, absl::StrCat("must be between ", kernel::kMinParameter, " and ",
                                            kernel::kMaxParameter));
    }
  }
  return absl::OkStatus();
}

std::string Indexed(absl::string_view field, size_t index) {
  return absl::StrCat(field, "[", index, "]");
}

absl::Status CheckBatchSize(absl::string_view field, size_t size) {
  if (size == 0) return FieldError(field, "is empty");
  if (size > kMaxBatch) {
    return FieldError(field, absl::StrCat("has ", size, " entries, the limit is ", kMaxBatch));
  }
  return absl::OkStatus();
}

}  // namespace lethe::service
