// The tree over the certificates: what an append leaves, what it refuses, damage and
// faults in every part of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/tree_proof.h"
#include "store/sqlite_tenant_store.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = CreateTenantStore(folder_.path(), TestTenant(), TestOptions(folder_.path()));
    ASSERT_OK(store);
    store_ = std::move(*store);
  }
  absl::Status Start() { return store_->StartLog(TestStart()); }
  CertificateAppend Next() { return NextCertificate(*store_->GetLogHead()); }
  absl::Status Append() { return store_->AppendCertificate(Next()); }
  void AppendMany(int count) {
    for (int i = 0; i < count; ++i) ASSERT_OK(Append());
  }
  absl::Status OpenStatus() {
    store_.reset();
    auto store = OpenTenantStore(folder_.path(), TestOptions(folder_.path()));
    if (store.ok()) store_ = std::move(*store);
    return store.status();
  }
  // Closes the store, runs the statements, returns the first column of the last row as text.
  std::string Raw(const std::string& sql) {
    store_.reset();
    const RawResult result = RunRaw(file_, sql);
    EXPECT_EQ(result.code, SQLITE_OK) << sql << ": " << result.message;
    return result.text;
  }
  std::vector<Bytes32> Leaves() {
    std::vector<Bytes32> leaves;
    for (const CertificateRecord& record : WholeLog(*store_, 100)) {
      leaves.push_back(record.leaf_hash);
    }
    return leaves;
  }
  // Every stored hash against the definition.
  void ExpectTreeIsThatOf(const std::vector<Bytes32>& leaves) {
    const LogHead head = *store_->GetLogHead();
    EXPECT_EQ(head.count, leaves.size());
    EXPECT_EQ(head.checkpoint, TestNote(leaves.size(), TreeRoot(leaves)));
    EXPECT_EQ(head.range, HeadOf(WholeLog(*store_, 100)).range);
    for (int level = 0; level < 9; ++level) {
      const size_t width = size_t{1} << level;
      std::vector<Bytes32> expected;
      for (size_t at = 0; at + width <= leaves.size(); at += width) {
        expected.push_back(TreeRoot(std::span(leaves).subspan(at, width)));
      }
      EXPECT_EQ(*store_->GetLogNodes(level, 0, kMaxPageSize), expected) << "level " << level;
      if (expected.size() > 2) {
        EXPECT_THAT(*store_->GetLogNodes(level, 1, 1), ElementsAre(expected[1]));
      }
      EXPECT_THAT(*store_->GetLogNodes(level, expected.size(), 5), IsEmpty());
    }
  }
  TempFolder folder_;
  const std::string file_ = folder_.path() + "/tenant.db";
  std::unique_ptr<TenantStore> store_;
};

// --- Appending.

TEST_F(LogTest, EveryAppendProvesItselfFromWhatIsStored) {
  ASSERT_OK(Start());
  std::vector<Bytes32> leaves;
  for (uint64_t i = 0; i < 70; ++i) {
    CertificateAppend append = Next();
    const Bytes32 before = TreeRoot(leaves);
    leaves.push_back(append.record.leaf_hash);
    int calls = 0;
    append.verify = [&](const WrittenCertificate& written) {
      ++calls;
      EXPECT_EQ(written.record, append.record);
      EXPECT_EQ(written.checkpoint, TestNote(i + 1, TreeRoot(leaves)));
      EXPECT_EQ(written.root, TreeRoot(leaves));
      EXPECT_EQ(written.old_root, before);
      EXPECT_OK(
          audit::VerifyInclusion(i, i + 1, leaves.back(), written.inclusion, TreeRoot(leaves)));
      if (i > 0) {
        EXPECT_OK(
            audit::VerifyConsistency(i, i + 1, before, TreeRoot(leaves), written.consistency));
      }
      return absl::OkStatus();
    };
    ASSERT_OK(store_->AppendCertificate(append));
    EXPECT_EQ(calls, 1);
    if (i % 9 == 0) {
      ASSERT_OK(OpenStatus());
    }
    if (i < 10 || i % 16 >= 14) ExpectTreeIsThatOf(leaves);
  }
}

