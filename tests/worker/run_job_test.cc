// What a worker does with a job, against a server in this process: checkpoints, exact resumption,
// cancellation, stopping, lost leases, failures in words that a person can act on.
#include "worker/run_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/model/runtime.h"
#include "tests/worker/fake_link.h"

namespace lethe::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr uint64_t kSteps = 8;

class RunJobTest : public testing::Test {
 protected:
  RunJobTest() : log_(MakeLog(), program::LogLevel::kDebug), metrics_("1", "cpu") {
    context_.link = &link_;
    context_.runtime = runtime_.get();
    context_.log = &log_;
    context_.metrics = &metrics_;
    context_.build = "build";
    context_.backend = "cpu";
    context_.device = "cpu, 1 thread";
    context_.checkpoint_time = absl::Hours(1);
    context_.checkpoint_steps = 2;
    context_.stop = [this] { return stop_.load(); };
    v1::TrainEncoderConfig& config = *link_.offer.mutable_job()->mutable_train_encoder();
    config.set_steps(kSteps);
    config.set_memory_tokens(8);
    config.set_queries(4);
    config.set_episodes(2);
    config.set_box(0.5);
    config.set_evaluation(2);
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 80; ++i) {
      v1::TrainingTokens::Token token;
      token.add_key(normal(random));
      token.add_key(kMark + normal(random));
      token.add_value(i % 4);
      token.set_payload(absl::StrCat("private ", i));
      link_.tokens.push_back(token);
    }
  }
  ~RunJobTest() override {
    ::close(fd_);
    std::filesystem::remove(log_path_);
  }

  RunEnd Run() { return RunJob(context_, link_.offer, std::chrono::steady_clock::now()); }
  // Whoever comes next has another lease and what the server keeps.
  void NextWorker() {
    link_.offer.mutable_lease()->set_token(absl::StrCat(link_.offer.lease().token(), "+"));
    link_.failure.reset();
    link_.OnCall([](const std::string&, int) { return absl::OkStatus(); });
    link_.offer.set_checkpoint_bytes(
        link_.checkpoints.empty() ? 0 : link_.checkpoints.back().second.size());
    stop_ = false;
  }
  std::string WholeArtefact() {
    RunJobTest* const self = this;
    EXPECT_EQ(self->Run(), RunEnd::kSucceeded);
    const std::string artefact = link_.artefact.value_or("");
    link_.artefact.reset();
    link_.checkpoints.clear();
    NextWorker();
    return artefact;
  }
  std::vector<uint64_t> CheckpointSteps() const {
    std::vector<uint64_t> steps;
    for (const auto& [step, bytes] : link_.checkpoints) steps.push_back(step);
    return steps;
  }
  std::string Log() {
    std::stringstream text;
    text << std::ifstream(log_path_).rdbuf();
    return text.str();
  }

  static constexpr double kMark = 12345.678;  // would show in a log

  int MakeLog() {
    log_path_ = (std::filesystem::temp_directory_path() / "lethe-worker-log-XXXXXX").string();
    return fd_ = mkstemp(log_path_.data());
  }

  FakeLink link_;
  model::TestRuntime runtime_{1};
  std::string log_path_;  // before the log, which is made with them
  int fd_ = -1;
  std::atomic<bool> stop_ = false;
  RunContext context_;
  program::EventLog log_;
  Metrics metrics_;
};

