// What happens when the store fails, a check fails, a file is damaged: nothing acknowledged is
// lost, nothing unproven is served, and the next call works.
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

TEST(FaultTest, AFailedInsertChangesNothingAndTheNextOneWorks) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(6));
  const std::string before = service.Digest("m");
  FailOnce(service, "InsertTokens", absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(service->Insert("t", "m", Spiral(3, "b"), {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  // Readers keep the old state, whose token set is what is stored.
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(Tokens(service, "m"), 6u);
  EXPECT_EQ(service.Insert("m", Spiral(3, "b")).inserted, 3u);
  const std::string after = service.Digest("m");
  service.Restart();
  EXPECT_EQ(service.Digest("m"), after);
}

TEST(FaultTest, ARefusalOfTheStoreIsOurMistakeNotTheCallers) {
  Harness service;
  service.MakeMemory("m");
  FailOnce(service, "InsertTokens", absl::InvalidArgumentError("rows[0]"));
  EXPECT_THAT(service->Insert("t", "m", Spiral(1), {}), HasCode(absl::StatusCode::kInternal));
  EXPECT_EQ(service.Insert("m", Spiral(1)).inserted, 1u);
}

TEST(FaultTest, AFailedForgetErasesNothing) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  const std::string before = service.Digest("m");
  FailOnce(service, "EraseTokens", absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(service->Forget(ForgetOf("m", {"a1"}), {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  EXPECT_EQ(service.Forget("m", {"a1"}).erased, 1u);
  EXPECT_EQ(ErasureLog(service).size(), 1u);
}

TEST(FaultTest, AnUnknownOutcomeIsSettledByRepeating) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  LieOnce(service, "InsertTokens");
  EXPECT_THAT(service->Insert("t", "m", Spiral(2, "b"), {}), HasCode(kUnavailable));
  EXPECT_EQ(service.Insert("m", Spiral(2, "b")).unchanged, 2u);

  ForgetInput input = ForgetOf("m", {"a1", "a2"});
  input.request_id = "r";
  LieOnce(service, "EraseTokens");
  EXPECT_THAT(service->Forget(input, {}), HasCode(kUnavailable));
  const auto again = service->Forget(input, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->erased, 2u);
  EXPECT_EQ(again->state_digest, service.Digest("m"));
  EXPECT_EQ(ErasureLog(service).size(), 1u);
  EXPECT_EQ(service.Forget("m", {"a1"}).already_erased, 1u);
  EXPECT_EQ(Tokens(service, "m"), 8u);
}

TEST(FaultTest, AnUnknownOutcomeOfMakingAndDeletingMemories) {
  Harness service;
  LieOnce(service, "CreateMemory");
  EXPECT_THAT(service->CreateMemory("t", "m", SmallConfig(), {}), HasCode(kUnavailable));
  // The store has it, so a repetition finds it there, and it works.
  EXPECT_THAT(service->CreateMemory("t", "m", SmallConfig(), {}), Fails(kExists, "name"));
  service.Insert("m", Spiral(5));
  LieOnce(service, "DeleteMemory");
  EXPECT_THAT(service->DeleteMemory("t", "m", {}), HasCode(kUnavailable));
  EXPECT_THAT(service->DeleteMemory("t", "m", {}), HasCode(kNotFound));
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  EXPECT_EQ(ErasureLog(service).size(), 1u);
}

TEST(FaultTest, AnUnknownOutcomeOfClosingATenant) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  LieOnce(service, "BeginClose");
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
  // The repetition finishes what the first call began and answers as it would have: the folder is
  // away, the name is free.
  const auto again = service->DeleteTenant("t", {});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->erased_tokens, 5u);
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kNotFound));
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  EXPECT_FALSE(std::filesystem::exists(service.data() + "/tenants/t"));
  EXPECT_THAT(service->CreateTenant("t", {}), IsOk());
}

TEST(FaultTest, AStartFinishesAClosingThatACrashInterrupted) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  LieOnce(service, "BeginClose");
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
  EXPECT_TRUE(std::filesystem::exists(service.data() + "/tenants/t"));
  service.Restart();
  EXPECT_THAT(service->GetTenant("t"), HasCode(kNotFound));
  EXPECT_FALSE(std::filesystem::exists(service.data() + "/tenants/t"));
  EXPECT_THAT(service->CreateTenant("t", {}), IsOk());
}

