// A fixed number of threads that share the items of one call at a time.
//
// Which thread takes which items is left to chance; whoever needs the same bits every time makes
// each item depend on itself alone. Where the system gives no thread, the others do its work.
// Threads: Run may be called by any, they take turns; `work` must not call Run. Cost: a lock and a
// wake-up a call, an atomic addition a grain of items.
#ifndef LETHE_CORE_BASE_TEAM_H_
#define LETHE_CORE_BASE_TEAM_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/mutex.h"

namespace lethe {

class Team {
 public:
  // `threads` in all, the caller of Run included; at least 1.
  explicit Team(size_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // How many take part; members are numbered from 0.
  size_t size() const { return threads_.size() + 1; }

  // work(member, first, last) for ranges that cover [0, count), of at most `grain` items; returns
  // when all are done. `work` must not throw.
  using Work = std::function<void(size_t member, size_t first, size_t last)>;
  void Run(size_t count, size_t grain, const Work& work);

 private:
  void Serve(size_t member);
  void Share(size_t member);

  Mutex turn_;  // held by the caller of Run
  // Written under mutex_ while nobody works; read by those at work.
  const Work* work_ = nullptr;
  size_t count_ = 0;
  size_t grain_ = 1;
  std::atomic<size_t> next_{0};

  Mutex mutex_;
  std::condition_variable changed_;
  uint64_t call_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they read the others
};

}  // namespace lethe

#endif  // LETHE_CORE_BASE_TEAM_H_
