#include "server/service/records.h"

#include <utility>

#include "audit/encoding.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/blob.h"

namespace lethe::service {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kVersionWithEncoder = 2;  // of a configuration
// The first byte of an answer: its kind and layout.
constexpr uint8_t kForgetAnswer = 1;
constexpr uint8_t kEvictAnswer = 2;
constexpr uint8_t kEditAnswer = 3;
constexpr uint8_t kSizeIsBox = 1;
constexpr uint8_t kSizeIsCapacity = 2;

void AppendPartition(std::string& out, const svdd::PartitionCounts& partition) {
  audit::AppendU64(out, partition.margin);
  audit::AppendU64(out, partition.error);
  audit::AppendU64(out, partition.reserve);
}

svdd::PartitionCounts ReadPartition(BlobReader& reader) {
  svdd::PartitionCounts partition;
  partition.margin = reader.U64();
  partition.error = reader.U64();
  partition.reserve = reader.U64();
  return partition;
}

}  // namespace

std::string EncodeConfig(const MemoryConfig& config) {
  LETHE_CHECK(config.kernel.has_value());
  LETHE_CHECK(config.box.has_value() != config.capacity.has_value());
  std::string out;
  AppendByte(out, config.encoder_info.has_value() ? kVersionWithEncoder : kVersion);
  AppendByte(out, static_cast<uint8_t>(config.kernel->kind));
  audit::AppendDouble(out, config.kernel->parameter);
  AppendByte(out, config.box.has_value() ? kSizeIsBox : kSizeIsCapacity);
  audit::AppendDouble(out, config.box.has_value() ? *config.box : *config.capacity);
  AppendByte(out, static_cast<uint8_t>(config.duplicates));
  audit::AppendU32(out, config.key_dimension);
  audit::AppendU32(out, config.value_dimension);
  if (config.encoder_info.has_value()) {
    AppendText(out, config.encoder_info->sha256);
    audit::AppendU32(out, config.encoder_info->raw_key_dimension);
    audit::AppendU32(out, config.encoder_info->raw_value_dimension);
  }
  return out;
}

absl::StatusOr<MemoryConfig> DecodeConfig(absl::string_view blob) {
  BlobReader reader(blob);
  MemoryConfig config;
  const uint8_t kind = reader.Byte();
  config.kernel =
      kernel::Kernel{.kind = static_cast<kernel::KernelKind>(kind), .parameter = reader.Double()};
  const uint8_t size_kind = reader.Byte();
  (size_kind == kSizeIsBox ? config.box : config.capacity) = reader.Double();
  const uint8_t duplicates = reader.Byte();
  config.duplicates = static_cast<svdd::DuplicatesPolicy>(duplicates);
  config.key_dimension = reader.U32();
  config.value_dimension = reader.U32();
  if (reader.version() == kVersionWithEncoder) {
    EncoderInfo& encoder = config.encoder_info.emplace();
    encoder.sha256 = reader.Text();
    encoder.raw_key_dimension = reader.U32();
    encoder.raw_value_dimension = reader.U32();
    if (!audit::DecodeDigest(encoder.sha256).ok()) return DamagedBlob("memory configuration");
  }
  if (!reader.AtEnd(config.encoder_info.has_value() ? kVersionWithEncoder : kVersion) || kind < 1 ||
      kind > 3 || duplicates < 1 || duplicates > 3 ||
      (size_kind != kSizeIsBox && size_kind != kSizeIsCapacity)) {
    return DamagedBlob("memory configuration");
  }
  return config;
}

std::string EncodeLabels(const std::map<std::string, std::string>& labels) {
  std::string out;
  AppendByte(out, kVersion);
  audit::AppendU32(out, static_cast<uint32_t>(labels.size()));
  for (const auto& [name, value] : labels) {
    AppendText(out, name);
    AppendText(out, value);
  }
  return out;
}

