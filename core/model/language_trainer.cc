#include "core/model/language_trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/limits.h"
#include "core/model/options_bytes.h"

namespace lethe::model {
namespace {

constexpr std::string_view kCheckpointLine = "lethe language model checkpoint 1\n";
constexpr std::string_view kArtefactLine = "lethe language model 1\n";

}  // namespace

absl::Status Validate(const LanguageTrainerOptions& options) {
  LETHE_RETURN_IF_ERROR(Validate(options.model));
  LETHE_RETURN_IF_ERROR(Validate(options.optimizer));
  constexpr size_t kMostTokens = size_t{1} << 20;
  if (options.batch < 1 || options.batch > kMostTokens / options.model.block) {
    return absl::InvalidArgumentError(absl::StrCat("batch: must be at least 1 and at most ",
                                                   kMostTokens, " tokens, got ", options.batch,
                                                   " blocks of ", options.model.block));
  }
  LETHE_ASSIGN_OR_RETURN(const LanguageModel model, LanguageModel::Create(options.model));
  const uint64_t numbers =
      4 * model.table().size() + WorkspaceNumbers(options.model, options.batch);
  if (numbers > kMaxTrainerNumbers) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: ", options.batch, " sequences of this model take ", numbers,
                     " numbers to train, at most ", kMaxTrainerNumbers, " are allowed"));
  }
  return absl::OkStatus();
}

template <typename T>
LanguageTrainer<T>::LanguageTrainer(const LanguageTrainerOptions& options, LanguageModel model)
    : options_(options), model_(std::move(model)) {}

template <typename T>
absl::StatusOr<LanguageTrainer<T>> LanguageTrainer<T>::Create(
    const LanguageTrainerOptions& options) {
  return WithinMemory([&]() -> absl::StatusOr<LanguageTrainer> {
    LETHE_RETURN_IF_ERROR(Validate(options));
    LETHE_ASSIGN_OR_RETURN(LanguageModel model, LanguageModel::Create(options.model));
    LanguageTrainer trainer(options, std::move(model));
    const size_t size = trainer.model_.table().size();
    trainer.values_.resize(size);
    trainer.optimizer_.mean.resize(size);
    trainer.optimizer_.squares.resize(size);
    trainer.gradient_.resize(size);
    trainer.model_.template Initialise<T>(options.seed, trainer.values_);
    return trainer;
  });
}

template <typename T>
absl::StatusOr<LossReport> LanguageTrainer<T>::Forward(const Runtime& runtime,
                                                       const SampleSource& source,
                                                       uint64_t first,
                                                       size_t count) {
  const size_t length = source.length();
  if (length > options_.model.block || source.vocabulary() > options_.model.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "source: samples of ", length, " tokens below ", source.vocabulary(), ", the model takes ",
        options_.model.block, " below ", options_.model.vocabulary));
  }
  tokens_.resize(count * length);
  targets_.resize(count * length);
  for (size_t i = 0; i < count; ++i) {
    source.Fill(first + i, std::span(tokens_).subspan(i * length, length),
                std::span(targets_).subspan(i * length, length));
  }
  return model_.template Forward<T>(runtime, values_, count, tokens_, targets_, &workspace_);
}

template <typename T>
absl::StatusOr<StepReport> LanguageTrainer<T>::Step(const Runtime& runtime,
                                                    const SampleSource& source) {
  return WithinMemory([&]() -> absl::StatusOr<StepReport> {
    LETHE_RETURN_IF_ERROR(CheckMoreSteps(step()));
    StepReport report;
    LETHE_ASSIGN_OR_RETURN(report.loss, Forward(runtime, source, next_sample_, options_.batch));
    LETHE_RETURN_IF_ERROR(
        model_.template Backward<T>(runtime, values_, &workspace_, std::span<T>(gradient_)));
    report.update = Update<T>(runtime.team, options_.optimizer, model_.table(), gradient_,
                              &optimizer_, values_);
    next_sample_ += options_.batch;
    report.step = optimizer_.step;
    report.tokens = tokens_.size();
    return report;
  });
}

template <typename T>
absl::StatusOr<LossReport> LanguageTrainer<T>::Evaluate(const Runtime& runtime,
                                                        const SampleSource& source,
                                                        uint64_t first,
                                                        uint64_t count) {
  return WithinMemory([&]() -> absl::StatusOr<LossReport> {
    LossReport total;
    for (uint64_t done = 0; done < count;) {
      const size_t part = std::min<uint64_t>(options_.batch, count - done);
      LETHE_ASSIGN_OR_RETURN(const LossReport report, Forward(runtime, source, first + done, part));
      total.loss += report.loss * static_cast<double>(report.targets);
      total.targets += report.targets;
      total.gates.Add(report.gates);
      done += part;
    }
    total.loss /= static_cast<double>(std::max<size_t>(total.targets, 1));
    return total;
  });
}

