// Erasure requests when the store fails or the process dies: at each call that changes something,
// before it and after it.
#include <sqlite3.h>

#include <filesystem>

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
  const auto made = service->CreateErasureRequest(input, {});
  ASSERT_THAT(made, IsOk()) << "the file says that it is there";
  EXPECT_EQ(service->ErasureCounts().pending, 1u) << "and the worker knows of it";
  const auto again = service->CreateErasureRequest(input, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  FailOnce(service, "CreateCase", absl::ResourceExhaustedError("full"));
  input.idempotency_key = "key-2";
  EXPECT_THAT(service->CreateErasureRequest(input, {}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(service->ListErasureRequests("t", {}, {})->items, ::testing::SizeIs(1));
  service.Run();
  EXPECT_EQ(again->id, made->id);
  EXPECT_EQ(service.Get(again->id).state, ErasureState::kCompleted);
  // What cannot be known now is not claimed, and not lost.
  input.idempotency_key = "key-3";
  service.hooks().before = [](const std::string& operation) {
    return operation == "Checkpoint" ? absl::UnavailableError("not now") : absl::OkStatus();
  };
  LieOnce(service, "CreateCase");
  EXPECT_THAT(service->CreateErasureRequest(input, {}), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(service->ErasureCounts().pending, 1u);
}

TEST(ErasureRequestFaultTest, AHoldWhoseOutcomeIsUnknownHolds) {
  ErasureHarness service;
  LieOnce(service, "CreateCase");
  const auto placed = service->PlaceHold({.tenant = "t", .subject = kAnna, .reason = ""}, {});
  ASSERT_THAT(placed, IsOk());
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m1", kAnna), {})->held, 2u);
  EXPECT_THAT(std::string(service->DeleteMemory("t", "m1", {}).status().message()),
              ::testing::HasSubstr("1 legal hold keeps"))
      << "it counts once";
  const std::string hold = service->ListHolds("t", false, {})->items.at(0).id;
  EXPECT_EQ(hold, placed->id);
  LieOnce(service, "UpdateCase");
  EXPECT_THAT(service->ReleaseHold("t", hold), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m1", kAnna), {})->erased, 2u);
  EXPECT_THAT(service->ReleaseHold("t", hold), IsOk());
}

// What was erased and certified counts, however the request ends after that.
class PartialErasureTest : public ::testing::Test {
 protected:
  // Both are in "m1"; the second one's erasures fail.
  std::string AskForBoth() {
    const std::string id =
        service_.Ask(service_.InputFor({service_.Raw(kAnna), service_.Raw(kBert)}));
    service_.hooks().before = [this](const std::string& operation) {
      return operation == "EraseTokens" && ++erasures_ >= 2 ? absl::ResourceExhaustedError("full")
                                                            : absl::OkStatus();
    };
    service_.Run();
    return id;
  }
  // One of the erasures that were wanted was made.
  void ExpectOneIsProven(const std::string& id) {
    const ErasureRequestInfo info = service_.Get(id);
    EXPECT_EQ(info.counts.erased, 2u);
    ASSERT_THAT(info.certificates, ::testing::SizeIs(1));
    EXPECT_TRUE(info.receipts);
    service_.ExpectProven(id, {kAnna, kBert});
    ErasureLog(service_);
  }

  ErasureHarness service_;
  int erasures_ = 0;
};

TEST_F(PartialErasureTest, IsKnownWhenTheRequestIsGivenUp) {
  service_.options().tenant.erasures.attempts = 3;
  service_.Restart();
  const std::string id = AskForBoth();
  EXPECT_EQ(service_.Get(id).counts.erased, 2u);
  for (int i = 0; i < 3; ++i) {
    service_.Pass(absl::Hours(1));
    service_.Run();
  }
  EXPECT_EQ(service_.Get(id).state, ErasureState::kFailed);
  EXPECT_EQ(service_->counters().erasures_ended[3], 1u);
  EXPECT_EQ(service_->counters().erasures_ended[0], 0u);
  ExpectOneIsProven(id);
}

TEST_F(PartialErasureTest, IsKnownWhenAHoldDeniesTheRest) {
  const std::string id = AskForBoth();
  service_.hooks().before = nullptr;
  service_.Hold(kBert);
  service_.Pass(absl::Hours(1));
  service_.Run();
  const ErasureRequestInfo info = service_.Get(id);
  EXPECT_EQ(info.state, ErasureState::kDenied);
  EXPECT_EQ(info.counts.held, 6u) << "both in m2, and the second in m1";
  ExpectOneIsProven(id);
}

TEST_F(PartialErasureTest, IsKnownWhenTheMemoryIsGone) {
  const std::string id = AskForBoth();
  service_.hooks().before = nullptr;
  for (const char* memory : {"m1", "m2"}) {
    ASSERT_THAT(service_->DeleteMemory("t", memory, {}), IsOk());
  }
  service_.Pass(absl::Hours(1));
  service_.Run();
  EXPECT_EQ(service_.Get(id).state, ErasureState::kCompleted);
  ExpectOneIsProven(id);
}

// It is committed, and its keys cannot be destroyed for a while.
TEST_F(PartialErasureTest, IsCompletedOnlyWhenItsKeysAreGone) {
  const std::string id = service_.Ask(kAnna);
  service_.hooks().before = [](const std::string& operation) {
    return operation == "DestroyPendingKeys" ? absl::UnavailableError("not now") : absl::OkStatus();
  };
  service_.Run();
  EXPECT_EQ(service_.Get(id).state, ErasureState::kInProgress);
  EXPECT_EQ(service_.Get(id).counts.erased, 4u) << "each memory was taken up";
  service_.hooks().before = nullptr;
  service_.Pass(absl::Hours(1));
  service_.Run();
  EXPECT_EQ(service_.Get(id).state, ErasureState::kCompleted);
  EXPECT_THAT(service_.Get(id).stores, ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(service_.Get(id).certificates, ::testing::SizeIs(2));
  service_.ExpectProven(id, {kAnna});
}

// One memory that cannot be worked on keeps nobody in the others.
TEST(ErasureRequestFaultTest, AMemoryThatFailsKeepsNobodyInTheNext) {
  ErasureHarness service;
  const std::string id = service.Ask(kAnna);
  int erasures = 0;
  service.hooks().before = [&](const std::string& operation) {
    return operation == "EraseTokens" && ++erasures == 1 ? absl::InternalError("a fault")
                                                         : absl::OkStatus();
  };
  service.Run();
  EXPECT_EQ(Tokens(service, "m1"), 7u);
  EXPECT_EQ(Tokens(service, "m2"), 5u);
  EXPECT_EQ(service.Get(id).state, ErasureState::kInProgress);
  EXPECT_EQ(service.Get(id).attempts, 1u);
  service.Pass(absl::Hours(1));
  service.Run();
  ExpectDone(service, id);
}

// A row that cannot be read is of this request alone, and comes to an end.
TEST(ErasureRequestFaultTest, ADamagedRequestHoldsNobodyUpAndEnds) {
  for (const bool facts : {false, true}) {
    SCOPED_TRACE(facts ? "facts" : "personal");
    ErasureHarness service;
    service.options().tenant.erasures.attempts = 3;
    const std::string damaged = service.Ask(kAnna);
    const std::string next = service.Ask(kBert);
    service.Stop();
    sqlite3* file = nullptr;
    ASSERT_EQ(sqlite3_open((service.data() + "/tenants/t/tenant.db").c_str(), &file), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(file,
                           facts ? "UPDATE cases SET facts = x'ff' WHERE number = 1"
                                 : "UPDATE cases SET personal = zeroblob(length(personal))"
                                   " WHERE number = 1",
                           nullptr, nullptr, nullptr),
              SQLITE_OK);
    sqlite3_close(file);
    service.Restart();
    service.Run();
    EXPECT_EQ(service.Get(next).state, ErasureState::kCompleted);
    for (int i = 0; i < 3; ++i) {
      service.Pass(absl::Hours(1));
      service.Run();
    }
    const ErasureRequestInfo info = service.Get(damaged);
    EXPECT_EQ(info.state, ErasureState::kFailed);
    EXPECT_EQ(info.failure, "data_loss");
    EXPECT_FALSE(info.personal);
    EXPECT_EQ(service->ErasureCounts().pending + service->ErasureCounts().in_progress, 0u);
    EXPECT_EQ(Tokens(service, "m1"), 5u) << "only the next one's are gone";
  }
}

// The tenant turns out to be gone while a deletion's outcome is not known.
TEST(ErasureRequestFaultTest, ATenantThatIsGoneIsWorkedOnNoMore) {
  ErasureHarness service;
  service.Ask(kAnna);
  LieOnce(service, "BeginClose");
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(absl::StatusCode::kUnavailable));
  service.Run();  // would not end
  EXPECT_EQ(service->ErasureCounts().pending, 0u);
  EXPECT_THAT(service->DeleteTenant("t", {}), IsOk());
}

TEST(ErasureRequestFaultTest, ReceiptsThatAreDiscardedAreGivenThoughTheirKeyStays) {
  ErasureHarness service;
  const std::string id = service.Ask(kAnna);
  service.Run();
  FailOnce(service, "DestroyEndedKeys", absl::UnavailableError("not now"));
  const auto receipts = service->TakeErasureReceipts("t", id, true);
  ASSERT_THAT(receipts, IsOk());
  EXPECT_THAT(*receipts, ::testing::SizeIs(2));
  EXPECT_FALSE(service.Get(id).personal);
  // Nobody asks again; the worker finishes it.
  int destroyed = 0;
  service.hooks().before = [&](const std::string& operation) {
    if (operation == "FinishEndedKeys") ++destroyed;
    return absl::OkStatus();
  };
  service.Run();
  EXPECT_EQ(destroyed, 1);
}

// What a start cannot read is counted, and tried again.
TEST(ErasureRequestFaultTest, ATenantThatAStartCannotReadIsTriedAgain) {
  ErasureHarness service;
  service.options().limits.first_retry = absl::Milliseconds(1);
  const std::string id = service.Ask(kAnna);
  service.Stop();
  const std::string file = service.data() + "/tenants/t/tenant.db";
  std::filesystem::rename(file, file + ".away");
  service.Restart();
  EXPECT_EQ(service->ErasureCounts().unknown_tenants, 1u);
  EXPECT_EQ(service->ErasureCounts().pending, 0u);
  service.Pass(absl::Seconds(5));
  service.Run();
  EXPECT_EQ(service->ErasureCounts().unknown_tenants, 1u);
  std::filesystem::rename(file + ".away", file);
  while (service->ErasureCounts().unknown_tenants > 0) {
    service.Pass(absl::Minutes(5));
    service.Run();
  }
  EXPECT_EQ(service.Get(id).state, ErasureState::kCompleted);
}

}  // namespace
}  // namespace lethe::service
