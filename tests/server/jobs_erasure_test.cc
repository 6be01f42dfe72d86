// Training jobs and what is erased: tokens, memories, jobs, tenants; and failures on the way.
#include <sqlite3.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/job_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobsErasureTest, AResumedRunReadsTheSameTokens) {
  JobHarness service;
  service.MakeMemory("warming", 4096);
  service.Insert("warming", Spiral(600));
  service.Submit("warming");
  const LeaseName first = service.Lease();
  const auto before = service.Read(first);
  ASSERT_THAT(before, IsOk());
  ASSERT_EQ(before->size(), 600u);
  service.Insert("warming", Spiral(20, "b"));
  service.Pass(absl::Minutes(1));
  EXPECT_FALSE(service.TryLease().has_value());
  service.Pass(absl::Minutes(1));
  const auto after = service.Read(service.Lease());
  ASSERT_THAT(after, IsOk());
  ASSERT_EQ(after->size(), before->size());
  for (size_t i = 0; i < after->size(); ++i) EXPECT_EQ((*after)[i].key, (*before)[i].key);
}

TEST(JobsErasureTest, AnOpenJobThatReadAnErasedTokenStartsOver) {
  JobHarness service;
  service.Insert("m", Spiral(20));
  const std::string id = service.Submit();
  const LeaseName lease = service.Lease();
  ASSERT_THAT(service.Read(lease), IsOk());
  ASSERT_THAT(service.Checkpoint(lease, 5, "made from a7"), IsOk());
  ASSERT_EQ(service.Files(), 1u);
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  const JobInfo job = service.Job(id);
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.restarts, 1u);
  EXPECT_EQ(job.attempts, 0u);
  EXPECT_EQ(job.checkpoints, 0u);
  EXPECT_EQ(job.tokens, 0u);
  EXPECT_EQ(service.Files(), 0u) << "the checkpoint is gone";
  EXPECT_THAT(service.jobs().Heartbeat(lease, std::nullopt), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.Complete(lease, "made from a7"), Fails(kNotNow, "lease"));
  const LeaseName again = service.Lease();
  EXPECT_THAT(service.ReadCheckpoint(again), Fails(kNotFound, "checkpoint"));
  EXPECT_EQ(service.Read(again)->size(), 19u);
  ASSERT_THAT(service.Complete(again, "clean"), IsOk());
  // Nothing to say of it: what it was made from is there.
  for (const audit::CertificateBody& body : ErasureLog(service)) {
    EXPECT_THAT(body.exceptions, IsEmpty());
  }
  EXPECT_FALSE(service.Job(id).erased_since);
}

// The reading is between two pages when the erasure comes.
TEST(JobsErasureTest, AnErasureEndsAReadingThatIsUnderWay) {
  JobHarness service;
  service.MakeMemory("warming", 4096);
  service.Insert("warming", Spiral(600));
  service.Submit("warming");
  const LeaseName lease = service.Lease();
  size_t tokens = 0;
  bool erased = false;
  const absl::Status status = service->ReadTrainingTokens(
      lease, {}, [](uint64_t) { return absl::OkStatus(); },
      [&](std::vector<TrainingToken> page) {
        tokens += page.size();
        if (!std::exchange(erased, true)) service.Forget("warming", {"a599"});
        return absl::OkStatus();
      });
  EXPECT_THAT(status, Fails(kNotNow, "lease"));
  EXPECT_LT(tokens, 600u);
}

TEST(JobsErasureTest, ACertificateNamesTheArtefactsThatErasedTokensMade) {
  JobHarness service;
  service.MakeMemory("n");
  service.Insert("m", Spiral(10));
  service.Insert("n", Spiral(10));
  const std::string touched = service.Submit("m");
  service.Work("one");
  service.Submit("n");
  service.Work("of another memory");
  service.Insert("m", Spiral(3, "later"));
  EXPECT_EQ(service.Forget("m", {"later1"}).erased, 1u);
  EXPECT_FALSE(service.Job(touched).erased_since) << "it never read that one";
  ForgetInput input = ForgetOf("m", {"a3", "later2"});
  input.request_id = "r1";
  for (const bool replayed : {false, true}) {
    const auto reply = service->Forget(input, {});
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->replayed, replayed);
    EXPECT_THAT(reply->destruction->exceptions, ElementsAre(HasSubstr(touched)))
        << "the caller is told";
  }
  EXPECT_TRUE(service.Job(touched).erased_since);
  EXPECT_EQ(*service.Artefact(touched), "one") << "it is the tenant's to delete";
  service.Restart();
  EXPECT_TRUE(service.Job(touched).erased_since);
  EXPECT_EQ(service.Forget("m", {"a4"}).erased, 1u);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 3u);
  EXPECT_THAT(log[0].exceptions, IsEmpty());
  EXPECT_THAT(log[1].exceptions, ElementsAre(HasSubstr(touched)));
  EXPECT_THAT(log[2].exceptions, ElementsAre(HasSubstr(touched)));
  ASSERT_THAT(service->DeleteJob("t", touched), IsOk());
  EXPECT_EQ(service.Forget("m", {"a5"}).erased, 1u);
  EXPECT_THAT(ErasureLog(service).back().exceptions, IsEmpty());
}

