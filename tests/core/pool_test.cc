// The reserve pool: its bounds are never above the truth, and what it keeps follows what it holds.
#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "core/svdd/bucket_queue.h"
#include "tests/core/key_streams.h"
#include "tests/core/solver_peer.h"

namespace lethe::svdd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What the process has taken from malloc; 0 under sanitizers, whose malloc says nothing of it.
size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(BucketQueueTest, TakesWhatABruteForceTakes) {
  constexpr int kSeed = 5;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> uniform;
  for (int round = 0; round < 20; ++round) {
    const double range = std::exp(6 * uniform(random) - 3);
    BucketQueue queue(range);
    std::map<GroupIndex, double> judge;
    double threshold = 0.0;
    for (int step = 0; step < 3000; ++step) {
      const auto group = static_cast<GroupIndex>(random() % 300);
      const double choice = uniform(random);
      if (choice < 0.6) {
        // Most within the range, some far beyond it, some below the threshold.
        double key = threshold + range * uniform(random);
        if (uniform(random) < 0.1) key = threshold + range * 1e6 * uniform(random);
        if (uniform(random) < 0.05) key = threshold - range * uniform(random);
        queue.Set(group, key);
        judge[group] = key;
      } else if (choice < 0.8) {
        queue.Remove(group);
        judge.erase(group);
      } else {
        threshold += range * (uniform(random) < 0.02 ? 1e5 : 0.2) * uniform(random);
        std::vector<KeyedGroup> reached;
        queue.TakeReached(threshold, reached);
        size_t due = 0;
        for (auto item = judge.begin(); item != judge.end();) {
          if (item->second <= threshold) ++due;
          item = item->second <= threshold ? judge.erase(item) : std::next(item);
        }
        ASSERT_EQ(reached.size(), due)
            << "seed " << kSeed << " round " << round << " step " << step;
        for (const KeyedGroup& item : reached) ASSERT_LE(item.key, threshold);
      }
      double least = kInfinity;
      for (const auto& [name, key] : judge) least = std::min(least, key);
      ASSERT_LE(queue.MinKey(), least) << "seed " << kSeed << " round " << round;
      ASSERT_EQ(queue.Contains(group), judge.contains(group));
    }
  }
}

// Groups that move through all buckets must not leave their room behind in each.
TEST(BucketQueueTest, KeepsNoRoomForWhatHasMovedOn) {
  BucketQueue queue(1.0);
  constexpr GroupIndex kGroups = 5000;
  const auto set_all = [&](double key) {
    for (GroupIndex group = 0; group < kGroups; ++group) queue.Set(group, key);
  };
  set_all(0.0);
  const size_t before = HeapBytes();
  for (int step = 1; step <= 3000; ++step) {
    const double threshold = step * 0.001;
    std::vector<KeyedGroup> reached;
    queue.TakeReached(threshold, reached);
    set_all(threshold + 0.0005);
  }
  EXPECT_LT(HeapBytes(), before + (size_t{4} << 20));
}

class PoolTest : public testing::TestWithParam<KeyRegime> {};

