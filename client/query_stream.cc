#include "client/query_stream.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/read_ahead.h"
#include "core/base/status_macros.h"

namespace lethe::client {
namespace {

class Pipeline {
 public:
  Pipeline(Connection& connection,
           const std::function<std::optional<QueryRequest>()>& next,
           const std::function<absl::Status(const QueryResult&)>& visit,
           const QueryStreamOptions& options)
      : connection_(connection),
        next_(next),
        visit_(visit),
        options_(options),
        backoff_(connection.options().initial_backoff, connection.options().max_backoff) {}

  absl::Status Run() {
    for (;;) {
      Fill();
      if (unanswered_.empty()) return Close();
      if (!Send()) {
        LETHE_RETURN_IF_ERROR(EndAttempt(/*stalled=*/false));
        continue;
      }
      switch (attempt_->Wait(connection_.options().stream_stall)) {
        case Attempt::Event::kItem:
          LETHE_RETURN_IF_ERROR(TakeArrived());
          break;
        case Attempt::Event::kOver:
          LETHE_RETURN_IF_ERROR(EndAttempt(/*stalled=*/false));
          break;
        case Attempt::Event::kStalled:
          LETHE_RETURN_IF_ERROR(EndAttempt(/*stalled=*/true));
          break;
      }
    }
  }

 private:
  using Attempt = ReadAhead<QueryStream, QueryResult>;

  void Fill() {
    while (!exhausted_ && unanswered_.size() < options_.window) {
      std::optional<QueryRequest> request = next_();
      if (!request.has_value()) {
        exhausted_ = true;
      } else {
        unanswered_.push_back(*std::move(request));
      }
    }
  }

  // False when the stream is broken.
  bool Send() {
    if (attempt_ == nullptr) {
      attempt_ = std::make_unique<Attempt>(connection_.OpenQueryStream(), options_.window,
                                           "the server sent more answers than requests");
      sent_ = 0;
    }
    while (sent_ < unanswered_.size()) {
      if (!attempt_->Write(unanswered_[sent_])) return false;
      ++sent_;
    }
    if (exhausted_) attempt_->WritesDone();
    return true;
  }

  absl::Status TakeArrived() {
    while (std::optional<QueryResult> result = attempt_->Take()) {
      if (sent_ == 0) return absl::InternalError("the server sent more answers than requests");
      if (result->answers.size() != unanswered_.front().queries.size()) {
        return absl::InternalError("the server answered a request with another number of results");
      }
      --sent_;
      unanswered_.pop_front();
      progressed_ = true;
      attempts_without_progress_ = 0;
      backoff_.Reset();
      LETHE_RETURN_IF_ERROR(visit_(*result));
    }
    return absl::OkStatus();
  }

  // OK when another attempt is to be made. What arrived before the end is taken first.
  absl::Status EndAttempt(bool stalled) {
    absl::Status status = attempt_->Finish(stalled);
    LETHE_RETURN_IF_ERROR(TakeArrived());
    attempt_.reset();
    if (stalled) {
      status = absl::UnavailableError(
          absl::StrCat("no answer for ", absl::FormatDuration(connection_.options().stream_stall)));
    } else if (status.ok() || absl::IsDeadlineExceeded(status)) {
      // The latter is our own limit on the life of a stream.
      if (unanswered_.empty() && exhausted_) return absl::OkStatus();
      status = absl::UnavailableError("the server ended the stream before answering it");
    }
    const Options& options = connection_.options();
    const int allowed = progressed_ ? options.max_stream_attempts : options.max_attempts;
    ++attempts_without_progress_;
    if (!IsTransient(status) || attempts_without_progress_ >= allowed) return status;
    options_.environment.sleep(std::max(backoff_.Next(options_.environment.uniform()),
                                        RetryDelayOf(status).value_or(absl::ZeroDuration())));
    return absl::OkStatus();
  }

  // Everything is answered; how the stream ends no longer matters, only that it does.
  absl::Status Close() {
    if (attempt_ == nullptr) return absl::OkStatus();
    attempt_->WritesDone();
    const bool over = attempt_->Wait(connection_.options().stream_stall) == Attempt::Event::kOver;
    static_cast<void>(attempt_->Finish(/*cancel=*/!over));
    return absl::OkStatus();
  }

  Connection& connection_;
  const std::function<std::optional<QueryRequest>()>& next_;
  const std::function<absl::Status(const QueryResult&)>& visit_;
  const QueryStreamOptions& options_;
  Backoff backoff_;
  std::deque<QueryRequest> unanswered_;
  size_t sent_ = 0;  // the first so many of unanswered_ went into the current attempt
  std::unique_ptr<Attempt> attempt_;
  int attempts_without_progress_ = 0;
  bool progressed_ = false;
  bool exhausted_ = false;
};

}  // namespace

absl::Status QueryStreamed(Connection& connection,
                           const std::function<std::optional<QueryRequest>()>& next,
                           const std::function<absl::Status(const QueryResult&)>& visit,
                           const QueryStreamOptions& options) {
  if (options.window < 1 || options.window > 1000) {
    return absl::InvalidArgumentError("window: must be in 1 to 1000");
  }
  return Pipeline(connection, next, visit, options).Run();
}

}  // namespace lethe::client
