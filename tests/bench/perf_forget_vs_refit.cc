// Forgetting one of 20,000 hours against solving anew for the rest: by our own cold solver, and by
// LIBSVM.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/svdd/memory.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/perf_data.h"
#include "tests/bench/perf_libsvm.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

using svdd::ExactMemory;
using svdd::Label;
using svdd::TokenHandle;

constexpr size_t kTokens = 20000;
constexpr double kGamma = 1.0 / 7;
constexpr double kBox = 0.005;
constexpr double kCapacity = 200.0;
constexpr double kBar = 300.0;
constexpr double kCoarse = 1e-3;  // LIBSVM's own default
constexpr double kFine = 1e-9;
// LIBSVM holds kernel values in single precision; weights below this may be either way.
constexpr double kWeightTolerance = 1e-6;

// Times of Forget by what the token was.
struct ForgetTimes {
  Samples any;  // tokens drawn evenly
  Samples weighted;
  Samples margin;
  Samples error;
};

struct RefitTimes {
  Samples own;
  Samples coarse;
  Samples fine;
};

// How far LIBSVM's solution with the fine tolerance is from ours.
struct Agreement {
  double largest_difference = 0.0;
  int64_t other_supports = 0;  // that only one of the two has, above the tolerance
};

class Bed {
 public:
  Bed(Tokens tokens, uint64_t seed) : tokens_(std::move(tokens)), random_(seed) {
    memory_ = ExactMemory::Create({{kernel::KernelKind::kRbf, kGamma},
                                   *svdd::Capacity::FromBox(kBox),
                                   svdd::DuplicatesPolicy::kShared,
                                   static_cast<int>(tokens_.key_dimension),
                                   static_cast<int>(tokens_.value_dimension)})
                  .value();
    LETHE_CHECK(memory_->Insert(AsNewTokens(tokens_, 0, tokens_.size(), 1)).ok());
    for (size_t i = 0; i < tokens_.size(); ++i) row_of_[i + 1] = i;
    next_ = tokens_.size() + 1;
  }

  // Forgets one token, and says how long it took.
  double Forget(TokenHandle handle) {
    svdd::Method method = svdd::Method::kUnchanged;
    const double seconds = SecondsOf([&] {
      method = memory_->Forget({&handle, 1}).value().method;
    });
    if (method == svdd::Method::kFallback) ++given_up_;
    const auto row = row_of_.find(handle);
    forgotten_.push_back(row->second);
    row_of_.erase(row);
    return seconds;
  }
  TokenHandle AnyToken() {
    // Handles lie densely enough that a few tries do.
    for (;;) {
      const TokenHandle handle = 1 + random_.Below(next_ - 1);
      if (row_of_.count(handle) != 0) return handle;
    }
  }
  svdd::SupportToken TokenWithWeight() {
    const auto snapshot = memory_->snapshot();
    return snapshot->supports[random_.Below(snapshot->supports.size())];
  }
  // Puts what was forgotten back, so that every round has as many tokens.
  void Restore() {
    std::vector<svdd::NewToken> tokens;
    for (const size_t row : forgotten_) {
      row_of_[next_] = row;
      tokens.push_back({next_++, tokens_.Key(row), tokens_.Value(row)});
    }
    LETHE_CHECK(memory_->Insert(tokens).ok());
    forgotten_.clear();
  }

  double Refit(bool* same) const {
    std::shared_ptr<const svdd::Snapshot> fresh;
    const double seconds = SecondsOf([&] { fresh = memory_->Refit(); });
    *same = svdd::SameBits(*fresh, *memory_->snapshot());
    return seconds;
  }

  std::vector<std::span<const double>> RetainedKeys() const {
    std::vector<std::span<const double>> keys;
    for (const auto& [handle, row] : row_of_) keys.push_back(tokens_.Key(row));
    return keys;
  }