TEST(FaultTest, AReloadThatFailsIsTriedAgain) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  const std::string before = service.Digest("m");
  FailOnce(service, "InsertTokens", absl::ResourceExhaustedError("disk full"));
  EXPECT_FALSE(service->Insert("t", "m", Spiral(1, "b"), {}).ok());
  FailOnce(service, "LoadTokens", absl::DataLossError("unreadable"));
  EXPECT_THAT(service->Insert("t", "m", Spiral(1, "b"), {}), HasCode(absl::StatusCode::kDataLoss));
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service.Insert("m", Spiral(1, "b")).inserted, 1u);
}

TEST(FaultTest, AStateThatFailsItsCheckIsSolvedAfreshAndNeverServed) {
  Harness service;
  int failures = 0;
  service.options().tenant.checker = [&failures](const svdd::Snapshot& state,
                                                 std::span<const double> keys,
                                                 std::span<const svdd::TokenHandle> handles) {
    svdd::KktReport report = svdd::CheckKkt(state, keys, handles);
    if (failures > 0) {
      --failures;
      report.max_violation = report.tolerance + 1.0;
    }
    return report;
  };
  service.Restart();
  service.MakeMemory("m");
  service.Insert("m", Spiral(12));
  const std::string before = service.Digest("m");

  // Once: the memory is solved again from its tokens and the erasure succeeds.
  failures = 1;
  EXPECT_EQ(service.Forget("m", {"a1"}).erased, 1u);
  const std::string after = service.Digest("m");
  EXPECT_NE(after, before);

  // Again and again: the request fails, the served state and the stored tokens stay.
  failures = 3;
  EXPECT_THAT(service->Forget(ForgetOf("m", {"a2"}), {}), HasCode(absl::StatusCode::kInternal));
  EXPECT_EQ(service.Digest("m"), after);
  EXPECT_EQ(ErasureLog(service).size(), 1u);
  failures = 0;
  EXPECT_EQ(service.Forget("m", {"a2"}).erased, 1u);

  failures = 1;
  EXPECT_THAT(service->Describe("t", "m", true, {}), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(service->Describe("t", "m", true, {}), IsOk());
  service.options().tenant.checker = svdd::CheckKkt;
  const std::string last = service.Digest("m");
  service.Restart();
  EXPECT_EQ(service.Digest("m"), last);
}

TEST(FaultTest, ADamagedTenantIsQuarantinedAndTheOthersAreServed) {
  Harness service;
  ASSERT_THAT(service->CreateTenant("sound", {}), IsOk());
  ASSERT_THAT(service->CreateMemory("sound", "m", SmallConfig(), {}), IsOk());
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  service.Stop();
  {
    std::fstream file(service.data() + "/tenants/t/tenant.db",
                      std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.good());
    file.write("this is no database", 19);
  }
  service.Restart();
  EXPECT_THAT(service->GetTenant("t"), Fails(kUnavailable, "tenant"));
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kUnavailable));
  EXPECT_THAT(service->Insert("t", "m", Spiral(1), {}), HasCode(kUnavailable));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
  EXPECT_THAT(service->CreateTenant("t", {}), Fails(kExists, "name"));
  EXPECT_THAT(service->GetMemory("sound", "m"), IsOk());
  const auto page = service->ListTenants({});
  ASSERT_THAT(page, IsOk());
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(page->items[1].name, "t");
}

