// What every engine behind TenantStore must do when tokens are erased: what goes, what is refused,
// the certificates of it and the keys that end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/conformance_fixture.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_P(Conformance, EraseLeavesTombstonesCertificateAndAnswer) {
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c", "y")}));
  EraseRequest request = Erase({3, 1});
  request.request = TestRequest("r1");
  auto result = store_->EraseTokens(request);
  ASSERT_OK(result);
  EXPECT_EQ(result->erased, 2u);
  EXPECT_OK(result->checkpoint);
  Reopen();
  EXPECT_THAT(LoadAll(*store_, memory_.uid), ElementsAre(TestRow(2, "b", "x")));
  EXPECT_THAT(States({"a", "b", "c", "d"}),
              ElementsAre(IdState::kErased, IdState::kLive, IdState::kErased, IdState::kUnknown));
  EXPECT_EQ(Counts().tombstones, 2u);
  EXPECT_EQ(Counts().subjects, 1u);
  EXPECT_THAT(*store_->FindBySubject(memory_.uid, "y"), ElementsAre());
  auto certificate = store_->GetCertificate(request.certificate.record.id);
  ASSERT_OK(certificate);
  EXPECT_EQ(*certificate, request.certificate.record);
  EXPECT_EQ(*store_->FindRequest("r1"), TestRequest("r1"));
  EXPECT_EQ(store_->GetLogHead()->count, 1u);
  EXPECT_EQ(store_->GetLogHead()->leaf_hash, request.certificate.record.leaf_hash);
}

TEST_P(Conformance, AHandleIsNeverUsedTwice) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  ASSERT_OK(store_->EraseTokens(Erase({2})));
  Reopen();
  EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, 3u);
  EXPECT_CODE(Insert({TestRow(2, "c")}), absl::StatusCode::kInvalidArgument);
}

TEST_P(Conformance, AnIdInsertedAgainIsLiveAndCanBeErasedAgain) {
  ASSERT_OK(Insert({TestRow(1, "a")}));
  ASSERT_OK(store_->EraseTokens(Erase({1})));
  ASSERT_OK(Insert({TestRow(2, "a")}));
  Reopen();
  EXPECT_THAT(States({"a"}), ElementsAre(IdState::kLive));
  EXPECT_EQ(Counts().tombstones, 0u);
  ASSERT_OK(store_->EraseTokens(Erase({2})));
  Reopen();
  EXPECT_THAT(States({"a"}), ElementsAre(IdState::kErased));
  EXPECT_EQ(Counts().tokens, 0u);
}

// An erase with replacements is one step: the ids stay, the rows move to the end.
TEST_P(Conformance, ReplacementsComeInWithTheErase) {
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c", "y")}));
  EraseRequest request = Erase({1, 3});
  request.request = TestRequest("r1");
  // "c" comes back with other content, "d" is new, "a" is gone.
  request.replacements = {TestRow(5, "c", "z"), TestRow(9, "d")};
  auto result = store_->EraseTokens(request);
  ASSERT_OK(result);
  EXPECT_EQ(result->erased, 2u);
  EXPECT_OK(result->checkpoint);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(LoadAll(*store_, memory_.uid),
                ElementsAre(TestRow(2, "b", "x"), TestRow(5, "c", "z"), TestRow(9, "d")));
    EXPECT_THAT(States({"a", "b", "c", "d"}),
                ElementsAre(IdState::kErased, IdState::kLive, IdState::kLive, IdState::kLive));
    EXPECT_EQ(Counts().tombstones, 1u);
    EXPECT_THAT(*store_->FindBySubject(memory_.uid, "y"), ElementsAre());
    EXPECT_THAT(*store_->FindBySubject(memory_.uid, "z"), ElementsAre(5u));
    EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, 10u);
    EXPECT_EQ(store_->GetLogHead()->count, 1u);
    EXPECT_EQ(*store_->FindRequest("r1"), TestRequest("r1"));
    Reopen();
  }
}

