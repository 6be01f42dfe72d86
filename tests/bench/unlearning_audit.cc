// `unlearning-audit`: is a memory after Forget the memory that never saw the tokens?
//
// Set-up as published: n = 24, d = 6, sigma = 2, C = 1/(0.4 n) of the n before forgetting, 2 tokens
// forgotten, 300 trials a kind of keys. Judges: a cold refit by the same library, a fresh memory
// fed with the rest, and the 50-digit solver of judge.h, which shares no code with it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "tests/bench/baselines.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/judge.h"
#include "tests/bench/regimes.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr size_t kTokens = 24;
constexpr size_t kForgotten = 2;
constexpr double kNu = 0.4;
constexpr size_t kQueries = 12;

struct Published {
  double median;
  double worst;
  int64_t partitions;  // percent
};
constexpr std::array<Published, 4> kPublished = {
    {{2.4e-9, 6.4e-3, 99}, {5.7e-7, 9.6e-4, 52}, {1.6e-9, 1.1e-2, 98}, {4.5e-13, 1.1e-11, 100}}};

// Largest differences over all weights and queries of one trial.
struct Deviation {
  double weight = 0;
  double decision = 0;
  double readout = 0;

  void Raise(double Deviation::*what, double by) {
    // A NaN is as far away as can be.
    this->*what = by <= this->*what
                      ? this->*what
                      : (std::isnan(by) ? std::numeric_limits<double>::infinity() : by);
  }
};

struct Tally {
  int64_t trials = 0;
  int64_t partitions = 0;        // equal to the refit's and to the fresh memory's
  int64_t digests = 0;           // equal likewise
  int64_t judge_partitions = 0;  // equal to the judge's
  int64_t judge_weights = 0;     // trials with every weight the judge's, rounded
  int64_t within_bound = 0;      // trials with every readout within its own bound of the judge's
  Deviation refit;               // worst against refit and fresh memory
  Vector decisions;              // a trial each: largest decision deviation against them
  Deviation judge;
  Deviation decay;  // coefficient decay against the judge
};

// Where a support's handle is among `handles`.
size_t Position(const svdd::SupportToken& support, std::span<const svdd::TokenHandle> handles) {
  const auto at = std::find(handles.begin(), handles.end(), support.handle);
  LETHE_CHECK(at != handles.end());  // weight on a forgotten token
  return static_cast<size_t>(at - handles.begin());
}

std::string Partition(const svdd::Snapshot& state, std::span<const svdd::TokenHandle> handles) {
  std::string letters(handles.size(), 'R');
  for (const svdd::SupportToken& support : state.supports) {
    letters[Position(support, handles)] = support.label == svdd::Label::kMargin ? 'S' : 'E';
  }
  return letters;
}

Vector Weights(const svdd::Snapshot& state, std::span<const svdd::TokenHandle> handles) {
  Vector weights(handles.size(), 0.0);
  for (const svdd::SupportToken& support : state.supports) {
    weights[Position(support, handles)] = support.alpha;
  }
  return weights;
}

double Decision(const svdd::Readout& readout) {
  return readout.decision.value_or(readout.decision_low);
}

class Trial {
 public:
  Trial(TokenSource& source, Tally& tally) : tally_(tally) {
    const svdd::Capacity capacity =
        *svdd::Capacity::FromCapacity(kNu * static_cast<double>(kTokens));
    const std::vector<Token> tokens = source.Take(kTokens);
    memory_ = MakeMemory(kRegimeGamma, capacity, kRegimeDimension, kRegimeValues);
    InsertAll(*memory_, tokens);
    before_ = memory_->snapshot();

    const std::vector<size_t> gone = source.random().Subset(kForgotten, kTokens);
    forgotten_.assign(gone.begin(), gone.end());
    for (size_t i = 0; i < kTokens; ++i) {
      if (std::find(gone.begin(), gone.end(), i) != gone.end()) continue;
      rest_.push_back(tokens[i]);
      handles_.push_back(i);
    }
    LETHE_CHECK(memory_->Forget(forgotten_).ok());
    judge_ = std::make_unique<Judge>(rest_, kRegimeGamma, capacity);

    for (const size_t i : gone) queries_.push_back(tokens[i].key);
    while (queries_.size() < kQueries) {
      queries_.push_back(source.random().Near(tokens[source.random().Below(kTokens)].key, 0.5));
    }
  }

  void Run() {
    const svdd::Snapshot& ours = *memory_->snapshot();
    const auto refit = memory_->Refit();
    auto fresh = MakeMemory(kRegimeGamma, ours.options.capacity, kRegimeDimension, kRegimeValues);
    InsertAll(*fresh, rest_, handles_);
    ++tally_.trials;
    bool partitions = true;
    bool digests = true;
    double decision = 0;
    for (const svdd::Snapshot* other : {refit.get(), fresh->snapshot().get()}) {
      partitions &= Partition(ours, handles_) == Partition(*other, handles_);
      digests &= StateDigest(ours) == StateDigest(*other);
      decision = std::max(decision, AgainstRefit(ours, *other));
    }
    tally_.partitions += partitions;
    tally_.digests += digests;
    tally_.decisions.push_back(decision);
    AgainstJudge(ours);
    Decay();
  }

