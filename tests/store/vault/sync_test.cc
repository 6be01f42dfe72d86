// Nothing that was reported is left to luck: when a step of a KEK folder or of a key store has
// answered OK, no file and no folder has changes that were not synced; and no step answers OK
// although a sync of it failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_store.h"
#include "store/vault/vault_folder.h"
#include "tests/store/vault/sync_recorder.h"
#include "tests/store/vault/vault_testing.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

// What a step works on. Closed in the order that its parts need.
struct Vault {
  explicit Vault(const std::string& folder) : path(folder) {}
  std::string path;
  std::unique_ptr<FileKms> kms;
  std::unique_ptr<KeyStore> store;

  std::string kek() const { return KekFolderOf(path); }
  std::string keys() const { return KeysFileOf(path); }
};

struct Step {
  std::string name;
  std::function<void(Vault& vault)> prepare;
  std::function<absl::Status(Vault& vault)> run;
};

void MakeKms(Vault& vault) {
  fs::create_directory(vault.path);
  vault.kms = *FileKms::Create(vault.kek());
}
void MakeTwoEpochs(Vault& vault) {
  MakeKms(vault);
  ASSERT_OK(vault.kms->Rotate());
}
void MakeStore(Vault& vault) {
  MakeKms(vault);
  vault.store = *KeyStore::Create(vault.keys(), Uid(1), vault.kms.get());
  ASSERT_OK(vault.store->Allocate(100));
}
void MakeClosed(Vault& vault) {
  MakeStore(vault);
  vault.store.reset();
  vault.kms.reset();
}

std::vector<Step> Steps() {
  const std::vector<uint64_t> some = {3, 4, 50};
  return {
      {"create the KEK folder", [](Vault& v) { fs::create_directory(v.path); },
       [](Vault& v) { return FileKms::Create(v.kek()).status(); }},
      {"rotate the KEK", MakeKms, [](Vault& v) { return v.kms->Rotate().status(); }},
      {"destroy an epoch", MakeTwoEpochs, [](Vault& v) { return v.kms->Destroy(1); }},
      {"destroy all epochs", MakeTwoEpochs, [](Vault& v) { return v.kms->DestroyAll(); }},
      {"remove the KEK folder", MakeTwoEpochs,
       [](Vault& v) {
         v.kms.reset();
         return FileKms::Remove(v.kek()).status();
       }},
      {"create the key store", MakeKms,
       [](Vault& v) {
         auto store = KeyStore::Create(v.keys(), Uid(1), v.kms.get());
         if (store.ok()) v.store = *std::move(store);
         return store.status();
       }},
      {"allocate", MakeStore, [](Vault& v) { return v.store->Allocate(10).status(); }},
      {"destroy keys", MakeStore,
       [some](Vault& v) {
         const auto result = v.store->Destroy(some);
         return result.ok() ? result->evidence : result.status();
       }},
      {"rotate the key store", MakeStore,
       [](Vault& v) {
         const auto result = v.store->Rotate();
         return result.ok() ? result->evidence : result.status();
       }},
      {"forget an epoch",
       [](Vault& v) {
         MakeStore(v);
         ASSERT_OK(v.store->Rotate());
       },
       [](Vault& v) { return v.store->ForgetEndedEpochs(1); }},
      {"remove the key store", MakeClosed,
       [](Vault& v) { return KeyStore::Remove(v.keys()).status(); }},
      {"destroy all keys", MakeClosed, [](Vault& v) { return DestroyAllKeys(v.path).status(); }},
  };
}

class Durable : public ::testing::TestWithParam<Step> {
 protected:
  std::string NewFolder() { return absl::StrCat(temp_.path(), "/", ++folders_); }

 private:
  TempFolder temp_;
  int folders_ = 0;
};

TEST_P(Durable, NothingIsDirtyWhenItIsDone) {
  Vault vault(NewFolder());
  GetParam().prepare(vault);
  StartRecording();
  const absl::Status status = GetParam().run(vault);
  const SyncRecord record = StopRecording();
  ASSERT_OK(status);
  EXPECT_THAT(record.dirty, IsEmpty());
  EXPECT_THAT(record.violations, IsEmpty());
  EXPECT_GE(record.syncs, 1u);
}

