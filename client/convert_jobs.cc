#include "client/convert_jobs.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace lethe::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using jobs::FieldInfo;

constexpr std::array<std::pair<JobState, absl::string_view>, 6> kStates = {{
    {JobState::kQueued, "queued"},
    {JobState::kLeased, "leased"},
    {JobState::kRunning, "running"},
    {JobState::kSucceeded, "succeeded"},
    {JobState::kFailed, "failed"},
    {JobState::kCancelled, "cancelled"},
}};

const FieldDescriptor* FieldOf(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  LETHE_CHECK(field != nullptr);
  return field;
}

// The fields of a configuration have the same names on both sides.
template <typename Config>
void FillConfig(const Config& config, Message* to) {
  const Reflection* reflection = to->GetReflection();
  VisitFields(config, [&](const FieldInfo& info, const auto& member) {
    using Field = std::remove_cvref_t<decltype(member)>;
    const FieldDescriptor* field = FieldOf(*to, info.name);
    if constexpr (std::is_same_v<Field, std::vector<double>>) {
      for (const double value : member) reflection->AddDouble(to, field, value);
    } else if constexpr (std::is_same_v<Field, double>) {
      reflection->SetDouble(to, field, member);
    } else if constexpr (std::is_same_v<Field, uint64_t>) {
      reflection->SetUInt64(to, field, member);
    } else if constexpr (std::is_same_v<Field, bool>) {
      reflection->SetBool(to, field, member);
    } else {
      reflection->SetEnumValue(to, field, static_cast<int>(member));
    }
  });
}

template <typename Config>
std::optional<JobConfig> ReadConfig(const Message& from) {
  Config config;
  const Reflection* reflection = from.GetReflection();
  if (!reflection->GetUnknownFields(from).empty()) return std::nullopt;
  VisitFields(config, [&](const FieldInfo& info, auto& member) {
    using Field = std::remove_cvref_t<decltype(member)>;
    const FieldDescriptor* field = FieldOf(from, info.name);
    if constexpr (std::is_same_v<Field, std::vector<double>>) {
      const int size = reflection->FieldSize(from, field);
      if (size > 0) member.clear();
      for (int i = 0; i < size; ++i) {
        member.push_back(reflection->GetRepeatedDouble(from, field, i));
      }
    } else {
      if (!reflection->HasField(from, field)) return;
      if constexpr (std::is_same_v<Field, double>) {
        member = reflection->GetDouble(from, field);
      } else if constexpr (std::is_same_v<Field, uint64_t>) {
        member = reflection->GetUInt64(from, field);
      } else if constexpr (std::is_same_v<Field, bool>) {
        member = reflection->GetBool(from, field);
      } else {
        const int value = reflection->GetEnumValue(from, field);
        // One that is not known is out of bounds for whoever checks.
        member = static_cast<Field>(value >= 0 && value < 255 ? value : 255);
      }
    }
  });
  return config;
}

}  // namespace

absl::string_view ToText(JobState state) {
  for (const auto& [known, text] : kStates) {
    if (known == state) return text;
  }
  return "unknown";
}

absl::StatusOr<JobState> ParseJobState(absl::string_view text) {
  for (const auto& [state, known] : kStates) {
    if (known == text) return state;
  }
  return absl::InvalidArgumentError(
      "must be queued, leased, running, succeeded, failed or cancelled");
}

absl::string_view ToText(JobFailure failure) {
  switch (failure) {
    case JobFailure::kNone:
      return "";
    case JobFailure::kWorkerLost:
      return "worker-lost";
    case JobFailure::kWorkerError:
      return "worker-error";
    case JobFailure::kBadInput:
      return "bad-input";
    case JobFailure::kMemoryGone:
      return "memory-gone";
  }
  return "unknown";
}

namespace convert {

v1::SubmitJobRequest ToWire(const NewJob& job) {
  v1::SubmitJobRequest wire;
  wire.set_tenant(job.tenant);
  wire.set_memory(job.memory);
  wire.set_request_id(job.request_id);
  if (const auto* calibrate = std::get_if<CalibrateConfig>(&job.config)) {
    FillConfig(*calibrate, wire.mutable_calibrate());
  } else if (const auto* encoder = std::get_if<TrainEncoderConfig>(&job.config)) {
    FillConfig(*encoder, wire.mutable_train_encoder());
  } else {
    FillConfig(std::get<TrainLmConfig>(job.config), wire.mutable_train_lm());
  }
  return wire;
}

JobArtefact FromWire(const v1::JobArtefact& wire) {
  return {.bytes = wire.bytes(), .sha256 = wire.sha256(), .manifest = wire.manifest()};
}

std::optional<JobConfig> ConfigOf(const v1::Job& wire) {
  switch (wire.config_case()) {
    case v1::Job::kCalibrate:
      return ReadConfig<CalibrateConfig>(wire.calibrate());
    case v1::Job::kTrainEncoder:
      return ReadConfig<TrainEncoderConfig>(wire.train_encoder());
    case v1::Job::kTrainLm:
      return ReadConfig<TrainLmConfig>(wire.train_lm());
    case v1::Job::CONFIG_NOT_SET:
      break;
  }
  return std::nullopt;
}

Job FromWire(const v1::Job& wire) {
  Job job;
  job.tenant = wire.tenant();
  job.id = wire.id();
  job.memory = wire.memory();
  job.kind = static_cast<JobKind>(wire.kind());
  job.config = ConfigOf(wire);
  job.state = static_cast<JobState>(wire.state());
  job.cancel_requested = wire.cancel_requested();
  job.submit_time = wire.submit_time();
  job.begin_time = wire.begin_time();
  job.end_time = wire.end_time();
  job.next_time = wire.next_time();
  job.progress = {.step = wire.progress().step(),
                  .steps = wire.progress().steps(),
                  .loss = wire.progress().loss(),
                  .tokens_per_second = wire.progress().tokens_per_second(),
                  .mask_churn = wire.progress().mask_churn(),
                  .seconds_left = wire.progress().seconds_left()};
  job.worker = wire.worker();
  job.attempts = wire.attempts();
  job.leases = wire.leases();
  job.restarts = wire.restarts();
  job.tokens = wire.tokens();
  job.checkpoints = wire.checkpoints();
  job.checkpoint_step = wire.checkpoint_step();
  job.failure = static_cast<JobFailure>(wire.failure_reason());
  job.failure_message = wire.failure_message();
  if (wire.has_artefact()) job.artefact = FromWire(wire.artefact());
  job.erased_since = wire.erased_since();
  job.replayed = wire.replayed();
  return job;
}

}  // namespace convert
}  // namespace lethe::client
