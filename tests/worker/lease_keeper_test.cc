// Heartbeats: a third of the lease apart, tried again until it is over, and what ends it.
#include "worker/lease_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "tests/worker/fake_link.h"

namespace lethe::worker {
namespace {

using Clock = std::chrono::steady_clock;
using State = LeaseKeeper::State;

// Waits for what other threads bring about; no time is part of what is tested.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class LeaseKeeperTest : public testing::Test {
 protected:
  std::unique_ptr<LeaseKeeper> Keep(absl::Duration length) {
    link_.offer.set_lease_seconds(absl::ToDoubleSeconds(length));
    return std::make_unique<LeaseKeeper>(&link_, link_.offer.lease(), length, Clock::now(), &log_);
  }
  FakeLink link_;
  program::EventLog log_{-1, program::LogLevel::kError};
};

TEST_F(LeaseKeeperTest, ItBeatsThreeTimesALeaseWithTheLastProgress) {
  const Clock::time_point begin = Clock::now();
  const auto keeper = Keep(absl::Milliseconds(300));
  v1::JobProgress progress;
  progress.set_step(7);
  keeper->SetProgress(progress);
  ASSERT_TRUE(Eventually([&] { return link_.calls("Heartbeat") >= 7; }));
  // Seven beats are six pauses of a third.
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(595));
  EXPECT_EQ(keeper->state(), State::kHeld);
  EXPECT_GT(keeper->left(), absl::ZeroDuration());
  EXPECT_TRUE(Eventually([&] { return link_.progress().step() == 7; }));
}

TEST_F(LeaseKeeperTest, FailuresAreTriedAgainAndTheLeaseLivesOn) {
  link_.OnCall([](const std::string&, int before) {
    return before % 2 == 1 ? absl::UnavailableError("no answer") : absl::OkStatus();
  });
  const auto keeper = Keep(absl::Seconds(1));
  ASSERT_TRUE(Eventually([&] { return link_.calls("Heartbeat") >= 8; }));
  EXPECT_EQ(keeper->state(), State::kHeld);
  EXPECT_GE(keeper->failed_beats(), 3u);
}

TEST_F(LeaseKeeperTest, WithoutAnswerForItsLengthItIsLost) {
  link_.OnCall([](const std::string&, int) { return absl::UnavailableError("no answer"); });
  const Clock::time_point begin = Clock::now();
  const auto keeper = Keep(absl::Milliseconds(200));
  ASSERT_TRUE(Eventually([&] { return keeper->state() == State::kLost; }));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
  EXPECT_EQ(keeper->left(), absl::ZeroDuration());
  // What comes too late does not bring it back.
  EXPECT_TRUE(keeper->Retry([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(keeper->state(), State::kLost);
}

TEST_F(LeaseKeeperTest, ItCountsFromWhenTheCallWasSent) {
  const LeaseKeeper late(&link_, link_.offer.lease(), absl::Seconds(5),
                         Clock::now() - std::chrono::seconds(6), &log_);
  EXPECT_EQ(const_cast<LeaseKeeper&>(late).state(), State::kLost);
}

TEST_F(LeaseKeeperTest, TheServerEndsItAndCancels) {
  link_.cancel = true;
  const auto keeper = Keep(absl::Milliseconds(300));
  EXPECT_TRUE(Eventually([&] { return keeper->state() == State::kCancelled; }));
  link_.OnCall([](const std::string&, int) {
    return absl::FailedPreconditionError("lease: is not in force");
  });
  EXPECT_TRUE(Eventually([&] { return keeper->state() == State::kLost; }));
}

// Heartbeats keep it, and the call fails for ever.
TEST_F(LeaseKeeperTest, ACallIsNotTriedForEver) {
  LeaseKeeper keeper(&link_, link_.offer.lease(), absl::Seconds(30), Clock::now(), &log_,
                     absl::Milliseconds(300));
  int tries = 0;
  EXPECT_EQ(keeper.Retry([&] { return ++tries, absl::UnavailableError("not now"); }).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_GT(tries, 1);
  EXPECT_EQ(keeper.state(), State::kHeld);
}

TEST_F(LeaseKeeperTest, OtherCallsRenewItAndAreTriedAgain) {
  link_.OnCall([](const std::string&, int) { return absl::UnavailableError("no heartbeat"); });
  const auto keeper = Keep(absl::Milliseconds(500));
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < std::chrono::milliseconds(900)) {
    ASSERT_TRUE(keeper->Retry([] { return absl::OkStatus(); }).ok());
    ASSERT_EQ(keeper->state(), State::kHeld);
  }
  int tries = 0;
  EXPECT_TRUE(
      keeper->Retry([&] { return ++tries < 3 ? absl::UnavailableError("") : absl::OkStatus(); })
          .ok());
  EXPECT_EQ(tries, 3);
  tries = 0;
  EXPECT_TRUE(absl::IsInternal(keeper->Retry([&] { return ++tries, absl::InternalError("no"); })));
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(absl::IsUnavailable(
      keeper->Retry([] { return absl::UnavailableError("never"); }, [] { return true; })));
  // Another file of the same lease is not the end of the lease.
  tries = 0;
  EXPECT_TRUE(keeper
                  ->Retry([&] {
                    return ++tries < 2 ? absl::FailedPreconditionError("data: one is under way")
                                       : absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(keeper->state(), State::kHeld);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      keeper->Retry([] { return absl::FailedPreconditionError("lease: is not in force"); })));
  EXPECT_EQ(keeper->state(), State::kLost);
}

}  // namespace
}  // namespace lethe::worker
