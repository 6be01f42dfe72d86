// Opening a tenant and reading all its tokens, against reading the same rows from plain SQLite.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/bench/store_bench.h"

namespace lethe::bench {
namespace {

constexpr uint64_t kSubjects = 500;
constexpr size_t kBatch = 10'000;

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto tokens = static_cast<size_t>(settings.Count("--tokens", 100'000, 10'000));
  const int64_t rounds = settings.quick ? 1 : 5;
  const BenchFolder folder;
  Result result;
  result.seeds = {settings.seed};
  Table& table = result.tables.emplace_back();
  table.title = absl::StrCat(
      "Opening a tenant of ", tokens,
      " tokens and loading them (keys unwrapped, rows opened, hashes compared), and opening and "
      "reading the same rows from plain SQLite, in turns. Files are in the system's cache.");
  table.columns = {{"tokens", ""},       {"open", "ms"},  {"load", "ms"},
                   {"load", "us/token"}, {"plain", "ms"}, {"ours / plain", ""}};
  table.columns[3].name = "load of one";
  for (const uint64_t subjects : {uint64_t{0}, kSubjects}) {
    const std::string dir = absl::StrCat(folder.path(), "/", subjects);
    OurStore ours(dir + "-ours");
    PlainStore plain(dir + "-plain", false);
    Rows source(settings.seed, subjects);
    for (size_t done = 0; done < tokens;) {
      const auto rows = source.Next(std::min(kBatch, tokens - done));
      ours.Insert(rows);
      plain.Insert(rows);
      done += rows.size();
    }
    Spent open;
    Spent load;
    Spent read;
    for (int64_t round = 0; round < rounds; ++round) {
      ours.Close();
      plain.Close();
      open.Add(Time([&] { ours.Open(); }));
      load.Add(Time([&] { LETHE_CHECK(ours.Load() == tokens); }));
      read.Add(Time([&] {
        plain.Open();
        LETHE_CHECK(plain.Load() == tokens);
      }));
    }
    const double n = static_cast<double>(rounds);
    table.rows.push_back({subjects == 0 ? std::string("without subjects")
                                        : absl::StrCat("of ", subjects, " subjects"),
                          1e3 * open.wall / n, 1e3 * load.wall / n,
                          1e6 * load.wall / n / static_cast<double>(tokens), 1e3 * read.wall / n,
                          (open.wall + load.wall) / read.wall});
  }
  return result;
}

const Registration kRegistration({"cold-start",
                                  "opening a tenant and loading its tokens",
                                  {{"--tokens", "N", "tokens (100000, quick 10000)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
