// Nothing that a tenant's store has reported is left to luck: when a step has answered OK, no file
// and no folder has changes that were not synced, the emptied write-ahead logs included; and no
// step answers OK although a sync of it failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/tenant_restore.h"
#include "tests/store/store_testing.h"
#include "tests/store/vault/sync_recorder.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Tenant {
  explicit Tenant(const std::string& folder) : dir(folder) {
    fs::create_directory(dir);
    options = TestOptions(dir);
  }
  std::string dir;
  SqliteTenantOptions options;
  MemoryRecord memory = TestMemory(1);
  std::unique_ptr<TenantStore> store;

  CertificateAppend Next() const { return NextCertificate(*store, memory); }
};

struct Step {
  std::string name;
  std::function<void(Tenant& tenant)> prepare;
  std::function<absl::Status(Tenant& tenant)> run;
};

absl::Status Create(Tenant& tenant) {
  auto store = CreateTenantStore(tenant.dir, TestTenant(), tenant.options);
  if (store.ok()) tenant.store = std::move(*store);
  return store.status();
}
absl::Status Insert(Tenant& tenant) {
  return tenant.store->InsertTokens(
      tenant.memory.uid,
      std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c")});
}
absl::Status Erase(Tenant& tenant) {
  const auto erased =
      tenant.store->EraseTokens({tenant.memory.uid, {1, 3}, tenant.Next(), std::nullopt});
  return erased.ok() ? erased->checkpoint : erased.status();
}
absl::Status DestroyKeys(Tenant& tenant) {
  const auto destroyed = tenant.store->DestroyPendingKeys(0);
  return destroyed.ok() ? destroyed->evidence : destroyed.status();
}
absl::Status BeginClose(Tenant& tenant) {
  const auto begun = tenant.store->BeginClose();
  return begun.ok() ? begun->checkpoint : begun.status();
}

void MakeEmpty(Tenant& tenant) {
  ASSERT_OK(Create(tenant));
  ASSERT_OK(tenant.store->StartLog(TestStart()));
  ASSERT_OK(tenant.store->CreateMemory(tenant.memory));
}
void MakeFull(Tenant& tenant) {
  MakeEmpty(tenant);
  ASSERT_OK(Insert(tenant));
}
void MakeErased(Tenant& tenant) {
  MakeFull(tenant);
  ASSERT_OK(Erase(tenant));
}
void MakeClosing(Tenant& tenant) {
  MakeFull(tenant);
  ASSERT_OK(BeginClose(tenant));
}

std::vector<Step> Steps() {
  return {
      {"create", [](Tenant&) {}, Create},
      {"insert", MakeEmpty, Insert},
      {"checkpoint", MakeFull, [](Tenant& t) { return t.store->Checkpoint(); }},
      {"erase", MakeFull, Erase},
      {"delete a memory", MakeFull,
       [](Tenant& t) {
         const auto erased = t.store->DeleteMemory({t.memory.uid, t.Next(), std::nullopt});
         return erased.ok() ? erased->checkpoint : erased.status();
       }},
      {"destroy keys", MakeErased, DestroyKeys},
      {"append the shredded certificate",
       [](Tenant& t) {
         MakeErased(t);
         ASSERT_OK(DestroyKeys(t));
       },
       [](Tenant& t) { return t.store->AppendShredded(t.Next(), 0); }},
      {"copy", MakeFull, [](Tenant& t) { return t.store->CopyTo(t.dir + "/copy.db").status(); }},
      {"begin to close", MakeFull, BeginClose},
      {"destroy all keys", MakeClosing,
       [](Tenant& t) { return t.store->DestroyAllKeys().status(); }},
      {"finish closing",
       [](Tenant& t) {
         MakeClosing(t);
         ASSERT_OK(t.store->DestroyAllKeys());
       },
       [](Tenant& t) { return t.store->FinishClose(t.Next()); }},
  };
}

class Folders : public ::testing::Test {
 protected:
  std::string NewFolder() { return absl::StrCat(temp_.path(), "/", ++folders_); }

 private:
  TempFolder temp_;
  int folders_ = 0;
};

class TenantSync : public Folders, public ::testing::WithParamInterface<Step> {};

TEST_P(TenantSync, NothingIsDirtyWhenItIsDone) {
  Tenant tenant(NewFolder());
  GetParam().prepare(tenant);
  StartRecording();
  const absl::Status status = GetParam().run(tenant);
  const SyncRecord record = StopRecording();
  ASSERT_OK(status);
  EXPECT_THAT(record.dirty, IsEmpty());
  EXPECT_THAT(record.violations, IsEmpty());
  EXPECT_GE(record.syncs, 1u);
}

TEST_P(TenantSync, NoFailedSyncIsPassedOver) {
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("sync ", at));
    ASSERT_LT(at, 100u);
    Tenant tenant(NewFolder());
    GetParam().prepare(tenant);
    StartRecording(at);
    const absl::Status status = GetParam().run(tenant);
    const SyncRecord record = StopRecording();
    if (record.syncs < at) {
      EXPECT_OK(status);
      std::cout << at - 1 << " syncs" << std::endl;
      break;
    }
    if (!status.ok()) continue;
    EXPECT_THAT(record.violations, IsEmpty());
    // SQLite passes over the sync of its log's folder, which is synced once more, and over those of
    // a connection that closes: here of the file of keys, every byte of which is overwritten after
    // it. And over that of a journal which it has finished with: the copy is looked at without it.
    EXPECT_TRUE(record.folder_failed || GetParam().name == "destroy all keys" ||
                record.failed == "copy.db-journal")
        << record.failed;
    EXPECT_FALSE(fs::exists(tenant.dir + "/copy.db-journal"));
    EXPECT_THAT(record.dirty, IsEmpty());
  }
}