TEST_P(Durable, NoFailedSyncIsPassedOver) {
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("sync ", at));
    ASSERT_LT(at, 100u);
    Vault vault(NewFolder());
    GetParam().prepare(vault);
    StartRecording(at);
    absl::Status status = GetParam().run(vault);
    SyncRecord record = StopRecording();
    if (record.syncs < at) {
      EXPECT_OK(status);
      std::cout << at - 1 << " syncs" << std::endl;
      break;
    }
    if (!status.ok()) continue;
    EXPECT_THAT(record.violations, IsEmpty());
    // SQLite passes over the sync of its log's folder, which is synced once more.
    EXPECT_TRUE(record.folder_failed);
    EXPECT_THAT(record.dirty, IsEmpty());
  }
}

std::string NameOf(const ::testing::TestParamInfo<Step>& info) {
  std::string name = info.param.name;
  name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
  return name;
}
void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

INSTANTIATE_TEST_SUITE_P(Steps, Durable, ::testing::ValuesIn(Steps()), NameOf);

// After a failed sync the same step is asked for again, and then all is durable, also what the
// first try had done.
TEST(Durability, ASecondTryMakesUpForTheFirst) {
  const TempFolder temp;
  const std::vector<Step> steps = Steps();
  for (const std::string name : {"destroy an epoch", "destroy all epochs", "remove the KEK folder",
                                 "remove the key store", "destroy all keys"}) {
    const auto step =
        std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.name == name; });
    for (uint64_t at = 1;; ++at) {
      SCOPED_TRACE(absl::StrCat(name, ", sync ", at));
      ASSERT_LT(at, 100u);
      Vault vault(absl::StrCat(temp.path(), "/", name, at));
      step->prepare(vault);
      StartRecording(at);
      const absl::Status first = step->run(vault);
      const SyncRecord record = StopRecording();
      if (record.syncs < at) break;
      if (first.ok()) continue;
      GoOnRecording();
      const absl::Status second = step->run(vault);
      const SyncRecord after = StopRecording();
      ASSERT_OK(second);
      EXPECT_THAT(after.dirty, IsEmpty());
    }
  }
}

// The recorder sees what it is there for.
TEST(Recorder, SeesWhatIsLeftOut) {
  const TempFolder temp;
  StartRecording();
  WriteFile(temp.path() + "/a", "bytes");
  fs::rename(temp.path() + "/a", temp.path() + "/b");
  const SyncRecord record = StopRecording();
  EXPECT_THAT(record.dirty, Contains("b"));
  EXPECT_THAT(record.dirty, Contains("the names in " + temp.path()));
  EXPECT_THAT(record.violations, Not(IsEmpty()));
}

// Zeros are read back after the pages that were written are given up.
TEST(Durability, ZerosAreReadBehindTheCache) {
  const TempFolder temp;
  Vault vault(temp.path() + "/vault");
  MakeTwoEpochs(vault);
  StartRecording();
  const absl::Status status = vault.kms->Destroy(1);
  const SyncRecord record = StopRecording();
  ASSERT_OK(status);
  const std::string name = ".old-kek-0000000001";
  auto at = [&](const std::string& step) {
    return std::find(record.steps.begin(), record.steps.end(), absl::StrCat(step, " ", name)) -
           record.steps.begin();
  };
  const auto end = static_cast<ptrdiff_t>(record.steps.size());
  EXPECT_LT(at("sync"), at("drop")) << absl::StrJoin(record.steps, ", ");
  EXPECT_LT(at("drop"), at("read"));
  EXPECT_LT(at("read"), end);
}

// However many keys go at once, the log does not grow with them.
TEST(Durability, TheLogHoldsOneBatchOfADestruction) {
  const TempFolder temp;
  Vault vault(temp.path() + "/vault");
  MakeKms(vault);
  KeyStoreOptions options;
  options.destroy_batch = 500;
  StartRecording();  // the log is known by the name that it is opened by
  vault.store = *KeyStore::Create(vault.keys(), Uid(1), vault.kms.get(), options);
  StopRecording();
  ASSERT_OK(vault.store->Allocate(10'000));
  std::vector<uint64_t> all(10'000);
  std::iota(all.begin(), all.end(), 1);
  ASSERT_OK(vault.store->Destroy(std::vector<uint64_t>{1}));  // empties the log
  GoOnRecording();
  const auto result = vault.store->Destroy(all);
  const SyncRecord record = StopRecording();
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_EQ(result->destroyed, 9'999u);
  EXPECT_GT(record.longest_log, 10'000u);
  EXPECT_LT(record.longest_log, 200'000u);  // 500 slots are 14 pages
}

}  // namespace
}  // namespace lethe::store
