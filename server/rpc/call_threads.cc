#include "server/rpc/call_threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "core/base/check.h"
#include "server/service/retry_delay.h"

namespace lethe::rpc {
namespace {

// Beyond the least that wait for events: fewer threads are ended to be started again.
constexpr size_t kSpare = 2;

}  // namespace

CallThreads::CallThreads(size_t max_threads, StartThread start_thread)
    : max_threads_(max_threads),
      least_waiting_(std::max(2U, std::thread::hardware_concurrency())),
      start_thread_(std::move(start_thread)) {
  LETHE_CHECK(max_threads >= 2);
}

CallThreads::~CallThreads() {
  MutexLock lock(mutex_);
  LETHE_CHECK(threads_ == 0 && calls_ == 0);
}

grpc::ServerCompletionQueue* CallThreads::Attach(grpc::ServerBuilder& builder) {
  queue_ = builder.AddCompletionQueue();
  return queue_.get();
}

absl::Status CallThreads::Start() {
  MutexLock lock(mutex_);
  if (!StartOne()) return absl::ResourceExhaustedError("no thread can be had for calls");
  while (waiting_ < least_waiting_ && threads_ < max_threads_ && StartOne()) {
  }
  return absl::OkStatus();
}

void CallThreads::Stop() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (queue_ == nullptr) return;
  std::unique_lock<std::mutex> lock(mutex_.native());
  ended_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return calls_ == 0; });
  lock.unlock();
  queue_->Shutdown();
  lock.lock();
  ended_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return threads_ == 0; });
}

void CallThreads::CountIn() {
  MutexLock lock(mutex_);
  ++calls_;
}

void CallThreads::CountOut() {
  MutexLock lock(mutex_);
  if (--calls_ == 0) ended_.notify_all();
}

bool CallThreads::Leave() {
  MutexLock lock(mutex_);
  if (waiting_ <= least_waiting_ && threads_ < max_threads_) StartOne();
  if (waiting_ == 1) return false;
  --waiting_;
  return true;
}

void CallThreads::Return() {
  MutexLock lock(mutex_);
  ++waiting_;
}

bool CallThreads::StartOne() {
  try {
    const auto serve = [this] { Serve(); };
    (start_thread_ ? start_thread_(serve) : std::thread(serve)).detach();
  } catch (const std::exception&) {  // EAGAIN, or no memory
    return false;
  }
  ++threads_;
  ++waiting_;
  return true;
}

void CallThreads::Serve() {
  void* tag = nullptr;
  bool ok = false;
  while (true) {
    const bool more = queue_->Next(&tag, &ok);
    if (more) static_cast<CallEvent*>(tag)->Over(ok);
    MutexLock lock(mutex_);
    if (more && waiting_ <= least_waiting_ + kSpare) continue;
    --waiting_;
    if (--threads_ == 0) ended_.notify_all();
    return;
  }
}

}  // namespace lethe::rpc
