// A batch of tokens forgotten, keys and certificates included, against the same deletes in plain
// SQLite with secure_delete.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/bench/store_bench.h"

namespace lethe::bench {
namespace {

using store::TokenRow;

constexpr double kBar = 0.3;
constexpr size_t kFillBatch = 10'000;

enum class Choice { kTokens, kSubjects, kPartsOfSubjects };

struct Case {
  std::string name;
  Choice choice;
  bool judged;
  Spent ours;
  Spent plain;
  uint64_t forgotten = 0;
  double ratio() const { return plain.wall / ours.wall; }
};

// `tokens` rows of which about `batch` go in every round, and are replaced.
void Measure(const std::string& folder,
             uint64_t seed,
             size_t tokens,
             size_t batch,
             int64_t rounds,
             Case& work) {
  const uint64_t subjects = work.choice == Choice::kTokens ? 0 : tokens / 40;
  OurStore ours(folder + "/ours");
  PlainStore plain(folder + "/plain", true);
  Rows source(seed, subjects);
  std::mt19937_64 random(seed + 1);
  std::vector<TokenRow> live;
  const auto insert = [&](size_t count) {
    while (count > 0) {
      const auto rows = source.Next(std::min(count, kFillBatch));
      ours.Insert(rows);
      plain.Insert(rows);
      live.insert(live.end(), rows.begin(), rows.end());
      count -= rows.size();
    }
  };
  insert(tokens);
  for (int64_t round = 0; round < rounds; ++round) {
    std::shuffle(live.begin(), live.end(), random);
    if (work.choice == Choice::kSubjects) {
      // Whole subjects: those of a few rows come to the front.
      std::stable_sort(live.begin(), live.end(),
                       [&](const TokenRow& a, const TokenRow& b) { return a.subject < b.subject; });
    }
    size_t count = std::min(batch, live.size());
    while (work.choice == Choice::kSubjects && count < live.size() &&
           live[count].subject == live[count - 1].subject) {
      ++count;
    }
    std::vector<uint64_t> handles;
    std::vector<std::string> ids;
    for (size_t i = 0; i < count; ++i) {
      handles.push_back(live[i].handle);
      ids.push_back(live[i].id);
    }
    const auto forget = [&] { work.ours.Add(Time([&] { ours.Forget(handles); })); };
    if (round % 2 == 0) forget();
    work.plain.Add(Time([&] { plain.Delete(ids); }));
    if (round % 2 != 0) forget();
    work.forgotten += count;
    live.erase(live.begin(), live.begin() + static_cast<ptrdiff_t>(count));
    insert(count);
  }
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto tokens = static_cast<size_t>(settings.Count("--tokens", 20'000, 4'000));
  const auto batch = static_cast<size_t>(settings.Count("--batch", 1'000, 200));
  const int64_t rounds = settings.quick ? 2 : 20;
  if (batch > tokens) return absl::InvalidArgumentError("--batch: more than --tokens");
  if (tokens < 40) return absl::InvalidArgumentError("--tokens: at least 40");
  std::vector<Case> cases = {
      {"tokens without subjects", Choice::kTokens, true, {}, {}},
      {"whole subjects of 40 tokens", Choice::kSubjects, true, {}, {}},
      {"parts of subjects of 40 tokens", Choice::kPartsOfSubjects, false, {}, {}},
  };
  const BenchFolder folder;
  Result result;
  result.seeds = {settings.seed, settings.seed + 1};
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Forgetting ", batch, " of ", tokens,
      " tokens through the store (rows, tombstones, keys, evidence, two certificates, logs "
      "emptied) and deleting the same rows from plain SQLite with secure_delete, its log emptied, "
      "in turns.");
  table.columns = {{"tokens", ""},
                   {"ours", "ms"},
                   {"plain", "ms"},
                   {"plain / ours", ""},
                   {"processor, ours", "us/token"},
                   {"processor, plain", "us/token"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    Case& work = cases[i];
    Measure(absl::StrCat(folder.path(), "/", i), settings.seed, tokens, batch, rounds, work);
    const double calls = static_cast<double>(rounds);
    const double forgotten = static_cast<double>(work.forgotten);
    table.rows.push_back({work.name, 1e3 * work.ours.wall / calls, 1e3 * work.plain.wall / calls,
                          work.ratio(), 1e6 * work.ours.cpu / forgotten,
                          1e6 * work.plain.cpu / forgotten});
    if (!work.judged) continue;
    result.claims.push_back({absl::StrCat("a batch forgotten against plain deletes, ", work.name),
                             absl::StrCat(Short(work.ratio(), 3), " times as fast"),
                             absl::StrCat("at least ", kBar), work.ratio() >= kBar});
  }
  result.notes.push_back(
      "A part of a subject is forgotten by sealing the rest of it anew, so the last row seals up "
      "to "
      "40 rows for each one that goes; it has no bar. Signing the certificates is not in it.");
  return result;
}

const Registration kRegistration(
    {"batch-forget",
     "forgetting a batch, keys destroyed, against plain deletes",
     {{"--tokens", "N", "tokens in the memory (20000, quick 4000)", Flag::Kind::kCount},
      {"--batch", "N", "tokens forgotten at once (1000, quick 200)", Flag::Kind::kCount}},
     Run});

}  // namespace
}  // namespace lethe::bench
