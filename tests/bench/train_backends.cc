// `train-backends`: tokens a second of training the published model, its problems solved by each
// backend of the machine; the rest of a step is the CPU's.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/batched/select.h"
#include "core/model/language_trainer.h"
#include "tests/bench/bench.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"
#include "tests/bench/training.h"

namespace lethe::bench {
namespace {

// 4 layers, d 256, 4 heads, blocks of 256 in chunks of 64, 16 blocks a step; quick: a small one.
model::LanguageTrainerOptions OptionsOf(bool quick, model::AttentionKind kind, uint64_t seed) {
  model::LanguageTrainerOptions options;
  options.model.layers = quick ? 1 : 4;
  options.model.block = quick ? 32 : 256;
  options.model.mixer.kind = kind;
  options.model.mixer.width = quick ? 16 : 256;
  options.model.mixer.heads = quick ? 2 : 4;
  options.model.mixer.chunk = options.model.mixer.window = quick ? 16 : 64;
  options.batch = quick ? 2 : 16;
  options.seed = seed;
  return options;
}

struct Trained {
  double tokens = 0.0;  // a second on the clock
  size_t parameters = 0;
  model::GateCounters gates;
};

absl::StatusOr<Trained> Train(const model::Runtime& runtime,
                              const model::LanguageTrainerOptions& options,
                              std::span<const uint8_t> text,
                              int rounds) {
  LETHE_ASSIGN_OR_RETURN(const auto source,
                         model::TextSamples::Create(text, options.model.block,
                                                    model::TextOrder::kRandom, options.seed));
  LETHE_ASSIGN_OR_RETURN(auto trainer, model::LanguageTrainer<float>::Create(options));
  // Once before the clock: memory is there then.
  LETHE_RETURN_IF_ERROR(trainer.Step(runtime, *source).status());
  Trained trained{.parameters = trainer.values().size()};
  Samples seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    LETHE_ASSIGN_OR_RETURN(const auto report, trainer.Step(runtime, *source));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.Add(took.count());
    trained.gates.Add(report.loss.gates);
  }
  trained.tokens = static_cast<double>(options.batch * options.model.block) / seconds.Median();
  return trained;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int rounds = static_cast<int>(settings.Count("--rounds", 5, 1));
  const size_t threads = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  const std::string text = MadeUpText(100'000, settings.seed);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  Team team(threads);
  Result result;
  result.seeds = {settings.seed};
  result.threads = static_cast<int>(threads);
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Tokens a second of training a language model in fp32 (forward, backward, update), on the "
      "clock, median of ",
      rounds, " steps: the problems of the hybrid by each backend, everything else by ", threads,
      " threads of the CPU; and softmax attention of the same shape by these.");
  table.columns = {{"attention", ""}, {"backend", ""}, {"parameters", ""}, {"tokens", "/s"}};
  Plot& plot = result.plot.emplace();
  plot.title = "Training the hybrid, problems by backend";
  plot.y_label = "tokens a second";
  plot.series.push_back({"tokens a second", {}});
  const auto add = [&](model::AttentionKind kind, const std::string& backend,
                       const Trained& trained) {
    const std::string name(model::AttentionKindName(kind));
    table.rows.push_back({name, backend, static_cast<int64_t>(trained.parameters), trained.tokens});
    plot.categories.push_back(absl::StrCat(name, ", ", backend));
    plot.series[0].y.push_back(trained.tokens);
  };
  double cpu = 0.0;
  for (const auto& backend : batched::PresentBackends(static_cast<int>(threads))) {
    const model::Runtime runtime{&team, backend.get(), {}};
    const std::string name(backend->name());
    if (name == "cpu") {
      LETHE_ASSIGN_OR_RETURN(
          const Trained full,
          Train(runtime, OptionsOf(settings.quick, model::AttentionKind::kFull, settings.seed),
                bytes, rounds));
      add(model::AttentionKind::kFull, "none", full);
    }
    LETHE_ASSIGN_OR_RETURN(
        const Trained hybrid,
        Train(runtime, OptionsOf(settings.quick, model::AttentionKind::kHybrid, settings.seed),
              bytes, rounds));
    add(model::AttentionKind::kHybrid, name, hybrid);
    if (name == "cpu") {
      cpu = hybrid.tokens;
      continue;
    }
    const uint64_t failed = hybrid.gates.unsolved + hybrid.gates.without_weights;
    result.claims.push_back(
        {absl::StrCat("training, ", name, ", fp32, ", hybrid.parameters,
                      " parameters: problems unsolved"),
         absl::StrCat(failed, " of ", hybrid.gates.problems, ", ", Short(hybrid.tokens, 3),
                      " tokens a second (", Short(cpu, 3), " with the CPU's problems)"),
         "0", failed == 0 && hybrid.gates.problems > 0});
  }
  return result;
}

const Registration kRegistration({"train-backends",
                                  "tokens a second of training, problems by backend",
                                  {{"--rounds", "N", "steps that are timed (5, quick 1)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
