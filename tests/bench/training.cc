#include "tests/bench/training.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/batched/cpu/cpu_backend.h"
#include "core/model/equal_state.h"
#include "tests/bench/data.h"
#include "tests/bench/perf_timing.h"

namespace lethe::bench {
namespace {

using model::AttentionKind;

constexpr size_t kNumberBytes = sizeof(float);

std::string MadeUpWord(Random& random) {
  constexpr std::string_view kConsonants = "bcdfghklmnprstvw";
  constexpr std::string_view kVowels = "aeiou";
  std::string word;
  const size_t syllables = 1 + random.Below(3);
  for (size_t i = 0; i < syllables; ++i) {
    word += kConsonants[random.Below(kConsonants.size())];
    word += kVowels[random.Below(kVowels.size())];
    if (random.Below(3) == 0) word += kConsonants[random.Below(kConsonants.size())];
  }
  return word;
}

size_t WithWeight(const batched::Solution<float>& solution) {
  return static_cast<size_t>(
      std::ranges::count_if(solution.weights, [](float weight) { return weight > 0; }));
}

// Tokens with weight in the longest prefix, mean over layers and heads; nothing where no layer has
// a prefix.
double SupportsOf(const model::LanguageModelWorkspace<float>& workspace) {
  size_t kept = 0;
  size_t problems = 0;
  for (const auto& layer : workspace.layers) {
    if (layer.mixer.gate.chunks.empty()) continue;
    const batched::Solution<float>& solution = layer.mixer.gate.chunks.back().solution;
    kept += WithWeight(solution);
    problems += solution.outcome.size();
  }
  return problems == 0 ? 0.0 : static_cast<double>(kept) / static_cast<double>(problems);
}

size_t Right(const model::Matrix<float>& probabilities, std::span<const uint32_t> targets) {
  size_t right = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == model::kNoTarget) continue;
    const float* row = probabilities.row(i);
    const auto likeliest =
        static_cast<uint32_t>(std::max_element(row, row + probabilities.columns) - row);
    if (likeliest == targets[i]) ++right;
  }
  return right;
}

}  // namespace

OneCore::OneCore() : team_(1), backend_(batched::MakeCpuBackend(1)) {}

std::string MadeUpText(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<std::string> frequent;
  std::vector<std::string> rare;
  while (frequent.size() < 60) frequent.push_back(MadeUpWord(random));
  while (rare.size() < 2000) rare.push_back(MadeUpWord(random) + MadeUpWord(random));
  std::string text;
  while (text.size() < bytes) {
    std::vector<size_t> topics;
    for (size_t i = 0; i < 3; ++i) topics.push_back(random.Below(rare.size()));
    const size_t sentences = 3 + random.Below(4);
    for (size_t s = 0; s < sentences; ++s) {
      const size_t words = 4 + random.Below(7);
      for (size_t w = 0; w < words; ++w) {
        // Frequent words by their rank, about as 1 / rank.
        const double u = random.Uniform();
        const auto rank = static_cast<size_t>(u * u * static_cast<double>(frequent.size()));
        text += random.Below(4) == 0 ? rare[topics[random.Below(topics.size())]] : frequent[rank];
        text += w + 1 == words ? ". " : " ";
      }
    }
    text += "\n";
  }
  return text;
}

absl::StatusOr<std::string> ReadText(const std::string& path, size_t at_least) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().size() < at_least) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", text.str().size(),
                                                   " bytes, at least ", at_least, " are needed"));
  }
  return text.str();
}

absl::StatusOr<Evaluation> Evaluate(const model::Runtime& runtime,
                                    const model::LanguageTrainer<float>& trainer,
                                    const model::SampleSource& source,
                                    uint64_t first,
                                    uint64_t count) {
  const size_t length = source.length();
  model::LanguageModelWorkspace<float> workspace;
  Evaluation total;
  size_t right = 0;
  for (uint64_t done = 0; done < count;) {
    const uint64_t part = std::min<uint64_t>(trainer.options().batch, count - done);
    std::vector<uint32_t> tokens(part * length);
    std::vector<uint32_t> targets(part * length);
    for (uint64_t i = 0; i < part; ++i) {
      source.Fill(first + done + i, std::span(tokens).subspan(i * length, length),
                  std::span(targets).subspan(i * length, length));
    }
    LETHE_ASSIGN_OR_RETURN(const model::LossReport report,
                           trainer.model().Forward<float>(runtime, trainer.values(), part, tokens,
                                                          targets, &workspace));
    total.loss += report.loss * static_cast<double>(report.targets);
    total.targets += report.targets;
    total.supports += SupportsOf(workspace) * static_cast<double>(part);
    total.problems += report.gates.problems;
    total.failed += report.gates.unsolved + report.gates.without_weights;
    right += Right(model::LanguageModel::Probabilities(workspace), targets);
    done += part;
  }
  total.loss /= static_cast<double>(total.targets);
  total.accuracy = static_cast<double>(right) / static_cast<double>(total.targets);
  total.supports /= static_cast<double>(count);
  return total;
}

model::MixerOptions AtEqualState(const model::MixerOptions& hybrid,
                                 AttentionKind kind,
                                 double bytes) {
  model::MixerOptions options = hybrid;
  options.kind = kind;
  if (kind == AttentionKind::kWindow) {
    options.window = model::WindowOfBytes(hybrid, bytes, kNumberBytes);
  } else if (kind != AttentionKind::kFull) {
    // Of no length: only windows and chunks have one.
    while (options.heads > 1 && model::StateBytes(options, 0, 0, kNumberBytes) < bytes) {
      do {
        --options.heads;
      } while (options.width % options.heads != 0);
    }
  }
  return options;
}

absl::StatusOr<TrainedModel> TrainModel(const model::Runtime& runtime,
                                        const model::LanguageTrainerOptions& options,
                                        const model::SampleSource& training,
                                        const model::SampleSource& held_out,
                                        uint64_t held_out_samples) {
  LETHE_ASSIGN_OR_RETURN(auto trainer, model::LanguageTrainer<float>::Create(options));
  TrainedModel trained;
  trained.kind = options.model.mixer.kind;
  trained.parameters = trainer.values().size();
  const double begin = ThreadSeconds();
  while (!trainer.done()) {
    LETHE_ASSIGN_OR_RETURN(const model::StepReport report, trainer.Step(runtime, training));
    if (report.update.skipped) ++trained.skipped;
  }
  trained.seconds = ThreadSeconds() - begin;
  LETHE_ASSIGN_OR_RETURN(trained.held_out,
                         Evaluate(runtime, trainer, held_out, 0, held_out_samples));
  trained.state = model::StateBytes(options.model.mixer, held_out.length(),
                                    trained.held_out.supports, kNumberBytes);
  return trained;
}

Spread SpreadOf(const std::vector<double>& values) {
  LETHE_CHECK(!values.empty());
  const auto [least, most] = std::ranges::minmax(values);
  return {std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          least, most};
}

}  // namespace lethe::bench
