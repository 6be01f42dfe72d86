#include "core/training/job_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace lethe::training {
namespace {

using jobs::JobKind;

// What computes names its own options; a person has set those of the job.
absl::Status InWordsOf(JobKind kind, const absl::Status& status) {
  if (status.ok()) return status;
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"memory:", "memory_tokens:"},
      {"local:", "local_tokens:"},
      {"optimizer.peak_rate:", "learning_rate:"},
      {"optimizer.last_rate:", "last_learning_rate:"},
      {"optimizer.decay:", "weight_decay:"},
      {"optimizer.", ""},
      {"gate.width:", "gate_width:"},
      {"gate.scale:", "gate_scale:"},
      {"gate.", ""},
      {"encoder.", ""},
      {"model.", ""},
  };
  absl::string_view rest = status.message();
  absl::string_view name;
  for (const auto& [from, to] : kNames) {
    if (absl::ConsumePrefix(&rest, from)) {
      name = to;
      break;
    }
  }
  return absl::Status(status.code(), absl::StrCat(jobs::JobKindName(kind), ".", name, rest));
}

// What a checkpoint has beside arrays of parameters.
constexpr uint64_t kCheckpointHead = uint64_t{64} << 10;

absl::Status CheckSize(JobKind kind, absl::string_view field, uint64_t parameters, uint64_t most) {
  // The parameters and two moments of each, as floats.
  const uint64_t bytes = 3 * sizeof(float) * parameters + kCheckpointHead;
  if (bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(jobs::JobKindName(kind), ".", field, ": ",
                                                 parameters, " parameters give checkpoints of ",
                                                 bytes, " bytes, at most ", most, " are allowed"));
}

absl::Status CheckTogether(const jobs::CalibrateConfig& config, const MemoryShape&, uint64_t) {
  const double largest = *std::ranges::max_element(config.boxes);
  if (largest * static_cast<double>(config.tokens) > 1.0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "calibrate.boxes: one of them must be above 1 / tokens, or no weights add up to one");
}

absl::Status CheckTogether(const jobs::TrainEncoderConfig& config,
                           const MemoryShape& memory,
                           uint64_t most) {
  const model::EncoderTrainerOptions options = OptionsOf(config, memory);
  if (absl::Status status = Validate(options); !status.ok()) {
    return InWordsOf(JobKind::kTrainEncoder, status);
  }
  LETHE_ASSIGN_OR_RETURN(const model::Encoder encoder, model::Encoder::Create(options.encoder));
  return CheckSize(JobKind::kTrainEncoder, "projected_key", encoder.table().size(), most);
}

absl::Status CheckTogether(const jobs::TrainLmConfig& config, const MemoryShape&, uint64_t most) {
  const model::LanguageTrainerOptions options = OptionsOf(config);
  if (absl::Status status = Validate(options); !status.ok()) {
    return InWordsOf(JobKind::kTrainLm, status);
  }
  LETHE_ASSIGN_OR_RETURN(const model::LanguageModel model,
                         model::LanguageModel::Create(options.model));
  return CheckSize(JobKind::kTrainLm, "width", model.table().size(), most);
}

template <typename Config>
model::OptimizerOptions OptimizerOf(const Config& config) {
  model::OptimizerOptions options;
  options.peak_rate = config.learning_rate;
  options.last_rate = std::min(config.last_learning_rate, config.learning_rate);
  options.warm_up = std::min(config.warm_up, config.steps);
  options.steps = config.steps;
  options.beta1 = config.beta1;
  options.beta2 = config.beta2;
  options.clip = config.clip;
  return options;
}

}  // namespace

absl::string_view KernelName(batched::KernelKind kind) {
  return jobs::KernelWords()[static_cast<size_t>(kind)];
}

batched::KernelKind KernelOf(jobs::JobKernel kernel, const MemoryShape& memory) {
  return kernel == jobs::JobKernel::kMemory ? memory.kernel
                                            : static_cast<batched::KernelKind>(kernel);
}

absl::Status CheckConfig(const jobs::JobConfig& config,
                         const MemoryShape& memory,
                         uint64_t most_file_bytes) {
  LETHE_RETURN_IF_ERROR(jobs::CheckFields(config));
  return std::visit([&](const auto& one) { return CheckTogether(one, memory, most_file_bytes); },
                    config);
}

model::EncoderTrainerOptions OptionsOf(const jobs::TrainEncoderConfig& config,
                                       const MemoryShape& memory) {
  model::EncoderTrainerOptions options;
  model::EncoderOptions& encoder = options.encoder;
  encoder.key_dimension = memory.key_dimension;
  encoder.value_dimension = memory.value_dimension;
  encoder.projected_key = config.projected_key;
  encoder.projected_value = config.projected_value;
  encoder.unit_length = config.unit_length;
  encoder.kernel = KernelOf(config.kernel, memory);
  encoder.box = config.box;
  encoder.ridge = config.ridge;
  encoder.width = config.width;
  if (config.width == 0 && encoder.kernel == memory.kernel &&
      encoder.key_out() == memory.key_dimension) {
    encoder.width = memory.parameter;
  }
  encoder.scale = config.scale;
  encoder.sharpness = config.sharpness;
  options.optimizer = OptimizerOf(config);
  options.memory = config.memory_tokens;
  options.local = config.local_tokens;
  options.queries = config.queries;
  options.episodes = config.episodes;
  options.seed = config.seed;
  return options;
}

model::LanguageTrainerOptions OptionsOf(const jobs::TrainLmConfig& config) {
  model::LanguageTrainerOptions options;
  options.model.layers = config.layers;
  options.model.block = config.block;
  options.model.mixer.kind = static_cast<model::AttentionKind>(config.attention);
  options.model.mixer.width = config.width;
  options.model.mixer.heads = config.heads;
  options.model.mixer.window = config.window;
  options.model.mixer.chunk = config.chunk;
  model::SvddGateOptions& gate = options.model.mixer.gate;
  gate.kernel.kind = static_cast<batched::KernelKind>(config.kernel);
  gate.kernel.normalise = config.normalise;
  gate.box = config.box;
  gate.ridge = config.ridge;
  gate.width = config.gate_width;
  gate.scale = config.gate_scale;
  options.model.mlp = static_cast<model::MlpKind>(config.mlp);
  options.model.mlp_width = config.mlp_width;
  options.model.norm = static_cast<model::NormKind>(config.norm);
  options.optimizer = OptimizerOf(config);
  options.optimizer.decay = config.weight_decay;
  options.batch = config.batch;
  options.seed = config.seed;
  return options;
}

}  // namespace lethe::training
