// Batched problems a second of one core: against one call a problem and against the exact memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/batched/cpu/cpu_backend.h"
#include "core/svdd/memory.h"
#include "tests/batched/judge.h"
#include "tests/batched/problems.h"
#include "tests/bench/bench.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr size_t kSizes[] = {16, 32, 64, 128, 256};
constexpr size_t kDimension = 16;
constexpr double kNu = 0.3;
constexpr double kRidge = 1e-3;
constexpr size_t kClaimed = 64;
constexpr double kBar = 15000;

struct Rates {
  std::string keys;
  size_t n = 0;
  double from_points = 0.0;  // problems a second
  double from_matrices = 0.0;
  double single = 0.0;  // fp32, from points
  double with_gradients = 0.0;
  double one_a_call = 0.0;
  std::optional<double> exact;  // the exact memory has no dot product
};

// Problems a second: the median over rounds of `work`, which does `problems`.
template <typename Work>
double RateOf(size_t problems, int rounds, Work&& work) {
  Samples samples;
  for (int round = 0; round < rounds; ++round) samples.Add(SecondsOf(work));
  return static_cast<double>(problems) / samples.Median();
}

// The exact memory on the same keys, without a ridge: what a certificate would cost.
double ExactRate(const batched::OwnedBatch<double>& batch, size_t problems) {
  const size_t n = batch.n;
  double seconds = 0.0;
  for (size_t b = 0; b < problems; ++b) {
    std::vector<double> keys(
        batch.points.begin() + static_cast<std::ptrdiff_t>(b * n * kDimension),
        batch.points.begin() + static_cast<std::ptrdiff_t>((b + 1) * n * kDimension));
    for (size_t i = 0; batch.kernel.normalise && i < n; ++i) {
      double square = 0.0;
      for (size_t k = 0; k < kDimension; ++k) square += std::pow(keys[i * kDimension + k], 2);
      for (size_t k = 0; k < kDimension; ++k) keys[i * kDimension + k] /= std::sqrt(square);
    }
    const double value = 0.0;
    std::vector<svdd::NewToken> tokens;
    for (size_t i = 0; i < n; ++i) {
      tokens.push_back({i, {keys.data() + i * kDimension, kDimension}, {&value, 1}});
    }
    seconds += SecondsOf([&] {
      auto memory = svdd::ExactMemory::Create({{kernel::KernelKind::kRbf, batch.parameter[0]},
                                               *svdd::Capacity::FromBox(batch.box[0]),
                                               svdd::DuplicatesPolicy::kShared,
                                               static_cast<int>(kDimension),
                                               1})
                        .value();
      LETHE_CHECK(memory->Insert(tokens).ok());
    });
  }
  return static_cast<double>(problems) / seconds;
}

