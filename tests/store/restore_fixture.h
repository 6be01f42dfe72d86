// A tenant that is copied, goes on, is lost, and is restored from one of the copies.
#ifndef LETHE_TESTS_STORE_RESTORE_FIXTURE_H_
#define LETHE_TESTS_STORE_RESTORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/anchor.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_restore.h"
#include "tests/store/store_testing.h"

namespace lethe::store {

class RestoreFixture : public ::testing::Test {
 protected:
  void SetUp() override { Create(); }
  void Create() {
    std::filesystem::create_directory(vault_);
    std::filesystem::permissions(vault_, std::filesystem::perms::owner_all);
    dir_ = NewFolder();
    options_.vault = vault_;
    auto store = CreateTenantStore(dir_, TestTenant(), options_);
    ASSERT_OK(store);
    store_ = std::move(*store);
    ASSERT_OK(store_->StartLog(TestStart()));
    ASSERT_OK(store_->CreateMemory(memory_));
  }
  static constexpr int64_t kHeldBackUntil = 50;
  std::string NewPath() { return absl::StrCat(folder_.path(), "/", ++paths_); }
  std::string NewFolder() {
    const std::string path = NewPath();
    std::filesystem::create_directory(path);
    return path;
  }
  absl::Status Open() {
    store_.reset();
    auto store = OpenTenantStore(dir_, options_);
    if (store.ok()) store_ = std::move(*store);
    return store.status();
  }
  std::string Copy() {
    const std::string path = NewPath();
    EXPECT_OK(store_->CopyTo(path));
    return path;
  }
  absl::Status Insert(const std::vector<TokenRow>& rows, const MemoryRecord& memory) {
    return store_->InsertTokens(memory.uid, rows);
  }
  absl::Status Insert(const std::vector<TokenRow>& rows) { return Insert(rows, memory_); }
  absl::Status Erase(std::vector<uint64_t> handles, const MemoryRecord& memory) {
    return store_
        ->EraseTokens({memory.uid, std::move(handles), NextCertificate(*store_, memory), {}})
        .status();
  }
  absl::Status Erase(std::vector<uint64_t> handles) { return Erase(std::move(handles), memory_); }

  // What a server does, but for the signatures; keeps what it was asked with.
  RestoreCertifier Certifier() {
    return [this](const RestoreReport& report, const LogHead& head, std::span<const LogKey> keys) {
      certified_ = report;
      certified_keys_.assign(keys.begin(), keys.end());
      CertificateAppend certificate = NextCertificate(head);
      certificate.record.kind = "restored";
      return absl::StatusOr<CertificateAppend>(std::move(certificate));
    };
  }
  // The tenant's folder is lost; what an attempt leaves of it when it fails is thrown away.
  absl::StatusOr<RestoreReport> Restore(const std::string& copy) {
    store_.reset();
    const std::string dir = NewFolder();
    std::filesystem::copy_file(copy, dir + "/tenant.db");
    auto report = RestoreTenantStore(dir, options_, Certifier(), kHeldBackUntil);
    if (report.ok()) {
      dir_ = dir;
      EXPECT_OK(FinishRestore(options_, *report));
    }
    return report;
  }
  // Restores and opens.
  RestoreReport MustRestore(const std::string& copy) {
    const auto report = Restore(copy);
    EXPECT_OK(report);
    EXPECT_OK(Open());
    return report.ok() ? *report : RestoreReport{};
  }
  std::string VaultOfTenant() const { return vault_ + "/" + TestTenant().uid; }
  std::string AnchorFile() const { return VaultOfTenant() + "/anchor.db"; }
  std::string KeysFile() const { return VaultOfTenant() + "/keys.db"; }
  // Every file of the vault with its bytes.
  std::map<std::string, std::string> VaultBytes() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(vault_)) {
      if (entry.is_regular_file()) files[entry.path().string()] = ReadFile(entry.path().string());
    }
    return files;
  }
  IdState StateOf(const std::string& id, const MemoryRecord& memory) {
    const auto found = store_->FindByIds(memory.uid, std::vector<std::string>{id});
    EXPECT_OK(found);
    return found.ok() ? found->front().state : IdState::kUnknown;
  }
  IdState StateOf(const std::string& id) { return StateOf(id, memory_); }
  std::vector<TokenRow> Rows() { return LoadAll(*store_, memory_.uid); }
  // Entry for entry, with the same checkpoint. Opens the store again.
  void ExpectAnchorIsTheLog() {
    const std::vector<CertificateRecord> log = WholeLog(*store_);
    const std::string checkpoint = store_->GetLogHead()->checkpoint;
    store_.reset();
    {
      const auto anchor = Anchor::Open(AnchorFile(), TestTenant().uid, TestTenant().log_origin);
      ASSERT_OK(anchor);
      std::vector<CertificateRecord> anchored;
      EXPECT_OK((*anchor)->Visit(0, [&anchored](AnchorEntry& entry) {
        anchored.push_back(entry.record);
        return absl::OkStatus();
      }));
      EXPECT_EQ(anchored, log);
      EXPECT_EQ((*anchor)->head().checkpoint, checkpoint);
    }
    ASSERT_OK(Open());
  }
  // That the tenant goes on as any other: rows come in and go, it is opened again, and its end ends
  // every key.
  void ExpectGoesOn() {
    const auto memory = store_->GetMemory(memory_.uid);
    if (memory.ok()) {
      const std::vector<TokenRow> before = Rows();
      const uint64_t handle = memory->next_handle;
      ASSERT_OK(Insert({TestRow(handle, "goes-on", "its subject"), TestRow(handle + 1, "stays")}));
      ASSERT_OK(Erase({handle}));
      EXPECT_EQ(StateOf("goes-on"), IdState::kErased);
      ASSERT_TRUE(FinishErasures(*store_));
      ASSERT_OK(Open());
      EXPECT_EQ(Rows().size(), before.size() + 1);
    }
    ExpectLogIsChained(WholeLog(*store_));
    ASSERT_OK(CloseWith(*store_, NextCertificate(*store_->GetLogHead())));
    ASSERT_OK(Open());
    EXPECT_EQ(store_->GetTenant()->state, TenantState::kClosed);
    EXPECT_TRUE(std::filesystem::is_empty(vault_));
  }

  TempFolder folder_;
  const std::string vault_ = folder_.path() + "/vault";
  const MemoryRecord memory_ = TestMemory(1);
  const MemoryRecord other_ = TestMemory(2);
  SqliteTenantOptions options_;
  std::string dir_;
  std::unique_ptr<TenantStore> store_;
  RestoreReport certified_;
  std::vector<LogKey> certified_keys_;
  int paths_ = 0;
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_RESTORE_FIXTURE_H_