  // Weights a distinct key: how copies share is each program's own affair.
  void Compare(const std::vector<double>& theirs, Agreement& agreement) const {
    std::map<std::vector<double>, std::pair<double, double>> by_key;
    size_t i = 0;
    for (const auto& [handle, row] : row_of_) {
      const auto key = tokens_.Key(row);
      by_key[{key.begin(), key.end()}].second += theirs[i++];
    }
    for (const svdd::SupportToken& token : memory_->snapshot()->supports) {
      const auto key = tokens_.Key(row_of_.at(token.handle));
      by_key[{key.begin(), key.end()}].first += token.alpha;
    }
    for (const auto& [key, weights] : by_key) {
      const auto [ours, other] = weights;
      agreement.largest_difference = std::max(agreement.largest_difference, std::abs(ours - other));
      if ((ours > kWeightTolerance && other == 0.0) || (other > kWeightTolerance && ours == 0.0)) {
        ++agreement.other_supports;
      }
    }
  }

  const svdd::Snapshot& state() const { return *memory_->snapshot(); }
  int64_t given_up() const { return given_up_; }

 private:
  Tokens tokens_;
  Random random_;
  std::unique_ptr<ExactMemory> memory_;
  std::map<TokenHandle, size_t> row_of_;
  std::vector<size_t> forgotten_;
  TokenHandle next_ = 1;
  int64_t given_up_ = 0;
};

