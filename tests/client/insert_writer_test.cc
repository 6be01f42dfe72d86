// InsertWriter against a server that breaks at random points: nothing is lost, nothing is doubled,
// every rejection is told once.
#include "client/insert_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "client/mocks/mock_connection.h"

namespace lethe::client {
namespace {

using ::testing::NiceMock;
using ::testing::ReturnRef;

bool IsRefused(const std::string& id) { return id.back() == '7'; }

// What survives a broken stream: the memory.
struct Server {
  std::mutex mutex;
  std::vector<std::string> order;        // of first insertion
  std::map<std::string, double> tokens;  // by id, with a word of its content
  std::vector<std::string> conflicts;    // same id, other content
  size_t largest_batch = 0;
  size_t largest_backlog = 0;  // messages applied and not yet acknowledged
  size_t streams = 0;
};

enum class Fault {
  kNone,
  kBeforeApply,  // the message is lost
  kAfterApply,   // it is durable, its acknowledgement is lost
  kAfterAck,     // it is acknowledged, then the stream breaks
  kEndsWithOk,   // the server drains
  kLifetime,     // our own limit
  kShutdown,     // the server shuts down and does not wait for the stream
  kStall,        // applied; no acknowledgement ever comes
  kRefused,      // others had their turn: come back in a second
};

class FlakyStream : public InsertStream {
 public:
  FlakyStream(Server& server, std::vector<Fault> plan, bool coalesce)
      : server_(server), plan_(std::move(plan)), coalesce_(coalesce) {
    std::lock_guard<std::mutex> lock(server_.mutex);
    ++server_.streams;
  }

  bool Write(const InsertBatch& batch) override {
    std::lock_guard<std::mutex> lock(server_.mutex);
    if (over_) return false;
    EXPECT_GT(batch.sequence, last_sequence_) << "sequences increase within a stream";
    last_sequence_ = batch.sequence;
    const Fault fault = written_ < plan_.size() ? plan_[written_] : Fault::kNone;
    ++written_;
    if (fault == Fault::kBeforeApply) return Break(absl::UnavailableError("lost"), true);
    if (fault == Fault::kRefused) {
      return Break(WithRetryDelay(absl::ResourceExhaustedError("quota inserts"), absl::Seconds(1)),
                   true);
    }
    Apply(batch);
    switch (fault) {
      case Fault::kAfterApply:
        return Break(absl::UnavailableError("lost after apply"), true);
      case Fault::kAfterAck:
        Acknowledge();
        return Break(absl::UnavailableError("lost after ack"), false);
      case Fault::kEndsWithOk:
        Break(absl::OkStatus(), false);
        return true;
      case Fault::kLifetime:
        return Break(absl::DeadlineExceededError("Deadline Exceeded"), true);
      case Fault::kShutdown:
        return Break(absl::CancelledError("CANCELLED"), true);
      case Fault::kStall:
        stalled_ = true;
        return true;
      default:
        break;
    }
    if (!coalesce_ || batch.sequence % 3 == 0) Acknowledge();
    return true;
  }
  void WritesDone() override {
    std::lock_guard<std::mutex> lock(server_.mutex);
    if (stalled_) return;
    Acknowledge();
    over_ = true;
    changed_.notify_all();
  }
  std::optional<InsertAck> Read() override {
    std::unique_lock<std::mutex> lock(server_.mutex);
    changed_.wait(lock, [this] { return !acks_.empty() || over_; });
    if (acks_.empty()) return std::nullopt;
    InsertAck ack = acks_.front();
    acks_.erase(acks_.begin());
    return ack;
  }
  absl::Status Finish() override {
    std::lock_guard<std::mutex> lock(server_.mutex);
    EXPECT_TRUE(over_) << "Finish before the stream is over would wait for ever";
    EXPECT_FALSE(std::exchange(finished_, true)) << "Finish is called once";
    return status_;
  }
  void Cancel() override {
    std::lock_guard<std::mutex> lock(server_.mutex);
    Break(absl::CancelledError("cancelled"), false);
  }
  ~FlakyStream() override { EXPECT_TRUE(finished_) << "a stream was dropped without Finish"; }