 private:
  double AgainstRefit(const svdd::Snapshot& ours, const svdd::Snapshot& other) {
    const Vector a = Weights(ours, handles_);
    const Vector b = Weights(other, handles_);
    for (size_t i = 0; i < a.size(); ++i) {
      tally_.refit.Raise(&Deviation::weight, std::abs(a[i] - b[i]));
    }
    Deviation trial;
    for (const Vector& query : queries_) {
      const svdd::Readout mine = ours.Query(query, false);
      const svdd::Readout theirs = other.Query(query, false);
      trial.Raise(&Deviation::decision, std::abs(Decision(mine) - Decision(theirs)));
      for (size_t m = 0; m < kRegimeValues; ++m) {
        tally_.refit.Raise(&Deviation::readout, std::abs(mine.value[m] - theirs.value[m]));
      }
    }
    tally_.refit.Raise(&Deviation::decision, trial.decision);
    return trial.decision;
  }

  void AgainstJudge(const svdd::Snapshot& ours) {
    tally_.judge_partitions += Partition(ours, handles_) == judge_->partition();
    const Vector weights = Weights(ours, handles_);
    tally_.judge_weights += weights == judge_->alpha();
    for (size_t i = 0; i < weights.size(); ++i) {
      tally_.judge.Raise(&Deviation::weight, std::abs(weights[i] - judge_->alpha()[i]));
    }
    bool within = true;
    for (const Vector& query : queries_) {
      const svdd::Readout mine = ours.Query(query, false);
      const Judge::Answer truth = judge_->Query(query);
      if (mine.decision.has_value() && truth.decision.has_value()) {
        const double off = std::abs(*mine.decision - *truth.decision);
        tally_.judge.Raise(&Deviation::decision, off);
        within &= off <= mine.decision_bound;
      }
      within &= mine.decision.has_value() == truth.decision.has_value();
      for (size_t m = 0; m < kRegimeValues; ++m) {
        const double off = std::abs(mine.value[m] - truth.value[m]);
        tally_.judge.Raise(&Deviation::readout, off);
        within &= off <= mine.value_bound;
      }
    }
    tally_.within_bound += within;
  }

  // The state before, the forgotten weights times 0.01.
  void Decay() {
    const Vector weights = DecayedWeights(*before_, forgotten_);
    for (size_t i = 0; i < weights.size(); ++i) {
      const svdd::TokenHandle handle = before_->supports[i].handle;
      const auto at = std::find(handles_.begin(), handles_.end(), handle);
      const double truth =
          at == handles_.end() ? 0.0 : judge_->alpha()[static_cast<size_t>(at - handles_.begin())];
      tally_.decay.Raise(&Deviation::weight, std::abs(weights[i] - truth));
    }
    for (const Vector& query : queries_) {
      double sum = 0;
      Vector value(kRegimeValues, 0.0);
      for (size_t i = 0; i < weights.size(); ++i) {
        const Vector key(
            before_->keys.begin() + static_cast<std::ptrdiff_t>(i * kRegimeDimension),
            before_->keys.begin() + static_cast<std::ptrdiff_t>((i + 1) * kRegimeDimension));
        const double share = weights[i] * Rbf(query, key, kRegimeGamma);
        sum += share;
        for (size_t m = 0; m < kRegimeValues; ++m) {
          value[m] += share * before_->values[i * kRegimeValues + m];
        }
      }
      const Judge::Answer truth = judge_->Query(query);
      for (size_t m = 0; m < kRegimeValues; ++m) {
        tally_.decay.Raise(&Deviation::readout, std::abs(value[m] / sum - truth.value[m]));
      }
      if (truth.decision.has_value() && before_->mu.has_value()) {
        tally_.decay.Raise(&Deviation::decision,
                           std::abs(2 * sum - 1 + *before_->mu - *truth.decision));
      }
    }
  }

  Tally& tally_;
  std::unique_ptr<svdd::ExactMemory> memory_;
  std::shared_ptr<const svdd::Snapshot> before_;
  std::vector<svdd::TokenHandle> forgotten_;
  std::vector<Token> rest_;
  std::vector<svdd::TokenHandle> handles_;
  std::unique_ptr<Judge> judge_;
  std::vector<Vector> queries_;
};

double Percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

Claim AllOf(const std::string& text, int64_t part, int64_t whole) {
  return {text, absl::StrFormat("%d of %d", part, whole), "all", part == whole && whole > 0};
}

