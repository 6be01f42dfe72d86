// Batched problems a second by backend: a device against the CPU of the same machine.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/batched/select.h"
#include "tests/batched/problems.h"
#include "tests/bench/bench.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr size_t kSizes[] = {64, 128, 256};
constexpr size_t kDimension = 16;
constexpr double kNu = 0.3;
constexpr double kRidge = 1e-3;

struct Rate {
  double solve = 0.0;  // problems a second on the clock, copies to and from a device included
  double with_gradients = 0.0;
};

template <typename Work>
double PerSecond(size_t problems, int rounds, const Work& work) {
  Samples samples;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    samples.Add(took.count());
  }
  return static_cast<double>(problems) / samples.Median();
}

template <typename T>
absl::StatusOr<Rate> Measure(batched::Backend& backend,
                             const batched::Regime& regime,
                             size_t problems,
                             size_t n,
                             int rounds,
                             uint64_t seed) {
  const auto owned = batched::RandomBatch<T>(regime, problems, n, kDimension, kNu, kRidge, seed);
  const batched::Batch<T> batch = owned.view();
  batched::Solution<T> solution;
  // Once before the clock: memory is there then, and a wrong answer shows.
  LETHE_RETURN_IF_ERROR(backend.Solve(batch, {}, &solution));
  for (size_t b = 0; b < problems; ++b) {
    if (!batched::IsSolved(solution.outcome[b])) {
      return absl::InternalError(absl::StrCat(backend.name(), ", ", regime.name, ", n = ", n,
                                              ": problem ", b, " is ",
                                              batched::OutcomeName(solution.outcome[b])));
    }
  }
  absl::Status status;
  const auto solve = [&] { status.Update(backend.Solve(batch, {}, &solution)); };
  Rate rate;
  rate.solve = PerSecond(problems, rounds, solve);
  const std::vector<T> bar(problems * n, T(1));
  batched::Gradients<T> gradients;
  rate.with_gradients = PerSecond(problems, rounds, [&] {
    solve();
    status.Update(backend.Backward(batch, solution, {bar, {}}, &gradients));
  });
  if (!status.ok()) return status;
  return rate;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int rounds = static_cast<int>(settings.Count("--rounds", 5, 1));
  const auto entries = static_cast<size_t>(settings.Count("--points", 1 << 21, 1 << 13));
  const std::vector<std::unique_ptr<batched::Backend>> backends = batched::PresentBackends(0);
  // Keys of their own, and near-duplicates, which need the polish most.
  const std::vector<batched::Regime> standard = batched::StandardRegimes(kDimension);
  const std::vector<batched::Regime> regimes = {standard[2], standard[5]};
  Result result;
  result.seeds = {settings.seed};
  Table& table = result.tables.emplace_back();
  table.title =
      "Problems a second on the clock, with polish, from keys; d = 16, nu = 0.3, ridge 1e-3:";
  for (const auto& backend : backends)
    absl::StrAppend(&table.title, " ", backend->description(), ";");
  absl::StrAppend(&table.title, " copies to and from a device are in the time.");
  table.columns = {{"backend, keys", ""},
                   {"n", ""},
                   {"problems", ""},
                   {"fp64", "/s"},
                   {"fp32", "/s"},
                   {"fp64 with gradients", "/s"},
                   {"fp32 with gradients", "/s"}};
  for (const size_t n : kSizes) {
    double cpu[2] = {};
    for (const auto& backend : backends) {
      double slowest[2] = {std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::infinity()};
      for (const batched::Regime& regime : regimes) {
        const size_t problems = std::max<size_t>(16, entries / n);
        const uint64_t seed = settings.seed + n;
        LETHE_ASSIGN_OR_RETURN(const Rate twice,
                               Measure<double>(*backend, regime, problems, n, rounds, seed));
        LETHE_ASSIGN_OR_RETURN(const Rate single,
                               Measure<float>(*backend, regime, problems, n, rounds, seed));
        table.rows.push_back({absl::StrCat(backend->name(), ", ", regime.name),
                              static_cast<int64_t>(n), static_cast<int64_t>(problems), twice.solve,
                              single.solve, twice.with_gradients, single.with_gradients});
        slowest[0] = std::min(slowest[0], twice.solve);
        slowest[1] = std::min(slowest[1], single.solve);
      }
      for (const size_t i : {size_t{0}, size_t{1}}) {
        if (backend == backends.front()) {
          cpu[i] = slowest[i];
          continue;
        }
        result.claims.push_back(
            {absl::StrCat("batched, ", backend->name(), ", ", i == 0 ? "fp64" : "fp32", ", n = ", n,
                          ", with polish, slower of two kernels"),
             absl::StrCat(Short(slowest[i], 3), " problems a second, ",
                          Short(slowest[i] / cpu[i], 3), " times the CPU's ", Short(cpu[i], 3)),
             "at least the CPU's, all cores", slowest[i] >= cpu[i]});
      }
    }
  }
  return result;
}

const Registration kRegistration(
    {"batched-backends",
     "batched problems a second, devices against the CPU",
     {{"--rounds", "N", "of each measurement (5, quick 1)", Flag::Kind::kCount},
      {"--points", "N", "of all problems of a batch (2097152, quick 8192)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