 private:
  bool Break(absl::Status status, bool lose_acks) {
    if (over_) return false;
    over_ = true;
    status_ = std::move(status);
    if (lose_acks) acks_.clear();
    changed_.notify_all();
    return false;
  }

  void Apply(const InsertBatch& batch) {
    server_.largest_batch = std::max(server_.largest_batch, batch.tokens.size());
    server_.largest_backlog = std::max(server_.largest_backlog, ++backlog_);
    pending_.acknowledged_sequence = batch.sequence;
    for (uint32_t i = 0; i < batch.tokens.size(); ++i) {
      const Token& token = batch.tokens[i];
      if (IsRefused(token.id)) {
        ++pending_.rejected;
        pending_.rejections.push_back(
            {.sequence = batch.sequence,
             .index = i,
             .id = token.id,
             .error = {absl::StatusCode::kInvalidArgument, "tokens[0].key", "no"}});
      } else if (const auto [place, fresh] = server_.tokens.emplace(token.id, token.key[0]);
                 fresh) {
        server_.order.push_back(token.id);
        ++pending_.inserted;
      } else {
        if (place->second != token.key[0]) server_.conflicts.push_back(token.id);
        ++pending_.unchanged;
      }
    }
  }

  void Acknowledge() {
    if (stalled_ || pending_.acknowledged_sequence == 0) return;
    acks_.push_back(pending_);
    pending_ = InsertAck();
    backlog_ = 0;
    changed_.notify_all();
  }

  Server& server_;  // its mutex guards this stream too
  const std::vector<Fault> plan_;
  const bool coalesce_;
  std::condition_variable changed_;
  std::vector<InsertAck> acks_;
  InsertAck pending_;
  absl::Status status_;
  uint64_t last_sequence_ = 0;
  size_t written_ = 0;
  size_t backlog_ = 0;
  bool over_ = false;
  bool stalled_ = false;
  bool finished_ = false;
};

class InsertWriterTest : public testing::Test {
 protected:
  InsertWriterTest() {
    options_.initial_backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(1);
    options_.stream_stall = absl::Seconds(5);
    options_.max_attempts = 3;
    options_.max_stream_attempts = 50;
    ON_CALL(*connection_, options).WillByDefault(ReturnRef(options_));
    writer_options_.environment = {.now = [] { return absl::Now(); },
                                   .sleep = [this](absl::Duration) { ++sleeps_; },
                                   .uniform = [] { return 0.5; }};
  }

  // The k-th stream breaks by plans[k]; later ones do not.
  void Serve(std::vector<std::vector<Fault>> plans, bool coalesce = false) {
    ON_CALL(*connection_, OpenInsertStream)
        .WillByDefault([this, plans, coalesce, next = size_t{0}](const MemoryName& name) mutable {
          EXPECT_EQ(name, (MemoryName{"t", "m"}));
          std::vector<Fault> plan = next < plans.size() ? plans[next] : std::vector<Fault>();
          ++next;
          return std::make_unique<FlakyStream>(server_, std::move(plan), coalesce);
        });
  }

  InsertWriter MakeWriter() { return InsertWriter(connection_, {"t", "m"}, writer_options_); }

  static Token MakeToken(int i) {
    return {.id = "id" + std::to_string(i), .key = {static_cast<double>(i)}, .value = {1.0}};
  }

