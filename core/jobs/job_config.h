// What can be said of a training job: the fields of each kind with their names, bounds, defaults
// and meaning, in one list. The server checks and stores by it, the client sends by it, the command
// line makes its options of it, the worker runs by it; proto/lethe/v1/job_service.proto has the
// same fields, and a test holds the two against each other.
//
// What fields must be together, and how large a job may be, is for core/training/job_options.h to
// say, which knows what computes. Threads: values, and functions without state.
#ifndef LETHE_CORE_JOBS_JOB_CONFIG_H_
#define LETHE_CORE_JOBS_JOB_CONFIG_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lethe::jobs {

inline constexpr size_t kMaxGrid = 64;  // values of a sweep
// A checkpoint, an artefact.
inline constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;

// Numbered as in proto/lethe/v1, as all here.
enum class JobKind : uint8_t { kCalibrate = 1, kTrainEncoder = 2, kTrainLm = 3 };
// "calibrate", "train_encoder", "train_lm"; empty for no kind.
absl::string_view JobKindName(JobKind kind);

enum class JobKernel : uint8_t {
  kMemory = 0,  // that of the memory
  kRbf = 1,
  kLaplacian = 2,
  kExpDot = 3,
  kDot = 4,
};
enum class LmAttention : uint8_t {
  kFull = 1,
  kWindow = 2,
  kHybrid = 3,
  kDeltaNet = 4,
  kLinear = 5,
  kLinearDecay = 6,
};
enum class LmMlp : uint8_t { kGelu = 1, kSwiglu = 2 };
enum class LmNorm : uint8_t { kRms = 1, kLayer = 2 };

// Sweeps box and kernel width over samples of a memory's tokens and recommends a pair.
struct CalibrateConfig {
  std::vector<double> boxes = {0.02, 0.05, 0.1, 0.2, 0.4};
  std::vector<double> widths = {0.25, 0.5, 1.0, 2.0, 4.0};
  JobKernel kernel = JobKernel::kMemory;
  double ridge = 1e-6;
  uint64_t tokens = 128;
  uint64_t samples = 16;
  uint64_t queries = 64;
  double target_supports = 0.5;
  double target_recall = 0.9;
  double target_condition = 1e8;
  double held_out = 0.2;
  uint64_t seed = 1;
  bool operator==(const CalibrateConfig&) const = default;
};

// Learns projections of raw vectors, kernel width and gate so that readouts recall values.
struct TrainEncoderConfig {
  uint64_t projected_key = 0;
  uint64_t projected_value = 0;
  bool unit_length = false;
  JobKernel kernel = JobKernel::kMemory;
  double box = 0.1;
  double ridge = 1e-3;
  double width = 0.0;
  double scale = 1.0;
  double sharpness = 1.0;
  uint64_t memory_tokens = 64;
  uint64_t local_tokens = 0;
  uint64_t queries = 64;
  uint64_t episodes = 8;
  uint64_t query_copies = 4;
  double query_noise = 0.1;
  uint64_t steps = 500;
  double learning_rate = 3e-3;
  double last_learning_rate = 3e-4;
  uint64_t warm_up = 20;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double clip = 1.0;
  double held_out = 0.2;
  uint64_t evaluation = 32;
  uint64_t seed = 1;
  bool operator==(const TrainEncoderConfig&) const = default;
};

// Trains a small causal language model on the payloads of the tokens, in the order of insertion.
struct TrainLmConfig {
  LmAttention attention = LmAttention::kHybrid;
  uint64_t layers = 2;
  uint64_t width = 64;
  uint64_t heads = 2;
  uint64_t block = 128;
  uint64_t window = 32;
  uint64_t chunk = 32;
  JobKernel kernel = JobKernel::kRbf;
  bool normalise = false;
  double box = 0.25;
  double ridge = 1e-3;
  double gate_width = 0.0;
  double gate_scale = 1.0;
  LmMlp mlp = LmMlp::kGelu;
  uint64_t mlp_width = 0;
  LmNorm norm = LmNorm::kRms;
  uint64_t steps = 1000;
  uint64_t batch = 8;
  double learning_rate = 3e-3;
  double last_learning_rate = 3e-4;
  uint64_t warm_up = 50;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double weight_decay = 0.1;
  double clip = 1.0;
  double held_out = 0.1;
  uint64_t evaluation = 64;
  uint64_t seed = 1;
  bool operator==(const TrainLmConfig&) const = default;
};

// In the order of JobKind.
using JobConfig = std::variant<CalibrateConfig, TrainEncoderConfig, TrainLmConfig>;
inline JobKind KindOf(const JobConfig& config) { return static_cast<JobKind>(config.index() + 1); }
// The defaults of a kind.
JobConfig DefaultsOf(JobKind kind);

