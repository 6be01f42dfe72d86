// `char-lm`: bits a character of a small language model with the hybrid's attention, against a
// sliding window that keeps as many bytes.
//
// The published set-up in small: two layers, at most 100,000 parameters, blocks of 256 characters
// in chunks of 64. The last tenth of the text judges, cut into blocks that follow each other, every
// character of a block counted. A window is as long as what the hybrid of the same seed keeps at
// the end of a block.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/bench/training.h"

namespace lethe::bench {
namespace {

using model::AttentionKind;

constexpr size_t kMostParameters = 100'000;
constexpr AttentionKind kKinds[] = {AttentionKind::kHybrid, AttentionKind::kWindow,
                                    AttentionKind::kFull};

model::LanguageTrainerOptions OptionsOf(bool quick, uint64_t steps, uint64_t seed) {
  model::LanguageTrainerOptions options;
  options.model.layers = 2;
  options.model.block = quick ? 64 : 256;
  options.model.mixer.kind = AttentionKind::kHybrid;
  options.model.mixer.width = quick ? 16 : 52;
  options.model.mixer.heads = 4;
  options.model.mixer.chunk = quick ? 16 : 64;
  options.optimizer.steps = steps;
  options.optimizer.warm_up = std::min<uint64_t>(100, steps / 4);
  options.batch = 8;
  options.seed = seed;
  return options;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto steps = static_cast<uint64_t>(settings.Count("--steps", 1000, 20));
  const auto seeds = static_cast<uint64_t>(settings.Count("--seeds", 3, 1));
  const model::LanguageTrainerOptions sizes = OptionsOf(settings.quick, steps, 1);
  const size_t block = sizes.model.block;
  std::string text;
  if (settings.Has("--text")) {
    LETHE_ASSIGN_OR_RETURN(text, ReadText(settings.Text("--text", ""), 40 * block));
  } else {
    text = MadeUpText(settings.quick ? 20'000 : 1'000'000, settings.seed);
  }
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const size_t split = bytes.size() - bytes.size() / 10;
  const std::span<const uint8_t> last = bytes.subspan(split);
  LETHE_ASSIGN_OR_RETURN(
      const auto held_out,
      model::TextSamples::Create(last, block, model::TextOrder::kSequential, settings.seed));
  const uint64_t judged = std::min<uint64_t>(held_out->windows(), settings.quick ? 8 : 400);
  OneCore core;
  Result result;
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Bits a character of the last tenth of ",
      settings.Has("--text") ? "the text" : "made-up text", " (", judged, " blocks of ", block,
      " characters, of ", bytes.size(), " in all) after ", steps, " steps of ", sizes.batch,
      " blocks; ", sizes.model.layers, " layers, d ", sizes.model.mixer.width, ", ",
      sizes.model.mixer.heads, " heads, chunk ", sizes.model.mixer.chunk,
      ". State: what a layer keeps at the end of a block. Full attention keeps the block.");
  table.columns = {{"seed", ""},    {"attention", ""}, {"bits", "", 4},    {"window", ""},
                   {"state", "kB"}, {"supports", ""},  {"parameters", ""}, {"training", "s"}};
  Plot& plot = result.plot.emplace();
  plot.title = "Bits a character, held out";
  plot.y_label = "bits";
  for (const AttentionKind kind : kKinds) {
    plot.series.push_back({std::string(model::AttentionKindName(kind)), {}});
  }
  std::vector<double> bits[std::size(kKinds)];
  size_t most_parameters = 0;
  uint64_t problems = 0;
  uint64_t failed = 0;
  bool below = true;
  for (uint64_t i = 0; i < seeds; ++i) {
    const uint64_t seed = settings.seed + i;
    result.seeds.push_back(seed);
    plot.categories.push_back(absl::StrCat("seed ", seed));
    LETHE_ASSIGN_OR_RETURN(
        const auto training,
        model::TextSamples::Create(bytes.first(split), block, model::TextOrder::kRandom, seed));
    model::LanguageTrainerOptions options = OptionsOf(settings.quick, steps, seed);
    const model::MixerOptions hybrid = options.model.mixer;
    double state = 0.0;
    for (size_t k = 0; k < std::size(kKinds); ++k) {
      if (kKinds[k] != AttentionKind::kHybrid) {
        options.model.mixer = AtEqualState(hybrid, kKinds[k], state);
      }
      LETHE_ASSIGN_OR_RETURN(const TrainedModel trained,
                             TrainModel(core.get(), options, *training, *held_out, judged));
      const bool gated = trained.kind == AttentionKind::kHybrid;
      if (gated) state = trained.state;
      bits[k].push_back(trained.held_out.loss / std::numbers::ln2);
      most_parameters = std::max(most_parameters, trained.parameters);
      problems += trained.held_out.problems;
      failed += trained.held_out.failed;
      const bool window = trained.kind == AttentionKind::kWindow;
      table.rows.push_back(
          {absl::StrCat(seed), std::string(model::AttentionKindName(trained.kind)), bits[k].back(),
           window ? Cell(static_cast<int64_t>(options.model.mixer.window)) : Cell(),
           trained.state / 1e3, gated ? Cell(trained.held_out.supports) : Cell(),
           static_cast<int64_t>(trained.parameters), trained.seconds});
      plot.series[k].y.push_back(bits[k].back());
    }
    below = below && bits[0].back() < bits[1].back();
  }
  const Spread ours = SpreadOf(bits[0]);
  const Spread window = SpreadOf(bits[1]);
  // The quick form trains for too short a time to tell.
  if (!settings.quick)
    result.claims.push_back(
        {absl::StrCat("character model: bits a character of the hybrid against a sliding window of "
                      "as many bytes, mean of ",
                      seeds, seeds == 1 ? " seed" : " seeds"),
         absl::StrFormat("%.3f (%.3f to %.3f), window %.3f (%.3f to %.3f)", ours.mean, ours.least,
                         ours.most, window.mean, window.least, window.most),
         "below the window for every seed", below});
  result.claims.push_back({"character model: parameters", absl::StrCat(most_parameters),
                           absl::StrCat("at most ", kMostParameters),
                           most_parameters <= kMostParameters});
  result.claims.push_back({"character model: held-out problems unsolved",
                           absl::StrCat(failed, " of ", problems), "0",
                           failed == 0 && problems > 0});
  return result;
}

const Registration kRegistration(
    {"char-lm",
     "bits a character, the hybrid against a sliding window",
     {{"--text", "FILE", "any text instead of made-up words", Flag::Kind::kText},
      {"--steps", "N", "of each training (1000, quick 20)", Flag::Kind::kCount},
      {"--seeds", "N", "trainings of each (3, quick 1)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
