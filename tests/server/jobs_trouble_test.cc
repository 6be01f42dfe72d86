// Trouble with the file of jobs: erasures go on, and nothing of them is lost to the jobs.
#include <barrier>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/verify.h"
#include "audit/vkey.h"
#include "server/service/job_debts.h"
#include "store/vault/file_kms.h"
#include "store/vault/vault_folder.h"
#include "tests/server/job_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr absl::StatusCode kLater = absl::StatusCode::kUnavailable;

class TroubleHarness : public JobHarness {
 public:
  TroubleHarness() { Insert("m", Spiral(20)); }
  std::string database() const { return data() + "/jobs/jobs.db"; }
  std::string debts() const { return data() + "/jobs.owed"; }

  // An artefact that read everything, and an open job that has read it and left a checkpoint.
  void Prepare() {
    done_ = Submit();
    Work("artefact");
    open_ = Submit();
    lease_ = Lease();
    ASSERT_THAT(Read(lease_), IsOk());
    ASSERT_THAT(Checkpoint(lease_, 5, "made from a7"), IsOk());
  }
  // What the last erasure's certificate does not cover.
  std::vector<std::string> Exceptions() { return ErasureLog(*this).back().exceptions; }
  // Of the certificate that closes this tenant.
  std::vector<std::string> Close(const std::string& tenant) {
    const auto info = (*this)->GetTenant(tenant);
    EXPECT_THAT(info, IsOk());
    const auto key = audit::VerificationKey::Parse(info->verification_key);
    EXPECT_THAT(key, IsOk());
    const auto reply = (*this)->DeleteTenant(tenant, {});
    EXPECT_THAT(reply, IsOk());
    if (!reply.ok()) return {};
    const audit::CertificateResult closed =
        audit::VerifyCertificate(reply->envelope, std::nullopt, *key);
    EXPECT_TRUE(closed.ok()) << closed.message;
    return closed.body->exceptions;
  }
  // Stops, and puts rubbish in the place of jobs.db.
  void Break() {
    Stop();
    fs::rename(database(), data() + "/kept.db");
    std::ofstream(database()) << std::string(8192, 'x');
  }
  void Mend() {
    fs::rename(data() + "/kept.db", database());
    Pass(absl::Seconds(6));
  }
  void ExpectStartedOver() {
    const JobInfo job = Job(open_);
    EXPECT_EQ(job.state, JobState::kQueued);
    EXPECT_EQ(job.restarts, 1u);
    EXPECT_EQ(job.tokens, 0u);
    EXPECT_EQ(Files(), 1u) << "the artefact";
    EXPECT_TRUE(Job(done_).erased_since);
    EXPECT_FALSE(fs::exists(debts()));
  }

  std::string done_;
  std::string open_;
  LeaseName lease_;
};

TEST(JobsTroubleTest, ABrokenFileStopsNeitherTheServerNorErasures) {
  TroubleHarness service;
  service.Prepare();
  service.Break();
  service.Restart();
  EXPECT_THAT(service.TrySubmit(), HasCode(kLater));
  EXPECT_THAT(service->GetJob("t", service.open_), HasCode(kLater));
  EXPECT_THAT(service.jobs().Heartbeat(service.lease_, std::nullopt), HasCode(kLater));
  EXPECT_FALSE(service.jobs().Counts().usable);
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr("training artefacts are not known")));
  EXPECT_EQ(service.jobs().Counts().erasures_untold, 1u);
  ASSERT_TRUE(fs::exists(service.debts()));
  // What is owed outlives the process.
  service.Restart();
  EXPECT_THAT(service.jobs().Heartbeat(service.lease_, std::nullopt), HasCode(kLater));
  service.Stop();
  service.Mend();
  service.Restart();
  service.ExpectStartedOver();
  EXPECT_THAT(service.jobs().Heartbeat(service.lease_, std::nullopt), Fails(kNotNow, "lease"));
  EXPECT_TRUE(service.jobs().Counts().usable);
  EXPECT_EQ(service.Read(service.Lease())->size(), 19u);
}

TEST(JobsTroubleTest, AMessageThatMayBeOfAnErasedTokenGoesWithTheDebt) {
  TroubleHarness service;
  const std::string id = service.Submit();
  ASSERT_THAT(
      service.jobs().Fail({.lease = service.Lease(), .end = WorkerEnd::kFinal, .message = "of a7"}),
      IsOk());
  service.Break();
  service.Restart();
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  service.Mend();
  EXPECT_EQ(service.Job(id).failure, JobFailure::kBadInput);
  EXPECT_EQ(service.Job(id).failure_message, "");
}

