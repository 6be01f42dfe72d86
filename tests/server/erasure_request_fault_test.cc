// Erasure requests when the store fails or the process dies: at each call that changes something,
// before it and after it.
#include "tests/server/erasure_testing.h"

namespace lethe::service {
namespace {

// What must be so once everything has been tried again, wherever it was cut off.
void ExpectDone(ErasureHarness& service, const std::string& id) {
  const ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kCompleted);
  EXPECT_EQ(info.counts, (ErasureCounts{.matched = 4, .erased = 4}));
  EXPECT_EQ(info.certificates.size(), 2u) << "each memory was certified once";
  EXPECT_EQ(Tokens(service, "m1"), 5u);
  EXPECT_EQ(Tokens(service, "m2"), 5u);
  service.ExpectProven(id, {kAnna});
  ErasureLog(service);
  service.Pass(absl::Hours(100));
  service.Run();
  EXPECT_FALSE(service.Get(id).personal);
  EXPECT_THAT(service->DueCallbacks(10), ::testing::IsEmpty());
  EXPECT_FALSE(FilesHold(service, kAnna));
}

// From the n-th changing call on nothing reaches the store, as after a kill; then a new process.
TEST(ErasureRequestFaultTest, ACrashAtEachStepIsTakenUp) {
  int cut = 0;
  for (bool reached = true; reached; ++cut) {
    SCOPED_TRACE(cut);
    ErasureHarness service;
    ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
    input.callback_urls = {"https://a.example/"};
    const std::string id = service.Ask(input);
    int calls = 0;
    service.hooks().before = [&](const std::string&) {
      return calls++ >= cut ? absl::UnavailableError("killed") : absl::OkStatus();
    };
    service.Run();
    reached = calls > cut;
    service.hooks().before = nullptr;
    service.Restart();
    service.Pass(absl::Hours(2));
    service.Run();
    ExpectDone(service, id);
    ASSERT_LT(cut, 200);
  }
  EXPECT_GT(cut, 15) << "the hooks saw the steps";
}

// The n-th call is made, and says that its commit failed. The tenant opens its store again.
TEST(ErasureRequestFaultTest, AnUnknownOutcomeAtEachStepIsTakenUp) {
  int cut = 0;
  for (bool reached = true; reached; ++cut) {
    SCOPED_TRACE(cut);
    ErasureHarness service;
    const std::string id = service.Ask(kAnna);
    int calls = 0;
    service.hooks().after = [&](const std::string&, const absl::Status& status) {
      return calls++ == cut ? store::Indeterminate("nobody knows") : status;
    };
    service.Run();
    service.Pass(absl::Hours(2));
    service.Run();
    service.hooks().after = nullptr;
    reached = calls > cut;
    ExpectDone(service, id);
    ASSERT_LT(cut, 200);
  }
  EXPECT_GT(cut, 15) << "the hooks saw the steps";
}

TEST(ErasureRequestFaultTest, TriesAgainLaterAndThenGivesUp) {
  ErasureHarness service;
  service.options().tenant.erasures.attempts = 4;
  service.Restart();
  const std::string id = service.Ask(kAnna);
  service.hooks().before = [&](const std::string& operation) {
    return operation == "EraseTokens" ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  int runs = 0;
  for (const int seconds : {0, 1, 2}) {
    service.Pass(absl::Seconds(seconds));
    service.Run();
    EXPECT_EQ(service.Get(id).state, ErasureState::kInProgress);
    EXPECT_EQ(service.Get(id).attempts, static_cast<uint32_t>(++runs));
  }
  service.Pass(absl::Seconds(3));
  service.Run();
  EXPECT_EQ(service.Get(id).attempts, 3u) << "the next one comes after four seconds";
  service.Pass(absl::Seconds(1));
  service.Run();
  const ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kFailed);
  EXPECT_EQ(info.failure, "resource_exhausted");
  EXPECT_FALSE(info.personal);
  EXPECT_EQ(Tokens(service, "m1"), 7u);
  EXPECT_EQ(service->ErasureCounts().in_progress, 0u);
}

TEST(ErasureRequestFaultTest, ACreationWhoseOutcomeIsUnknownIsFoundByItsKey) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.idempotency_key = "key-1";
  LieOnce(service, "CreateCase");
  EXPECT_THAT(service->CreateErasureRequest(input, {}), HasCode(absl::StatusCode::kUnavailable));
  const auto again = service->CreateErasureRequest(input, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  FailOnce(service, "CreateCase", absl::ResourceExhaustedError("full"));
  input.idempotency_key = "key-2";
  EXPECT_THAT(service->CreateErasureRequest(input, {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(service->ListErasureRequests("t", {}, {})->items, ::testing::SizeIs(1));
  service.Run();
  EXPECT_EQ(service.Get(again->id).state, ErasureState::kCompleted);
}

TEST(ErasureRequestFaultTest, AHoldWhoseOutcomeIsUnknownHolds) {
  ErasureHarness service;
  LieOnce(service, "CreateCase");
  EXPECT_THAT(service->PlaceHold({.tenant = "t", .subject = kAnna, .reason = ""}, {}),
              HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m1", kAnna), {})->held, 2u);
  const std::string hold = service->ListHolds("t", false, {})->items.at(0).id;
  LieOnce(service, "UpdateCase");
  EXPECT_THAT(service->ReleaseHold("t", hold), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m1", kAnna), {})->erased, 2u);
  EXPECT_THAT(service->ReleaseHold("t", hold), IsOk());
}

}  // namespace
}  // namespace lethe::service
