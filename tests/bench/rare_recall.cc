// `rare-recall`: does a memory under a budget still answer for what it saw once?
//
// Set-up as published: d = 4, 6 singletons then 6 groups x 10 copies, centres 1.5 N(0, 1), noise
// 0.15, rbf with gamma = 1 / 1.2^2, nu = 0.45, so n = 66 and C = 1/(nu n); one-hot values, one a
// centre; a query is right when the largest coordinate of the readout is its centre's; uniform
// readout over the kept tokens. Not published, and found by trying (docs/benches.md): the queries
// are centre + 0.15 N(0, 1) too; recall is counted over the held-out queries of the singletons;
// "H2O" ranks tokens by their kernel mass over the other query of all twelve centres; the budget is
// the number of tokens with weight; singletons come first in the stream.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/baselines.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr size_t kDimension = 4;
constexpr size_t kSingletons = 6;
constexpr size_t kGroups = 6;
constexpr size_t kCentres = kSingletons + kGroups;
constexpr size_t kCopies = 10;
constexpr double kSpread = 1.5;
constexpr double kNoise = 0.15;
constexpr double kGamma = 1.0 / (1.2 * 1.2);
constexpr double kNu = 0.45;

enum Method {
  kSvdd,
  kSvddWeighted,
  kMassQueries,
  kMassKeys,
  kStreaming,
  kRandom,
  kRecency,
  kDecay,
  kFull,
  kMethods
};

struct Row {
  const char* name;
  std::optional<double> published;
};
constexpr std::array<Row, kMethods> kRows = {{{"SVDD, uniform readout", 0.861},
                                              {"SVDD, its own weights", std::nullopt},
                                              {"\"H2O\": top-k mass", 0.319},
                                              {"the same, mass of keys", std::nullopt},
                                              {"streaming H2O", 0.342},
                                              {"random", 0.472},
                                              {"recency", 0.0},
                                              {"coefficient decay", std::nullopt},
                                              {"full context", 0.722}}};

struct Trial {
  double budget = 0;
  std::array<double, kMethods> hits{};  // of kSingletons
};

class Stream {
 public:
  explicit Stream(Random& random) {
    std::vector<Vector> centres;
    for (size_t c = 0; c < kCentres; ++c) centres.push_back(random.Normals(kDimension, kSpread));
    for (size_t c = 0; c < kCentres; ++c) {
      for (size_t copy = 0; copy < (c < kSingletons ? 1 : kCopies); ++copy) {
        keys.push_back(random.Near(centres[c], kNoise));
        centre_of.push_back(c);
      }
    }
    for (const Vector& centre : centres) observed.push_back(random.Near(centre, kNoise));
    for (const Vector& centre : centres) held_out.push_back(random.Near(centre, kNoise));
  }

  // Singletons whose held-out query reads their own value, coefficients a token.
  double Hits(const Vector& coefficients) const {
    double hits = 0;
    for (size_t c = 0; c < kSingletons; ++c) {
      std::array<double, kCentres> readout{};
      for (size_t i = 0; i < keys.size(); ++i) {
        readout[centre_of[i]] += coefficients[i] * Rbf(held_out[c], keys[i], kGamma);
      }
      bool largest = readout[c] > 0;
      for (size_t other = 0; other < kCentres; ++other) {
        largest &= other == c || readout[other] < readout[c];
      }
      hits += largest ? 1 : 0;
    }
    return hits;
  }

  double Hits(const Kept& kept) const {
    Vector coefficients(keys.size(), 0.0);
    for (const size_t i : kept) coefficients[i] = 1.0;
    return Hits(coefficients);
  }

  std::vector<Vector> keys;
  std::vector<size_t> centre_of;
  std::vector<Vector> observed;
  std::vector<Vector> held_out;
};

Trial RunTrial(Random& random) {
  const Stream stream(random);
  const size_t n = stream.keys.size();
  std::vector<Token> tokens;
  for (size_t i = 0; i < n; ++i) {
    tokens.push_back({stream.keys[i], Vector(kCentres, 0.0)});
    tokens.back().value[stream.centre_of[i]] = 1.0;
  }
  auto memory = MakeMemory(kGamma, *svdd::Capacity::FromBox(1.0 / (kNu * static_cast<double>(n))),
                           kDimension, kCentres);
  InsertAll(*memory, tokens);
  Kept kept;
  Vector weights(n, 0.0);
  for (const svdd::SupportToken& support : memory->snapshot()->supports) {
    kept.push_back(support.handle);
    weights[support.handle] = support.alpha;
  }
  const size_t budget = kept.size();
  Trial trial;
  trial.budget = static_cast<double>(budget);
  trial.hits[kSvdd] = stream.Hits(kept);
  trial.hits[kSvddWeighted] = stream.Hits(weights);
  trial.hits[kMassQueries] =
      stream.Hits(Top(KernelMass(stream.keys, stream.observed, kGamma), budget));
  trial.hits[kMassKeys] = stream.Hits(Top(KernelMass(stream.keys, stream.keys, kGamma), budget));
  trial.hits[kStreaming] = stream.Hits(StreamingH2O(stream.keys, budget, kGamma));
  trial.hits[kRandom] = stream.Hits(AtRandom(n, budget, random));
  trial.hits[kRecency] = stream.Hits(Recent(n, budget));
  trial.hits[kDecay] = stream.Hits(DecayedByAge(n, budget));
  trial.hits[kFull] = stream.Hits(Vector(n, 1.0));
  return trial;
}

