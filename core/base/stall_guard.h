// Breaks a call off that makes no progress: for streams that may run for hours, where a deadline
// would be either too short for the longest or too long for a dead one.
//
// Threads: Progress and stalled from any; made and destroyed by one. Cost: a thread.
#ifndef LETHE_CORE_BASE_STALL_GUARD_H_
#define LETHE_CORE_BASE_STALL_GUARD_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace lethe {

class StallGuard {
 public:
  // Calls `stop`, once and from another thread, when Progress was not called for `limit`; a day is
  // the most. Nothing calls it once the guard is gone.
  StallGuard(absl::Duration limit, std::function<void()> stop)
      : limit_(absl::ToChronoMilliseconds(std::min(limit, absl::Hours(24)))),
        stop_(std::move(stop)),
        thread_([this] { Run(); }) {}
  ~StallGuard() {
    {
      MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StallGuard(const StallGuard&) = delete;
  StallGuard& operator=(const StallGuard&) = delete;

  void Progress() {
    MutexLock lock(mutex_);
    last_ = Clock::now();
    if (std::exchange(paused_, false)) changed_.notify_all();
  }
  // No time counts until the next Progress: for work between two steps that is not the other
  // side's.
  void Pause() {
    MutexLock lock(mutex_);
    paused_ = true;
  }
  bool stalled() {
    MutexLock lock(mutex_);
    return stalled_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run() {
    if (WaitForStall()) stop_();
  }

  // False: the guard is going away.
  bool WaitForStall() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex_.native());
    while (!over_) {
      if (paused_) {
        changed_.wait(lock);
        continue;
      }
      const Clock::time_point due = last_ + limit_;
      if (Clock::now() >= due) {
        stalled_ = true;
        return true;
      }
      changed_.wait_until(lock, due);
    }
    return false;
  }

  const std::chrono::milliseconds limit_;
  const std::function<void()> stop_;
  Mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point last_ ABSL_GUARDED_BY(mutex_) = Clock::now();
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace lethe

#endif  // LETHE_CORE_BASE_STALL_GUARD_H_
