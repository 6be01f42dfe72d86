#include "core/training/job_run.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/model/state_bytes.h"
#include "core/training/calibrate.h"

namespace lethe::training {
namespace {

constexpr std::string_view kLine = "lethe job checkpoint 1\n";
constexpr size_t kMostBuilds = 16;
constexpr size_t kMostTextBytes = size_t{64} << 10;

void WriteText(const std::string& text, model::ByteWriter* writer) {
  writer->Write<uint64_t>(text.size());
  writer->WriteRaw(text);
}
absl::Status BadCheckpoint(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("checkpoint: ", what));
}

absl::StatusOr<std::string> ReadText(model::ByteReader* reader) {
  const auto size = reader->Read<uint64_t>();
  if (!reader->ok() || size > kMostTextBytes || size > reader->left()) {
    return BadCheckpoint("is too short");
  }
  std::string text;
  for (uint64_t i = 0; i < size; ++i) text.push_back(reader->Read<char>());
  return text;
}

// In the order of the checkpoint.
std::vector<uint64_t*> FieldsOf(model::GateCounters& counters) {
  return {
      &counters.problems, &counters.single_pivots, &counters.unsolved, &counters.without_weights,
      &counters.tokens,   &counters.kept,          &counters.churn};
}

class CalibrationRun : public JobRun {
 public:
  explicit CalibrationRun(TokenData data) : data_(std::move(data)) {}
  absl::Status Begin(const jobs::CalibrateConfig& config,
                     const MemoryShape& memory,
                     absl::string_view state) {
    absl::StatusOr<Calibration> made = Calibration::Create(config, memory, data_);
    if (!made.ok()) return made.status();
    sweep_.emplace(*std::move(made));
    return state.empty() ? absl::OkStatus() : sweep_->Restore({state.data(), state.size()});
  }

  uint64_t step() const override { return sweep_->step(); }
  uint64_t steps() const override { return sweep_->steps(); }

 protected:
  absl::StatusOr<StepFacts> DoStep(const model::Runtime& runtime) override {
    LETHE_RETURN_IF_ERROR(sweep_->Step(runtime));
    return StepFacts{.tokens = sweep_->tokens_of_step()};
  }
  std::string State() const override { return sweep_->Checkpoint(); }
  absl::StatusOr<RunResult> DoFinish(const model::Runtime&, const std::function<bool()>&) override {
    uint64_t problems = 0;
    uint64_t unsolved = 0;
    for (const CalibrationCell& cell : sweep_->cells()) {
      problems += cell.samples;
      unsolved += cell.unsolved;
    }
    Json facts = {{"precision", "double"},
                  {"pairs", sweep_->cells().size()},
                  {"recommended", sweep_->Recommended().has_value()},
                  {"solver", {{"problems", problems}, {"unsolved", unsolved}}}};
    return RunResult{.artefact = sweep_->Report(), .facts = std::move(facts)};
  }