TEST_F(LogTest, NothingIsAppendedBeforeTheLogHasAKey) {
  EXPECT_CODE(Append(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->GetLogHead()->checkpoint, "");
  EXPECT_THAT(*store_->GetLogKeys(), IsEmpty());
  for (const auto& [spoil, code] :
       std::vector<std::pair<std::function<void(LogStart&)>, absl::StatusCode>>{
           {[](LogStart& s) { s.vkey.clear(); }, absl::StatusCode::kInvalidArgument},
           {[](LogStart& s) { s.checkpoint = "no note"; }, absl::StatusCode::kInvalidArgument},
           {[](LogStart& s) { s.checkpoint = TestNote(1, Bytes32{}); },
            absl::StatusCode::kFailedPrecondition},
           {[](LogStart& s) { s.verify = nullptr; }, absl::StatusCode::kInvalidArgument},
           {[](LogStart& s) {
              s.verify = [](absl::string_view) { return absl::AbortedError("no"); };
            },
            absl::StatusCode::kAborted}}) {
    LogStart start = TestStart();
    spoil(start);
    EXPECT_CODE(store_->StartLog(start), code);
    EXPECT_THAT(*store_->GetLogKeys(), IsEmpty());
    EXPECT_EQ(store_->GetLogHead()->checkpoint, "");
  }
  ASSERT_OK(Start());
  EXPECT_CODE(Start(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(OpenStatus());
  EXPECT_CODE(Start(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(*store_->GetLogKeys(), ElementsAre(LogKey{0, TestStart().vkey}));
  ASSERT_OK(Append());
}

TEST_F(LogTest, ACheckpointOverAnotherLogIsRefused) {
  ASSERT_OK(Start());
  AppendMany(5);
  const CertificateAppend good = Next();
  std::vector<Bytes32> leaves = Leaves();
  leaves.push_back(good.record.leaf_hash);
  std::vector<Bytes32> other = leaves;
  other[2][0] ^= 1;
  std::string foreign = good.checkpoint;
  foreign[0] = 'X';
  const std::vector<std::pair<std::string, absl::StatusCode>> bad = {
      {"", absl::StatusCode::kInvalidArgument},
      {"text", absl::StatusCode::kInvalidArgument},
      {good.checkpoint.substr(0, good.checkpoint.find("\n\n") + 1),
       absl::StatusCode::kInvalidArgument},
      {foreign, absl::StatusCode::kFailedPrecondition},
      {TestNote(5, TreeRoot(std::span(leaves).first(5))), absl::StatusCode::kFailedPrecondition},
      {TestNote(7, TreeRoot(leaves)), absl::StatusCode::kFailedPrecondition},
      {TestNote(6, TreeRoot(other)), absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& [checkpoint, code] : bad) {
    CertificateAppend append = good;
    append.checkpoint = checkpoint;
    EXPECT_CODE(store_->AppendCertificate(append), code) << checkpoint;
    EXPECT_EQ(store_->GetLogHead()->count, 5u);
  }
  CertificateAppend lying = good;
  lying.record.leaf_hash[5] ^= 1;
  EXPECT_CODE(store_->AppendCertificate(lying), absl::StatusCode::kInvalidArgument);
  ASSERT_OK(store_->AppendCertificate(good));
  ExpectTreeIsThatOf(leaves);
}

TEST_F(LogTest, KeysAreKeptWithTheSequenceTheySignFrom) {
  ASSERT_OK(Start());
  AppendMany(2);
  CertificateAppend hand_over = Next();
  hand_over.next_vkey = "key two";
  ASSERT_OK(store_->AppendCertificate(hand_over));
  AppendMany(1);
  for (const char* used : {"a key", "key two"}) {
    CertificateAppend back = Next();
    back.next_vkey = used;
    EXPECT_CODE(store_->AppendCertificate(back), absl::StatusCode::kAlreadyExists);
  }
  ASSERT_OK(OpenStatus());
  EXPECT_EQ(store_->GetLogHead()->count, 4u);
  EXPECT_THAT(*store_->GetLogKeys(), ElementsAre(LogKey{0, "a key"}, LogKey{3, "key two"}));
}

TEST_F(LogTest, CosignaturesBelongToTheCheckpointAndLastUntilTheNext) {
  ASSERT_OK(Start());
  const Cosignature one{"wit1", 1, "a line\n"};
  EXPECT_CODE(store_->PutCosignature({"wit1", 0, "a line\n"}),
              absl::StatusCode::kFailedPrecondition);
  AppendMany(1);
  ASSERT_OK(store_->PutCosignature(one));
  ASSERT_OK(store_->PutCosignature({"wit0", 1, "another\n"}));
  ASSERT_OK(store_->PutCosignature({"wit1", 1, "a newer line\n"}));
  for (const Cosignature& bad :
       {Cosignature{"wit1", 2, "x"}, Cosignature{"wit", 1, "x"}, Cosignature{"wit1", 1, ""},
        Cosignature{"wit1", 1, std::string(2000, 'x')}}) {
    EXPECT_FALSE(store_->PutCosignature(bad).ok());
  }
  ASSERT_OK(OpenStatus());
  EXPECT_THAT(*store_->GetCosignatures(), ElementsAre(Cosignature{"wit0", 1, "another\n"},
                                                      Cosignature{"wit1", 1, "a newer line\n"}));
  AppendMany(1);
  EXPECT_THAT(*store_->GetCosignatures(), IsEmpty());
  EXPECT_CODE(store_->PutCosignature(one), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(store_->PutCosignature({"wit1", 2, "of two\n"}));
  EXPECT_THAT(*store_->GetCosignatures(), ElementsAre(Cosignature{"wit1", 2, "of two\n"}));
}

TEST_F(LogTest, TheLogOfAClosedTenantCanBeRead) {
  ASSERT_OK(Start());
  AppendMany(3);
  const std::vector<Bytes32> leaves = Leaves();
  CertificateAppend closing = Next();
  ASSERT_OK(CloseWith(*store_, closing));
  EXPECT_CODE(Append(), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(store_->PutCosignature({"wit1", 4, "x"}), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(OpenStatus());
  EXPECT_EQ(store_->GetLogHead()->checkpoint, closing.checkpoint);
  EXPECT_EQ(store_->GetLogNodes(0, 0, 10)->size(), 4u);
}

TEST_F(LogTest, BadRangesOfNodesAreRefused) {
  ASSERT_OK(Start());
  AppendMany(4);
  EXPECT_CODE(store_->GetLogNodes(-1, 0, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->GetLogNodes(64, 0, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->GetLogNodes(0, 0, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->GetLogNodes(0, 0, kMaxPageSize + 1), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*store_->GetLogNodes(63, 0, 1), IsEmpty());
  EXPECT_THAT(*store_->GetLogNodes(0, ~uint64_t{0}, 1), IsEmpty());
}

// --- Damage that a start must find.

TEST_F(LogTest, AStartFindsWhatIsNotWhatTheLeavesSay) {
  ASSERT_OK(Start());
  AppendMany(13);
  store_.reset();
  const std::string whole = ReadFile(file_);
  const std::string before = TestNote(12, HeadOf({}).leaf_hash.value_or(Bytes32{}));
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"UPDATE certificates SET leaf = zeroblob(9) WHERE sequence = 3", "leaf 3"},
      {"UPDATE certificates SET leaf_hash = randomblob(32) WHERE sequence = 12", "leaf 12"},
      {"UPDATE certificates SET previous_leaf_hash = randomblob(32) WHERE sequence = 5",
       "certificate 5 names another predecessor"},
      {"DELETE FROM certificates WHERE sequence = 7", "certificate 7 is missing"},
      {"DELETE FROM certificates WHERE sequence = 12", "12 certificates but its head says 13"},
      {"UPDATE log_nodes SET hash = randomblob(32) WHERE level = 1 AND idx = 2",
       "node 2 of level 1"},
      {"DELETE FROM log_nodes WHERE level = 3", "node 0 of level 3"},
      {"INSERT INTO log_nodes VALUES (1, 6, randomblob(32))", "belong to no leaves"},
      {"UPDATE log_head SET size = 12, range = substr(range, 1, 64)", "its head says 12"},
      {"UPDATE log_head SET size = 12", "the range does not fit the size"},
      {"UPDATE log_head SET range = zeroblob(96)", "the range in its head"},
      {"DELETE FROM log_head", "log_head"},
      {"UPDATE log_head SET checkpoint = x''", "one is missing"},
      {"DELETE FROM log_keys", "one is missing"},
      {"UPDATE log_keys SET first_sequence = 1", "keys"},
      {"INSERT INTO log_keys VALUES (14, 'later')", "keys"},
      {"UPDATE log_head SET checkpoint = CAST(replace(CAST(checkpoint AS TEXT), x'0a' || '13' ||"
       " x'0a', x'0a' || '12' || x'0a') AS BLOB)",
       "checkpoint.size"},
      {"UPDATE log_head SET checkpoint = CAST(replace(CAST(checkpoint AS TEXT), 'acme', 'acmf')"
       " AS BLOB)",
       "checkpoint.origin"},
      {"UPDATE log_head SET checkpoint = x'00'", "no signed note"},
  };
  for (const auto& [sql, words] : damages) {
    SCOPED_TRACE(sql);
    store_.reset();
    WriteFile(file_, whole);
    Raw(sql);
    const absl::Status status = OpenStatus();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), HasSubstr("tenant.db"));
  }
  // Another root of the right shape.
  WriteFile(file_, whole);
  const std::string wrong = TestNote(13, Bytes32{});
  Raw(absl::StrCat("UPDATE log_head SET checkpoint = CAST('", wrong, "' AS BLOB)"));
  EXPECT_THAT(std::string(OpenStatus().message()), HasSubstr("checkpoint.root"));
  WriteFile(file_, whole);
  EXPECT_OK(OpenStatus());
}

// --- Faults on the way into the file: a trigger stands for memory that flips between hashing and
// storing. Nothing of the append may stay.

TEST_F(LogTest, WhatIsStoredWrongIsRolledBack) {
  ASSERT_OK(Start());
  AppendMany(7);
  store_.reset();
  const std::string whole = ReadFile(file_);
  // The anchor outside the file knows the log's size, and goes back with it.
  const std::string anchor =
      absl::StrCat(folder_.path(), "/vault/", TestTenant().uid, "/anchor.db");
  const std::string anchored = ReadFile(anchor);
  const std::vector<std::string> faults = {
      "AFTER INSERT ON certificates BEGIN UPDATE certificates SET leaf = zeroblob(length(leaf))"
      " WHERE sequence = new.sequence; END",
      "AFTER INSERT ON certificates BEGIN UPDATE certificates SET kind = 'edit'"
      " WHERE sequence = new.sequence; END",
      // The eighth leaf completes nodes of three levels.
      "AFTER INSERT ON log_nodes WHEN new.level = 1 BEGIN UPDATE log_nodes SET hash ="
      " zeroblob(32) WHERE level = 1 AND idx = new.idx; END",
      "AFTER INSERT ON log_nodes WHEN new.level = 3 BEGIN UPDATE log_nodes SET hash ="
      " zeroblob(32) WHERE level = 3; END",
      "AFTER INSERT ON log_nodes WHEN new.level = 2 BEGIN DELETE FROM log_nodes WHERE level = 2"
      " AND idx = new.idx; END",
      "AFTER UPDATE ON log_head WHEN new.range != zeroblob(32) BEGIN UPDATE log_head SET range ="
      " zeroblob(32); END",
      "AFTER UPDATE ON log_head WHEN new.checkpoint != x'00' BEGIN UPDATE log_head SET checkpoint"
      " = x'00'; END",
      "AFTER INSERT ON log_keys BEGIN UPDATE log_keys SET vkey = 'other' WHERE first_sequence ="
      " new.first_sequence; END",
  };
  for (const std::string& fault : faults) {
    SCOPED_TRACE(fault);
    store_.reset();
    WriteFile(file_, whole);
    WriteFile(anchor, anchored);
    Raw("CREATE TRIGGER fault " + fault);
    ASSERT_OK(OpenStatus());
    CertificateAppend append = Next();
    append.next_vkey = "key two";
    bool asked = false;
    append.verify = [&](const WrittenCertificate&) {
      asked = true;
      return absl::OkStatus();
    };
    EXPECT_CODE(store_->AppendCertificate(append), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(asked);
    EXPECT_OK(store_->Health());
    EXPECT_EQ(store_->GetLogHead()->count, 7u);
    Raw("DROP TRIGGER fault");
    ASSERT_OK(OpenStatus());
    ExpectTreeIsThatOf(Leaves());
    ASSERT_OK(Append());
  }
}

// An earlier node that changes unseen shows in the proofs: the next append that needs it is
// refused.
TEST_F(LogTest, AnEarlierNodeThatChangedIsNotBuiltUpon) {
  ASSERT_OK(Start());
  AppendMany(6);
  Raw("CREATE TRIGGER fault AFTER INSERT ON certificates BEGIN UPDATE log_nodes SET hash ="
      " zeroblob(32) WHERE level = 2 AND idx = 0; END");
  ASSERT_OK(OpenStatus());
  CertificateAppend append = Next();
  append.verify = [&](const WrittenCertificate& written) {
    return audit::VerifyInclusion(6, 7, append.record.leaf_hash, written.inclusion,
                                  TreeRoot(std::vector<Bytes32>()));
  };
  EXPECT_FALSE(store_->AppendCertificate(append).ok());
  EXPECT_EQ(store_->GetLogHead()->count, 6u);
}

TEST_F(LogTest, AFullDiskInAnyPartOfTheAppendChangesNothing) {
  ASSERT_OK(Start());
  AppendMany(15);
  const std::vector<CertificateRecord> log = WholeLog(*store_);
  const std::vector<Bytes32> leaves = Leaves();
  int failed = 0;
  for (uint64_t bytes = 4096; bytes < 400'000; bytes += 4096) {
    ASSERT_OK(OpenStatus());
    absl::Status status;
    {
      const ScopedFileLimit limit(bytes);
      status = Append();
    }
    if (status.ok()) break;
    ++failed;
    ASSERT_OK(OpenStatus());
    // A COMMIT that failed may have happened; nothing in between may.
    if (store_->GetLogHead()->count != log.size()) break;
    EXPECT_EQ(WholeLog(*store_), log);
    ExpectTreeIsThatOf(leaves);
  }
  EXPECT_GT(failed, 0);
  ASSERT_OK(OpenStatus());
  ExpectTreeIsThatOf(Leaves());
}

}  // namespace
}  // namespace lethe::store
