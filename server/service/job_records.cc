#include "server/service/job_records.h"

#include <bit>
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

std::string EncodeJobFacts(const JobFacts& facts) {
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
                                       (facts.snapshot ? 4 : 0)));
  AppendText(out, facts.worker);
  AppendByte(out, static_cast<uint8_t>(facts.failure));
  AppendText(out, facts.failure_message);
  audit::AppendU64(out, facts.progress.step);
  audit::AppendU64(out, facts.progress.steps);
  for (const double value : {facts.progress.loss, facts.progress.tokens_per_second,
                             facts.progress.mask_churn, facts.progress.seconds_left}) {
    AppendDouble(out, value);
  }
  AppendText(out, facts.manifest);
  return out;
}

absl::StatusOr<JobFacts> DecodeJobFacts(absl::string_view blob) {
  BlobReader reader(blob);
  JobFacts facts;
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
  facts.worker = reader.Text();
  const uint8_t failure = reader.Byte();
  facts.failure = static_cast<JobFailure>(failure);
  facts.failure_message = reader.Text();
  facts.progress.step = reader.U64();
  facts.progress.steps = reader.U64();
  facts.progress.loss = reader.Double();
  facts.progress.tokens_per_second = reader.Double();
  facts.progress.mask_churn = reader.Double();
  facts.progress.seconds_left = reader.Double();
  facts.manifest = reader.Text();
  if (!reader.AtEnd(kFactsVersion) || flags > 7 ||
      failure > static_cast<uint8_t>(JobFailure::kMemoryGone)) {
    return DamagedBlob("job");
  }
  return facts;
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
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace lethe::service