template <typename T>
std::string LanguageTrainer<T>::Checkpoint() const {
  ByteWriter writer;
  WriteHead<T>(kCheckpointLine, &writer);
  WriteOptions(options_.model, &writer);
  WriteOptions(options_.optimizer, &writer);
  writer.Write<uint64_t>(options_.batch);
  writer.Write(options_.seed);
  writer.Write(next_sample_);
  writer.Write(optimizer_.step);
  writer.Write(optimizer_.skipped);
  writer.WriteArray(values_);
  writer.WriteArray(optimizer_.mean);
  writer.WriteArray(optimizer_.squares);
  return writer.Take();
}

template <typename T>
absl::StatusOr<LanguageTrainer<T>> LanguageTrainer<T>::Restore(std::string_view bytes) {
  return WithinMemory([bytes] { return Read(bytes); });
}

template <typename T>
absl::StatusOr<LanguageTrainer<T>> LanguageTrainer<T>::Read(std::string_view bytes) {
  ByteReader reader(bytes);
  LETHE_RETURN_IF_ERROR(ReadHead<T>("checkpoint", kCheckpointLine, &reader));
  LanguageTrainerOptions options;
  options.model = ReadOptions<LanguageModelOptions>(&reader);
  options.optimizer = ReadOptions<OptimizerOptions>(&reader);
  options.batch = reader.Read<uint64_t>();
  options.seed = reader.Read<uint64_t>();
  if (!reader.ok() || !Validate(options).ok()) return Damaged("checkpoint", "bad options");
  LETHE_ASSIGN_OR_RETURN(LanguageModel model, LanguageModel::Create(options.model));
  LanguageTrainer trainer(options, std::move(model));
  trainer.next_sample_ = reader.Read<uint64_t>();
  trainer.optimizer_.step = reader.Read<uint64_t>();
  trainer.optimizer_.skipped = reader.Read<uint64_t>();
  const size_t size = trainer.model_.table().size();
  trainer.values_ = reader.ReadArray<T>(size);
  trainer.optimizer_.mean = reader.ReadArray<T>(size);
  trainer.optimizer_.squares = reader.ReadArray<T>(size);
  if (!reader.AtEnd()) return Damaged("checkpoint", "has not the length that its options give");
  if (!AllFinite(trainer.values_)) {
    return Damaged("checkpoint", "holds numbers that are not finite");
  }
  if (const absl::Status status = Validate(trainer.optimizer_); !status.ok()) {
    return Damaged("checkpoint", status.message());
  }
  // Every step takes a batch, also one that is left out.
  if (trainer.next_sample_ != trainer.step() * options.batch) {
    return Damaged("checkpoint", "next sample: not the one after the steps' batches");
  }
  trainer.gradient_.resize(size);
  return trainer;
}

template <typename T>
std::string LanguageTrainer<T>::Artefact() const {
  ByteWriter writer;
  WriteHead<T>(kArtefactLine, &writer);
  WriteOptions(options_.model, &writer);
  writer.WriteArray(values_);
  return writer.Take();
}

template <typename T>
absl::StatusOr<TrainedLanguageModel<T>> ReadLanguageArtefact(std::string_view bytes) {
  ByteReader reader(bytes);
  LETHE_RETURN_IF_ERROR(ReadHead<T>("artefact", kArtefactLine, &reader));
  const auto options = ReadOptions<LanguageModelOptions>(&reader);
  if (!reader.ok() || !Validate(options).ok()) return Damaged("artefact", "bad options");
  LETHE_ASSIGN_OR_RETURN(LanguageModel model, LanguageModel::Create(options));
  TrainedLanguageModel<T> trained{std::move(model), {}};
  trained.values = reader.ReadArray<T>(trained.model.table().size());
  if (!reader.AtEnd()) return Damaged("artefact", "has not the length that its options give");
  if (!AllFinite(trained.values)) return Damaged("artefact", "holds numbers that are not finite");
  return trained;
}

#define LETHE_INSTANTIATE(T)         \
  template class LanguageTrainer<T>; \
  template absl::StatusOr<TrainedLanguageModel<T>> ReadLanguageArtefact<T>(std::string_view);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