// After every update, for every group that waits: its gradient in double-double is not below what
// the pool says of it.
TEST_P(PoolTest, NoBoundIsAboveTheGradient) {
  constexpr uint64_t kSeed = 17;
  constexpr size_t kDimension = 4;
  std::mt19937_64 random(kSeed);
  for (const auto kind : {kernel::KernelKind::kRbf, kernel::KernelKind::kLaplacian}) {
    KeyStream keys(GetParam(), kDimension, kSeed);
    const double parameter = kind == kernel::KernelKind::kRbf
                                 ? 1.0 / keys.squared_distance()
                                 : 1.0 / std::sqrt(keys.squared_distance());
    Solver solver({{kind, parameter},
                   *Capacity::FromCapacity(7.3),
                   DuplicatesPolicy::kShared,
                   kDimension,
                   1});
    SolverTestPeer peer(solver);
    std::vector<TokenHandle> alive;
    const double value = 1.0;
    size_t compared = 0;
    for (TokenHandle handle = 1; handle <= 250; ++handle) {
      const std::vector<double> key = keys.Next();
      const NewToken token{handle, key, {&value, 1}};
      solver.Insert({&token, 1});
      alive.push_back(handle);
      ASSERT_TRUE(solver.Publish().has_value());
      if (alive.size() > 50 && random() % 3 == 0) {
        std::swap(alive[random() % alive.size()], alive.back());
        solver.Forget({&alive.back(), 1});
        alive.pop_back();
        ASSERT_TRUE(solver.Publish().has_value());
      }
      for (const auto& [bound, group] : peer.PoolBounds()) {
        const SupportSet::Gradient gradient = peer.GradientOf(group);
        ASSERT_LE(std::max(bound, peer.PoolBound()), gradient.h.hi + gradient.error)
            << "seed " << kSeed << " token " << handle << " group " << group;
        ++compared;
      }
    }
    EXPECT_GT(compared, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Streams,
                         PoolTest,
                         testing::Values(KeyRegime::kGaussian,
                                         KeyRegime::kClustered,
                                         KeyRegime::kNoise2e2,
                                         KeyRegime::kNoise1e3,
                                         KeyRegime::kNoise1e6,
                                         KeyRegime::kNoise1e9,
                                         KeyRegime::kGrid,
                                         KeyRegime::kVitals,
                                         KeyRegime::kLearned),
                         [](const auto& parameter) { return std::string(Name(parameter.param)); });

// Landmarks are as many as there may be and far from all that comes now: with the next move of the
// solution they are given up.
TEST(LandmarksTest, AreNewWhereTheStreamHasGone) {
  constexpr int kSeed = 29;
  constexpr int kDimension = 16;
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  Solver solver({{kernel::KernelKind::kRbf, 0.5 / kDimension},
                 *Capacity::FromCapacity(10),
                 DuplicatesPolicy::kShared,
                 kDimension,
                 1});
  SolverTestPeer peer(solver);
  const double value = 1.0;
  TokenHandle next = 1;
  const auto insert = [&](double spread) {
    std::vector<double> key(kDimension);
    for (double& coordinate : key) coordinate = spread * normal(random);
    const NewToken token{next, key, {&value, 1}};
    solver.Insert({&token, 1});
    return next++;
  };
  for (int i = 0; i < 300; ++i) insert(1.0);
  ASSERT_TRUE(solver.Publish().has_value());
  // In the middle, so no weight moves: nothing follows the landmarks meanwhile.
  for (int i = 0; i < 20000; ++i) {
    const TokenHandle handle = insert(0.5);
    peer.PutNearLandmark(solver.tokens().GroupOf(handle));
    solver.Forget({&handle, 1});
  }
  EXPECT_TRUE(peer.LandmarksOutdated());
  insert(3.0);
  ASSERT_TRUE(solver.Publish().has_value());
  EXPECT_FALSE(peer.LandmarksOutdated());
}

// A cold solve of many tokens never holds more of them in its dense problem than what carries
// weight asks for.
TEST(FallbackTest, TakesInFewGroupsAtATime) {
  constexpr int kSeed = 23;
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  Solver solver({{kernel::KernelKind::kRbf, 0.5},
                 *Capacity::FromCapacity(20),
                 DuplicatesPolicy::kShared,
                 3,
                 1});
  constexpr size_t kTokens = 5000;
  std::vector<double> keys(3 * kTokens);
  for (double& coordinate : keys) coordinate = normal(random);
  const double value = 1.0;
  std::vector<NewToken> tokens;
  for (size_t i = 0; i < kTokens; ++i) {
    tokens.push_back({i + 1, std::span(keys).subspan(3 * i, 3), {&value, 1}});
  }
  solver.Insert(tokens);
  ASSERT_TRUE(solver.Publish().has_value());
  EXPECT_LT(SolverTestPeer(solver).slots(), 400u);
}

}  // namespace
}  // namespace lethe::svdd
