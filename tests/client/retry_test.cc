#include "client/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "client/convert.h"
#include "lethe/internal/error_details.pb.h"

namespace lethe::client {
namespace {

using ::testing::ElementsAre;

// A clock that moves only when someone sleeps or an attempt takes time.
struct FakeTime {
  absl::Time now = absl::UnixEpoch();
  std::vector<absl::Duration> slept;
  double uniform = 1.0;

  Environment environment() {
    return {.now = [this] { return now; },
            .sleep =
                [this](absl::Duration duration) {
                  slept.push_back(duration);
                  now += duration;
                },
            .uniform = [this] { return uniform; }};
  }
};

Options TestOptions() {
  Options options;
  options.deadline = absl::Seconds(60);
  options.max_attempts = 4;
  options.initial_backoff = absl::Milliseconds(100);
  options.max_backoff = absl::Milliseconds(300);
  return options;
}

TEST(RetryTest, EveryCodeButUnavailableAndCancelledIsAnAnswer) {
  for (int code = 1; code <= 16; ++code) {
    FakeTime time;
    int attempts = 0;
    const absl::Status wanted(static_cast<absl::StatusCode>(code), "why");
    const absl::Status status =
        RetryLoop(TestOptions(), time.environment(), Idempotency::kSafeToRepeat, [&](absl::Time) {
          ++attempts;
          return wanted;
        });
    EXPECT_EQ(status, wanted);
    const bool transient = wanted.code() == absl::StatusCode::kUnavailable ||
                           wanted.code() == absl::StatusCode::kCancelled;
    EXPECT_EQ(attempts, transient ? 4 : 1) << code;
  }
}

// Nothing was done, whatever the call: it may be repeated, and not sooner than the server says.
TEST(RetryTest, ARefusalThatSaysWhenIsWaitedFor) {
  for (const Idempotency idempotency : {Idempotency::kRead, Idempotency::kNotSafe}) {
    FakeTime time;
    int attempts = 0;
    const absl::Status status =
        RetryLoop(TestOptions(), time.environment(), idempotency, [&](absl::Time) {
          if (++attempts == 3) return absl::OkStatus();
          return WithRetryDelay(absl::ResourceExhaustedError("quota queries: 10 a second"),
                                attempts == 1 ? absl::Seconds(7) : absl::Milliseconds(1));
        });
    EXPECT_TRUE(status.ok());
    EXPECT_THAT(time.slept, ElementsAre(absl::Seconds(7) * 1.25, absl::Milliseconds(200)))
        << "and never shorter than the backoff";
  }
}

// Others had their turn: that is no failure of ours, however often it happens.
TEST(RetryTest, RefusalsUseUpNoAttemptsButTime) {
  FakeTime time;
  time.uniform = 0.0;
  int attempts = 0;
  const absl::Status status =
      RetryLoop(TestOptions(), time.environment(), Idempotency::kNotSafe, [&](absl::Time) {
        if (++attempts == 20) return absl::OkStatus();
        return WithRetryDelay(absl::ResourceExhaustedError("quota inserts"), absl::Seconds(1));
      });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(time.now, absl::UnixEpoch() + absl::Seconds(19)) << "not sooner than the server said";
  attempts = 0;
  const absl::Status never =
      RetryLoop(TestOptions(), time.environment(), Idempotency::kNotSafe, [&](absl::Time) {
        ++attempts;
        return WithRetryDelay(absl::ResourceExhaustedError("quota inserts"), absl::Seconds(1));
      });
  EXPECT_TRUE(absl::IsResourceExhausted(never));
  EXPECT_EQ(attempts, 60) << "the deadline ends it";
  Options once = TestOptions();
  once.max_attempts = 1;
  attempts = 0;
  RetryLoop(once, time.environment(), Idempotency::kRead, [&](absl::Time) {
    ++attempts;
    return WithRetryDelay(absl::ResourceExhaustedError("no"), absl::Milliseconds(1));
  }).IgnoreError();
  EXPECT_EQ(attempts, 1) << "retrying is off";
}

TEST(RetryTest, ADelayBeyondTheDeadlineIsNotWaitedFor) {
  FakeTime time;
  int attempts = 0;
  const absl::Status status =
      RetryLoop(TestOptions(), time.environment(), Idempotency::kRead, [&](absl::Time) {
        ++attempts;
        return WithRetryDelay(absl::ResourceExhaustedError("no"), absl::Seconds(61));
      });
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(attempts, 1);
  EXPECT_TRUE(time.slept.empty());
}

// Also where the server says so, an unsafe call is not repeated when its outcome is not known.
TEST(RetryTest, UnavailableWithADelayIsWaitedForWhereThatIsSafe) {
  for (const auto& [idempotency, wanted] :
       {std::pair(Idempotency::kSafeToRepeat, 2), std::pair(Idempotency::kNotSafe, 1)}) {
    FakeTime time;
    int attempts = 0;
    RetryLoop(TestOptions(), time.environment(), idempotency, [&](absl::Time) {
      return ++attempts == 2 ? absl::OkStatus()
                             : WithRetryDelay(absl::UnavailableError("stopping"), absl::Seconds(1));
    }).IgnoreError();
    EXPECT_EQ(attempts, wanted);
  }
}

TEST(RetryInfoTest, IsReadFromTheDetailsOfAnError) {
  internal::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  internal::Status details;
  google::protobuf::Any* any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(retry.SerializeAsString());
  const auto status = [&] {
    return convert::FromWire(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "quota streams: 2",
                                          details.SerializeAsString()));
  };
  EXPECT_EQ(RetryDelayOf(status()), absl::Milliseconds(2500));
  EXPECT_EQ(status().message(), "quota streams: 2");
  any->set_type_url("type.googleapis.com/google.rpc.Another");
  EXPECT_EQ(RetryDelayOf(status()), std::nullopt);
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  for (const int64_t seconds : {int64_t{-5}, int64_t{1} << 60}) {
    retry.mutable_retry_delay()->set_seconds(seconds);
    any->set_value(retry.SerializeAsString());
    ASSERT_TRUE(RetryDelayOf(status()).has_value());
    EXPECT_GE(*RetryDelayOf(status()), absl::ZeroDuration());
    EXPECT_LE(*RetryDelayOf(status()), absl::Minutes(10));
  }
  EXPECT_EQ(RetryDelayOf(convert::FromWire(
                grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "x", "no message"))),
            std::nullopt);
}

