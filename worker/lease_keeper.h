// Keeps a lease: a heartbeat every third of it, on a thread of its own, with the progress that it
// was told last; and knows when the lease is over.
//
// A lease is over when the server says so, and also when nothing has renewed it for its whole
// length by this machine's clock, from when the last call that did so was sent: the server may have
// given the job away by then. What failed on its way is tried again, with pauses, until then.
//
// Threads: safe. Cost: a thread.
#ifndef LETHE_WORKER_LEASE_KEEPER_H_
#define LETHE_WORKER_LEASE_KEEPER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/program/event_log.h"
#include "lethe/v1/worker_service.pb.h"
#include "worker/link.h"

namespace lethe::worker {

// Whether another try may help: the server did not answer, or refused for now.
bool MayHelpAgain(const absl::Status& status);

// Heartbeats may keep a lease whose other calls fail for ever; after this another attempt counts.
inline constexpr absl::Duration kLongestRetry = absl::Minutes(5);

class LeaseKeeper {
 public:
  enum class State {
    kHeld,
    kCancelled,  // held, and the server wants the job to be stopped
    kLost,       // discard what this run has made
  };

  // `link` and `log` outlive it. `sent`: when the call that gave the lease was sent.
  LeaseKeeper(Link* link,
              v1::JobLease lease,
              absl::Duration length,
              std::chrono::steady_clock::time_point sent,
              program::EventLog* log,
              absl::Duration longest_retry = kLongestRetry);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  const v1::JobLease& lease() const { return lease_; }
  State state() ABSL_LOCKS_EXCLUDED(mutex_);
  // How long it is in force if nothing renews it.
  absl::Duration left() ABSL_LOCKS_EXCLUDED(mutex_);
  void SetProgress(const v1::JobProgress& progress) ABSL_LOCKS_EXCLUDED(mutex_);
  v1::JobProgress progress() ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t failed_beats() ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `attempt`, which names the lease, until it succeeds, fails for good, the lease is over or
  // `longest_retry` has passed;
  // its success renews the lease, FAILED_PRECONDITION "lease" ends it. While it is tried again,
  // `give_up` can end that.
  absl::Status Retry(const std::function<absl::Status()>& attempt,
                     const std::function<bool()>& give_up = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(const absl::Status& status, Clock::time_point sent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Link* const link_;
  const v1::JobLease lease_;
  program::EventLog* const log_;
  const std::chrono::nanoseconds longest_retry_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::chrono::nanoseconds length_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point renewed_ ABSL_GUARDED_BY(mutex_);
  v1::JobProgress progress_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t failed_beats_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: it reads the others
};

}  // namespace lethe::worker

#endif  // LETHE_WORKER_LEASE_KEEPER_H_
