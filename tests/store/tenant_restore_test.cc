// A tenant goes on from a copy: what was erased after it stays erased, what was retained is there
// bit for bit, and the log is the one that was given out.
#include "store/tenant_restore.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/restore_fixture.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What happens to a tenant between its copy and its loss, and what the restore finds.
struct Case {
  std::string name;
  std::function<absl::Status(TenantStore& store)> run = {};
  uint64_t certificates = 1;
  std::vector<uint64_t> retained = {};  // handles, in the first memory
  std::vector<std::string> erased = {};
  std::vector<std::string> unknown = {};
  uint64_t removed = 0;
  uint64_t unreadable = 0;
  uint64_t memories_removed = 0;
};

const MemoryRecord& First() {
  static const MemoryRecord memory = TestMemory(1);
  return memory;
}
const MemoryRecord& Second() {
  static const MemoryRecord memory = TestMemory(2);
  return memory;
}

// The rows that every copy has: two of a subject, two of another, two of nobody; one of each in the
// second memory, with ids that are in the first as well.
std::vector<TokenRow> FirstRows() {
  return {TestRow(1, "a1", "anna"),  TestRow(2, "a2", "anna"), TestRow(3, "b1", "berta"),
          TestRow(4, "b2", "berta"), TestRow(5, "n1"),         TestRow(6, "n2")};
}
std::vector<TokenRow> SecondRows() { return {TestRow(1, "a1", "anna"), TestRow(2, "n1")}; }

absl::Status EraseIn(TenantStore& store,
                     const MemoryRecord& memory,
                     std::vector<uint64_t> handles,
                     std::vector<TokenRow> replacements = {}) {
  return store
      .EraseTokens({memory.uid,
                    std::move(handles),
                    NextCertificate(store, memory),
                    {},
                    std::move(replacements)})
      .status();
}

std::vector<Case> Cases() {
  return {
      {.name = "Nothing",
       .run = [](TenantStore&) { return absl::OkStatus(); },
       .certificates = 0,
       .retained = {1, 2, 3, 4, 5, 6}},
      {.name = "OnlyInserts",
       .run =
           [](TenantStore& store) {
             return store.InsertTokens(
                 First().uid, std::vector<TokenRow>{TestRow(7, "late"), TestRow(8, "c", "anna")});
           },
       .certificates = 0,
       .retained = {1, 2, 3, 4, 5, 6},
       .unknown = {"late", "c"}},
      {.name = "ATokenOfNobody",
       .run = [](TenantStore& store) { return EraseIn(store, First(), {5}); },
       .retained = {1, 2, 3, 4, 6},
       .erased = {"n1"},
       .removed = 1},
      {.name = "AWholeSubject",
       .run =
           [](TenantStore& store) {
             return EraseIn(store, First(), {2, 1});
           },
       .retained = {3, 4, 5, 6},
       .erased = {"a1", "a2"},
       .removed = 2},
      // The rest of the subject was sealed anew, and the copy has it under the key that is gone.
      {.name = "APartOfASubject",
       .run = [](TenantStore& store) { return EraseIn(store, First(), {1}); },
       .retained = {3, 4, 5, 6},
       .erased = {"a1"},
       .unknown = {"a2"},
       .removed = 1,
       .unreadable = 1},
      // Both are erased, one after the other: none of them is merely lost.
      {.name = "ASubjectInTwoParts",
       .run =
           [](TenantStore& store) {
             const absl::Status first = EraseIn(store, First(), {1});
             return first.ok() ? EraseIn(store, First(), {2}) : first;
           },
       .certificates = 2,
       .retained = {3, 4, 5, 6},
       .erased = {"a1", "a2"},
       .removed = 2},
      // What the copy does not have names a key that it has.
      {.name = "ALateTokenOfAnEarlySubject",
       .run =
           [](TenantStore& store) {
             const absl::Status inserted =
                 store.InsertTokens(First().uid, std::vector<TokenRow>{TestRow(7, "a3", "anna")});
             return inserted.ok() ? EraseIn(store, First(), {7}) : inserted;
           },
       .retained = {3, 4, 5, 6},
       .unknown = {"a1", "a2", "a3"},
       .unreadable = 2},
      {.name = "ALateTokenOfNobody",
       .run =
           [](TenantStore& store) {
             const absl::Status inserted =
                 store.InsertTokens(First().uid, std::vector<TokenRow>{TestRow(7, "late")});
             return inserted.ok() ? EraseIn(store, First(), {7}) : inserted;
           },
       .retained = {1, 2, 3, 4, 5, 6},
       .unknown = {"late"}},
      {.name = "AnEdit",
       .run =
           [](TenantStore& store) {
             TokenRow edited = TestRow(7, "n2");
             edited.payload = "corrected";
             return EraseIn(store, First(), {6}, {edited});
           },
       .retained = {1, 2, 3, 4, 5},
       .erased = {"n2"},
       .removed = 1},
      {.name = "SomeOfEverybody",
       .run =
           [](TenantStore& store) {
             return EraseIn(store, First(), {1, 2, 4, 6});
           },
       .retained = {5},
       .erased = {"a1", "a2", "b2", "n2"},
       .unknown = {"b1"},
       .removed = 4,
       .unreadable = 1},
      {.name = "AWholeMemory",
       .run =
           [](TenantStore& store) {
             return store
                 .DeleteMemory({Second().uid, NextCertificate(store, Second()), std::nullopt})
                 .status();
           },
       .retained = {1, 2, 3, 4, 5, 6},
       .removed = 2,
       .memories_removed = 1},
      {.name = "ALateMemory",
       .run =
           [](TenantStore& store) {
             const MemoryRecord late = TestMemory(3);
             absl::Status status = store.CreateMemory(late);
             if (status.ok()) {
               status = store.InsertTokens(late.uid, std::vector<TokenRow>{TestRow(1, "late")});
             }
             if (status.ok()) status = EraseIn(store, late, {1});
             return status;
           },
       .retained = {1, 2, 3, 4, 5, 6}},
      {.name = "TwoMemories",
       .run =
           [](TenantStore& store) {
             const absl::Status first = EraseIn(store, First(), {1, 2});
             return first.ok() ? EraseIn(store, Second(), {1}) : first;
           },
       .certificates = 2,
       .retained = {3, 4, 5, 6},
       .erased = {"a1", "a2"},
       .removed = 3},
  };
}

