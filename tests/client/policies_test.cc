// Hedging, streams of queries, options of single calls, and calls that do not wait, over mocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/async_client.h"
#include "client/client.h"
#include "client/hedge.h"
#include "client/mocks/mock_connection.h"
#include "client/query_stream.h"

namespace lethe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::NiceMock;
using ::testing::Return;
using ::testing::ReturnRef;

// A door that attempts wait at.
class Gate {
 public:
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// ---- Hedged. ----------------------------------------------------------------------------------

TEST(HedgeTest, AQuickAnswerNeedsNoSecond) {
  std::atomic<int> attempts{0};
  const HedgeResult result = Hedged(
      absl::Hours(1),
      [&](int) {
        ++attempts;
        return absl::OkStatus();
      },
      [](int) { ADD_FAILURE() << "nothing to cancel"; });
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.winner, 0);
  EXPECT_FALSE(result.hedged);
  EXPECT_EQ(attempts, 1);
}

TEST(HedgeTest, ASlowFirstIsOvertakenAndCancelled) {
  Gate cancelled;
  const HedgeResult result = Hedged(
      absl::Milliseconds(1),
      [&](int which) {
        if (which == 1) return absl::OkStatus();
        cancelled.Wait();
        return absl::CancelledError("by us");
      },
      [&](int which) {
        EXPECT_EQ(which, 0);
        cancelled.Open();
      });
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.winner, 1);
  EXPECT_TRUE(result.hedged);
}

TEST(HedgeTest, AnAnswerThatIsAnErrorWinsTooATransientOneDoesNot) {
  Gate second_began, second_over;
  // The first answers NOT_FOUND while the second runs.
  HedgeResult result = Hedged(
      absl::Milliseconds(1),
      [&](int which) -> absl::Status {
        if (which == 1) {
          second_began.Open();
          second_over.Wait();
          return absl::CancelledError("by us");
        }
        second_began.Wait();
        return absl::NotFoundError("an answer");
      },
      [&](int which) {
        EXPECT_EQ(which, 1);
        second_over.Open();
      });
  EXPECT_EQ(result.status, absl::NotFoundError("an answer"));
  EXPECT_EQ(result.winner, 0);
  // The first breaks; the second, which is under way, is waited for.
  Gate began, first_over;
  result = Hedged(
      absl::Milliseconds(1),
      [&](int which) -> absl::Status {
        if (which == 1) {
          began.Open();
          first_over.Wait();
          return absl::OkStatus();
        }
        began.Wait();
        first_over.Open();
        return absl::UnavailableError("broken");
      },
      [](int) {});
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.winner, 1);
  // Both break: the first's status, for the retry loop.
  Gate both;
  result = Hedged(
      absl::Milliseconds(1),
      [&](int which) -> absl::Status {
        if (which == 1) {
          both.Open();
          return absl::UnavailableError("second");
        }
        both.Wait();
        return absl::UnavailableError("first");
      },
      [](int) { ADD_FAILURE(); });
  EXPECT_EQ(result.status, absl::UnavailableError("first"));
}

TEST(HedgeTest, AFirstThatBreaksEarlyIsNotHedged) {
  std::atomic<int> attempts{0};
  const HedgeResult result = Hedged(
      absl::Hours(1),
      [&](int) {
        ++attempts;
        return absl::UnavailableError("no server");
      },
      [](int) {});
  EXPECT_EQ(result.status, absl::UnavailableError("no server"));
  EXPECT_EQ(attempts, 1) << "the retry loop waits before the next";
}

// ---- Streams of queries. ------------------------------------------------------------------------

// Answers with the first number of each query, until it breaks.
class EchoStream : public QueryStream {
 public:
  EchoStream(int answers, absl::Status end) : left_(answers), end_(std::move(end)) {}
  bool Write(const QueryRequest& request) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (over_) return false;
    QueryResult result;
    for (const std::vector<double>& query : request.queries) {
      result.answers.push_back({.readout = {query[0]}});
    }
    results_.push_back(std::move(result));
    changed_.notify_one();
    return true;
  }
  void WritesDone() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    changed_.notify_one();
  }
  std::optional<QueryResult> Read() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return over_ || left_ == 0 || done_ || !results_.empty(); });
    if (over_ || left_ == 0 || results_.empty()) {
      over_ = true;
      return std::nullopt;
    }
    --left_;
    QueryResult result = std::move(results_.front());
    results_.erase(results_.begin());
    return result;
  }
  absl::Status Finish() override { return end_; }
  void Cancel() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<QueryResult> results_;
  int left_;
  const absl::Status end_;
  bool done_ = false;
  bool over_ = false;
};

