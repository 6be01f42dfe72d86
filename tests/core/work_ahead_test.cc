#include "core/base/work_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lethe {
namespace {

using ::testing::ElementsAre;

TEST(WorkAheadTest, GivesItemsInOrder) {
  int next = 0;
  WorkAhead<std::unique_ptr<int>> work(5, 2, [&] { return std::make_unique<int>(next++); });
  std::vector<int> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(*work.Take());
  EXPECT_THAT(taken, ElementsAre(0, 1, 2, 3, 4));
}

// The second item is made while the first is held: without a thread of its own this would wait for
// ever.
TEST(WorkAheadTest, WorksWhileTheOwnerIsBusy) {
  std::mutex mutex;
  std::condition_variable changed;
  int made = 0;
  WorkAhead<int> work(2, 1, [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();
    return ++made;
  });
  EXPECT_EQ(work.Take(), 1);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return made == 2; });
  lock.unlock();
  EXPECT_EQ(work.Take(), 2);
}

TEST(WorkAheadTest, IsNeverFurtherAheadThanItMay) {
  std::atomic<int> made = 0;
  std::atomic<int> taken = 0;
  std::atomic<int> furthest = 0;
  {
    WorkAhead<int> work(200, 3, [&] {
      const int ahead = ++made - taken;
      if (ahead > furthest) furthest = ahead;
      return 0;
    });
    for (int i = 0; i < 200; ++i) {
      if (i % 50 == 0) std::this_thread::yield();
      // Counted before: an item that is being taken has left its place already.
      ++taken;
      work.Take();
    }
  }
  EXPECT_EQ(made, 200);
  EXPECT_LE(furthest, 3);
}

TEST(WorkAheadTest, ThrowsWhereTheItemIsMissing) {
  int next = 0;
  WorkAhead<int> work(3, 2, [&] {
    if (next == 1) throw std::runtime_error("no second one");
    return next++;
  });
  EXPECT_EQ(work.Take(), 0);
  EXPECT_THROW(work.Take(), std::runtime_error);
}

TEST(WorkAheadTest, CanBeLeftInTheMiddle) {
  std::atomic<int> made = 0;
  {
    WorkAhead<int> work(1'000'000, 4, [&] { return ++made; });
    EXPECT_EQ(work.Take(), 1);
  }
  EXPECT_LE(made, 5);  // the one taken and four ahead
}

}  // namespace
}  // namespace lethe
