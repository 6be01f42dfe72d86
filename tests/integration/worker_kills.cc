// worker_kills BIN FOLDER ROUNDS SEED: workers that are killed, stalled, stopped and cancelled
// while they train, with the real programs.
//
// A job of each kind is run undisturbed first. In each round the same three jobs run again on three
// workers, which are killed (kill -9) at random steps; others take over, and every artefact must be
// the first one bit for bit, made from the last checkpoint on. Then one worker is stalled (SIGSTOP)
// until another one has finished its job, and goes on: what it has made since must not show. One is
// asked to stop (SIGTERM) and must leave a checkpoint of its last step, and one is told that its
// job is cancelled, within two heartbeats. Prints what was done; exits 1 on the first thing that
// does not hold.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "tests/integration/server_process.h"

namespace lethe::tests {
namespace {

using client::Job;
using client::JobState;

constexpr absl::Duration kLease = absl::Seconds(3);
constexpr absl::Duration kPatience = absl::Minutes(3);
constexpr char kTenant[] = "t";
const client::MemoryName kMemory{kTenant, "m"};

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "FAILED: " << what << std::endl;
  std::_Exit(1);  // the processes go with this one
}
void Check(bool holds, const std::string& what) {
  if (!holds) Fail(what);
}
template <typename T>
T Value(absl::StatusOr<T> result, const std::string& what) {
  if (!result.ok()) Fail(absl::StrCat(what, ": ", result.status().ToString()));
  return *std::move(result);
}

class Worker {
 public:
  Worker(const std::string& bin,
         const std::string& folder,
         const std::string& address,
         const std::string& name,
         const std::string& kind)
      : log_(absl::StrCat(folder, "/", name, ".log")) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    const int out = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || dup2(out, STDERR_FILENO) < 0) _exit(126);
    const std::string program = bin + "/lethe-worker";
    execl(program.c_str(), program.c_str(), "--server", address.c_str(), "--name", name.c_str(),
          "--kinds", kind.c_str(), "--threads", "1", "--backend", "cpu", "--checkpoint-time",
          "200ms", static_cast<char*>(nullptr));
    _exit(127);
  }
  ~Worker() { Kill(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Signal(int signal) const { kill(pid_, signal); }
  void Kill() {
    if (pid_ < 0) return;
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // SIGTERM; must end by itself with status 0.
  void Stop() {
    Signal(SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    Check(WIFEXITED(status) && WEXITSTATUS(status) == 0,
          absl::StrCat("a worker that was asked to stop ended with wait status ", status));
  }
  std::string Log() const {
    std::stringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }
  // The step at which it began the job, by its own log.
  uint64_t BeganAt(const std::string& job) const {
    for (const absl::string_view line : absl::StrSplit(Log(), '\n', absl::SkipEmpty())) {
      const auto entry = nlohmann::json::parse(line, nullptr, false);
      if (!entry.is_discarded() && entry.value("event", "") == "job_began" &&
          entry.value("job", "") == job) {
        return entry.value("step", uint64_t{0});
      }
    }
    Fail("the worker's log does not say where it began");
  }

 private:
  const std::string log_;
  pid_t pid_ = -1;
};

void WaitUntil(const std::string& what, const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > end) Fail("it did not come about: " + what);
    absl::SleepFor(absl::Milliseconds(10));
  }
}

class Scene {
 public:
  Scene(std::string bin, std::string folder, uint64_t seed)
      : bin_(std::move(bin)),
        folder_(std::move(folder)),
        random_(seed),
        server_(bin_ + "/lethed",
                folder_ + "/data",
                {"--job-lease", absl::FormatDuration(kLease)}) {
    Check(server_.Start().ok(), "lethed starts");
    client_ = std::make_unique<client::Client>(server_.Connect());
    Value(client_->CreateTenant(kTenant), "tenant");
    Value(client_->CreateMemory(kMemory, {.kernel = client::Kernel::Rbf(0.2),
                                          .box = 0.1,
                                          .key_dimension = 6,
                                          .value_dimension = 2}),
          "memory");
    std::normal_distribution<double> normal;
    std::vector<client::Token> tokens;
    for (int i = 0; i < 500; ++i) {
      const int value = static_cast<int>(random_() % 4);
      client::Token token{.id = absl::StrCat("token-", i)};
      for (int k = 0; k < 6; ++k) token.key.push_back(normal(random_) + (k == value ? 2.0 : 0.0));
      token.value = {std::cos(value), std::sin(value)};
      token.payload = absl::StrCat("entry ", i, " is of kind ", value, ", as ", value * value,
                                   " others were before it.\n");
      tokens.push_back(std::move(token));
    }
    Value(client_->Insert(kMemory, tokens), "tokens");
  }

  static std::vector<client::JobConfig> Configs() {
    return {client::CalibrateConfig{.samples = 192, .seed = 3},
            client::TrainEncoderConfig{.steps = 1000, .seed = 3},
            client::TrainLmConfig{.layers = 1,
                                  .width = 32,
                                  .block = 64,
                                  .chunk = 16,
                                  .steps = 600,
                                  .batch = 4,
                                  .seed = 3}};
  }

  std::string Submit(const client::JobConfig& config) {
    return Value(client_->SubmitJob({.tenant = kTenant, .memory = "m", .config = config}), "submit")
        .id;
  }
  Job Get(const std::string& id) { return Value(client_->GetJob(kTenant, id), "get"); }
  std::unique_ptr<Worker> Start(const client::JobConfig& config) {
    return std::make_unique<Worker>(bin_, folder_, server_.address(),
                                    absl::StrCat("worker-", ++workers_),
                                    std::string(jobs::JobKindName(KindOf(config))));
  }
  // Waits for it to succeed; the SHA-256 of its artefact, which has been downloaded.
  std::string ArtefactOf(const std::string& id) {
    const Job job =
        Value(client_->WatchJob(kTenant, id, [](const Job&) { return absl::OkStatus(); }), "watch");
    Check(job.state == JobState::kSucceeded,
          absl::StrCat("job ", id, " is ", std::string(client::ToText(job.state)), ": ",
                       job.failure_message));
    Check(absl::StrContains(job.artefact->manifest, "no deletion certificate"),
          "the manifest says that there is no deletion certificate");
    return Value(client_->GetArtefact(kTenant, id,
                                      [](absl::string_view) { return absl::OkStatus(); }),
                 "artefact")
        .sha256;
  }
  // A step that is a random part of all.
  double SomePart() { return std::uniform_real_distribution<double>(0.05, 0.5)(random_); }
  // Whether the job has come so far. It must not have ended.
  bool HasDone(const std::string& id, double part, uint64_t* step) {
    const Job job = Get(id);
    Check(!HasEnded(job.state), "the job ended before it could be disturbed");
    *step = job.progress.step;
    return job.progress.steps > 0 &&
           static_cast<double>(*step) >= part * static_cast<double>(job.progress.steps) &&
           *step < job.progress.steps;
  }
  uint64_t WaitForSomeSteps(const std::string& id) {
    const double part = SomePart();
    uint64_t step = 0;
    WaitUntil("steps", [&] { return HasDone(id, part, &step); });
    return step;
  }

  void Baselines() {
    for (const client::JobConfig& config : Configs()) {
      const std::string id = Submit(config);
      const auto worker = Start(config);
      wanted_.push_back(ArtefactOf(id));
      Check(Get(id).leases == 1, "the first run is undisturbed");
      worker->Stop();
    }
  }

  void Kills() {
    std::vector<std::string> ids;
    std::vector<std::unique_ptr<Worker>> workers;
    for (const client::JobConfig& config : Configs()) {
      ids.push_back(Submit(config));
      workers.push_back(Start(config));
    }
    std::vector<double> parts;
    for (size_t i = 0; i < ids.size(); ++i) parts.push_back(SomePart());
    std::vector<bool> killed(ids.size());
    size_t left = ids.size();
    WaitUntil("all are killed", [&] {
      for (size_t i = 0; i < ids.size(); ++i) {
        uint64_t step = 0;
        if (killed[i] || !HasDone(ids[i], parts[i], &step)) continue;
        workers[i]->Kill();
        killed[i] = true;
        --left;
        std::cout << "killed at step " << step
                  << " or later: " << jobs::JobKindName(KindOf(Configs()[i])) << std::endl;
      }
      return left == 0;
    });
    std::vector<uint64_t> kept;
    for (const std::string& id : ids) kept.push_back(Get(id).checkpoint_step);
    for (size_t i = 0; i < ids.size(); ++i) workers[i] = Start(Configs()[i]);
    for (size_t i = 0; i < ids.size(); ++i) {
      Check(ArtefactOf(ids[i]) == wanted_[i], "the artefact is that of the undisturbed run");
      Check(Get(ids[i]).leases >= 2, "another worker has finished it");
      // Or from one that was still on its way when its worker was killed.
      const uint64_t began = workers[i]->BeganAt(ids[i]);
      Check(began >= kept[i], "it went on from the last checkpoint");
      if (began > 0) ++resumed_;
      workers[i]->Stop();
    }
  }

  void StallAndStopAndCancel() {
    const std::vector<client::JobConfig> configs = Configs();
    // Stalled while another one finishes.
    const std::string stalled_job = Submit(configs[2]);
    const auto stalled = Start(configs[2]);
    const uint64_t stalled_at = WaitForSomeSteps(stalled_job);
    stalled->Signal(SIGSTOP);

    // Asked to stop: a checkpoint of where it was, the job back in the queue, no attempt counted.
    const std::string stopped_job = Submit(configs[1]);
    auto stopped = Start(configs[1]);
    WaitForSomeSteps(stopped_job);
    stopped->Stop();
    const Job back = Get(stopped_job);
    Check(back.state == JobState::kQueued, "a job whose worker stops is queued again");
    Check(back.attempts == 0, "and it costs no attempt");
    Check(back.checkpoint_step == back.progress.step && back.checkpoint_step > 0,
          "its last step is in the last checkpoint");
    const auto next = Start(configs[1]);
    Check(ArtefactOf(stopped_job) == wanted_[1], "what was stopped ends with the same bytes");
    next->Stop();

    // Cancelled, which the worker hears with its next heartbeat.
    client::TrainLmConfig endless = std::get<client::TrainLmConfig>(configs[2]);
    endless.steps = 10'000'000;
    const auto other = Start(configs[2]);
    Check(ArtefactOf(stalled_job) == wanted_[2], "what was taken over ends with the same bytes");
    const Job finished = Get(stalled_job);
    const std::string endless_job = Submit(endless);
    WaitUntil("it trains", [&] { return Get(endless_job).progress.step > 0; });
    Value(client_->CancelJob(kTenant, endless_job), "cancel");
    const absl::Time asked = absl::Now();
    WaitUntil("cancelled", [&] { return Get(endless_job).state == JobState::kCancelled; });
    const absl::Duration took = absl::Now() - asked;
    Check(took <= 2 * kLease / 3,
          absl::StrCat("cancelled within two heartbeats, took ", absl::FormatDuration(took)));
    other->Stop();

    // The stalled one goes on, with a lease that is over.
    stalled->Signal(SIGCONT);
    WaitUntil("the stalled worker notices",
              [&] { return absl::StrContains(stalled->Log(), "\"end\":\"lost\""); });
    const Job after = Get(stalled_job);
    Check(after.artefact->sha256 == finished.artefact->sha256 &&
              after.artefact->manifest == finished.artefact->manifest &&
              after.checkpoints == finished.checkpoints && after.worker == finished.worker,
          "nothing of what it did shows");
    stalled->Stop();
    std::cout << "stalled at step " << stalled_at << ", cancelled after "
              << absl::FormatDuration(took) << std::endl;
  }

  int resumed() const { return resumed_; }
  void End() { Check(server_.Stop().ok(), "lethed ends by itself"); }

 private:
  const std::string bin_;
  const std::string folder_;
  std::mt19937_64 random_;
  ServerProcess server_;
  std::unique_ptr<client::Client> client_;
  std::vector<std::string> wanted_;
  int workers_ = 0;
  int resumed_ = 0;  // jobs that another worker began after their first step
};

int Main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "worker_kills BIN FOLDER ROUNDS SEED\n";
    return 64;
  }
  const int rounds = std::atoi(argv[3]);
  std::cout << "seed " << argv[4] << std::endl;
  Scene scene(argv[1], argv[2], std::strtoull(argv[4], nullptr, 10));
  scene.Baselines();
  for (int round = 0; round < rounds; ++round) scene.Kills();
  scene.StallAndStopAndCancel();
  scene.End();
  std::cout << "workers: " << 3 * rounds << " killed, every artefact the same to the bit"
            << std::endl;
  std::cout << "resumed from a checkpoint: " << scene.resumed() << std::endl;
  return 0;
}

}  // namespace
}  // namespace lethe::tests

int main(int argc, char** argv) { return lethe::tests::Main(argc, argv); }
