#include "worker/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "client/retry.h"

namespace lethe::worker {
namespace {

constexpr std::chrono::milliseconds kFirstPause(100);
constexpr std::chrono::milliseconds kLongestPause(2000);
constexpr std::chrono::milliseconds kLeastLimit(100);

// The lease is not in force; other states that do not fit have other fields.
bool IsOver(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && absl::StartsWith(status.message(), "lease");
}

}  // namespace

bool MayHelpAgain(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:  // how a server that stops ends calls
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnauthenticated:  // until a token that is renewed is read
      return true;
    case absl::StatusCode::kFailedPrecondition:
      // A file of this lease is under way: an earlier try of ours, which the server has not given
      // up yet.
      return !IsOver(status);
    default:
      return client::IsRefusedForNow(status);
  }
}

LeaseKeeper::LeaseKeeper(Link* link,
                         v1::JobLease lease,
                         absl::Duration length,
                         std::chrono::steady_clock::time_point sent,
                         program::EventLog* log,
                         absl::Duration longest_retry)
    : link_(link),
      lease_(std::move(lease)),
      log_(log),
      longest_retry_(absl::ToChronoNanoseconds(longest_retry)),
      length_(absl::ToChronoNanoseconds(length)),
      renewed_(sent),
      thread_([this] { Run(); }) {}

LeaseKeeper::~LeaseKeeper() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool LeaseKeeper::Over() {
  if (!lost_ && Clock::now() - renewed_ >= length_) lost_ = true;
  return lost_;
}

void LeaseKeeper::Note(const absl::Status& status, Clock::time_point sent) {
  if (status.ok()) {
    // One that was over by our clock stays so: the run may have been thrown away already.
    if (!lost_) renewed_ = std::max(renewed_, sent);
  } else if (IsOver(status)) {
    lost_ = true;
    changed_.notify_all();
  }
}

LeaseKeeper::State LeaseKeeper::state() {
  MutexLock lock(mutex_);
  if (Over()) return State::kLost;
  return cancelled_ ? State::kCancelled : State::kHeld;
}

absl::Duration LeaseKeeper::left() {
  MutexLock lock(mutex_);
  if (Over()) return absl::ZeroDuration();
  return absl::FromChrono(renewed_ + length_ - Clock::now());
}

void LeaseKeeper::SetProgress(const v1::JobProgress& progress) {
  MutexLock lock(mutex_);
  progress_ = progress;
}
v1::JobProgress LeaseKeeper::progress() {
  MutexLock lock(mutex_);
  return progress_;
}
uint64_t LeaseKeeper::failed_beats() {
  MutexLock lock(mutex_);
  return failed_beats_;
}

void LeaseKeeper::Run() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mutex_.native());
  Clock::time_point next = Clock::now();  // at once: the job counts as running from then on
  std::chrono::nanoseconds pause = kFirstPause;
  while (!ended_ && !Over()) {
    if (Clock::now() < next) {
      changed_.wait_until(lock, std::min(next, renewed_ + length_));
      continue;
    }
    const v1::JobProgress progress = progress_;
    const std::chrono::nanoseconds third = length_ / 3;
    const Clock::time_point sent = Clock::now();
    lock.unlock();
    const absl::StatusOr<v1::HeartbeatResponse> answer = link_->Heartbeat(
        lease_, progress, absl::FromChrono(std::max<std::chrono::nanoseconds>(third, kLeastLimit)));
    lock.lock();
    Note(answer.status(), sent);
    if (answer.ok()) {
      if (answer->lease_seconds() > 0) {
        length_ = absl::ToChronoNanoseconds(absl::Seconds(answer->lease_seconds()));
      }
      cancelled_ = cancelled_ || answer->cancel();
      pause = kFirstPause;
      next = sent + length_ / 3;
      continue;
    }
    ++failed_beats_;
    log_->Write(program::LogLevel::kWarning, "heartbeat_failed",
                {{"job", lease_.job()},
                 {"code", static_cast<int64_t>(answer.status().code())},
                 {"message", std::string(answer.status().message())}});
    next = Clock::now() + pause;
    pause = std::min<std::chrono::nanoseconds>({2 * pause, kLongestPause, third});
  }
}

absl::Status LeaseKeeper::Retry(const std::function<absl::Status()>& attempt,
                                const std::function<bool()>& give_up)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  client::Backoff backoff(absl::FromChrono(kFirstPause), absl::FromChrono(kLongestPause));
  const client::Environment environment = client::Environment::Real();
  const Clock::time_point began = Clock::now();
  while (true) {
    const Clock::time_point sent = Clock::now();
    const absl::Status status = attempt();
    {
      std::unique_lock<std::mutex> lock(mutex_.native());
      Note(status, sent);
      if (status.ok() || !MayHelpAgain(status) || Over()) return status;
    }
    // Not under the lock: it may ask for the state.
    if (give_up && give_up()) return status;
    if (Clock::now() - began > longest_retry_) return status;
    log_->Write(program::LogLevel::kWarning, "call_failed",
                {{"job", lease_.job()},
                 {"code", static_cast<int64_t>(status.code())},
                 {"message", std::string(status.message())}});
    const absl::Duration pause = client::WaitBefore(backoff, environment.uniform(), status);
    std::unique_lock<std::mutex> lock(mutex_.native());
    changed_.wait_for(lock, absl::ToChronoNanoseconds(pause));
  }
}

}  // namespace lethe::worker
