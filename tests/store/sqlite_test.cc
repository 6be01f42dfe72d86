// The RAII layer: settings, error codes, rollback, checkpoints, failed commits.
#include "store/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::HasSubstr;

constexpr DatabaseIdentity kIdentity = {.application_id = 77, .user_version = 3};

class SqliteTest : public ::testing::Test {
 protected:
  void SetUp() override { OpenNew("a.db"); }

  void OpenNew(const std::string& name) {
    path_ = absl::StrCat(folder_.path(), "/", name);
    auto database = Database::Open(path_, Database::Mode::kCreate, kIdentity);
    ASSERT_OK(database);
    db_ = std::move(*database);
    ASSERT_OK(
        db_->Execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB CHECK (length(v) < 1e6),"
                     " u TEXT UNIQUE) STRICT"));
    ASSERT_OK(db_->SetIdentity(kIdentity));
  }
  void Reopen() {
    db_.reset();
    auto database = Database::Open(path_, Database::Mode::kOpen, kIdentity);
    ASSERT_OK(database);
    db_ = std::move(*database);
  }
  absl::Status Insert(int64_t k, const std::string& v, const std::string& u) {
    auto insert = db_->Prepare("INSERT INTO t (k, v, u) VALUES (?1, ?2, ?3)");
    EXPECT_OK(insert);
    return insert->Int(1, k).Blob(2, v).Text(3, u).Run();
  }
  int64_t Rows() {
    auto rows = db_->QueryInt("SELECT count(*) FROM t");
    EXPECT_OK(rows);
    return rows.ok() ? *rows : -1;
  }
  uintmax_t WalFileBytes() { return std::filesystem::file_size(path_ + "-wal"); }

  TempFolder folder_;
  std::string path_;
  std::unique_ptr<Database> db_;
};

