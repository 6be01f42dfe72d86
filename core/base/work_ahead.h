// Makes the items of a sequence on another thread, a bounded number ahead of whoever takes them:
// for two steps that need nothing of each other and take about as long.
//
// Items come in order. An exception of `make` ends the sequence and is thrown by the Take that
// would have got its item. Where the system gives no thread, each Take makes its item itself.
// Threads: one owner; `make` runs on one other thread at a time, never while the owner is in the
// constructor, and not after the destructor. Cost: a thread, and a lock an item.
#ifndef LETHE_CORE_BASE_WORK_AHEAD_H_
#define LETHE_CORE_BASE_WORK_AHEAD_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/base/mutex.h"

namespace lethe {

template <typename Item>
class WorkAhead {
 public:
  // `make` is called `count` times, at most `ahead` (at least 1) items before they are taken.
  WorkAhead(size_t count, size_t ahead, std::function<Item()> make)
      : ahead_(ahead), make_(std::move(make)), left_(count) {
    LETHE_CHECK(ahead >= 1);
    if (count == 0) return;
    try {
      thread_ = std::thread([this, count] { Run(count); });
    } catch (const std::system_error&) {  // too many threads; Take makes them
    }
  }
  // Waits for an item that is being made.
  ~WorkAhead() {
    {
      MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  WorkAhead(const WorkAhead&) = delete;
  WorkAhead& operator=(const WorkAhead&) = delete;

  // The next item. Requires that fewer than `count` were taken.
  Item Take() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    LETHE_CHECK(left_ > 0);
    --left_;
    if (!thread_.joinable()) return make_();
    std::unique_lock<std::mutex> lock(mutex_.native());
    changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !items_.empty() || thrown_ != nullptr;
    });
    if (items_.empty()) std::rethrow_exception(thrown_);
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  void Run(size_t count) {
    try {
      for (size_t i = 0; i < count && Wanted(); ++i) Give(make_());
    } catch (...) {
      MutexLock lock(mutex_);
      thrown_ = std::current_exception();
    }
    changed_.notify_all();
  }

  // Waits for room. False: the owner is going away.
  bool Wanted() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex_.native());
    changed_.wait(
        lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return over_ || items_.size() < ahead_; });
    return !over_;
  }

  void Give(Item item) {
    {
      MutexLock lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

  const size_t ahead_;
  const std::function<Item()> make_;
  size_t left_;  // the owner's
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  std::exception_ptr thrown_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace lethe

#endif  // LETHE_CORE_BASE_WORK_AHEAD_H_
