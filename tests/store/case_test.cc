// Erasure requests and holds in the tenant's file: what is sealed, how its key ends, and what a
// restore makes of them.
#include <gmock/gmock.h>

#include "tests/store/restore_fixture.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPersonal[] = "personal-part-canary";

class CaseTest : public RestoreFixture {
 protected:
  static CaseCreation Request(uint64_t number, CaseState state = CaseState::kPending) {
    CaseCreation creation;
    creation.record.id = Uid(1000 + number);
    creation.record.state = state;
    creation.record.received_micros = 10;
    creation.record.due_micros = 20;
    creation.record.wake_micros = 15;
    creation.record.facts = "facts";
    creation.personal = absl::StrCat(kPersonal, number);
    return creation;
  }
  static CaseCreation Hold(uint64_t number, const std::string& subject) {
    CaseCreation creation = Request(number, CaseState::kHeld);
    creation.record.kind = CaseKind::kHold;
    creation.record.wake_micros.reset();
    creation.subject = subject;
    return creation;
  }
  CaseRecord Make(const CaseCreation& creation) {
    auto made = store_->CreateCase(creation);
    EXPECT_OK(made);
    return made.ok() ? *made : CaseRecord{};
  }
  void End(CaseRecord record, CaseState state) {
    record.state = state;
    EXPECT_OK(store_->UpdateCase({.record = record, .personal = {}, .end_personal = true}));
    const auto destroyed = store_->DestroyEndedKeys();
    ASSERT_OK(destroyed);
    EXPECT_OK(destroyed->evidence);
    EXPECT_OK(store_->FinishEndedKeys());
  }
};

TEST_F(CaseTest, KeepsWhatItIsGivenAndFindsItAgain) {
  const CaseRecord first = Make(Request(1));
  CaseCreation creation = Request(2, CaseState::kInProgress);
  creation.record.callback_micros = 99;
  creation.request = TestRequest("key");
  const CaseRecord second = Make(creation);
  const CaseRecord hold = Make(Hold(3, "subject-17"));
  EXPECT_LT(first.number, second.number);
  EXPECT_LT(second.number, hold.number);
  EXPECT_TRUE(first.personal);
  for (const bool reopened : {false, true}) {
    SCOPED_TRACE(reopened);
    if (reopened) {
      ASSERT_OK(Open());
    }
    EXPECT_EQ(*store_->GetCase(second.id), second);
    EXPECT_EQ(*store_->GetCaseByNumber(second.number), second);
    EXPECT_EQ(*store_->GetCasePersonal(second.id), absl::StrCat(kPersonal, 2));
    EXPECT_THAT(*store_->ListCases({}), ElementsAre(first, second));
    EXPECT_THAT(*store_->ListCases({.state = CaseState::kInProgress}), ElementsAre(second));
    EXPECT_THAT(*store_->ListCases({.after_number = first.number, .limit = 1}),
                ElementsAre(second));
    EXPECT_THAT(*store_->ListCases({.kind = CaseKind::kHold}), ElementsAre(hold));
    const auto open = store_->ListOpenCases();
    ASSERT_OK(open);
    EXPECT_THAT(*open,
                ElementsAre(OpenCase{first.number, CaseState::kPending, 10, 20, 15, {}},
                            OpenCase{second.number, CaseState::kInProgress, 10, 20, 15, 99}));
    const auto held = store_->ListHeldSubjects();
    ASSERT_OK(held);
    ASSERT_THAT(*held, SizeIs(1));
    EXPECT_EQ((*held)[0].key, store_->HoldKeyOf("subject-17"));
    EXPECT_NE((*held)[0].key, store_->HoldKeyOf("subject-18"));
    EXPECT_EQ((*held)[0].hold_id, hold.id);
    EXPECT_TRUE((*store_->FindRequest("key")).has_value());
  }
}

