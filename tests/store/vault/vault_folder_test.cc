// The end of a tenant's keys: KEKs, slots, files, folder; in one go, and from every half of it.
#include "store/vault/vault_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/vault/file_kms.h"
#include "tests/store/vault/fault_calls.h"
#include "tests/store/vault/vault_testing.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSlots = 40;

class EndOfKeys : public ::testing::Test {
 protected:
  // A vault with two KEKs, 38 live and 2 destroyed slots, closed.
  void Make() {
    fs::create_directory(folder_);
    auto kms = *FileKms::Create(KekFolderOf(folder_));
    auto store = *KeyStore::Create(KeysFileOf(folder_), Uid(1), kms.get());
    ASSERT_OK(store->Allocate(kSlots));
    ASSERT_OK(store->Destroy(std::vector<uint64_t>{1, 2}));
    ASSERT_OK(kms->Rotate());
  }
  void ExpectGone() {
    EXPECT_FALSE(fs::exists(folder_));
    const auto again = DestroyAllKeys(folder_);
    ASSERT_OK(again);
    EXPECT_EQ(again->last_epoch, 0u);
    EXPECT_FALSE(again->keys.counted);
    EXPECT_EQ(again->keys.bytes_overwritten, 0u);
  }
  std::string Keys() const { return KeysFileOf(folder_); }

  TempFolder temp_;
  std::string folder_ = temp_.path() + "/vault";
};

TEST_F(EndOfKeys, AllIsOverwrittenAndRemoved) {
  Make();
  const uint64_t size = fs::file_size(Keys());
  // Other names of the same files, which show what became of their bytes.
  fs::create_hard_link(Keys(), temp_.path() + "/keys");
  fs::create_hard_link(KekFolderOf(folder_) + "/kek-0000000001", temp_.path() + "/first");
  fs::create_hard_link(KekFolderOf(folder_) + "/kek-0000000002", temp_.path() + "/second");
  WriteFile(Keys() + "-shm", "left by another program");
  WriteFile(Keys() + ".new", "left by a crash");
  const auto ended = DestroyAllKeys(folder_);
  ASSERT_OK(ended);
  EXPECT_EQ(ended->last_epoch, 2u);
  EXPECT_TRUE(ended->keys.counted);
  EXPECT_EQ(ended->keys.destroyed, kSlots - 2);
  EXPECT_EQ(ended->keys.already_destroyed, 2u);
  EXPECT_GE(ended->keys.bytes_overwritten, size);
  EXPECT_EQ(ReadFile(temp_.path() + "/keys"), std::string(size, '\0'));
  EXPECT_EQ(ReadFile(temp_.path() + "/first"), std::string(64, '\0'));
  EXPECT_EQ(ReadFile(temp_.path() + "/second"), std::string(64, '\0'));
  ExpectGone();
}

TEST_F(EndOfKeys, EveryHalfOfItIsTakenUp) {
  const std::vector<std::function<void()>> halves = {
      [&] { fs::remove_all(KekFolderOf(folder_)); },
      [&] { fs::remove(KekFolderOf(folder_) + "/kek-0000000002"); },
      [&] { ASSERT_OK(FileKms::Remove(KekFolderOf(folder_))); },
      [&] {
        auto kms = *FileKms::Open(KekFolderOf(folder_));
        ASSERT_OK(kms->DestroyAll());
      },
      [&] { ASSERT_OK(KeyStore::Remove(Keys())); },
      [&] { fs::remove(Keys()); },
      [&] { fs::rename(Keys(), folder_ + "/.old-keys.db"); },
      [&] { WriteFile(Keys(), ""); },
      [&] { WriteFile(Keys(), "no database"); },
      [&] {
        std::string bytes = ReadFile(Keys());
        bytes.resize(bytes.size() - 100);
        WriteFile(Keys(), bytes);
      },
  };
  for (size_t i = 0; i < halves.size(); ++i) {
    SCOPED_TRACE(i);
    Make();
    halves[i]();
    ASSERT_OK(DestroyAllKeys(folder_));
    ExpectGone();
    if (HasFailure()) return;
  }
}

TEST_F(EndOfKeys, WhatIsOpenOrForeignIsLeftAlone) {
  Make();
  {
    auto kms = *FileKms::Open(KekFolderOf(folder_));
    const auto store = *KeyStore::Open(Keys(), Uid(1), kms.get());
    EXPECT_CODE(KeyStore::Remove(Keys()), absl::StatusCode::kUnavailable);
    EXPECT_EQ(*store->State(3), SlotState::kLive);
  }
  WriteFile(folder_ + "/notes.txt", "mine");
  EXPECT_CODE(DestroyAllKeys(folder_), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(folder_ + "/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(Keys()));
  EXPECT_FALSE(fs::exists(KekFolderOf(folder_)));
  fs::remove(folder_ + "/notes.txt");
  ASSERT_OK(DestroyAllKeys(folder_));
  ExpectGone();
  // Another program's database.
  fs::create_directory(folder_);
  RunCommand(absl::StrCat("sqlite3 '", Keys(), "' 'CREATE TABLE t (x)'"));
  const std::string theirs = ReadFile(Keys());
  EXPECT_CODE(DestroyAllKeys(folder_), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(Keys()), theirs);
}

class StruckEnd : public EndOfKeys, public ::testing::WithParamInterface<Fault> {
 protected:
  void SetUp() override {
    Make();
    fs::rename(folder_, temp_.path() + "/master");
  }
  // As Make has it, with other names for the bytes, whatever becomes of their own.
  void Restore() {
    fs::copy(temp_.path() + "/master", folder_, fs::copy_options::recursive);
    fs::permissions(KekFolderOf(folder_), fs::perms::owner_all);
    for (const auto& [name, path] : Names()) {
      fs::remove(temp_.path() + "/" + name);
      fs::create_hard_link(path, temp_.path() + "/" + name);
    }
  }
  std::map<std::string, std::string> Names() const {
    return {{"keys", Keys()},
            {"first", KekFolderOf(folder_) + "/kek-0000000001"},
            {"second", KekFolderOf(folder_) + "/kek-0000000002"}};
  }
};

TEST_P(StruckEnd, IsFinishedByTheNextCall) {
  const bool kills = GetParam() != Fault::kFail;
  uint64_t struck = 0;
  for (uint64_t at = 1;; ++at) {
    SCOPED_TRACE(absl::StrCat("call ", at));
    ASSERT_LT(at, 100u);
    Restore();
    bool finished = false;
    if (kills) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        ArmFault(GetParam(), at);
        const bool ok = DestroyAllKeys(folder_).ok();
        DisarmFault();
        ::_exit(ok ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      finished = WIFEXITED(status);
      ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0);
    } else {
      ArmFault(GetParam(), at);
      const absl::Status status = DestroyAllKeys(folder_).status();
      finished = DisarmFault() < at;
      ASSERT_TRUE(!finished || status.ok());
    }
    ASSERT_OK(DestroyAllKeys(folder_));
    ExpectGone();
    for (const auto& [name, path] : Names()) {
      const std::string bytes = ReadFile(temp_.path() + "/" + name);
      ASSERT_EQ(bytes, std::string(bytes.size(), '\0')) << name;
    }
    if (HasFailure()) return;
    if (finished) break;
    ++struck;
  }
  std::cout << struck << " strikes" << std::endl;
  EXPECT_GE(struck, 15u);
}

INSTANTIATE_TEST_SUITE_P(Faults,
                         StruckEnd,
                         ::testing::Values(Fault::kKillAfter, Fault::kKillShort, Fault::kFail));

}  // namespace
}  // namespace lethe::store
