// `lethe-bench micro`: single operations of the core, on a synthetic stream with the shape of
// hourly vital signs: seven dimensions, slowly moving points around a few hundred centres. Ratios
// between these figures of one run mean something; absolute times belong to the machine.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "core/kernel/exp.h"
#include "core/svdd/memory.h"
#include "tests/bench/bench.h"

namespace lethe::svdd {
namespace {

constexpr int kDimension = 7;

class Stream {
 public:
  std::vector<double> Next() {
    if (left_ == 0) {
      for (double& coordinate : centre_) coordinate = normal_(random_);
      left_ = 48;
    }
    --left_;
    std::vector<double> key(kDimension);
    for (size_t k = 0; k < key.size(); ++k) key[k] = centre_[k] += 0.1 * normal_(random_);
    return key;
  }

 private:
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
  std::vector<double> centre_ = std::vector<double>(kDimension);
  int left_ = 0;
};

struct Filled {
  std::unique_ptr<ExactMemory> memory;
  Stream stream;
  TokenHandle next = 1;

  void Insert(size_t count) {
    const double value = 1.0;
    std::vector<std::vector<double>> keys;
    std::vector<NewToken> tokens;
    for (size_t i = 0; i < count; ++i) keys.push_back(stream.Next());
    for (const auto& key : keys) tokens.push_back({next++, key, {&value, 1}});
    if (!memory->Insert(tokens).ok()) std::abort();
  }
};

Filled Fill(size_t tokens, double capacity) {
  Filled filled;
  filled.memory = ExactMemory::Create({{kernel::KernelKind::kRbf, 1.0 / kDimension},
                                       *Capacity::FromCapacity(capacity),
                                       DuplicatesPolicy::kShared,
                                       kDimension,
                                       1})
                      .value();
  filled.Insert(tokens);
  return filled;
}

void BM_ExpDoubleDouble(benchmark::State& state) {
  DoubleDouble x(-1.25, 1e-18);
  for (auto _ : state) {
    benchmark::DoNotOptimize(x);
    benchmark::DoNotOptimize(kernel::ExpDoubleDouble(x));
  }
}
BENCHMARK(BM_ExpDoubleDouble);

// One token a call, certified and published each time.
void BM_Insert(benchmark::State& state) {
  Filled filled = Fill(static_cast<size_t>(state.range(0)), 50);
  for (auto _ : state) filled.Insert(1);
}
BENCHMARK(BM_Insert)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);

// A token with weight: the walk, the proof and the publication.
void BM_ForgetSupport(benchmark::State& state) {
  Filled filled = Fill(static_cast<size_t>(state.range(0)), 50);
  size_t turn = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (filled.memory->size() < static_cast<size_t>(state.range(0)) / 2) {
      filled.Insert(static_cast<size_t>(state.range(0)) / 2);
    }
    const auto snapshot = filled.memory->snapshot();
    const TokenHandle handle = snapshot->supports[turn++ % snapshot->supports.size()].handle;
    state.ResumeTiming();
    if (!filled.memory->Forget({&handle, 1}).ok()) std::abort();
  }
}
BENCHMARK(BM_ForgetSupport)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);

void BM_Refit(benchmark::State& state) {
  const Filled filled = Fill(static_cast<size_t>(state.range(0)), 50);
  for (auto _ : state) benchmark::DoNotOptimize(filled.memory->Refit());
}
BENCHMARK(BM_Refit)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);

void BM_Query(benchmark::State& state) {
  Filled filled = Fill(static_cast<size_t>(state.range(0)), 50);
  const auto snapshot = filled.memory->snapshot();
  const std::vector<double> query = filled.stream.Next();
  for (auto _ : state) benchmark::DoNotOptimize(snapshot->Query(query, false));
}
BENCHMARK(BM_Query)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lethe::svdd

int lethe::bench::RunMicro(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