// The server notices by itself that the file is there again, and looks no more often than it may.
TEST(JobsTroubleTest, AMendedFileIsTakenWithoutARestart) {
  TroubleHarness service;
  service.Prepare();
  service.Break();
  service.Restart();
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  fs::rename(service.data() + "/kept.db", service.database());
  EXPECT_THAT(service->GetJob("t", service.open_), HasCode(kLater)) << "not yet";
  service.Pass(absl::Seconds(6));
  service.ExpectStartedOver();
  EXPECT_EQ(service.Forget("m", {"a8"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr(service.done_)));
}

TEST(JobsTroubleTest, ATenantEndsThoughTheFileIsBroken) {
  TroubleHarness service;
  service.Prepare();
  service.Break();
  service.Restart();
  EXPECT_THAT(service.Close("t"), ElementsAre(HasSubstr("not shown to be destroyed")));
  service.Mend();
  EXPECT_EQ(service.jobs().Counts().jobs, (std::array<uint64_t, kJobStates>{}));
  EXPECT_EQ(service.Files(), 0u);
  EXPECT_FALSE(fs::exists(service.debts()));
}

// Half of the files is no reason to make new ones over the keys of the rest.
TEST(JobsTroubleTest, HalfOfTheFilesIsAnError) {
  TroubleHarness service;
  service.Prepare();
  service.Stop();
  fs::rename(service.database(), service.data() + "/kept.db");
  const std::string keys = service.data() + "/vault/jobs/keys.db";
  service.Restart();
  EXPECT_THAT(service.TrySubmit(), HasCode(kLater));
  EXPECT_TRUE(fs::exists(keys));
  service.Stop();
  fs::rename(service.data() + "/kept.db", service.database());
  fs::rename(keys, service.data() + "/kept.keys");
  service.Restart();
  EXPECT_THAT(service.TrySubmit(), HasCode(kLater));
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr("are not known")));
  fs::rename(service.data() + "/kept.keys", keys);
  service.Pass(absl::Seconds(6));
  service.ExpectStartedOver();
  EXPECT_EQ(*service.Artefact(service.done_), "artefact");
}

// As after a call that made both and then failed.
TEST(JobsTroubleTest, FilesThatAreThereAlreadyAreTaken) {
  TroubleHarness other;
  other.Submit();
  other.Stop();
  TroubleHarness service;
  fs::copy(other.data() + "/jobs", service.data() + "/jobs", fs::copy_options::recursive);
  fs::copy(other.data() + "/vault/jobs", service.data() + "/vault/jobs",
           fs::copy_options::recursive);
  EXPECT_THAT(service.TrySubmit(), IsOk());
}

// A path that cannot be looked at is not a file that is not there.
TEST(JobsTroubleTest, WhatCannotBeLookedAtIsAnError) {
  TroubleHarness service;
  service.Prepare();
  service.Stop();
  fs::rename(service.data() + "/jobs", service.data() + "/kept");
  std::ofstream(service.data() + "/jobs") << "no folder";
  service.Restart();
  EXPECT_THAT(service.TrySubmit(), HasCode(kLater));
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr("are not known")));
  fs::remove(service.data() + "/jobs");
  fs::rename(service.data() + "/kept", service.data() + "/jobs");
  service.Pass(absl::Seconds(6));
  service.ExpectStartedOver();
}

TEST(JobsTroubleTest, BothTakenAwayEndsEveryJob) {
  TroubleHarness service;
  service.Prepare();
  service.Stop();
  fs::create_directory(service.data() + "/away");
  fs::rename(service.data() + "/vault/jobs", service.data() + "/away/vault");
  fs::rename(service.data() + "/jobs", service.data() + "/away/jobs");
  service.Restart();
  EXPECT_TRUE(service->ListJobs("t", std::nullopt, {})->items.empty());
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), IsEmpty());
  // They come back, and nobody has told them: the first reading notices.
  service.Stop();
  fs::rename(service.data() + "/away/vault", service.data() + "/vault/jobs");
  fs::rename(service.data() + "/away/jobs", service.data() + "/jobs");
  service.Restart();
  EXPECT_THAT(service.Read(service.lease_), Fails(kNotNow, "lease"));
  EXPECT_EQ(service.Job(service.open_).restarts, 1u);
  EXPECT_EQ(service.Read(service.Lease())->size(), 19u);
}

