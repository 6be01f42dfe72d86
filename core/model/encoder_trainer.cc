#include "core/model/encoder_trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/limits.h"
#include "core/model/options_bytes.h"

namespace lethe::model {
namespace {

constexpr std::string_view kCheckpointLine = "lethe encoder checkpoint 1\n";
constexpr std::string_view kArtefactLine = "lethe encoder 1\n";

// Streams of random.h. Parameters use the small numbers of their parts.
constexpr uint64_t kTrainingStream = 2'000'001;
constexpr uint64_t kEvaluationStream = 2'000'002;

// Without what a set's tokens take. Requires all fields but episodes to be valid.
uint64_t NumbersOf(const EncoderTrainerOptions& options) {
  const EncoderOptions& encoder = options.encoder;
  const uint64_t parameters = 2 * encoder.key_dimension * encoder.key_out() +
                              encoder.value_dimension * encoder.projected_value + 3;
  return 4 * parameters + WorkspaceNumbers(encoder,
                                           {options.memory, options.local, options.queries},
                                           options.episodes);
}

// 0 in reserve, C in error, between them in the margin (core/batched/problem.h).
template <typename T>
bool LabelsFollowWeights(std::span<const T> weights, std::span<const uint8_t> labels, T box) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0 && weights[i] <= box)) return false;
    const batched::Label label = weights[i] == 0     ? batched::Label::kReserve
                                 : weights[i] == box ? batched::Label::kError
                                                     : batched::Label::kMargin;
    if (labels[i] != static_cast<uint8_t>(label)) return false;
  }
  return true;
}

void ToMean(RecallReport* recall) {
  recall->loss /= static_cast<double>(std::max<size_t>(recall->counted, 1));
}

}  // namespace

absl::Status Validate(const EncoderTrainerOptions& options) {
  LETHE_RETURN_IF_ERROR(Validate(options.encoder));
  LETHE_RETURN_IF_ERROR(Validate(options.optimizer));
  LETHE_RETURN_IF_ERROR(InRange("memory", options.memory, 2, batched::kMaxPoints));
  LETHE_RETURN_IF_ERROR(InRange("local", options.local, 0, 4096));
  LETHE_RETURN_IF_ERROR(InRange("queries", options.queries, 1, 4096));
  LETHE_RETURN_IF_ERROR(InRange("episodes", options.episodes, 1, 4096));
  if (!(options.encoder.box * static_cast<double>(options.memory) > 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "encoder.box: must be above 1 / memory = ", 1.0 / static_cast<double>(options.memory),
        ", got ", options.encoder.box));
  }
  if (const uint64_t numbers = NumbersOf(options); numbers > kMaxTrainerNumbers) {
    return absl::InvalidArgumentError(
        absl::StrCat("episodes: ", options.episodes, " of this size take ", numbers,
                     " numbers to train, at most ", kMaxTrainerNumbers, " are allowed"));
  }
  return absl::OkStatus();
}

template <typename T>
EncoderTrainer<T>::EncoderTrainer(const EncoderTrainerOptions& options, Encoder encoder)
    : options_(options), encoder_(std::move(encoder)) {}

template <typename T>
absl::StatusOr<EncoderTrainer<T>> EncoderTrainer<T>::Create(const EncoderTrainerOptions& options,
                                                            size_t tokens) {
  return WithinMemory([&]() -> absl::StatusOr<EncoderTrainer> {
    LETHE_RETURN_IF_ERROR(Validate(options));
    LETHE_RETURN_IF_ERROR(InRange("tokens", tokens, options.memory + options.local, kMaxTokens));
    LETHE_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(options.encoder));
    EncoderTrainer trainer(options, std::move(encoder));
    const size_t size = trainer.encoder_.table().size();
    trainer.values_.resize(size);
    trainer.optimizer_.mean.resize(size);
    trainer.optimizer_.squares.resize(size);
    trainer.gradient_.resize(size);
    trainer.last_weights_.resize(tokens);
    trainer.last_labels_.resize(tokens);
    trainer.encoder_.template Initialise<T>(options.seed, trainer.values_);
    return trainer;
  });
}