// Whether the keys of the erasures were destroyed before the tenant was lost.
enum class End { kCertified, kDestroyed, kPending };

class RestoreCase : public RestoreFixture,
                    public ::testing::WithParamInterface<std::tuple<size_t, End>> {
 protected:
  const Case& Now() {
    static const std::vector<Case> cases = Cases();
    return cases[std::get<0>(GetParam())];
  }
};

TEST_P(RestoreCase, NobodyIsBackAndWhatIsRetainedIsTheSame) {
  const Case& now = Now();
  const End end = std::get<1>(GetParam());
  ASSERT_OK(store_->CreateMemory(other_));
  ASSERT_OK(Insert(FirstRows()));
  ASSERT_OK(Insert(SecondRows(), other_));
  // Of before the copy: it stays what it was.
  ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
  ASSERT_OK(store_->RecordRequest(TestRequest("before")));
  const std::string copy = Copy();

  ASSERT_OK(now.run(*store_));
  const std::vector<PendingErasure> pending = *store_->PendingErasures();
  if (end == End::kCertified) {
    ASSERT_TRUE(FinishErasures(*store_));
  }
  if (end == End::kDestroyed) {
    ASSERT_OK(store_->DestroyPendingKeys(100));
  }
  const std::vector<CertificateRecord> log = WholeLog(*store_);
  EXPECT_EQ(log.size(), 1 + now.certificates + (end == End::kCertified && now.certificates > 0));

  const RestoreReport report = MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(report.tenant.uid, TestTenant().uid);
  EXPECT_EQ(report.copy_size, 1u);
  EXPECT_EQ(report.reapplied, log.size() - 1);
  EXPECT_EQ(report.removed, now.removed);
  EXPECT_EQ(report.unreadable, now.unreadable);
  EXPECT_EQ(report.memories_removed, now.memories_removed);
  EXPECT_EQ(certified_.removed, now.removed);
  EXPECT_EQ(certified_.unreadable, now.unreadable);
  EXPECT_EQ(certified_keys_, (std::vector<LogKey>{{0, TestStart().vkey}}));

  std::vector<TokenRow> retained;
  for (const TokenRow& row : FirstRows()) {
    if (testing::Matches(testing::Contains(row.handle))(now.retained)) retained.push_back(row);
  }
  EXPECT_EQ(Rows(), retained);
  for (const std::string& id : now.erased) EXPECT_EQ(StateOf(id), IdState::kErased) << id;
  for (const std::string& id : now.unknown) EXPECT_EQ(StateOf(id), IdState::kUnknown) << id;
  for (const TokenRow& row : retained) EXPECT_EQ(StateOf(row.id), IdState::kLive) << row.id;
  EXPECT_EQ(store_->CountMemory(memory_.uid)->tombstones, now.erased.size());
  EXPECT_EQ(*store_->CountMemories(), 2 - now.memories_removed);
  if (now.memories_removed == 0) {
    const bool there = now.name != "TwoMemories";
    EXPECT_EQ(LoadAll(*store_, other_.uid).size(), there ? 2u : 1u);
    EXPECT_EQ(StateOf("a1", other_), there ? IdState::kLive : IdState::kErased);
  }

  std::vector<CertificateRecord> now_log = WholeLog(*store_);
  ASSERT_EQ(now_log.size(), log.size() + 1);
  EXPECT_EQ(now_log.back().kind, "restored");
  now_log.pop_back();
  EXPECT_EQ(now_log, log);
  EXPECT_TRUE((*store_->FindRequest("before")).has_value());
  EXPECT_EQ(*store_->PendingErasures(),
            end == End::kCertified ? std::vector<PendingErasure>() : pending);
  ExpectAnchorIsTheLog();  // opens it again
  EXPECT_EQ(Rows(), retained);
  if (end != End::kPending) return;  // the most that is left to do
  ASSERT_TRUE(FinishErasures(*store_));
  EXPECT_THAT(*store_->PendingErasures(), IsEmpty());
  ExpectGoesOn();
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<size_t, End>>& info) {
  const char* ends[] = {"Certified", "Destroyed", "Pending"};
  return absl::StrCat(Cases()[std::get<0>(info.param)].name,
                      ends[static_cast<int>(std::get<1>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RestoreCase,
    ::testing::Combine(::testing::Range(size_t{0}, Cases().size()),
                       ::testing::Values(End::kCertified, End::kDestroyed, End::kPending)),
    NameOf);

class RestoreTest : public RestoreFixture {};

TEST_F(RestoreTest, WhatWasPendingInTheCopyIsOverWhenItsCertificateCameLater) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b"), TestRow(3, "c"), TestRow(4, "d")}));
  ASSERT_OK(Erase({1}));
  ASSERT_OK(Erase({2}));
  const std::string copy = Copy();  // both are pending in it
  ASSERT_OK(store_->DestroyPendingKeys(0));
  ASSERT_OK(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 0));
  ASSERT_OK(Erase({3}));
  ASSERT_THAT(*store_->PendingErasures(), ElementsAre(PendingErasure{1, 1}, PendingErasure{3, 1}));
  MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  // The same two, of which the first has its slots from the copy and the second from the anchor.
  EXPECT_THAT(*store_->PendingErasures(), ElementsAre(PendingErasure{1, 1}, PendingErasure{3, 1}));
  const auto destroyed = store_->DestroyPendingKeys(3);
  ASSERT_OK(destroyed);
  EXPECT_EQ(destroyed->destroyed, 2u);
  EXPECT_EQ(destroyed->already_destroyed, 0u);
  ASSERT_TRUE(FinishErasures(*store_));
  EXPECT_EQ(Rows(), (std::vector<TokenRow>{TestRow(4, "d")}));
  ExpectGoesOn();
}

TEST_F(RestoreTest, ACopyOfTheWholeLogKeepsWhatIsPending) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  ASSERT_OK(Erase({1}));
  const std::string copy = Copy();
  const RestoreReport report = MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(report.reapplied, 0u);
  EXPECT_THAT(*store_->PendingErasures(), ElementsAre(PendingErasure{0, 1}));
  EXPECT_EQ(store_->DestroyPendingKeys(0)->destroyed, 1u);
  ExpectGoesOn();
}