TEST_F(RunJobTest, ItTrainsSavesCheckpointsAndGivesTheArtefact) {
  EXPECT_EQ(Run(), RunEnd::kSucceeded);
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2, 4, 6, 8));
  ASSERT_TRUE(link_.artefact.has_value());
  const auto manifest = nlohmann::json::parse(link_.manifest);
  EXPECT_EQ(manifest["build"], "build");
  EXPECT_EQ(manifest["backend"], "cpu");
  EXPECT_EQ(manifest["steps"], kSteps);
  EXPECT_EQ(manifest["solver"]["problems"], 2 * kSteps);
  EXPECT_EQ(std::string(manifest["config_sha256"]).size(), 64u);
  EXPECT_EQ(std::string(manifest["data_sha256"]).size(), 64u);
  EXPECT_TRUE(manifest["measured"]["after"].contains("recall"));
  EXPECT_FALSE(link_.failure.has_value());
  EXPECT_THAT(
      metrics_.Text(),
      AllOf(HasSubstr("lethe_worker_jobs_total{end=\"succeeded\",kind=\"train_encoder\"} 1"),
            HasSubstr("lethe_worker_steps_total 8"), HasSubstr("lethe_worker_checkpoints_total 4"),
            HasSubstr("lethe_worker_busy 0")));
  // Nothing of a token is in log or manifest.
  for (const std::string& text : {Log(), link_.manifest}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("private")), Not(HasSubstr("12345"))));
  }
  EXPECT_THAT(Log(),
              AllOf(HasSubstr("\"event\":\"job_began\""), HasSubstr("\"event\":\"job_ended\"")));
  const std::string digest = manifest["data_sha256"];
  link_.tokens.back().set_key(0, 0.5);
  link_.checkpoints.clear();
  NextWorker();
  EXPECT_EQ(Run(), RunEnd::kSucceeded);
  EXPECT_NE(nlohmann::json::parse(link_.manifest)["data_sha256"], digest);
}

// Lost at any call whatever, the next worker ends with the bytes of an undisturbed run.
TEST_F(RunJobTest, LostAtAnyCallTheNextOneEndsWithTheSameBytes) {
  const std::string whole = WholeArtefact();
  for (const std::string call : {"ReadTokens", "SaveCheckpoint", "Complete"}) {
    const int most = call == "SaveCheckpoint" ? 4 : 1;
    for (int lost_at = 0; lost_at < most; ++lost_at) {
      SCOPED_TRACE(absl::StrCat(call, " ", lost_at));
      link_.artefact.reset();
      link_.checkpoints.clear();
      NextWorker();
      int seen = 0;
      link_.OnCall([&](const std::string& name, int) {
        if (name == call && seen++ == lost_at) {
          return absl::FailedPreconditionError("lease: is not in force");
        }
        return absl::OkStatus();
      });
      EXPECT_EQ(Run(), RunEnd::kLost);
      EXPECT_FALSE(link_.failure.has_value()) << "the lease is not its own any more";
      EXPECT_FALSE(link_.artefact.has_value());
      EXPECT_EQ(
          link_.checkpoints.size(),
          call == "Complete" ? 4u : static_cast<size_t>(lost_at) * (call == "SaveCheckpoint"));
      NextWorker();
      EXPECT_EQ(Run(), RunEnd::kSucceeded);
      EXPECT_EQ(link_.artefact, whole);
    }
  }
}

// Its bytes need not be those of a run with one backend, so the manifest tells.
TEST_F(RunJobTest, AnotherBackendThatGoesOnIsInTheManifest) {
  int saved = 0;
  link_.OnCall([&saved](const std::string& call, int) {
    return call == "SaveCheckpoint" && saved++ == 2
               ? absl::FailedPreconditionError("lease: is not in force")
               : absl::OkStatus();
  });
  EXPECT_EQ(Run(), RunEnd::kLost);
  context_.backend = "cuda";
  NextWorker();
  EXPECT_EQ(Run(), RunEnd::kSucceeded);
  EXPECT_EQ(nlohmann::json::parse(link_.manifest)["builds"],
            nlohmann::json({"build, cpu", "build, cuda"}));
}