template <typename T>
absl::Status EncoderTrainer<T>::Check(const RecallSet<T>& set) const {
  const EncoderOptions& encoder = options_.encoder;
  if (set.keys().columns != encoder.key_dimension ||
      set.values().columns != encoder.value_dimension) {
    return absl::InvalidArgumentError(
        absl::StrCat("set: keys and values have ", set.keys().columns, " and ",
                     set.values().columns, " dimensions, the encoder takes ", encoder.key_dimension,
                     " and ", encoder.value_dimension));
  }
  if (set.tokens() < shape().tokens()) {
    return absl::InvalidArgumentError(
        absl::StrCat("set: has ", set.tokens(), " tokens, an episode takes ", shape().tokens()));
  }
  return absl::OkStatus();
}

template <typename T>
std::vector<Episode> EncoderTrainer<T>::Draw(const RecallSet<T>& set,
                                             uint64_t stream,
                                             uint64_t first,
                                             size_t count) const {
  std::vector<Episode> episodes;
  for (size_t e = 0; e < count; ++e) {
    episodes.push_back(
        DrawEpisode(set, options_.seed, stream, first + e, shape().tokens(), options_.queries));
  }
  return episodes;
}

template <typename T>
absl::StatusOr<EncoderStepReport> EncoderTrainer<T>::Step(const Runtime& runtime,
                                                          const RecallSet<T>& set) {
  LETHE_RETURN_IF_ERROR(Check(set));
  if (set.tokens() != last_weights_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "set: has ", set.tokens(), " tokens, the trainer is for ", last_weights_.size()));
  }
  LETHE_RETURN_IF_ERROR(CheckMoreSteps(step()));
  return WithinMemory([&] { return Train(runtime, set); });
}

template <typename T>
absl::StatusOr<EncoderStepReport> EncoderTrainer<T>::Train(const Runtime& runtime,
                                                           const RecallSet<T>& set) {
  EncoderStepReport report;
  const std::vector<Episode> episodes =
      Draw(set, kTrainingStream, optimizer_.step * options_.episodes, options_.episodes);
  LETHE_RETURN_IF_ERROR(RunEpisodes<T>(runtime, encoder_, values_, set, shape(), episodes,
                                       last_weights_, last_labels_, &workspace_, gradient_,
                                       &report.recall, &report.gates));
  ToMean(&report.recall);
  report.update = Update<T>(runtime.team, options_.optimizer, encoder_.table(), gradient_,
                            &optimizer_, values_);
  report.step = optimizer_.step;
  const batched::Solution<T>& solution = workspace_.solution;
  for (size_t e = 0; e < episodes.size(); ++e) {
    for (size_t i = 0; i < options_.memory; ++i) {
      const uint32_t token = episodes[e].tokens[i];
      last_weights_[token] = solution.weights[e * options_.memory + i];
      last_labels_[token] = solution.labels[e * options_.memory + i];
    }
  }
  return report;
}

template <typename T>
absl::StatusOr<EncoderStepReport> EncoderTrainer<T>::Evaluate(const Runtime& runtime,
                                                              const RecallSet<T>& set,
                                                              uint64_t episodes,
                                                              const std::function<bool()>& stop) {
  LETHE_RETURN_IF_ERROR(Check(set));
  return WithinMemory([&]() -> absl::StatusOr<EncoderStepReport> {
    EncoderStepReport report;
    report.step = optimizer_.step;
    for (uint64_t done = 0; done < episodes;) {
      if (stop()) return absl::CancelledError("stopped while measuring");
      const size_t part = std::min<uint64_t>(options_.episodes, episodes - done);
      const std::vector<Episode> drawn = Draw(set, kEvaluationStream, done, part);
      LETHE_RETURN_IF_ERROR(RunEpisodes<T>(runtime, encoder_, values_, set, shape(), drawn, {}, {},
                                           &workspace_, {}, &report.recall, &report.gates));
      done += part;
    }
    ToMean(&report.recall);
    return report;
  });
}

