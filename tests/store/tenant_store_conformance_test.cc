// What every engine behind TenantStore must do. A second engine joins by a line in AllEngines().
// Reopen() after each step: whatever was acknowledged must come from the disk, not from the object.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/store/conformance_fixture.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_P(Conformance, TenantSurvivesReopening) {
  Reopen();
  auto tenant = store_->GetTenant();
  ASSERT_OK(tenant);
  EXPECT_EQ(tenant->name, "acme");
  EXPECT_EQ(tenant->uid, TestTenant().uid);
  EXPECT_EQ(tenant->log_origin, "lethe.example/log/acme");
  EXPECT_EQ(tenant->create_time_micros, 1'700'000'000'000'001);
  EXPECT_EQ(tenant->state, TenantState::kOpen);
}

TEST_P(Conformance, MemoriesAreListedInPagesByName) {
  for (uint64_t i = 2; i <= 9; ++i) ASSERT_OK(store_->CreateMemory(TestMemory(i)));
  Reopen();
  std::vector<std::string> names;
  std::string after;
  while (true) {
    auto page = store_->ListMemories(after, 4);
    ASSERT_OK(page);
    if (page->empty()) break;
    EXPECT_LE(page->size(), 4u);
    for (const MemoryRecord& memory : *page) names.push_back(memory.name);
    after = page->back().name;
  }
  EXPECT_EQ(names.size(), 9u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(*store_->CountMemories(), 9u);
  EXPECT_CODE(store_->ListMemories("", 0), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->ListMemories("", kMaxPageSize + 1), absl::StatusCode::kInvalidArgument);
}

TEST_P(Conformance, MemoryComesBackByUidAndName) {
  Reopen();
  for (const auto& found :
       {store_->GetMemory(memory_.uid), store_->GetMemoryByName(memory_.name)}) {
    ASSERT_OK(found);
    EXPECT_EQ(found->uid, memory_.uid);
    EXPECT_EQ(found->name, memory_.name);
    EXPECT_EQ(found->config, memory_.config);
    EXPECT_EQ(found->create_time_micros, memory_.create_time_micros);
    EXPECT_EQ(found->next_handle, 1u);
  }
  EXPECT_CODE(store_->GetMemory(Uid(99)), absl::StatusCode::kNotFound);
  EXPECT_CODE(store_->GetMemoryByName("nobody"), absl::StatusCode::kNotFound);
}

TEST_P(Conformance, MemoryNamesAndUidsAreUnique) {
  MemoryRecord same_name = TestMemory(2);
  same_name.name = memory_.name;
  EXPECT_CODE(store_->CreateMemory(same_name), absl::StatusCode::kAlreadyExists);
  MemoryRecord same_uid = TestMemory(2);
  same_uid.uid = memory_.uid;
  EXPECT_CODE(store_->CreateMemory(same_uid), absl::StatusCode::kAlreadyExists);
  MemoryRecord bad_uid = TestMemory(2);
  bad_uid.uid = "XYZ";
  EXPECT_CODE(store_->CreateMemory(bad_uid), absl::StatusCode::kInvalidArgument);
  Reopen();
  EXPECT_EQ(*store_->CountMemories(), 1u);
}

TEST_P(Conformance, TokensComeBackBitForBitInOrder) {
  const std::vector<TokenRow> rows = {TestRow(1, "a", "s"), TestRow(5, "b"), TestRow(6, "c", "s")};
  ASSERT_OK(Insert(rows));
  Reopen();
  EXPECT_EQ(LoadAll(*store_, memory_.uid), rows);
  EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, 7u);
  auto got = store_->GetTokens(memory_.uid, std::vector<uint64_t>{6, 1});
  ASSERT_OK(got);
  EXPECT_THAT(*got, ElementsAre(rows[2], rows[0]));
  EXPECT_TRUE(std::signbit((*got)[0].key[1]));  // -0.0 == 0.0 would hide a lost sign
  auto missing = store_->GetTokens(memory_.uid, std::vector<uint64_t>{1, 2});
  EXPECT_CODE(missing, absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("handles[1]"));
}

