// Copies of a tenant: what is in them, what is not, and what a failed one leaves.
#include <gmock/gmock.h>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/sqlite_tenant_fixture.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class TenantCopyTest : public SqliteTenantStoreTest {
 protected:
  std::string NewPath() { return absl::StrCat(folder_.path(), "/copy-", ++copies_); }
  // The tenant that the copy is, with the present vault; closes the other.
  std::unique_ptr<TenantStore> OpenCopy(const std::string& path) {
    store_.reset();
    const std::string dir = path + "-opened";
    fs::create_directory(dir);
    fs::copy_file(path, dir + "/tenant.db");
    auto store = OpenTenantStore(dir, Options());
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  int copies_ = 0;
};

TEST_F(TenantCopyTest, ACopyIsTheTenantAsItStoodWithWhatIsInTheWriteAheadLog) {
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b"), TestRow(3, "c", "x")}));
  ASSERT_OK(Erase({1}));
  ASSERT_OK(Insert({TestRow(4, "d")}));  // which no checkpoint follows
  const std::vector<TokenRow> rows = LoadAll(*store_, memory_.uid);
  const std::vector<CertificateRecord> log = WholeLog(*store_);
  const std::string path = NewPath();
  const auto copy = store_->CopyTo(path);
  ASSERT_OK(copy);
  EXPECT_EQ(copy->tenant.uid, TestTenant().uid);
  EXPECT_EQ(copy->tenant.name, TestTenant().name);
  EXPECT_EQ(copy->log.count, 1u);
  EXPECT_EQ(copy->log.checkpoint, store_->GetLogHead()->checkpoint);
  EXPECT_EQ(copy->bytes, fs::file_size(path));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(path + "-wal"));
  EXPECT_FALSE(fs::exists(path + "-journal"));
  // The tenant goes on, and the copy does not.
  ASSERT_OK(Insert({TestRow(5, "e")}));
  const auto opened = OpenCopy(path);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(LoadAll(*opened, memory_.uid), rows);
  EXPECT_EQ(WholeLog(*opened), log);
  EXPECT_THAT(*opened->PendingErasures(), ElementsAre(PendingErasure{0, 1}));
  EXPECT_EQ((*opened->FindByIds(memory_.uid, std::vector<std::string>{"a"}))[0].state,
            IdState::kErased);
}

TEST_F(TenantCopyTest, WhatWasErasedIsNotInTheFreePagesOfACopy) {
  std::vector<TokenRow> rows;
  for (uint64_t handle = 1; handle <= 60; ++handle) {
    rows.push_back(TestRow(handle, absl::StrCat(handle)));
    rows.back().payload.assign(20'000, 'p');
  }
  ASSERT_OK(Insert(rows));
  std::vector<uint64_t> handles;
  for (uint64_t handle = 2; handle <= 60; ++handle) handles.push_back(handle);
  ASSERT_OK(Erase(handles));
  const auto copy = store_->CopyTo(NewPath());
  ASSERT_OK(copy);
  EXPECT_GT(fs::file_size(file_), 1'000'000u);
  EXPECT_LT(copy->bytes, 300'000u);
}

TEST_F(TenantCopyTest, NoFileIsOverwrittenAndNoHalfOfOneRemains) {
  ASSERT_OK(Insert({TestRow(1, "a")}));
  const std::string taken = NewPath();
  for (const std::string& content : {std::string("mine"), std::string()}) {
    WriteFile(taken, content);
    EXPECT_CODE(store_->CopyTo(taken), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(ReadFile(taken), content);
  }
  EXPECT_CODE(store_->CopyTo(folder_.path() + "/no/folder"), absl::StatusCode::kNotFound);
  TokenRow large = TestRow(2, "b");
  large.payload.assign(2'000'000, 'p');
  ASSERT_OK(Insert({large}));
  const std::string half = NewPath();
  {
    const ScopedFileLimit limit(1'000'000);
    EXPECT_FALSE(store_->CopyTo(half).ok());
  }
  EXPECT_FALSE(fs::exists(half));
  EXPECT_FALSE(fs::exists(half + "-journal"));
  // The tenant itself has nothing of it.
  EXPECT_OK(store_->Health());
  ASSERT_OK(Insert({TestRow(3, "c")}));
  EXPECT_OK(store_->CopyTo(half));
}

TEST_F(TenantCopyTest, ATenantThatClosesIsNotCopied) {
  ASSERT_OK(store_->BeginClose());
  const std::string path = NewPath();
  EXPECT_CODE(store_->CopyTo(path), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace lethe::store