TEST_F(CaseTest, RefusesWhatIsTakenOrWrong) {
  const CaseRecord made = Make(Request(1));
  EXPECT_CODE(store_->CreateCase(Request(1)), absl::StatusCode::kAlreadyExists);
  CaseCreation same_key = Request(2);
  same_key.request = TestRequest("key");
  EXPECT_OK(store_->CreateCase(same_key));
  same_key.record.id = Uid(7);
  EXPECT_CODE(store_->CreateCase(same_key), absl::StatusCode::kAlreadyExists);
  EXPECT_CODE(store_->GetCase(Uid(7)), absl::StatusCode::kNotFound) << "nothing of it stayed";
  CaseCreation bad = Request(3);
  bad.record.id = "x";
  EXPECT_CODE(store_->CreateCase(bad), absl::StatusCode::kInvalidArgument);
  bad = Request(3);
  bad.personal.clear();
  EXPECT_CODE(store_->CreateCase(bad), absl::StatusCode::kInvalidArgument);
  bad = Request(3);
  bad.subject = "of a hold only";
  EXPECT_CODE(store_->CreateCase(bad), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->CreateCase(Hold(4, "")), absl::StatusCode::kInvalidArgument);
  CaseRecord nobody = made;
  nobody.id = Uid(9);
  EXPECT_CODE(store_->UpdateCase({.record = nobody}), absl::StatusCode::kNotFound);
}

TEST_F(CaseTest, ThePersonalPartIsSealedAndEndsWithItsKey) {
  CaseRecord record = Make(Request(1));
  record.facts = "others";
  record.wake_micros = 77;
  ASSERT_OK(store_->UpdateCase({.record = record, .personal = "second-canary"}));
  EXPECT_EQ(*store_->GetCasePersonal(record.id), "second-canary");
  EXPECT_EQ(*store_->GetCase(record.id), record);
  const std::string copy = Copy();
  EXPECT_EQ(ReadFile(copy).find("canary"), std::string::npos);
  EXPECT_EQ(ReadFile(dir_ + "/tenant.db-wal").find("canary"), std::string::npos);

  record.state = CaseState::kCompleted;
  ASSERT_OK(store_->UpdateCase({.record = record, .personal = {}, .end_personal = true}));
  EXPECT_CODE(store_->GetCasePersonal(record.id), absl::StatusCode::kNotFound);
  EXPECT_CODE(store_->UpdateCase({.record = record, .personal = "again"}),
              absl::StatusCode::kFailedPrecondition);
  // A crash comes between the two steps.
  ASSERT_OK(Open());
  EXPECT_FALSE(store_->GetCase(record.id)->personal);
  EXPECT_THAT(*store_->ListOpenCases(), SizeIs(1)) << "its key is still to be destroyed";
  EXPECT_OK(store_->FinishEndedKeys());
  EXPECT_THAT(*store_->ListOpenCases(), SizeIs(1)) << "what is alive is not taken off the list";
  auto destroyed = store_->DestroyEndedKeys();
  ASSERT_OK(destroyed);
  EXPECT_EQ(destroyed->destroyed, 1u);
  EXPECT_OK(destroyed->evidence);
  ASSERT_OK(Open());
  destroyed = store_->DestroyEndedKeys();
  ASSERT_OK(destroyed);
  EXPECT_EQ(destroyed->already_destroyed, 1u);
  ASSERT_OK(store_->FinishEndedKeys());
  EXPECT_EQ(store_->DestroyEndedKeys()->already_destroyed, 0u);
  EXPECT_THAT(*store_->ListOpenCases(), IsEmpty());
  ASSERT_OK(Open());
  EXPECT_EQ(store_->GetCase(record.id)->state, CaseState::kCompleted);
  ExpectGoesOn();
}

