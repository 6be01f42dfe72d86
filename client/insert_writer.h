// Streams any number of tokens into a memory with bounded room: batches, a window of messages that
// are not yet acknowledged, and resumption after a lost connection.
//
// After a broken stream everything above the last acknowledged sequence is sent again on a new one.
// Inserts are idempotent by id, so nothing is lost and nothing is doubled; a token whose
// acknowledgement was lost counts as unchanged instead of inserted. To keep that true, a token
// without an id gets one here: 32 hex digits.
//
// Cost: (window + 1) batches of memory, and one thread that reads acknowledgements. Callbacks run
// in the thread that calls Write or Close. Threads: one caller at a time.
#ifndef LETHE_CLIENT_INSERT_WRITER_H_
#define LETHE_CLIENT_INSERT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/retry.h"
#include "client/types.h"

namespace lethe::client {

struct RejectedToken {
  uint64_t index = 0;  // of the token, counted from 0 in the order of Write
  std::string id;
  ItemError error;
};

struct InsertProgress {
  uint64_t written = 0;       // tokens given to Write
  uint64_t acknowledged = 0;  // tokens that are durable or were rejected
  uint64_t inserted = 0;
  uint64_t unchanged = 0;
  uint64_t rejected = 0;
  uint64_t resumed = 0;  // broken streams that were taken up again
};

struct InsertSummary {
  InsertProgress totals;
  // The first InsertWriterOptions::max_kept_rejections of them; totals.rejected counts all.
  std::vector<RejectedToken> rejections;
  StateAfter state;  // after everything acknowledged so far; unspecified before that
};

struct InsertWriterOptions {
  size_t batch_tokens = 200;     // a message holds at most so many tokens, 1 to 10,000
  size_t batch_bytes = 1 << 20;  // and, unless one token alone is larger, about so many bytes
  size_t window = 8;             // messages sent and not yet acknowledged, >= 1
  size_t max_kept_rejections = 1000;
  std::function<void(const InsertProgress&)> on_progress = nullptr;
  std::function<void(const RejectedToken&)> on_rejection = nullptr;
  Environment environment = Environment::Real();
};

class InsertWriter {
 public:
  // Connects with the first full batch.
  InsertWriter(std::shared_ptr<Connection> connection,
               MemoryName name,
               InsertWriterOptions options);
  // Without Close, what was not acknowledged may or may not be there.
  ~InsertWriter();
  InsertWriter(const InsertWriter&) = delete;
  InsertWriter& operator=(const InsertWriter&) = delete;

  // May wait for acknowledgements. An error is final: every later call repeats it.
  absl::Status Write(Token token);

  // Sends the rest and waits until everything is acknowledged. OK means: every token is durable or
  // among the rejections.
  absl::StatusOr<InsertSummary> Close();

  // What is known so far, also after an error.
  const InsertSummary& summary() const { return summary_; }

 private:
  class Attempt;
  struct Unacknowledged {
    InsertBatch batch;
    uint64_t first_index = 0;
  };

  absl::Status FlushPending();
  absl::Status SendUnsent();
  absl::Status AwaitProgress();
  absl::Status ApplyArrived();
  absl::Status Apply(const InsertAck& ack);
  absl::Status EndAttempt(bool stalled);

  std::shared_ptr<Connection> connection_;
  const MemoryName name_;
  const InsertWriterOptions options_;
  Backoff backoff_;

  std::vector<Token> pending_;
  size_t pending_bytes_ = 0;
  uint64_t next_sequence_ = 1;
  std::deque<Unacknowledged> unacknowledged_;
  size_t sent_ = 0;  // the first so many of unacknowledged_ went into the current attempt
  std::unique_ptr<Attempt> attempt_;
  int attempts_without_progress_ = 0;
  absl::Time refused_since_ = absl::InfiniteFuture();  // in the future: not refused last
  bool closing_ = false;
  bool closed_ = false;
  absl::Status failure_;
  InsertSummary summary_;
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_INSERT_WRITER_H_
