#include "server/service/records.h"

#include <bit>
#include <utility>

#include "audit/encoding.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

constexpr uint8_t kVersion = 1;
// The first byte of an answer: its kind and layout.
constexpr uint8_t kForgetAnswer = 1;
constexpr uint8_t kEvictAnswer = 2;
constexpr uint8_t kEditAnswer = 3;
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
  uint8_t version() const { return version_; }
  bool AtEnd(uint8_t version = kVersion) const {
    return ok_ && version_ == version && rest_.empty();
  }

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
bool ReadOutcome(Reader& reader, Reply& reply) {
  reply.partition_before = reader.Partition();
  reply.partition_after = reader.Partition();
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

bool ReadReply(Reader& reader, ForgetReply& reply) {
  for (uint64_t* count :
       {&reply.matched, &reply.erased, &reply.not_found, &reply.already_erased, &reply.held}) {
    *count = reader.U64();
  }
  return ReadOutcome(reader, reply);
}

bool ReadReply(Reader& reader, EvictReply& reply) {
  for (uint64_t* count : {&reply.reserve, &reply.surplus, &reply.held, &reply.retained}) {
    *count = reader.U64();
  }
  const uint8_t reached = reader.Byte();
  reply.budget_reached = reached == 1;
  return ReadOutcome(reader, reply) && reached <= 1;
}

bool ReadReply(Reader& reader, EditReply& reply) {
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
  Reader reader(blob);
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
      return Damaged("answer");
  }
  answer.memory_uid = reader.Text();
  const bool good =
      std::visit([&reader](auto& reply) { return ReadReply(reader, reply); }, answer.reply);
  if (!good || !reader.AtEnd(reader.version())) return Damaged("answer");
  return answer;
}

}  // namespace lethe::service