using Recalls = std::array<double, kMethods>;

struct Run60 {
  uint64_t seed = 0;
  double budget = 0;
  Recalls recall{};
};

Run60 MakeRun(uint64_t seed, size_t trials) {
  Run60 run{seed};
  Random random(seed);
  for (size_t t = 0; t < trials; ++t) {
    const Trial trial = RunTrial(random);
    run.budget += trial.budget / static_cast<double>(trials);
    for (size_t m = 0; m < kMethods; ++m) {
      run.recall[m] += trial.hits[m] / static_cast<double>(kSingletons * trials);
    }
  }
  return run;
}

// Agreement in the two published figures that are claimed.
bool ToTwoDigits(const Run60& run, Method method) {
  return std::lround(100 * run.recall[method]) == std::lround(100 * *kRows[method].published);
}

double Distance(const Run60& run) {
  return std::abs(run.recall[kSvdd] - *kRows[kSvdd].published) +
         std::abs(run.recall[kMassQueries] - *kRows[kMassQueries].published);
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto trials = static_cast<size_t>(settings.Count("--trials", 60, 60));
  const auto many = static_cast<uint64_t>(settings.Count("--runs", 100, 5));
  Result result;
  std::vector<Run60> runs;
  for (uint64_t r = 0; r < many; ++r) {
    result.seeds.push_back(settings.seed + r);
    runs.push_back(MakeRun(result.seeds.back(), trials));
  }
  const Run60& nearest =
      *std::min_element(runs.begin(), runs.end(),
                        [](const Run60& a, const Run60& b) { return Distance(a) < Distance(b); });
  double budget = 0;
  Recalls mean{};
  Recalls deviation{};
  int64_t agree = 0;
  for (const Run60& run : runs) {
    budget += run.budget / static_cast<double>(many);
    for (size_t m = 0; m < kMethods; ++m) mean[m] += run.recall[m] / static_cast<double>(many);
    agree += ToTwoDigits(run, kSvdd) && ToTwoDigits(run, kMassQueries);
  }
  for (const Run60& run : runs) {
    for (size_t m = 0; m < kMethods; ++m) {
      deviation[m] += (run.recall[m] - mean[m]) * (run.recall[m] - mean[m]) /
                      static_cast<double>(std::max<uint64_t>(many, 2) - 1);
    }
  }
  for (double& spread : deviation) spread = std::sqrt(spread);

  Table table{absl::StrCat("Recall of singletons: ", many, " runs of ", trials,
                           " trials, and the run nearest to the published figures"),
              {{"memory", ""},
               {"tokens held", ""},
               {"mean of runs", ""},
               {"deviation of a run", "", 2},
               {"nearest run", ""},
               {"published", ""}},
              {}};
  Series measured{"mean of runs", {}};
  Series closest{"nearest run", {}};
  Series published{"published", {}, true};
  Plot plot{"Recall of what was seen once, at one budget", "", "recall of singletons"};
  for (size_t m = 0; m < kMethods; ++m) {
    const bool all = m == kDecay || m == kFull;
    table.rows.push_back({std::string(kRows[m].name),
                          all ? static_cast<double>(kSingletons + kGroups * kCopies) : budget,
                          mean[m], deviation[m], nearest.recall[m], MaybeCell(kRows[m].published)});
    plot.categories.push_back(kRows[m].name);
    measured.y.push_back(mean[m]);
    closest.y.push_back(nearest.recall[m]);
    published.y.push_back(kRows[m].published);
  }
  plot.series = {measured, closest, published};
  result.plot = std::move(plot);
  result.tables.push_back(std::move(table));
  for (const Method m : {kSvdd, kMassQueries}) {
    const double figure = *kRows[m].published;
    const double away = std::abs(mean[m] - figure) / deviation[m];
    result.claims.push_back(
        {absl::StrCat("rare recall, ", kRows[m].name, ": mean of ", many, " runs"),
         absl::StrFormat("%.3f, %.1f deviations of a run from the published %.3f", mean[m], away,
                         figure),
         "at most 2", away <= 2});
  }
  if (!settings.quick) {
    result.claims.push_back(
        {absl::StrCat("rare recall: the nearest of ", many,
                      " runs of the published size has the "
                      "published 0.861 and 0.319 to two digits"),
         absl::StrFormat("%.3f and %.3f with seed %d; so have %d of %d runs", nearest.recall[kSvdd],
                         nearest.recall[kMassQueries], nearest.seed, agree, many),
         "0.86 and 0.32", ToTwoDigits(nearest, kSvdd) && ToTwoDigits(nearest, kMassQueries)});
  }
  result.notes.push_back(
      "The published figures are of one run of 60 trials whose random numbers are not known; such "
      "a run scatters by the column \"deviation of a run\". Published: SVDD, \"H2O\", random, "
      "recency; full context and streaming H2O are from a later run of the published programs.");
  result.notes.push_back(
      "Coefficient decay holds every token; those over the budget, oldest first, have their "
      "coefficient times 0.01.");
  return result;
}

const Registration kRegistration({"rare-recall",
                                  "recall of singletons at a budget, against baselines",
                                  {{"--trials", "N", "trials a run (60, as published)"},
                                   {"--runs", "N", "runs, a seed each (100)"}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