std::string NameOf(const ::testing::TestParamInfo<Step>& info) {
  std::string name = info.param.name;
  name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
  return name;
}
void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

INSTANTIATE_TEST_SUITE_P(Steps, TenantSync, ::testing::ValuesIn(Steps()), NameOf);

// --- A restore, which opens and closes files

class RestoreSync : public Folders {
 protected:
  // A tenant that was copied, forgot its first and third token, and is closed.
  std::unique_ptr<Tenant> MakeLost() {
    auto tenant = std::make_unique<Tenant>(NewFolder());
    MakeFull(*tenant);
    EXPECT_OK(tenant->store->CopyTo(tenant->dir + "/copy.db"));
    EXPECT_OK(Erase(*tenant));
    EXPECT_OK(DestroyKeys(*tenant));
    EXPECT_OK(tenant->store->AppendShredded(tenant->Next(), 0));
    tenant->store.reset();
    return tenant;
  }
  // As a data folder does it, which makes the names durable.
  static absl::Status Restore(const Tenant& tenant, const std::string& dir) {
    const auto certify = [](const RestoreReport&, const LogHead& head, std::span<const LogKey>) {
      return absl::StatusOr<CertificateAppend>(NextCertificate(head));
    };
    const auto report = RestoreTenantStore(dir, tenant.options, certify, 0);
    return report.ok() ? SyncFolder(dir) : report.status();
  }
  static void Put(const Tenant& tenant, const std::string& dir) {
    fs::create_directory(dir);
    fs::copy_file(tenant.dir + "/copy.db", dir + "/tenant.db");
  }
  static void ExpectRestored(const Tenant& tenant, const std::string& dir) {
    const auto store = OpenTenantStore(dir, tenant.options);
    ASSERT_OK(store);
    EXPECT_TRUE(LoadAll(**store, tenant.memory.uid).empty());  // the rest of x had its key
    EXPECT_EQ((*store)->CountMemory(tenant.memory.uid)->tombstones, 2u);
    EXPECT_GE((*store)->GetLogHead()->count, 3u);
  }
};

