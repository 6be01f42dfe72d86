// Breaks a call off that makes no progress: for streams that may run for hours, where a deadline
// would be either too short for the longest or too long for a dead one.
//
// Threads: Progress from any; made and destroyed by one. Cost: a thread.
#ifndef LETHE_CORE_BASE_STALL_GUARD_H_
#define LETHE_CORE_BASE_STALL_GUARD_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace lethe {

class StallGuard {
 public:
  // Calls `stop`, once and from another thread, when Progress was not called for `limit`.
  StallGuard(absl::Duration limit, std::function<void()> stop)
      : limit_(absl::ToChronoMilliseconds(limit)),
        stop_(std::move(stop)),
        thread_([this] { Run(); }) {}
  ~StallGuard() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StallGuard(const StallGuard&) = delete;
  StallGuard& operator=(const StallGuard&) = delete;

  void Progress() {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ = Clock::now();
  }
  bool stalled() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stalled_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!over_) {
      const Clock::time_point due = last_ + limit_;
      if (Clock::now() >= due) {
        stalled_ = true;
        lock.unlock();
        stop_();
        return;
      }
      changed_.wait_until(lock, due);
    }
  }

  const std::chrono::milliseconds limit_;
  const std::function<void()> stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point last_ = Clock::now();
  bool stalled_ = false;
  bool over_ = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace lethe

#endif  // LETHE_CORE_BASE_STALL_GUARD_H_