TEST(RetryTest, WhatIsNotSafeIsTriedOnce) {
  FakeTime time;
  int attempts = 0;
  const absl::Status status =
      RetryLoop(TestOptions(), time.environment(), Idempotency::kNotSafe, [&](absl::Time) {
        ++attempts;
        return absl::UnavailableError("gone");
      });
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(attempts, 1);
  EXPECT_TRUE(time.slept.empty());
}

TEST(RetryTest, WaitsGrowToTheMaximumAndSuccessEndsThem) {
  FakeTime time;
  int attempts = 0;
  const absl::Status status =
      RetryLoop(TestOptions(), time.environment(), Idempotency::kSafeToRepeat, [&](absl::Time) {
        return ++attempts < 4 ? absl::UnavailableError("gone") : absl::OkStatus();
      });
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(time.slept, ElementsAre(absl::Milliseconds(100), absl::Milliseconds(200),
                                      absl::Milliseconds(300)));
}

TEST(RetryTest, EveryAttemptHasTheSameDeadlineAndNoSleepPassesIt) {
  FakeTime time;
  Options options = TestOptions();
  options.deadline = absl::Milliseconds(1000);
  options.max_attempts = 100;
  std::vector<absl::Time> deadlines;
  const absl::Status status =
      RetryLoop(options, time.environment(), Idempotency::kSafeToRepeat, [&](absl::Time deadline) {
        deadlines.push_back(deadline);
        time.now += absl::Milliseconds(150);
        return absl::UnavailableError("gone");
      });
  EXPECT_TRUE(absl::IsUnavailable(status));
  // Attempts begin at 0, 250 and 600; the one at 600 ends at 750 and 300 more would be too late.
  EXPECT_THAT(deadlines, ElementsAre(absl::UnixEpoch() + options.deadline,
                                     absl::UnixEpoch() + options.deadline,
                                     absl::UnixEpoch() + options.deadline));
  EXPECT_LT(time.now, absl::UnixEpoch() + options.deadline);
}