// The file is read and cannot be written: what is known of it names the artefact, the lease is over
// at once, and the job starts over before anybody gets one.
TEST(JobsTroubleTest, AJobThatCannotStartOverHasNoLease) {
  TroubleHarness service;
  service.Prepare();
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  ASSERT_THAT(service->CreateMemory("u", "m", SmallConfig(), {}), IsOk());
  service.trouble().wraps = true;
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(),
              ElementsAre(HasSubstr("are not known"), HasSubstr(service.done_)));
  EXPECT_THAT(service.jobs().Heartbeat(service.lease_, std::nullopt), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.Complete(service.lease_, "made from a7"), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.ReadCheckpoint(service.lease_), Fails(kNotNow, "lease"));
  EXPECT_THAT(service.jobs().Lease({.worker = "w", .kinds = {}, .wait = {}}, {}), HasCode(kLater));
  service.Pass(absl::Seconds(6));
  EXPECT_THAT(service.jobs().Lease({.worker = "w", .kinds = {}, .wait = {}}, {}), Not(IsOk()));
  service.trouble().wraps = false;
  service.Pass(absl::Seconds(6));
  service.ExpectStartedOver();
  EXPECT_THAT(service.jobs().Heartbeat(service.lease_, std::nullopt), Fails(kNotNow, "lease"));
}

TEST(JobsTroubleTest, ThatHoldsThroughARestart) {
  TroubleHarness service;
  service.Prepare();
  service.trouble().wraps = true;
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  service.trouble().wraps = false;
  service.Restart();
  EXPECT_THAT(service.jobs().Heartbeat(service.lease_, std::nullopt), Fails(kNotNow, "lease"));
  service.ExpectStartedOver();
}

TEST(JobsTroubleTest, ErasuresOfATenantWithoutJobsHaveNothingToDoWithIt) {
  TroubleHarness service;
  service.MakeMemory("n");
  service.Insert("n", Spiral(5));
  const std::string id = service.Submit("n");
  service.Work("of another memory");
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  ASSERT_THAT(service->CreateMemory("u", "m", SmallConfig(), {}), IsOk());
  service.trouble().wraps = true;
  service.trouble().ends = true;
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u) << "no job has read it";
  EXPECT_THAT(service.Exceptions(), IsEmpty());
  EXPECT_FALSE(fs::exists(service.debts()));
  EXPECT_THAT(service->DeleteTenant("u", {}), IsOk());
  EXPECT_FALSE(fs::exists(service.debts()));
  EXPECT_FALSE(service.Job(id).erased_since);
}

// The rows are gone; the key is not shown to be.
TEST(JobsTroubleTest, KeysThatCannotBeEndedAreSaidAndEndedLater) {
  TroubleHarness service;
  service.Prepare();
  service.trouble().ends = true;
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(),
              ElementsAre(HasSubstr("not all shown to be destroyed"), HasSubstr(service.done_)));
  EXPECT_EQ(service.Job(service.open_).restarts, 1u) << "jobs go on";
  EXPECT_FALSE(fs::exists(service.debts()));
  // Nor is that a reason not to start.
  service.Restart();
  EXPECT_EQ(service.Job(service.open_).restarts, 1u);
  EXPECT_EQ(service.Forget("m", {"a8"}).erased, 1u);
  EXPECT_THAT(service.Exceptions().front(), HasSubstr("not all shown to be destroyed"));
  service.trouble().ends = false;
  service.Pass(absl::Minutes(1));
  EXPECT_EQ(service.Forget("m", {"a9"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr(service.done_)));
  EXPECT_EQ(service.Files(), 1u);
}

