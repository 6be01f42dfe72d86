// lethe-worker: settings -> backend -> lease a job -> run it -> the next, until a signal.
#include <grpc/support/log.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/retry.h"
#include "core/base/team.h"
#include "core/batched/select.h"
#include "core/program/event_log.h"
#include "worker/lease_keeper.h"
#include "worker/link.h"
#include "worker/metrics.h"
#include "worker/options.h"
#include "worker/run_job.h"

namespace lethe::worker {
namespace {

using Clock = std::chrono::steady_clock;
using program::EventLog;
using program::LogLevel;

constexpr int kExitUsage = 64;  // EX_USAGE
// How long the server holds a call that waits for a job, and so how late a signal is seen.
constexpr absl::Duration kWait = absl::Seconds(2);
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(15);

#if defined(__AVX512F__)
constexpr char kPacks[] = "avx512";
#elif defined(__AVX2__)
constexpr char kPacks[] = "avx2";
#else
constexpr char kPacks[] = "base";
#endif
#if defined(__clang__)
constexpr char kCompiler[] = "clang " __clang_version__;
#else
constexpr char kCompiler[] = "gcc " __VERSION__;
#endif

// For gRPC's hook, which is a plain function. Set once, before any thread starts.
EventLog* library_log = nullptr;

void LogFromGrpc(gpr_log_func_args* args) {
  library_log->Write(
      args->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug, "grpc",
      {{"message", args->message}});
}

// SIGTERM and SIGINT: the first asks to stop, a second one ends the process. Made before any other
// thread, which inherit that they are blocked.
class StopSignals {
 public:
  explicit StopSignals(EventLog* log) : log_(log) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { Run(); });
  }
  ~StopSignals() {
    over_ = true;
    thread_.join();
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool stopped() const { return stopped_; }
  // Returns sooner when asked to stop.
  void Sleep(std::chrono::nanoseconds time) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, time, [this] { return stopped_.load(); });
  }

 private:
  void Run() {
    while (!over_) {
      const timespec wait{.tv_sec = 0, .tv_nsec = 100'000'000};
      const int signal = sigtimedwait(&signals_, nullptr, &wait);
      if (signal < 0) continue;
      if (stopped_) _exit(1);
      log_->Write(LogLevel::kInfo, "stopping", {{"signal", int64_t{signal}}});
      {
        std::lock_guard<std::mutex> lock(mutex_);
        stopped_ = true;
      }
      changed_.notify_all();
    }
  }

  EventLog* const log_;
  sigset_t signals_;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

// Leases and runs jobs until asked to stop. An error is one that trying again does not mend.
absl::Status Serve(const Options& options, const RunContext& context, StopSignals& signals) {
  client::Backoff backoff(kFirstPause, kLongestPause);
  const client::Environment environment = client::Environment::Real();
  // By name: one that this release does not know is for others.
  const std::vector<jobs::JobKind> kinds =
      options.kinds.empty() ? std::vector{jobs::JobKind::kCalibrate, jobs::JobKind::kTrainEncoder,
                                          jobs::JobKind::kTrainLm}
                            : options.kinds;
  bool answered = false;
  while (!signals.stopped()) {
    const Clock::time_point sent = Clock::now();
    const absl::StatusOr<v1::LeaseJobResponse> offer =
        context.link->Lease(options.name, kinds, kWait);
    if (!offer.ok()) {
      // Wrong from the first call on is a setting; later, something that may be mended.
      if (!answered && !MayHelpAgain(offer.status()) &&
          !absl::IsResourceExhausted(offer.status())) {
        return offer.status();
      }
      if (!answered && absl::IsUnauthenticated(offer.status())) return offer.status();
      context.log->Write(LogLevel::kWarning, "lease_failed",
                         {{"code", static_cast<int64_t>(offer.status().code())},
                          {"message", std::string(offer.status().message())}});
      signals.Sleep(absl::ToChronoNanoseconds(
          client::WaitBefore(backoff, environment.uniform(), offer.status())));
      continue;
    }
    if (!std::exchange(answered, true)) {
      context.log->Write(LogLevel::kInfo, "connected", {{"server", options.server}});
    }
    backoff.Reset();
    if (offer->has_lease()) RunJob(context, *offer, sent);
  }
  return absl::OkStatus();
}

absl::Status Work(const Options& options, EventLog& log) {
  StopSignals signals(&log);
  const size_t threads = options.threads > 0
                             ? options.threads
                             : std::max<size_t>(std::thread::hardware_concurrency(), 1);
  const absl::StatusOr<batched::Selected> backend =
      batched::SelectBackend(options.backend, static_cast<int>(threads));
  if (!backend.ok()) {
    return absl::Status(backend.status().code(), absl::StrCat("--", backend.status().message()));
  }
  absl::StatusOr<std::unique_ptr<Link>> link = MakeGrpcLink(ConnectionOptions(options));
  if (!link.ok()) return link.status();
  Team team(threads);
  Metrics metrics(LETHE_VERSION, backend->backend->name());
  if (!options.metrics_listen.empty()) {
    const absl::StatusOr<int> port = metrics.Serve(options.metrics_listen);
    if (!port.ok()) return port.status();
    log.Write(LogLevel::kInfo, "serving_metrics",
              {{"listen", options.metrics_listen}, {"port", int64_t{*port}}});
  }
  const std::string build =
      absl::StrCat("lethe-worker ", LETHE_VERSION, ", ", kCompiler, ", ", kPacks);
  log.Write(LogLevel::kInfo, "working",
            {{"version", std::string(LETHE_VERSION)},
             {"name", options.name},
             {"server", options.server},
             {"backend", backend->backend->name()},
             {"backend_reason", backend->reason},
             {"device", backend->backend->description()},
             {"threads", static_cast<int64_t>(team.size())}});
  RunContext context;
  context.link = link->get();
  context.runtime = {&team, backend->backend.get(), {}};
  context.log = &log;
  context.metrics = &metrics;
  context.build = build;
  context.backend = backend->backend->name();
  context.device = backend->backend->description();
  context.checkpoint_time = options.checkpoint_time;
  context.checkpoint_steps = options.checkpoint_steps;
  context.stop = [&signals] { return signals.stopped(); };
  if (absl::Status served = Serve(options, context, signals); !served.ok()) return served;
  log.Write(LogLevel::kInfo, "stopped", {});
  return absl::OkStatus();
}

int Main(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(arguments);
  if (!command_line.ok()) {
    std::fprintf(stderr, "lethe-worker: %s\nTry lethe-worker --help.\n",
                 std::string(command_line.status().message()).c_str());
    return kExitUsage;
  }
  if (command_line->print) {
    std::fputs(command_line->text.c_str(), stdout);
    return 0;
  }
  const Options& options = command_line->options;
  EventLog log(STDERR_FILENO, options.log_level);
  library_log = &log;
  gpr_set_log_function(LogFromGrpc);
  ::signal(SIGPIPE, SIG_IGN);
  for (const std::string& warning : command_line->warnings) {
    log.Write(LogLevel::kWarning, "unknown_variable", {{"message", warning}});
  }
  const absl::Status status = Work(options, log);
  if (status.ok()) return 0;
  log.Write(
      LogLevel::kError, "failed",
      {{"code", static_cast<int64_t>(status.code())}, {"message", std::string(status.message())}});
  return 1;
}

}  // namespace
}  // namespace lethe::worker

int main(int argc, char** argv) {
  return lethe::worker::Main(std::vector<std::string>(argv + 1, argv + argc));
}
