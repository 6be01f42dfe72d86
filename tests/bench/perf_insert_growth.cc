// What one more token costs, and one token less, as the memory grows.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/svdd/memory.h"
#include "tests/bench/bench.h"
#include "tests/bench/data.h"
#include "tests/bench/perf_data.h"
#include "tests/bench/perf_timing.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

using svdd::ExactMemory;
using svdd::TokenHandle;

constexpr size_t kDimension = 16;
constexpr double kGamma = 1.0 / 16;
constexpr double kCapacity = 50.0;
constexpr size_t kBase = 10000;  // the size that larger ones are compared with
constexpr double kBar = 1.5;
constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMemoryBar = 2 * kGib;
constexpr size_t kFillBatch = 10000;
constexpr size_t kBatch = 100;
constexpr int64_t kRounds = 20;

class Bed {
 public:
  explicit Bed(uint64_t seed) : stream_(kDimension, kDimension, seed), random_(seed + 1) {
    memory_ = ExactMemory::Create({{kernel::KernelKind::kRbf, kGamma},
                                   *svdd::Capacity::FromCapacity(kCapacity),
                                   svdd::DuplicatesPolicy::kShared,
                                   static_cast<int>(kDimension),
                                   static_cast<int>(kDimension)})
                  .value();
  }

  double Insert(size_t count) {
    const Tokens tokens = stream_.Next(count);
    const auto batch = AsNewTokens(tokens, 0, count, next_);
    const double seconds = SecondsOf([&] { LETHE_CHECK(memory_->Insert(batch).ok()); });
    for (size_t i = 0; i < count; ++i) retained_.push_back(next_++);
    return seconds;
  }
  void Fill(size_t tokens) {
    while (retained_.size() < tokens) Insert(std::min(kFillBatch, tokens - retained_.size()));
  }
  // Tokens drawn evenly. `moved` says whether one of them carried weight.
  double Forget(size_t count, bool* moved = nullptr) {
    std::vector<TokenHandle> handles;
    for (size_t i = 0; i < count; ++i) handles.push_back(Take(random_.Below(retained_.size())));
    return ForgetThese(handles, moved);
  }
  double ForgetWithWeight() {
    const auto snapshot = memory_->snapshot();
    const TokenHandle handle = snapshot->supports[random_.Below(snapshot->supports.size())].handle;
    Take(static_cast<size_t>(std::ranges::find(retained_, handle) - retained_.begin()));
    return ForgetThese({handle}, nullptr);
  }
  size_t with_weight() const { return memory_->snapshot()->supports.size(); }

 private:
  double ForgetThese(const std::vector<TokenHandle>& handles, bool* moved) {
    svdd::Method method = svdd::Method::kUnchanged;
    const double seconds = SecondsOf([&] { method = memory_->Forget(handles).value().method; });
    if (moved != nullptr) *moved = method != svdd::Method::kUnchanged;
    return seconds;
  }
  TokenHandle Take(size_t position) {
    std::swap(retained_[position], retained_.back());
    const TokenHandle handle = retained_.back();
    retained_.pop_back();
    return handle;
  }

  RedundantStream stream_;
  Random random_;
  std::unique_ptr<ExactMemory> memory_;
  std::vector<TokenHandle> retained_;
  TokenHandle next_ = 1;
};

struct Costs {
  size_t tokens = 0;
  size_t with_weight = 0;
  double resident = 0.0;  // bytes that filling it added
  double peak = 0.0;
  Samples insert;
  Samples forget;
  Samples insert_batch;  // a token
  Samples forget_batch;
  Samples forget_reserve;
  Samples forget_weighted;

  // Of a token drawn evenly. Tokens with weight are so few among many that an even draw seldom
  // meets one: they are drawn on their own and count by their share.
  double MeanForget() const {
    const double share = static_cast<double>(with_weight) / static_cast<double>(tokens);
    return (1 - share) * forget_reserve.Mean() + share * forget_weighted.Mean();
  }
};

// A part of all calls of one size.
void Measure(Bed& bed, int64_t calls, bool weighted, Costs& costs) {
  for (int64_t i = 0; i < calls; ++i) {
    costs.insert.Add(bed.Insert(1));
    bool moved = false;
    const double seconds = bed.Forget(1, &moved);
    costs.forget.Add(seconds);
    (moved ? costs.forget_weighted : costs.forget_reserve).Add(seconds);
  }
  costs.insert_batch.Add(bed.Insert(kBatch) / static_cast<double>(kBatch));
  costs.forget_batch.Add(bed.Forget(kBatch) / static_cast<double>(kBatch));
  if (!weighted) return;
  costs.forget_weighted.Add(bed.ForgetWithWeight());
  bed.Insert(1);
}

std::string Size(size_t tokens) { return absl::StrCat("1e", std::lround(std::log10(tokens))); }