TEST(FaultTest, AMissingKeyIsRefusedOnceThereAreTenants) {
  Harness service;
  const std::string key = service->GetTenant("t")->verification_key;
  service.Restart();
  EXPECT_EQ(service->GetTenant("t")->verification_key, key);
  service.Stop();
  const std::string path = service.data() + "/keys/signing.pem";
  const auto permissions = std::filesystem::status(path).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read);
  const std::filesystem::path kept = service.data() + "/kept.pem";
  std::filesystem::rename(path, kept);
  EXPECT_THAT(Service::Open(service.options()), HasCode(absl::StatusCode::kFailedPrecondition));
  std::filesystem::rename(kept, path);
  EXPECT_THAT(Service::Open(service.options()), IsOk());
}

// Refuses every emptying of the write-ahead log while `broken`.
void BreakCheckpoints(Harness& service, bool& broken) {
  service.hooks().before = [&broken](const std::string& called) -> absl::Status {
    if (broken && called == "Checkpoint") return absl::UnavailableError("the log is held");
    return absl::OkStatus();
  };
}

TEST(FaultTest, AnErasureIsNotOkWhileTheLogMayHoldWhatWasErased) {
  Harness service;
  bool broken = true;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  BreakCheckpoints(service, broken);
  ForgetInput input = ForgetOf("m", {"a1", "a2"});
  input.request_id = "r";
  const auto first = service->Forget(input, {});
  EXPECT_THAT(first, HasCode(kUnavailable));
  EXPECT_NE(std::string(first.status().message()).find("same request_id"), std::string::npos);
  // It is erased and certified all the same.
  EXPECT_EQ(Tokens(service, "m"), 6u);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
  EXPECT_THAT(service->Forget(input, {}), HasCode(kUnavailable));
  EXPECT_THAT(service->Forget(ForgetOf("m", {"a1"}), {}), HasCode(kUnavailable));
  broken = false;
  const auto again = service->Forget(input, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->erased, 2u);
  // The log is known to be empty now and need not be emptied again.
  broken = true;
  EXPECT_THAT(service->Forget(input, {}), IsOk());
  EXPECT_EQ(service.Forget("m", {"a1"}).already_erased, 1u);

  EXPECT_THAT(service->DeleteMemory("t", "m", {}), HasCode(kUnavailable));
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  EXPECT_THAT(service->DeleteMemory("t", "m", {}), HasCode(kUnavailable));
  broken = false;
  EXPECT_THAT(service->DeleteMemory("t", "m", {}), HasCode(kNotFound));

  service.MakeMemory("n");
  service.Insert("n", Spiral(3));
  broken = true;
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
  EXPECT_TRUE(std::filesystem::exists(service.data() + "/tenants/t"));
  // Its rows are gone, and so is the tenant for everybody but who deletes it.
  EXPECT_THAT(service->GetTenant("t"), HasCode(kNotFound));
  EXPECT_THAT(service->GetMemory("t", "n"), HasCode(kNotFound));
  EXPECT_THAT(service->Insert("t", "n", Spiral(1), {}), HasCode(kNotFound));
  EXPECT_THAT(service->GetCheckpoint("t"), HasCode(kNotFound));
  EXPECT_TRUE(service->ListTenants({})->items.empty());
  EXPECT_THAT(service->CreateTenant("t", {}), HasCode(kExists));
  broken = false;
  const auto closed = service->DeleteTenant("t", {});
  ASSERT_THAT(closed, IsOk());
  EXPECT_EQ(closed->erased_tokens, 3u);
  EXPECT_FALSE(closed->tlog_proof.empty());
  EXPECT_FALSE(std::filesystem::exists(service.data() + "/tenants/t"));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kNotFound));
}

