// What happens when the store fails, a check fails, a file is damaged: nothing acknowledged is
// lost, nothing unproven is served, and the next call works.
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

uint64_t Tokens(Harness& service, const std::string& memory) {
  const svdd::PartitionCounts partition = service->GetMemory("t", memory)->partition;
  return partition.margin + partition.error + partition.reserve;
}

// Makes `operation` fail with `status`, once, before it reaches the store.
void FailOnce(Harness& service, const std::string& operation, const absl::Status& status) {
  service.hooks().before = [operation, status, fired = false](const std::string& called) mutable {
    if (fired || called != operation) return absl::OkStatus();
    fired = true;
    return status;
  };
}

// Lets `operation` reach the store, once, and then reports a failed COMMIT all the same.
void LieOnce(Harness& service, const std::string& operation) {
  service.hooks().after = [operation, fired = false](const std::string& called,
                                                     const absl::Status& status) mutable {
    if (fired || called != operation) return status;
    fired = true;
    return absl::UnavailableError("the outcome of the commit is unknown");
  };
}

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
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
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
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
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
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
}

TEST(FaultTest, AnUnknownOutcomeOfClosingATenant) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  LieOnce(service, "CloseTenant");
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kNotFound));
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  // The repetition finished what the first call began: the folder is away, the name is free.
  EXPECT_FALSE(std::filesystem::exists(service.data() + "/tenants/t"));
  EXPECT_THAT(service->CreateTenant("t", {}), IsOk());
}

TEST(FaultTest, AStartFinishesAClosingThatACrashInterrupted) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  LieOnce(service, "CloseTenant");
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
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
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

TEST(FaultTest, OneServerAFolder) {
  Harness service;
  EXPECT_THAT(Service::Open(service.options()), HasCode(kUnavailable));
}

}  // namespace
}  // namespace lethe::service
