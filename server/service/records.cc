#include "server/service/records.h"

#include <bit>
#include <utility>

#include "audit/encoding.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kSizeIsBox = 1;
constexpr uint8_t kSizeIsCapacity = 2;

void AppendByte(std::string& out, uint8_t value) { out.push_back(static_cast<char>(value)); }

void AppendText(std::string& out, absl::string_view text) {
  audit::AppendU32(out, static_cast<uint32_t>(text.size()));
  out.append(text.data(), text.size());
}

void AppendPartition(std::string& out, const svdd::PartitionCounts& partition) {
  audit::AppendU64(out, partition.margin);
  audit::AppendU64(out, partition.error);
  audit::AppendU64(out, partition.reserve);
}

// Reads what the functions above wrote. After the first read beyond the end `ok` stays false and
// every value is empty.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) { version_ = Byte(); }

  uint8_t Byte() { return static_cast<uint8_t>(Number(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  double Double() { return std::bit_cast<double>(Number(8)); }
  std::string Text() {
    const size_t size = U32();
    if (rest_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  svdd::PartitionCounts Partition() {
    svdd::PartitionCounts partition;
    partition.margin = U64();
    partition.error = U64();
    partition.reserve = U64();
    return partition;
  }

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && version_ == kVersion && rest_.empty(); }

 private:
  uint64_t Number(size_t bytes) {
    if (rest_.size() < bytes) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value = (value << 8) | static_cast<uint8_t>(rest_[i]);
    }
    rest_.remove_prefix(bytes);
    return value;
  }

  absl::string_view rest_;
  bool ok_ = true;
  uint8_t version_ = 0;
};

absl::Status Damaged(absl::string_view what) {
  std::string message = "a stored ";
  message.append(what.data(), what.size());
  message += " is not what was written";
  return absl::DataLossError(message);
}

}  // namespace

std::string EncodeConfig(const MemoryConfig& config) {
  LETHE_CHECK(config.kernel.has_value());
  LETHE_CHECK(config.box.has_value() != config.capacity.has_value());
  std::string out;
  AppendByte(out, kVersion);
  AppendByte(out, static_cast<uint8_t>(config.kernel->kind));
  audit::AppendDouble(out, config.kernel->parameter);
  AppendByte(out, config.box.has_value() ? kSizeIsBox : kSizeIsCapacity);
  audit::AppendDouble(out, config.box.has_value() ? *config.box : *config.capacity);
  AppendByte(out, static_cast<uint8_t>(config.duplicates));
  audit::AppendU32(out, config.key_dimension);
  audit::AppendU32(out, config.value_dimension);
  return out;
}

absl::StatusOr<MemoryConfig> DecodeConfig(absl::string_view blob) {
  Reader reader(blob);
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
  if (!reader.AtEnd() || kind < 1 || kind > 3 || duplicates < 1 || duplicates > 3 ||
      (size_kind != kSizeIsBox && size_kind != kSizeIsCapacity)) {
    return Damaged("memory configuration");
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
  Reader reader(blob);
  const uint32_t count = reader.U32();
  std::map<std::string, std::string> labels;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string name = reader.Text();
    labels[std::move(name)] = reader.Text();
  }
  if (!reader.AtEnd() || labels.size() != count) return Damaged("set of labels");
  return labels;
}

std::string EncodeAnswer(const StoredAnswer& answer) {
  const ForgetReply& reply = answer.reply;
  std::string out;
  AppendByte(out, kVersion);
  AppendText(out, answer.memory_uid);
  audit::AppendU64(out, reply.matched);
  audit::AppendU64(out, reply.erased);
  audit::AppendU64(out, reply.not_found);
  audit::AppendU64(out, reply.already_erased);
  audit::AppendU64(out, reply.held);
  AppendPartition(out, reply.partition_before);
  AppendPartition(out, reply.partition_after);
  AppendByte(out, static_cast<uint8_t>(reply.verdict));
  AppendText(out, reply.certificate_id);
  AppendText(out, reply.state_digest);
  return out;
}

absl::StatusOr<StoredAnswer> DecodeAnswer(absl::string_view blob) {
  Reader reader(blob);
  StoredAnswer answer;
  ForgetReply& reply = answer.reply;
  answer.memory_uid = reader.Text();
  reply.matched = reader.U64();
  reply.erased = reader.U64();
  reply.not_found = reader.U64();
  reply.already_erased = reader.U64();
  reply.held = reader.U64();
  reply.partition_before = reader.Partition();
  reply.partition_after = reader.Partition();
  const uint8_t verdict = reader.Byte();
  reply.verdict = static_cast<Verdict>(verdict);
  reply.certificate_id = reader.Text();
  reply.state_digest = reader.Text();
  if (!reader.AtEnd() || verdict < 1 || verdict > 4) return Damaged("answer");
  return answer;
}

}  // namespace lethe::service