template <typename T>
std::string EncoderTrainer<T>::Checkpoint() const {
  ByteWriter writer;
  WriteHead<T>(kCheckpointLine, &writer);
  WriteOptions(options_.encoder, &writer);
  WriteOptions(options_.optimizer, &writer);
  writer.Write<uint64_t>(options_.memory);
  writer.Write<uint64_t>(options_.local);
  writer.Write<uint64_t>(options_.queries);
  writer.Write<uint64_t>(options_.episodes);
  writer.Write(options_.seed);
  writer.Write(optimizer_.step);
  writer.Write(optimizer_.skipped);
  writer.Write<uint64_t>(last_weights_.size());
  writer.WriteArray(values_);
  writer.WriteArray(optimizer_.mean);
  writer.WriteArray(optimizer_.squares);
  writer.WriteArray(last_weights_);
  writer.WriteArray(last_labels_);
  return writer.Take();
}

template <typename T>
absl::StatusOr<EncoderTrainer<T>> EncoderTrainer<T>::Restore(std::string_view bytes) {
  return WithinMemory([bytes] { return Read(bytes); });
}

template <typename T>
absl::StatusOr<EncoderTrainer<T>> EncoderTrainer<T>::Read(std::string_view bytes) {
  ByteReader reader(bytes);
  LETHE_RETURN_IF_ERROR(ReadHead<T>("checkpoint", kCheckpointLine, &reader));
  EncoderTrainerOptions options;
  options.encoder = ReadOptions<EncoderOptions>(&reader);
  options.optimizer = ReadOptions<OptimizerOptions>(&reader);
  options.memory = reader.Read<uint64_t>();
  options.local = reader.Read<uint64_t>();
  options.queries = reader.Read<uint64_t>();
  options.episodes = reader.Read<uint64_t>();
  options.seed = reader.Read<uint64_t>();
  if (!reader.ok() || !Validate(options).ok()) return Damaged("checkpoint", "bad options");
  LETHE_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(options.encoder));
  EncoderTrainer trainer(options, std::move(encoder));
  trainer.optimizer_.step = reader.Read<uint64_t>();
  trainer.optimizer_.skipped = reader.Read<uint64_t>();
  const size_t tokens = reader.Read<uint64_t>();
  const size_t size = trainer.encoder_.table().size();
  trainer.values_ = reader.ReadArray<T>(size);
  trainer.optimizer_.mean = reader.ReadArray<T>(size);
  trainer.optimizer_.squares = reader.ReadArray<T>(size);
  trainer.last_weights_ = reader.ReadArray<T>(tokens);
  trainer.last_labels_ = reader.ReadArray<uint8_t>(tokens);
  if (!reader.AtEnd() || tokens < options.memory + options.local || tokens > kMaxTokens) {
    return Damaged("checkpoint", "has not the length that its options give");
  }
  if (!AllFinite(trainer.values_)) {
    return Damaged("checkpoint", "holds numbers that are not finite");
  }
  if (const absl::Status status = Validate(trainer.optimizer_); !status.ok()) {
    return Damaged("checkpoint", status.message());
  }
  if (!LabelsFollowWeights<T>(trainer.last_weights_, trainer.last_labels_,
                              static_cast<T>(options.encoder.box))) {
    return Damaged("checkpoint", "has weights outside [0, C] or labels that are not theirs");
  }
  trainer.gradient_.resize(size);
  return trainer;
}

template <typename T>
std::string EncoderTrainer<T>::Artefact() const {
  ByteWriter writer;
  WriteHead<T>(kArtefactLine, &writer);
  WriteOptions(options_.encoder, &writer);
  writer.WriteArray(values_);
  return writer.Take();
}

template <typename T>
absl::StatusOr<TrainedEncoder<T>> ReadEncoderArtefact(std::string_view bytes) {
  ByteReader reader(bytes);
  LETHE_RETURN_IF_ERROR(ReadHead<T>("artefact", kArtefactLine, &reader));
  const auto options = ReadOptions<EncoderOptions>(&reader);
  if (!reader.ok() || !Validate(options).ok()) return Damaged("artefact", "bad options");
  LETHE_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Create(options));
  TrainedEncoder<T> trained{std::move(encoder), {}};
  trained.values = reader.ReadArray<T>(trained.encoder.table().size());
  if (!reader.AtEnd()) return Damaged("artefact", "has not the length that its options give");
  if (!AllFinite(trained.values)) return Damaged("artefact", "holds numbers that are not finite");
  return trained;
}

#define LETHE_INSTANTIATE(T)        \
  template class EncoderTrainer<T>; \
  template absl::StatusOr<TrainedEncoder<T>> ReadEncoderArtefact<T>(std::string_view);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