TEST(JobsErasureTest, SoDoEvictionsEditsRequestsAndTheEndOfAMemory) {
  JobHarness service;
  std::vector<TokenInput> tokens = Spiral(12);
  tokens[2].subject = "subject-17";
  service.Insert("m", tokens);
  const std::string id = service.Submit("m");
  service.Work("one");
  const auto named_last = [&] {
    const std::vector<audit::CertificateBody> log = ErasureLog(service);
    return !log.empty() && log.back().exceptions.size() == 1 &&
           log.back().exceptions[0].find(id) != std::string::npos;
  };
  const auto edited = service->Edit(EditOf("m", {MakeToken("a1", 3.0, 4.0)}), {});
  ASSERT_THAT(edited, IsOk());
  EXPECT_THAT(edited->destruction->exceptions, ElementsAre(HasSubstr(id)));
  EXPECT_TRUE(named_last());
  ErasureRequestInput request{.tenant = "t"};
  request.identities = {{.type = "id", .value = "subject-17"}};
  ASSERT_THAT(service->CreateErasureRequest(request, {}), IsOk());
  service->RunDueErasures();
  EXPECT_TRUE(named_last());
  const auto evicted = service->Evict(EvictOf("m", 9), {});
  ASSERT_THAT(evicted, IsOk());
  EXPECT_THAT(evicted->destruction->exceptions, ElementsAre(HasSubstr(id)));
  EXPECT_TRUE(named_last());
  const auto deleted = service->DeleteMemory("t", "m", {});
  ASSERT_THAT(deleted, IsOk());
  EXPECT_THAT(deleted->destruction->exceptions, ElementsAre(HasSubstr(id)));
  EXPECT_TRUE(named_last());
  EXPECT_EQ(*service.Artefact(id), "one");
}

TEST(JobsErasureTest, ManyArtefactsAreNamedAndCounted) {
  JobHarness service;
  service.Insert("m", Spiral(5));
  for (int i = 0; i < 66; ++i) {
    service.Submit();
    service.Work("x");
  }
  EXPECT_EQ(service.Forget("m", {"a0"}).erased, 1u);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.back().exceptions.size(), audit::kMaxExceptions);
  EXPECT_THAT(log.back().exceptions.back(), HasSubstr("3 more artefacts"));
}

// What a worker said of a try that read tokens goes with any of them.
TEST(JobsErasureTest, MessagesOfWorkersGoWithWhatTheyMayBeOf) {
  JobHarness service;
  service.MakeMemory("n");
  service.Insert("m", Spiral(10));
  service.Insert("n", Spiral(3));
  const auto fail = [&](const std::string& memory, WorkerEnd end) {
    const std::string id = service.Submit(memory);
    const LeaseName lease = service.Lease();
    EXPECT_THAT(service.Read(lease), IsOk());
    EXPECT_THAT(service.jobs().Fail({.lease = lease, .end = end, .message = "of a3"}), IsOk());
    return id;
  };
  const std::string failed = fail("m", WorkerEnd::kFinal);
  const std::string queued = fail("m", WorkerEnd::kRetry);
  const std::string other = fail("n", WorkerEnd::kFinal);
  EXPECT_EQ(service.Forget("m", {"a3"}).erased, 1u);
  EXPECT_EQ(service.Job(failed).failure_message, "");
  EXPECT_EQ(service.Job(failed).failure, JobFailure::kBadInput) << "what became of it stays";
  EXPECT_EQ(service.Job(queued).failure_message, "");
  EXPECT_EQ(service.Job(other).failure_message, "of a3");
}

