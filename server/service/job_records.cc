#include "server/service/job_records.h"

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "core/base/status_macros.h"
#include "server/service/blob.h"
#include "server/service/job_config.h"
#include "server/service/names.h"
#include "server/service/records.h"

namespace lethe::service {
namespace {

constexpr uint8_t kSpecVersion = 1;
constexpr uint8_t kFactsVersion = 1;
constexpr uint8_t kTextsVersion = 1;
constexpr int kMaxDepth = 16;

void AppendTime(std::string& out, int64_t micros) {
  audit::AppendU64(out, static_cast<uint64_t>(micros));
}
int64_t ReadTime(BlobReader& reader) { return static_cast<int64_t>(reader.U64()); }

void AppendDouble(std::string& out, double value) {
  audit::AppendU64(out, std::bit_cast<uint64_t>(value));
}

}  // namespace

std::string EncodeJobSpec(const JobSpec& spec) {
  std::string out;
  AppendByte(out, kSpecVersion);
  AppendText(out, spec.tenant);
  AppendText(out, spec.memory);
  AppendText(out, EncodeJobConfig(spec.config));
  AppendText(out, EncodeConfig(spec.memory_config));
  return out;
}

absl::StatusOr<JobSpec> DecodeJobSpec(absl::string_view blob) {
  BlobReader reader(blob);
  JobSpec spec;
  spec.tenant = reader.Text();
  spec.memory = reader.Text();
  const std::string config = reader.Text();
  const std::string memory_config = reader.Text();
  if (!reader.AtEnd(kSpecVersion)) return DamagedBlob("job");
  LETHE_ASSIGN_OR_RETURN(spec.config, DecodeJobConfig(config));
  LETHE_ASSIGN_OR_RETURN(spec.memory_config, DecodeConfig(memory_config));
  return spec;
}

absl::string_view JobFailureName(JobFailure failure) {
  switch (failure) {
    case JobFailure::kNone:
      return "";
    case JobFailure::kWorkerLost:
      return "worker_lost";
    case JobFailure::kWorkerError:
      return "worker_error";
    case JobFailure::kBadInput:
      return "bad_input";
    case JobFailure::kMemoryGone:
      return "memory_gone";
  }
  return "";
}

std::string EncodeJobTexts(const JobFacts& facts) {
  if (facts.failure_message.empty() && facts.manifest.empty()) return {};
  std::string out;
  AppendByte(out, kTextsVersion);
  AppendText(out, facts.failure_message);
  AppendText(out, facts.manifest);
  return out;
}

absl::Status DecodeJobTexts(absl::string_view blob, JobFacts& facts) {
  BlobReader reader(blob);
  std::string message = reader.Text();
  std::string manifest = reader.Text();
  if (!reader.AtEnd(kTextsVersion)) return DamagedBlob("text of a job");
  facts.failure_message = std::move(message);
  facts.manifest = std::move(manifest);
  return absl::OkStatus();
}

std::string EncodeJobFacts(const JobFacts& facts, absl::string_view sealed_texts) {
  std::string out;
  AppendByte(out, kFactsVersion);
  AppendTime(out, facts.submit_micros);
  AppendTime(out, facts.begin_micros);
  AppendTime(out, facts.end_micros);
  AppendTime(out, facts.not_before_micros);
  audit::AppendU32(out, facts.attempts);
  audit::AppendU32(out, facts.leases);
  audit::AppendU32(out, facts.restarts);
  audit::AppendU64(out, facts.checkpoints);
  AppendByte(out, static_cast<uint8_t>((facts.cancel ? 1 : 0) | (facts.erased_since ? 2 : 0) |
                                       (facts.snapshot ? 4 : 0) | (facts.from_worker ? 8 : 0)));
  AppendText(out, facts.worker);
  AppendByte(out, static_cast<uint8_t>(facts.failure));
  audit::AppendU64(out, facts.progress.step);
  audit::AppendU64(out, facts.progress.steps);
  for (const double value : {facts.progress.loss, facts.progress.tokens_per_second,
                             facts.progress.mask_churn, facts.progress.seconds_left}) {
    AppendDouble(out, value);
  }
  AppendText(out, sealed_texts);
  return out;
}

absl::StatusOr<StoredJobFacts> DecodeJobFacts(absl::string_view blob) {
  BlobReader reader(blob);
  StoredJobFacts stored;
  JobFacts& facts = stored.facts;
  facts.submit_micros = ReadTime(reader);
  facts.begin_micros = ReadTime(reader);
  facts.end_micros = ReadTime(reader);
  facts.not_before_micros = ReadTime(reader);
  facts.attempts = reader.U32();
  facts.leases = reader.U32();
  facts.restarts = reader.U32();
  facts.checkpoints = reader.U64();
  const uint8_t flags = reader.Byte();
  facts.cancel = (flags & 1) != 0;
  facts.erased_since = (flags & 2) != 0;
  facts.snapshot = (flags & 4) != 0;
  facts.from_worker = (flags & 8) != 0;
  facts.worker = reader.Text();
  const uint8_t failure = reader.Byte();
  facts.failure = static_cast<JobFailure>(failure);
  facts.progress.step = reader.U64();
  facts.progress.steps = reader.U64();
  facts.progress.loss = reader.Double();
  facts.progress.tokens_per_second = reader.Double();
  facts.progress.mask_churn = reader.Double();
  facts.progress.seconds_left = reader.Double();
  stored.sealed_texts = reader.Text();
  if (!reader.AtEnd(kFactsVersion) || flags > 15 ||
      failure > static_cast<uint8_t>(JobFailure::kMemoryGone)) {
    return DamagedBlob("job");
  }
  return stored;
}

ManifestFacts LongestManifestFacts() {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return {.job = std::string(32, 'f'),
          .memory_uid = std::string(32, 'f'),
          .sha256 = std::string(64, 'f'),
          .bytes = kMost,
          .tokens = kMost,
          .restarts = std::numeric_limits<uint32_t>::max(),
          .leases = std::numeric_limits<uint32_t>::max(),
          .end_time = std::string(64, '0')};
}

absl::StatusOr<std::string> MakeManifest(const JobSpec& spec,
                                         const ManifestFacts& facts,
                                         absl::string_view worker) {
  using Json = nlohmann::ordered_json;
  if (worker.size() > kMaxManifestBytes) {
    return FieldError("manifest", absl::StrCat("is ", worker.size(), " bytes long, the limit is ",
                                               kMaxManifestBytes));
  }
  bool deep = false;
  const Json part = Json::parse(
      worker.begin(), worker.end(),
      [&deep](int depth, Json::parse_event_t, Json&) {
        deep = deep || depth > kMaxDepth;
        return !deep;
      },
      /*allow_exceptions=*/false);
  if (deep || !part.is_object()) {
    return FieldError("manifest",
                      absl::StrCat("must be a JSON object of at most ", kMaxDepth, " levels"));
  }
  Json json = Json::object();
  json["format"] = "lethe-artefact/1";
  json["deletion_certificate"] =
      "none: no deletion certificate covers this artefact, whatever is erased later";
  json["job"] = facts.job;
  json["kind"] = std::string(JobKindName(KindOf(spec.config)));
  json["tenant"] = spec.tenant;
  json["memory"] = spec.memory;
  json["memory_uid"] = facts.memory_uid;
  json["config"] = Json::parse(JobConfigJson(spec.config));
  json["tokens"] = facts.tokens;
  json["bytes"] = facts.bytes;
  json["sha256"] = facts.sha256;
  json["leases"] = facts.leases;
  json["restarts"] = facts.restarts;
  json["end_time"] = facts.end_time;
  json["worker"] = part;
  // Numbers and characters can be longer as they are written here than they came.
  for (const int indent : {2, -1}) {
    std::string text = json.dump(indent, ' ', /*ensure_ascii=*/false);
    if (text.size() <= kMaxWholeManifestBytes) return text;
  }
  return FieldError("manifest", absl::StrCat("would take more than ", kMaxWholeManifestBytes,
                                             " bytes as it is kept, with what the server adds"));
}

}  // namespace lethe::service
