#include "client/insert_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/read_ahead.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::client {
namespace {

// More acknowledgements than this in the queue means a server that does not keep to the protocol.
constexpr size_t kMaxQueuedAcks = 4096;

size_t ApproximateBytes(const Token& token) {
  size_t bytes = 16 + token.id.size() + token.subject.size() + token.payload.size() +
                 sizeof(double) * (token.key.size() + token.value.size());
  for (const auto& [name, value] : token.labels) bytes += 8 + name.size() + value.size();
  return bytes;
}

}  // namespace

class InsertWriter::Attempt : public ReadAhead<InsertStream, InsertAck> {
 public:
  explicit Attempt(std::unique_ptr<InsertStream> stream)
      : ReadAhead(std::move(stream),
                  kMaxQueuedAcks,
                  "the server sent more acknowledgements than messages") {}
};

InsertWriter::InsertWriter(std::shared_ptr<Connection> connection,
                           MemoryName name,
                           InsertWriterOptions options)
    : connection_(std::move(connection)),
      name_(std::move(name)),
      options_(std::move(options)),
      backoff_(connection_->options().initial_backoff, connection_->options().max_backoff) {
  if (options_.batch_tokens < 1 || options_.batch_tokens > 10000) {
    failure_ = absl::InvalidArgumentError("batch_tokens: must be in 1 to 10000");
  } else if (options_.window < 1) {
    failure_ = absl::InvalidArgumentError("window: must be at least 1");
  }
}

InsertWriter::~InsertWriter() = default;

absl::Status InsertWriter::Write(Token token) {
  if (closed_) return absl::FailedPreconditionError("the writer is closed");
  LETHE_RETURN_IF_ERROR(failure_);
  if (token.id.empty()) token.id = NewRequestId();
  const size_t bytes = ApproximateBytes(token);
  if (!pending_.empty() && pending_bytes_ + bytes > options_.batch_bytes) {
    LETHE_RETURN_IF_ERROR(FlushPending());
  }
  pending_.push_back(std::move(token));
  pending_bytes_ += bytes;
  ++summary_.totals.written;
  if (pending_.size() >= options_.batch_tokens) return FlushPending();
  return absl::OkStatus();
}

absl::StatusOr<InsertSummary> InsertWriter::Close() {
  if (closed_) return absl::FailedPreconditionError("the writer is closed");
  closed_ = true;
  LETHE_RETURN_IF_ERROR(failure_);
  if (!pending_.empty()) LETHE_RETURN_IF_ERROR(FlushPending());
  // Only now: the last batch may have to wait for a place, on a stream that takes it.
  closing_ = true;
  while (!unacknowledged_.empty()) LETHE_RETURN_IF_ERROR(AwaitProgress());
  if (attempt_ != nullptr) {
    // Everything is durable; how the stream ends no longer matters, only that it does.
    attempt_->WritesDone();
    const bool over = attempt_->Wait(connection_->options().stream_stall) == Attempt::Event::kOver;
    static_cast<void>(attempt_->Finish(/*cancel=*/!over));
    attempt_.reset();
  }
  return summary_;
}

absl::Status InsertWriter::FlushPending() {
  while (unacknowledged_.size() >= options_.window) LETHE_RETURN_IF_ERROR(AwaitProgress());
  Unacknowledged next;
  next.batch.sequence = next_sequence_++;
  next.first_index = summary_.totals.written - pending_.size();
  next.batch.tokens = std::exchange(pending_, {});
  pending_bytes_ = 0;
  unacknowledged_.push_back(std::move(next));
  return SendUnsent();
}

absl::Status InsertWriter::SendUnsent() {
  for (;;) {
    if (attempt_ == nullptr) {
      attempt_ = std::make_unique<Attempt>(connection_->OpenInsertStream(name_));
      sent_ = 0;
    }
    while (sent_ < unacknowledged_.size() && attempt_->Write(unacknowledged_[sent_].batch)) ++sent_;
    if (sent_ == unacknowledged_.size()) {
      if (closing_) attempt_->WritesDone();
      return ApplyArrived();
    }
    // The batch whose Write failed may have arrived all the same; its acknowledgement must find it.
    ++sent_;
    LETHE_RETURN_IF_ERROR(EndAttempt(/*stalled=*/false));
  }
}

absl::Status InsertWriter::AwaitProgress() {
  const uint64_t before = summary_.totals.acknowledged;
  LETHE_RETURN_IF_ERROR(SendUnsent());
  if (summary_.totals.acknowledged != before) return absl::OkStatus();
  switch (attempt_->Wait(connection_->options().stream_stall)) {
    case Attempt::Event::kItem:
      return ApplyArrived();
    case Attempt::Event::kOver:
      return EndAttempt(/*stalled=*/false);
    case Attempt::Event::kStalled:
      return EndAttempt(/*stalled=*/true);
  }
  return absl::OkStatus();
}