absl::StatusOr<std::map<std::string, std::string>> DecodeLabels(absl::string_view blob) {
  BlobReader reader(blob);
  const uint32_t count = reader.U32();
  std::map<std::string, std::string> labels;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string name = reader.Text();
    labels[std::move(name)] = reader.Text();
  }
  if (!reader.AtEnd(kVersion) || labels.size() != count) return DamagedBlob("set of labels");
  return labels;
}

namespace {

// What every answer ends with.
template <typename Reply>
void AppendOutcome(std::string& out, const Reply& reply) {
  AppendPartition(out, reply.partition_before);
  AppendPartition(out, reply.partition_after);
  AppendByte(out, static_cast<uint8_t>(reply.verdict));
  AppendText(out, reply.certificate_id);
  AppendText(out, reply.state_digest);
}

// False for a verdict that there is not.
template <typename Reply>
bool ReadOutcome(BlobReader& reader, Reply& reply) {
  reply.partition_before = ReadPartition(reader);
  reply.partition_after = ReadPartition(reader);
  const uint8_t verdict = reader.Byte();
  reply.verdict = static_cast<Verdict>(verdict);
  reply.certificate_id = reader.Text();
  reply.state_digest = reader.Text();
  return verdict >= 1 && verdict <= 4;
}

void AppendReply(std::string& out, const ForgetReply& reply) {
  for (const uint64_t count :
       {reply.matched, reply.erased, reply.not_found, reply.already_erased, reply.held}) {
    audit::AppendU64(out, count);
  }
  AppendOutcome(out, reply);
}

void AppendReply(std::string& out, const EvictReply& reply) {
  for (const uint64_t count : {reply.reserve, reply.surplus, reply.held, reply.retained}) {
    audit::AppendU64(out, count);
  }
  AppendByte(out, reply.budget_reached ? 1 : 0);
  AppendOutcome(out, reply);
}

void AppendReply(std::string& out, const EditReply& reply) {
  audit::AppendU64(out, reply.edited);
  audit::AppendU64(out, reply.unchanged);
  AppendOutcome(out, reply);
}

bool ReadReply(BlobReader& reader, ForgetReply& reply) {
  for (uint64_t* count :
       {&reply.matched, &reply.erased, &reply.not_found, &reply.already_erased, &reply.held}) {
    *count = reader.U64();
  }
  return ReadOutcome(reader, reply);
}

bool ReadReply(BlobReader& reader, EvictReply& reply) {
  for (uint64_t* count : {&reply.reserve, &reply.surplus, &reply.held, &reply.retained}) {
    *count = reader.U64();
  }
  const uint8_t reached = reader.Byte();
  reply.budget_reached = reached == 1;
  return ReadOutcome(reader, reply) && reached <= 1;
}

bool ReadReply(BlobReader& reader, EditReply& reply) {
  reply.edited = reader.U64();
  reply.unchanged = reader.U64();
  return ReadOutcome(reader, reply);
}

}  // namespace

std::string EncodeAnswer(const StoredAnswer& answer) {
  constexpr uint8_t kKinds[] = {kForgetAnswer, kEvictAnswer, kEditAnswer};
  std::string out;
  AppendByte(out, kKinds[answer.reply.index()]);
  AppendText(out, answer.memory_uid);
  std::visit([&out](const auto& reply) { AppendReply(out, reply); }, answer.reply);
  return out;
}

absl::StatusOr<StoredAnswer> DecodeAnswer(absl::string_view blob) {
  BlobReader reader(blob);
  StoredAnswer answer;
  switch (reader.version()) {
    case kForgetAnswer:
      answer.reply = ForgetReply();
      break;
    case kEvictAnswer:
      answer.reply = EvictReply();
      break;
    case kEditAnswer:
      answer.reply = EditReply();
      break;
    default:
      return DamagedBlob("answer");
  }
  answer.memory_uid = reader.Text();
  const bool good =
      std::visit([&reader](auto& reply) { return ReadReply(reader, reply); }, answer.reply);
  if (!good || !reader.AtEnd(reader.version())) return DamagedBlob("answer");
  return answer;
}

}  // namespace lethe::service
