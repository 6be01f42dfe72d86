// The signals of a server, the work that it does from time to time, and the end that it cannot
// miss.
#ifndef LETHE_SERVER_LIFECYCLE_H_
#define LETHE_SERVER_LIFECYCLE_H_

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace lethe::server {

// From here on SIGTERM and SIGINT end the process as they do by default, also where it is process 1
// of a container, for which the kernel has no default; there with the exit status 128 + signal.
// One that the process was started to ignore stays ignored.
void EndOnStopSignals();

// SIGTERM and SIGINT stop, but for one that the process was started to ignore; SIGHUP reloads.
// Threads: of the main thread. Threads that start later inherit what is blocked.
class Signals {
 public:
  // Holds SIGHUP back, also one that the process was started to ignore; a reload that is asked for
  // during a start happens after it.
  Signals();
  // From here on the stop signals wait for Wait as well; until here they end the process at once.
  void BlockStops();
  // The next signal. Requires BlockStops.
  int Wait();
  // From here on a stop signal ends the process at once, and SIGHUP does nothing.
  void UnblockStops();

 private:
  sigset_t reload_;
  sigset_t stops_;
  sigset_t all_;
};

// Ends the process with code 1, and one line on standard error (JSON, as the log's), when it is
// still there after so long, rounded up to seconds; at least one. What was acknowledged is durable.
void EndAfter(absl::Duration limit);

// Does all of them at once, each on a thread of its own, and returns when all are done. Where there
// are no more threads, some of them one after the other.
void DoTogether(const std::vector<std::function<void()>>& works);

// Calls `work` every `period`, on a thread of its own, the first time after one period. Threads:
// made and destroyed by one thread. Destruction waits for a call that runs.
class Periodically {
 public:
  Periodically(absl::Duration period, std::function<void()> work);
  ~Periodically();
  Periodically(const Periodically&) = delete;
  Periodically& operator=(const Periodically&) = delete;

 private:
  void Run();

  const std::chrono::milliseconds period_;
  const std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace lethe::server

#endif  // LETHE_SERVER_LIFECYCLE_H_
