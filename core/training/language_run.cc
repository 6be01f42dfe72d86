// train_lm: the payloads one behind the other, a byte a token; their end is held out.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/language_trainer.h"
#include "core/model/samples.h"
#include "core/training/job_run.h"

namespace lethe::training {
namespace {

using model::LanguageTrainer;
using model::TextSamples;

// Of the order of the text; parameters are drawn by the seed itself.
constexpr uint64_t kOrderSalt = 0x6f72646572ULL;

class LanguageRun : public JobRun {
 public:
  LanguageRun(const jobs::TrainLmConfig& config, std::string text)
      : config_(config), text_(std::move(text)) {}

  absl::Status Begin(absl::string_view state) {
    const std::span<const uint8_t> all(reinterpret_cast<const uint8_t*>(text_.data()),
                                       text_.size());
    const auto held_out = static_cast<size_t>(config_.held_out * static_cast<double>(text_.size()));
    const auto check = [&](size_t bytes, absl::string_view what) {
      if (bytes > config_.block) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("tokens: ", bytes, " of the ", text_.size(), " bytes of payload are ", what,
                       ", more than a block of ", config_.block,
                       " are needed; insert tokens with payloads, or lower train_lm.block"));
    };
    LETHE_RETURN_IF_ERROR(check(text_.size() - held_out, "trained on"));
    if (config_.held_out > 0) LETHE_RETURN_IF_ERROR(check(held_out, "held out"));
    LETHE_ASSIGN_OR_RETURN(
        training_, TextSamples::Create(all.first(text_.size() - held_out), config_.block,
                                       model::TextOrder::kRandom, config_.seed ^ kOrderSalt));
    LETHE_ASSIGN_OR_RETURN(measured_,
                           TextSamples::Create(config_.held_out > 0 ? all.last(held_out) : all,
                                               config_.block, model::TextOrder::kSequential, 0));
    const model::LanguageTrainerOptions options = OptionsOf(config_);
    absl::StatusOr<LanguageTrainer<float>> trainer =
        state.empty() ? LanguageTrainer<float>::Create(options)
                      : LanguageTrainer<float>::Restore({state.data(), state.size()});
    if (!trainer.ok()) return trainer.status();
    if (!(trainer->options() == options) || trainer->step() > config_.steps) {
      return absl::DataLossError("checkpoint: is of other options");
    }
    trainer_.emplace(*std::move(trainer));
    return absl::OkStatus();
  }

  uint64_t step() const override { return trainer_->step(); }
  uint64_t steps() const override { return config_.steps; }

 protected:
  absl::StatusOr<StepFacts> DoStep(const model::Runtime& runtime) override {
    LETHE_ASSIGN_OR_RETURN(const model::StepReport report, trainer_->Step(runtime, *training_));
    counters_.Add(report.loss.gates);
    if (report.update.skipped) ++skipped_;
    const auto tokens = static_cast<double>(std::max<uint64_t>(report.loss.gates.tokens, 1));
    return StepFacts{.loss = report.loss.loss,
                     .tokens = report.tokens,
                     .churn = static_cast<double>(report.loss.gates.churn) / tokens};
  }
  std::string State() const override { return trainer_->Checkpoint(); }

  absl::StatusOr<RunResult> DoFinish(const model::Runtime& runtime,
                                     const std::function<bool()>& stop) override {
    LETHE_ASSIGN_OR_RETURN(LanguageTrainer<float> fresh,
                           LanguageTrainer<float>::Create(trainer_->options()));
    const uint64_t windows = std::min<uint64_t>(config_.evaluation, measured_->windows());
    Json measured = Json::object();
    measured["on"] = config_.held_out > 0 ? "held-out text" : "the text trained on";
    measured["blocks"] = windows;
    for (auto& [name, trainer] : {std::pair<const char*, LanguageTrainer<float>*>{"before", &fresh},
                                  {"after", &*trainer_}}) {
      double loss = 0.0;
      uint64_t targets = 0;
      for (uint64_t first = 0; first < windows; first += config_.batch) {
        if (stop()) return absl::CancelledError("stopped while measuring");
        LETHE_ASSIGN_OR_RETURN(
            const model::LossReport report,
            trainer->Evaluate(runtime, *measured_, first,
                              std::min<uint64_t>(config_.batch, windows - first)));
        loss += report.loss * static_cast<double>(report.targets);
        targets += report.targets;
      }
      loss /= static_cast<double>(std::max<uint64_t>(targets, 1));
      if (!std::isfinite(loss)) {
        return absl::InvalidArgumentError(
            "train_lm.learning_rate: the loss is not finite after training; lower it");
      }
      measured[name] = {{"loss", loss}, {"bits_per_byte", loss / std::numbers::ln2}};
    }
    Json facts = {{"precision", "float"},
                  {"parameters", trainer_->values().size()},
                  {"text_bytes", text_.size()},
                  {"measured", std::move(measured)}};
    return RunResult{.artefact = trainer_->Artefact(), .facts = std::move(facts)};
  }

 private:
  const jobs::TrainLmConfig config_;
  const std::string text_;  // before what reads it
  std::unique_ptr<TextSamples> training_, measured_;
  std::optional<LanguageTrainer<float>> trainer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobRun>> BeginLanguageModel(const jobs::TrainLmConfig& config,
                                                           TokenData data,
                                                           absl::string_view state) {
  auto run = std::make_unique<LanguageRun>(config, std::move(data.text));
  LETHE_RETURN_IF_ERROR(run->Begin(state));
  return run;
}

}  // namespace lethe::training