TEST_F(RunJobTest, AskedToStopItSavesACheckpointAndGivesTheJobBack) {
  const std::string whole = WholeArtefact();
  context_.checkpoint_steps = 0;
  // Before the first step, or after some: it is asked once a token and once a step.
  for (const bool at_once : {true, false}) {
    link_.checkpoints.clear();
    link_.artefact.reset();
    NextWorker();
    std::atomic<size_t> asked = 0;
    context_.stop = [&] { return at_once || ++asked > link_.tokens.size() + 4; };
    EXPECT_EQ(Run(), RunEnd::kStopped);
    ASSERT_TRUE(link_.failure.has_value());
    EXPECT_EQ(link_.failure->end, v1::WORKER_END_STOPPING);
    EXPECT_EQ(link_.failure->message, "");
    EXPECT_EQ(link_.checkpoints.empty(), at_once) << "nothing was computed yet";
    context_.stop = [this] { return stop_.load(); };
    NextWorker();
    EXPECT_EQ(Run(), RunEnd::kSucceeded);
    EXPECT_EQ(link_.artefact, whole);
  }
}

TEST_F(RunJobTest, ACancellationComesWithTheHeartbeat) {
  link_.cancel = true;
  link_.offer.mutable_job()->mutable_train_encoder()->set_steps(10'000'000);
  EXPECT_EQ(Run(), RunEnd::kCancelled);
  ASSERT_TRUE(link_.failure.has_value());
  EXPECT_EQ(link_.failure->end, v1::WORKER_END_CANCELLED);
  EXPECT_FALSE(link_.artefact.has_value());
}

// Also while it reads, when nothing has been computed.
TEST_F(RunJobTest, ACancellationEndsReading) {
  link_.cancel = true;
  link_.offer.set_lease_seconds(0.3);
  link_.OnCall([&](const std::string& call, int) {
    // A second heartbeat is sent once the answer to the first one has been read.
    while (call == "ReadTokens" && link_.calls("Heartbeat") < 2) std::this_thread::yield();
    return absl::OkStatus();
  });
  EXPECT_EQ(Run(), RunEnd::kCancelled);
  EXPECT_EQ(link_.calls("ReadTokens"), 1);
  EXPECT_EQ(link_.failure->end, v1::WORKER_END_CANCELLED);
}

TEST_F(RunJobTest, WhatFailsOnItsWayIsTriedAgain) {
  const std::string whole = WholeArtefact();
  link_.OnCall([](const std::string&, int before) {
    return before % 2 == 1 ? absl::OkStatus() : absl::UnavailableError("no answer");
  });
  EXPECT_EQ(Run(), RunEnd::kSucceeded);
  EXPECT_EQ(link_.artefact, whole);
}

TEST_F(RunJobTest, AFullDiskAtTheServerDoesNotEndTheJob) {
  const std::string whole = WholeArtefact();
  link_.OnCall([](const std::string& call, int) {
    return call == "SaveCheckpoint" ? absl::ResourceExhaustedError("data: disk full")
                                    : absl::OkStatus();
  });
  EXPECT_EQ(Run(), RunEnd::kSucceeded);
  EXPECT_EQ(link_.artefact, whole);
  EXPECT_THAT(Log(), HasSubstr("checkpoint_refused"));
}

