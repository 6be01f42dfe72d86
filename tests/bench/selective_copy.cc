// `selective-copy`: can a model say again what stood among filler, and what does it keep for that?
//
// Data tokens of 16 kinds stand anywhere among filler, in order; then a mark, after which the model
// has to say them again. Each length of filler has models of its own, all of one size.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/bench/training.h"

namespace lethe::bench {
namespace {

using model::AttentionKind;

constexpr size_t kData = 16;  // kinds of data tokens
constexpr size_t kChunk = 16;
constexpr size_t kBatch = 16;
// The hybrid first: the others get its state.
constexpr AttentionKind kKinds[] = {AttentionKind::kHybrid, AttentionKind::kWindow,
                                    AttentionKind::kDeltaNet, AttentionKind::kLinear,
                                    AttentionKind::kFull};

model::LanguageTrainerOptions OptionsOf(size_t length, uint64_t steps, uint64_t seed) {
  model::LanguageTrainerOptions options;
  options.model.layers = 2;
  options.model.block = length;
  options.model.vocabulary = kData + 2;
  options.model.mixer.kind = AttentionKind::kHybrid;
  options.model.mixer.width = 64;
  options.model.mixer.heads = 4;
  options.model.mixer.chunk = kChunk;
  options.optimizer.steps = steps;
  options.optimizer.warm_up = std::min<uint64_t>(100, steps / 4);
  options.batch = kBatch;
  options.seed = seed;
  return options;
}

struct Row {
  size_t filler = 0;
  AttentionKind kind = AttentionKind::kFull;
  std::vector<double> recall;  // a seed
  double supports = 0.0;       // means over seeds
  double state = 0.0;
  double seconds = 0.0;
  uint64_t problems = 0;
  uint64_t failed = 0;

  void Add(const TrainedModel& trained, double share) {
    recall.push_back(trained.held_out.accuracy);
    supports += share * trained.held_out.supports;
    state += share * trained.state;
    seconds += share * trained.seconds;
    problems += trained.held_out.problems;
    failed += trained.held_out.failed;
  }
};

// All kinds at one length of filler, a row each.
absl::StatusOr<std::vector<Row>> Measure(const model::Runtime& runtime,
                                         size_t filler,
                                         size_t count,
                                         uint64_t steps,
                                         uint64_t samples,
                                         std::span<const uint64_t> seeds) {
  std::vector<Row> rows;
  for (const AttentionKind kind : kKinds) rows.push_back({filler, kind});
  for (const uint64_t seed : seeds) {
    LETHE_ASSIGN_OR_RETURN(const auto training,
                           model::SelectiveCopy::Create(kData, count, filler, 2 * seed));
    LETHE_ASSIGN_OR_RETURN(const auto held_out,
                           model::SelectiveCopy::Create(kData, count, filler, 2 * seed + 1));
    model::LanguageTrainerOptions options = OptionsOf(training->length(), steps, seed);
    const model::MixerOptions hybrid = options.model.mixer;
    double bytes = 0.0;
    for (Row& row : rows) {
      if (row.kind != AttentionKind::kHybrid) {
        options.model.mixer = AtEqualState(hybrid, row.kind, bytes);
      }
      LETHE_ASSIGN_OR_RETURN(const TrainedModel trained,
                             TrainModel(runtime, options, *training, *held_out, samples));
      if (row.kind == AttentionKind::kHybrid) bytes = trained.state;
      row.Add(trained, 1.0 / static_cast<double>(seeds.size()));
    }
  }
  return rows;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto count = static_cast<size_t>(settings.Count("--tokens", 16, 4));
  const auto steps = static_cast<uint64_t>(settings.Count("--steps", 8000, 4));
  const auto seeds = static_cast<uint64_t>(settings.Count("--seeds", 3, 1));
  const auto longest = static_cast<size_t>(settings.Count("--filler", 128, 32));
  const uint64_t samples = settings.quick ? 8 : 128;
  OneCore core;
  Result result;
  for (uint64_t i = 0; i < seeds; ++i) result.seeds.push_back(settings.seed + i);
  Plot& plot = result.plot.emplace();
  plot.title = "Selective copy: recall over filler";
  plot.x_label = "fillers";
  plot.y_label = "recall";
  plot.log_x = true;
  for (const AttentionKind kind : kKinds) {
    plot.series.push_back({std::string(model::AttentionKindName(kind)), {}});
  }
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Saying ", count, " data tokens of ", kData,
      " kinds again, in order, after they stood among ",
      "filler: share of held-out targets that the model found likeliest, mean over ", seeds,
      seeds == 1 ? " seed" : " seeds", ", least and most; chance is ", 1.0 / kData,
      ". Two layers, d 64, chunk ", kChunk, ", ", steps, " steps of ", kBatch,
      " samples. Supports: tokens with weight at the end of a sample, a head. State: bytes a layer "
      "keeps there; the others have the hybrid's or the most that they can, full attention all.");
  table.columns = {{"attention", ""}, {"filler", ""},   {"recall", ""},  {"least", ""},
                   {"most", ""},      {"supports", ""}, {"state", "kB"}, {"training", "s"}};
  uint64_t problems = 0;
  uint64_t failed = 0;
  for (size_t filler = std::min<size_t>(32, longest); filler <= longest; filler *= 2) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<Row> rows,
                           Measure(core.get(), filler, count, steps, samples, result.seeds));
    plot.x.push_back(static_cast<double>(filler));
    for (size_t k = 0; k < rows.size(); ++k) {
      const Row& row = rows[k];
      const Spread recall = SpreadOf(row.recall);
      plot.series[k].y.push_back(recall.mean);
      problems += row.problems;
      failed += row.failed;
      table.rows.push_back({std::string(model::AttentionKindName(row.kind)),
                            static_cast<int64_t>(filler), recall.mean, recall.least, recall.most,
                            row.kind == AttentionKind::kHybrid ? Cell(row.supports) : Cell(),
                            row.state / 1e3, row.seconds});
    }
  }
  result.claims.push_back({"selective copy: held-out problems unsolved",
                           absl::StrCat(failed, " of ", problems), "0",
                           failed == 0 && problems > 0});
  return result;
}

const Registration kRegistration(
    {"selective-copy",
     "copying data tokens from among filler, by attention",
     {{"--tokens", "N", "data tokens (16, quick 4)", Flag::Kind::kCount},
      {"--filler", "N", "longest filler, from 32 doubling (128, quick 32)", Flag::Kind::kCount},
      {"--steps", "N", "of each training (8000, quick 4)", Flag::Kind::kCount},
      {"--seeds", "N", "trainings of each (3, quick 1)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