void Report(const Regimes& regimes, const std::array<Tally, 4>& tallies, Result& result) {
  Table refit{"After Forget against a cold refit and a fresh memory: worst of all trials",
              {{"keys", ""},
               {"weight", ""},
               {"decision", ""},
               {"readout", ""},
               {"equal partitions", "%"},
               {"equal digests", "%"}},
              {}};
  Table beside{"The same beside others: change of the decision function, and of the readout",
               {{"keys", ""},
                {"median", "", 2},
                {"worst", "", 2},
                {"published median", "", 2},
                {"published worst", "", 2},
                {"published partitions", "%"},
                {"decay, decision", "", 2},
                {"decay, readout", "", 2}},
               {}};
  Table judge{"Against the 50-digit judge: worst of all trials",
              {{"keys", ""},
               {"equal partitions", "%"},
               {"weights 0 ulp off", "%"},
               {"decision", "", 2},
               {"readout", "", 2},
               {"within own bounds", "%"}},
              {}};
  Series ours{"Lethe against its refit", {}};
  Series published{"published", {}, true};
  Series decay{"coefficient decay against the truth", {}};
  Plot plot{"Forgetting 2 of 24 tokens: worst change of the decision function",
            "",
            "largest deviation",
            {},
            {},
            {},
            false,
            true};
  Tally sum;
  for (size_t r = 0; r < kRegimes.size(); ++r) {
    const Tally& tally = tallies[r];
    const std::string name = regimes.Name(kRegimes[r]);
    refit.rows.push_back({name, tally.refit.weight, tally.refit.decision, tally.refit.readout,
                          Percent(tally.partitions, tally.trials),
                          Percent(tally.digests, tally.trials)});
    beside.rows.push_back({name, Median(tally.decisions), tally.refit.decision,
                           kPublished[r].median, kPublished[r].worst, kPublished[r].partitions,
                           tally.decay.decision, tally.decay.readout});
    judge.rows.push_back({name, Percent(tally.judge_partitions, tally.trials),
                          Percent(tally.judge_weights, tally.trials), tally.judge.decision,
                          tally.judge.readout, Percent(tally.within_bound, tally.trials)});
    plot.categories.push_back(name);
    ours.y.push_back(tally.refit.decision);
    published.y.push_back(kPublished[r].worst);
    decay.y.push_back(tally.decay.decision);
    sum.trials += tally.trials;
    sum.partitions += tally.partitions;
    sum.digests += tally.digests;
    sum.judge_partitions += tally.judge_partitions;
    sum.judge_weights += tally.judge_weights;
    sum.within_bound += tally.within_bound;
    const double worst = std::max({tally.refit.weight, tally.refit.decision, tally.refit.readout});
    result.claims.push_back(
        {absl::StrCat("unlearning audit, ", name, ", ", tally.trials,
                      " trials: worst deviation of weights, decision and readout from a refit"),
         Short(worst, 2), absl::StrFormat("0; published %.1e", kPublished[r].worst), worst == 0.0});
  }
  plot.series = {ours, published, decay};
  result.claims.push_back(
      AllOf("unlearning audit: partitions equal to a refit's", sum.partitions, sum.trials));
  result.claims.push_back(
      AllOf("unlearning audit: digests equal to a refit's", sum.digests, sum.trials));
  result.claims.push_back(AllOf("unlearning audit: partitions equal to the 50-digit judge's",
                                sum.judge_partitions, sum.trials));
  result.claims.push_back(AllOf("unlearning audit: every weight is the judge's rounded, 0 ulp",
                                sum.judge_weights, sum.trials));
  result.claims.push_back(
      AllOf("unlearning audit: every answer within its own bound of the judge's", sum.within_bound,
            sum.trials));
  result.tables = {std::move(refit), std::move(beside), std::move(judge)};
  result.plot = std::move(plot);
}

absl::StatusOr<Result> Run(const Settings& settings) {
  auto regimes = Regimes::Make(settings.Text("--icu", ""), settings.seed);
  if (!regimes.ok()) return regimes.status();
  const int64_t trials = settings.Count("--trials", 300, 10);
  Result result;
  std::array<Tally, 4> tallies;
  for (size_t r = 0; r < kRegimes.size(); ++r) {
    for (int64_t t = 0; t < trials; ++t) {
      TokenSource source(*regimes, kRegimes[r],
                         settings.seed + 1000 * r + static_cast<uint64_t>(t));
      Trial(source, tallies[r]).Run();
    }
    result.seeds.push_back(settings.seed + 1000 * r);
  }
  Report(*regimes, tallies, result);
  result.notes.push_back(
      "Decay is coefficient decay, the weights of the forgotten times 0.01 and nothing solved "
      "again, against the judge. What remains against the judge in the last table is the fp64 "
      "rounding of evaluating one answer.");
  result.notes.push_back(regimes->Note());
  result.notes.push_back("Trial t of a kind of keys takes the kind's seed + t.");
  return result;
}

const Registration kRegistration({"unlearning-audit",
                                  "state after forgetting against refits and 50 digits",
                                  {{"--icu", "FILE", "hours of intensive care", Flag::Kind::kText},
                                   {"--trials", "N", "trials a kind of keys (300)"}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