  // Writes tokens 0 to n - 1 and checks everything that must hold at the end.
  void CheckAllArrive(int n) {
    std::vector<RejectedToken> told;
    writer_options_.on_rejection = [&](const RejectedToken& token) { told.push_back(token); };
    uint64_t last_acknowledged = 0;
    writer_options_.on_progress = [&](const InsertProgress& progress) {
      EXPECT_GT(progress.acknowledged, last_acknowledged);
      last_acknowledged = progress.acknowledged;
    };
    InsertWriter writer = MakeWriter();
    for (int i = 0; i < n; ++i) ASSERT_TRUE(writer.Write(MakeToken(i)).ok());
    const absl::StatusOr<InsertSummary> summary = writer.Close();
    ASSERT_TRUE(summary.ok()) << summary.status();
    std::vector<std::string> wanted;
    std::vector<std::string> refused;
    for (int i = 0; i < n; ++i) {
      const std::string id = MakeToken(i).id;
      (IsRefused(id) ? refused : wanted).push_back(id);
    }
    EXPECT_EQ(server_.order, wanted);
    EXPECT_TRUE(server_.conflicts.empty());
    ASSERT_EQ(told.size(), refused.size());
    for (size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].id, refused[i]);
      EXPECT_EQ(MakeToken(static_cast<int>(told[i].index)).id, refused[i]);
    }
    EXPECT_EQ(summary->rejections.size(), refused.size());
    EXPECT_EQ(summary->totals.written, static_cast<uint64_t>(n));
    EXPECT_EQ(summary->totals.acknowledged, static_cast<uint64_t>(n));
    EXPECT_EQ(summary->totals.rejected, refused.size());
    EXPECT_EQ(summary->totals.inserted + summary->totals.unchanged, wanted.size());
    EXPECT_EQ(last_acknowledged, static_cast<uint64_t>(n));
    EXPECT_LE(server_.largest_batch, writer_options_.batch_tokens);
    EXPECT_LE(server_.largest_backlog, writer_options_.window);
  }

  Options options_;
  InsertWriterOptions writer_options_;
  Server server_;
  int sleeps_ = 0;
  std::shared_ptr<NiceMock<MockConnection>> connection_ =
      std::make_shared<NiceMock<MockConnection>>();
};

TEST_F(InsertWriterTest, SendsBatchesInOrder) {
  Serve({});
  writer_options_.batch_tokens = 10;
  CheckAllArrive(95);
  EXPECT_EQ(server_.streams, 1u);
  EXPECT_EQ(server_.largest_batch, 10u);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(InsertWriterTest, TheLastBatchWaitsForAPlaceOnTheSameStream) {
  writer_options_.batch_tokens = 10;
  writer_options_.window = 1;
  for (int i = 0; i < 200; ++i) {
    server_.order.clear();
    server_.tokens.clear();
    server_.streams = 0;
    Serve({});
    CheckAllArrive(25);
    EXPECT_EQ(server_.streams, 1u);
    EXPECT_EQ(sleeps_, 0);
  }
}

TEST_F(InsertWriterTest, RandomBreaksLoseNothingAndDoubleNothing) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint64_t>(n));
  };
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    {
      std::lock_guard<std::mutex> lock(server_.mutex);
      server_.order.clear();
      server_.tokens.clear();
      server_.largest_batch = server_.largest_backlog = 0;
    }
    std::vector<std::vector<Fault>> plans(static_cast<size_t>(below(8)));
    for (std::vector<Fault>& plan : plans) {
      // The first message of a stream mostly passes: progress resets the count of attempts.
      plan.assign(static_cast<size_t>(below(6)), Fault::kNone);
      plan.push_back(static_cast<Fault>(1 + below(6)));
    }
    if (!plans.empty() && plans[0].size() == 1) plans[0].insert(plans[0].begin(), Fault::kNone);
    options_.max_attempts = 50;
    writer_options_.batch_tokens = static_cast<size_t>(1 + below(20));
    writer_options_.window = static_cast<size_t>(3 + below(6));
    Serve(plans, /*coalesce=*/below(2) == 0);
    CheckAllArrive(below(300));
    if (HasFailure()) return;
  }
}

TEST_F(InsertWriterTest, AStalledStreamIsBrokenOffAndResumed) {
  options_.stream_stall = absl::Milliseconds(30);
  Serve({{Fault::kNone, Fault::kStall}});
  writer_options_.batch_tokens = 5;
  writer_options_.window = 2;
  CheckAllArrive(60);
  EXPECT_EQ(server_.streams, 2u);
}

