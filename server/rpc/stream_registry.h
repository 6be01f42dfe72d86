// The streams that are open: bounded in number, and told when the server stops, so that an idle
// stream does not hold the stop up until its grace is over.
//
// Threads: safe.
#ifndef LETHE_SERVER_RPC_STREAM_REGISTRY_H_
#define LETHE_SERVER_RPC_STREAM_REGISTRY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace lethe::rpc {

class StreamRegistry {
 public:
  explicit StreamRegistry(size_t limit) : limit_(limit) {}
  StreamRegistry(const StreamRegistry&) = delete;
  StreamRegistry& operator=(const StreamRegistry&) = delete;

  // Takes a place until Leave(key). `stop` is called at most once, before Leave(key) returns; it
  // must not call the registry. RESOURCE_EXHAUSTED when all places are taken, UNAVAILABLE after
  // StopAll; Leave must not be called then.
  absl::Status Enter(const void* key, std::function<void()> stop) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (stopped_) return absl::UnavailableError("the server is stopping");
    if (open_.size() >= limit_) {
      return absl::ResourceExhaustedError("too many streams are open; try again later");
    }
    open_[key] = std::move(stop);
    return absl::OkStatus();
  }

  void Leave(const void* key) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    open_.erase(key);
  }

  void StopAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    for (const auto& [key, stop] : open_) stop();
  }

 private:
  const size_t limit_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<const void*, std::function<void()>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_STREAM_REGISTRY_H_
