#include "server/service/job_config.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "audit/encoding.h"
#include "core/training/job_options.h"
#include "server/service/blob.h"

namespace lethe::service {
namespace {

using jobs::FieldInfo;

constexpr uint8_t kVersion = 1;

template <typename Field>
constexpr bool kIsGrid = std::is_same_v<std::remove_const_t<Field>, std::vector<double>>;

}  // namespace

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

absl::Status CheckJobConfig(const JobConfig& config,
                            const MemoryConfig& memory,
                            uint64_t most_file_bytes) {
  training::MemoryShape shape;
  if (memory.kernel.has_value()) {
    shape.kernel = static_cast<batched::KernelKind>(memory.kernel->kind);
    shape.parameter = memory.kernel->parameter;
  }
  shape.key_dimension = memory.key_dimension;
  shape.value_dimension = memory.value_dimension;
  return training::CheckConfig(config, shape, most_file_bytes);
}

std::string EncodeJobConfig(const JobConfig& config) {
  std::string out;
  AppendByte(out, kVersion);
  AppendByte(out, static_cast<uint8_t>(KindOf(config)));
  const auto append = [&](double value) { audit::AppendU64(out, std::bit_cast<uint64_t>(value)); };
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const FieldInfo&, const auto& member) {
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
  const auto kind = static_cast<JobKind>(reader.Byte());
  if (JobKindName(kind).empty()) return DamagedBlob("job");
  JobConfig config = jobs::DefaultsOf(kind);
  std::visit(
      [&](auto& one) {
        VisitFields(one, [&](const FieldInfo&, auto& member) {
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
  if (!reader.AtEnd(kVersion) || !jobs::CheckFields(config).ok()) return DamagedBlob("job");
  return config;
}

std::string JobConfigJson(const JobConfig& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const FieldInfo& info, const auto& member) {
          using Field = std::remove_cvref_t<decltype(member)>;
          if constexpr (std::is_enum_v<Field>) {
            json[info.name] = std::string(info.words[static_cast<size_t>(member)]);
          } else {
            json[info.name] = member;
          }
        });
      },
      config);
  return json.dump();
}

}  // namespace lethe::service