TEST_F(SqliteTest, TheConnectionIsSetUpAsDocumented) {
  Reopen();
  EXPECT_EQ(*db_->QueryText("PRAGMA locking_mode"), "exclusive");
  EXPECT_EQ(*db_->QueryText("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(*db_->QueryInt("PRAGMA synchronous"), 2);  // FULL
  EXPECT_EQ(*db_->QueryInt("PRAGMA wal_autocheckpoint"), 0);
  EXPECT_EQ(*db_->QueryInt("PRAGMA secure_delete"), 1);
  EXPECT_EQ(*db_->QueryInt("PRAGMA temp_store"), 2);  // MEMORY
  EXPECT_EQ(*db_->QueryInt("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(*db_->QueryInt("PRAGMA trusted_schema"), 0);
  EXPECT_EQ(*db_->QueryInt("PRAGMA cell_size_check"), 1);
  EXPECT_EQ(*db_->QueryInt("PRAGMA application_id"), 77);
  EXPECT_EQ(*db_->QueryInt("PRAGMA user_version"), 3);
  // DEFENSIVE: the schema cannot be written to, whatever is asked.
  EXPECT_OK(db_->Execute("PRAGMA writable_schema=ON"));
  EXPECT_FALSE(db_->Execute("DELETE FROM sqlite_schema").ok());
}

TEST_F(SqliteTest, ErrorsHaveTheirCodes) {
  ASSERT_OK(Insert(1, "x", "one"));
  EXPECT_CODE(Insert(1, "x", "two"), absl::StatusCode::kAlreadyExists);  // PRIMARY KEY
  EXPECT_CODE(Insert(2, "x", "one"), absl::StatusCode::kAlreadyExists);  // UNIQUE
  EXPECT_CODE(Insert(2, std::string(1'000'000, 'x'), "two"),
              absl::StatusCode::kFailedPrecondition);  // CHECK
  EXPECT_CODE(db_->Prepare("no SQL"), absl::StatusCode::kInternal);
  auto select = db_->Prepare("SELECT 1");
  ASSERT_OK(select);
  EXPECT_CODE(select->Int(5, 1).Step(), absl::StatusCode::kInternal);  // no such parameter
  EXPECT_EQ(Rows(), 1);
}

TEST_F(SqliteTest, MessagesNameTheFileAndNoValues) {
  ASSERT_OK(Insert(1, "x", "secret"));
  const absl::Status status = Insert(2, "x", "secret");
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("secret")));
}

TEST_F(SqliteTest, ValuesComeBackExactly) {
  const std::string bytes("\0\xff\0", 3);
  ASSERT_OK(Insert(-5, bytes, "π"));
  ASSERT_OK(Insert(6, "", ""));
  auto select = db_->Prepare("SELECT k, v, u, NULL FROM t ORDER BY k");
  ASSERT_OK(select);
  EXPECT_TRUE(*select->Step());
  EXPECT_EQ(select->ColumnInt(0), -5);
  EXPECT_EQ(select->ColumnBlob(1), bytes);
  EXPECT_EQ(select->ColumnText(2), "π");
  EXPECT_TRUE(select->ColumnIsNull(3));
  EXPECT_TRUE(*select->Step());
  EXPECT_EQ(select->ColumnBlob(1), "");
  EXPECT_FALSE(select->ColumnIsNull(1));  // empty is not NULL
  EXPECT_FALSE(select->ColumnIsNull(2));
  EXPECT_FALSE(*select->Step());
}

TEST_F(SqliteTest, TheSameStatementCanBeOnLoanTwice) {
  for (int64_t k = 0; k < 3; ++k) ASSERT_OK(Insert(k, "", absl::StrCat(k)));
  int pairs = 0;
  auto outer = db_->Prepare("SELECT k FROM t");
  ASSERT_OK(outer);
  while (*outer->Step()) {
    auto inner = db_->Prepare("SELECT k FROM t");
    ASSERT_OK(inner);
    while (*inner->Step()) ++pairs;
  }
  EXPECT_EQ(pairs, 9);
}

TEST_F(SqliteTest, ATransactionWithoutCommitLeavesNothing) {
  {
    auto transaction = Transaction::Begin(db_.get());
    ASSERT_OK(transaction);
    ASSERT_OK(Insert(1, "x", "one"));
    EXPECT_EQ(Rows(), 1);
  }
  EXPECT_EQ(Rows(), 0);
  {
    auto transaction = Transaction::Begin(db_.get());
    ASSERT_OK(transaction);
    ASSERT_OK(Insert(1, "x", "one"));
    ASSERT_OK(transaction->Commit());
  }
  Reopen();
  EXPECT_EQ(Rows(), 1);
}

TEST_F(SqliteTest, ACheckpointEmptiesTheLogAndSaysWhenItCannot) {
  ASSERT_OK(Insert(1, "x", "one"));
  ASSERT_OK(Insert(2, "x", "two"));
  EXPECT_GT(db_->wal_bytes(), 0u);
  EXPECT_GT(WalFileBytes(), 0u);
  {
    auto reader = db_->Prepare("SELECT k FROM t");
    ASSERT_OK(reader);
    ASSERT_TRUE(*reader->Step());
    EXPECT_CODE(db_->CheckpointTruncate(), absl::StatusCode::kUnavailable);
    EXPECT_GT(WalFileBytes(), 0u);
    EXPECT_OK(db_->health());
  }
  EXPECT_OK(db_->CheckpointTruncate());
  EXPECT_EQ(db_->wal_bytes(), 0u);
  EXPECT_EQ(WalFileBytes(), 0u);
}

TEST_F(SqliteTest, AFullFileRollsBackAndGoesOn) {
  ASSERT_OK(db_->SetMaxBytes(64 << 10));
  {
    auto transaction = Transaction::Begin(db_.get());
    ASSERT_OK(transaction);
    ASSERT_OK(Insert(1, "x", "one"));
    EXPECT_CODE(Insert(2, std::string(200'000, 'x'), "two"), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_OK(db_->health());
  EXPECT_EQ(Rows(), 0);
  ASSERT_OK(db_->SetMaxBytes(0));
  EXPECT_OK(Insert(2, std::string(200'000, 'x'), "two"));
}

TEST_F(SqliteTest, AFailedCommitIsIndeterminateAndEndsTheConnection) {
  ASSERT_OK(Insert(1, "x", "one"));
  ASSERT_OK(db_->CheckpointTruncate());
  absl::Status status;
  {
    auto transaction = Transaction::Begin(db_.get());
    ASSERT_OK(transaction);
    ASSERT_OK(Insert(2, std::string(50'000, 'x'), "two"));
    const ScopedFileLimit limit(10'000);
    status = transaction->Commit();
  }
  EXPECT_CODE(status, absl::StatusCode::kUnknown);
  EXPECT_TRUE(IsIndeterminate(status));
  EXPECT_FALSE(IsIndeterminate(absl::UnknownError("other")));
  EXPECT_CODE(db_->health(), absl::StatusCode::kUnavailable);
  EXPECT_CODE(db_->Prepare("SELECT 1"), absl::StatusCode::kUnavailable);
  EXPECT_CODE(db_->Execute("SELECT 1"), absl::StatusCode::kUnavailable);
  EXPECT_CODE(db_->CheckpointTruncate(), absl::StatusCode::kUnavailable);
  EXPECT_CODE(Transaction::Begin(db_.get()), absl::StatusCode::kUnavailable);
  Reopen();
  EXPECT_GE(Rows(), 1);
  EXPECT_LE(Rows(), 2);
  EXPECT_EQ(*db_->QueryText("PRAGMA integrity_check"), "ok");
  EXPECT_OK(Insert(3, "x", "three"));
}

TEST_F(SqliteTest, AnIoErrorInACheckpointEndsTheConnectionAndLosesNothing) {
  ASSERT_OK(Insert(1, std::string(500'000, 'x'), "one"));
  {
    const ScopedFileLimit limit(100'000);  // the log is written, the database cannot grow
    const absl::Status status = db_->CheckpointTruncate();
    EXPECT_CODE(status, absl::StatusCode::kInternal);
    EXPECT_FALSE(IsIndeterminate(status));
    EXPECT_CODE(db_->health(), absl::StatusCode::kUnavailable);
  }
  Reopen();
  EXPECT_EQ(Rows(), 1);
  EXPECT_OK(db_->CheckpointTruncate());
}

TEST_F(SqliteTest, PathsThatCannotServeAreRefused) {
  EXPECT_CODE(Database::Open(path_, Database::Mode::kCreate, kIdentity),
              absl::StatusCode::kAlreadyExists);
  EXPECT_CODE(Database::Open(folder_.path() + "/none.db", Database::Mode::kOpen, kIdentity),
              absl::StatusCode::kNotFound);
  EXPECT_CODE(Database::Open(path_ + "/below-a-file.db", Database::Mode::kCreate, kIdentity),
              absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(Database::Open(folder_.path(), Database::Mode::kOpen, kIdentity),
              absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lethe::store