TEST_F(RestoreTest, AHandOverOfTheKeyIsPutBackWithTheKey) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  const std::string copy = Copy();
  ASSERT_OK(Erase({1}));
  CertificateAppend hand_over = NextCertificate(*store_->GetLogHead());
  hand_over.next_vkey = "key two";
  ASSERT_OK(store_->AppendCertificate(hand_over));
  ASSERT_TRUE(FinishErasures(*store_));
  const std::vector<LogKey> keys = *store_->GetLogKeys();
  ASSERT_EQ(keys.size(), 2u);
  MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(*store_->GetLogKeys(), keys);
  EXPECT_EQ(certified_keys_, keys);
  ExpectGoesOn();
}

TEST_F(RestoreTest, OneCopyCanBeRestoredTwiceAndEachTimeIsInTheLog) {
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c")}));
  const std::string copy = Copy();
  ASSERT_OK(Erase({1}));
  ASSERT_TRUE(FinishErasures(*store_));
  const RestoreReport first = MustRestore(copy);
  const RestoreReport second = MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(second.reapplied, first.reapplied + 1);
  EXPECT_EQ(second.removed, first.removed);
  EXPECT_EQ(second.unreadable, first.unreadable);
  const std::vector<CertificateRecord> log = WholeLog(*store_);
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(log[2].kind, "restored");
  EXPECT_EQ(log[3].kind, "restored");
  EXPECT_EQ(Rows(), (std::vector<TokenRow>{TestRow(3, "c")}));
  ExpectGoesOn();
}

