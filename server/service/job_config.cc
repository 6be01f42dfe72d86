#include "server/service/job_config.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "core/base/status_macros.h"
#include "server/service/blob.h"
#include "server/service/names.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

constexpr uint8_t kVersion = 1;

template <typename Field>
constexpr bool kIsGrid = std::is_same_v<std::remove_const_t<Field>, std::vector<double>>;

absl::Status CheckValue(const std::string& field, double value, const FieldBounds& bounds) {
  if (value >= bounds.least && value <= bounds.most) return absl::OkStatus();
  return FieldError(field, absl::StrCat("must be ", bounds.least, " to ", bounds.most));
}

absl::Status CheckTogether(const CalibrateConfig&) { return absl::OkStatus(); }
absl::Status CheckTogether(const TrainEncoderConfig& config) {
  // Otherwise no weights add up to one.
  if (config.box * static_cast<double>(config.problem_size) > 1.0) return absl::OkStatus();
  return FieldError("train_encoder.box", "times problem_size must be above 1");
}
absl::Status CheckTogether(const TrainLmConfig& config) {
  if (config.width % config.heads != 0) {
    return FieldError("train_lm.heads", "must divide width");
  }
  if (config.chunk > config.block) {
    return FieldError("train_lm.chunk", "must be at most block");
  }
  if (config.warm_up > config.steps) {
    return FieldError("train_lm.warm_up", "must be at most steps");
  }
  if (config.attention == LmAttention::kHybrid &&
      config.box * static_cast<double>(config.chunk) <= 1.0) {
    return FieldError("train_lm.box", "times chunk must be above 1");
  }
  // 64 M weights of 12 width^2 a layer: what a worker can be asked for.
  if (config.layers * 12 * config.width * config.width > (uint64_t{64} << 20)) {
    return FieldError("train_lm.width", "with these layers the model has too many weights");
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kCalibrate:
      return "calibrate";
    case JobKind::kTrainEncoder:
      return "train_encoder";
    case JobKind::kTrainLm:
      return "train_lm";
  }
  return "";
}

absl::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kLeased:
      return "leased";
    case JobState::kRunning:
      return "running";
    case JobState::kSucceeded:
      return "succeeded";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "";
}

absl::Status CheckJobConfig(const JobConfig& config) {
  absl::Status status;
  const absl::string_view kind = JobKindName(KindOf(config));
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const char* name, const auto& member, const FieldBounds& bounds) {
          const std::string field = absl::StrCat(kind, ".", name);
          if constexpr (kIsGrid<std::remove_cvref_t<decltype(member)>>) {
            if (member.empty() || member.size() > kMaxGrid) {
              status.Update(
                  FieldError(field, absl::StrCat("must have 1 to ", kMaxGrid, " values")));
            }
            for (size_t i = 0; i < member.size(); ++i) {
              status.Update(CheckValue(Indexed(field, i), member[i], bounds));
            }
          } else {
            status.Update(CheckValue(field, static_cast<double>(member), bounds));
          }
        });
        if (status.ok()) status = CheckTogether(one);
      },
      config);
  return status;
}

std::string EncodeJobConfig(const JobConfig& config) {
  std::string out;
  AppendByte(out, kVersion);
  AppendByte(out, static_cast<uint8_t>(KindOf(config)));
  const auto append = [&](double value) { audit::AppendU64(out, std::bit_cast<uint64_t>(value)); };
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const char*, const auto& member, const FieldBounds&) {
          using Field = std::remove_cvref_t<decltype(member)>;
          if constexpr (kIsGrid<Field>) {
            audit::AppendU32(out, static_cast<uint32_t>(member.size()));
            for (const double value : member) append(value);
          } else if constexpr (std::is_same_v<Field, double>) {
            append(member);
          } else {
            audit::AppendU64(out, static_cast<uint64_t>(member));
          }
        });
      },
      config);
  return out;
}

absl::StatusOr<JobConfig> DecodeJobConfig(absl::string_view blob) {
  BlobReader reader(blob);
  JobConfig config;
  switch (static_cast<JobKind>(reader.Byte())) {
    case JobKind::kCalibrate:
      config = CalibrateConfig();
      break;
    case JobKind::kTrainEncoder:
      config = TrainEncoderConfig();
      break;
    case JobKind::kTrainLm:
      config = TrainLmConfig();
      break;
    default:
      return DamagedBlob("job");
  }
  std::visit(
      [&](auto& one) {
        VisitFields(one, [&](const char*, auto& member, const FieldBounds&) {
          using Field = std::remove_cvref_t<decltype(member)>;
          if constexpr (kIsGrid<Field>) {
            member.clear();
            const uint32_t count = reader.U32();
            for (uint32_t i = 0; i < count && reader.ok(); ++i) member.push_back(reader.Double());
          } else if constexpr (std::is_same_v<Field, double>) {
            member = reader.Double();
          } else {
            member = static_cast<Field>(reader.U64());
          }
        });
      },
      config);
  if (!reader.AtEnd(kVersion) || !CheckJobConfig(config).ok()) return DamagedBlob("job");
  return config;
}

std::string JobConfigJson(const JobConfig& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const char* name, const auto& member, const FieldBounds&) {
          using Field = std::remove_cvref_t<decltype(member)>;
          if constexpr (std::is_same_v<Field, LmAttention>) {
            json[name] = static_cast<uint64_t>(member);
          } else {
            json[name] = member;
          }
        });
      },
      config);
  return json.dump();
}

}  // namespace lethe::service
