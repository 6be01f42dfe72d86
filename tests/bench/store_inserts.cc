// Inserts that outlive a loss of power, against plain SQLite with the same rows in the same
// batches.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/bench/store_bench.h"

namespace lethe::bench {
namespace {

constexpr double kBar = 0.5;
constexpr uint64_t kSubjects = 500;

struct Case {
  uint64_t subjects;
  size_t batch;
  int64_t rows;
  Spent ours;
  Spent plain;

  double Rate(const Spent& spent) const { return static_cast<double>(rows) / spent.wall; }
  double ratio() const { return plain.wall / ours.wall; }
  std::string Name() const {
    return absl::StrCat("batches of ", batch, ", ",
                        subjects == 0 ? "no subjects" : absl::StrCat(subjects, " subjects"));
  }
};

void Measure(const std::string& folder, uint64_t seed, Case& work) {
  OurStore ours(folder + "/ours");
  PlainStore plain(folder + "/plain", false);
  Rows source(seed, work.subjects);
  bool ours_first = true;
  for (int64_t done = 0; done < work.rows; done += static_cast<int64_t>(work.batch)) {
    const auto rows = source.Next(work.batch);
    // In turns, and each goes first as often as second.
    if (ours_first) work.ours.Add(Time([&] { ours.Insert(rows); }));
    work.plain.Add(Time([&] { plain.Insert(rows); }));
    if (!ours_first) work.ours.Add(Time([&] { ours.Insert(rows); }));
    ours_first = !ours_first;
  }
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const int64_t small = settings.Count("--rows", 60'000, 3'000);
  const int64_t large = settings.quick ? 20'000 : 2 * small;
  std::vector<Case> cases;
  for (const uint64_t subjects : {uint64_t{0}, kSubjects}) {
    cases.push_back({subjects, 300, small / 300 * 300, {}, {}});
    cases.push_back({subjects, 10'000, large / 10'000 * 10'000, {}, {}});
  }
  const BenchFolder folder;
  Result result;
  result.seeds = {settings.seed};
  Table& table = result.tables.emplace_back();
  table.title =
      "Durable inserts into a new tenant and into plain SQLite (write-ahead log, synchronous=FULL, "
      "id unique, subject indexed, the rest one blob), batch by batch in turns. Rows of 16 + 16 "
      "numbers, 100 bytes of payload, 20 of labels, random ids of 32 digits.";
  table.columns = {{"case", ""},
                   {"rows", ""},
                   {"ours", "rows/s"},
                   {"plain", "rows/s"},
                   {"ours / plain", ""},
                   {"processor, ours", "us/row"},
                   {"processor, plain", "us/row"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    Case& work = cases[i];
    if (work.rows == 0) return absl::InvalidArgumentError("--rows: at least 10000");
    Measure(absl::StrCat(folder.path(), "/", i), settings.seed, work);
    const double rows = static_cast<double>(work.rows);
    table.rows.push_back({work.Name(), work.rows, work.Rate(work.ours), work.Rate(work.plain),
                          work.ratio(), 1e6 * work.ours.cpu / rows, 1e6 * work.plain.cpu / rows});
    result.claims.push_back(
        {absl::StrCat("durable inserts a second against plain SQLite's, ", work.Name()),
         absl::StrCat(Short(work.ratio(), 3), " times"), absl::StrCat("at least ", kBar),
         work.ratio() >= kBar});
  }
  result.notes.push_back(
      "Time on the clock, syncs included: it depends on the device under TMPDIR.");
  Plot& plot = result.plot.emplace();
  plot.title = "Durable inserts";
  plot.y_label = "rows a second";
  plot.series = {{"sealed", {}}, {"plain SQLite", {}}};
  for (const Case& work : cases) {
    plot.categories.push_back(work.Name());
    plot.series[0].y.emplace_back(work.Rate(work.ours));
    plot.series[1].y.emplace_back(work.Rate(work.plain));
  }
  return result;
}

const Registration kRegistration({"durable-inserts",
                                  "durable inserts of sealed rows against plain SQLite",
                                  {{"--rows", "N", "rows in batches of 300 (60000, quick 3000)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