// Two lives after one copy: what the second erased must not take a row of the first for its own.
TEST_F(RestoreTest, ACopyOfALifeThatARestoreGaveUpTakesNothingOfTheNext) {
  ASSERT_OK(Insert({TestRow(1, "a", "x")}));
  const std::string early = Copy();
  ASSERT_OK(Insert({TestRow(2, "old life", "x"), TestRow(3, "old life, of nobody")}));
  const std::string late = Copy();
  MustRestore(early);
  ASSERT_NE(store_, nullptr);
  // Its key went with the restore, and that of "old life" is the subject's.
  const uint64_t next = store_->GetMemory(memory_.uid)->next_handle;
  EXPECT_GT(next, 3u);
  ASSERT_OK(Insert({TestRow(next, "new life")}));
  ASSERT_OK(Erase({next}));
  ASSERT_TRUE(FinishErasures(*store_));
  const RestoreReport report = MustRestore(late);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(report.removed, 0u);
  EXPECT_EQ(report.unreadable, 1u);
  EXPECT_EQ(Rows(), (std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "old life", "x")}));
  // And the subject is erased as a whole, in every copy.
  ASSERT_OK(Erase({1, 2}));
  ASSERT_TRUE(FinishErasures(*store_));
  for (const std::string& copy : {early, late}) {
    MustRestore(copy);
    ASSERT_NE(store_, nullptr);
    EXPECT_THAT(Rows(), IsEmpty());
  }
  ExpectGoesOn();
}

// The subject was erased in a life that did not know of the row: it does not come back with a copy
// of the other life, whether its key is destroyed yet or not.
TEST_F(RestoreTest, ASubjectThatWasErasedComesBackWithNoCopy) {
  for (const bool finish : {true, false}) {
    SCOPED_TRACE(finish);
    if (!finish) {
      std::filesystem::remove_all(vault_);
      Create();
    }
    ASSERT_OK(Insert({TestRow(1, "a", "x")}));
    const std::string early = Copy();
    ASSERT_OK(Insert({TestRow(2, "b", "x")}));
    const std::string late = Copy();
    MustRestore(early);
    ASSERT_NE(store_, nullptr);
    ASSERT_OK(Erase({1}));
    if (finish) {
      ASSERT_TRUE(FinishErasures(*store_));
    }
    const RestoreReport report = MustRestore(late);
    ASSERT_NE(store_, nullptr);
    EXPECT_EQ(report.removed, 1u);
    EXPECT_EQ(report.unreadable, 1u);
    EXPECT_THAT(Rows(), IsEmpty());
    ASSERT_TRUE(FinishErasures(*store_));
  }
}