// The job is deleted, and its tenant has no other; its key is not shown to be destroyed.
TEST(JobsTroubleTest, AKeyThatWaitsIsSaidThoughTheTenantHasNoJobLeft) {
  TroubleHarness service;
  const std::string id = service.Submit();
  service.Work("artefact");
  service.trouble().ends = true;
  EXPECT_THAT(service->DeleteJob("t", id, {}), HasCode(kLater));
  EXPECT_EQ(service.Forget("m", {"a7"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr("not all shown to be destroyed")));
  service.Break();
  service.Restart();
  EXPECT_EQ(service.Forget("m", {"a8"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), ElementsAre(HasSubstr("training artefacts are not known")));
  service.trouble().ends = false;
  service.Mend();
  service.Pass(absl::Minutes(1));
  EXPECT_EQ(service.Forget("m", {"a9"}).erased, 1u);
  EXPECT_THAT(service.Exceptions(), IsEmpty());
}

TEST(JobsTroubleTest, ATenantWhoseJobsCannotBeDestroyedEndsAllTheSame) {
  TroubleHarness service;
  service.Prepare();
  service.trouble().ends = true;
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  EXPECT_THAT(service.Close("t"), ElementsAre(HasSubstr("not shown to be destroyed")));
  EXPECT_THAT(service.Close("u"), IsEmpty()) << "it had none";
  EXPECT_EQ(service.jobs().Counts().jobs, (std::array<uint64_t, kJobStates>{}));
  service.trouble().ends = false;
  service.Restart();
  EXPECT_EQ(service.Files(), 0u);
}

// An upload that stalls: the file can be opened by another process all the same.
TEST(JobsTroubleTest, AStalledUploadDoesNotKeepTheFileOpen) {
  TroubleHarness service;
  service.Submit();
  const LeaseName lease = service.Lease();
  std::barrier stalled(2), go_on(2);
  absl::Status status;
  std::thread upload([&] {
    int pieces = 0;
    const auto receive = [&]() -> absl::StatusOr<std::optional<std::string>> {
      if (++pieces == 2) {
        stalled.arrive_and_wait();
        go_on.arrive_and_wait();
      }
      if (pieces > 3) return std::nullopt;
      return std::string(1'500'000, 'x');
    };
    status = service.jobs().PutCheckpoint(lease, {.step = 1}, receive).status();
  });
  stalled.arrive_and_wait();
  service.jobs().Close();
  int temporary = 0;
  {
    const store::JobStore::Place place{
        .folder = service.data() + "/jobs",
        .vault = service.data() + "/vault/jobs",
        .new_path = [&] { return absl::StrCat(service.data(), "/temporary/t", ++temporary); },
        .kms = store::MakeFileKms};
    EXPECT_THAT(store::JobStore::Open(place), IsOk());
  }
  go_on.arrive_and_wait();
  upload.join();
  EXPECT_THAT(status, HasCode(kLater));
  EXPECT_EQ(service.Files(), 0u);
  EXPECT_TRUE(fs::is_empty(service.data() + "/temporary"));
}

TEST(JobDebtsTest, WhatIsNotAWholeLineOwesEverything) {
  TempDir folder;
  const std::string path = folder.path() + "/owed";
  const std::string one(32, 'a'), other(32, 'b');
  {
    JobDebts debts(path);
    EXPECT_THAT(debts.Load(), IsOk());
    EXPECT_TRUE(debts.none());
    EXPECT_THAT(debts.AddErased(one, other), IsOk());
    EXPECT_THAT(debts.AddEnded(other), IsOk());
  }
  {
    JobDebts debts(path);
    EXPECT_THAT(debts.Load(), IsOk());
    EXPECT_FALSE(debts.all());
    EXPECT_TRUE(debts.Erased(one, other));
    EXPECT_FALSE(debts.Erased(other, one));
    EXPECT_TRUE(debts.Ended(other));
    EXPECT_FALSE(debts.Ended(one));
    EXPECT_FALSE(debts.Restored(one));
  }
  std::ofstream(path, std::ios::app) << "erased " << one;
  JobDebts debts(path);
  EXPECT_THAT(debts.Load(), IsOk());
  EXPECT_TRUE(debts.all());
  EXPECT_TRUE(debts.Erased(other, one));
  EXPECT_FALSE(debts.Ended(one)) << "nothing is destroyed on a guess";
  // What comes after it is a line of its own.
  EXPECT_THAT(debts.AddEnded(one), IsOk());
  JobDebts next(path);
  EXPECT_THAT(next.Load(), IsOk());
  EXPECT_TRUE(next.Ended(one));
  EXPECT_TRUE(next.all());
  EXPECT_THAT(debts.Clear(), IsOk());
  EXPECT_TRUE(debts.none());
  EXPECT_FALSE(fs::exists(path));
}

TEST(JobDebtsTest, WhatCannotBeWrittenIsOwedAllTheSame) {
  TempDir folder;
  JobDebts debts(folder.path() + "/none/owed");
  EXPECT_THAT(debts.AddRestored(std::string(32, 'a')), Not(IsOk()));
  EXPECT_TRUE(debts.Restored(std::string(32, 'a')));
  fs::create_directory(folder.path() + "/none");
  EXPECT_THAT(debts.AddRestored(std::string(32, 'b')), IsOk());
  JobDebts later(folder.path() + "/none/owed");
  EXPECT_THAT(later.Load(), IsOk());
  EXPECT_TRUE(later.Restored(std::string(32, 'a'))) << "written with the next one";
}

}  // namespace
}  // namespace lethe::service
