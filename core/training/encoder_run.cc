// train_encoder: a recall set of the job's tokens, with queries that are their keys and noise.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/encoder_trainer.h"
#include "core/model/recall_set.h"
#include "core/training/job_run.h"

namespace lethe::training {
namespace {

using model::EncoderTrainer;
using model::RecallSet;

constexpr uint64_t kNoiseStream = 3'000'201;       // of training
constexpr uint64_t kOtherNoiseStream = 3'000'202;  // of what is held out
// Of all queries together: 8 GiB.
constexpr uint64_t kMostQueryNumbers = uint64_t{1} << 31;

// The standard deviation of each coordinate of the tokens' keys.
std::vector<double> Deviations(const TokenData& data, const std::vector<uint32_t>& tokens) {
  std::vector<double> mean(data.key_dimension), squares(data.key_dimension);
  const auto count = static_cast<double>(tokens.size());
  for (const uint32_t token : tokens) {
    for (size_t k = 0; k < mean.size(); ++k) mean[k] += data.key(token)[k] / count;
  }
  for (const uint32_t token : tokens) {
    for (size_t k = 0; k < mean.size(); ++k) {
      const double away = data.key(token)[k] - mean[k];
      squares[k] += away * away / count;
    }
  }
  for (double& number : squares) number = std::sqrt(number);
  return squares;
}

void AppendRow(std::span<const double> row, std::vector<float>* numbers) {
  for (const double number : row) numbers->push_back(static_cast<float>(number));
}

absl::StatusOr<RecallSet<float>> MakeSet(const TokenData& data,
                                         const std::vector<uint32_t>& tokens,
                                         const std::vector<double>& deviations,
                                         const jobs::TrainEncoderConfig& config,
                                         uint64_t stream) {
  const model::CounterRandom random(config.seed, stream);
  std::vector<float> keys, values, queries;
  std::vector<uint32_t> targets;
  queries.reserve(tokens.size() * config.query_copies * data.key_dimension);
  uint64_t draw = 0;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    const std::span<const double> key = data.key(tokens[i]);
    AppendRow(key, &keys);
    AppendRow(data.value(tokens[i]), &values);
    for (uint64_t copy = 0; copy < config.query_copies; ++copy) {
      for (size_t k = 0; k < key.size(); ++k) {
        const double noise =
            config.query_noise > 0 ? config.query_noise * deviations[k] * random.Normal(draw++) : 0;
        queries.push_back(static_cast<float>(key[k] + noise));
      }
      targets.push_back(i);
    }
  }
  absl::StatusOr<RecallSet<float>> set =
      RecallSet<float>::Create(std::move(keys), data.key_dimension, std::move(values),
                               data.value_dimension, std::move(queries), std::move(targets));
  if (!set.ok()) {
    return absl::Status(set.status().code(), absl::StrCat("tokens: ", set.status().message()));
  }
  return set;
}

class EncoderRun : public JobRun {
 public:
  EncoderRun(const jobs::TrainEncoderConfig& config,
             RecallSet<float> training,
             std::optional<RecallSet<float>> held_out,
             EncoderTrainer<float> trainer)
      : config_(config),
        training_(std::move(training)),
        held_out_(std::move(held_out)),
        trainer_(std::move(trainer)) {}

  uint64_t step() const override { return trainer_.step(); }
  uint64_t steps() const override { return config_.steps; }

 protected:
  absl::StatusOr<StepFacts> DoStep(const model::Runtime& runtime) override {
    LETHE_ASSIGN_OR_RETURN(const model::EncoderStepReport report,
                           trainer_.Step(runtime, training_));
    counters_.Add(report.gates);
    if (report.update.skipped) ++skipped_;
    const auto tokens = static_cast<double>(std::max<uint64_t>(report.gates.tokens, 1));
    return StepFacts{.loss = report.recall.loss,
                     .tokens = config_.episodes * (config_.memory_tokens + config_.local_tokens),
                     .churn = static_cast<double>(report.gates.churn) / tokens};
  }
  std::string State() const override { return trainer_.Checkpoint(); }