class QueryStreamTest : public testing::Test {
 protected:
  QueryStreamTest() {
    options_.max_attempts = 3;
    options_.max_stream_attempts = 3;
    ON_CALL(connection_, options).WillByDefault(ReturnRef(options_));
  }

  // Asks for the numbers 0 .. count - 1, one a request.
  absl::Status Ask(int count, size_t window = 4) {
    int next = 0;
    QueryStreamOptions options;
    options.window = window;
    options.environment.sleep = [this](absl::Duration) { ++slept_; };
    return QueryStreamed(
        connection_,
        [&]() -> std::optional<QueryRequest> {
          if (next == count) return std::nullopt;
          return QueryRequest{.queries = {{static_cast<double>(next++)}}};
        },
        [this](const QueryResult& result) {
          seen_.push_back(result.answers.at(0).readout.at(0));
          return visit_status_;
        },
        options);
  }
  static std::vector<double> Numbers(int count) {
    std::vector<double> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
  }
  static std::unique_ptr<QueryStream> Echo(int answers, absl::Status end = absl::OkStatus()) {
    return std::make_unique<EchoStream>(answers, std::move(end));
  }

  Options options_;
  NiceMock<MockConnection> connection_;
  std::vector<double> seen_;
  int slept_ = 0;
  absl::Status visit_status_;
};

TEST_F(QueryStreamTest, AnswersComeInOrderThroughAnyWindow) {
  for (const size_t window : {1u, 3u, 100u}) {
    EXPECT_CALL(connection_, OpenQueryStream).WillOnce([] { return Echo(1000); });
    seen_.clear();
    EXPECT_TRUE(Ask(50, window).ok());
    EXPECT_EQ(seen_, Numbers(50)) << window;
  }
  EXPECT_CALL(connection_, OpenQueryStream).Times(0);
  EXPECT_TRUE(Ask(0).ok()) << "nothing to ask opens nothing";
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(1, 0)));
}

TEST_F(QueryStreamTest, ABrokenStreamIsResumedWithoutRepeatingAnswers) {
  EXPECT_CALL(connection_, OpenQueryStream)
      .WillOnce([] { return Echo(0, absl::UnavailableError("restart")); })
      .WillOnce([] { return Echo(7, absl::UnavailableError("restart")); })
      .WillOnce([] { return Echo(1, absl::CancelledError("shutting down")); })
      .WillOnce([] { return Echo(1000); });
  EXPECT_TRUE(Ask(30).ok());
  EXPECT_EQ(seen_, Numbers(30));
  EXPECT_EQ(slept_, 3);
}

