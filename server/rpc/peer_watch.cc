#include "server/rpc/peer_watch.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "server/service/retry_delay.h"

namespace lethe::rpc {
namespace {

// A request that is on its way arrives within less, so that only those who hold a place for
// nothing lose it to others.
constexpr std::chrono::seconds kSettled(1);

std::chrono::milliseconds Bounded(absl::Duration limit) {
  return absl::ToChronoMilliseconds(std::min(limit, absl::Hours(24)));
}

}  // namespace

void EndCall(grpc::ServerContextBase* context, const absl::Status& status) {
  const std::string message(status.message());
  grpc_call_cancel_with_status(context->c_call(), static_cast<grpc_status_code>(status.code()),
                               message.c_str(), nullptr);
}

PeerWatch::Wait::~Wait() {
  if (watch_ == nullptr) return;
  MutexLock lock(watch_->mutex_);
  if (entry_->second.ended.ok()) watch_->Leave(entry_->second);
  watch_->entries_.erase(entry_);
}

absl::Status PeerWatch::Wait::status() const {
  MutexLock lock(watch_->mutex_);
  return entry_->second.ended;
}

PeerWatch::PeerWatch(const PeerWatchOptions& options)
    : options_(options), thread_([this] { Run(); }) {}

PeerWatch::~PeerWatch() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

PeerWatch::Wait PeerWatch::For(grpc::ServerContextBase* context, absl::Duration limit) {
  const Clock::time_point now = Clock::now();
  MutexLock lock(mutex_);
  return Add(now + Bounded(limit), {.context = context, .begin = now});
}

PeerWatch::Waiting PeerWatch::Of(absl::string_view caller) const {
  const auto found = caller.empty() ? waiting_of_.end() : waiting_of_.find(caller);
  return found == waiting_of_.end() ? Waiting() : found->second;
}

absl::StatusOr<PeerWatch::Wait> PeerWatch::ForRequest(grpc::ServerContextBase* context,
                                                      absl::string_view caller) {
  MutexLock lock(mutex_);
  const size_t share = std::max<size_t>(options_.max_requests / 2, 1);
  if ((Of(caller).requests >= share && !MakePlace(caller, true)) ||
      (waiting_.requests >= options_.max_requests && !MakePlace("", true))) {
    return service::WithRetryDelay(
        absl::ResourceExhaustedError("too many calls wait for their request; try again later"),
        absl::Seconds(1));
  }
  const Clock::time_point now = Clock::now();
  return Add(now + Bounded(options_.patience),
             {.context = context, .begin = now, .request = true, .caller = std::string(caller)});
}

absl::Status PeerWatch::RoomForAnswer(absl::string_view caller) {
  MutexLock lock(mutex_);
  const size_t share = options_.max_answer_bytes / 2;
  while (true) {
    const bool caller_full = Of(caller).answer_bytes > share;
    if (!caller_full && waiting_.answer_bytes <= options_.max_answer_bytes) {
      return absl::OkStatus();
    }
    if (MakePlace(caller_full ? caller : "", false)) continue;
    return service::WithRetryDelay(
        absl::ResourceExhaustedError("too many answers are not taken; try again later"),
        absl::Seconds(1));
  }
}

PeerWatch::Wait PeerWatch::ForAnswer(grpc::ServerContextBase* context,
                                     absl::string_view caller,
                                     size_t bytes) {
  MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  return Add(
      now + Bounded(options_.patience),
      {.context = context, .begin = now, .answer_bytes = bytes, .caller = std::string(caller)});
}

PeerWatch::Wait PeerWatch::Add(Clock::time_point due, Entry entry) {
  const auto added = entries_.emplace(due, std::move(entry));
  const Entry& known = added->second;
  if (known.request || known.answer_bytes > 0) {
    waiting_.requests += known.request ? 1 : 0;
    waiting_.answer_bytes += known.answer_bytes;
    if (!known.caller.empty()) {
      Waiting& of_caller = waiting_of_[known.caller];
      of_caller.requests += known.request ? 1 : 0;
      of_caller.answer_bytes += known.answer_bytes;
    }
  }
  if (due < looks_at_) changed_.notify_all();
  return Wait(this, added);
}

void PeerWatch::Leave(const Entry& entry) {
  if (!entry.request && entry.answer_bytes == 0) return;
  waiting_.requests -= entry.request ? 1 : 0;
  waiting_.answer_bytes -= entry.answer_bytes;
  const auto of_caller = waiting_of_.find(entry.caller);
  if (of_caller == waiting_of_.end()) return;
  of_caller->second.requests -= entry.request ? 1 : 0;
  of_caller->second.answer_bytes -= entry.answer_bytes;
  if (of_caller->second.requests == 0 && of_caller->second.answer_bytes == 0) {
    waiting_of_.erase(of_caller);
  }
}

void PeerWatch::End(Entry& entry, absl::Status status) {
  Leave(entry);
  // Under the lock, so that the context is still there. What comes of it is told to other threads.
  EndCall(entry.context, status);
  entry.ended = std::move(status);
}

bool PeerWatch::MakePlace(absl::string_view caller, bool request) {
  const Clock::time_point settled = Clock::now() - kSettled;
  for (auto& [due, entry] : entries_) {  // all of a kind have one patience: the oldest is due first
    const bool of_kind = request ? entry.request : entry.answer_bytes > 0;
    if (!of_kind || !entry.ended.ok() || (!caller.empty() && entry.caller != caller)) continue;
    if (entry.begin > settled) return false;
    End(entry, absl::ResourceExhaustedError(
                   absl::StrCat(request ? "the request did not arrive" : "the answer was not taken",
                                ", and others wait for the place of this call")));
    return true;
  }
  return false;
}

void PeerWatch::Run() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mutex_.native());
  while (!over_) {
    // Those that were ended are few: their handlers leave at once.
    const auto first = std::find_if(entries_.begin(), entries_.end(),
                                    [](const auto& known) { return known.second.ended.ok(); });
    if (first == entries_.end()) {
      looks_at_ = Clock::time_point::max();
      changed_.wait(lock);
    } else if (Clock::now() < first->first) {
      looks_at_ = first->first;  // a copy: the entry may be gone before the wait is over
      const Clock::time_point until = looks_at_;
      changed_.wait_until(lock, until);
    } else if (first->second.request) {
      End(first->second,
          absl::DeadlineExceededError(absl::StrCat("the request did not arrive within ",
                                                   absl::FormatDuration(options_.patience))));
    } else {
      End(first->second, absl::UnavailableError("the other side of the call was silent for too "
                                                "long"));
    }
  }
}

}  // namespace lethe::rpc