// What is said of one field. `words`, of an enumeration: the word of each number; an empty one is
// no number of it.
struct FieldInfo {
  const char* name;
  double least = 0.0;
  double most = 0.0;
  const char* help;
  std::span<const absl::string_view> words = {};
};
std::span<const absl::string_view> KernelWords();
std::span<const absl::string_view> AttentionWords();
std::span<const absl::string_view> MlpWords();
std::span<const absl::string_view> NormWords();

inline constexpr double kMaxSeed = 9007199254740991.0;  // what a number in JSON holds exactly

// Calls visit(info, member) for each field, in an order that never changes; members are uint64_t,
// double, bool, std::vector<double> or an enumeration. `Config` may be const.
template <typename Config, typename Visit>
void VisitFields(Config& config, const Visit& visit) requires
    std::same_as<std::remove_const_t<Config>, CalibrateConfig> {
  using F = FieldInfo;
  visit(F{"boxes", 1e-6, 1, "Boxes to try: the largest weight that a token may carry"},
        config.boxes);
  visit(F{"widths", 1e-6, 1e6, "Kernel widths to try, as factors on the median distance of keys"},
        config.widths);
  visit(F{"kernel", 0, 3, "Kernel to try them with", KernelWords()}, config.kernel);
  visit(F{"ridge", 1e-7, 1e3, "Ridge of the problems"}, config.ridge);
  visit(F{"tokens", 8, 512, "Tokens of a sample; fewer where the memory has fewer"}, config.tokens);
  visit(F{"samples", 1, 1024, "Samples of the memory that each pair is tried on"}, config.samples);
  visit(F{"queries", 1, 4096, "Held-out tokens that are asked for in each sample"}, config.queries);
  visit(F{"target_supports", 1e-6, 1, "Share of the tokens that may carry weight, at most"},
        config.target_supports);
  visit(F{"target_recall", 0, 1, "Share of the held-out tokens that are recalled, at least"},
        config.target_recall);
  visit(F{"target_condition", 1, 1e300, "Condition of the worst system that is solved, at most"},
        config.target_condition);
  visit(F{"held_out", 0.01, 0.9, "Share of the tokens that is held out"}, config.held_out);
  visit(F{"seed", 0, kMaxSeed, "Seed of samples and of what is held out"}, config.seed);
}
template <typename Config, typename Visit>
void VisitFields(Config& config, const Visit& visit) requires
    std::same_as<std::remove_const_t<Config>, TrainEncoderConfig> {
  using F = FieldInfo;
  visit(F{"projected_key", 0, 4096, "Dimension of projected keys; 0: as raw ones"},
        config.projected_key);
  visit(F{"projected_value", 0, 4096, "Dimension of projected values; 0: they stay as they are"},
        config.projected_value);
  visit(F{"unit_length", 0, 1, "Bring projected keys and queries to length 1"}, config.unit_length);
  visit(F{"kernel", 0, 3, "Kernel in the projected space", KernelWords()}, config.kernel);
  visit(F{"box", 1e-6, 1, "Largest weight of a token; times memory_tokens above 1"}, config.box);
  visit(F{"ridge", 1e-7, 1e3, "Ridge of the problems"}, config.ridge);
  visit(F{"width", 0, 1e6,
          "Parameter of the kernel before training; 0: the memory's with its own kernel, "
          "otherwise 1 / projected_key"},
        config.width);
  visit(F{"scale", 1e-6, 1e6, "Factor on the weights before training"}, config.scale);
  visit(F{"sharpness", 1e-6, 1e6, "Sharpness of the loss before training"}, config.sharpness);
  visit(F{"memory_tokens", 2, 512, "Tokens of an episode's memory"}, config.memory_tokens);
  visit(F{"local_tokens", 0, 4096, "Tokens of an episode's local chunk"}, config.local_tokens);
  visit(F{"queries", 1, 4096, "Queries of an episode"}, config.queries);
  visit(F{"episodes", 1, 4096, "Episodes of a step"}, config.episodes);
  visit(F{"query_copies", 1, 64, "Queries that are made of each key"}, config.query_copies);
  visit(F{"query_noise", 0, 100,
          "Noise on them, in standard deviations of the keys a dimension; 0: the keys themselves"},
        config.query_noise);
  visit(F{"steps", 1, 1e7, "Steps"}, config.steps);
  visit(F{"learning_rate", 1e-9, 1, "Learning rate at its peak"}, config.learning_rate);
  visit(F{"last_learning_rate", 0, 1, "Learning rate at the end, if below the peak"},
        config.last_learning_rate);
  visit(F{"warm_up", 0, 1e7, "Steps in which the learning rate rises, at most steps"},
        config.warm_up);
  visit(F{"beta1", 0, 0.9999, "Decay of the gradient's mean"}, config.beta1);
  visit(F{"beta2", 0, 0.999999, "Decay of the mean of its square"}, config.beta2);
  visit(F{"clip", 0, 1e6, "Longest gradient; 0: any"}, config.clip);
  visit(F{"held_out", 0, 0.9, "Share of the tokens that is held out, to be measured with"},
        config.held_out);
  visit(F{"evaluation", 1, 65536, "Episodes to measure with, before and after"}, config.evaluation);
  visit(F{"seed", 0, kMaxSeed, "Seed of parameters, episodes, noise and of what is held out"},
        config.seed);
}
template <typename Config, typename Visit>
void VisitFields(Config& config, const Visit& visit) requires
    std::same_as<std::remove_const_t<Config>, TrainLmConfig> {
  using F = FieldInfo;
  visit(F{"attention", 1, 6, "Kind of attention", AttentionWords()}, config.attention);
  visit(F{"layers", 1, 64, "Layers"}, config.layers);
  visit(F{"width", 1, 4096, "Width of the model"}, config.width);
  visit(F{"heads", 1, 256, "Heads; they divide width"}, config.heads);
  visit(F{"block", 1, 8192, "Bytes of context"}, config.block);
  visit(F{"window", 1, 8192, "Bytes that a position sees, of attention window"}, config.window);
  visit(F{"chunk", 2, 8192, "Bytes of a chunk, of attention hybrid; prefixes of at most 512"},
        config.chunk);
  visit(F{"kernel", 1, 4, "Kernel of the gates, of attention hybrid, as the next five",
          KernelWords()},
        config.kernel);
  visit(F{"normalise", 0, 1, "Bring keys to length 1 for it"}, config.normalise);
  visit(F{"box", 1e-6, 1, "Largest weight of a token; times chunk above 1"}, config.box);
  visit(F{"ridge", 1e-7, 1e3, "Ridge of the problems"}, config.ridge);
  visit(F{"gate_width", 0, 1e6, "Parameter of the kernel before training; 0: heads / width"},
        config.gate_width);
  visit(F{"gate_scale", 1e-6, 1e6, "Factor on the weights before training"}, config.gate_scale);
  visit(F{"mlp", 1, 2, "Kind of the position-wise part", MlpWords()}, config.mlp);
  visit(F{"mlp_width", 0, 16384, "Its width; 0: four times width"}, config.mlp_width);
  visit(F{"norm", 1, 2, "Kind of normalisation", NormWords()}, config.norm);
  visit(F{"steps", 1, 1e7, "Steps"}, config.steps);
  visit(F{"batch", 1, 65536, "Sequences of a step"}, config.batch);
  visit(F{"learning_rate", 1e-9, 1, "Learning rate at its peak"}, config.learning_rate);
  visit(F{"last_learning_rate", 0, 1, "Learning rate at the end, if below the peak"},
        config.last_learning_rate);
  visit(F{"warm_up", 0, 1e7, "Steps in which the learning rate rises, at most steps"},
        config.warm_up);
  visit(F{"beta1", 0, 0.9999, "Decay of the gradient's mean"}, config.beta1);
  visit(F{"beta2", 0, 0.999999, "Decay of the mean of its square"}, config.beta2);
  visit(F{"weight_decay", 0, 10, "Decay of the matrices"}, config.weight_decay);
  visit(F{"clip", 0, 1e6, "Longest gradient; 0: any"}, config.clip);
  visit(F{"held_out", 0, 0.9, "Share of the text, its end, that is held out, to be measured with"},
        config.held_out);
  visit(F{"evaluation", 1, 65536, "Blocks of it to measure with, at most, before and after"},
        config.evaluation);
  visit(F{"seed", 0, kMaxSeed, "Seed of parameters and of the order of the text"}, config.seed);
}

// Each field within its bounds. INVALID_ARGUMENT names it: "train_lm.heads: must be 1 to 256".
absl::Status CheckFields(const JobConfig& config);

// "0.25", "3,5" (a list), "true", "hybrid": sets the field of that name from text.
// INVALID_ARGUMENT names the field, or those there are; bounds are not looked at.
absl::Status SetField(absl::string_view name, absl::string_view text, JobConfig& config);
// The value of each field as SetField reads it, in order.
std::vector<std::pair<std::string, std::string>> FieldTexts(const JobConfig& config);

}  // namespace lethe::jobs

#endif  // LETHE_CORE_JOBS_JOB_CONFIG_H_
