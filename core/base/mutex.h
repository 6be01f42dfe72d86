// std::mutex with Clang's thread-safety annotations. std::mutex and not absl::Mutex because
// ThreadSanitizer cannot see into the distribution's uninstrumented Abseil.
#ifndef LETHE_CORE_BASE_MUTEX_H_
#define LETHE_CORE_BASE_MUTEX_H_

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace lethe {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // For std::condition_variable, through std::unique_lock on the inner mutex.
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace lethe

#endif  // LETHE_CORE_BASE_MUTEX_H_