absl::Status InsertWriter::ApplyArrived() {
  while (std::optional<InsertAck> ack = attempt_->Take()) {
    if (absl::Status status = Apply(*ack); !status.ok()) {
      failure_ = std::move(status);
      return failure_;
    }
  }
  return absl::OkStatus();
}

absl::Status InsertWriter::Apply(const InsertAck& ack) {
  const uint64_t lowest_waiting =
      unacknowledged_.empty() ? next_sequence_ : unacknowledged_.front().batch.sequence;
  const uint64_t highest_sent =
      sent_ == 0 ? lowest_waiting - 1 : unacknowledged_[sent_ - 1].batch.sequence;
  if (ack.acknowledged_sequence > highest_sent) {
    return absl::InternalError(absl::StrCat("the server acknowledged sequence ",
                                            ack.acknowledged_sequence, ", the highest sent is ",
                                            highest_sent));
  }
  for (const InsertAck::Rejection& rejection : ack.rejections) {
    const auto place = std::find_if(
        unacknowledged_.begin(), unacknowledged_.end(),
        [&](const Unacknowledged& u) { return u.batch.sequence == rejection.sequence; });
    if (place == unacknowledged_.end() || rejection.index >= place->batch.tokens.size()) {
      return absl::InternalError(absl::StrCat("the server rejected token ", rejection.index,
                                              " of sequence ", rejection.sequence,
                                              ", which was not waiting"));
    }
    RejectedToken rejected{.index = place->first_index + rejection.index,
                           .id = place->batch.tokens[rejection.index].id,
                           .error = rejection.error};
    if (options_.on_rejection) options_.on_rejection(rejected);
    if (summary_.rejections.size() < options_.max_kept_rejections) {
      summary_.rejections.push_back(std::move(rejected));
    }
  }
  InsertProgress& totals = summary_.totals;
  totals.inserted += ack.inserted;
  totals.unchanged += ack.unchanged;
  totals.rejected += ack.rejected;
  summary_.state = ack.state;
  bool advanced = false;
  while (sent_ > 0 && unacknowledged_.front().batch.sequence <= ack.acknowledged_sequence) {
    totals.acknowledged += unacknowledged_.front().batch.tokens.size();
    unacknowledged_.pop_front();
    --sent_;
    advanced = true;
  }
  if (advanced) {
    attempts_without_progress_ = 0;
    refused_since_ = absl::InfiniteFuture();
    backoff_.Reset();
    if (options_.on_progress) options_.on_progress(totals);
  }
  return absl::OkStatus();
}

absl::Status InsertWriter::EndAttempt(bool stalled) {
  absl::Status status = attempt_->Finish(/*cancel=*/stalled);
  LETHE_RETURN_IF_ERROR(ApplyArrived());
  attempt_.reset();
  sent_ = 0;
  if (stalled) {
    status = absl::UnavailableError(absl::StrCat(
        "no acknowledgement for ", absl::FormatDuration(connection_->options().stream_stall)));
  } else if (status.ok()) {
    if (unacknowledged_.empty()) return absl::OkStatus();
    status = absl::UnavailableError("the server ended the stream before acknowledging it");
  } else if (absl::IsDeadlineExceeded(status)) {
    // Our own limit on the life of a stream; a new one goes on from here.
    status = absl::UnavailableError(status.message());
  }
  const Options& options = connection_->options();
  const int allowed =
      summary_.totals.acknowledged > 0 ? options.max_stream_attempts : options.max_attempts;
  // A refusal for now is no failure: other writers of the tenant had their turn. It is waited for
  // as long as a stream may live.
  const absl::Time now = options_.environment.now();
  if (!IsRefusedForNow(status)) {
    ++attempts_without_progress_;
    refused_since_ = absl::InfiniteFuture();
  } else if (refused_since_ > now) {
    refused_since_ = now;
  }
  const bool refused_too_long =
      IsRefusedForNow(status) && (allowed == 1 || now - refused_since_ >= options.stream_lifetime);
  if (!IsTransient(status) || attempts_without_progress_ >= allowed || refused_too_long) {
    failure_ = status;
    return failure_;
  }
  ++summary_.totals.resumed;
  options_.environment.sleep(WaitBefore(backoff_, options_.environment.uniform(), status));
  return absl::OkStatus();
}

}  // namespace lethe::client