TEST_P(Conformance, RefusedReplacementsChangeNothing) {
  const std::vector<TokenRow> rows = {TestRow(1, "a"), TestRow(2, "b")};
  ASSERT_OK(Insert(rows));
  struct Case {
    std::string name;
    absl::StatusCode code;
    std::vector<TokenRow> replacements;
  };
  const std::vector<Case> cases = {
      {"a used handle", absl::StatusCode::kInvalidArgument, {TestRow(1, "a")}},
      {"handles that fall", absl::StatusCode::kInvalidArgument, {TestRow(4, "a"), TestRow(3, "c")}},
      {"an id that is there", absl::StatusCode::kAlreadyExists, {TestRow(3, "b")}},
      {"an id twice", absl::StatusCode::kAlreadyExists, {TestRow(3, "a"), TestRow(4, "a")}},
      {"no id", absl::StatusCode::kInvalidArgument, {TestRow(3, "")}},
      {"too many", absl::StatusCode::kInvalidArgument,
       std::vector<TokenRow>(kMaxInsertRows + 1, TestRow(3, "a"))}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EraseRequest request = Erase({1});
    request.request = TestRequest("new");
    request.replacements = c.replacements;
    EXPECT_CODE(store_->EraseTokens(request), c.code);
    EXPECT_OK(store_->Health());
    Reopen();
    EXPECT_EQ(LoadAll(*store_, memory_.uid), rows);
    EXPECT_THAT(States({"a"}), ElementsAre(IdState::kLive));
    EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, 3u);
    EXPECT_EQ(store_->GetLogHead()->count, 0u);
    EXPECT_EQ(*store_->FindRequest("new"), std::nullopt);
  }
}

// Each refused erase must leave rows, tombstones, log and answers as they were.
TEST_P(Conformance, ARefusedEraseChangesNothing) {
  const std::vector<TokenRow> rows = {TestRow(1, "a"), TestRow(2, "b")};
  ASSERT_OK(Insert(rows));
  ASSERT_OK(store_->RecordRequest(TestRequest("taken")));
  struct Case {
    std::string name;
    absl::StatusCode code;
    std::function<void(EraseRequest&)> spoil;
  };
  auto record = [](EraseRequest& r) -> CertificateRecord& { return r.certificate.record; };
  const std::vector<Case> cases = {
      {"no handles", absl::StatusCode::kInvalidArgument, [](auto& r) { r.handles.clear(); }},
      {"absent handle", absl::StatusCode::kNotFound,
       [](auto& r) {
         r.handles = {1, 7};
       }},
      {"a handle twice", absl::StatusCode::kNotFound,
       [](auto& r) {
         r.handles = {1, 1};
       }},
      {"huge handle", absl::StatusCode::kNotFound,
       [](auto& r) {
         r.handles = {1, ~uint64_t{0}};
       }},
      {"no memory", absl::StatusCode::kNotFound, [](auto& r) { r.memory_uid = Uid(77); }},
      {"sequence ahead", absl::StatusCode::kFailedPrecondition,
       [&](auto& r) { record(r).sequence = 1; }},
      {"previous hash", absl::StatusCode::kFailedPrecondition,
       [&](auto& r) { record(r).previous_leaf_hash = Bytes32{}; }},
      {"id", absl::StatusCode::kInvalidArgument, [&](auto& r) { record(r).id = "12"; }},
      {"leaf too long", absl::StatusCode::kInvalidArgument,
       [&](auto& r) { record(r).leaf.resize(kMaxLeafBytes + 1); }},
      {"empty envelope", absl::StatusCode::kInvalidArgument,
       [&](auto& r) { record(r).envelope.clear(); }},
      {"memory name without uid", absl::StatusCode::kInvalidArgument,
       [&](auto& r) { record(r).memory_uid.clear(); }},
      {"no verifier", absl::StatusCode::kInvalidArgument,
       [](auto& r) { r.certificate.verify = nullptr; }},
      {"verifier refuses", absl::StatusCode::kAborted,
       [](auto& r) {
         r.certificate.verify = [](const WrittenCertificate&) { return absl::AbortedError("no"); };
       }},
      {"request taken", absl::StatusCode::kAlreadyExists,
       [](auto& r) { r.request = TestRequest("taken"); }},
      {"request id empty", absl::StatusCode::kInvalidArgument,
       [](auto& r) { r.request = TestRequest(""); }},
      {"request id too long", absl::StatusCode::kInvalidArgument,
       [](auto& r) { r.request = TestRequest(std::string(kMaxRequestIdBytes + 1, 'r')); }},
  };
  for (size_t i = 0; i < 2 * cases.size(); ++i) {
    const Case& c = cases[i / 2];
    SCOPED_TRACE(c.name);
    EraseRequest request = Erase({1});
    request.request = TestRequest("new");
    if (i % 2 == 1) request.replacements = {TestRow(3, "a", "new subject")};
    c.spoil(request);
    EXPECT_CODE(store_->EraseTokens(request), c.code);
    EXPECT_OK(store_->Health());
    Reopen();
    EXPECT_EQ(LoadAll(*store_, memory_.uid), rows);
    EXPECT_THAT(States({"a"}), ElementsAre(IdState::kLive));
    EXPECT_EQ(Counts().tombstones, 0u);
    EXPECT_EQ(store_->GetLogHead()->count, 0u);
    EXPECT_EQ(*store_->FindRequest("new"), std::nullopt);
    EXPECT_EQ(*store_->FindRequest("taken"), TestRequest("taken"));
  }
  EXPECT_OK(store_->EraseTokens(Erase({1})));  // the unspoilt request passes
}

