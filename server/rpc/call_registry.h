// The calls that are running: bounded in number, told when the server stops, and waited for, so
// that a stop takes as long as what is running and no longer. (gRPC's own graceful shutdown also
// waits for idle connections: an idle C++ client answers its last ping only every five seconds.)
//
// Threads: safe.
#ifndef LETHE_SERVER_RPC_CALL_REGISTRY_H_
#define LETHE_SERVER_RPC_CALL_REGISTRY_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/service/retry_delay.h"

namespace lethe::rpc {

// Lets std::condition_variable_any release and retake a mutex that the caller holds.
class Relockable {
 public:
  explicit Relockable(Mutex& mutex) : mutex_(mutex) {}
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Unlock(); }

 private:
  Mutex& mutex_;
};

class CallRegistry {
 public:
  explicit CallRegistry(size_t limit) : limit_(limit) {}
  CallRegistry(const CallRegistry&) = delete;
  CallRegistry& operator=(const CallRegistry&) = delete;

  // Takes a place until Leave(key). `stop`, which may be empty, is called at most once, before
  // Leave(key) returns; it must not call the registry. RESOURCE_EXHAUSTED when all places are
  // taken, UNAVAILABLE after StopAll; Leave must not be called then.
  absl::Status Enter(const void* key, std::function<void()> stop) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (stopped_) {
      return service::WithRetryDelay(absl::UnavailableError("the server is stopping"),
                                     absl::Seconds(1));
    }
    if (open_.size() >= limit_) {
      return service::WithRetryDelay(
          absl::ResourceExhaustedError("too many streams are open; try again later"),
          absl::Seconds(1));
    }
    open_[key] = std::move(stop);
    return absl::OkStatus();
  }

  void Leave(const void* key) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    open_.erase(key);
    if (open_.empty()) emptied_.notify_all();
  }

  // Refuses new calls and stops the running ones that can be stopped.
  void StopAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    for (const auto& [key, stop] : open_) {
      if (stop) stop();
    }
  }

  // Returns when no call is running, or at the deadline.
  void WaitUntilEmpty(std::chrono::system_clock::time_point deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    Relockable relockable(mutex_);
    while (!open_.empty()) {
      if (emptied_.wait_until(relockable, deadline) == std::cv_status::timeout) return;
    }
  }

 private:
  const size_t limit_;
  Mutex mutex_;
  std::condition_variable_any emptied_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<const void*, std::function<void()>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_CALL_REGISTRY_H_