  absl::StatusOr<RunResult> DoFinish(const model::Runtime& runtime,
                                     const std::function<bool()>& stop) override {
    // Before the first step the encoder is the raw keys, or a random projection of them.
    LETHE_ASSIGN_OR_RETURN(EncoderTrainer<float> fresh,
                           EncoderTrainer<float>::Create(trainer_.options(), training_.tokens()));
    Json measured = Json::object();
    measured["on"] = held_out_.has_value() ? "held-out tokens" : "the tokens trained on";
    measured["episodes"] = config_.evaluation;
    for (auto& [name, trainer] :
         {std::pair<const char*, EncoderTrainer<float>*>{"before", &fresh}, {"after", &trainer_}}) {
      LETHE_ASSIGN_OR_RETURN(
          const model::EncoderStepReport report,
          trainer->Evaluate(runtime, held_out_.has_value() ? *held_out_ : training_,
                            config_.evaluation, stop));
      if (!std::isfinite(report.recall.loss)) {
        return absl::InvalidArgumentError(
            "train_encoder.learning_rate: the loss is not finite after training; lower it, or "
            "look at the scale of the keys");
      }
      measured[name] = {
          {"loss", report.recall.loss},
          {"queries", report.recall.counted},
          {"recall", static_cast<double>(report.recall.recalled) /
                         static_cast<double>(std::max<size_t>(report.recall.counted, 1))}};
    }
    const model::Encoder& encoder = trainer_.encoder();
    const std::span<const float> values = trainer_.values();
    Json facts = {
        {"precision", "float"},
        {"parameters", values.size()},
        {"kernel", std::string(KernelName(encoder.options().kernel))},
        {"kernel_parameter", std::exp(static_cast<double>(encoder.LogWidth(values)))},
        {"scale", std::exp(static_cast<double>(encoder.LogScale(values)))},
        {"key_dimension", encoder.options().key_out()},
        {"value_dimension", encoder.options().value_out()},
        {"measured", std::move(measured)},
    };
    return RunResult{.artefact = trainer_.Artefact(), .facts = std::move(facts)};
  }

 private:
  const jobs::TrainEncoderConfig config_;
  const RecallSet<float> training_;
  const std::optional<RecallSet<float>> held_out_;
  EncoderTrainer<float> trainer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobRun>> BeginEncoder(const jobs::TrainEncoderConfig& config,
                                                     const MemoryShape& memory,
                                                     TokenData data,
                                                     absl::string_view state) {
  const Split split = SplitTokens(data.tokens, config.held_out, config.seed);
  const uint64_t episode = config.memory_tokens + config.local_tokens;
  const auto check = [&](size_t there, absl::string_view what, absl::string_view else_do) {
    if (there >= episode) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "tokens: ", there, " of the memory's ", data.tokens, " are ", what, ", an episode takes ",
        episode, " (train_encoder.memory_tokens and local_tokens); insert more, lower it, or ",
        else_do));
  };
  LETHE_RETURN_IF_ERROR(check(split.kept.size(), "trained on", "lower train_encoder.held_out"));
  if (config.held_out > 0) {
    LETHE_RETURN_IF_ERROR(
        check(split.held_out.size(), "held out", "raise train_encoder.held_out, or set it to 0"));
  }
  if (data.tokens * config.query_copies > kMostQueryNumbers / data.key_dimension) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train_encoder.query_copies: ", config.query_copies, " queries of ", data.key_dimension,
        " numbers for each of ", data.tokens, " tokens are too many; lower it"));
  }
  const std::vector<double> deviations = Deviations(data, split.kept);
  LETHE_ASSIGN_OR_RETURN(RecallSet<float> training,
                         MakeSet(data, split.kept, deviations, config, kNoiseStream));
  std::optional<RecallSet<float>> held_out;
  if (config.held_out > 0) {
    LETHE_ASSIGN_OR_RETURN(held_out,
                           MakeSet(data, split.held_out, deviations, config, kOtherNoiseStream));
  }
  const model::EncoderTrainerOptions options = OptionsOf(config, memory);
  absl::StatusOr<EncoderTrainer<float>> trainer =
      state.empty() ? EncoderTrainer<float>::Create(options, split.kept.size())
                    : EncoderTrainer<float>::Restore({state.data(), state.size()});
  if (!trainer.ok()) return trainer.status();
  if (!(trainer->options() == options) || trainer->step() > config.steps) {
    return absl::DataLossError("checkpoint: is of other options");
  }
  return std::make_unique<EncoderRun>(config, std::move(training), std::move(held_out),
                                      *std::move(trainer));
}

}  // namespace lethe::training