TEST_F(InsertWriterTest, AnInfiniteStallLimitIsNone) {
  options_.stream_stall = absl::InfiniteDuration();
  Serve({});
  CheckAllArrive(60);
  EXPECT_EQ(server_.streams, 1u);
}

// With 32 writers on one tenant each is refused many times in a row.
TEST_F(InsertWriterTest, RefusalsForNowAreWaitedForAndAreNoFailures) {
  absl::Time now = absl::UnixEpoch();
  writer_options_.environment.now = [&] { return now; };
  writer_options_.environment.sleep = [&](absl::Duration wait) {
    EXPECT_GE(wait, absl::Seconds(1));
    now += wait;
  };
  writer_options_.batch_tokens = 5;
  const std::vector<Fault> refused = {Fault::kRefused};
  Serve(std::vector<std::vector<Fault>>(100, refused));
  CheckAllArrive(60);
  EXPECT_EQ(server_.streams, 101u);
  // Not for ever.
  options_.stream_lifetime = absl::Seconds(30);
  Serve(std::vector<std::vector<Fault>>(100, refused));
  InsertWriter writer = MakeWriter();
  const absl::Time begin = now;
  absl::Status status = writer.Write(MakeToken(100));
  if (status.ok()) status = writer.Close().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GE(now - begin, absl::Seconds(30));
  EXPECT_LE(now - begin, absl::Seconds(33));
}

TEST_F(InsertWriterTest, AStreamThatAShutdownCancelledIsResumed) {
  Serve({{Fault::kNone, Fault::kShutdown}, {Fault::kShutdown}});
  writer_options_.batch_tokens = 5;
  CheckAllArrive(60);
  EXPECT_EQ(server_.streams, 3u);
  EXPECT_EQ(sleeps_, 2);
}

// The reader cancels such a stream itself, so this CANCELLED must not count as the server's.
TEST_F(InsertWriterTest, AFloodOfAcknowledgementsIsAnError) {
  ON_CALL(*connection_, OpenInsertStream).WillByDefault([](const MemoryName&) {
    auto stream = std::make_unique<NiceMock<MockInsertStream>>();
    const auto flood_over = std::make_shared<std::promise<void>>();
    // Not before the flood is over, so that nothing is taken from the queue meanwhile.
    ON_CALL(*stream, Write).WillByDefault([flood_over](const InsertBatch&) {
      flood_over->get_future().wait();
      return true;
    });
    ON_CALL(*stream, Read)
        .WillByDefault([flood_over, sent = 0]() mutable -> std::optional<InsertAck> {
          if (++sent <= 5000) return InsertAck();
          flood_over->set_value();
          return std::nullopt;
        });
    EXPECT_CALL(*stream, Cancel).Times(testing::AtLeast(1));
    EXPECT_CALL(*stream, Finish).WillOnce(testing::Return(absl::CancelledError("CANCELLED")));
    return stream;
  });
  EXPECT_CALL(*connection_, OpenInsertStream).Times(1);
  InsertWriter writer = MakeWriter();
  ASSERT_TRUE(writer.Write(MakeToken(0)).ok());
  EXPECT_TRUE(absl::IsInternal(writer.Close().status()));
}

TEST_F(InsertWriterTest, GivesUpAfterTheAttemptsWithoutProgress) {
  const std::vector<Fault> broken = {Fault::kBeforeApply};
  Serve(std::vector<std::vector<Fault>>(10, broken));
  writer_options_.batch_tokens = 1;
  InsertWriter writer = MakeWriter();
  const absl::Status status = writer.Write(MakeToken(0));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(server_.streams, 3u) << "max_attempts, before any progress";
  EXPECT_EQ(sleeps_, 2);
  EXPECT_EQ(writer.Write(MakeToken(1)), status) << "an error is final";
  EXPECT_EQ(writer.Close().status(), status);
}