absl::StatusOr<Rates> Measure(batched::Backend& backend,
                              const batched::Regime& regime,
                              size_t n,
                              int rounds,
                              bool quick,
                              uint64_t seed) {
  Rates rates;
  rates.keys = regime.name;
  rates.n = n;
  const size_t problems = std::max<size_t>(8, (quick ? 4096 : 32768) / n);
  const auto owned =
      batched::RandomBatch<double>(regime, problems, n, kDimension, kNu, kRidge, seed);
  const auto single =
      batched::RandomBatch<float>(regime, problems, n, kDimension, kNu, kRidge, seed);
  const batched::Batch<double> batch = owned.view();
  batched::OwnedBatch<double> matrices = owned;
  for (size_t b = 0; b < problems; ++b) {
    const Eigen::MatrixXd gram = batched::GramOf(batch, b);
    matrices.matrices.insert(matrices.matrices.end(), gram.data(), gram.data() + gram.size());
  }
  const batched::Batch<double> of_matrices = matrices.view();
  batched::Solution<double> solution;
  batched::Solution<float> single_solution;
  // Once before the clock: a fault would show here, and the results have their room.
  LETHE_RETURN_IF_ERROR(backend.Solve(batch, {}, &solution));
  LETHE_RETURN_IF_ERROR(backend.Solve(single.view(), {}, &single_solution));
  for (const batched::Outcome outcome : solution.outcome) LETHE_CHECK(batched::IsSolved(outcome));

  const auto solve = [&] { LETHE_CHECK(backend.Solve(batch, {}, &solution).ok()); };
  rates.from_points = RateOf(problems, rounds, solve);
  rates.single = RateOf(problems, rounds, [&] {
    LETHE_CHECK(backend.Solve(single.view(), {}, &single_solution).ok());
  });
  const std::vector<double> bar(problems * n, 1.0);
  batched::Gradients<double> gradients;
  rates.with_gradients = RateOf(problems, rounds, [&] {
    solve();
    LETHE_CHECK(backend.Backward(batch, solution, {bar, {}}, &gradients).ok());
  });
  batched::Solution<double> other;
  rates.from_matrices =
      RateOf(problems, rounds, [&] { LETHE_CHECK(backend.Solve(of_matrices, {}, &other).ok()); });
  rates.one_a_call = RateOf(problems, rounds, [&] {
    batched::Batch<double> alone = batch;
    alone.problems = 1;
    for (size_t b = 0; b < problems; ++b) {
      alone.points = batch.points.subspan(b * n * kDimension, n * kDimension);
      batched::Solution<double> own;  // as a caller with one problem has it
      LETHE_CHECK(backend.Solve(alone, {}, &own).ok());
    }
  });
  if (regime.kernel.kind == batched::KernelKind::kRbf) {
    rates.exact = ExactRate(owned, quick ? 1 : std::max<size_t>(2, 256 / n));
  }
  return rates;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int rounds = static_cast<int>(settings.Count("--rounds", 7, 1));
  const auto backend = batched::MakeCpuBackend(1);
  Result result;
  result.seeds = {settings.seed};
  std::vector<Rates> all;
  for (const batched::Regime& regime : batched::StandardRegimes(kDimension)) {
    for (const size_t n : kSizes) {
      LETHE_ASSIGN_OR_RETURN(
          Rates rates, Measure(*backend, regime, n, rounds, settings.quick, settings.seed + n));
      all.push_back(std::move(rates));
    }
  }
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Problems a second of one core, with polish, ", backend->description(), "; d = ", kDimension,
      ", nu = ", kNu, ", ridge ", kRidge,
      ". From keys, in fp64, where nothing else is said; gradients are those of keys, kernel "
      "parameter, C and ridge. One a call: as many calls as problems. Exact: the exact memory, "
      "with its proof and without a ridge.");
  table.columns = {{"keys", ""},         {"n", ""},         {"fp64", "/s"},
                   {"fp32", "/s"},       {"K given", "/s"}, {"with gradients", "/s"},
                   {"one a call", "/s"}, {"exact", "/s"}};
  double slowest = std::numeric_limits<double>::infinity();
  double slowest_near = slowest;
  Plot& plot = result.plot.emplace();
  plot.title = "Batched problems a second of one core, fp64, with polish";
  plot.x_label = "points of a problem";
  plot.y_label = "problems a second";
  plot.log_x = plot.log_y = true;
  for (const size_t n : kSizes) plot.x.push_back(static_cast<double>(n));
  for (const Rates& rates : all) {
    table.rows.push_back({rates.keys, static_cast<int64_t>(rates.n), rates.from_points,
                          rates.single, rates.from_matrices, rates.with_gradients, rates.one_a_call,
                          MaybeCell(rates.exact)});
    if (plot.series.empty() || plot.series.back().name != rates.keys) {
      plot.series.push_back({rates.keys, {}});
    }
    plot.series.back().y.push_back(rates.from_points);
    if (rates.n != kClaimed) continue;
    const bool near = rates.keys.find("near-duplicates") != std::string::npos;
    double& least = near ? slowest_near : slowest;
    least = std::min(least, rates.from_points);
  }
  const auto claim = [&](const char* which, double rate) {
    result.claims.push_back({absl::StrCat("batched, fp64, n = ", kClaimed, ", with polish, from ",
                                          which, ", slowest of three kernels"),
                             absl::StrCat(Short(rate, 3), " problems a second of a core"),
                             absl::StrCat("at least ", Short(kBar, 5)), rate >= kBar});
  };
  claim("keys of their own", slowest);
  claim("near-duplicate keys", slowest_near);
  return result;
}

const Registration kRegistration({"batched-speed",
                                  "batched problems a second of one core",
                                  {{"--rounds", "N", "of each measurement (7, quick 1)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
