// A copy made while its source is written: it is the source of that moment, or there is none.
#include "store/database_copy.h"

#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "store/sqlite.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

constexpr DatabaseIdentity kIdentity = {.application_id = 77, .user_version = 1};

std::unique_ptr<Database> MakeSource(const std::string& path, int rows) {
  auto database = Database::Open(path, Database::Mode::kCreate, kIdentity);
  EXPECT_OK(database);
  auto transaction = Transaction::Begin(database->get());
  EXPECT_OK((*database)->Execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)"));
  EXPECT_OK((*database)->SetIdentity(kIdentity));
  for (int i = 0; i < rows; ++i) {
    EXPECT_OK(
        (*database)->Execute(absl::StrCat("INSERT INTO t VALUES (", i, ", randomblob(700))")));
  }
  EXPECT_OK(transaction->Commit());
  return *std::move(database);
}

std::string Content(Database& database) {
  return *database.QueryText(
      "SELECT count(*) || ' ' || ifnull(group_concat(id || ':' || hex(x)), '') FROM"
      " (SELECT id, x FROM t ORDER BY id)");
}

TEST(DatabaseCopyTest, WhatIsWrittenMeanwhileIsInTheCopyToo) {
  TempFolder folder;
  std::mt19937_64 random(3);
  for (int round = 0; round < 12; ++round) {
    const std::string path = absl::StrCat(folder.path(), "/source", round);
    const std::string copied = absl::StrCat(folder.path(), "/copy", round);
    const std::unique_ptr<Database> source = MakeSource(path, 200);
    auto copy = DatabaseCopy::Begin(source.get(), copied);
    ASSERT_OK(copy);
    int steps = 0;
    while (true) {
      const auto done = (*copy)->Step(1 + static_cast<int>(random() % 3));
      ASSERT_OK(done);
      if (*done) break;
      ++steps;
      const auto row = random() % 300;
      switch (random() % 4) {
        case 0:
          ASSERT_OK(source->Execute(absl::StrCat("DELETE FROM t WHERE id = ", row)));
          break;
        case 1:
          ASSERT_OK(
              source->Execute(absl::StrCat("REPLACE INTO t VALUES (", row, ", randomblob(900))")));
          break;
        case 2:
          ASSERT_OK(source->CheckpointTruncate());
          break;
        default:
          break;
      }
    }
    EXPECT_GT(steps, 10);
    const std::string expected = Content(*source);
    // Later writes are not in it, and it is whole by itself: one file.
    ASSERT_OK(source->Execute("DELETE FROM t"));
    for (const char* suffix : {"-wal", "-shm", "-journal"}) {
      EXPECT_FALSE(std::filesystem::exists(copied + suffix));
    }
    copy->reset();
    const auto opened = Database::Open(copied, Database::Mode::kOpen, kIdentity);
    ASSERT_OK(opened);
    EXPECT_EQ(Content(**opened), expected);
    EXPECT_EQ(*(*opened)->QueryText("PRAGMA integrity_check"), "ok");
  }
}

TEST(DatabaseCopyTest, WhatIsNotFinishedLeavesNoFile) {
  TempFolder folder;
  const std::unique_ptr<Database> source = MakeSource(folder.path() + "/source", 300);
  const std::string path = folder.path() + "/copy";
  {
    const auto copy = DatabaseCopy::Begin(source.get(), path);
    ASSERT_OK(copy);
    ASSERT_OK((*copy)->Step(5));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    const ScopedFileLimit limit(64 << 10);
    const auto copy = DatabaseCopy::Begin(source.get(), path);
    ASSERT_OK(copy);
    absl::StatusOr<bool> done = false;
    while (done.ok() && !*done) done = (*copy)->Step(10);
    EXPECT_FALSE(done.ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  // The source has taken no harm, and the name is free.
  ASSERT_OK(source->Execute("DELETE FROM t WHERE id < 100"));
  const auto copy = DatabaseCopy::Begin(source.get(), path);
  ASSERT_OK(copy);
  EXPECT_TRUE(*(*copy)->Step(1 << 20));
}

TEST(DatabaseCopyTest, NothingIsOverwritten) {
  TempFolder folder;
  const std::unique_ptr<Database> source = MakeSource(folder.path() + "/source", 3);
  WriteFile(folder.path() + "/there", "precious");
  EXPECT_CODE(DatabaseCopy::Begin(source.get(), folder.path() + "/there"),
              absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(folder.path() + "/there"), "precious");
  EXPECT_CODE(DatabaseCopy::Begin(source.get(), folder.path() + "/no/folder"),
              absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lethe::store
