// `latency`: a deletion against solving again, at the published sizes.
//
// Set-up as published: keys 1.5 N(0, 1), d = 6, nu = 0.4, sigma = 2, n = 120, 256, 384, 512;
// C = 1/(nu n). Times are medians. A deletion is Forget of one random token, certified and
// published; afterwards a new token takes its place, outside the clock. Refit is the cold solver on
// the same tokens in the same process.
#include <array>
#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr size_t kDimension = 6;
constexpr double kGamma = 1.0 / (2.0 * 2.0);
constexpr double kNu = 0.4;

struct Size {
  size_t tokens;
  double published_delete;  // milliseconds
  double published_refit;
};
constexpr std::array<Size, 4> kSizes = {
    {{120, 0.30, 7.8}, {256, 0.92, 22}, {384, 1.04, 59}, {512, 0.69, 159}}};

template <typename F>
double Milliseconds(F&& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

struct Times {
  Vector any;      // deletions of a random token
  Vector support;  // those of them that had weight
  Vector refit;
  int64_t equal = 0;  // refits with the bits of the memory
};

Times Measure(size_t n, size_t deletions, size_t refits, Random& random) {
  auto memory = MakeMemory(kGamma, *svdd::Capacity::FromCapacity(kNu * static_cast<double>(n)),
                           kDimension, 1);
  const auto token = [&] { return Token{random.Normals(kDimension, 1.5), {random.Normal()}}; };
  std::vector<Token> tokens;
  std::vector<svdd::TokenHandle> alive;
  for (size_t i = 0; i < n; ++i) {
    tokens.push_back(token());
    alive.push_back(i);
  }
  InsertAll(*memory, tokens);
  Times times;
  svdd::TokenHandle next = n;
  for (size_t i = 0; i < deletions; ++i) {
    const size_t which = random.Below(alive.size());
    const svdd::TokenHandle handle = alive[which];
    bool weight = false;
    for (const svdd::SupportToken& support : memory->snapshot()->supports) {
      weight |= support.handle == handle;
    }
    bool good = false;
    times.any.push_back(Milliseconds([&] { good = memory->Forget({&handle, 1}).ok(); }));
    LETHE_CHECK(good);
    if (weight) times.support.push_back(times.any.back());
    alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
    const Token fresh = token();
    const svdd::NewToken arrives{next, fresh.key, fresh.value};
    LETHE_CHECK(memory->Insert({&arrives, 1}).ok());
    alive.push_back(next++);
  }
  for (size_t i = 0; i < refits; ++i) {
    std::shared_ptr<const svdd::Snapshot> cold;
    times.refit.push_back(Milliseconds([&] { cold = memory->Refit(); }));
    times.equal += svdd::SameBits(*cold, *memory->snapshot());
  }
  return times;
}

absl::StatusOr<Result> Run(const Settings& settings) {
  const auto deletions = static_cast<size_t>(settings.Count("--deletions", 200, 20));
  const auto refits = static_cast<size_t>(settings.Count("--refits", 7, 1));
  Result result;
  Table table{absl::StrCat("Milliseconds, median of ", deletions, " deletions and ", refits,
                           refits == 1 ? " refit" : " refits"),
              {{"tokens", ""},
               {"delete any", "ms"},
               {"delete a support", "ms"},
               {"refit", "ms"},
               {"refit / delete", ""},
               {"published delete", "ms"},
               {"published refit", "ms"},
               {"published ratio", ""}},
              {}};
  Plot plot{
      "One deletion against solving again", "tokens", "milliseconds", {}, {}, {}, false, true};
  Series any{"delete", {}};
  Series refit{"refit", {}};
  Series published_any{"delete, published", {}, true};
  Series published_refit{"refit, published", {}, true};
  double least = std::numeric_limits<double>::infinity();
  int64_t equal = 0;
  int64_t all = 0;
  for (const Size& size : kSizes) {
    const uint64_t seed = settings.seed + size.tokens;
    Random random(seed);
    result.seeds.push_back(seed);
    const Times times = Measure(size.tokens, deletions, refits, random);
    const double ratio = Median(times.refit) / Median(times.any);
    least = std::min(least, ratio);
    equal += times.equal;
    all += static_cast<int64_t>(times.refit.size());
    std::optional<double> support;
    if (!times.support.empty()) support = Median(times.support);
    table.rows.push_back({static_cast<int64_t>(size.tokens), Median(times.any), MaybeCell(support),
                          Median(times.refit), ratio, size.published_delete, size.published_refit,
                          size.published_refit / size.published_delete});
    plot.x.push_back(static_cast<double>(size.tokens));
    any.y.push_back(Median(times.any));
    refit.y.push_back(Median(times.refit));
    published_any.y.push_back(size.published_delete);
    published_refit.y.push_back(size.published_refit);
  }
  plot.series = {any, refit, published_any, published_refit};
  result.plot = std::move(plot);
  result.tables.push_back(std::move(table));
  result.claims.push_back({"latency: timed refits with the bits of the memory",
                           absl::StrFormat("%d of %d", equal, all), "all", equal == all});
  result.claims.push_back({"latency: refit / delete, least of the four sizes",
                           absl::StrFormat("%.1f times", least), "above 1", least > 1});
  result.notes.push_back(
      "Published times are from another machine and arithmetic; compare ratios. Both of ours "
      "include the proof and the correct rounding of what is published.");
  return result;
}

const Registration kRegistration({"latency",
                                  "one deletion against a refit at the published sizes",
                                  {{"--deletions", "N", "timed deletions a size (200)"},
                                   {"--refits", "N", "timed refits a size (7)"}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