TEST_F(RestoreSync, NoBytesAreDirtyWhenItIsDone) {
  const auto tenant = MakeLost();
  const std::string dir = tenant->dir + "/restored";
  Put(*tenant, dir);
  StartRecording();
  const absl::Status status = Restore(*tenant, dir);
  const SyncRecord record = StopRecording();
  ASSERT_OK(status);
  // Closing takes the names of logs away that are in their files by then; they may come back.
  EXPECT_THAT(record.dirty, ElementsAre("the names in " + TestTenant().uid));
  EXPECT_THAT(record.violations, IsEmpty());
  ExpectRestored(*tenant, dir);
}

// Whichever sync fails: either it mattered to none of the files, or the restore is repeated.
TEST_F(RestoreSync, AfterAnyFailedSyncItIsDoneOrCanBeRepeated) {
  int failed = 0;
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("sync ", at));
    ASSERT_LT(at, 100u);
    const auto tenant = MakeLost();
    std::string dir = tenant->dir + "/restored";
    Put(*tenant, dir);
    StartRecording(at);
    const absl::Status status = Restore(*tenant, dir);
    const SyncRecord record = StopRecording();
    if (!status.ok()) {
      ++failed;
      dir += "-again";
      Put(*tenant, dir);
      EXPECT_OK(Restore(*tenant, dir));
    }
    ExpectRestored(*tenant, dir);
    if (record.syncs < at) break;
  }
  EXPECT_GE(failed, 5);
}

// --- The connection alone

class DatabaseSync : public ::testing::Test {
 protected:
  absl::Status Make() {
    database_.reset();
    path_ = absl::StrCat(temp_.path(), "/", ++files_, ".db");
    auto database = Database::Open(path_, Database::Mode::kCreate, kTenantIdentity);
    if (database.ok()) database_ = std::move(*database);
    return database.status();
  }

  TempFolder temp_;
  int files_ = 0;
  std::string path_;
  std::unique_ptr<Database> database_;
};

// Bytes 18 and 19 of the header: 2 with a write-ahead log, 1 with a rollback journal.
TEST_F(DatabaseSync, ANewFileHasAWriteAheadLogOrIsRefused) {
  int refused = 0;
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("sync ", at));
    ASSERT_LT(at, 100u);
    StartRecording(at);
    const absl::Status status = Make();
    const SyncRecord record = StopRecording();
    const std::string header = ReadFile(path_).substr(0, 20);
    const bool named = header.size() == 20 && header[18] == 2 && header[19] == 2;
    if (status.ok()) {
      EXPECT_TRUE(named);
    } else {
      EXPECT_CODE(status, absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()), HasSubstr("write-ahead log"));
      ++refused;
    }
    if (record.syncs < at) break;
  }
  EXPECT_GE(refused, 1);
}

TEST_F(DatabaseSync, AnEmptiedLogIsSyncedOrTheConnectionEnds) {
  ASSERT_OK(Make());
  ASSERT_OK(database_->Execute("CREATE TABLE t (x INTEGER)"));
  StartRecording();
  ASSERT_OK(database_->CheckpointTruncate());
  const SyncRecord whole = StopRecording();
  EXPECT_THAT(whole.dirty, IsEmpty());
  const std::string log = fs::path(path_).filename().string() + "-wal";
  ASSERT_THAT(whole.steps, Contains("sync " + log));
  EXPECT_EQ(whole.steps.back(), "sync " + log);

  // The last sync is that of the truncation.
  ASSERT_OK(database_->Execute("INSERT INTO t VALUES (1)"));
  StartRecording(whole.syncs);
  const absl::Status failed = database_->CheckpointTruncate();
  StopRecording();
  EXPECT_CODE(failed, absl::StatusCode::kUnavailable);
  EXPECT_CODE(database_->health(), absl::StatusCode::kUnavailable);
  EXPECT_CODE(database_->CheckpointTruncate(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lethe::store