TEST(FaultTest, AStartAndAReopeningEmptyTheLogThatACrashLeft) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  const auto log_bytes = [](const std::string& data) -> uintmax_t {
    const std::string path = data + "/tenants/t/tenant.db-wal";
    return std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
  };
  ASSERT_GT(log_bytes(service.data()), 0u);
  // What a crash leaves: the files as they stand while the server runs.
  TempDir crashed;
  ServiceOptions options = service.options();
  options.data = crashed.path() + "/data";
  std::filesystem::copy(service.data(), options.data, std::filesystem::copy_options::recursive);
  ASSERT_GT(log_bytes(options.data), 0u);
  {
    const auto opened = Service::Open(options);
    ASSERT_THAT(opened, IsOk());
    EXPECT_EQ(log_bytes(options.data), 0u);
    EXPECT_EQ((*opened)->GetMemory("t", "m")->partition, service->GetMemory("t", "m")->partition);
  }
  // A checkpoint that fails at the start is made up for before anything is called erased.
  ASSERT_EQ(service.Forget("m", {"a1"}).erased, 1u);
  bool broken = true;
  BreakCheckpoints(service, broken);
  service.Restart();
  EXPECT_THAT(service->Forget(ForgetOf("m", {"a1"}), {}), HasCode(kUnavailable));
  broken = false;
  EXPECT_EQ(service.Forget("m", {"a1"}).already_erased, 1u);
}

TEST(FaultTest, AnExceptionLeavesNoStateThatDiffersFromTheStore) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  const std::string before = service.Digest("m");
  const auto throw_once = [&service](const std::string& operation) {
    service.hooks().before = [operation, fired = false](const std::string& called) mutable {
      if (!fired && called == operation) {
        fired = true;
        throw std::bad_alloc();
      }
      return absl::OkStatus();
    };
  };
  throw_once("InsertTokens");
  EXPECT_THROW(service->Insert("t", "m", Spiral(3, "b"), {}).status().IgnoreError(),
               std::bad_alloc);
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service.Insert("m", Spiral(3, "b")).inserted, 3u);  // and not "unchanged"
  throw_once("EraseTokens");
  EXPECT_THROW(service->Forget(ForgetOf("m", {"a1"}), {}).status().IgnoreError(), std::bad_alloc);
  EXPECT_EQ(service.Insert("m", Spiral(1, "c")).inserted, 1u);
  EXPECT_EQ(Tokens(service, "m"), 12u);
  throw_once("DeleteMemory");
  EXPECT_THROW(service->DeleteMemory("t", "m", {}).status().IgnoreError(), std::bad_alloc);
  EXPECT_EQ(service.Insert("m", Spiral(1, "d")).inserted, 1u);
  EXPECT_EQ(Tokens(service, "m"), 13u);
  const std::string after = service.Digest("m");
  service.hooks().before = nullptr;
  service.Restart();
  EXPECT_EQ(service.Digest("m"), after);
}

TEST(FaultTest, CallersAreNotToldWhereTheFilesAre) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(3));
  const auto is_silent = [&](const absl::Status& status) {
    EXPECT_EQ(std::string(status.message()).find(service.data()), std::string::npos) << status;
  };
  for (const absl::Status& failure :
       {absl::ResourceExhaustedError(service.data()), absl::UnavailableError(service.data()),
        absl::DataLossError(service.data())}) {
    FailOnce(service, "InsertTokens", failure);
    const auto reply = service->Insert("t", "m", Spiral(1, "b"), {});
    EXPECT_THAT(reply, HasCode(failure.code()));
    is_silent(reply.status());
  }
  FailOnce(service, "InsertTokens", absl::InternalError(service.data()));
  is_silent(service->Insert("t", "m", Spiral(1, "b"), {}).status());

  // The folder is gone when the store has to be opened again, and comes back.
  LieOnce(service, "InsertTokens");
  EXPECT_THAT(service->Insert("t", "m", Spiral(1, "b"), {}), HasCode(kUnavailable));
  const std::string folder = service.data() + "/tenants/t";
  std::filesystem::rename(folder, service.data() + "/away");
  for (int round = 0; round < 2; ++round) {
    const auto reply = service->Insert("t", "m", Spiral(1, "b"), {});
    EXPECT_THAT(reply, HasCode(kUnavailable));
    is_silent(reply.status());
  }
  std::filesystem::rename(service.data() + "/away", folder);
  EXPECT_EQ(service.Insert("m", Spiral(1, "b")).unchanged, 1u);
}

TEST(FaultTest, OneServerAFolder) {
  Harness service;
  EXPECT_THAT(Service::Open(service.options()), HasCode(kUnavailable));
}

}  // namespace
}  // namespace lethe::service