TEST_F(CaseTest, AnErasureAndWhatItsRequestKnowsAreOneChange) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  CaseRecord record = Make(Request(1));
  const auto erase = [&](uint64_t handle, const CaseRecord& after) {
    return store_->EraseTokens({.memory_uid = memory_.uid,
                                .handles = {handle},
                                .certificate = NextCertificate(*store_, memory_),
                                .request = {},
                                .update = CaseUpdate{.record = after}});
  };
  CaseRecord after = record;
  after.state = CaseState::kCompleted;
  EXPECT_CODE(erase(1, after), absl::StatusCode::kInvalidArgument);
  after.state = CaseState::kInProgress;
  after.facts = "one token";
  EXPECT_CODE(erase(9, after), absl::StatusCode::kNotFound);
  EXPECT_EQ(*store_->GetCase(record.id), record);
  CaseRecord nobody = after;
  nobody.id = Uid(9);
  EXPECT_CODE(erase(1, nobody), absl::StatusCode::kNotFound);
  EXPECT_EQ(StateOf("a"), IdState::kLive);
  ASSERT_OK(erase(1, after));
  ASSERT_OK(Open());
  EXPECT_EQ(*store_->GetCase(record.id), after);
  EXPECT_EQ(StateOf("a"), IdState::kErased);
}

TEST_F(CaseTest, AHoldHoldsUntilItsPersonalPartEnds) {
  const CaseRecord first = Make(Hold(1, "subject-17"));
  const CaseRecord second = Make(Hold(2, "subject-17"));
  EXPECT_THAT(*store_->ListHeldSubjects(), SizeIs(2));
  End(first, CaseState::kReleased);
  const auto held = store_->ListHeldSubjects();
  ASSERT_OK(held);
  ASSERT_THAT(*held, SizeIs(1));
  EXPECT_EQ((*held)[0].hold_id, second.id);
  EXPECT_EQ(store_->GetCase(first.id)->state, CaseState::kReleased);
}

TEST_F(CaseTest, ARestoreKeepsWhatEndedEndedAndSaysWhatIsLost) {
  ASSERT_OK(Insert({TestRow(1, "a")}));
  const CaseRecord ends = Make(Request(1));
  const CaseRecord stays = Make(Request(2));
  const CaseRecord released = Make(Hold(3, "subject-17"));
  const CaseRecord holds = Make(Hold(4, "subject-18"));
  const std::string copy = Copy();
  End(ends, CaseState::kCompleted);
  End(released, CaseState::kReleased);
  const CaseRecord lost = Make(Request(5));
  Make(Hold(6, "subject-19"));
  Make(Hold(7, "subject-20"));

  const RestoreReport report = MustRestore(copy);
  EXPECT_EQ(report.cases_lost, (CaseCounts{.requests = 1, .holds = 2}));
  EXPECT_EQ(report.cases_ended, (CaseCounts{.requests = 1, .holds = 1}));
  EXPECT_EQ(store_->GetCase(ends.id)->state, CaseState::kFailed);
  EXPECT_FALSE(store_->GetCase(ends.id)->personal);
  CaseRecord waits = stays;
  waits.wake_micros = kHeldBackUntil;
  EXPECT_EQ(*store_->GetCase(stays.id), waits);
  EXPECT_EQ(*store_->GetCasePersonal(stays.id), absl::StrCat(kPersonal, 2));
  EXPECT_EQ(store_->GetCase(released.id)->state, CaseState::kReleased);
  EXPECT_CODE(store_->GetCase(lost.id), absl::StatusCode::kNotFound);
  const auto held = store_->ListHeldSubjects();
  ASSERT_OK(held);
  ASSERT_THAT(*held, SizeIs(1));
  EXPECT_EQ((*held)[0].hold_id, holds.id);
  EXPECT_THAT(*store_->ListOpenCases(), SizeIs(1));
  // What is made now is counted from here on.
  Make(Hold(8, "subject-21"));
  EXPECT_EQ(MustRestore(copy).cases_lost, (CaseCounts{.requests = 0, .holds = 1}));
  ExpectGoesOn();
}

