// `rare-recall-encoder`: does a trained encoder raise recall of what a memory has seen once?
//
// A token is four hours of one stay in intensive care, six vitals each; its value is a code of the
// stay. A memory has tokens of 64 stays, one each. Queries are later hours of the same stays, and a
// query is right when what it reads is nearest to the code of its stay. Stays that train and stays
// that judge have none in common; the raw keys have the kernel width that is best for them on the
// stays that train. Without a file, keys are made up: a third of their directions say whose they
// are, the others are noise, and a rotation mixes them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/model/encoder_trainer.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/icu.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"
#include "tests/bench/training.h"

namespace lethe::bench {
namespace {

using Set = model::RecallSet<float>;
using Trainer = model::EncoderTrainer<float>;

constexpr size_t kHours = 48;
constexpr size_t kWindow = 4;
constexpr size_t kKey = kWindow * kVitals;
constexpr size_t kCode = 16;
constexpr size_t kTokenHour = 11;  // the last hour of a token's window
constexpr size_t kQueryStep = 4;   // hours from there to a query, and on to the next
constexpr size_t kMemory = 64;
// Widths that the raw keys try: 2^k / kKey.
constexpr int kWidest = -4, kNarrowest = 8;

// One whom a memory may have seen: raw keys in the order of time, the first for the token, the
// others for queries.
struct Source {
  std::vector<std::vector<float>> keys;
};

std::vector<Source> SourcesOf(const std::vector<Stay>& stays) {
  std::vector<Source> sources;
  for (const Stay& stay : stays) {
    Source& source = sources.emplace_back();
    for (size_t last = kTokenHour; last < kHours; last += kQueryStep) {
      std::vector<float>& key = source.keys.emplace_back();
      for (size_t hour = last + 1 - kWindow; hour <= last; ++hour) {
        for (const double vital : stay.keys[hour]) key.push_back(static_cast<float>(vital));
      }
    }
  }
  return sources;
}

std::vector<Source> MadeUpSources(size_t count, uint64_t seed) {
  constexpr size_t kOwn = kKey / 3;
  constexpr double kJitter = 0.5;  // of what says who it is
  constexpr double kNoise = 1.5;   // of the rest
  Random random(seed);
  // A rotation: orthonormal rows, by Gram and Schmidt.
  std::vector<Vector> rotation;
  while (rotation.size() < kKey) {
    Vector row = random.Normals(kKey, 1.0);
    for (const Vector& other : rotation) {
      const double along = std::inner_product(row.begin(), row.end(), other.begin(), 0.0);
      for (size_t c = 0; c < kKey; ++c) row[c] -= along * other[c];
    }
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (double& entry : row) entry /= length;
    rotation.push_back(std::move(row));
  }
  std::vector<Source> sources(count);
  for (Source& source : sources) {
    const Vector own = random.Normals(kOwn, 1.0);
    for (size_t last = kTokenHour; last < kHours; last += kQueryStep) {
      std::vector<float>& key = source.keys.emplace_back();
      Vector direct = random.Near(own, kJitter);
      const Vector noise = random.Normals(kKey - kOwn, kNoise);
      direct.insert(direct.end(), noise.begin(), noise.end());
      for (const Vector& row : rotation) {
        key.push_back(
            static_cast<float>(std::inner_product(row.begin(), row.end(), direct.begin(), 0.0)));
      }
    }
  }
  return sources;
}

// A token of each of these, and the rest as queries.
absl::StatusOr<Set> SetOf(const std::vector<Source>& sources,
                          std::span<const size_t> chosen,
                          Random& random) {
  std::vector<float> keys, values, queries;
  std::vector<uint32_t> targets;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::vector<std::vector<float>>& own = sources[chosen[i]].keys;
    keys.insert(keys.end(), own[0].begin(), own[0].end());
    for (size_t c = 0; c < kCode; ++c) {
      values.push_back(static_cast<float>(random.Normal() / std::sqrt(kCode)));
    }
    for (size_t q = 1; q < own.size(); ++q) {
      queries.insert(queries.end(), own[q].begin(), own[q].end());
      targets.push_back(static_cast<uint32_t>(i));
    }
  }
  return Set::Create(std::move(keys), kKey, std::move(values), kCode, std::move(queries),
                     std::move(targets));
}

model::EncoderTrainerOptions OptionsOf(double width, uint64_t steps, uint64_t seed) {
  model::EncoderTrainerOptions options;
  options.encoder.key_dimension = kKey;
  options.encoder.value_dimension = kCode;
  options.encoder.width = width;
  options.encoder.sharpness = 4.0;
  options.optimizer.peak_rate = 0.01;
  options.optimizer.last_rate = 0.001;
  options.optimizer.steps = steps;
  options.optimizer.warm_up = std::min<uint64_t>(20, steps);
  options.memory = kMemory;
  options.seed = seed;
  return options;
}

struct Recalled {
  double recall = 0.0;
  double supports = 0.0;  // of kMemory
  double width = 0.0;
  uint64_t problems = 0;
  uint64_t failed = 0;
};
absl::StatusOr<Recalled> Measure(const model::Runtime& runtime,
                                 Trainer& trainer,
                                 const Set& set,
                                 uint64_t episodes) {
  LETHE_ASSIGN_OR_RETURN(const model::EncoderStepReport report,
                         trainer.Evaluate(runtime, set, episodes));
  Recalled recalled;
  recalled.recall = static_cast<double>(report.recall.recalled) /
                    static_cast<double>(std::max<size_t>(report.recall.counted, 1));
  recalled.supports =
      static_cast<double>(report.gates.kept) / static_cast<double>(report.gates.problems);
  recalled.width = std::exp(trainer.encoder().LogWidth(trainer.values()));
  recalled.problems = report.gates.problems;
  recalled.failed = report.gates.unsolved + report.gates.without_weights;
  return recalled;
}

struct Comparison {
  Recalled untuned, raw, trained;
  double trained_on = 0.0;  // recall on the stays that train
  double seconds = 0.0;
};
absl::StatusOr<Comparison> Compare(const model::Runtime& runtime,
                                   const std::vector<Source>& sources,
                                   uint64_t steps,
                                   uint64_t episodes,
                                   uint64_t seed) {
  Random random(seed);
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i < order.size(); ++i) {
    std::swap(order[i], order[i + random.Below(order.size() - i)]);
  }
  const std::span<const size_t> all(order);
  LETHE_ASSIGN_OR_RETURN(const Set training, SetOf(sources, all.first(all.size() / 2), random));
  LETHE_ASSIGN_OR_RETURN(const Set held_out, SetOf(sources, all.subspan(all.size() / 2), random));