TEST_F(RestoreTest, NoHandleAndNoKeyIsGivenOutAgain) {
  const std::string empty = Copy();
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b"), TestRow(3, "c")}));
  const std::string copy = Copy();
  ASSERT_OK(Insert({TestRow(4, "late", "x"), TestRow(900, "later", "x"), TestRow(901, "latest")}));
  const RestoreReport report = MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_GE(report.keys_destroyed, 1u);
  const uint64_t next = store_->GetMemory(memory_.uid)->next_handle;
  EXPECT_GT(next, 901u);
  EXPECT_CODE(Insert({TestRow(901, "again")}), absl::StatusCode::kInvalidArgument);
  ASSERT_OK(Insert({TestRow(next, "new"), TestRow(next + kHandleBlock, "far")}));
  store_.reset();
  // Slot 1 is the tenant's, 2 that of x, 3 and 4 of b and c, 5 of "latest".
  EXPECT_EQ(RunRaw(dir_ + "/tenant.db", "SELECT min(slot) FROM tokens WHERE handle > 3").text,
            RunRaw(KeysFile(), "SELECT max(slot) + 1 FROM slots WHERE body = zeroblob(96)").text);
  EXPECT_EQ(RunRaw(KeysFile(),
                   "SELECT count(*) FROM slots WHERE slot < 5 AND body ="
                   " zeroblob(96)")
                .text,
            "0");
  // A copy that is older than the first handle of all.
  MustRestore(empty);
  ASSERT_NE(store_, nullptr);
  EXPECT_GT(store_->GetMemory(memory_.uid)->next_handle, next + kHandleBlock);
  EXPECT_THAT(Rows(), IsEmpty());
  ExpectGoesOn();
}

// An anchor that was put back and followed the log again does not know what was erased meanwhile;
// the keys tell.
TEST_F(RestoreTest, WhatAnOlderAnchorDoesNotKnowIsGoneAllTheSame) {
  ASSERT_OK(store_->CreateMemory(other_));
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b", "x"), TestRow(3, "c")}));
  ASSERT_OK(Insert({TestRow(1, "z")}, other_));
  const std::string copy = Copy();
  store_.reset();
  const std::string old = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  ASSERT_OK(Erase({1}));
  ASSERT_OK(store_->DeleteMemory({other_.uid, NextCertificate(*store_, other_), std::nullopt}));
  ASSERT_TRUE(FinishErasures(*store_));
  ASSERT_OK(Erase({2}));
  const std::vector<CertificateRecord> log = WholeLog(*store_);
  store_.reset();
  WriteFile(AnchorFile(), old);
  ASSERT_OK(Open());
  const RestoreReport report = MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(report.reapplied, log.size());
  EXPECT_EQ(report.removed, 2u);  // of the pending erasure, and with the memory
  EXPECT_EQ(report.unreadable, 1u);
  EXPECT_EQ(report.memories_removed, 1u);
  EXPECT_EQ(Rows(), (std::vector<TokenRow>{TestRow(3, "c")}));
  EXPECT_EQ(StateOf("a"), IdState::kUnknown);
  EXPECT_EQ(StateOf("b"), IdState::kErased);
  EXPECT_THAT(*store_->PendingErasures(), ElementsAre(PendingErasure{3, 1}));
  ExpectGoesOn();
}

// The bound on handles may be older than the log, in an anchor that was put back.
TEST_F(RestoreTest, AnOlderBoundOnHandlesIsRaisedByTheNextOpening) {
  const std::string copy = Copy();
  store_.reset();
  const std::string old = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  ASSERT_OK(Insert({TestRow(7, "a")}));
  store_.reset();
  WriteFile(AnchorFile(), old);
  ASSERT_OK(Open());
  MustRestore(copy);
  ASSERT_NE(store_, nullptr);
  EXPECT_GT(store_->GetMemory(memory_.uid)->next_handle, 7u);
}

}  // namespace
}  // namespace lethe::store
