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
  // Tokens drawn evenly.
  double Forget(size_t count) {
    std::vector<TokenHandle> handles;
    for (size_t i = 0; i < count; ++i) handles.push_back(Take(random_.Below(retained_.size())));
    return SecondsOf([&] { LETHE_CHECK(memory_->Forget(handles).ok()); });
  }
  double ForgetWithWeight() {
    const auto snapshot = memory_->snapshot();
    const TokenHandle handle = snapshot->supports[random_.Below(snapshot->supports.size())].handle;
    Take(static_cast<size_t>(std::ranges::find(retained_, handle) - retained_.begin()));
    return SecondsOf([&] { LETHE_CHECK(memory_->Forget({&handle, 1}).ok()); });
  }
  size_t with_weight() const { return memory_->snapshot()->supports.size(); }

 private:
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
  ResidentMemory memory;
  Samples insert;
  Samples forget;
  Samples insert_batch;  // a token
  Samples forget_batch;
  Samples forget_weighted;
};

Costs Measure(Bed& bed, size_t tokens, int64_t calls, int weighted) {
  Costs costs;
  bed.Fill(tokens);
  costs.tokens = tokens;
  costs.with_weight = bed.with_weight();
  costs.memory = MeasureResidentMemory();
  for (int64_t i = 0; i < calls; ++i) {
    costs.insert.Add(bed.Insert(1));
    costs.forget.Add(bed.Forget(1));
  }
  for (int64_t i = 0; i < std::max<int64_t>(calls / 100, 5); ++i) {
    costs.insert_batch.Add(bed.Insert(kBatch) / static_cast<double>(kBatch));
    costs.forget_batch.Add(bed.Forget(kBatch) / static_cast<double>(kBatch));
  }
  for (int i = 0; i < weighted; ++i) {
    costs.forget_weighted.Add(bed.ForgetWithWeight());
    bed.Insert(1);
  }
  return costs;
}

std::string Size(size_t tokens) { return absl::StrCat("1e", std::lround(std::log10(tokens))); }

absl::StatusOr<Result> Run(const Settings& settings) {
  const int64_t calls = settings.Count("--calls", 5000, 500);
  const int weighted = settings.quick ? 3 : 10;
  std::vector<size_t> sizes = {1000, kBase, 100000};
  if (!settings.quick) sizes.push_back(1000000);

  const ResidentMemory before = MeasureResidentMemory();
  Bed bed(settings.seed);
  std::vector<Costs> all;
  for (const size_t tokens : sizes) all.push_back(Measure(bed, tokens, calls, weighted));
  const Costs& base = all[1];
  const Costs& top = all.back();
  // The bench's own list of handles is in it.
  const double resident = top.memory.now - before.now;

  Result result;
  result.seeds = {settings.seed, settings.seed + 1};
  Table& costs = result.tables.emplace_back();
  costs.title = absl::StrCat(
      "Processor time a token, proof and published state included, and memory, by the number of "
      "tokens. Redundant stream: ",
      RedundantStream::kCentres, " slowly drifting centres, noise ", RedundantStream::kNoise,
      ", 16 + 16 numbers a token, rbf, gamma 1/16, capacity ", kCapacity,
      ". Forgotten tokens are drawn evenly, but for the rows that say otherwise.");
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
      "forget, mean [us]", [&](const Costs& c) { return micro(c.forget.Mean()); }, true);
  add(
      "insert, batches of 100 [us]", [&](const Costs& c) { return micro(c.insert_batch.Median()); },
      true);
  add(
      "forget, batches of 100 [us]", [&](const Costs& c) { return micro(c.forget_batch.Median()); },
      true);
  add(
      "forget, with weight [us]", [&](const Costs& c) { return micro(c.forget_weighted.Median()); },
      true);
  add(
      "largest insert [us]", [&](const Costs& c) { return micro(c.insert.Max()); }, false);
  add(
      "largest forget [us]", [&](const Costs& c) { return micro(c.forget.Max()); }, false);
  add(
      "tokens with weight", [](const Costs& c) { return static_cast<double>(c.with_weight); },
      false);
  add(
      "resident [MiB]", [&](const Costs& c) { return (c.memory.now - before.now) / 1048576; },
      false);
  add(
      "resident a token [bytes]",
      [&](const Costs& c) { return (c.memory.now - before.now) / static_cast<double>(c.tokens); },
      false);

  const auto claim = [&](const std::string& what, double large, double small) {
    const double ratio = large / small;
    result.claims.push_back(
        {absl::StrCat(what, " at ", Size(top.tokens), " tokens against ", Size(base.tokens)),
         absl::StrCat(Short(ratio, 3), " times"), absl::StrCat("at most ", kBar), ratio <= kBar});
  };
  claim("an insert, median", top.insert.Median(), base.insert.Median());
  claim("an insert, mean", top.insert.Mean(), base.insert.Mean());
  claim("a forget, median", top.forget.Median(), base.forget.Median());
  claim("a forget, mean", top.forget.Mean(), base.forget.Mean());
  result.claims.push_back(
      {absl::StrCat("memory of the whole process at its peak, ", Size(top.tokens), " tokens"),
       absl::StrCat(Short(top.memory.peak / kGib, 3), " GiB, ",
                    Short(resident / static_cast<double>(top.tokens), 3), " bytes a token"),
       "at most 2 GiB", top.memory.peak > 0.0 && top.memory.peak <= kMemoryBar});
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
    plot.series[3].y.emplace_back(micro(each.forget.Mean()));
  }
  return result;
}

const Registration kRegistration({"insert-growth",
                                  "cost of a token from a thousand to a million tokens",
                                  {{"--calls", "N", "inserts and forgets a size (5000, quick 500)",
                                    Flag::Kind::kCount}},
                                  Run});

}  // namespace
}  // namespace lethe::bench