absl::StatusOr<Result> Run(const Settings& settings) {
  const int64_t calls = settings.Count("--calls", 20000, 500);
  const int64_t weighted = settings.quick ? 3 : 10;
  std::vector<size_t> sizes = {1000, kBase, 100000};
  if (!settings.quick) sizes.push_back(1000000);

  // The largest first: what it takes is then the process's own peak.
  std::vector<Bed> beds;
  std::vector<Costs> all(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) beds.emplace_back(settings.seed);
  for (size_t i = sizes.size(); i-- > 0;) {
    const double before = MeasureResidentMemory().now;
    beds[i].Fill(sizes[i]);
    const ResidentMemory after = MeasureResidentMemory();
    all[i].tokens = sizes[i];
    all[i].with_weight = beds[i].with_weight();
    // The bench's own list of handles is in it.
    all[i].resident = after.now - before;
    all[i].peak = after.peak;
  }
  // All sizes in turns, so that a change of the machine's mood meets each of them.
  for (int64_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < beds.size(); ++i) {
      Measure(beds[i], std::max<int64_t>(calls / kRounds, 1), round < weighted, all[i]);
    }
  }
  const Costs& base = all[1];
  const Costs& top = all.back();

  Result result;
  result.seeds = {settings.seed, settings.seed + 1};
  Table& costs = result.tables.emplace_back();
  costs.title = absl::StrCat(
      "Processor time a token, proof and published state included, and memory, by the number of "
      "tokens. Redundant stream: ",
      RedundantStream::kCentres, " slowly drifting centres, noise ", RedundantStream::kNoise,
      ", 16 + 16 numbers a token, rbf, gamma 1/16, capacity ", kCapacity,
      ". Forgotten tokens are drawn evenly; in the mean those with weight count by their share.");
  costs.columns.push_back({"cost a token", ""});
  for (const Costs& each : all) costs.columns.push_back({Size(each.tokens), ""});
  costs.columns.push_back({absl::StrCat(Size(top.tokens), " / ", Size(base.tokens)), ""});
  const auto add = [&](const std::string& name, const auto& value, bool ratio) {
    std::vector<Cell> row = {name};
    for (const Costs& each : all) row.emplace_back(value(each));
    row.push_back(ratio ? Cell(value(top) / value(base)) : Cell());
    costs.rows.push_back(std::move(row));
  };
  const auto micro = [](double seconds) { return 1e6 * seconds; };
  add(
      "insert, median [us]", [&](const Costs& c) { return micro(c.insert.Median()); }, true);
  add(
      "insert, mean [us]", [&](const Costs& c) { return micro(c.insert.Mean()); }, true);
  add(
      "forget, median [us]", [&](const Costs& c) { return micro(c.forget.Median()); }, true);
  add(
      "forget, mean [us]", [&](const Costs& c) { return micro(c.MeanForget()); }, true);
  add(
      "insert, batches of 100 [us]", [&](const Costs& c) { return micro(c.insert_batch.Median()); },
      true);
  add(
      "forget, batches of 100 [us]", [&](const Costs& c) { return micro(c.forget_batch.Median()); },
      true);
  add(
      "forget, with weight, mean [us]",
      [&](const Costs& c) { return micro(c.forget_weighted.Mean()); }, true);
  add(
      "largest insert [us]", [&](const Costs& c) { return micro(c.insert.Max()); }, false);
  add(
      "largest forget [us]", [&](const Costs& c) { return micro(c.forget.Max()); }, false);
  add(
      "tokens with weight", [](const Costs& c) { return static_cast<double>(c.with_weight); },
      false);
  // Smaller ones live in what filling the largest gave back.
  const auto add_top = [&](const char* name, double value) {
    std::vector<Cell> row = {std::string(name)};
    row.resize(all.size());
    row.emplace_back(value);
    row.emplace_back();
    costs.rows.push_back(std::move(row));
  };
  add_top("resident [MiB]", top.resident / 1048576);
  add_top("resident a token [bytes]", top.resident / static_cast<double>(top.tokens));

  const auto claim = [&](const std::string& what, double large, double small) {
    const double ratio = large / small;
    result.claims.push_back(
        {absl::StrCat(what, " at ", Size(top.tokens), " tokens against ", Size(base.tokens)),
         absl::StrCat(Short(ratio, 3), " times"), absl::StrCat("at most ", kBar), ratio <= kBar});
  };
  claim("an insert, median", top.insert.Median(), base.insert.Median());
  claim("an insert, mean", top.insert.Mean(), base.insert.Mean());
  claim("a forget, median", top.forget.Median(), base.forget.Median());
  claim("a forget, mean", top.MeanForget(), base.MeanForget());
  result.claims.push_back(
      {absl::StrCat("memory of the whole process at its peak, ", Size(top.tokens), " tokens"),
       absl::StrCat(Short(top.peak / kGib, 3), " GiB, ",
                    Short(top.resident / static_cast<double>(top.tokens), 3), " bytes a token"),
       "at most 2 GiB", top.peak > 0.0 && top.peak <= kMemoryBar});
  if (settings.quick) {
    result.notes.push_back("The quick form stops at 1e5 tokens; the full one goes on to 1e6.");
  }

  Plot& plot = result.plot.emplace();
  plot.title = "Cost of a token on a redundant stream";
  plot.x_label = "tokens in the memory";
  plot.y_label = "microseconds";
  plot.log_x = true;
  plot.log_y = true;
  plot.series = {
      {"insert, median", {}}, {"insert, mean", {}}, {"forget, median", {}}, {"forget, mean", {}}};
  for (const Costs& each : all) {
    plot.x.push_back(static_cast<double>(each.tokens));
    plot.series[0].y.emplace_back(micro(each.insert.Median()));
    plot.series[1].y.emplace_back(micro(each.insert.Mean()));
    plot.series[2].y.emplace_back(micro(each.forget.Median()));
    plot.series[3].y.emplace_back(micro(each.MeanForget()));
  }
  return result;
}

const Registration kRegistration({"insert-growth",
                                  "cost of a token from a thousand to a million tokens",
                                  {{"--calls", "N", "inserts and forgets a size (20000, quick 500)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