TEST_F(InsertWriterTest, AnAnswerOfTheServerIsNotRetried) {
  ON_CALL(*connection_, OpenInsertStream).WillByDefault([](const MemoryName&) {
    auto stream = std::make_unique<NiceMock<MockInsertStream>>();
    ON_CALL(*stream, Write).WillByDefault(testing::Return(true));
    ON_CALL(*stream, Read).WillByDefault(testing::Return(std::nullopt));
    EXPECT_CALL(*stream, Finish)
        .WillOnce(testing::Return(absl::NotFoundError("memory: not found")));
    return stream;
  });
  EXPECT_CALL(*connection_, OpenInsertStream).Times(1);
  InsertWriter writer = MakeWriter();
  ASSERT_TRUE(writer.Write(MakeToken(0)).ok());
  EXPECT_EQ(writer.Close().status(), absl::NotFoundError("memory: not found"));
}

TEST_F(InsertWriterTest, AnAcknowledgementOfWhatWasNeverSentIsAnError) {
  for (const bool by_rejection : {false, true}) {
    ON_CALL(*connection_, OpenInsertStream).WillByDefault([by_rejection](const MemoryName&) {
      auto stream = std::make_unique<NiceMock<MockInsertStream>>();
      ON_CALL(*stream, Write).WillByDefault(testing::Return(true));
      InsertAck ack{.acknowledged_sequence = 99};
      if (by_rejection) {
        ack = {.acknowledged_sequence = 1, .rejections = {{.sequence = 1, .index = 1, .id = "x"}}};
      }
      EXPECT_CALL(*stream, Read)
          .WillOnce(testing::Return(ack))
          .WillRepeatedly(testing::Return(std::nullopt));
      return stream;
    });
    InsertWriter writer = MakeWriter();
    ASSERT_TRUE(writer.Write(MakeToken(0)).ok());
    EXPECT_TRUE(absl::IsInternal(writer.Close().status()));
  }
}

TEST_F(InsertWriterTest, TokensWithoutIdsGetDistinctOnes) {
  Serve({{Fault::kAfterApply}});
  writer_options_.batch_tokens = 4;
  InsertWriter writer = MakeWriter();
  for (int i = 0; i < 12; ++i) {
    Token token = MakeToken(i);
    token.id.clear();
    ASSERT_TRUE(writer.Write(token).ok());
  }
  const absl::StatusOr<InsertSummary> summary = writer.Close();
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(server_.tokens.size() + summary->totals.rejected, 12u) << "ids ending in 7 are refused";
  for (const auto& [id, key] : server_.tokens) EXPECT_EQ(id.size(), 32u);
}

TEST_F(InsertWriterTest, BatchesAreBoundedInBytesAndKeptRejectionsInNumber) {
  Serve({});
  writer_options_.batch_bytes = 1000;
  writer_options_.max_kept_rejections = 2;
  InsertWriter writer = MakeWriter();
  for (int i = 0; i < 50; ++i) {
    Token token = MakeToken(i);
    token.payload.assign(i == 20 ? 5000 : 300, 'x');
    ASSERT_TRUE(writer.Write(token).ok());
  }
  const absl::StatusOr<InsertSummary> summary = writer.Close();
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(server_.largest_batch, 2u);
  EXPECT_EQ(summary->totals.rejected, 5u);
  EXPECT_EQ(summary->rejections.size(), 2u);
}

TEST_F(InsertWriterTest, NothingWrittenOpensNoStream) {
  EXPECT_CALL(*connection_, OpenInsertStream).Times(0);
  InsertWriter writer = MakeWriter();
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Close().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Write(MakeToken(0))));
}

TEST_F(InsertWriterTest, DroppingAWriterCancelsItsStream) {
  Serve({});
  writer_options_.batch_tokens = 1;
  InsertWriter writer = MakeWriter();
  ASSERT_TRUE(writer.Write(MakeToken(0)).ok());
}  // FlakyStream's destructor and Read's wait are the check

TEST_F(InsertWriterTest, BadOptionsAreAnError) {
  writer_options_.batch_tokens = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(MakeWriter().Write(MakeToken(0))));
  writer_options_.batch_tokens = 10;
  writer_options_.window = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(MakeWriter().Close().status()));
}

}  // namespace
}  // namespace lethe::client
