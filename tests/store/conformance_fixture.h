// The fixture of the suite that every engine behind TenantStore must pass. Its tests lie in several
// files, by theme.
#ifndef LETHE_TESTS_STORE_CONFORMANCE_FIXTURE_H_
#define LETHE_TESTS_STORE_CONFORMANCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/store/store_testing.h"

namespace lethe::store {

class Conformance : public ::testing::TestWithParam<Engine> {
 protected:
  void SetUp() override {
    auto store = GetParam().create(folder_.path(), TestTenant());
    ASSERT_OK(store);
    store_ = std::move(*store);
    memory_ = TestMemory(1);
    ASSERT_OK(store_->CreateMemory(memory_));
  }

  void Reopen() {
    store_.reset();
    auto store = GetParam().open(folder_.path());
    ASSERT_OK(store);
    store_ = std::move(*store);
  }

  absl::Status Insert(const std::vector<TokenRow>& rows) {
    return store_->InsertTokens(memory_.uid, rows);
  }
  EraseRequest Erase(std::vector<uint64_t> handles) {
    return {memory_.uid, std::move(handles), NextCertificate(*store_, memory_), std::nullopt};
  }
  std::vector<IdState> States(const std::vector<std::string>& ids) {
    std::vector<IdState> states;
    auto lookups = store_->FindByIds(memory_.uid, ids);
    EXPECT_OK(lookups);
    if (lookups.ok()) {
      for (const IdLookup& lookup : *lookups) states.push_back(lookup.state);
    }
    return states;
  }
  MemoryCounts Counts() {
    auto counts = store_->CountMemory(memory_.uid);
    EXPECT_OK(counts);
    return counts.ok() ? *counts : MemoryCounts{};
  }

  TempFolder folder_;
  std::unique_ptr<TenantStore> store_;
  MemoryRecord memory_;
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_CONFORMANCE_FIXTURE_H_