 private:
  const TokenData data_;  // before what reads it
  std::optional<Calibration> sweep_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobRun>> BeginCalibration(const jobs::CalibrateConfig& config,
                                                         const MemoryShape& memory,
                                                         TokenData data,
                                                         absl::string_view state) {
  auto run = std::make_unique<CalibrationRun>(std::move(data));
  LETHE_RETURN_IF_ERROR(run->Begin(config, memory, state));
  return run;
}

std::string ConfigText(const jobs::JobConfig& config) {
  std::string text = absl::StrCat(jobs::JobKindName(KindOf(config)), "\n");
  for (const auto& [name, value] : jobs::FieldTexts(config)) {
    absl::StrAppend(&text, name, " = ", value, "\n");
  }
  return text;
}

absl::StatusOr<StepFacts> JobRun::Step(const model::Runtime& runtime) {
  LETHE_CHECK(!done());
  LETHE_ASSIGN_OR_RETURN(StepFacts facts, DoStep(runtime));
  return facts;
}

std::string JobRun::Checkpoint() const {
  model::ByteWriter writer;
  writer.WriteRaw(kLine);
  WriteText(config_, &writer);
  WriteText(identity_.data_sha256, &writer);
  writer.Write<uint64_t>(builds_.size());
  for (const std::string& build : builds_) WriteText(build, &writer);
  model::GateCounters counters = counters_;
  for (const uint64_t* field : FieldsOf(counters)) writer.Write(*field);
  writer.Write(skipped_);
  writer.WriteRaw(State());
  return writer.Take();
}

absl::StatusOr<RunResult> JobRun::Finish(const model::Runtime& runtime,
                                         const std::function<bool()>& stop) {
  LETHE_CHECK(done());
  LETHE_ASSIGN_OR_RETURN(RunResult result, DoFinish(runtime, stop));
  Json& solver = result.facts["solver"];
  if (counters_.problems > 0) {
    solver = {{"problems", counters_.problems}, {"single_pivots", counters_.single_pivots},
              {"unsolved", counters_.unsolved}, {"without_weights", counters_.without_weights},
              {"tokens", counters_.tokens},     {"kept", counters_.kept},
              {"churn", counters_.churn}};
  }
  if (solver.is_null()) solver = Json::object();
  result.facts["steps"] = steps();
  result.facts["skipped_steps"] = skipped_;
  result.facts["builds"] = builds_;
  return result;
}

absl::StatusOr<std::unique_ptr<JobRun>> BeginRun(const jobs::JobConfig& config,
                                                 const MemoryShape& memory,
                                                 TokenData data,
                                                 const RunIdentity& identity,
                                                 absl::string_view checkpoint) {
  const std::string text = ConfigText(config);
  std::vector<std::string> builds;
  model::GateCounters counters;
  uint64_t skipped = 0;
  absl::string_view state;
  if (!checkpoint.empty()) {
    model::ByteReader reader({checkpoint.data(), checkpoint.size()});
    if (!reader.ReadRaw(kLine)) return BadCheckpoint("not of this version");
    LETHE_ASSIGN_OR_RETURN(const std::string config_text, ReadText(&reader));
    if (config_text != text) return BadCheckpoint("is of another configuration");
    LETHE_ASSIGN_OR_RETURN(const std::string data_sha256, ReadText(&reader));
    if (data_sha256 != identity.data_sha256) return BadCheckpoint("is of other tokens");
    const auto count = reader.Read<uint64_t>();
    if (count < 1 || count > kMostBuilds) return BadCheckpoint("names no build");
    for (uint64_t i = 0; i < count; ++i) {
      LETHE_ASSIGN_OR_RETURN(std::string build, ReadText(&reader));
      builds.push_back(std::move(build));
    }
    for (uint64_t* field : FieldsOf(counters)) *field = reader.Read<uint64_t>();
    skipped = reader.Read<uint64_t>();
    if (!reader.ok()) return BadCheckpoint("is too short");
    state = checkpoint.substr(checkpoint.size() - reader.left());
    if (state.empty()) return BadCheckpoint("is too short");
  }
  absl::StatusOr<std::unique_ptr<JobRun>> run;
  switch (KindOf(config)) {
    case jobs::JobKind::kCalibrate:
      run =
          BeginCalibration(std::get<jobs::CalibrateConfig>(config), memory, std::move(data), state);
      break;
    case jobs::JobKind::kTrainEncoder:
      run =
          BeginEncoder(std::get<jobs::TrainEncoderConfig>(config), memory, std::move(data), state);
      break;
    case jobs::JobKind::kTrainLm:
      run = BeginLanguageModel(std::get<jobs::TrainLmConfig>(config), std::move(data), state);
      break;
  }
  if (!run.ok()) return run;
  if (builds.empty() || builds.back() != identity.build) {
    if (builds.size() == kMostBuilds) builds.erase(builds.begin());
    builds.push_back(identity.build);
  }
  (*run)->config_ = text;
  (*run)->identity_ = identity;
  (*run)->builds_ = std::move(builds);
  (*run)->counters_ = counters;
  (*run)->skipped_ = skipped;
  return run;
}

}  // namespace lethe::training