TEST_P(Conformance, VisitorStopsTheLoad) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  int visited = 0;
  EXPECT_CODE(store_->LoadTokens(memory_.uid,
                                 [&](TokenRow&) {
                                   ++visited;
                                   return absl::CancelledError("enough");
                                 }),
              absl::StatusCode::kCancelled);
  EXPECT_EQ(visited, 1);
  EXPECT_EQ(LoadAll(*store_, memory_.uid).size(), 2u);
}

TEST_P(Conformance, ABatchIsInsertedWholeOrNotAtAll) {
  ASSERT_OK(Insert({TestRow(1, "a")}));
  struct Case {
    std::vector<TokenRow> rows;
    absl::StatusCode code;
    std::string message;
  };
  TokenRow long_id = TestRow(3, std::string(kMaxIdBytes + 1, 'x'));
  TokenRow long_row = TestRow(3, "c");
  long_row.payload.resize(kMaxRowBytes);
  const std::vector<Case> cases = {
      {{TestRow(2, "b"), TestRow(3, "a")}, absl::StatusCode::kAlreadyExists, "tokens[1].id"},
      {{TestRow(2, "b"), TestRow(3, "b")}, absl::StatusCode::kAlreadyExists, "tokens[1].id"},
      {{TestRow(2, "b"), TestRow(2, "c")}, absl::StatusCode::kInvalidArgument, "tokens[1].handle"},
      {{TestRow(1, "b")}, absl::StatusCode::kInvalidArgument, "tokens[0].handle"},
      {{TestRow(0, "b")}, absl::StatusCode::kInvalidArgument, "tokens[0].handle"},
      {{TestRow(~uint64_t{0}, "b")}, absl::StatusCode::kInvalidArgument, "tokens[0].handle"},
      {{TestRow(2, "b"), TestRow(3, "")}, absl::StatusCode::kInvalidArgument, "tokens[1].id"},
      {{TestRow(2, "b"), long_id}, absl::StatusCode::kInvalidArgument, "tokens[1].id"},
      {{TestRow(2, "b"), long_row}, absl::StatusCode::kInvalidArgument, "tokens[1]"},
      {{}, absl::StatusCode::kInvalidArgument, "tokens"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const absl::Status status = Insert(c.rows);
    EXPECT_CODE(status, c.code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    Reopen();
    EXPECT_THAT(LoadAll(*store_, memory_.uid), ElementsAre(TestRow(1, "a")));
    EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, 2u);
  }
  EXPECT_CODE(store_->InsertTokens(Uid(9), std::vector<TokenRow>{TestRow(1, "a")}),
              absl::StatusCode::kNotFound);
}

// Of several parts: a bad row in any of them, and none of them is there; then all are, in order.
TEST_P(Conformance, ALargeBatchIsInsertedWholeOrNotAtAll) {
  ASSERT_OK(store_->InsertTokens(memory_.uid, std::vector<TokenRow>{TestRow(1, "first", "s")}));
  std::vector<TokenRow> good;
  for (uint64_t handle = 2; handle <= 2600; ++handle) {
    const std::string subject = handle % 3 == 0 ? absl::StrCat("s", handle % 50) : "";
    good.push_back(TestRow(handle, absl::StrCat("id", handle), subject));
  }
  for (const size_t bad : {size_t{0}, size_t{249}, size_t{250}, size_t{1700}, good.size() - 1}) {
    std::vector<TokenRow> rows = good;
    rows[bad].id = "first";
    const absl::Status taken = store_->InsertTokens(memory_.uid, rows);
    EXPECT_CODE(taken, absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(taken.message()), HasSubstr(absl::StrCat("tokens[", bad, "].id")));
    rows[bad].id = "";
    const absl::Status empty = store_->InsertTokens(memory_.uid, rows);
    EXPECT_CODE(empty, absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(empty.message()), HasSubstr(absl::StrCat("tokens[", bad, "].id")));
    rows[bad].id = "long";
    rows[bad].payload.assign(kMaxRowBytes, 'x');
    const absl::Status longer = store_->InsertTokens(memory_.uid, rows);
    EXPECT_CODE(longer, absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(longer.message()), HasSubstr(absl::StrCat("tokens[", bad, "]")));
    EXPECT_EQ(store_->CountMemory(memory_.uid)->tokens, 1u);
  }
  ASSERT_OK(store_->InsertTokens(memory_.uid, good));
  std::vector<TokenRow> stored = LoadAll(*store_, memory_.uid);
  ASSERT_EQ(stored.size(), good.size() + 1);
  stored.erase(stored.begin());
  EXPECT_EQ(stored, good);
}

TEST_P(Conformance, MessagesHoldNoContent) {
  ASSERT_OK(Insert({TestRow(1, "secret-id", "secret-subject")}));
  const absl::Status status = Insert({TestRow(2, "secret-id", "secret-subject")});
  EXPECT_CODE(status, absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

TEST_P(Conformance, SubjectsAreFoundAndCounted) {
  ASSERT_OK(
      Insert({TestRow(1, "a", "x"), TestRow(2, "b", "y"), TestRow(3, "c"), TestRow(4, "d", "x")}));
  const MemoryRecord other = TestMemory(2);
  ASSERT_OK(store_->CreateMemory(other));
  ASSERT_OK(store_->InsertTokens(other.uid, std::vector<TokenRow>{TestRow(1, "a", "x")}));
  Reopen();
  EXPECT_THAT(*store_->FindBySubject(memory_.uid, "x"), ElementsAre(1, 4));
  EXPECT_THAT(*store_->FindBySubject(memory_.uid, "y"), ElementsAre(2));
  EXPECT_THAT(*store_->FindBySubject(memory_.uid, "z"), ElementsAre());
  EXPECT_CODE(store_->FindBySubject(memory_.uid, ""), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Counts().tokens, 4u);
  EXPECT_EQ(Counts().subjects, 2u);
  EXPECT_EQ(Counts().tombstones, 0u);
}

TEST_P(Conformance, RequestsAreAnsweredOnce) {
  EXPECT_EQ(*store_->FindRequest("r"), std::nullopt);
  ASSERT_OK(store_->RecordRequest(TestRequest("r")));
  Reopen();
  EXPECT_EQ(*store_->FindRequest("r"), TestRequest("r"));
  RequestRecord other = TestRequest("r");
  other.answer = "another";
  EXPECT_CODE(store_->RecordRequest(other), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*store_->FindRequest("r"), TestRequest("r"));
}

TEST_P(Conformance, ADeletedMemoryIsGoneAndItsNamesakeIsEmpty) {
  const MemoryRecord other = TestMemory(2);
  ASSERT_OK(store_->CreateMemory(other));
  ASSERT_OK(store_->InsertTokens(other.uid, std::vector<TokenRow>{TestRow(1, "a", "x")}));
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b")}));
  ASSERT_OK(store_->EraseTokens(Erase({2})));

  DeleteMemoryRequest request{memory_.uid, std::nullopt, std::nullopt};
  EXPECT_CODE(store_->DeleteMemory(request), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Counts().tokens, 1u);
  request.certificate = NextCertificate(*store_, memory_);
  request.request = TestRequest("delete");
  auto result = store_->DeleteMemory(request);
  ASSERT_OK(result);
  EXPECT_EQ(result->erased, 1u);
  EXPECT_OK(result->checkpoint);
  Reopen();
  EXPECT_CODE(store_->GetMemory(memory_.uid), absl::StatusCode::kNotFound);
  EXPECT_CODE(store_->LoadTokens(memory_.uid, [](TokenRow&) { return absl::OkStatus(); }),
              absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadAll(*store_, other.uid).size(), 1u);
  EXPECT_EQ(store_->GetLogHead()->count, 2u);
  EXPECT_NE(*store_->FindRequest("delete"), std::nullopt);

  MemoryRecord namesake = TestMemory(3);
  namesake.name = memory_.name;
  ASSERT_OK(store_->CreateMemory(namesake));
  memory_ = namesake;
  Reopen();
  EXPECT_THAT(States({"a", "b"}), ElementsAre(IdState::kUnknown, IdState::kUnknown));
  EXPECT_EQ(Counts().tokens, 0u);
  // An empty memory may go without a certificate.
  ASSERT_OK(store_->DeleteMemory({memory_.uid, std::nullopt, std::nullopt}));
  EXPECT_CODE(store_->DeleteMemory({memory_.uid, std::nullopt, std::nullopt}),
              absl::StatusCode::kNotFound);
}

TEST_P(Conformance, AClosedTenantKeepsItsLogAndNothingElse) {
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b")}));
  ASSERT_OK(store_->EraseTokens(Erase({2})));
  ASSERT_OK(store_->CreateMemory(TestMemory(2)));
  ASSERT_OK(store_->RecordRequest(TestRequest("r")));
  CertificateAppend closing = NextCertificate(*store_->GetLogHead());
  CertificateAppend refused = closing;
  refused.verify = [](const WrittenCertificate&) { return absl::AbortedError("no"); };
  EXPECT_CODE(store_->DestroyAllKeys(), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(store_->FinishClose(closing), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Counts().tokens, 1u);

  for (int round = 0; round < 3; ++round) {  // every step can be repeated, after a reopening too
    auto result = store_->BeginClose();
    ASSERT_OK(result);
    EXPECT_EQ(result->erased, 1u);
    EXPECT_OK(result->checkpoint);
    EXPECT_EQ(store_->GetTenant()->state, TenantState::kClosing);
    EXPECT_EQ(*store_->CountMemories(), 0u);
    EXPECT_CODE(store_->CreateMemory(TestMemory(5)), absl::StatusCode::kFailedPrecondition);
    EXPECT_CODE(store_->FinishClose(closing), absl::StatusCode::kFailedPrecondition);
    if (round == 1) Reopen();
  }
  // The log goes on: a hand-over may come in between.
  ASSERT_OK(store_->AppendCertificate(closing));
  closing = NextCertificate(*store_->GetLogHead());
  refused = closing;
  refused.verify = [](const WrittenCertificate&) { return absl::AbortedError("no"); };
  for (int round = 0; round < 3; ++round) {
    auto destroyed = store_->DestroyAllKeys();
    ASSERT_OK(destroyed);
    EXPECT_OK(destroyed->evidence);
    EXPECT_EQ(destroyed->destroyed > 0, round == 0);
    EXPECT_CODE(store_->FinishClose(refused), absl::StatusCode::kAborted);
    if (round == 1) Reopen();
  }
  ASSERT_OK(store_->FinishClose(closing));
  for (int round = 0; round < 2; ++round) {
    EXPECT_OK(store_->FinishClose(closing));
    EXPECT_EQ(store_->GetTenant()->state, TenantState::kClosed);
    EXPECT_EQ(*store_->CountMemories(), 0u);
    EXPECT_EQ(*store_->FindRequest("r"), std::nullopt);
    EXPECT_EQ(WholeLog(*store_).size(), 3u);
    EXPECT_CODE(store_->CreateMemory(TestMemory(5)), absl::StatusCode::kFailedPrecondition);
    EXPECT_CODE(store_->RecordRequest(TestRequest("s")), absl::StatusCode::kFailedPrecondition);
    EXPECT_CODE(store_->BeginClose(), absl::StatusCode::kFailedPrecondition);
    EXPECT_CODE(store_->FinishClose(NextCertificate(*store_->GetLogHead())),
                absl::StatusCode::kFailedPrecondition);
    EXPECT_CODE(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())),
                absl::StatusCode::kFailedPrecondition);
    Reopen();
  }
}

TEST_P(Conformance, CheckpointCanBeRepeated) {
  ASSERT_OK(Insert({TestRow(1, "a")}));
  EXPECT_OK(store_->Checkpoint());
  EXPECT_OK(store_->Checkpoint());
  Reopen();
  EXPECT_EQ(Counts().tokens, 1u);
}

TEST_P(Conformance, CreatingOverAnExistingTenantIsRefused) {
  store_.reset();
  EXPECT_CODE(GetParam().create(folder_.path(), TestTenant()), absl::StatusCode::kAlreadyExists);
  Reopen();
  EXPECT_EQ(*store_->CountMemories(), 1u);
}

TEST_P(Conformance, OnlyOneStoreMayHoldATenant) {
  EXPECT_CODE(GetParam().open(folder_.path()), absl::StatusCode::kUnavailable);
  EXPECT_OK(store_->CreateMemory(TestMemory(2)));  // the first one goes on
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         Conformance,
                         ::testing::ValuesIn(AllEngines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lethe::store