TEST_P(Conformance, TheVerifierSeesWhatTheStoreHolds) {
  ASSERT_OK(Insert({TestRow(1, "a")}));
  EraseRequest request = Erase({1});
  const CertificateRecord expected = request.certificate.record;
  int calls = 0;
  request.certificate.verify = [&](const WrittenCertificate& read_back) {
    ++calls;
    EXPECT_EQ(read_back.record, expected);
    EXPECT_NE(read_back.record.envelope.data(), request.certificate.record.envelope.data());
    EXPECT_EQ(read_back.checkpoint, request.certificate.checkpoint);
    EXPECT_NE(read_back.checkpoint.data(), request.certificate.checkpoint.data());
    EXPECT_EQ(read_back.root, expected.leaf_hash);
    EXPECT_EQ(read_back.old_root, TreeRoot({}));
    return absl::OkStatus();
  };
  ASSERT_OK(store_->EraseTokens(request));
  EXPECT_EQ(calls, 1);
}

TEST_P(Conformance, ACertificateIsAcceptedOnce) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b")}));
  EraseRequest request = Erase({1});
  ASSERT_OK(store_->EraseTokens(request));
  request.handles = {2};
  EXPECT_CODE(store_->EraseTokens(request), absl::StatusCode::kFailedPrecondition);  // a fork
  // The same envelope under a new sequence.
  request.certificate.record.sequence = 1;
  request.certificate.record.previous_leaf_hash = request.certificate.record.leaf_hash;
  SetCheckpoint(request.certificate, *store_->GetLogHead());
  EXPECT_CODE(store_->EraseTokens(request), absl::StatusCode::kAlreadyExists);
  Reopen();
  EXPECT_EQ(store_->GetLogHead()->count, 1u);
}

TEST_P(Conformance, ACertificateMustNameTheLastLeaf) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b"), TestRow(3, "c")}));
  ASSERT_OK(store_->EraseTokens(Erase({1})));
  ASSERT_OK(store_->EraseTokens(Erase({2})));
  const EraseRequest good = Erase({3});
  Bytes32 near = *good.certificate.record.previous_leaf_hash;
  near[31] ^= 1;
  const std::optional<Bytes32> first = WholeLog(*store_)[0].leaf_hash;
  for (const std::optional<Bytes32>& previous : {std::optional<Bytes32>(near), first, {}}) {
    EraseRequest bad = good;
    bad.certificate.record.previous_leaf_hash = previous;
    const absl::Status status = store_->EraseTokens(bad).status();
    EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("previous_leaf_hash"));
    EXPECT_EQ(store_->GetLogHead()->count, 2u);
  }
  EXPECT_OK(store_->EraseTokens(good));
}

