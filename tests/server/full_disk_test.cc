// A disk that is full: inserts are refused, everybody is served and forgotten all the same, and all
// goes on when there is room again.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/disk_full.h"
#include "server/service/ballast.h"
#include "tests/server/service_testing.h"
#include "tests/server/small_disk.h"

namespace lethe::service {
namespace {

using ::testing::HasSubstr;
constexpr absl::StatusCode kFull = absl::StatusCode::kResourceExhausted;
constexpr uint64_t kBallast = uint64_t{4} << 20;

class FullDiskTest : public testing::Test {
 protected:
  FullDiskTest() : log_(::fileno(lines_.get()), program::LogLevel::kInfo) {
    service_.options().tenant.log = &log_;
    service_.options().ballast_disk = &disk_;
    service_.options().ballast_bytes = kBallast;
    service_.Restart();
    service_.MakeMemory("m");
  }

  int Lines(const std::string& event) {
    std::rewind(lines_.get());
    std::string all;
    char part[4096];
    for (size_t size = 0; (size = std::fread(part, 1, sizeof part, lines_.get())) > 0;) {
      all.append(part, size);
    }
    int count = 0;
    const std::string wanted = absl::StrCat("\"event\":\"", event, "\"");
    for (size_t at = 0; (at = all.find(wanted, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  bool BallastIsThere() { return disk_.SizeOf(service_.data() + "/ballast") == kBallast; }
  // With room, so that the ballast comes back, and the write-ahead logs are empty.
  void Refresh(const std::string& id) {
    disk_.LeaveEverything();
    service_.Insert("m", {MakeToken(id, 0.25, 0.5)});
    EXPECT_TRUE(BallastIsThere());
    EXPECT_THAT(service_->Checkpoint(), IsOk());
  }
  bool Queried() {
    const QueryInput query{.tenant = "t", .memory = "m", .queries = {{0.1, 0.2}}};
    return service_->Query(query, {}).ok();
  }

  // First, since databases are opened through it until all else is gone.
  SmallDisk disk_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> lines_{std::tmpfile(), &std::fclose};
  program::EventLog log_;
  Harness service_;
};

TEST_F(FullDiskTest, InsertsAreRefusedForgettingGoesOnAndAllIsWellWithRoom) {
  std::vector<TokenInput> tokens = Spiral(12);
  for (int i = 0; i < 4; ++i) tokens[static_cast<size_t>(i)].subject = "anna";
  service_.Insert("m", tokens);
  EXPECT_TRUE(BallastIsThere());
  // Filled by inserts, until they are refused.
  disk_.LeaveFree(uint64_t{3} << 20);
  int taken = 0;
  absl::Status refused;
  while (refused.ok() && taken < 1000) {
    std::vector<TokenInput> batch = Spiral(20, absl::StrCat("fill", taken, "-"));
    for (TokenInput& token : batch) token.payload = std::string(10'000, 'x');
    refused = service_->Insert("t", "m", batch, {}).status();
    if (refused.ok()) ++taken;
  }
  EXPECT_THAT(refused, HasCode(kFull));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the disk is full"));
  EXPECT_GE(taken, 2);
  EXPECT_EQ(Tokens(service_, "m"), 12u + 20u * static_cast<unsigned>(taken));
  EXPECT_TRUE(BallastIsThere());
  EXPECT_EQ(Lines("growth_refused"), 1);
  // By others, to the last byte.
  disk_.LeaveFree(0);
  EXPECT_THAT(service_->Insert("t", "m", Spiral(1, "z"), {}), HasCode(kFull));
  EXPECT_THAT(service_->CreateMemory("t", "other", SmallConfig(), {}), HasCode(kFull));
  EXPECT_THAT(service_->CreateTenant("other", {}), HasCode(kFull));
  EXPECT_TRUE(Queried());
  EXPECT_EQ(Lines("ballast_released"), 0);
  const auto forgotten = service_->Forget(ForgetSubjectOf("m", "anna"), {});
  ASSERT_THAT(forgotten, IsOk());
  EXPECT_EQ(forgotten->erased, 4u);
  EXPECT_FALSE(forgotten->certificate_id.empty());
  EXPECT_TRUE(forgotten->destruction.has_value());
  EXPECT_EQ(ErasureLog(service_).size(), 1u);
  EXPECT_EQ(VerifiedLog(service_).size(), 2u);
  EXPECT_FALSE(BallastIsThere());
  EXPECT_EQ(Lines("ballast_released"), 1);
  // The room that is left is not for inserts.
  EXPECT_THAT(service_->Insert("t", "m", Spiral(1, "z"), {}), HasCode(kFull));
  EXPECT_TRUE(Queried());
  EXPECT_EQ(service_.Forget("m", {"a7"}).erased, 1u);
  const std::string digest = service_.Digest("m");
  service_.Restart();
  EXPECT_FALSE(BallastIsThere());
  EXPECT_EQ(Lines("ballast_missing"), 1);
  EXPECT_EQ(service_.Digest("m"), digest);
  EXPECT_EQ(service_.Forget("m", {"a8"}).erased, 1u);
  EXPECT_THAT(service_->Insert("t", "m", Spiral(1, "z"), {}), HasCode(kFull));
  // Room for it, and not for the margin.
  disk_.LeaveFree(kBallast + kBallast / 8);
  EXPECT_THAT(service_->Insert("t", "m", Spiral(1, "z"), {}), HasCode(kFull));
  EXPECT_EQ(Lines("ballast_restored"), 0);
  disk_.LeaveFree(uint64_t{2} * kBallast);
  EXPECT_EQ(service_.Insert("m", Spiral(1, "z")).inserted, 1u);
  EXPECT_TRUE(BallastIsThere());
  EXPECT_EQ(Lines("ballast_restored"), 1);
  EXPECT_THAT(service_->Describe("t", "m", true, {}), IsOk());
}

// So does what an erasure has to tell a training job, which comes first.
TEST_F(FullDiskTest, AJobStartsOverOnAFullDisk) {
  service_.Insert("m", Spiral(12));
  for (uint64_t free = 0; free <= 120'000; free += 40'000) {
    SCOPED_TRACE(absl::StrCat(free, " bytes left"));
    Refresh(absl::StrCat("room", free));
    const auto job = service_->SubmitJob(
        {.tenant = "t", .memory = "m", .config = CalibrateConfig(), .request_id = ""}, {});
    ASSERT_THAT(job, IsOk());
    const auto offer = service_->jobs().Lease({.worker = "w", .kinds = {}, .wait = {}}, {});
    ASSERT_THAT(offer, IsOk());
    ASSERT_TRUE(offer->has_value());
    ASSERT_THAT(service_->ReadTrainingTokens(
                    (*offer)->lease, {}, [](uint64_t) { return absl::OkStatus(); },
                    [](const std::vector<TrainingToken>&) { return absl::OkStatus(); }),
                IsOk());
    disk_.LeaveFree(free);
    const auto reply = service_->Forget(ForgetOf("m", {absl::StrCat("room", free)}), {});
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->erased, 1u);
    EXPECT_THAT(reply->destruction->exceptions, testing::IsEmpty());
    EXPECT_EQ(service_->GetJob("t", (*offer)->job.id)->restarts, 1u);
    disk_.LeaveEverything();
    ASSERT_THAT(service_->CancelJob("t", (*offer)->job.id), IsOk());
  }
  EXPECT_GE(Lines("ballast_released"), 1);
  EXPECT_EQ(Lines("erasure_without_jobs"), 0);
}

// However much is left when an erasure begins: it is done once, with its certificates, and
// answered.
TEST_F(FullDiskTest, EveryErasureIsDoneOnceWhereverTheDiskBecomesFull) {
  std::vector<TokenInput> tokens = Spiral(60);
  for (int i = 0; i < 30; ++i) tokens.push_back(MakeToken(absl::StrCat("in", i), 0.01 * i, 0.1));
  service_.Insert("m", tokens);
  size_t erasures = 0;
  int released = 0;
  for (uint64_t free = 0; free <= 160'000; free += 32'000) {
    SCOPED_TRACE(absl::StrCat(free, " bytes left"));
    const std::string tag = absl::StrCat("r", free);
    const auto expect_done = [&](const auto& reply) {
      ASSERT_THAT(reply, IsOk());
      EXPECT_FALSE(reply->certificate_id.empty());
      EXPECT_TRUE(reply->destruction.has_value());
      released += BallastIsThere() ? 0 : 1;
      EXPECT_TRUE(Queried());
      disk_.LeaveEverything();
      EXPECT_EQ(ErasureLog(service_).size(), ++erasures);
      EXPECT_THAT(service_->Describe("t", "m", true, {}), IsOk());
    };
    Refresh(tag + "-forget");
    disk_.LeaveFree(free);
    const auto forgotten = service_->Forget(ForgetOf("m", {tag + "-forget"}), {});
    expect_done(forgotten);
    EXPECT_EQ(forgotten->erased, 1u);

    Refresh(tag + "-edit");
    disk_.LeaveFree(free);
    const std::string edited_id = tag + "-edit";
    const auto edited = service_->Edit(
        EditOf("m", {MakeToken(edited_id, 5, static_cast<double>(free) * 1e-4)}, tag), {});
    expect_done(edited);
    EXPECT_EQ(edited->edited, 1u);

    Refresh(tag + "-evict");
    disk_.LeaveFree(free);
    const auto evicted = service_->Evict(EvictOf("m", Tokens(service_, "m") - 1), {});
    expect_done(evicted);
    EXPECT_EQ(evicted->reserve + evicted->surplus, 1u);

    const std::string memory = absl::StrCat("m", free);
    Refresh(tag + "-delete");
    service_.MakeMemory(memory);
    service_.Insert(memory, Spiral(5));
    EXPECT_THAT(service_->Checkpoint(), IsOk());
    disk_.LeaveFree(free);
    const auto deleted = service_->DeleteMemory("t", memory, {});
    expect_done(deleted);
    EXPECT_EQ(deleted->erased_tokens, 5u);
    EXPECT_THAT(service_->GetMemory("t", memory), HasCode(kNotFound));

    Refresh(tag + "-close");
    ASSERT_THAT(service_->CreateTenant("u", {}), IsOk());
    ASSERT_THAT(service_->CreateMemory("u", "m", SmallConfig(), {}), IsOk());
    ASSERT_THAT(service_->Insert("u", "m", Spiral(5), {}), IsOk());
    EXPECT_THAT(service_->Checkpoint(), IsOk());
    disk_.LeaveFree(free);
    const auto closed = service_->DeleteTenant("u", {});
    ASSERT_THAT(closed, IsOk());
    EXPECT_EQ(closed->erased_tokens, 5u);
    EXPECT_FALSE(closed->certificate_id.empty());
    EXPECT_THAT(service_->GetTenant("u"), HasCode(kNotFound));
  }
  EXPECT_GE(released, 8);
  EXPECT_GT(disk_.refused(), released);
  const std::string digest = service_.Digest("m");
  disk_.LeaveEverything();
  service_.Restart();
  EXPECT_EQ(service_.Digest("m"), digest);
}

// What a server without a ballast left on a full disk is opened, and finished, by one that has one.
TEST_F(FullDiskTest, ATenantIsOpenedOnAFullDisk) {
  service_.Insert("m", Spiral(30));
  int stopped = 0;
  int released = 0;
  size_t erasures = 0;
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    Refresh(absl::StrCat("fresh", i));
    service_.options().ballast_bytes = 0;
    service_.Restart();
    disk_.LeaveFree(static_cast<uint64_t>(i) * 24'000);
    ForgetInput forget = ForgetOf("m", {absl::StrCat("a", i)});
    forget.request_id = absl::StrCat("r", i);
    const auto first = service_->Forget(forget, {});
    stopped += first.ok() ? 0 : 1;
    service_.Stop();
    disk_.LeaveEverything();
    ASSERT_THAT(disk_.Allocate(service_.data() + "/ballast", kBallast), IsOk());
    disk_.LeaveFree(0);
    service_.options().ballast_bytes = kBallast;
    service_.Restart();
    EXPECT_THAT(service_->Describe("t", "m", false, {}), IsOk());
    const auto again = service_->Forget(forget, {});
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->erased, 1u);
    EXPECT_TRUE(again->destruction.has_value());
    released += BallastIsThere() ? 0 : 1;
    EXPECT_EQ(ErasureLog(service_).size(), ++erasures);
  }
  EXPECT_GE(stopped, 3);
  EXPECT_GE(released, 3);
}

// Another reason than a full disk: the ballast stays.
TEST_F(FullDiskTest, AFailureOfAnotherKindKeepsTheBallast) {
  service_.Insert("m", Spiral(8));
  for (const absl::Status& status :
       {absl::ResourceExhaustedError("too many wraps"), absl::InternalError("I/O error")}) {
    FailOnce(service_, "EraseTokens", status);
    EXPECT_FALSE(service_->Forget(ForgetOf("m", {"a1"}), {}).ok());
    EXPECT_TRUE(BallastIsThere());
  }
  FailOnce(service_, "EraseTokens", MarkDiskFull(absl::ResourceExhaustedError("full")));
  EXPECT_EQ(service_.Forget("m", {"a1"}).erased, 1u);
  EXPECT_FALSE(BallastIsThere());
}

// The commit that was reported as failed had happened: decided by the log, not by trying.
TEST_F(FullDiskTest, AnOutcomeThatWasUnknownIsSettledByTheLog) {
  service_.Insert("m", Spiral(12));
  service_.MakeMemory("n");
  service_.Insert("n", Spiral(4));
  const auto lie = [&](const std::string& step) {
    disk_.LeaveEverything();
    service_.hooks().after = [step, fired = false](const std::string& called,
                                                   const absl::Status& status) mutable {
      if (fired || called != step) return status;
      fired = true;
      return MarkDiskFull(absl::UnknownError("the outcome of the commit is unknown"));
    };
  };
  lie("EraseTokens");
  const auto forgotten = service_->Forget(ForgetOf("m", {"a1"}), {});
  ASSERT_THAT(forgotten, IsOk());
  EXPECT_EQ(forgotten->erased, 1u);
  EXPECT_FALSE(forgotten->replayed);
  ASSERT_TRUE(forgotten->receipt.has_value());
  EXPECT_EQ(forgotten->receipt->request_salt.size(), 32u);
  EXPECT_EQ(forgotten->state_digest, service_.Digest("m"));
  service_.hooks() = {};
  EXPECT_EQ(service_.Insert("m", Spiral(1, "z")).inserted, 1u);
  lie("DeleteMemory");
  const auto deleted = service_->DeleteMemory("t", "n", {});
  ASSERT_THAT(deleted, IsOk());
  EXPECT_EQ(deleted->erased_tokens, 4u);
  EXPECT_TRUE(deleted->destruction.has_value());
  EXPECT_EQ(ErasureLog(service_).size(), 2u);
}

// Two erasures that met the full disk together.
TEST(BallastTest, WhoComesSecondHasTheRoomThatTheFirstMade) {
  const TempDir folder;
  program::EventLog log(-1, program::LogLevel::kError);
  SmallDisk disk;
  Ballast ballast(folder.path(), folder.path(), uint64_t{3} << 20, &disk, &log);
  disk.LeaveFree(0);
  EXPECT_TRUE(ballast.Release("first"));
  EXPECT_TRUE(ballast.Release("second"));
  disk.LeaveFree(1000);
  EXPECT_FALSE(ballast.Release("third"));
}

TEST(BallastTest, TheFilesAreAllocatedWholeAndFollowTheSetting) {
  const TempDir folder;
  program::EventLog log(-1, program::LogLevel::kError);
  const std::string path = folder.path() + "/ballast";
  constexpr uint64_t kBytes = uint64_t{3} << 20;
  struct stat info {};
  {
    Ballast ballast(folder.path(), folder.path(), kBytes, SystemDisk(), &log);
    EXPECT_THAT(ballast.Admit(0), IsOk());
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(static_cast<uint64_t>(info.st_size), kBytes);
    EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, kBytes);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
    EXPECT_TRUE(ballast.Release("t"));
    EXPECT_NE(::stat(path.c_str(), &info), 0);
    EXPECT_TRUE(ballast.Release("t"));      // there is room
    EXPECT_THAT(ballast.Admit(0), IsOk());  // there is room, so it is made again
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
  }
  const ino_t inode = info.st_ino;
  { Ballast same(folder.path(), folder.path(), kBytes, SystemDisk(), &log); }
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_ino, inode);
  { Ballast other(folder.path(), folder.path(), kBytes / 2, SystemDisk(), &log); }
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), kBytes / 2);
  Ballast none(folder.path(), folder.path(), 0, SystemDisk(), &log);
  EXPECT_NE(::stat(path.c_str(), &info), 0);
  EXPECT_THAT(none.Admit(0), IsOk());
  EXPECT_FALSE(none.Release("t"));
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

}  // namespace
}  // namespace lethe::service
