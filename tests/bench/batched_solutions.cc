// Are the batched solutions and gradients right? Judged from the definition.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/batched/select.h"
#include "tests/batched/judge.h"
#include "tests/batched/problems.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

using batched::Outcome;

constexpr size_t kSizes[] = {16, 32, 64, 128, 256};
constexpr size_t kDimensions[] = {6, 16};
constexpr double kNus[] = {0.1, 0.4};
constexpr double kRidge = 1e-3;
constexpr size_t kLargestDifferenced = 64;  // differences in long double cost n^3
constexpr double kStep = 1e-7;              // near-duplicates are 1e-3 apart

// What came of the problems of one kind, in one precision.
struct Tally {
  int64_t problems = 0;
  int64_t outcomes[16] = {};
  int64_t unsolved = 0;
  int64_t wrong_labels = 0;  // a weight outside [0, C], or a label unlike its weight
  double gap = 0.0;
  double mass_error = 0.0;
  double margin = 0.0;
  double error = 0.0;
  int64_t drawn = 0;        // random directions
  int64_t differences = 0;  // of those, compared
  double gradient_error = 0.0;

  void Add(const Tally& other) {
    problems += other.problems;
    for (size_t i = 0; i < std::size(outcomes); ++i) outcomes[i] += other.outcomes[i];
    unsolved += other.unsolved;
    wrong_labels += other.wrong_labels;
    gap = std::max(gap, other.gap);
    mass_error = std::max(mass_error, other.mass_error);
    margin += other.margin;
    error += other.error;
    drawn += other.drawn;
    differences += other.differences;
    gradient_error = std::max(gradient_error, other.gradient_error);
  }
  int64_t Count(Outcome outcome) const { return outcomes[static_cast<size_t>(outcome)]; }
};