std::string Times(const Samples& refit, const Samples& forget) {
  return absl::StrCat(Short(refit.Median() / forget.Mean(), 3), " times (",
                      Short(refit.Median() / forget.Median(), 3), " by the median token)");
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const std::string path = settings.Text("--icu", "");
  const auto rounds = settings.Count("--rounds", 10, 3);
  const int random_a_round = settings.quick ? 100 : 200;
  const int weighted_a_round = settings.quick ? 15 : 30;
  const bool libsvm = LibsvmProblem::Available();

  Tokens tokens;
  if (path.empty()) {
    tokens = SyntheticHours(kTokens, settings.seed);
  } else {
    LETHE_ASSIGN_OR_RETURN(tokens, IcuHours(path, kTokens));
  }
  Bed bed(std::move(tokens), settings.seed + 1);
  const auto counts = bed.state().counts;

  ForgetTimes forget;
  RefitTimes refit;
  Agreement agreement;
  bool all_same = true;
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < random_a_round; ++i) forget.any.Add(bed.Forget(bed.AnyToken()));
    for (int i = 0; i < weighted_a_round; ++i) {
      const svdd::SupportToken token = bed.TokenWithWeight();
      const double seconds = bed.Forget(token.handle);
      forget.weighted.Add(seconds);
      (token.label == Label::kMargin ? forget.margin : forget.error).Add(seconds);
    }
    bool same = false;
    refit.own.Add(bed.Refit(&same));
    all_same &= same;
    if (libsvm) {
      const LibsvmProblem problem(bed.RetainedKeys());
      double seconds = 0.0;
      problem.Train(kGamma, kCapacity, kCoarse, &seconds);
      refit.coarse.Add(seconds);
      const std::vector<double> theirs = problem.Train(kGamma, kCapacity, kFine, &seconds);
      refit.fine.Add(seconds);
      bed.Compare(theirs, agreement);
    }
    bed.Restore();
  }

  Result result;
  result.seeds = {settings.seed, settings.seed + 1};
  Table& times = result.tables.emplace_back();
  times.title = absl::StrCat(
      "One forget, proof and published state included, and a refit of the rest: processor time of "
      "one thread. The last columns: median refit (LIBSVM with eps 1e-3) over mean forget. ",
      kTokens, path.empty() ? " synthetic hours" : " ICU hours", ", 7 signs, gamma 1/7, C ", kBox,
      ": ", counts.margin, " in the margin, ", counts.error, " at the box.");
  times.columns = {{"what", ""},         {"calls", ""},     {"median", "ms"},
                   {"mean", "ms"},       {"largest", "ms"}, {"own refit / mean", ""},
                   {"LIBSVM / mean", ""}};
  const auto add = [&](const std::string& name, const Samples& samples, bool is_forget) {
    if (samples.count() == 0) return;
    const auto ratio = [&](const Samples& slow) {
      return is_forget && slow.count() > 0 ? Cell(slow.Median() / samples.Mean()) : Cell();
    };
    times.rows.push_back({name, samples.count(), 1e3 * samples.Median(), 1e3 * samples.Mean(),
                          1e3 * samples.Max(), ratio(refit.own), ratio(refit.coarse)});
  };
  add("forget, any token", forget.any, true);
  add("forget, with weight", forget.weighted, true);
  add("  in the margin", forget.margin, true);
  add("  at the box", forget.error, true);
  add("our own cold refit", refit.own, false);
  add("LIBSVM, eps 1e-3", refit.coarse, false);
  add("LIBSVM, eps 1e-9", refit.fine, false);

  if (libsvm) {
    Table& check = result.tables.emplace_back();
    check.title =
        "LIBSVM with eps 1e-9 against our weights, over all rounds; weights sum to 1, copies of a "
        "key taken together.";
    check.columns = {{"against LIBSVM", ""}, {"value", ""}};
    check.rows = {
        {std::string("largest difference of a weight"), agreement.largest_difference},
        {std::string("tokens with weight in one of the two only"), agreement.other_supports}};
    const double any = refit.coarse.Median() / forget.any.Mean();
    const std::string bar = absl::StrCat("at least ", kBar);
    result.claims.push_back(
        {"forgetting a token drawn evenly against LIBSVM's refit (eps 1e-3), "
         "mean over tokens",
         Times(refit.coarse, forget.any), bar, any >= kBar});
    result.claims.push_back(
        {"LIBSVM finds the same solution",
         absl::StrCat(agreement.other_supports, " other tokens, weights within ",
                      Short(agreement.largest_difference, 2)),
         absl::StrCat("0 and ", Short(kWeightTolerance, 1)),
         agreement.other_supports == 0 && agreement.largest_difference <= kWeightTolerance});
  } else {
    result.claims.push_back({"forgetting against LIBSVM's refit", "built without LIBSVM",
                             "LIBSVM (libsvm-dev)", false});
  }
  result.claims.push_back({"after every round the state equals the refit in every bit",
                           all_same ? "equal" : "different", "equal", all_same});
  result.notes.push_back(absl::StrCat(bed.given_up(), " of ",
                                      forget.any.count() + forget.weighted.count(),
                                      " forgets left the walk and were finished by the active-set "
                                      "solver; their time is in the table."));
  if (path.empty()) {
    result.notes.push_back(
        "No --icu FILE was given: this is a synthetic stream of the shape of hourly vital signs, "
        "not patients' data.");
  }

  Plot& plot = result.plot.emplace();
  plot.title = absl::StrCat("Forgetting one of ", kTokens, " hours, or solving anew");
  plot.y_label = "milliseconds, mean";
  plot.log_y = true;
  Series& series = plot.series.emplace_back();
  series.name = "mean time";
  for (const auto& [name, samples] :
       {std::pair<const char*, const Samples*>{"forget, any token", &forget.any},
        {"forget, with weight", &forget.weighted},
        {"own cold refit", &refit.own},
        {"LIBSVM, eps 1e-3", &refit.coarse},
        {"LIBSVM, eps 1e-9", &refit.fine}}) {
    if (samples->count() == 0) continue;
    plot.categories.emplace_back(name);
    series.y.emplace_back(1e3 * samples->Mean());
  }
  return result;
}

const Registration kRegistration(
    {"forget-vs-refit",
     "a forget against a refit, our own and LIBSVM's",
     {{"--icu", "FILE", "hours of vital signs, CSV; without it a synthetic stream",
       Flag::Kind::kText},
      {"--rounds", "N", "rounds of forgets and refits (10, quick 3)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
