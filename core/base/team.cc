#include "core/base/team.h"

#include <algorithm>
#include <system_error>

#include "core/base/check.h"

namespace lethe {

Team::Team(size_t threads) {
  LETHE_CHECK(threads >= 1);
  threads_.reserve(threads - 1);
  try {
    for (size_t member = 1; member < threads; ++member) {
      threads_.emplace_back([this, member] { Serve(member); });
    }
  } catch (const std::system_error&) {  // no more threads; those that came will do
  }
}

Team::~Team() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::Share(size_t member) {
  while (true) {
    const size_t first = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (first >= count_) return;
    (*work_)(member, first, std::min(first + grain_, count_));
  }
}

void Team::Serve(size_t member) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_.native());
      changed_.wait(lock, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return over_ || call_ != seen; });
      if (over_) return;
      seen = call_;
    }
    Share(member);
    {
      MutexLock lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

void Team::Run(size_t count, size_t grain, const Work& work) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  LETHE_CHECK(grain >= 1);
  MutexLock turn(turn_);
  if (threads_.empty() || count <= grain) {
    if (count > 0) work(0, 0, count);
    return;
  }
  {
    MutexLock lock(mutex_);
    work_ = &work;
    count_ = count;
    grain_ = grain;
    next_.store(0, std::memory_order_relaxed);
    busy_ = threads_.size();
    ++call_;
  }
  changed_.notify_all();
  Share(0);
  std::unique_lock<std::mutex> lock(mutex_.native());
  changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return busy_ == 0; });
  work_ = nullptr;
}

}  // namespace lethe