// A NaN is the worst that there is.
double OrWorst(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

template <typename T>
Tally Judge(const batched::Batch<T>& batch, const batched::Solution<T>& solution) {
  Tally tally;
  tally.problems = static_cast<int64_t>(batch.problems);
  for (size_t b = 0; b < batch.problems; ++b) {
    ++tally.outcomes[static_cast<size_t>(solution.outcome[b])];
    if (!batched::IsSolved(solution.outcome[b])) ++tally.unsolved;
    const batched::Verdict verdict = batched::JudgeSolution(batch, b, solution);
    if (verdict.outside > 0.0 || !verdict.labels_match || !verdict.thresholds_ordered) {
      ++tally.wrong_labels;
    }
    tally.gap = std::max(tally.gap, OrWorst(verdict.gap));
    tally.mass_error = std::max(tally.mass_error, verdict.mass_error);
  }
  for (const uint8_t label : solution.labels) {
    if (label == static_cast<uint8_t>(batched::Label::kMargin)) tally.margin += 1;
    if (label == static_cast<uint8_t>(batched::Label::kError)) tally.error += 1;
  }
  return tally;
}

// Gradients of random losses along random directions in points, parameter, C and ridge at once.
absl::Status CompareGradients(batched::Backend& backend,
                              const batched::Batch<double>& batch,
                              const batched::Solution<double>& solution,
                              size_t differenced,
                              std::mt19937_64& random,
                              Tally* tally) {
  std::normal_distribution<double> normal;
  std::vector<double> bar(batch.problems * batch.n);
  for (double& weight : bar) weight = normal(random);
  batched::Gradients<double> gradients;
  LETHE_RETURN_IF_ERROR(backend.Backward(batch, solution, {bar, {}}, &gradients));
  const size_t size = batch.n * batch.dimension;
  for (size_t b = 0; b < std::min(differenced, batch.problems); ++b) {
    ++tally->drawn;
    if (gradients.outcome[b] != batched::GradientOutcome::kOk) continue;
    batched::Direction direction;
    double ours = 0.0;
    for (size_t i = 0; i < size; ++i) {
      direction.points.push_back(normal(random));
      ours += direction.points[i] * gradients.points[b * size + i];
    }
    direction.parameter = batch.parameter[0] * normal(random);
    direction.box = batch.box[0] * normal(random);
    direction.ridge = batch.ridge[0] * normal(random);
    ours += direction.parameter * gradients.parameter[b] + direction.box * gradients.box[b] +
            direction.ridge * gradients.ridge[b];
    const double theirs =
        batched::DerivativeAlong(batch, b, {solution.labels.data() + b * batch.n, batch.n},
                                 {bar.data() + b * batch.n, batch.n}, direction, kStep);
    // Two margin points and nobody at the box have half each, whatever moves.
    constexpr double kNothing = 1e-9;
    if (std::abs(ours) < kNothing && std::abs(theirs) < kNothing) continue;
    ++tally->differences;
    const double error = std::abs(ours - theirs) / std::abs(theirs);
    tally->gradient_error = std::max(tally->gradient_error, OrWorst(error));
  }
  return absl::OkStatus();
}

// `where`: "batched", with the backend where it is not the CPU's.
void AddClaims(const std::string& where, const Tally& twice, const Tally& single, Result* result) {
  const auto claim = [&](std::string text, std::string figure, std::string bar, bool ok) {
    result->claims.push_back({std::move(text), std::move(figure), std::move(bar), ok});
  };
  for (const auto& [tally, name, bar] :
       {std::tuple(&twice, "fp64", 1e-8), std::tuple(&single, "fp32", 1e-4)}) {
    claim(absl::StrCat(where, ", ", name,
                       ": problems unsolved (three kernels, n = 16 to 256, "
                       "near-duplicates)"),
          absl::StrCat(tally->unsolved, " of ", tally->problems), "0",
          tally->unsolved == 0 && tally->problems > 0);
    claim(absl::StrCat(where, ", ", name, ": worst KKT gap, judged from the definition"),
          Short(tally->gap, 2), absl::StrCat("at most ", Short(bar, 1)), tally->gap <= bar);
    claim(absl::StrCat(where, ", ", name,
                       ": problems with a weight outside [0, C] or a label unlike its weight"),
          absl::StrCat(tally->wrong_labels), "0", tally->wrong_labels == 0);
  }
  claim(absl::StrCat(where, ", fp64: gradients against differences in long double, ",
                     twice.differences, " random directions"),
        absl::StrCat("worst relative error ", Short(twice.gradient_error, 2)), "at most 1e-6",
        twice.differences > 0 && twice.gradient_error <= 1e-6);
  // The others have nothing in the margin, or two points that have half each whatever moves.
  claim(absl::StrCat(where, ", fp64: random directions that were compared"),
        absl::StrCat(twice.differences, " of ", twice.drawn), "at least 95 %",
        twice.drawn > 0 && 20 * twice.differences >= 19 * twice.drawn);
}

using ByRegime = std::vector<std::pair<std::string, Tally>>;

// The same problems for every backend: `each` of every kind, into double's and float's tallies.
absl::Status JudgeBackend(batched::Backend& backend,
                          size_t each,
                          uint64_t first_seed,
                          ByRegime (&by_regime)[2]) {
  std::mt19937_64 random(first_seed);
  for (const size_t n : kSizes) {
    for (const size_t dimension : kDimensions) {
      const std::vector<batched::Regime> regimes = batched::StandardRegimes(dimension);
      for (size_t r = 0; r < regimes.size(); ++r) {
        for (const double nu : kNus) {
          const uint64_t seed = random();
          const auto twice =
              batched::RandomBatch<double>(regimes[r], each, n, dimension, nu, kRidge, seed);
          const auto single =
              batched::RandomBatch<float>(regimes[r], each, n, dimension, nu, kRidge, seed);
          batched::Solution<double> double_solution;
          batched::Solution<float> single_solution;
          LETHE_RETURN_IF_ERROR(backend.Solve(twice.view(), {}, &double_solution));
          LETHE_RETURN_IF_ERROR(backend.Solve(single.view(), {}, &single_solution));
          Tally tally = Judge(twice.view(), double_solution);
          if (n <= kLargestDifferenced) {
            const size_t differenced = std::max<size_t>(1, each / 10);
            LETHE_RETURN_IF_ERROR(CompareGradients(backend, twice.view(), double_solution,
                                                   differenced, random, &tally));
          }
          const Tally single_tally = Judge(single.view(), single_solution);
          if (by_regime[0].size() <= r) {
            by_regime[0].emplace_back(regimes[r].name, Tally{});
            by_regime[1].emplace_back(regimes[r].name, Tally{});
          }
          by_regime[0][r].second.Add(tally);
          by_regime[1][r].second.Add(single_tally);
        }
      }
    }
  }
  return absl::OkStatus();
}

void AddTables(const std::string& backend, const ByRegime (&by_regime)[2], Result* result) {
  for (const bool single : {false, true}) {
    Table& table = result->tables.emplace_back();
    table.title = absl::StrCat(
        backend, ", ", single ? "fp32" : "fp64",
        ": n = 16, 32, 64, 128, 256; d = 6, 16; nu = 0.1, 0.4; ridge ", kRidge,
        "; as many problems of each. Near-duplicates: n/4 keys, each four times, ",
        "coordinates 1e-3 apart. How the problems ended, means over points, and the worst of what "
        "the judge found.");
    table.columns = {{"keys", ""},         {"problems", ""},    {"converged", ""},
                     {"polished", ""},     {"one by one", ""},  {"unsolved", ""},
                     {"margin", "%"},      {"at the box", "%"}, {"worst gap", "", 2},
                     {"mass error", "", 2}};
    if (!single) table.columns.push_back({"gradient error", "", 2});
    for (const auto& [name, tally] : by_regime[single ? 1 : 0]) {
      // Every size has as many problems, so points are the sizes' mean a problem.
      double points = 0.0;
      for (const size_t n : kSizes) points += static_cast<double>(n);
      points *= static_cast<double>(tally.problems) / std::size(kSizes);
      std::vector<Cell> row = {name,
                               tally.problems,
                               tally.Count(Outcome::kConverged),
                               tally.Count(Outcome::kPolished),
                               tally.Count(Outcome::kSinglePivot),
                               tally.unsolved,
                               100 * tally.margin / points,
                               100 * tally.error / points,
                               tally.gap,
                               tally.mass_error};
      if (!single) row.push_back(tally.gradient_error);
      table.rows.push_back(std::move(row));
    }
  }
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const size_t combinations = std::size(kSizes) * std::size(kDimensions) * std::size(kNus) * 6;
  const int64_t wanted = settings.Count("--problems", 18000, 600);
  const size_t each =
      std::max<size_t>(1, (static_cast<size_t>(wanted) + combinations - 1) / combinations);
  Result result;
  result.seeds = {settings.seed};
  Plot& plot = result.plot.emplace();
  plot.title = "Batched solutions: worst KKT gap";
  plot.y_label = "sum a max(g, 0) + (C - a) max(-g, 0)";
  plot.log_y = true;
  for (const std::unique_ptr<batched::Backend>& backend : batched::PresentBackends(0)) {
    const std::string name = backend->name();
    ByRegime by_regime[2];
    LETHE_RETURN_IF_ERROR(JudgeBackend(*backend, each, settings.seed, by_regime));
    AddTables(name, by_regime, &result);
    Tally all[2];
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const bool first = plot.categories.empty();
      plot.series.push_back({absl::StrCat(name, ", ", i == 0 ? "fp64" : "fp32"), {}});
      for (const auto& [regime, tally] : by_regime[i]) {
        all[i].Add(tally);
        if (first) plot.categories.push_back(regime);
        plot.series.back().y.push_back(tally.gap);
      }
    }
    AddClaims(name == "cpu" ? "batched" : absl::StrCat("batched, ", name), all[0], all[1], &result);
  }
  return result;
}

const Registration kRegistration({"batched-solutions",
                                  "batched problems against the definition",
                                  {{"--problems", "N", "in each precision (18000, quick 600)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
