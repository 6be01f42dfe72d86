// `sequences`: does a long life of mixed inserts and forgets finish, and is every state a refit's?
//
// Set-up as published: 80 trajectories, 5,120 operations in all, 64 each; the rest is not published
// in detail. Here: 24 tokens to begin with, n = 24, d = 6, sigma = 2, C = 1/(0.4 n) as in the
// audit, 20 trajectories a kind of keys, inserting and forgetting one random token with equal odds.
// A rescue is an operation that the walk did not finish: the cold solver did, or a refit.
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/regimes.h"

namespace lethe::bench {
namespace {

constexpr size_t kStart = 24;
constexpr double kNu = 0.4;
constexpr int64_t kOperations = 64;
constexpr int64_t kPublishedTrajectories = 80;
constexpr int64_t kPublishedFinished = 66;

struct Tally {
  int64_t trajectories = 0;
  int64_t operations = 0;
  int64_t finished = 0;
  int64_t unaided = 0;  // finished without a rescue
  int64_t digests = 0;  // operations whose state equals the cold refit's
  svdd::SolverCounters counters;
};

class Trajectory {
 public:
  Trajectory(const Regimes& regimes, Regime regime, uint64_t seed, Tally& tally)
      : source_(regimes, regime, seed), tally_(tally) {
    memory_ =
        MakeMemory(kRegimeGamma, *svdd::Capacity::FromCapacity(kNu * static_cast<double>(kStart)),
                   kRegimeDimension, kRegimeValues);
  }

  void Run() {
    ++tally_.trajectories;
    bool good = true;
    for (size_t i = 0; good && i < kStart; ++i) good = Insert();
    for (int64_t i = 0; good && i < kOperations; ++i) {
      good = alive_.empty() || source_.random().Uniform() < 0.5 ? Insert() : Forget();
      ++tally_.operations;
      if (good) {
        tally_.digests += StateDigest(*memory_->snapshot()) == StateDigest(*memory_->Refit());
      }
    }
    const svdd::SolverCounters& counters = memory_->counters();
    tally_.finished += good;
    tally_.unaided += good && counters.fallbacks == 0 && counters.refits == 0;
    tally_.counters.updates += counters.updates;
    tally_.counters.proofs += counters.proofs;
    tally_.counters.climbs += counters.climbs;
    tally_.counters.fallbacks += counters.fallbacks;
    tally_.counters.refits += counters.refits;
  }

 private:
  bool Insert() {
    const Token token = source_.Next();
    alive_.push_back(next_);
    const svdd::NewToken fresh{next_++, token.key, token.value};
    return memory_->Insert({&fresh, 1}).ok();
  }

  bool Forget() {
    const size_t which = source_.random().Below(alive_.size());
    const svdd::TokenHandle handle = alive_[which];
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(which));
    return memory_->Forget({&handle, 1}).ok();
  }

  TokenSource source_;
  Tally& tally_;
  std::unique_ptr<svdd::ExactMemory> memory_;
  std::vector<svdd::TokenHandle> alive_;
  svdd::TokenHandle next_ = 0;
};

std::vector<Cell> Row(const std::string& name, const Tally& tally) {
  return {name,
          tally.trajectories,
          tally.operations,
          tally.finished,
          tally.unaided,
          tally.digests,
          static_cast<int64_t>(tally.counters.fallbacks),
          static_cast<int64_t>(tally.counters.refits),
          static_cast<int64_t>(tally.counters.climbs)};
}

absl::StatusOr<Result> Run(const Settings& settings) {
  auto regimes = Regimes::Make(settings.Text("--icu", ""), settings.seed);
  if (!regimes.ok()) return regimes.status();
  const auto each = static_cast<uint64_t>(settings.Count("--trajectories", 80, 8) + 3) / 4;
  Result result;
  Table table{"Trajectories of 64 mixed operations after 24 inserts",
              {{"keys", ""},
               {"trajectories", ""},
               {"operations", ""},
               {"finished", ""},
               {"without rescue", ""},
               {"digests equal", ""},
               {"fallbacks", ""},
               {"refits", ""},
               {"climbs", ""}},
              {}};
  Tally all;
  Series finished{"finished without a rescue", {}};
  Plot plot{"Mixed sequences that finish without a rescue", "", "percent", {}, {}, {}};
  const auto percent = [](int64_t part, int64_t whole) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  for (size_t r = 0; r < kRegimes.size(); ++r) {
    Tally tally;
    for (uint64_t t = 0; t < each; ++t) {
      Trajectory(*regimes, kRegimes[r], settings.seed + 1000 * r + t, tally).Run();
    }
    result.seeds.push_back(settings.seed + 1000 * r);
    table.rows.push_back(Row(regimes->Name(kRegimes[r]), tally));
    plot.categories.push_back(regimes->Name(kRegimes[r]));
    finished.y.push_back(percent(tally.unaided, tally.trajectories));
    all.trajectories += tally.trajectories;
    all.operations += tally.operations;
    all.finished += tally.finished;
    all.unaided += tally.unaided;
    all.digests += tally.digests;
    all.counters.climbs += tally.counters.climbs;
    all.counters.fallbacks += tally.counters.fallbacks;
    all.counters.refits += tally.counters.refits;
  }
  table.rows.push_back(Row("all", all));
  table.rows.push_back({std::string("published"), kPublishedTrajectories,
                        kPublishedTrajectories * kOperations, Cell(), kPublishedFinished, Cell(),
                        Cell(), Cell(), Cell()});
  plot.categories.insert(plot.categories.end(), {"all", "published"});
  finished.y.push_back(percent(all.unaided, all.trajectories));
  finished.y.push_back(percent(kPublishedFinished, kPublishedTrajectories));
  plot.series = {finished};
  result.plot = std::move(plot);
  result.tables.push_back(std::move(table));
  result.claims.push_back({absl::StrCat("sequences: trajectories finished without a rescue, ",
                                        all.operations, " operations"),
                           absl::StrFormat("%d of %d; %d fallbacks, %d refits, %d climbs",
                                           all.unaided, all.trajectories, all.counters.fallbacks,
                                           all.counters.refits, all.counters.climbs),
                           "all; published 66 of 80", all.unaided == all.trajectories});
  result.claims.push_back({"sequences: states with the digest of a cold refit",
                           absl::StrFormat("%d of %d", all.digests, all.operations), "all",
                           all.digests == all.operations && all.operations > 0});
  result.notes.push_back(regimes->Note());
  result.notes.push_back("Trajectory t of a kind of keys takes the kind's seed + t.");
  return result;
}

const Registration kRegistration({"sequences",
                                  "long lives of mixed inserts and forgets",
                                  {{"--icu", "FILE", "hours of intensive care", Flag::Kind::kText},
                                   {"--trajectories", "N",
                                    "in all, a quarter for each kind of keys (80)"}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
