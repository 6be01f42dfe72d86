#include "server/calls/convert_jobs.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "server/calls/convert.h"
#include "server/service/names.h"

namespace lethe::calls {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using jobs::FieldInfo;

const FieldDescriptor* FieldOf(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  LETHE_CHECK(field != nullptr);
  return field;
}

// The fields of a configuration have the same names on both sides.
template <typename Config>
Config ConfigOf(const Message& from) {
  Config config;
  const Reflection* reflection = from.GetReflection();
  VisitFields(config, [&](const FieldInfo& info, auto& member) {
    using Field = std::remove_cvref_t<decltype(member)>;
    const FieldDescriptor* field = FieldOf(from, info.name);
    if constexpr (std::is_same_v<Field, std::vector<double>>) {
      const int size = reflection->FieldSize(from, field);
      if (size == 0) return;
      member.clear();
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
        // One that is not known is out of bounds for the check.
        member = static_cast<Field>(value >= 0 && value < 255 ? value : 255);
      }
    }
  });
  return config;
}

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

}  // namespace

service::JobInput FromProto(const v1::SubmitJobRequest& request) {
  service::JobInput input{.tenant = request.tenant(),
                          .memory = request.memory(),
                          .config = std::nullopt,
                          .request_id = request.request_id()};
  switch (request.config_case()) {
    case v1::SubmitJobRequest::kCalibrate:
      input.config = ConfigOf<service::CalibrateConfig>(request.calibrate());
      break;
    case v1::SubmitJobRequest::kTrainEncoder:
      input.config = ConfigOf<service::TrainEncoderConfig>(request.train_encoder());
      break;
    case v1::SubmitJobRequest::kTrainLm:
      input.config = ConfigOf<service::TrainLmConfig>(request.train_lm());
      break;
    case v1::SubmitJobRequest::CONFIG_NOT_SET:
      break;
  }
  return input;
}

absl::StatusOr<std::optional<service::JobState>> FromProto(v1::JobState state) {
  if (state == v1::JOB_STATE_UNSPECIFIED) return std::nullopt;
  if (!v1::JobState_IsValid(state)) return service::FieldError("state", "is not known here");
  return static_cast<service::JobState>(state);
}

service::JobProgress FromProto(const v1::JobProgress& progress) {
  return {.step = progress.step(),
          .steps = progress.steps(),
          .loss = progress.loss(),
          .tokens_per_second = progress.tokens_per_second(),
          .mask_churn = progress.mask_churn(),
          .seconds_left = progress.seconds_left()};
}

service::LeaseName FromProto(const v1::JobLease& lease) {
  return {.job = lease.job(), .token = lease.token()};
}

absl::StatusOr<service::LeaseInput> FromProto(const v1::LeaseJobRequest& request) {
  service::LeaseInput input{.worker = request.worker(), .kinds = {}, .wait = {}};
  for (int i = 0; i < request.kinds_size(); ++i) {
    if (request.kinds(i) == v1::JOB_KIND_UNSPECIFIED || !v1::JobKind_IsValid(request.kinds(i))) {
      return service::FieldError(absl::StrCat("kinds[", i, "]"), "is not known here");
    }
    input.kinds.push_back(static_cast<service::JobKind>(request.kinds(i)));
  }
  const double wait = request.wait_seconds();
  if (!(wait >= 0.0 && wait <= 30.0)) return service::FieldError("wait_seconds", "must be 0 to 30");
  input.wait = absl::Seconds(wait);
  return input;
}

absl::StatusOr<service::FailInput> FromProto(const v1::FailJobRequest& request) {
  if (request.end() == v1::WORKER_END_UNSPECIFIED || !v1::WorkerEnd_IsValid(request.end())) {
    return service::FieldError("end", "must say how it ended");
  }
  return service::FailInput{.lease = FromProto(request.lease()),
                            .end = static_cast<service::WorkerEnd>(request.end()),
                            .message = request.message(),
                            .progress = ProgressOf(request)};
}

void ToProto(const service::JobArtefact& from, v1::JobArtefact* to) {
  to->set_bytes(from.bytes);
  to->set_sha256(from.sha256);
  to->set_manifest(from.manifest);
}

void ToProto(const service::JobInfo& from, v1::Job* to) {
  to->set_tenant(from.tenant);
  to->set_id(from.id);
  to->set_memory(from.memory);
  to->set_kind(static_cast<v1::JobKind>(service::KindOf(from.config)));
  if (const auto* calibrate = std::get_if<service::CalibrateConfig>(&from.config)) {
    FillConfig(*calibrate, to->mutable_calibrate());
  } else if (const auto* encoder = std::get_if<service::TrainEncoderConfig>(&from.config)) {
    FillConfig(*encoder, to->mutable_train_encoder());
  } else {
    FillConfig(std::get<service::TrainLmConfig>(from.config), to->mutable_train_lm());
  }
  to->set_state(static_cast<v1::JobState>(from.state));
  to->set_cancel_requested(from.cancel_requested);
  to->set_submit_time(from.submit_time);
  to->set_begin_time(from.begin_time);
  to->set_end_time(from.end_time);
  to->set_next_time(from.next_time);
  v1::JobProgress* progress = to->mutable_progress();
  progress->set_step(from.progress.step);
  progress->set_steps(from.progress.steps);
  progress->set_loss(from.progress.loss);
  progress->set_tokens_per_second(from.progress.tokens_per_second);
  progress->set_mask_churn(from.progress.mask_churn);
  progress->set_seconds_left(from.progress.seconds_left);
  to->set_worker(from.worker);
  to->set_attempts(from.attempts);
  to->set_leases(from.leases);
  to->set_restarts(from.restarts);
  to->set_tokens(from.tokens);
  to->set_checkpoints(from.checkpoints);
  to->set_checkpoint_step(from.checkpoint_step);
  to->set_failure_reason(static_cast<v1::JobFailureReason>(from.failure));
  to->set_failure_message(from.failure_message);
  if (from.artefact.has_value()) ToProto(*from.artefact, to->mutable_artefact());
  to->set_erased_since(from.erased_since);
  to->set_replayed(from.replayed);
}

void ToProto(const std::optional<service::LeaseOffer>& from, v1::LeaseJobResponse* to) {
  if (!from.has_value()) return;
  to->mutable_lease()->set_job(from->lease.job);
  to->mutable_lease()->set_token(from->lease.token);
  to->set_lease_seconds(absl::ToDoubleSeconds(from->length));
  ToProto(from->job, to->mutable_job());
  ToProto(from->memory, to->mutable_memory_config());
  to->set_checkpoint_bytes(from->checkpoint_bytes);
  to->set_checkpoint_step(from->checkpoint_step);
}

void ToProto(const service::HeartbeatReply& from, v1::HeartbeatResponse* to) {
  to->set_cancel(from.cancel);
  to->set_lease_seconds(absl::ToDoubleSeconds(from.length));
}

void ToProto(std::vector<service::TrainingToken> from, v1::TrainingTokens* to) {
  for (service::TrainingToken& token : from) {
    v1::TrainingTokens::Token* out = to->add_tokens();
    out->mutable_key()->Add(token.key.begin(), token.key.end());
    out->mutable_value()->Add(token.value.begin(), token.value.end());
    out->set_payload(std::move(token.payload));
  }
}

}  // namespace lethe::calls
