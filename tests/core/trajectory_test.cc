// Random lives of memories of every kind (life.h): after every operation the published state is the
// cold refit of what is retained, bit for bit.
//
//   LETHE_TRAJECTORIES=N   N lives of up to 2,000 tokens instead of the 200 smaller ones of a plain
//                          run, and one line of totals
//   LETHE_LARGEST=n        lives of up to n tokens; with 400 one takes 0.1 s, with 2,000 half a
//                          second, and one that needs the upper rungs for hundreds of weights ten
//   LETHE_SEED=S           the seed of the run, from which each life has its own
//   LETHE_SHARD=i/k        only the lives whose number is i modulo k
//   LETHE_LIFE=seed        this life alone, as a failure prints it
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/core/life.h"

namespace lethe::svdd {
namespace {

struct RunOptions {
  uint64_t seed = 20260712;
  uint64_t lives = 200;
  uint64_t shard = 0;
  uint64_t shards = 1;
  size_t largest = 400;
  double seconds = 0.4;  // a life
};

constexpr size_t kLongLargest = 2000;
constexpr double kLongSeconds = 0.5;

const char* Environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

// A broken invariant ends the process: what it was about is said on the way out.
std::string* life_at_work = nullptr;
void SayWhichLife(int /*signal*/) {
  if (life_at_work == nullptr) return;
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, life_at_work->data(), life_at_work->size());
}

// Steele, Lea and Flood's splitmix64: neighbouring seeds give unrelated lives.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

struct Totals {
  uint64_t lives = 0;
  uint64_t operations = 0;
  uint64_t finished = 0;
  uint64_t equal_partition = 0;  // lives in which every comparison agreed
  uint64_t equal_digest = 0;
  uint64_t uncertified = 0;
  SolverCounters counters;
  std::map<std::string, uint64_t> kinds;
  std::map<std::string, uint64_t> regimes;

  void Add(const LifePlan& plan, const LifeResult& result) {
    ++lives;
    operations += result.operations;
    finished += result.finished ? 1 : 0;
    equal_partition += result.equal_partition == result.comparisons ? 1 : 0;
    equal_digest += result.equal_digest == result.comparisons ? 1 : 0;
    uncertified += result.uncertified;
    counters.climbs += result.counters.climbs;
    counters.fallbacks += result.counters.fallbacks;
    counters.refits += result.counters.refits;
    for (const auto& [kind, count] : result.kinds) kinds[kind] += count;
    ++regimes[std::string(Name(plan.regime))];
  }
};

LifeResult RunLife(const LifePlan& plan, const RunOptions& run) {
  std::string again = absl::StrCat(
      plan.Describe(), "\n  alone: LETHE_LIFE=0x", absl::Hex(plan.seed),
      run.largest == kLongLargest ? " LETHE_TRAJECTORIES=1" : "", " bin/trajectory_test\n");
  life_at_work = &again;
  const LifeResult result = Life(plan).Run();
  life_at_work = nullptr;
  EXPECT_EQ(result.fault, "") << again;
  EXPECT_TRUE(result.finished) << again;
  EXPECT_EQ(result.equal_partition, result.comparisons) << again;
  EXPECT_EQ(result.equal_digest, result.comparisons) << again;
  EXPECT_EQ(result.uncertified, 0u) << again;
  return result;
}

TEST(TrajectoryTest, EveryStateIsTheRefitBitForBit) {
  std::signal(SIGABRT, SayWhichLife);
  RunOptions run;
  if (const char* const text = Environment("LETHE_SEED")) {
    ASSERT_TRUE(absl::SimpleAtoi(text, &run.seed)) << "LETHE_SEED: must be a number";
  }
  bool named = false;
  if (const char* const text = Environment("LETHE_TRAJECTORIES")) {
    ASSERT_TRUE(absl::SimpleAtoi(text, &run.lives)) << "LETHE_TRAJECTORIES: must be a number";
    run.largest = kLongLargest;
    run.seconds = kLongSeconds;
    named = true;
  }
  if (const char* const text = Environment("LETHE_LARGEST")) {
    ASSERT_TRUE(absl::SimpleAtoi(text, &run.largest)) << "LETHE_LARGEST: must be a number";
    ASSERT_TRUE(run.largest >= 1 && run.largest <= kLongLargest)
        << "LETHE_LARGEST: must be in [1, " << kLongLargest << "]";
  }
  if (const char* const text = Environment("LETHE_SHARD")) {
    const std::vector<std::string> parts = absl::StrSplit(text, '/');
    ASSERT_TRUE(parts.size() == 2 && absl::SimpleAtoi(parts[0], &run.shard) &&
                absl::SimpleAtoi(parts[1], &run.shards) && run.shard < run.shards)
        << "LETHE_SHARD: must be i/k with i < k";
  }
  if (const char* const text = Environment("LETHE_LIFE")) {
    uint64_t seed = 0;
    ASSERT_TRUE(absl::SimpleHexAtoi(text, &seed)) << "LETHE_LIFE: must be a number in hexadecimal";
    const LifePlan plan = LifePlan::Draw(seed, run.largest, run.seconds);
    std::printf("%s\n", plan.Describe().c_str());
    RunLife(plan, run);
    return;
  }

  std::printf("LETHE_SEED=%llu\n", static_cast<unsigned long long>(run.seed));
  const auto begin = std::chrono::steady_clock::now();
  Totals totals;
  for (uint64_t i = run.shard; i < run.lives; i += run.shards) {
    const LifePlan plan = LifePlan::Draw(Mix(run.seed + i), run.largest, run.seconds);
    totals.Add(plan, RunLife(plan, run));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto number = [](uint64_t x) { return static_cast<unsigned long long>(x); };
  std::printf(
      "trajectories=%llu operations=%llu finished=%llu equal_partition=%llu equal_digest=%llu "
      "uncertified=%llu climbs=%llu fallbacks=%llu refits=%llu seconds=%.1f\n",
      number(totals.lives), number(totals.operations), number(totals.finished),
      number(totals.equal_partition), number(totals.equal_digest), number(totals.uncertified),
      number(totals.counters.climbs), number(totals.counters.fallbacks),
      number(totals.counters.refits), took.count());
  for (const auto& [kind, count] : totals.kinds) {
    RecordProperty(kind, std::to_string(count));
  }
  if (!named) {
    // The plain run must have been through everything.
    EXPECT_EQ(totals.lives, 200u);
    EXPECT_EQ(totals.regimes.size(), kKeyRegimes.size() + 1);
    EXPECT_EQ(totals.kinds.size(), 12u);
    EXPECT_GT(totals.counters.climbs, 0u);
  }
}

}  // namespace
}  // namespace lethe::svdd