  Comparison comparison;
  double best = -1.0;
  double width = 0.0;
  for (int k = kWidest; k <= kNarrowest; ++k) {
    const double tried = std::ldexp(1.0 / static_cast<double>(kKey), k);
    LETHE_ASSIGN_OR_RETURN(Trainer raw,
                           Trainer::Create(OptionsOf(tried, steps, seed), training.tokens()));
    LETHE_ASSIGN_OR_RETURN(const Recalled recalled, Measure(runtime, raw, training, episodes));
    if (recalled.recall <= best) continue;
    best = recalled.recall;
    width = tried;
  }
  LETHE_ASSIGN_OR_RETURN(
      Trainer untuned,
      Trainer::Create(OptionsOf(1.0 / static_cast<double>(kKey), steps, seed), training.tokens()));
  LETHE_ASSIGN_OR_RETURN(comparison.untuned, Measure(runtime, untuned, held_out, episodes));
  LETHE_ASSIGN_OR_RETURN(Trainer trainer,
                         Trainer::Create(OptionsOf(width, steps, seed), training.tokens()));
  LETHE_ASSIGN_OR_RETURN(comparison.raw, Measure(runtime, trainer, held_out, episodes));
  const double begin = ThreadSeconds();
  while (!trainer.done()) LETHE_RETURN_IF_ERROR(trainer.Step(runtime, training).status());
  comparison.seconds = ThreadSeconds() - begin;
  LETHE_ASSIGN_OR_RETURN(comparison.trained, Measure(runtime, trainer, held_out, episodes));
  LETHE_ASSIGN_OR_RETURN(const Recalled on_training, Measure(runtime, trainer, training, episodes));
  comparison.trained_on = on_training.recall;
  return comparison;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto steps = static_cast<uint64_t>(settings.Count("--steps", 400, 60));
  const auto seeds = static_cast<uint64_t>(settings.Count("--seeds", 3, 1));
  const uint64_t episodes = settings.quick ? 20 : 200;
  std::vector<Source> sources;
  if (settings.Has("--icu")) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<Stay> stays,
                           ReadStays(settings.Text("--icu", ""), kHours));
    if (stays.size() < 2 * kMemory) {
      return absl::InvalidArgumentError(absl::StrCat("--icu: has ", stays.size(), " stays of ",
                                                     kHours, " hours, at least ", 2 * kMemory,
                                                     " are needed"));
    }
    sources = SourcesOf(stays);
  } else {
    sources = MadeUpSources(settings.quick ? 400 : 1600, settings.seed);
  }
  const std::string keys = settings.Has("--icu") ? "hours of intensive care" : "made-up keys";
  OneCore core;
  Result result;
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Recall of later ", keys, " of ", kMemory, " in a memory that has seen each once; out of ",
      sources.size(), ", half of whom train and the other half judge. Chance is ",
      Short(1.0 / kMemory, 2), ". Supports are of ", kMemory, " tokens. Raw keys with gamma = 1/",
      kKey,
      " and with the gamma that is best for them on those who train; the encoder begins there.");
  table.columns = {{"seed", ""},  {"keys", ""},     {"recall", ""},
                   {"gamma", ""}, {"supports", ""}, {"training", "s"}};
  Plot& plot = result.plot.emplace();
  plot.title = "Recall of what a memory has seen once, held out";
  plot.y_label = "recall";
  plot.series = {{absl::StrCat("raw keys, gamma 1/", kKey), {}},
                 {"raw keys, best gamma", {}},
                 {"trained encoder", {}}};
  std::vector<double> raw, trained;
  bool above = true;
  uint64_t problems = 0;
  uint64_t failed = 0;
  for (uint64_t i = 0; i < seeds; ++i) {
    const uint64_t seed = settings.seed + i;
    result.seeds.push_back(seed);
    LETHE_ASSIGN_OR_RETURN(const Comparison comparison,
                           Compare(core.get(), sources, steps, episodes, seed));
    const std::string name = absl::StrCat(seed);
    for (const auto& [of, recalled] :
         {std::pair("raw", &comparison.untuned), std::pair("raw, best gamma", &comparison.raw),
          std::pair("trained", &comparison.trained)}) {
      table.rows.push_back(
          {name, of, recalled->recall, recalled->width, recalled->supports, Cell()});
      problems += recalled->problems;
      failed += recalled->failed;
    }
    table.rows.back().back() = comparison.seconds;
    table.rows.push_back(
        {name, "trained, those who train", comparison.trained_on, Cell(), Cell(), Cell()});
    plot.categories.push_back(absl::StrCat("seed ", seed));
    plot.series[0].y.push_back(comparison.untuned.recall);
    plot.series[1].y.push_back(comparison.raw.recall);
    plot.series[2].y.push_back(comparison.trained.recall);
    raw.push_back(comparison.raw.recall);
    trained.push_back(comparison.trained.recall);
    above = above && comparison.trained.recall > comparison.raw.recall;
  }
  result.claims.push_back({absl::StrCat("rare recall, trained encoder: held-out recall on ", keys,
                                        ", mean of ", seeds, seeds == 1 ? " seed" : " seeds"),
                           absl::StrFormat("%.3f, raw keys %.3f at their best gamma",
                                           SpreadOf(trained).mean, SpreadOf(raw).mean),
                           "above raw keys for every seed", above});
  result.claims.push_back({"rare recall, trained encoder: held-out problems unsolved",
                           absl::StrCat(failed, " of ", problems), "0",
                           failed == 0 && problems > 0});
  return result;
}

const Registration kRegistration(
    {"rare-recall-encoder",
     "recall of rare tokens, trained encoder against raw keys",
     {{"--icu", "FILE", "hours of intensive care instead of made-up ones", Flag::Kind::kText},
      {"--steps", "N", "of each training (400, quick 60)", Flag::Kind::kCount},
      {"--seeds", "N", "trainings (3, quick 1)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
