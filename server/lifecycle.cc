#include "server/lifecycle.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

namespace lethe::server {
namespace {

extern "C" void EndNow(int /*signal*/) {
  // Only what a signal handler may call.
  constexpr char kLine[] = "{\"level\":\"error\",\"event\":\"drain_timeout\"}\n";
  if (::write(STDERR_FILENO, kLine, sizeof kLine - 1) < 0) {
    // Nobody to tell.
  }
  ::_exit(1);
}

// Entered with the default restored (SA_RESETHAND) and the signal not blocked (SA_NODEFER).
extern "C" void EndByIt(int signal) {
  ::raise(signal);
  // Still there: this is process 1 of a container, which the kernel ends by no signal's default.
  ::_exit(128 + signal);
}

// Who started it may want it to outlive a Ctrl-C.
bool Ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void EndOnStopSignals() {
  for (const int signal : {SIGTERM, SIGINT}) {
    if (Ignored(signal)) continue;
    struct sigaction action {};
    action.sa_handler = EndByIt;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    sigaction(signal, &action, nullptr);
  }
}

Signals::Signals() {
  sigemptyset(&reload_);
  sigaddset(&reload_, SIGHUP);
  sigemptyset(&stops_);
  sigemptyset(&all_);
  sigaddset(&all_, SIGHUP);
  for (const int signal : {SIGTERM, SIGINT}) {
    if (Ignored(signal)) continue;
    sigaddset(&stops_, signal);
    sigaddset(&all_, signal);
  }
  ::signal(SIGHUP, SIG_DFL);
  pthread_sigmask(SIG_BLOCK, &reload_, nullptr);
}

void Signals::BlockStops() { pthread_sigmask(SIG_BLOCK, &stops_, nullptr); }

int Signals::Wait() {
  int signal = 0;
  while (sigwait(&all_, &signal) != 0) {
  }
  return signal;
}

void Signals::UnblockStops() { pthread_sigmask(SIG_UNBLOCK, &stops_, nullptr); }

void EndAfter(absl::Duration limit) {
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(limit, absl::Seconds(1)));
  struct sigaction action {};
  action.sa_handler = EndNow;
  sigaction(SIGALRM, &action, nullptr);
  ::alarm(static_cast<unsigned>(std::clamp<int64_t>(seconds, 1, 1 << 30)));
}

void DoTogether(const std::vector<std::function<void()>>& works) {
  std::vector<std::thread> threads;
  for (const std::function<void()>& work : works) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      work();
    }
  }
  for (std::thread& thread : threads) thread.join();
}

Periodically::Periodically(absl::Duration period, std::function<void()> work)
    : period_(absl::ToChronoMilliseconds(period)),
      work_(std::move(work)),
      thread_([this] { Run(); }) {}

Periodically::~Periodically() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Periodically::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, period_, [this] { return over_; })) {
    lock.unlock();
    work_();
    lock.lock();
  }
}

}  // namespace lethe::server
