// `icu-selection`: which hours of an intensive-care stay survive a budget?
//
// Set-up as published: stays of 48 hours or more, six vitals an hour, filled forward, z-scored;
// hours with a vital beyond its threshold are events (icu.h); nu = 0.3, sigma = 3. SVDD keeps the
// hours with weight, about a third; every other rule gets the same number of hours for each stay.
#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "tests/bench/baselines.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/icu.h"

namespace lethe::bench {
namespace {

constexpr size_t kHours = 48;
constexpr double kGamma = 1.0 / (3.0 * 3.0);
constexpr double kNu = 0.3;

enum Method { kSvdd, kMass, kStreaming, kRandom, kRecency, kDecay, kFull, kMethods };
struct Row {
  const char* name;
  std::optional<double> published;
};
constexpr std::array<Row, kMethods> kRows = {{{"SVDD", 0.80},
                                              {"\"H2O\": top-k mass", 0.05},
                                              {"streaming H2O", std::nullopt},
                                              {"random", 0.34},
                                              {"recency", 0.30},
                                              {"coefficient decay", std::nullopt},
                                              {"full context", std::nullopt}}};

struct Totals {
  int64_t stays = 0;
  int64_t with_events = 0;
  int64_t hours = 0;
  int64_t events = 0;
  int64_t budget = 0;
  std::array<int64_t, kMethods> kept{};           // event hours
  std::array<double, kMethods> share_of_stays{};  // sum over stays with events

  double OfHours(size_t m) const {
    return static_cast<double>(kept[m]) / static_cast<double>(std::max<int64_t>(events, 1));
  }
  double OfStays(size_t m) const {
    return share_of_stays[m] / static_cast<double>(std::max<int64_t>(with_events, 1));
  }
};

void Add(const Stay& stay, Random& random, Totals& totals) {
  const size_t n = stay.keys.size();
  std::vector<Token> tokens;
  for (const Vector& key : stay.keys) tokens.push_back({key, {1.0}});
  auto memory =
      MakeMemory(kGamma, *svdd::Capacity::FromCapacity(kNu * static_cast<double>(n)), kVitals, 1);
  InsertAll(*memory, tokens);
  Kept kept;
  for (const svdd::SupportToken& support : memory->snapshot()->supports) {
    kept.push_back(support.handle);
  }
  const size_t budget = kept.size();
  std::array<Kept, kMethods> rules;
  rules[kSvdd] = std::move(kept);
  rules[kMass] = Top(KernelMass(stay.keys, stay.keys, kGamma), budget);
  rules[kStreaming] = StreamingH2O(stay.keys, budget, kGamma);
  rules[kRandom] = AtRandom(n, budget, random);
  rules[kRecency] = Recent(n, budget);
  rules[kDecay] = rules[kRecency];  // those whose coefficient was not decayed
  rules[kFull] = Recent(n, n);

  const int64_t events = std::count(stay.event.begin(), stay.event.end(), true);
  ++totals.stays;
  totals.with_events += events > 0;
  totals.hours += static_cast<int64_t>(n);
  totals.events += events;
  totals.budget += static_cast<int64_t>(budget);
  for (size_t m = 0; m < kMethods; ++m) {
    int64_t hits = 0;
    for (const size_t hour : rules[m]) hits += stay.event[hour];
    totals.kept[m] += hits;
    if (events > 0) {
      totals.share_of_stays[m] += static_cast<double>(hits) / static_cast<double>(events);
    }
  }
}

absl::StatusOr<Result> Run(const Settings& settings) {
  Result result;
  if (!settings.Has("--icu")) {
    result.notes.push_back(
        "Nothing measured: give hours of intensive care with --icu FILE (docs/benches.md).");
    return result;
  }
  auto stays = ReadStays(settings.Text("--icu", ""), kHours);
  if (absl::IsNotFound(stays.status())) {
    result.notes.push_back(absl::StrCat("Nothing measured: ", stays.status().message(), "."));
    return result;
  }
  if (!stays.ok()) return stays.status();
  const auto limit =
      static_cast<size_t>(settings.Count("--stays", static_cast<int64_t>(stays->size()) + 1, 100));
  if (stays->size() > limit) stays->resize(limit);
  if (stays->empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--icu: no stay of ", kHours, " hours"));
  }
  Random random(settings.seed);
  result.seeds = {settings.seed};
  Totals totals;
  for (const Stay& stay : *stays) Add(stay, random, totals);

  Table table{absl::StrFormat(
                  "Event hours kept: %d stays, %d of %d hours are events, budget %.1f %%",
                  totals.stays, totals.events, totals.hours,
                  100.0 * static_cast<double>(totals.budget) / static_cast<double>(totals.hours)),
              {{"rule", ""},
               {"of all event hours", ""},
               {"mean over stays with events", ""},
               {"published", ""}},
              {}};
  Series of_hours{"of all event hours", {}};
  Series of_stays{"mean over stays with events", {}};
  Series published{"published, other stays", {}, true};
  Plot plot{"Event hours kept at one budget", "", "share kept"};
  bool best = true;
  for (size_t m = 0; m < kMethods; ++m) {
    table.rows.push_back({std::string(kRows[m].name), totals.OfHours(m), totals.OfStays(m),
                          MaybeCell(kRows[m].published)});
    plot.categories.push_back(kRows[m].name);
    of_hours.y.push_back(totals.OfHours(m));
    of_stays.y.push_back(totals.OfStays(m));
    published.y.push_back(kRows[m].published);
    if (m != kSvdd && m != kFull) {
      best &= totals.kept[kSvdd] > totals.kept[m] && totals.OfStays(kSvdd) > totals.OfStays(m);
    }
  }
  plot.series = {of_hours, of_stays, published};
  result.plot = std::move(plot);
  result.tables.push_back(std::move(table));
  const auto second = [](const auto& share) {
    size_t best_other = kMass;
    for (const size_t m : {kStreaming, kRandom, kRecency}) {
      if (share(m) > share(best_other)) best_other = m;
    }
    return absl::StrFormat("%s %.2f", kRows[best_other].name, share(best_other));
  };
  result.claims.push_back(
      {"ICU selection: event hours kept by SVDD at equal budget, mean over stays with events",
       absl::StrFormat("%.2f, next %s; of all event hours %.2f, next %s", totals.OfStays(kSvdd),
                       second([&](size_t m) { return totals.OfStays(m); }), totals.OfHours(kSvdd),
                       second([&](size_t m) { return totals.OfHours(m); })),
       "above every baseline; published 0.80, next random 0.34", best});
  result.notes.push_back(
      "Coefficient decay counts the hours whose coefficient was not decayed: the recent ones.");
  return result;
}

const Registration kRegistration({"icu-selection",
                                  "event hours of intensive care kept at a budget",
                                  {{"--icu", "FILE", "hours of intensive care", Flag::Kind::kText},
                                   {"--stays", "N", "only the first N stays (all)"}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
