// Training jobs: their states, leases, checkpoints, what a restart keeps, what is refused.
#include <barrier>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/job_testing.h"

namespace lethe::service {
namespace {

using ::testing::HasSubstr;

TEST(JobsTest, AJobGoesFromTheQueueToItsArtefact) {
  JobHarness service;
  service.Insert("m", Spiral(7));
  const std::string id = service.Submit();
  EXPECT_EQ(service.Job(id).state, JobState::kQueued);
  const std::optional<LeaseOffer> offer = service.TryLease("w-1");
  ASSERT_TRUE(offer.has_value());
  EXPECT_EQ(offer->job.id, id);
  EXPECT_EQ(offer->job.tenant, "t");
  EXPECT_EQ(offer->memory.key_dimension, 2u);
  EXPECT_EQ(offer->checkpoint_bytes, 0u);
  EXPECT_EQ(std::get<TrainEncoderConfig>(offer->job.config).steps, 10u);
  EXPECT_EQ(service.Job(id).state, JobState::kLeased);
  EXPECT_FALSE(service.TryLease().has_value()) << "one worker a job";
  const auto beat = service.jobs().Heartbeat(
      offer->lease, JobProgress{.step = 3, .steps = 10, .loss = 0.5, .tokens_per_second = 9.0});
  ASSERT_THAT(beat, IsOk());
  EXPECT_FALSE(beat->cancel);
  EXPECT_EQ(service.Job(id).state, JobState::kRunning);
  EXPECT_EQ(service.Job(id).progress.step, 3u);
  const auto tokens = service.Read(offer->lease);
  ASSERT_THAT(tokens, IsOk());
  EXPECT_EQ(tokens->size(), 7u);
  EXPECT_EQ(service.Job(id).tokens, 7u);
  const std::string artefact = std::string(2'500'000, 'a') + "end";
  ASSERT_THAT(service.Complete(offer->lease, artefact), IsOk());
  const JobInfo job = service.Job(id);
  EXPECT_EQ(job.state, JobState::kSucceeded);
  ASSERT_TRUE(job.artefact.has_value());
  EXPECT_EQ(job.artefact->bytes, artefact.size());
  EXPECT_THAT(job.artefact->manifest, HasSubstr("no deletion certificate"));
  EXPECT_THAT(job.artefact->manifest, HasSubstr("\"backend\": \"cpu\""));
  EXPECT_THAT(job.artefact->manifest, HasSubstr(job.artefact->sha256));
  EXPECT_EQ(*service.Artefact(id), artefact);
  EXPECT_FALSE(FilesHold(service, std::string(64, 'a'))) << "it is sealed";
  service.Restart();
  EXPECT_EQ(service.Job(id).state, JobState::kSucceeded);
  EXPECT_EQ(service.Job(id).artefact->manifest, job.artefact->manifest);
  EXPECT_EQ(*service.Artefact(id), artefact);
}

TEST(JobsTest, WhatIsBadIsNamed) {
  JobHarness service;
  const auto submit = [&](JobConfig config) {
    return service->SubmitJob({.tenant = "t", .memory = "m", .config = std::move(config)}, {});
  };
  EXPECT_THAT(service->SubmitJob({.tenant = "t", .memory = "m"}, {}), Fails(kInvalid, "config"));
  EXPECT_THAT(submit(TrainEncoderConfig{.steps = 0}), Fails(kInvalid, "train_encoder.steps"));
  EXPECT_THAT(submit(TrainEncoderConfig{.box = 0.125, .memory_tokens = 8}),
              Fails(kInvalid, "train_encoder.box"));
  EXPECT_THAT(submit(TrainLmConfig{.width = 10, .heads = 3}), Fails(kInvalid, "train_lm.heads"));
  EXPECT_THAT(submit(TrainLmConfig{.learning_rate = std::nan("")}),
              Fails(kInvalid, "train_lm.learning_rate"));
  EXPECT_THAT(submit(TrainLmConfig{.block = 1024, .chunk = 64}), Fails(kInvalid, "train_lm.chunk"));
  EXPECT_THAT(submit(TrainLmConfig{.layers = 8, .width = 1024}), Fails(kInvalid, "train_lm.width"))
      << "of a checkpoint above what a file may have";
  EXPECT_THAT(submit(CalibrateConfig{.kernel = jobs::JobKernel::kDot}),
              Fails(kInvalid, "calibrate.kernel"));
  EXPECT_THAT(submit(CalibrateConfig{.boxes = {0.1}, .tokens = 10}),
              Fails(kInvalid, "calibrate.boxes"));
  EXPECT_THAT(submit(CalibrateConfig{.boxes = {}}), Fails(kInvalid, "calibrate.boxes"));
  EXPECT_THAT(submit(CalibrateConfig{.boxes = {0.1, 2.0}}), Fails(kInvalid, "calibrate.boxes[1]"));
  EXPECT_THAT(service.TrySubmit("none"), Fails(kNotFound, "memory"));
  EXPECT_THAT(
      service->SubmitJob({.tenant = "other", .memory = "m", .config = CalibrateConfig()}, {}),
      Fails(kNotFound, "tenant"));
  EXPECT_THAT(service->GetJob("t", "x"), Fails(kInvalid, "id"));
  EXPECT_THAT(service->GetJob("t", std::string(32, 'a')), Fails(kNotFound, "job"));
  EXPECT_THAT(service.jobs().Lease({.worker = "a b", .kinds = {}, .wait = {}}, {}),
              Fails(kInvalid, "worker"));
  EXPECT_THAT(service.jobs().Lease({.worker = "w", .kinds = {}, .wait = absl::Seconds(31)}, {}),
              Fails(kInvalid, "wait_seconds"));
  service.Submit();
  const LeaseName lease = service.Lease();
  EXPECT_THAT(service.jobs().Heartbeat(lease, JobProgress{.loss = std::nan("")}),
              Fails(kInvalid, "progress.loss"));
  for (const std::string& manifest :
       {std::string("[]"), std::string("{"), std::string(), std::string(20'000, ' ') + "{}",
        std::string(200, '[') + std::string(200, ']')}) {
    EXPECT_THAT(service.jobs().Complete(lease, manifest, std::nullopt, JobHarness::Pieces("a")),
                Fails(kInvalid, "manifest"));
  }
  EXPECT_THAT(service.Complete(lease, ""), Fails(kInvalid, "data"));
  EXPECT_THAT(service.Complete(lease, "a"), IsOk());
}

// Sixteen KiB that would be many times as long as they are kept; and some that would not.
TEST(JobsTest, AManifestThatGrowsIsRefusedBeforeTheArtefactIsSent) {
  JobHarness service;
  const std::string id = service.Submit();
  const LeaseName lease = service.Lease();
  std::string numbers = R"({"a":[1e14)";
  while (numbers.size() < 15'000) numbers += ",1e14";
  int pieces = 0;
  const auto receive = [&]() -> absl::StatusOr<std::optional<std::string>> {
    if (++pieces > 1) return std::nullopt;
    return std::string("artefact");
  };
  EXPECT_THAT(service.jobs().Complete(lease, numbers + "]}", std::nullopt, receive),
              Fails(kInvalid, "manifest"));
  EXPECT_EQ(pieces, 0);
  std::string text = R"({"a":")";
  while (text.size() < 16'000) text += "\u00e4";
  EXPECT_THAT(service.jobs().Complete(lease, text + "\"}", std::nullopt, receive), IsOk());
  EXPECT_THAT(service.Job(id).artefact->manifest, HasSubstr("\u00e4\u00e4"));
}

TEST(JobsTest, WhatAWorkerWroteIsSealed) {
  JobHarness service;
  const auto fail = [&](WorkerEnd end) {
    const LeaseName lease = service.Lease();
    EXPECT_THAT(service.Checkpoint(lease, 1, "state"), IsOk());
    EXPECT_THAT(service.jobs().Fail({.lease = lease, .end = end, .message = "words of a worker"}),
                IsOk());
  };
  const std::string retried = service.Submit();
  fail(WorkerEnd::kRetry);
  service.Pass(absl::Minutes(1));
  EXPECT_EQ(service.Job(retried).failure_message, "words of a worker");
  service.Restart();
  EXPECT_EQ(service.Job(retried).failure_message, "words of a worker");
  fail(WorkerEnd::kFinal);
  EXPECT_EQ(service.Job(retried).failure_message, "words of a worker") << "under another key";
  const std::string done = service.Submit();
  ASSERT_THAT(service.jobs().Complete(service.Lease(), R"({"note":"words of a worker"})",
                                      std::nullopt, JobHarness::Pieces("a")),
              IsOk());
  service.Restart();
  EXPECT_EQ(service.Job(retried).failure_message, "words of a worker");
  EXPECT_THAT(service.Job(done).artefact->manifest, HasSubstr("words of a worker"));
  EXPECT_FALSE(FilesHold(service, "words of a worker"));
}

TEST(JobsTest, UploadsAreBounded) {
  JobHarness service;
  service.options().jobs.max_uploads = 2;
  service.options().jobs.max_tenant_bytes = 2'000'000;
  service.Restart();
  for (int i = 0; i < 3; ++i) service.Submit();
  const LeaseName first = service.Lease();
  const LeaseName second = service.Lease();
  const LeaseName third = service.Lease();
  const auto put = [&](const LeaseName& lease, JobHarness::Pieces pieces) {
    return service.jobs().PutCheckpoint(lease, {.step = 1}, pieces).status();
  };
  // Each is sent while the one before is half done.
  int pieces = 0, inner_pieces = 0;
  const auto inner = [&]() -> absl::StatusOr<std::optional<std::string>> {
    if (++inner_pieces == 2) {
      EXPECT_THAT(put(third, JobHarness::Pieces("x")),
                  HasCode(absl::StatusCode::kResourceExhausted));
      EXPECT_THAT(put(second, JobHarness::Pieces("x")), Fails(kNotNow, "data"));
    }
    if (inner_pieces == 4) return std::nullopt;
    return std::string(600'000, 'x');
  };
  const auto outer = [&]() -> absl::StatusOr<std::optional<std::string>> {
    if (++pieces == 2) {
      EXPECT_THAT(service.jobs().PutCheckpoint(second, {.step = 1}, inner),
                  Fails(absl::StatusCode::kResourceExhausted, "data"))
          << "what the other one has sent counts too";
    }
    if (pieces == 3) return std::nullopt;
    return std::string(600'000, 'x');
  };
  EXPECT_THAT(service.jobs().PutCheckpoint(first, {.step = 1}, outer), IsOk());
  EXPECT_THAT(put(third, JobHarness::Pieces("x")), IsOk());
  EXPECT_THAT(put(second, JobHarness::Pieces("x")), IsOk());
  EXPECT_EQ(service.Files(), 3u);
  EXPECT_TRUE(std::filesystem::is_empty(service.data() + "/temporary"));
}

// The lease ends with the last piece, when the file is in its place and its row is not.
TEST(JobsTest, AFileThatCameTooLateIsRemoved) {
  JobHarness service;
  service.Submit();
  const LeaseName lease = service.Lease();
  int pieces = 0;
  const auto receive = [&]() -> absl::StatusOr<std::optional<std::string>> {
    if (++pieces == 1) return std::string("late");
    service.Pass(absl::Seconds(31));
    return std::nullopt;
  };
  EXPECT_THAT(service.jobs().PutCheckpoint(lease, {.step = 1}, receive), Fails(kNotNow, "lease"));
  EXPECT_EQ(service.Files(), 0u);
}

TEST(JobsTest, CountsSayWhatAnOperatorAsks) {
  JobHarness service;
  service.Submit();
  service.Pass(absl::Seconds(90));
  EXPECT_EQ(service.jobs().Counts().oldest_queued_seconds, 90.0);
  EXPECT_THAT(service.jobs().Fail({.lease = service.Lease(), .end = WorkerEnd::kFinal}), IsOk());
  service.Submit();
  for (int i = 0; i < 5; ++i) {
    service.Lease();
    service.Pass(absl::Seconds(31));
    service.jobs().Counts();
    service.Pass(absl::Minutes(10));
  }
  const JobCounts counts = service.jobs().Counts();
  EXPECT_EQ(counts.failed[static_cast<size_t>(JobFailure::kBadInput) - 1], 1u);
  EXPECT_EQ(counts.failed[static_cast<size_t>(JobFailure::kWorkerLost) - 1], 1u);
  EXPECT_EQ(counts.leases_lost, 5u);
  EXPECT_EQ(counts.oldest_queued_seconds, 0.0);
  EXPECT_TRUE(counts.usable);
  EXPECT_EQ(counts.erasures_untold, 0u);
}

TEST(JobsTest, ARequestIdMakesOneJob) {
  JobHarness service;
  const auto first = service.TrySubmit("m", "r1");
  ASSERT_THAT(first, IsOk());
  service.Restart();
  const auto again = service.TrySubmit("m", "r1");
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->id, first->id);
  service.MakeMemory("n");
  EXPECT_THAT(service.TrySubmit("n", "r1"), Fails(kExists, "request_id"));
}

TEST(JobsTest, AnotherTenantSeesNothing) {
  JobHarness service;
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  const std::string id = service.Submit();
  EXPECT_THAT(service->GetJob("u", id), Fails(kNotFound, "job"));
  EXPECT_THAT(service->CancelJob("u", id), Fails(kNotFound, "job"));
  EXPECT_THAT(service->DeleteJob("u", id), Fails(kNotFound, "job"));
  EXPECT_TRUE(service->ListJobs("u", std::nullopt, {})->items.empty());
  EXPECT_EQ(service->ListJobs("t", std::nullopt, {})->items.size(), 1u);
}

TEST(JobsTest, ListsAreInTheOrderOfArrivalPageByPageAndByState) {
  JobHarness service;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(service.Submit());
  ASSERT_THAT(service->CancelJob("t", ids[1]), IsOk());
  std::vector<std::string> seen;
  PageRequest page{.size = 2};
  do {
    const auto reply = service->ListJobs("t", std::nullopt, page);
    ASSERT_THAT(reply, IsOk());
    EXPECT_LE(reply->items.size(), 2u);
    for (const JobInfo& job : reply->items) seen.push_back(job.id);
    page.token = reply->next_page_token;
  } while (!page.token.empty());
  EXPECT_EQ(seen, ids);
  EXPECT_EQ(service->ListJobs("t", JobState::kCancelled, {})->items.size(), 1u);
  EXPECT_THAT(service->ListJobs("t", JobState::kQueued, {.size = 2, .token = "AAAA"}),
              Fails(kInvalid, "page_token"));
}

TEST(JobsTest, AStalledWorkersLateWritesAreRefused) {
  JobHarness service;
  service.Insert("m", Spiral(5));
  const std::string id = service.Submit();
  const LeaseName stalled = service.Lease("slow");
  ASSERT_THAT(service.Checkpoint(stalled, 4, "of the slow one"), IsOk());
  service.Pass(absl::Seconds(31));
  EXPECT_EQ(service.Job(id).state, JobState::kQueued);
  service.Pass(absl::Minutes(1));
  const LeaseName fresh = service.Lease("fast");
  EXPECT_EQ(*service.ReadCheckpoint(fresh), "of the slow one");
  const JobInfo before = service.Job(id);
  EXPECT_THAT(service.jobs().Heartbeat(stalled, std::nullopt), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.Checkpoint(stalled, 9, "late"), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.Complete(stalled, "late"), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.Read(stalled), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.ReadCheckpoint(stalled), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.jobs().Fail({.lease = stalled}), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.jobs().Heartbeat({.job = id, .token = ""}, std::nullopt),
              Fails(kNotNow, "lease"));
  EXPECT_EQ(service.Job(id).checkpoints, before.checkpoints);
  EXPECT_EQ(service.Files(), 1u);
  ASSERT_THAT(service.Complete(fresh, "good"), IsOk());
  EXPECT_THAT(service.Complete(stalled, "late"), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.Complete(fresh, "again"), Fails(kNotNow, "lease"));
  EXPECT_EQ(*service.Artefact(id), "good");
}

// The lease passes to another worker while the file of the first one is under way.
TEST(JobsTest, ALeaseThatEndsDuringAnUploadLeavesNothing) {
  JobHarness service;
  const std::string id = service.Submit();
  const LeaseName slow = service.Lease();
  int pieces = 0;
  const auto receive = [&]() -> absl::StatusOr<std::optional<std::string>> {
    if (++pieces == 3) {
      service.Pass(absl::Minutes(2));
      EXPECT_THAT(service->GetJob("t", id), IsOk());
      service.Pass(absl::Minutes(2));
      service.Lease("other");
    }
    if (pieces > 5) return std::nullopt;
    return std::string(700'000, 'x');
  };
  EXPECT_THAT(service.jobs().PutCheckpoint(slow, {.step = 1}, receive), Fails(kNotNow, "lease"));
  EXPECT_EQ(service.Job(id).checkpoints, 0u);
  EXPECT_EQ(service.Files(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(service.data() + "/temporary"));
}

TEST(JobsTest, PiecesThatComeKeepALeaseAlive) {
  JobHarness service;
  service.Submit();
  const LeaseName lease = service.Lease();
  int pieces = 0;
  const auto receive = [&]() -> absl::StatusOr<std::optional<std::string>> {
    service.Pass(absl::Seconds(20));
    if (++pieces > 5) return std::nullopt;
    return std::string("piece");
  };
  EXPECT_THAT(service.jobs().PutCheckpoint(lease, {.step = 1}, receive), IsOk());
}

TEST(JobsTest, AttemptsWithoutACheckpointAreBoundedAndPausesGrow) {
  JobHarness service;
  const std::string id = service.Submit();
  absl::Duration last = absl::ZeroDuration();
  for (int attempt = 1; attempt <= 5; ++attempt) {
    const LeaseName lease = service.Lease();
    EXPECT_EQ(service.Job(id).attempts, static_cast<uint32_t>(attempt));
    service.Pass(absl::Seconds(31));
    if (attempt == 5) break;
    EXPECT_EQ(service.Job(id).state, JobState::kQueued);
    EXPECT_FALSE(service.TryLease().has_value()) << "not before its pause is over";
    absl::Duration pause = absl::ZeroDuration();
    while (service.Job(id).state == JobState::kQueued && pause < absl::Minutes(10)) {
      absl::Time next;
      std::string error;
      ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, service.Job(id).next_time, &next, &error));
      pause = next - service.options().tenant.now();
      break;
    }
    EXPECT_GT(pause, last);
    last = pause;
    service.Pass(pause);
  }
  const JobInfo job = service.Job(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.failure, JobFailure::kWorkerLost);
  EXPECT_THAT(job.failure_message, HasSubstr("5 attempts"));
  EXPECT_FALSE(service.TryLease().has_value());
}

TEST(JobsTest, AJobThatMakesCheckpointsIsNotGivenUp) {
  JobHarness service;
  const std::string id = service.Submit();
  for (uint64_t step = 1; step <= 20; ++step) {
    const LeaseName lease = service.Lease(absl::StrCat("w", step));
    if (step > 1) {
      EXPECT_EQ(*service.ReadCheckpoint(lease), absl::StrCat("state ", step - 1));
    }
    ASSERT_THAT(service.Checkpoint(lease, step, absl::StrCat("state ", step)), IsOk());
    service.Pass(absl::Minutes(1));
    service.Job(id);
    service.Pass(absl::Minutes(1));
  }
  ASSERT_THAT(service.Complete(service.Lease(), "done"), IsOk());
  EXPECT_EQ(service.Job(id).leases, 21u);
  EXPECT_EQ(service.Files(), 1u) << "checkpoints go with the end";
}

// A step that was there before is no progress.
TEST(JobsTest, TheSameCheckpointAgainDoesNotCount) {
  JobHarness service;
  const std::string id = service.Submit();
  int leases = 0;
  while (service.Job(id).state != JobState::kFailed && leases < 20) {
    const std::optional<LeaseOffer> offer = service.TryLease();
    if (offer.has_value()) {
      ++leases;
      ASSERT_THAT(service.Checkpoint(offer->lease, 3, "same"), IsOk());
    }
    service.Pass(absl::Minutes(1));
  }
  EXPECT_EQ(leases, 6) << "the first is progress, five more are not";
}

TEST(JobsTest, WhatAWorkerSaysOfItsFailureDecides) {
  JobHarness service;
  const std::string id = service.Submit();
  const auto fail = [&](WorkerEnd end, const std::string& message) {
    const auto job = service.jobs().Fail({.lease = service.Lease(),
                                          .end = end,
                                          .message = message,
                                          .progress = JobProgress{.step = 2, .steps = 10}});
    EXPECT_THAT(job, IsOk());
    return *job;
  };
  JobInfo job = fail(WorkerEnd::kRetry, "out of memory; give the worker more");
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.attempts, 1u);
  EXPECT_EQ(job.failure_message, "out of memory; give the worker more");
  EXPECT_EQ(job.progress.step, 2u);
  service.Pass(absl::Minutes(1));
  job = fail(WorkerEnd::kStopping, "");
  EXPECT_EQ(job.attempts, 1u) << "a stop in order costs none";
  job = fail(WorkerEnd::kFinal, "fewer tokens than problem_size");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.failure, JobFailure::kBadInput);
  service.Submit();
  const LeaseName lease = service.Lease();
  EXPECT_THAT(service.jobs().Fail({.lease = lease, .end = WorkerEnd::kCancelled}),
              Fails(kInvalid, "end"));
  EXPECT_THAT(service.jobs().Fail({.lease = lease, .message = "a\nb"}), Fails(kInvalid, "message"));
}

TEST(JobsTest, ACancellationComesWithTheNextHeartbeat) {
  JobHarness service;
  const std::string queued = service.Submit();
  ASSERT_EQ(service->CancelJob("t", queued)->state, JobState::kCancelled);
  const std::string id = service.Submit();
  const LeaseName lease = service.Lease();
  ASSERT_THAT(service.Checkpoint(lease, 1, "state"), IsOk());
  const auto job = service->CancelJob("t", id);
  ASSERT_THAT(job, IsOk());
  EXPECT_TRUE(job->cancel_requested);
  EXPECT_FALSE(HasEnded(job->state));
  EXPECT_TRUE(service.jobs().Heartbeat(lease, std::nullopt)->cancel);
  service.Restart();
  EXPECT_TRUE(service.jobs().Heartbeat(lease, std::nullopt)->cancel) << "it is durable";
  ASSERT_THAT(service.jobs().Fail({.lease = lease, .end = WorkerEnd::kCancelled}), IsOk());
  EXPECT_EQ(service.Job(id).state, JobState::kCancelled);
  EXPECT_EQ(service.Files(), 0u);
  EXPECT_EQ(service->CancelJob("t", id)->state, JobState::kCancelled);
  // A worker that says nothing more, and one that finishes all the same.
  const std::string silent = service.Submit();
  service.Lease();
  ASSERT_THAT(service->CancelJob("t", silent), IsOk());
  service.Pass(absl::Seconds(31));
  EXPECT_EQ(service.Job(silent).state, JobState::kCancelled);
  const std::string late = service.Submit();
  const LeaseName finishing = service.Lease();
  ASSERT_THAT(service->CancelJob("t", late), IsOk());
  EXPECT_THAT(service.Complete(finishing, "artefact"), Fails(kNotNow, "lease"));
  EXPECT_EQ(service.Job(late).state, JobState::kCancelled);
  EXPECT_THAT(service.Artefact(late), Fails(kNotNow, "job"));
  EXPECT_EQ(service.Files(), 0u);
}

TEST(JobsTest, TwoWorkersNeverGetTheSameJob) {
  JobHarness service;
  constexpr int kJobs = 30;
  for (int i = 0; i < kJobs; ++i) service.Submit();
  std::barrier start(3);
  std::vector<std::string> got[3];
  std::vector<std::thread> workers;
  for (int w = 0; w < 3; ++w) {
    workers.emplace_back([&, w] {
      start.arrive_and_wait();
      while (const auto offer = service.TryLease(absl::StrCat("w", w))) {
        got[w].push_back(offer->lease.job);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::set<std::string> distinct;
  size_t total = 0;
  for (const auto& jobs : got) {
    distinct.insert(jobs.begin(), jobs.end());
    total += jobs.size();
  }
  EXPECT_EQ(total, size_t{kJobs});
  EXPECT_EQ(distinct.size(), size_t{kJobs});
}

TEST(JobsTest, AWaitingWorkerGetsTheJobThatComes) {
  JobHarness service;
  absl::StatusOr<std::optional<LeaseOffer>> offer = std::nullopt;
  std::thread worker([&] {
    offer = service.jobs().Lease({.worker = "w", .kinds = {}, .wait = absl::Seconds(30)}, {});
  });
  const std::string id = service.Submit();
  worker.join();
  ASSERT_THAT(offer, IsOk());
  ASSERT_TRUE(offer->has_value());
  EXPECT_EQ((*offer)->lease.job, id);
}

TEST(JobsTest, AStopSendsWaitersAway) {
  JobHarness service;
  const std::string id = service.Submit();
  service.Lease();
  absl::Status waited, watched;
  std::barrier seen(2);
  std::thread worker([&] {
    waited =
        service.jobs().Lease({.worker = "w", .kinds = {}, .wait = absl::Seconds(30)}, {}).status();
  });
  std::thread watcher([&] {
    bool first = true;
    watched = service->WatchJob("t", id, {}, [&](const JobInfo&) {
      if (std::exchange(first, false)) seen.arrive_and_wait();
      return absl::OkStatus();
    });
  });
  seen.arrive_and_wait();
  service.jobs().Stop();
  worker.join();
  watcher.join();
  EXPECT_THAT(waited, HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(watched, HasCode(absl::StatusCode::kUnavailable));
}

TEST(JobsTest, AWatchTellsOfTheEnd) {
  JobHarness service;
  const std::string id = service.Submit();
  const LeaseName lease = service.Lease();
  std::vector<JobInfo> seen;
  std::barrier begun(2);
  std::thread watcher([&] {
    EXPECT_THAT(service->WatchJob("t", id, {},
                                  [&](const JobInfo& job) {
                                    seen.push_back(job);
                                    if (seen.size() == 1) begun.arrive_and_wait();
                                    return absl::OkStatus();
                                  }),
                IsOk());
  });
  begun.arrive_and_wait();
  ASSERT_THAT(service.jobs().Heartbeat(lease, JobProgress{.step = 5, .steps = 10}), IsOk());
  ASSERT_THAT(service.Complete(lease, "a"), IsOk());
  watcher.join();
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.front().state, JobState::kLeased);
  EXPECT_EQ(seen.back().state, JobState::kSucceeded);
  EXPECT_THAT(service->WatchJob("t", std::string(32, 'b'), {},
                                [](const JobInfo&) { return absl::OkStatus(); }),
              Fails(kNotFound, "job"));
}

TEST(JobsTest, ARestartKeepsLeasesAndCheckpoints) {
  JobHarness service;
  service.Insert("m", Spiral(5));
  const std::string id = service.Submit();
  const LeaseName lease = service.Lease();
  ASSERT_THAT(service.Read(lease), IsOk());
  const std::string state = std::string(1 << 20, 's') + std::string(1 << 20, 't');
  ASSERT_THAT(service.Checkpoint(lease, 1, "first"), IsOk());
  ASSERT_THAT(service.Checkpoint(lease, 2, state), IsOk());
  service.Restart();
  EXPECT_EQ(*service.ReadCheckpoint(lease), state);
  EXPECT_EQ(service.Job(id).progress.step, 2u);
  EXPECT_EQ(service.Job(id).tokens, 5u);
  ASSERT_THAT(service.Complete(lease, "done"), IsOk());
  EXPECT_EQ(service.Job(id).state, JobState::kSucceeded);
}

TEST(JobsTest, ATornCheckpointIsPassedOver) {
  JobHarness service;
  const std::string id = service.Submit();
  const LeaseName lease = service.Lease();
  ASSERT_THAT(service.Checkpoint(lease, 1, "first"), IsOk());
  ASSERT_THAT(service.Checkpoint(lease, 2, "second"), IsOk());
  std::filesystem::resize_file(absl::StrCat(service.data(), "/jobs/files/", id, "-2"), 10);
  EXPECT_EQ(*service.ReadCheckpoint(lease), "first");
  ASSERT_THAT(service.Checkpoint(lease, 3, "third"), IsOk());
  {
    std::fstream file(absl::StrCat(service.data(), "/jobs/files/", id, "-3"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(14);
    file.put('?');
  }
  EXPECT_EQ(*service.ReadCheckpoint(lease), "first");
  std::filesystem::remove(absl::StrCat(service.data(), "/jobs/files/", id, "-1"));
  EXPECT_THAT(service.ReadCheckpoint(lease), Fails(kNotFound, "checkpoint"));
}

TEST(JobsTest, TheQuotaCountsJobsThatHaveNotEnded) {
  JobHarness service;
  service.options().quotas.defaults[Quota::kJobs] = 2;
  service.Restart();
  const std::string id = service.Submit();
  service.Submit();
  const auto third = service.TrySubmit();
  EXPECT_THAT(third, HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("quota jobs: "));
  ASSERT_THAT(service->CancelJob("t", id), IsOk());
  EXPECT_THAT(service.TrySubmit(), IsOk());
}

TEST(JobsTest, FilesAreBounded) {
  JobHarness service;
  service.options().jobs.max_file_bytes = 70'000;
  service.options().jobs.max_tenant_bytes = 100'000;
  service.Restart();
  service.Submit();
  const LeaseName lease = service.Lease();
  EXPECT_THAT(service.Checkpoint(lease, 1, std::string(70'001, 'x')),
              Fails(absl::StatusCode::kResourceExhausted, "data"));
  EXPECT_THAT(service.Checkpoint(lease, 1, std::string(70'000, 'x')), IsOk());
  EXPECT_THAT(service.Checkpoint(lease, 2, std::string(30'001, 'x')),
              Fails(absl::StatusCode::kResourceExhausted, "data"));
  EXPECT_THAT(service.Checkpoint(lease, 2, std::string(30'000, 'x')), IsOk());
  // What could not save a checkpoint is refused before anybody trains it.
  JobInput input{.tenant = "t", .memory = "m", .config = TrainLmConfig()};
  EXPECT_THAT(service->SubmitJob(input, {}),
              Fails(absl::StatusCode::kInvalidArgument, "train_lm.width"));
  service.options().jobs.max_file_bytes = uint64_t{256} << 20;
  service.Restart();
  EXPECT_THAT(service->SubmitJob(input, {}), IsOk());
}

// Tenants take turns, whatever one of them has queued.
TEST(JobsTest, ATenantWithManyJobsKeepsNobodyWaiting) {
  JobHarness service;
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  ASSERT_THAT(service->CreateMemory("u", "m", SmallConfig(), {}), IsOk());
  for (int i = 0; i < 4; ++i) service.Submit();
  ASSERT_THAT(service->SubmitJob({.tenant = "u", .memory = "m", .config = CalibrateConfig()}, {}),
              IsOk());
  EXPECT_EQ(service.TryLease()->job.tenant, "t");
  EXPECT_EQ(service.TryLease()->job.tenant, "u");
  EXPECT_EQ(service.TryLease()->job.tenant, "t");
}

TEST(JobsTest, AWorkerCanAskForKinds) {
  JobHarness service;
  service.Submit();
  const auto offer = service.jobs().Lease(
      {.worker = "w", .kinds = {JobKind::kTrainLm, JobKind::kCalibrate}, .wait = {}}, {});
  ASSERT_THAT(offer, IsOk());
  EXPECT_FALSE(offer->has_value());
  EXPECT_TRUE(service.TryLease().has_value());
}

}  // namespace
}  // namespace lethe::service