TEST_P(Conformance, CertificatesAreListedInPagesAndByMemory) {
  const MemoryRecord other = TestMemory(2);
  ASSERT_OK(store_->CreateMemory(other));
  for (uint64_t i = 1; i <= 20; ++i) {
    const MemoryRecord& memory = i % 3 == 0 ? other : memory_;
    const std::string id = absl::StrCat("t", i);
    ASSERT_OK(store_->InsertTokens(memory.uid, std::vector<TokenRow>{TestRow(i, id)}));
    ASSERT_OK(store_->EraseTokens({memory.uid, {i}, NextCertificate(*store_, memory), {}}));
  }
  Reopen();
  const std::vector<CertificateRecord> log = WholeLog(*store_);
  EXPECT_EQ(log.size(), 20u);
  ExpectLogIsChained(log);
  CertificateQuery query{2, other.name, 3};
  auto page = store_->ListCertificates(query);
  ASSERT_OK(page);
  std::vector<uint64_t> sequences;
  for (const CertificateRecord& record : *page) sequences.push_back(record.sequence);
  EXPECT_THAT(sequences, ElementsAre(5, 8, 11));
  query = {~uint64_t{0}, "", 100};
  EXPECT_TRUE(store_->ListCertificates(query)->empty());
  query = {std::nullopt, "nobody", 100};
  EXPECT_TRUE(store_->ListCertificates(query)->empty());
  query = {std::nullopt, "", 0};
  EXPECT_CODE(store_->ListCertificates(query), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->GetCertificate(std::string(64, '0')), absl::StatusCode::kNotFound);
}

// The three steps of an erasure, each of them repeated, with a reopening between any two.
TEST_P(Conformance, AnErasureEndsWithItsKeysDestroyed) {
  EXPECT_TRUE(store_->PendingErasures()->empty());
  EXPECT_EQ(store_->DestroyPendingKeys(100)->destroyed, 0u);
  EXPECT_CODE(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 100),
              absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c"), TestRow(4, "d"),
                    TestRow(5, "e", "y")}));
  ASSERT_OK(store_->EraseTokens(Erase({1, 3})));
  ASSERT_OK(store_->EraseTokens(Erase({4})));
  ASSERT_OK(store_->EraseTokens(Erase({5})));
  const std::vector<PendingErasure> three = {{0, 2}, {1, 1}, {2, 1}};
  EXPECT_EQ(*store_->PendingErasures(), three);
  Reopen();
  EXPECT_EQ(*store_->PendingErasures(), three);
  // Not before the keys are gone.
  EXPECT_CODE(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 1),
              absl::StatusCode::kFailedPrecondition);
  for (int round = 0; round < 3; ++round) {
    auto destroyed = store_->DestroyPendingKeys(1);
    ASSERT_OK(destroyed);
    EXPECT_EQ(destroyed->destroyed, round == 0 ? 3u : 0u);
    EXPECT_EQ(destroyed->already_destroyed, round == 0 ? 0u : 3u);
    EXPECT_OK(destroyed->evidence);
    EXPECT_GT(destroyed->bytes_read, 0u);
    EXPECT_EQ(destroyed->epoch, 1u);
    if (round == 1) Reopen();
  }
  EXPECT_CODE(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 2),
              absl::StatusCode::kFailedPrecondition);
  CertificateAppend refused = NextCertificate(*store_->GetLogHead());
  refused.verify = [](const WrittenCertificate&) { return absl::AbortedError("no"); };
  EXPECT_CODE(store_->AppendShredded(refused, 1), absl::StatusCode::kAborted);
  EXPECT_EQ(*store_->PendingErasures(), three);
  ASSERT_OK(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 1));
  EXPECT_CODE(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 1),
              absl::StatusCode::kFailedPrecondition);
  Reopen();
  EXPECT_THAT(*store_->PendingErasures(), ElementsAre(PendingErasure{2, 1}));
  ASSERT_TRUE(FinishErasures(*store_));
  EXPECT_EQ(WholeLog(*store_).size(), 5u);
  EXPECT_THAT(LoadAll(*store_, memory_.uid), ElementsAre(TestRow(2, "b", "x")));
}

}  // namespace
}  // namespace lethe::store