TEST_F(RunJobTest, FailuresSayWhatAPersonCanDo) {
  const auto fails = [&](v1::WorkerEnd end, RunEnd run) {
    NextWorker();
    EXPECT_EQ(Run(), run);
    EXPECT_TRUE(link_.failure.has_value());
    if (!link_.failure.has_value()) return std::string();
    EXPECT_EQ(link_.failure->end, end);
    EXPECT_LE(link_.failure->message.size(), 1024u);
    EXPECT_THAT(link_.failure->message, Not(HasSubstr("12345")));
    return link_.failure->message;
  };
  v1::TrainEncoderConfig& config = *link_.offer.mutable_job()->mutable_train_encoder();
  const v1::TrainEncoderConfig good = config;
  config.set_box(0.01);
  // The server has accepted it: another worker may run it.
  EXPECT_THAT(fails(v1::WORKER_END_RETRY, RunEnd::kRetry),
              AllOf(HasSubstr("upgrade it"), HasSubstr("train_encoder.box: ")));
  config = good;
  const auto tokens = link_.tokens;
  link_.tokens.resize(5);
  EXPECT_THAT(fails(v1::WORKER_END_FINAL, RunEnd::kFailed),
              AllOf(StartsWith("tokens: "), HasSubstr("insert more")));
  link_.tokens = tokens;
  link_.tokens[3].add_key(1);
  EXPECT_THAT(fails(v1::WORKER_END_RETRY, RunEnd::kRetry), HasSubstr("other dimensions"));
  link_.tokens = tokens;
  // Of a newer server; another worker may know it.
  config.GetReflection()->MutableUnknownFields(&config)->AddVarint(900, 1);
  EXPECT_THAT(fails(v1::WORKER_END_RETRY, RunEnd::kRetry), HasSubstr("upgrade the worker"));
  config = good;
  link_.checkpoints = {{2, "not a checkpoint"}};
  EXPECT_THAT(fails(v1::WORKER_END_RETRY, RunEnd::kRetry), StartsWith("checkpoint: "));
  link_.checkpoints.clear();
  NextWorker();
  link_.OnCall([](const std::string& call, int) {
    return call == "Complete" ? absl::ResourceExhaustedError("data: too many files")
                              : absl::OkStatus();
  });
  EXPECT_EQ(Run(), RunEnd::kRetry);
  EXPECT_EQ(link_.failure->message, "data: too many files");
}

TEST_F(RunJobTest, MetricsAreServed) {
  const absl::StatusOr<int> port = metrics_.Serve("127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(*port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  ASSERT_EQ(::write(socket, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t count = 0; (count = ::read(socket, bytes, sizeof(bytes))) > 0;) {
    answer.append(bytes, static_cast<size_t>(count));
  }
  ::close(socket);
  EXPECT_THAT(answer, AllOf(HasSubstr("200 OK"), HasSubstr("lethe_worker_info{"),
                            HasSubstr("{end=\"failed\",kind=\"train_lm\"} 0")));
  // What docs/jobs.md lists is what there is.
  std::stringstream document;
  document << std::ifstream(std::string(LETHE_SOURCE_DIR) + "/docs/jobs.md").rdbuf();
  std::istringstream lines(metrics_.Text());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) != 0) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_THAT(document.str(), HasSubstr("`" + name + "`"));
  }
  Metrics second("1", "cpu");
  EXPECT_THAT(std::string(second.Serve(absl::StrCat("127.0.0.1:", *port)).status().message()),
              StartsWith("--metrics-listen: "));
}

// The other kinds read what is theirs.
TEST_F(RunJobTest, EveryKindRuns) {
  link_.offer.mutable_job()->set_kind(v1::JOB_KIND_TRAIN_LM);
  v1::TrainLmConfig& lm = *link_.offer.mutable_job()->mutable_train_lm();
  lm.set_layers(1);
  lm.set_width(8);
  lm.set_block(16);
  lm.set_chunk(8);
  lm.set_box(0.5);
  lm.set_batch(2);
  lm.set_steps(3);
  EXPECT_EQ(Run(), RunEnd::kSucceeded) << Log();
  EXPECT_EQ(nlohmann::json::parse(link_.manifest)["text_bytes"], 790) << "of all payloads";
  link_.checkpoints.clear();
  NextWorker();
  link_.offer.mutable_job()->set_kind(v1::JOB_KIND_CALIBRATE);
  v1::CalibrateConfig& sweep = *link_.offer.mutable_job()->mutable_calibrate();
  sweep.set_tokens(16);
  sweep.set_samples(2);
  EXPECT_EQ(Run(), RunEnd::kSucceeded) << Log();
  EXPECT_EQ(nlohmann::json::parse(*link_.artefact)["table"].size(), 25u);
}

}  // namespace
}  // namespace lethe::worker
