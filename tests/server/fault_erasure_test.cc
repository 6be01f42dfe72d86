// Evictions and edits when the plan is wrong, the core cannot decide, or the store fails.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// A plan that takes a token with weight: the state after is held against the one before.
TEST(FaultErasureTest, AnEvictionThatWouldChangeAReadoutIsRefused) {
  Harness service;
  bool wrong = true;
  service.options().tenant.planner = [&wrong](const svdd::ExactMemory& memory, size_t budget) {
    svdd::EvictionPlan plan = memory.PlanEviction(budget);
    if (wrong && !plan.reserve.empty()) {
      plan.reserve.back() = memory.snapshot()->supports.front().handle;
    }
    return plan;
  };
  service.Restart();
  service.MakeMemory("m");
  std::vector<TokenInput> tokens = Spiral(6);
  for (int i = 0; i < 10; ++i) tokens.push_back(MakeToken(absl::StrCat("in", i), 0.05 * i, 0.1));
  service.Insert("m", tokens);
  const std::string before = service.Digest("m");
  for (int round = 0; round < 2; ++round) {
    const auto refused = service->Evict(EvictOf("m", 10, "r"), {});
    EXPECT_THAT(refused, HasCode(absl::StatusCode::kInternal));
    EXPECT_NE(std::string(refused.status().message()).find("nothing was taken out"),
              std::string::npos);
    EXPECT_EQ(service.Digest("m"), before);
    EXPECT_EQ(Tokens(service, "m"), 16u);
    EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
    service.Restart();
  }
  EXPECT_EQ(service.Digest("m"), before);
  wrong = false;
  const auto good = service->Evict(EvictOf("m", 10, "r"), {});
  ASSERT_THAT(good, IsOk());
  EXPECT_FALSE(good->replayed);
  EXPECT_EQ(good->reserve, 6u);
}

TEST(FaultErasureTest, AStateThatTheCoreCannotDecideIsInternalAndTheOldOneIsServed) {
  Harness service;
  bool undecidable = false;
  service.options().tenant.update_fault = [&undecidable]() -> absl::Status {
    if (!undecidable) return absl::OkStatus();
    return absl::InternalError("the state of these tokens cannot be decided at any precision");
  };
  service.Restart();
  service.MakeMemory("m");
  std::vector<TokenInput> tokens = Spiral(6);
  for (int i = 0; i < 10; ++i) tokens.push_back(MakeToken(absl::StrCat("in", i), 0.05 * i, 0.1));
  service.Insert("m", tokens);
  const std::string before = service.Digest("m");
  const auto change = [&](int which) -> absl::Status {
    switch (which) {
      case 0:
        return service->Insert("t", "m", Spiral(2, "b"), {}).status();
      case 1:
        return service->Forget(ForgetOf("m", {"a1"}), {}).status();
      case 2:
        return service->Evict(EvictOf("m", 10, "evict"), {}).status();
      default:
        return service->Edit(EditOf("m", {MakeToken("a5", 7, 7)}, "edit"), {}).status();
    }
  };
  for (int which = 0; which < 4; ++which) {
    SCOPED_TRACE(which);
    undecidable = true;
    const absl::Status status = change(which);
    EXPECT_THAT(status, HasCode(absl::StatusCode::kInternal));
    EXPECT_NE(std::string(status.message()).find("cannot be decided"), std::string::npos);
    // Nothing was written, readers have what they had, and so has the next start.
    EXPECT_EQ(service.Digest("m"), before);
    EXPECT_EQ(Tokens(service, "m"), 16u);
    EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
    QueryInput query{.tenant = "t", .memory = "m", .queries = {{0.0, 0.0}}};
    EXPECT_THAT(service->Query(query, {}), IsOk());
    undecidable = false;
    service.Restart();
    EXPECT_EQ(service.Digest("m"), before);
    EXPECT_THAT(service->Describe("t", "m", true, {}), IsOk());
  }
  for (int which = 0; which < 4; ++which) EXPECT_THAT(change(which), IsOk()) << which;
  EXPECT_EQ(ErasureLog(service).size(), 3u);
}

TEST(FaultErasureTest,
     FailedEvictionsAndEditsChangeNothingAndUnknownOutcomesAreSettledByRepeating) {
  Harness service;
  service.MakeMemory("m");
  std::vector<TokenInput> tokens = Spiral(6);
  for (int i = 0; i < 10; ++i) tokens.push_back(MakeToken(absl::StrCat("in", i), 0.05 * i, 0.1));
  service.Insert("m", tokens);
  const std::string before = service.Digest("m");
  const EvictInput evict = EvictOf("m", 12, "evict");
  const EditInput edit = EditOf("m", {MakeToken("a5", 7, 7), MakeToken("in9", 8, 8)}, "edit");
  FailOnce(service, "EraseTokens", absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(service->Evict(evict, {}), HasCode(absl::StatusCode::kResourceExhausted));
  FailOnce(service, "EraseTokens", absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(service->Edit(edit, {}), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);

  LieOnce(service, "EraseTokens");
  EXPECT_THAT(service->Evict(evict, {}), HasCode(kUnavailable));
  const auto evicted = service->Evict(evict, {});
  ASSERT_THAT(evicted, IsOk());
  EXPECT_TRUE(evicted->replayed);
  EXPECT_EQ(evicted->reserve, 4u);
  EXPECT_EQ(evicted->state_digest, service.Digest("m"));

  LieOnce(service, "EraseTokens");
  EXPECT_THAT(service->Edit(edit, {}), HasCode(kUnavailable));
  const auto edited = service->Edit(edit, {});
  ASSERT_THAT(edited, IsOk());
  EXPECT_TRUE(edited->replayed);
  EXPECT_EQ(edited->edited, 2u);
  EXPECT_EQ(edited->state_digest, service.Digest("m"));
  EXPECT_EQ(ErasureLog(service).size(), 2u);
  // Handles go on where the store stands.
  EXPECT_EQ(service.Insert("m", Spiral(2, "b")).inserted, 2u);
  const std::string last = service.Digest("m");
  service.Restart();
  EXPECT_EQ(service.Digest("m"), last);
}

TEST(FaultErasureTest, AnEditIsNotOkWhileTheLogMayHoldTheOldContent) {
  Harness service;
  bool broken = true;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  service.hooks().before = [&broken](const std::string& called) -> absl::Status {
    if (broken && called == "Checkpoint") return absl::UnavailableError("the log is held");
    return absl::OkStatus();
  };
  const EditInput edit = EditOf("m", {MakeToken("a5", 7, 7)}, "edit");
  EXPECT_THAT(service->Edit(edit, {}), HasCode(kUnavailable));
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
  EXPECT_THAT(service->Edit(edit, {}), HasCode(kUnavailable));
  // Without the id as well: "unchanged" is not said before the old content is gone.
  EXPECT_THAT(service->Edit(EditOf("m", {MakeToken("a5", 7, 7)}), {}), HasCode(kUnavailable));
  broken = false;
  EXPECT_TRUE(service->Edit(edit, {})->replayed);
  EXPECT_EQ(service->Edit(EditOf("m", {MakeToken("a5", 7, 7)}), {})->unchanged, 1u);
}

}  // namespace
}  // namespace lethe::service
