#include "core/base/stall_guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/clock.h"

namespace lethe {
namespace {

constexpr absl::Duration kLimit = absl::Milliseconds(40);

// Waits for what must happen; a slow machine only makes it slower.
bool Happens(const std::atomic<int>& stops) {
  for (int i = 0; i < 1000 && stops.load() == 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  return stops.load() > 0;
}

TEST(StallGuardTest, StopsOnceWithoutProgress) {
  std::atomic<int> stops{0};
  {
    StallGuard guard(kLimit, [&] { ++stops; });
    EXPECT_TRUE(Happens(stops));
    EXPECT_TRUE(guard.stalled());
    absl::SleepFor(2 * kLimit);
  }
  EXPECT_EQ(stops.load(), 1);
}

TEST(StallGuardTest, NoTimeCountsWhilePaused) {
  std::atomic<int> stops{0};
  StallGuard guard(kLimit, [&] { ++stops; });
  guard.Pause();
  absl::SleepFor(5 * kLimit);
  EXPECT_EQ(stops.load(), 0);
  EXPECT_FALSE(guard.stalled());
  // What was slept through does not count afterwards either; what follows does.
  guard.Progress();
  EXPECT_TRUE(Happens(stops));
}

TEST(StallGuardTest, GoesAwayWhilePaused) {
  std::atomic<int> stops{0};
  {
    StallGuard guard(absl::Hours(1), [&] { ++stops; });
    guard.Pause();
  }
  EXPECT_EQ(stops.load(), 0);
}

}  // namespace
}  // namespace lethe
