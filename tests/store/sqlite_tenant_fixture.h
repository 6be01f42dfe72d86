// A tenant in a file, which the tests look at and spoil with the plain sqlite3 library.
#ifndef LETHE_TESTS_STORE_SQLITE_TENANT_FIXTURE_H_
#define LETHE_TESTS_STORE_SQLITE_TENANT_FIXTURE_H_

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/sqlite_tenant_store.h"
#include "tests/store/store_testing.h"

namespace lethe::store {

class SqliteTenantStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = CreateTenantStore(folder_.path(), TestTenant(), TestOptions(folder_.path()));
    ASSERT_OK(store);
    store_ = std::move(*store);
    ASSERT_OK(store_->StartLog(TestStart()));
    ASSERT_OK(store_->CreateMemory(memory_));
  }
  SqliteTenantOptions Options() { return TestOptions(folder_.path()); }
  void Open() { Open(Options()); }
  void Open(const SqliteTenantOptions& options) {
    store_.reset();
    auto store = OpenTenantStore(folder_.path(), options);
    ASSERT_OK(store);
    store_ = std::move(*store);
  }
  absl::Status OpenStatus() {
    store_.reset();
    return OpenTenantStore(folder_.path(), Options()).status();
  }
  absl::Status Insert(const std::vector<TokenRow>& rows) {
    return store_->InsertTokens(memory_.uid, rows);
  }
  absl::StatusOr<EraseResult> Erase(std::vector<uint64_t> handles) {
    return store_->EraseTokens(
        {memory_.uid, std::move(handles), NextCertificate(*store_, memory_), std::nullopt});
  }
  // Closes the store, runs the statements, returns the first column of the last row as text.
  std::string Raw(const std::string& sql) {
    store_.reset();
    const RawResult result = RunRaw(file_, sql);
    raw_code_ = result.code;
    return result.text;
  }

  TempFolder folder_;
  const std::string file_ = folder_.path() + "/tenant.db";
  const MemoryRecord memory_ = TestMemory(1);
  std::unique_ptr<TenantStore> store_;
  int raw_code_ = SQLITE_OK;
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_SQLITE_TENANT_FIXTURE_H_
