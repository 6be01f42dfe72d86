// The streams of FakeConnection.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/client/fake_connection.h"

namespace lethe::client {

class FakeInsertStream : public InsertStream {
 public:
  FakeInsertStream(FakeConnection& server, MemoryName name) : server_(server), name_(name) {
    status_ = server_.Called("InsertStream");
    if (status_.ok()) status_ = server_.Find(name_).status();
    over_ = !status_.ok();
  }

  bool Write(const InsertBatch& batch) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (over_) return false;
    FakeConnection::State& state = **server_.Find(name_);
    InsertAck ack{.acknowledged_sequence = batch.sequence, .state = {.verdict = Verdict::kProven}};
    for (uint32_t i = 0; i < batch.tokens.size(); ++i) {
      const Token& token = batch.tokens[i];
      if (token.id == server_.rejected_id || token.key.size() != state.config.key_dimension) {
        ++ack.rejected;
        ack.rejections.push_back(
            {batch.sequence,
             i,
             token.id,
             {absl::StatusCode::kInvalidArgument, "tokens[" + std::to_string(i) + "].key",
              "has another dimension"}});
      } else if (state.tokens.emplace(token.id, token).second) {
        ++ack.inserted;
      } else {
        ++ack.unchanged;
      }
    }
    acks_.push_back(std::move(ack));
    changed_.notify_all();
    return true;
  }
  void WritesDone() override { Cancel(); }
  std::optional<InsertAck> Read() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return over_ || !acks_.empty(); });
    if (acks_.empty()) return std::nullopt;
    InsertAck ack = std::move(acks_.front());
    acks_.pop_front();
    return ack;
  }
  absl::Status Finish() override { return status_; }
  void Cancel() override {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  FakeConnection& server_;
  const MemoryName name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<InsertAck> acks_;
  absl::Status status_;
  bool over_ = false;
};

std::unique_ptr<InsertStream> FakeConnection::OpenInsertStream(const MemoryName& name) {
  return std::make_unique<FakeInsertStream>(*this, name);
}

// Answers each request as Query does.
class FakeQueryStream : public QueryStream {
 public:
  FakeQueryStream(FakeConnection& server, absl::Status status)
      : server_(server), status_(std::move(status)) {}
  bool Write(const QueryRequest& request) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok()) return false;
    absl::StatusOr<QueryResult> result = server_.Query(request);
    if (result.ok()) {
      results_.push_back(*std::move(result));
    } else {
      status_ = result.status();
    }
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
    changed_.wait(lock, [this] { return !results_.empty() || done_ || !status_.ok(); });
    if (results_.empty()) return std::nullopt;
    QueryResult result = std::move(results_.front());
    results_.pop_front();
    return result;
  }
  absl::Status Finish() override { return status_; }
  void Cancel() override { WritesDone(); }

 private:
  FakeConnection& server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<QueryResult> results_;
  absl::Status status_;
  bool done_ = false;
};

std::unique_ptr<QueryStream> FakeConnection::OpenQueryStream() {
  return std::make_unique<FakeQueryStream>(*this, Called("QueryStream"));
}

}  // namespace lethe::client