// Its key is still needed, for receipts or callbacks, when the tenant is lost.
TEST_F(CaseTest, ARestoreKnowsHowARequestEndedWhoseKeyIsThere) {
  CaseRecord cancelled = Make(Request(1));
  CaseRecord completed = Make(Request(2));
  CaseRecord cut_off = Make(Request(3));
  CaseRecord released = Make(Hold(4, "subject-17"));
  const CaseRecord open = Make(Request(5));
  const std::string copy = Copy();
  cancelled.state = CaseState::kCancelled;
  cancelled.callback_micros = 33;
  ASSERT_OK(store_->UpdateCase({.record = cancelled}));
  completed.state = CaseState::kInProgress;
  ASSERT_OK(store_->UpdateCase({.record = completed}));
  completed.state = CaseState::kCompleted;
  completed.wake_micros = 99;
  completed.facts = "four certificates";
  ASSERT_OK(store_->UpdateCase({.record = completed, .personal = "nobody any more"}));
  completed.facts = "and a callback was delivered";
  ASSERT_OK(store_->UpdateCase({.record = completed}));
  // A crash comes before their keys are destroyed.
  cut_off.state = CaseState::kDenied;
  ASSERT_OK(store_->UpdateCase({.record = cut_off, .personal = {}, .end_personal = true}));
  released.state = CaseState::kReleased;
  ASSERT_OK(store_->UpdateCase({.record = released, .personal = {}, .end_personal = true}));

  for (int times = 0; times < 2; ++times) {
    SCOPED_TRACE(times);
    const RestoreReport report = MustRestore(copy);
    EXPECT_EQ(report.cases_ended, (CaseCounts{.requests = 3, .holds = 1}));
    EXPECT_EQ(report.cases_lost, CaseCounts{});
    EXPECT_EQ(*store_->GetCase(cancelled.id), cancelled);
    EXPECT_EQ(*store_->GetCase(completed.id), completed);
    EXPECT_EQ(*store_->GetCasePersonal(completed.id), absl::StrCat(kPersonal, 2));
    EXPECT_EQ(store_->GetCase(cut_off.id)->state, CaseState::kDenied);
    EXPECT_CODE(store_->GetCasePersonal(cut_off.id), absl::StatusCode::kNotFound);
    EXPECT_EQ(store_->GetCase(released.id)->state, CaseState::kReleased);
    EXPECT_THAT(*store_->ListHeldSubjects(), IsEmpty());
    CaseRecord waits = open;
    waits.wake_micros = kHeldBackUntil;
    EXPECT_EQ(*store_->GetCase(open.id), waits) << "no hold is lost as far as is known; it waits";
  }
  // Once the keys are gone the anchor needs to know no more of them.
  EXPECT_EQ(store_->DestroyEndedKeys()->destroyed, 2u);
  ASSERT_OK(store_->FinishEndedKeys());
  End(cancelled, CaseState::kCancelled);
  End(completed, CaseState::kCompleted);
  store_.reset();
  {
    const auto anchor = Anchor::Open(AnchorFile(), TestTenant().uid, TestTenant().log_origin);
    ASSERT_OK(anchor);
    EXPECT_THAT(*(*anchor)->Ended(), IsEmpty());
  }
  EXPECT_EQ(MustRestore(copy).cases_ended, (CaseCounts{.requests = 3, .holds = 1}));
  EXPECT_EQ(store_->GetCase(cancelled.id)->state, CaseState::kFailed) << "nobody knows how";
  ExpectGoesOn();
}