// What a job has read cannot be read: it counts as having read what is erased.
TEST(JobsErasureTest, ADamagedSnapshotCountsAsHolding) {
  JobHarness service;
  service.Insert("m", Spiral(10));
  const std::string done = service.Submit();
  service.Work("one");
  const std::string open = service.Submit();
  ASSERT_THAT(service.Read(service.Lease()), IsOk());
  service.Insert("m", Spiral(1, "later"));
  service.Stop();
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open((service.data() + "/jobs/jobs.db").c_str(), &file), SQLITE_OK);
  // The last of the tokens that are there, so that the ranges do not exclude it.
  EXPECT_EQ(sqlite3_exec(file,
                         "UPDATE jobs SET snapshot = x'80', last_handle = last_handle + 1"
                         " WHERE snapshot IS NOT NULL",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(file);
  service.Restart();
  EXPECT_EQ(service.Forget("m", {"later0"}).erased, 1u);
  EXPECT_EQ(service.Job(open).restarts, 1u);
  EXPECT_TRUE(service.Job(done).erased_since);
  EXPECT_THAT(ErasureLog(service).back().exceptions,
              ElementsAre(::testing::AllOf(HasSubstr(done), HasSubstr("may have been"))));
}

TEST(JobsErasureTest, AJobWhoseMemoryIsGoneSaysSo) {
  JobHarness service;
  service.MakeMemory("gone");
  const std::string id = service.Submit("gone");
  ASSERT_THAT(service->DeleteMemory("t", "gone", {}), IsOk());
  service.MakeMemory("gone");
  service.Insert("gone", Spiral(3));
  EXPECT_THAT(service.Read(service.Lease()), Fails(kNotNow, "lease"));
  EXPECT_EQ(service.Job(id).state, JobState::kFailed);
  EXPECT_EQ(service.Job(id).failure, JobFailure::kMemoryGone);
}

TEST(JobsErasureTest, ADeletedJobIsGone) {
  JobHarness service;
  service.Insert("m", Spiral(5));
  const std::string id = service.Submit();
  EXPECT_THAT(service->DeleteJob("t", id), Fails(kNotNow, "job"));
  service.Work("artefact");
  ASSERT_EQ(service.Files(), 1u);
  ASSERT_THAT(service->DeleteJob("t", id), IsOk());
  EXPECT_EQ(service.Files(), 0u);
  EXPECT_THAT(service->DeleteJob("t", id), Fails(kNotFound, "job"));
  EXPECT_THAT(service.Artefact(id), Fails(kNotFound, "job"));
  service.Restart();
  EXPECT_TRUE(service->ListJobs("t", std::nullopt, {})->items.empty());
}

TEST(JobsErasureTest, ATenantThatIsDeletedTakesItsJobsWithIt) {
  JobHarness service;
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  ASSERT_THAT(service->CreateMemory("u", "m", SmallConfig(), {}), IsOk());
  const auto other =
      service->SubmitJob({.tenant = "u", .memory = "m", .config = CalibrateConfig()}, {});
  ASSERT_THAT(other, IsOk());
  service.Insert("m", Spiral(5));
  const std::string done = service.Submit();
  const std::string open = service.Submit();
  const LeaseName lease_of_other = service.Lease();
  ASSERT_THAT(service.Complete(lease_of_other, "one"), IsOk());
  std::optional<LeaseOffer> running;
  while ((running = service.TryLease()).has_value() && running->job.tenant != "t") {
  }
  ASSERT_TRUE(running.has_value());
  ASSERT_THAT(service.Checkpoint(running->lease, 1, "state"), IsOk());
  ASSERT_EQ(service.Files(), 2u);
  ASSERT_THAT(service->DeleteTenant("t", {}), IsOk());
  EXPECT_EQ(service.Files(), 1u) << "that of the other tenant";
  EXPECT_THAT(service.jobs().Heartbeat(running->lease, std::nullopt), Fails(kNotNow, "lease"));
  EXPECT_THAT(service->GetJob("t", done), Fails(kNotFound, "tenant"));
  ASSERT_THAT(service->CreateTenant("t", {}), IsOk());
  EXPECT_THAT(service->GetJob("t", done), Fails(kNotFound, "job"));
  EXPECT_THAT(service->GetJob("t", open), Fails(kNotFound, "job"));
  EXPECT_THAT(service->GetJob("u", other->id), IsOk());
  service.Restart();
  EXPECT_THAT(service->GetJob("u", other->id), IsOk());
  EXPECT_TRUE(service->ListJobs("t", std::nullopt, {})->items.empty());
}

TEST(JobsErasureTest, AnInterruptedEndOfATenantEndsItsJobsToo) {
  JobHarness service;
  service.Insert("m", Spiral(5));
  service.Submit();
  service.Work("artefact");
  FailOnce(service, "DestroyAllKeys", absl::UnavailableError("not now"));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(absl::StatusCode::kUnavailable));
  service.Restart();
  EXPECT_EQ(service.Files(), 0u);
  EXPECT_EQ(service->jobs().Counts().jobs, (std::array<uint64_t, kJobStates>{}));
}

// A copy of jobs.db that is put back does not bring a job to life whose key is destroyed.
TEST(JobsErasureTest, AnOlderFileOfJobsResurrectsNothing) {
  JobHarness service;
  service.Insert("m", Spiral(5));
  const std::string gone = service.Submit();
  service.Work("artefact");
  const std::string kept = service.Submit();
  service.Stop();
  const std::string file = service.data() + "/jobs/jobs.db";
  std::filesystem::copy_file(file, service.data() + "/copy");
  service.Restart();
  ASSERT_THAT(service->DeleteJob("t", gone), IsOk());
  service.Stop();
  std::filesystem::rename(service.data() + "/copy", file);
  service.Restart();
  EXPECT_THAT(service->GetJob("t", gone), Fails(kNotFound, "job"));
  EXPECT_EQ(service.Job(kept).state, JobState::kQueued);
}

}  // namespace
}  // namespace lethe::service