TEST(RetryTest, JitterStaysBetweenHalfAndAll) {
  Backoff low(absl::Seconds(1), absl::Seconds(4));
  Backoff high(absl::Seconds(1), absl::Seconds(4));
  for (const int expected : {1, 2, 4, 4, 4}) {
    EXPECT_EQ(low.Next(0.0), absl::Seconds(expected) / 2);
    EXPECT_EQ(high.Next(1.0), absl::Seconds(expected));
  }
  low.Reset();
  EXPECT_EQ(low.Next(0.0), absl::Seconds(1) / 2);
}

TEST(RetryTest, RealChanceIsUniformEnough) {
  const Environment environment = Environment::Real();
  double sum = 0.0;
  for (int i = 0; i < 10000; ++i) {
    const double value = environment.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000.0, 0.5, 0.05);
}

TEST(IdempotencyTest, InsertsNeedIdsAndForgetsARequestId) {
  EXPECT_EQ(IdempotencyOf(std::vector<Token>{{.id = "a"}, {.id = "b"}}),
            Idempotency::kSafeToRepeat);
  EXPECT_EQ(IdempotencyOf(std::vector<Token>{{.id = "a"}, {}}), Idempotency::kNotSafe);
  EXPECT_EQ(IdempotencyOf(ForgetRequest{.ids = {"a"}}), Idempotency::kNotSafe);
  EXPECT_EQ(IdempotencyOf(ForgetRequest{.ids = {"a"}, .dry_run = true}),
            Idempotency::kSafeToRepeat);
  EXPECT_EQ(IdempotencyOf(ForgetRequest{.ids = {"a"}, .request_id = "r"}),
            Idempotency::kSafeToRepeat);
  EXPECT_EQ(IdempotencyOf(EvictRequest{.budget = 1}), Idempotency::kNotSafe);
  EXPECT_EQ(IdempotencyOf(EvictRequest{.budget = 1, .dry_run = true}), Idempotency::kSafeToRepeat);
  EXPECT_EQ(IdempotencyOf(EvictRequest{.budget = 1, .request_id = "r"}),
            Idempotency::kSafeToRepeat);
  EXPECT_EQ(IdempotencyOf(EditRequest{}), Idempotency::kNotSafe);
  EXPECT_EQ(IdempotencyOf(EditRequest{.dry_run = true}), Idempotency::kSafeToRepeat);
  EXPECT_EQ(IdempotencyOf(EditRequest{.request_id = "r"}), Idempotency::kSafeToRepeat);
}

TEST(OptionsTest, ValidationNamesTheField) {
  EXPECT_TRUE(Validate(Options()).ok());
  const auto message = [](void (*change)(Options&)) {
    Options options;
    change(options);
    return std::string(Validate(options).message());
  };
  EXPECT_THAT(message([](Options& o) { o.address.clear(); }), testing::StartsWith("address:"));
  EXPECT_THAT(message([](Options& o) { o.deadline = absl::ZeroDuration(); }),
              testing::StartsWith("deadline:"));
  EXPECT_THAT(message([](Options& o) { o.max_attempts = 0; }),
              testing::StartsWith("max_attempts:"));
  EXPECT_THAT(message([](Options& o) { o.max_stream_attempts = 101; }),
              testing::StartsWith("max_stream_attempts:"));
  EXPECT_THAT(message([](Options& o) { o.max_backoff = absl::Milliseconds(1); }),
              testing::StartsWith("max_backoff:"));
  EXPECT_THAT(message([](Options& o) { o.stream_stall = absl::ZeroDuration(); }),
              testing::StartsWith("stream_stall:"));
  EXPECT_THAT(message([](Options& o) { o.stream_lifetime = absl::ZeroDuration(); }),
              testing::StartsWith("stream_lifetime:"));
}

TEST(RequestIdTest, IsLongAndNew) {
  const std::string a = NewRequestId();
  EXPECT_EQ(a.size(), 32u);
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(a, NewRequestId());
}

}  // namespace
}  // namespace lethe::client