// Of the two files one is behind after a crash, or was put back by hand.
TEST_F(CaseTest, AnOpeningHasFileAndAnchorAgreeOnWhatEnded) {
  CaseRecord record = Make(Request(1));
  store_.reset();
  const std::string then_anchor = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  const std::string copy = Copy();
  record.state = CaseState::kCancelled;
  record.callback_micros = 33;
  ASSERT_OK(store_->UpdateCase({.record = record}));
  store_.reset();
  WriteFile(AnchorFile(), then_anchor);
  ASSERT_OK(Open()) << "the anchor follows";
  EXPECT_EQ(MustRestore(copy).cases_ended.requests, 1u);
  EXPECT_EQ(*store_->GetCase(record.id), record);
  store_.reset();
  // There is a `restored` certificate now; one that the copy lacks too would refuse it.
  const std::string now_anchor = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  store_.reset();
  EXPECT_EQ(ReadFile(AnchorFile()), now_anchor) << "they agree, so nothing is written";
}

TEST_F(CaseTest, AFileThatWasPutBackByHandRevivesNoRequest) {
  CaseRecord record = Make(Request(1));
  store_.reset();
  const std::string then = ReadFile(dir_ + "/tenant.db");
  ASSERT_OK(Open());
  record.state = CaseState::kCancelled;
  record.callback_micros = 33;
  ASSERT_OK(store_->UpdateCase({.record = record}));
  store_.reset();
  WriteFile(dir_ + "/tenant.db", then);
  ASSERT_OK(Open());
  EXPECT_EQ(*store_->GetCase(record.id), record);
}

TEST_F(CaseTest, AfterARestoreOpenRequestsWait) {
  CaseCreation late = Request(2);
  late.record.wake_micros = kHeldBackUntil + 10;
  const CaseRecord soon = Make(Request(1));
  const CaseRecord later = Make(late);
  const CaseRecord ends = Make(Request(3));
  const std::string copy = Copy();
  End(ends, CaseState::kCompleted);
  Make(Hold(4, "subject-17"));
  EXPECT_EQ(MustRestore(copy).cases_lost.holds, 1u);
  EXPECT_EQ(store_->GetCase(soon.id)->wake_micros, kHeldBackUntil);
  EXPECT_EQ(*store_->GetCase(later.id), later);
  EXPECT_EQ(store_->GetCase(ends.id)->wake_micros, std::nullopt);
}

// What fails after the anchor has its certificate leaves the count of what is lost as it was.
TEST_F(CaseTest, ARestoreThatIsRepeatedSaysTheSame) {
  const std::string copy = Copy();
  Make(Request(1));
  Make(Hold(2, "subject-17"));
  store_.reset();
  const std::string dir = NewFolder();
  std::filesystem::copy_file(copy, dir + "/tenant.db");
  const auto first = RestoreTenantStore(dir, options_, Certifier(), kHeldBackUntil);
  ASSERT_OK(first);
  EXPECT_EQ(first->cases_lost, (CaseCounts{.requests = 1, .holds = 1}));
  // The file does not come into its place.
  EXPECT_EQ(MustRestore(copy).cases_lost, (CaseCounts{.requests = 1, .holds = 1}));
  EXPECT_EQ(MustRestore(copy).cases_lost, CaseCounts{}) << "it is in its place now";
}

// The anchor did not learn of the last one before a crash.
TEST_F(CaseTest, AnOpeningTellsTheAnchorOfCases) {
  const std::string copy = Copy();
  store_.reset();
  const std::string closed = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  Make(Request(1));
  Make(Hold(2, "subject-17"));
  store_.reset();
  WriteFile(AnchorFile(), closed);
  ASSERT_OK(Open());
  EXPECT_EQ(MustRestore(copy).cases_lost, (CaseCounts{.requests = 1, .holds = 1}));
}

TEST_F(CaseTest, ACloseTakesThemAll) {
  Make(Request(1));
  Make(Hold(2, "subject-17"));
  ASSERT_OK(CloseWith(*store_, NextCertificate(*store_->GetLogHead())));
  EXPECT_THAT(*store_->ListOpenCases(), IsEmpty());
  EXPECT_THAT(*store_->ListCases({}), IsEmpty());
}

}  // namespace
}  // namespace lethe::store
