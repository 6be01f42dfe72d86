// `train-step`: what a training step of the hybrid costs against softmax attention of the same
// shape, in the same run.
//
// Every kind trains on the same text in its own model. Kinds take turns, a few steps each, so that
// whatever else the machine does falls on all of them; a ratio is of one round.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/model/random.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"
#include "tests/bench/training.h"

namespace lethe::bench {
namespace {

using model::AttentionKind;

// The first is what the others are held against.
constexpr AttentionKind kTimed[] = {AttentionKind::kFull, AttentionKind::kHybrid,
                                    AttentionKind::kWindow, AttentionKind::kDeltaNet,
                                    AttentionKind::kLinear};
constexpr size_t kKinds = std::size(kTimed);
constexpr double kBar = 4.0;
constexpr double kPublished = 35.8;

struct Shape {
  const char* name;
  size_t layers, width, heads, block, chunk, batch;
};
// The first is the published one, but for its batch of 16.
constexpr Shape kShapes[] = {{"published", 4, 256, 4, 256, 64, 4},
                             {"short chunks", 4, 256, 4, 256, 32, 4},
                             {"long block", 4, 256, 4, 512, 64, 2},
                             {"narrow", 2, 64, 4, 256, 64, 8}};
constexpr Shape kQuickShapes[] = {{"small", 2, 32, 2, 64, 16, 2}};

model::LanguageModelOptions ModelOf(const Shape& shape, AttentionKind kind) {
  model::LanguageModelOptions options;
  options.layers = shape.layers;
  options.block = shape.block;
  options.mixer.kind = kind;
  options.mixer.width = shape.width;
  options.mixer.heads = shape.heads;
  options.mixer.chunk = options.mixer.window = shape.chunk;
  return options;
}

// Times of one kind, a round each, and ratios to the first kind's in the same round.
struct Times {
  Samples seconds;
  Samples ratio;
};
struct Timed {
  Times times[kKinds];
  size_t tokens = 0;  // a time is for
  size_t parameters[kKinds] = {};
  model::GateCounters gates;  // of the rounds
};

// work(kind) once for each kind a round.
template <typename Work>
void TakeTurns(int rounds, Timed* timed, const Work& work) {
  for (int round = 0; round < rounds; ++round) {
    double seconds[kKinds];
    for (size_t i = 0; i < kKinds; ++i) {
      // Each kind goes first as often as last.
      const size_t k = round % 2 == 0 ? i : kKinds - 1 - i;
      seconds[k] = SecondsOf([&] { work(k); });
    }
    for (size_t k = 0; k < kKinds; ++k) {
      timed->times[k].seconds.Add(seconds[k]);
      timed->times[k].ratio.Add(seconds[k] / seconds[0]);
    }
  }
}

// Whole steps: forward, backward, update.
absl::StatusOr<Timed> TimeSteps(const model::Runtime& runtime,
                                const Shape& shape,
                                std::span<const uint8_t> text,
                                uint64_t warm_steps,
                                int rounds,
                                uint64_t seed) {
  LETHE_ASSIGN_OR_RETURN(
      const auto source,
      model::TextSamples::Create(text, shape.block, model::TextOrder::kRandom, seed));
  std::vector<model::LanguageTrainer<float>> trainers;
  Timed timed;
  for (size_t k = 0; k < kKinds; ++k) {
    model::LanguageTrainerOptions options;
    options.model = ModelOf(shape, kTimed[k]);
    options.batch = shape.batch;
    options.optimizer.warm_up = 20;
    options.seed = seed;
    LETHE_ASSIGN_OR_RETURN(auto trainer, model::LanguageTrainer<float>::Create(options));
    for (uint64_t i = 0; i < warm_steps; ++i) {
      LETHE_RETURN_IF_ERROR(trainer.Step(runtime, *source).status());
    }
    timed.parameters[k] = trainer.values().size();
    trainers.push_back(std::move(trainer));
  }
  timed.tokens = shape.batch * shape.block;
  model::GateCounters gates;
  TakeTurns(rounds, &timed, [&](size_t k) {
    const auto report = trainers[k].Step(runtime, *source);
    LETHE_CHECK(report.ok());
    gates.Add(report->loss.gates);
  });
  timed.gates = gates;
  return timed;
}

// Forward and backward of the attention of one layer alone, its projections included, keys and
// queries N(0, 1).
Timed TimeLayers(const model::Runtime& runtime, const Shape& shape, int rounds, uint64_t seed) {
  struct Layer {
    model::MixerOptions options;
    model::ParameterTable table;
    model::MixerParts parts;
    std::vector<float> values, gradient;
    model::MixerWorkspace<float> workspace;
    model::MixerScratch<float> scratch;
  };
  std::vector<Layer> layers(kKinds);
  const size_t rows = shape.batch * shape.block;
  Timed timed;
  for (size_t k = 0; k < kKinds; ++k) {
    Layer& layer = layers[k];
    layer.options = ModelOf(shape, kTimed[k]).mixer;
    layer.parts = model::AddMixer(layer.options, "layer", &layer.table);
    layer.values.resize(layer.table.size());
    layer.gradient.resize(layer.table.size());
    model::InitialiseMixer<float>(layer.options, layer.parts, layer.table, seed,
                                  1.0 / std::sqrt(static_cast<double>(shape.width)), 1.0,
                                  layer.values);
    timed.parameters[k] = layer.table.size();
  }
  model::Buffer<float> x, y, x_bar, y_bar;
  const model::CounterRandom random(seed, 1);
  for (model::Buffer<float>* const buffer : {&x, &y_bar}) {
    const model::Matrix<float> matrix = buffer->Resize(rows, shape.width);
    for (size_t i = 0; i < rows * shape.width; ++i) {
      matrix.data[i] = static_cast<float>(random.Normal(i));
    }
  }
  y.Resize(rows, shape.width);
  x_bar.Resize(rows, shape.width);
  timed.tokens = rows;
  model::GateCounters gates;
  const auto pass = [&](size_t k) {
    Layer& layer = layers[k];
    std::ranges::fill(layer.gradient, 0.0F);
    LETHE_CHECK(model::MixerForward<float>(runtime, layer.options, shape.batch,
                                           {layer.table, layer.parts, layer.values}, x.get(),
                                           &layer.workspace, &layer.scratch, y.get(), &gates)
                    .ok());
    LETHE_CHECK(model::MixerBackward<float>(runtime, layer.options, shape.batch,
                                            {layer.table, layer.parts, layer.values}, x.get(),
                                            y_bar.get(), &layer.workspace, &layer.scratch,
                                            x_bar.get(), layer.gradient)
                    .ok());
  };
  for (size_t k = 0; k < kKinds; ++k) pass(k);  // room for everything
  gates = {};
  TakeTurns(rounds, &timed, pass);
  timed.gates = gates;
  return timed;
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void AddRows(const std::string& name, const Timed& timed, Table* table) {
  for (size_t k = 0; k < kKinds; ++k) {
    const bool gated = kTimed[k] == AttentionKind::kHybrid;
    const Samples& ratio = timed.times[k].ratio;
    table->rows.push_back(
        {absl::StrCat(name, ", ", std::string(model::AttentionKindName(kTimed[k]))),
         static_cast<int64_t>(timed.parameters[k]),
         static_cast<double>(timed.tokens) / timed.times[k].seconds.Median(), ratio.Median(),
         ratio.Min(), ratio.Max(),
         gated ? Cell(Share(timed.gates.kept, timed.gates.tokens)) : Cell()});
  }
}

std::string Describe(const Shape& shape) {
  return absl::StrCat(shape.layers, " layers, d ", shape.width, ", ", shape.heads, " heads, block ",
                      shape.block, ", chunk and window ", shape.chunk, ", batch ", shape.batch);
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int rounds = static_cast<int>(settings.Count("--rounds", 7, 3));
  const auto warm_steps = static_cast<uint64_t>(settings.Count("--warm-steps", 10, 2));
  std::string text;
  if (settings.Has("--text")) {
    LETHE_ASSIGN_OR_RETURN(text, ReadText(settings.Text("--text", ""), 1000));
  } else {
    text = MadeUpText(100'000, settings.seed);
  }
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const std::span<const Shape> shapes =
      settings.quick ? std::span<const Shape>(kQuickShapes) : std::span<const Shape>(kShapes);
  OneCore core;
  Result result;
  result.seeds = {settings.seed};
  const std::vector<Column> columns = {{"shape, attention", ""},
                                       {"parameters", ""},
                                       {"tokens", "/s"},
                                       {"times full", ""},
                                       {"least", ""},
                                       {"most", ""},
                                       {"kept", "%"}};
  Table steps{absl::StrCat("Steps of training (forward, backward, update) in fp32 on one core, ",
                           core.description(), ", after ", warm_steps,
                           " steps; medians of rounds, times the softmax attention's of the same "
                           "round, least and most. Kept: tokens of the prefixes with weight."),
              columns,
              {}};
  Table layers{
      "The attention of one layer alone, forward and backward with its projections, keys "
      "and queries N(0, 1).",
      columns,
      {}};
  Plot& plot = result.plot.emplace();
  plot.title = "Training against softmax attention of the same shape, one core, fp32";
  plot.y_label = "times as long";
  for (const AttentionKind kind : std::span(kTimed).subspan(1)) {
    plot.series.push_back({std::string(model::AttentionKindName(kind)), {}});
  }
  double worst_step = 0.0;
  double worst_layer = 0.0;
  uint64_t problems = 0;
  uint64_t failed = 0;
  for (const Shape& shape : shapes) {
    LETHE_ASSIGN_OR_RETURN(const Timed step,
                           TimeSteps(core.get(), shape, bytes, warm_steps, rounds, settings.seed));
    const Timed layer = TimeLayers(core.get(), shape, rounds, settings.seed);
    absl::StrAppend(&steps.title, " ", shape.name, ": ", Describe(shape), ".");
    AddRows(shape.name, step, &steps);
    AddRows(shape.name, layer, &layers);
    for (const auto& [timed, what, worst] : {std::tuple(&step, ": step", &worst_step),
                                             std::tuple(&layer, ": attention", &worst_layer)}) {
      plot.categories.push_back(absl::StrCat(shape.name, what));
      for (size_t k = 1; k < kKinds; ++k) {
        const double ratio = timed->times[k].ratio.Median();
        plot.series[k - 1].y.push_back(ratio);
        if (kTimed[k] == AttentionKind::kHybrid) *worst = std::max(*worst, ratio);
      }
    }
    for (const Timed* const timed : {&step, &layer}) {
      problems += timed->gates.problems;
      failed += timed->gates.unsolved + timed->gates.without_weights;
    }
  }
  result.tables = {std::move(steps), std::move(layers)};
  const auto claim = [&](const char* what, double ratio) {
    result.claims.push_back(
        {absl::StrCat("training on one core, fp32: ", what,
                      " of the hybrid against softmax attention of the same shape, worst of ",
                      shapes.size(), " shapes"),
         absl::StrCat(Short(ratio, 3), " times as long"),
         absl::StrCat("at most ", Short(kBar, 2), "; published ", Short(kPublished, 3)),
         ratio <= kBar});
  };
  claim("a step", worst_step);
  claim("the attention of a layer alone", worst_layer);
  result.claims.push_back({"training on one core: problems of these steps unsolved",
                           absl::StrCat(failed, " of ", problems), "0",
                           failed == 0 && problems > 0});
  return result;
}

const Registration kRegistration(
    {"train-step",
     "a training step of the hybrid against softmax attention",
     {{"--rounds", "N", "of each measurement (7, quick 3)", Flag::Kind::kCount},
      {"--warm-steps", "N", "steps before them (10, quick 2)", Flag::Kind::kCount},
      {"--text", "FILE", "to train on, instead of made-up words", Flag::Kind::kText}},
     Run});

}  // namespace
}  // namespace lethe::bench
