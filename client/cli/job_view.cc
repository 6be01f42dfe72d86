#include "client/cli/job_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/cli/progress.h"

namespace lethe::cli {
namespace {

Json ConfigJson(const client::JobConfig& config) {
  Json json = Json::object();
  std::visit(
      [&](const auto& one) {
        VisitFields(one, [&](const jobs::FieldInfo& info, const auto& member) {
          using Field = std::remove_cvref_t<decltype(member)>;
          if constexpr (std::is_enum_v<Field>) {
            const auto number = static_cast<size_t>(member);
            json[info.name] =
                number < info.words.size() ? std::string(info.words[number]) : "unknown";
          } else {
            json[info.name] = member;
          }
        });
      },
      config);
  return json;
}

double Fraction(const client::JobProgress& progress) {
  return progress.steps == 0
             ? 0.0
             : static_cast<double>(progress.step) / static_cast<double>(progress.steps);
}

std::string Left(double seconds) {
  return absl::FormatDuration(absl::Seconds(static_cast<int64_t>(std::min(seconds, 1e9))));
}

void AddUnlessEmpty(Fields& fields, const char* name, const std::string& value) {
  if (!value.empty()) fields.emplace_back(name, value);
}

}  // namespace

std::string Dashed(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

Json ToJson(const client::Job& job) {
  Json json = {{"id", job.id},
               {"tenant", job.tenant},
               {"memory", job.memory},
               {"kind", std::string(jobs::JobKindName(job.kind))},
               {"state", std::string(client::ToText(job.state))},
               {"cancel_requested", job.cancel_requested},
               {"submit_time", job.submit_time},
               {"begin_time", job.begin_time},
               {"end_time", job.end_time},
               {"next_time", job.next_time},
               {"progress",
                {{"step", job.progress.step},
                 {"steps", job.progress.steps},
                 {"loss", job.progress.loss},
                 {"tokens_per_second", job.progress.tokens_per_second},
                 {"mask_churn", job.progress.mask_churn},
                 {"seconds_left", job.progress.seconds_left}}},
               {"worker", job.worker},
               {"attempts", job.attempts},
               {"leases", job.leases},
               {"restarts", job.restarts},
               {"tokens", job.tokens},
               {"checkpoints", job.checkpoints},
               {"checkpoint_step", job.checkpoint_step},
               {"failure", std::string(client::ToText(job.failure))},
               {"failure_message", job.failure_message},
               {"erased_since", job.erased_since},
               {"replayed", job.replayed}};
  if (job.config.has_value()) json["config"] = ConfigJson(*job.config);
  if (job.artefact.has_value()) {
    Json manifest = Json::parse(job.artefact->manifest, nullptr, /*allow_exceptions=*/false);
    json["artefact"] = {{"bytes", job.artefact->bytes}, {"sha256", job.artefact->sha256}};
    json["artefact"]["manifest"] =
        manifest.is_discarded() ? Json(job.artefact->manifest) : std::move(manifest);
  }
  return json;
}

Fields ToFields(const client::Job& job) {
  Fields fields = {
      {"job", job.id},
      {"tenant", job.tenant},
      {"memory", job.memory},
      {"kind", Dashed(jobs::JobKindName(job.kind))},
      {"state",
       absl::StrCat(client::ToText(job.state),
                    job.cancel_requested && !HasEnded(job.state) ? ", to be cancelled" : "")}};
  AddUnlessEmpty(fields, "failure", std::string(client::ToText(job.failure)));
  AddUnlessEmpty(fields, "message", job.failure_message);
  AddUnlessEmpty(fields, "submitted", job.submit_time);
  AddUnlessEmpty(fields, "begun", job.begin_time);
  AddUnlessEmpty(fields, "ended", job.end_time);
  if (job.state == client::JobState::kQueued) AddUnlessEmpty(fields, "not before", job.next_time);
  AddUnlessEmpty(fields, "worker", job.worker);
  if (job.progress.steps > 0) {
    fields.emplace_back("step", absl::StrCat(FormatCount(job.progress.step), " of ",
                                             FormatCount(job.progress.steps)));
    if (job.progress.loss != 0) fields.emplace_back("loss", FormatNumber(job.progress.loss, 6));
    if (!HasEnded(job.state) && job.progress.seconds_left > 0) {
      fields.emplace_back("left", Left(job.progress.seconds_left));
    }
  }
  if (job.tokens > 0) fields.emplace_back("tokens", FormatCount(job.tokens));
  if (job.leases > 0) fields.emplace_back("leases", FormatCount(job.leases));
  if (job.restarts > 0) fields.emplace_back("started over", FormatCount(job.restarts));
  if (job.checkpoints > 0) {
    fields.emplace_back("checkpoints",
                        absl::StrCat(FormatCount(job.checkpoints), ", the last of step ",
                                     FormatCount(job.checkpoint_step)));
  }
  if (job.artefact.has_value()) {
    fields.emplace_back("artefact", absl::StrCat(FormatCount(job.artefact->bytes), " bytes"));
    fields.emplace_back("SHA-256", job.artefact->sha256);
  }
  if (job.erased_since) fields.emplace_back("erased since", "yes, tokens that it was made from");
  return fields;
}

std::string JobLine(const client::Job& job) {
  std::string line(client::ToText(job.state));
  if (job.progress.steps > 0) {
    absl::StrAppend(&line, " ", ProgressBar(Fraction(job.progress), 20), " ",
                    FormatCount(job.progress.step), "/", FormatCount(job.progress.steps));
    if (job.progress.loss != 0) absl::StrAppendFormat(&line, " loss %.4g", job.progress.loss);
  }
  if (job.state == client::JobState::kRunning) {
    if (job.progress.tokens_per_second > 0) {
      absl::StrAppend(
          &line, " ",
          FormatCount(static_cast<uint64_t>(std::min(job.progress.tokens_per_second, 1e15))), "/s");
    }
    if (job.progress.seconds_left > 0) {
      absl::StrAppend(&line, " ", Left(job.progress.seconds_left), " left");
    }
  }
  return line;
}

}  // namespace lethe::cli
