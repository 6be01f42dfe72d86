// The threads of calls with one request: they wait for events of gRPC, and whoever gets the one
// that a call's request is there does the work of the call itself, after seeing to it that others
// wait. So a call that waits for its peer holds no thread, and one that runs is handed to none: on
// a busy machine each thread that must be woken for a call can wait for a slice of somebody else.
//
// Threads: safe, but for Start and Stop. Cost: a thread is started when too few would wait for
// events; one that comes back to enough of them ends.
#ifndef LETHE_SERVER_RPC_CALL_THREADS_H_
#define LETHE_SERVER_RPC_CALL_THREADS_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace lethe::rpc {

// A thread that runs this; throws std::system_error where there can be no more. Empty: std::thread.
using StartThread = std::function<std::thread(std::function<void()>)>;

// What an operation of gRPC was started with: told when it is over.
class CallEvent {
 public:
  // Returns soon, and throws nothing. `ok` as gRPC's.
  virtual void Over(bool ok) = 0;

 protected:
  ~CallEvent() = default;
};

class CallThreads {
 public:
  // Requires max_threads >= 2: one that works and one that waits.
  CallThreads(size_t max_threads, StartThread start_thread);
  // Stopped, or never started.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Before the server is built. The queue is where the server tells of calls.
  grpc::ServerCompletionQueue* Attach(grpc::ServerBuilder& builder);
  grpc::ServerCompletionQueue* queue() const { return queue_.get(); }
  // RESOURCE_EXHAUSTED when not one thread can be had.
  absl::Status Start();
  // After the server was shut down; returns when each call that was counted in is counted out and
  // no thread is left.
  void Stop();

  // A call that has operations of gRPC under way, and may start more, is counted in.
  void CountIn() ABSL_LOCKS_EXCLUDED(mutex_);
  void CountOut() ABSL_LOCKS_EXCLUDED(mutex_);

  // From within an event: this thread does something long now, and is back with Return. As many as
  // there are processors, two at least, are left to wait for events where that many can be had.
  // False when nobody would be.
  bool Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  void Return() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // False when none can be had.
  bool StartOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Serve();

  const size_t max_threads_;
  // What an event itself may cost is the look at a caller's credentials: one processor must not
  // keep the others from them.
  const size_t least_waiting_;
  const StartThread start_thread_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Mutex mutex_;
  std::condition_variable ended_;
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // for events
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_CALL_THREADS_H_