TEST_F(QueryStreamTest, AnErrorThatIsAnAnswerAndOneTooManyEndIt) {
  EXPECT_CALL(connection_, OpenQueryStream).WillOnce([] {
    return Echo(2, absl::NotFoundError("no such memory"));
  });
  EXPECT_EQ(Ask(30), absl::NotFoundError("no such memory"));
  EXPECT_THAT(seen_, ElementsAre(0, 1)) << "what was answered before counts";
  seen_.clear();
  EXPECT_CALL(connection_, OpenQueryStream).Times(3).WillRepeatedly([] {
    return Echo(0, absl::UnavailableError("no server"));
  });
  EXPECT_EQ(Ask(30), absl::UnavailableError("no server"));
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(QueryStreamTest, TheVisitorAndAStallEndIt) {
  EXPECT_CALL(connection_, OpenQueryStream).WillOnce([] { return Echo(1000); });
  visit_status_ = absl::AbortedError("enough");
  EXPECT_EQ(Ask(30), absl::AbortedError("enough"));
  EXPECT_THAT(seen_, ElementsAre(0));
  // A server that takes requests and never answers.
  options_.stream_stall = absl::Milliseconds(5);
  options_.max_attempts = 1;
  EXPECT_CALL(connection_, OpenQueryStream).WillOnce([] {
    auto stream = std::make_unique<NiceMock<MockQueryStream>>();
    auto gate = std::make_shared<Gate>();
    ON_CALL(*stream, Write).WillByDefault(Return(true));
    ON_CALL(*stream, Cancel).WillByDefault([gate] { gate->Open(); });
    ON_CALL(*stream, Read).WillByDefault([gate] {
      gate->Wait();
      return std::nullopt;
    });
    ON_CALL(*stream, Finish).WillByDefault(Return(absl::CancelledError("by us")));
    return stream;
  });
  EXPECT_TRUE(absl::IsUnavailable(Ask(1)));
}

// ---- Options of single calls.
// ---------------------------------------------------------------------

TEST(CallOptionsTest, ReplaceWhatTheyName) {
  const Options options;
  const Options with =
      With(options, {.deadline = absl::Seconds(1), .hedge_after = absl::Milliseconds(5)});
  EXPECT_EQ(with.deadline, absl::Seconds(1));
  EXPECT_EQ(with.hedge_after, absl::Milliseconds(5));
  EXPECT_EQ(with.max_attempts, options.max_attempts);
  EXPECT_EQ(with.stream_stall, options.stream_stall);
  Options bad;
  bad.hedge_after = absl::ZeroDuration();
  EXPECT_TRUE(absl::IsInvalidArgument(Validate(bad)));
  auto other = std::make_shared<MockConnection>();
  auto mock = std::make_shared<MockConnection>();
  EXPECT_CALL(*mock, With).WillOnce([&](const CallOptions& call) {
    EXPECT_EQ(call.deadline, absl::Seconds(2));
    return other;
  });
  EXPECT_CALL(*other, GetTenant("t")).WillOnce(Return(Tenant{.name = "t"}));
  EXPECT_TRUE(Client(mock).With({.deadline = absl::Seconds(2)}).GetTenant("t").ok());
}

TEST(CallOptionsTest, RequestIdsAreMadeWhereTheyAreMissing) {
  auto mock = std::make_shared<NiceMock<MockConnection>>();
  Options options;
  ON_CALL(*mock, options).WillByDefault(ReturnRef(options));
  Client client(mock);
  std::vector<std::string> ids;
  ON_CALL(*mock, Forget).WillByDefault([&](const ForgetRequest& request) {
    ids.push_back(request.request_id);
    EXPECT_EQ(IdempotencyOf(request),
              request.request_id.empty() ? Idempotency::kNotSafe : Idempotency::kSafeToRepeat);
    return ForgetResult{};
  });
  const ForgetRequest request{.name = {"t", "m"}, .ids = {"a"}};
  EXPECT_TRUE(client.Forget(request).ok());
  options.make_request_ids = true;
  EXPECT_TRUE(client.Forget(request).ok());
  EXPECT_TRUE(client.Forget(request).ok());
  ForgetRequest named = request;
  named.request_id = "mine";
  EXPECT_TRUE(client.Forget(named).ok());
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids[0], "");
  EXPECT_EQ(ids[1].size(), 32u);
  EXPECT_NE(ids[1], ids[2]);
  EXPECT_EQ(ids[3], "mine");
}

// ---- Calls that do not wait.
// ----------------------------------------------------------------------

TEST(AsyncClientTest, RunsCallsAtATimeAndAnswersEach) {
  auto mock = std::make_shared<NiceMock<MockConnection>>();
  std::atomic<int> running{0};
  Gate both;
  ON_CALL(*mock, GetTenant).WillByDefault([&](const std::string& name) -> absl::StatusOr<Tenant> {
    if (++running == 2) both.Open();
    both.Wait();  // neither ends before both run
    if (name == "absent") return absl::NotFoundError("no such tenant");
    return Tenant{.name = name};
  });
  AsyncClient async(Client(mock), {.threads = 2});
  auto first = async.Run([](Client& client) { return client.GetTenant("t"); });
  auto second = async.Run([](Client& client) { return client.GetTenant("absent"); });
  EXPECT_EQ(first.get()->name, "t");
  EXPECT_EQ(second.get().status(), absl::NotFoundError("no such tenant"));
}

TEST(AsyncClientTest, WhatDoesNotBeginIsToldSo) {
  auto mock = std::make_shared<NiceMock<MockConnection>>();
  Gate began, go;
  ON_CALL(*mock, GetTenant).WillByDefault([&](const std::string& name) -> absl::StatusOr<Tenant> {
    began.Open();
    go.Wait();
    return Tenant{.name = name};
  });
  std::future<absl::StatusOr<Tenant>> running, waiting, refused;
  std::thread opener;
  {
    AsyncClient async(Client(mock), {.threads = 1, .max_waiting = 1});
    const auto call = [](Client& client) { return client.GetTenant("t"); };
    running = async.Run(call);
    began.Wait();
    waiting = async.Run(call);
    refused = async.Run(call);
    EXPECT_TRUE(absl::IsResourceExhausted(refused.get().status()));
    opener = std::thread([&] {
      // The destructor cancels what waits before it waits for what runs.
      EXPECT_TRUE(absl::IsCancelled(waiting.get().status()));
      go.Open();
    });
  }
  opener.join();
  EXPECT_EQ(running.get()->name, "t");
}

}  // namespace
}  // namespace lethe::client
