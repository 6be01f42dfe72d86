// keys.db: allocation, reading, destruction with its evidence, change of epoch, the check at start.
#include "store/vault/key_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/store/vault/vault_fixture.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KeyStoreTest : public VaultTest {
 protected:
  absl::Status Touch(uint64_t slot) {
    return store_->WithKey(slot, 0, [](SealingKey&) { return absl::OkStatus(); });
  }
  // Runs SQL by the sqlite3 program, on the closed file.
  void Tamper(const std::string& sql) {
    Close();
    RunCommand(absl::StrCat("sqlite3 '", path(), "' \"", sql, "\""));
  }
};

TEST_F(KeyStoreTest, KeysComeBackAfterReopening) {
  EXPECT_EQ(*store_->Allocate(3), 1u);
  EXPECT_EQ(*store_->Allocate(1), 4u);
  EXPECT_EQ(store_->slots(), 4u);
  const std::vector<std::string> marks = MarkAll();
  Reopen();
  EXPECT_EQ(store_->slots(), 4u);
  for (uint64_t slot = 1; slot <= 4; ++slot) {
    EXPECT_EQ(*store_->State(slot), SlotState::kLive);
    for (uint64_t other = 1; other <= 4; ++other) {
      EXPECT_EQ(OpensMark(*store_, slot, marks[other - 1]), slot == other);
    }
  }
  EXPECT_EQ(kms_->keys().size(), 0u);
  EXPECT_EQ(*store_->State(0), SlotState::kUnknown);
  EXPECT_EQ(*store_->State(5), SlotState::kUnknown);
  EXPECT_EQ(*store_->State(~uint64_t{0}), SlotState::kUnknown);
  EXPECT_CODE(Touch(0), absl::StatusCode::kNotFound);
  EXPECT_CODE(Touch(5), absl::StatusCode::kNotFound);
  EXPECT_CODE(Touch(~uint64_t{0}), absl::StatusCode::kNotFound);
  EXPECT_CODE(store_->Allocate(0), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(store_->Allocate(KeyStore::kMaxAllocate + 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*store_->Allocate(1), 5u);
  EXPECT_THAT(*store_->LiveSlots(1, 3), ElementsAre(2, 3, 4));
  // Bad arguments of the makers.
  EXPECT_CODE(KeyStore::Create(path(), Uid(1), kms_.get()), absl::StatusCode::kAlreadyExists);
  EXPECT_CODE(KeyStore::Create(path() + "2", "short", kms_.get()),
              absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(KeyStore::Open(path(), Uid(1), kms_.get()), absl::StatusCode::kUnavailable);
}

TEST_F(KeyStoreTest, TheFileStaysLockedAsLongAsItIsOpen) {
  ASSERT_OK(store_->Allocate(10));
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{1}));  // reads the raw file
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Another process: POSIX locks are not inherited. The kernel is asked, since SQLite's own list
    // of locks is copied with the process.
    const int file = ::open(path().c_str(), O_RDONLY);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    ::_exit(file >= 0 && ::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(KeyStoreTest, TheBodiesAreWhatIsDocumented) {
  ASSERT_OK(store_->Allocate(2));
  const std::string mark = SealMark(*store_, 2);
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{1}));
  Close();
  const std::vector<std::string> bodies = BodiesOf(path());
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0], std::string(96, '\0'));
  const auto slot = DecodeSlot(Uid(1), 2, bodies[1]);
  ASSERT_OK(slot);
  EXPECT_EQ(slot->epoch, 1u);
  // KEK file -> data key -> mark, without the code of the store.
  const SealingKey kek(SecretOf(ReadFile(kek_folder() + "/kek-0000000001").substr(16, 32)));
  auto key = kek.OpenSecret(WrapContext(Uid(1), 2, 1), slot->wrapped);
  ASSERT_OK(key);
  EXPECT_EQ(*SealingKey(*std::move(key)).Open("", mark), "mark");
  // Bound to tenant, slot and epoch.
  EXPECT_FALSE(kek.OpenSecret(WrapContext(Uid(2), 2, 1), slot->wrapped).ok());
  EXPECT_FALSE(kek.OpenSecret(WrapContext(Uid(1), 1, 1), slot->wrapped).ok());
  EXPECT_FALSE(kek.OpenSecret(WrapContext(Uid(1), 2, 2), slot->wrapped).ok());
}

TEST_F(KeyStoreTest, TheCacheIsBoundedAndEmptiedByDestruction) {
  options_.cached_keys = 10;
  Reopen();
  const size_t secrets = GetSecretMemoryUse().secrets;
  ASSERT_OK(store_->Allocate(100));
  EXPECT_EQ(store_->cache().size(), 10u);
  EXPECT_EQ(GetSecretMemoryUse().secrets, secrets + 10);
  EXPECT_EQ(kms_->unwrapped(), 0u);
  ASSERT_OK(Touch(100));
  EXPECT_EQ(kms_->unwrapped(), 0u);  // from the cache
  ASSERT_OK(Touch(1));
  EXPECT_EQ(kms_->unwrapped(), 1u);
  EXPECT_EQ(store_->cache().size(), 10u);
  std::vector<uint64_t> all(100);
  std::iota(all.begin(), all.end(), 1);
  ASSERT_OK(store_->Destroy(all));
  EXPECT_EQ(store_->cache().size(), 0u);
  EXPECT_EQ(GetSecretMemoryUse().secrets, secrets);
  EXPECT_CODE(Touch(100), absl::StatusCode::kFailedPrecondition);
}

TEST_F(KeyStoreTest, UsesAreCountedAcrossLoads) {
  options_.max_seals_per_key = 5;
  options_.cached_keys = 1;
  Reopen();
  ASSERT_OK(store_->Allocate(2));
  auto seal = [&](uint64_t slot, uint64_t prior) {
    return store_->WithKey(slot, prior,
                           [](SealingKey& key) { return key.Seal("", "text").status(); });
  };
  for (int i = 0; i < 5; ++i) EXPECT_OK(seal(2, 0));
  EXPECT_CODE(seal(2, 0), absl::StatusCode::kResourceExhausted);
  EXPECT_OK(seal(1, 0));  // pushes slot 2 out
  EXPECT_OK(seal(2, 4));
  EXPECT_CODE(seal(2, 4), absl::StatusCode::kResourceExhausted);
  EXPECT_CODE(seal(1, 5), absl::StatusCode::kResourceExhausted);
}

TEST_F(KeyStoreTest, WrapsOfAnEpochAreCountedInTheFile) {
  options_.max_wraps_per_epoch = 10;
  Reopen();
  ASSERT_OK(store_->Allocate(6));
  EXPECT_CODE(store_->Allocate(5), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->slots(), 6u);
  Reopen();
  ASSERT_OK(store_->Allocate(4));
  EXPECT_CODE(store_->Allocate(1), absl::StatusCode::kResourceExhausted);
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(store_->Rotate()->rewrapped, 7u);
  EXPECT_OK(store_->Allocate(3));
  EXPECT_CODE(store_->Allocate(1), absl::StatusCode::kResourceExhausted);
}

TEST_F(KeyStoreTest, DestroyedKeysAreGoneFromTheRawFiles) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  ASSERT_OK(store_->Allocate(KeyStore::kMaxAllocate));
  const std::vector<std::string> wrapped = WrappedKeys();
  ASSERT_EQ(wrapped.size(), KeyStore::kMaxAllocate);
  std::vector<uint64_t> victims(KeyStore::kMaxAllocate);
  std::iota(victims.begin(), victims.end(), 1);
  std::shuffle(victims.begin(), victims.end(), random);
  victims.resize(4000);
  // The positive control: each is found before, by another scanner than the store's.
  std::string before = ReadFile(path()) + ReadFile(wal());
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_NE(before.find(wrapped[victims[i] - 1]), std::string::npos);
  }
  const auto result = store_->Destroy(victims);
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_EQ(result->destroyed, victims.size());
  EXPECT_EQ(result->already_destroyed, 0u);
  EXPECT_EQ(result->bytes_read, std::filesystem::file_size(path()));
  EXPECT_EQ(std::filesystem::file_size(wal()), 0u);
  // And none after, while the store is open and after it closed.
  for (int closed = 0; closed < 2; ++closed) {
    std::string after;
    for (const std::string& file : files()) {
      if (std::filesystem::exists(file)) after += ReadFile(file);
    }
    std::set<uint64_t> eights;  // every eight bytes in a row of what was destroyed
    for (uint64_t victim : victims) {
      const std::string& bytes = wrapped[victim - 1];
      for (size_t i = 0; i + 8 <= bytes.size(); ++i) {
        uint64_t eight = 0;
        std::memcpy(&eight, bytes.data() + i, 8);
        eights.insert(eight);
      }
    }
    size_t hits = 0;
    for (size_t i = 0; i + 8 <= after.size(); ++i) {
      uint64_t eight = 0;
      std::memcpy(&eight, after.data() + i, 8);
      hits += eights.count(eight);
    }
    EXPECT_EQ(hits, 0u);
    // The others are all there, once.
    EXPECT_EQ(after.find(wrapped[victims[0] - 1]), std::string::npos);
    if (closed == 0) Close();
  }
  Reopen();
  std::sort(victims.begin(), victims.end());
  std::vector<uint64_t> live = *store_->LiveSlots(0, 1'000'000);
  EXPECT_EQ(live.size(), KeyStore::kMaxAllocate - victims.size());
  for (uint64_t slot : live) {
    ASSERT_FALSE(std::binary_search(victims.begin(), victims.end(), slot));
    ASSERT_OK(Touch(slot));
  }
}

TEST_F(KeyStoreTest, DestroyingIsIdempotentAndRefusesTheUnknown) {
  ASSERT_OK(store_->Allocate(5));
  const std::vector<std::string> marks = MarkAll();
  EXPECT_CODE(store_->Destroy(std::vector<uint64_t>{1, 6}), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(store_->Destroy(std::vector<uint64_t>{1, 0}).status().message()),
              HasSubstr("slots[1]"));
  EXPECT_EQ(*store_->State(1), SlotState::kLive);
  auto result = store_->Destroy(std::vector<uint64_t>{4, 2, 4});
  ASSERT_OK(result);
  EXPECT_EQ(result->destroyed, 2u);
  result = store_->Destroy(std::vector<uint64_t>{1, 2, 4});
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_EQ(result->destroyed, 1u);
  EXPECT_EQ(result->already_destroyed, 2u);
  result = store_->Destroy({});
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  for (uint64_t slot : {1u, 2u, 4u}) EXPECT_FALSE(OpensMark(*store_, slot, marks[slot - 1]));
  for (uint64_t slot : {3u, 5u}) EXPECT_TRUE(OpensMark(*store_, slot, marks[slot - 1]));
  Reopen();
  EXPECT_THAT(*store_->LiveSlots(0, 10), ElementsAre(3, 5));
  EXPECT_EQ(*store_->Allocate(1), 6u);  // numbers are not used again
}

// A copy in a gap of a page, which SQLite knows nothing of: found, and removed by writing the file
// anew. A copy in a row of another table cannot be removed, and the evidence says so.
TEST_F(KeyStoreTest, ACopyElsewhereIsFound) {
  ASSERT_OK(store_->Allocate(5));
  const std::vector<std::string> wrapped = WrappedKeys();
  Close();
  std::string bytes = ReadFile(path());
  // The unused middle of the last page.
  const std::string zeros(200, '\0');
  const size_t page = bytes.size() - 4096;
  const size_t gap = bytes.find(zeros, page);
  ASSERT_NE(gap, std::string::npos);
  bytes.replace(gap + 70, 20, wrapped[2].substr(30, 20));
  WriteFile(path(), bytes);
  Reopen();
  auto result = store_->Destroy(std::vector<uint64_t>{1});
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_FALSE(result->rewritten);
  result = store_->Destroy(std::vector<uint64_t>{3});
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_TRUE(result->rewritten);
  EXPECT_EQ(CountIn(files(), wrapped[2].substr(30, 20)), 0u);
  EXPECT_EQ(*store_->State(2), SlotState::kLive);

  Tamper(absl::StrCat("CREATE TABLE other (x BLOB); INSERT INTO other VALUES (x'",
                      absl::BytesToHexString(wrapped[3].substr(5, 20)), "')"));
  Reopen();
  result = store_->Destroy(std::vector<uint64_t>{4});
  ASSERT_OK(result);
  EXPECT_EQ(result->destroyed, 1u);
  EXPECT_CODE(result->evidence, absl::StatusCode::kDataLoss);
  EXPECT_EQ(*store_->State(4), SlotState::kDestroyed);
  // The same by the header alone, when nobody knows the bytes any more.
  Tamper(absl::StrCat("DELETE FROM other; INSERT INTO other VALUES (x'",
                      absl::BytesToHexString("LtK1"), "01000000", "0400000000000000')"));
  Reopen();
  EXPECT_CODE(store_->Destroy(std::vector<uint64_t>{4})->evidence, absl::StatusCode::kDataLoss);
  EXPECT_OK(store_->Destroy(std::vector<uint64_t>{3})->evidence);
  Tamper("DROP TABLE other");
  Reopen();
  EXPECT_OK(store_->Destroy(std::vector<uint64_t>{4})->evidence);
}

TEST_F(KeyStoreTest, ARotationWrapsTheLiveKeysAgainAndEndsTheOldEpoch) {
  options_.rewrap_batch = 7;
  Reopen();
  ASSERT_OK(store_->Allocate(100));
  const std::vector<std::string> marks = MarkAll();
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{5, 50, 100}));
  const std::vector<std::string> before = WrappedKeys();
  ASSERT_EQ(CountIn(files(), before[0]), 1u);
  auto result = store_->Rotate();
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_EQ(result->rewrapped, 97u);
  EXPECT_THAT(result->destroyed_epochs, ElementsAre(1));
  EXPECT_THAT(*kms_->Epochs(), ElementsAre(2));
  for (uint64_t slot = 1; slot <= 100; ++slot) {
    const bool destroyed = slot == 5 || slot == 50 || slot == 100;
    EXPECT_EQ(destroyed ? 0 : CountIn(files(), before[slot - 1]), 0u);
  }
  Reopen();
  for (uint64_t slot = 1; slot <= 100; ++slot) {
    const bool destroyed = slot == 5 || slot == 50 || slot == 100;
    EXPECT_EQ(OpensMark(*store_, slot, marks[slot - 1]), !destroyed);
  }
  result = store_->FinishRotation();
  ASSERT_OK(result);
  EXPECT_EQ(result->rewrapped, 0u);
  EXPECT_TRUE(result->destroyed_epochs.empty());
}

// What cannot be unwrapped under the new epoch keeps the old one alive.
TEST_F(KeyStoreTest, AnEpochThatIsStillNeededIsNotDestroyed) {
  ASSERT_OK(store_->Allocate(10));
  kms_->spoil_wraps = true;
  EXPECT_FALSE(store_->Rotate().ok());
  EXPECT_EQ(*file_kms_->Epochs(), (std::vector<uint32_t>{1, 2}));
  EXPECT_FALSE(store_->FinishRotation().ok());
  EXPECT_EQ(*file_kms_->Epochs(), (std::vector<uint32_t>{1, 2}));
}

// The file of the current KEK is what the next start reads.
TEST_F(KeyStoreTest, AnOldEpochStaysWhileTheNewOneIsNotOnDisk) {
  ASSERT_OK(store_->Allocate(10));
  ASSERT_OK(file_kms_->Rotate());
  const std::string current = kek_folder() + "/kek-0000000002";
  const std::string good = ReadFile(current);
  std::filesystem::rename(current, kek_folder() + "/../kept");
  EXPECT_FALSE(store_->FinishRotation().ok());
  // Another key, whole in itself.
  auto other = FileKms::Create(temp_.path() + "/other");
  ASSERT_OK(other);
  ASSERT_OK((*other)->Rotate());
  std::filesystem::copy_file(temp_.path() + "/other/kek-0000000002", current);
  std::filesystem::permissions(current, std::filesystem::perms::owner_read);
  EXPECT_CODE(store_->FinishRotation(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*file_kms_->Epochs(), (std::vector<uint32_t>{1, 2}));
  std::filesystem::remove(current);
  std::filesystem::rename(kek_folder() + "/../kept", current);
  EXPECT_EQ(ReadFile(current), good);
  ASSERT_OK(store_->FinishRotation());
  EXPECT_EQ(*file_kms_->Epochs(), (std::vector<uint32_t>{2}));
}

TEST_F(KeyStoreTest, ARotationThatTheKmsInterruptsGoesOn) {
  options_.rewrap_batch = 10;
  Reopen();
  ASSERT_OK(store_->Allocate(55));
  const std::vector<std::string> marks = MarkAll();
  // The n-th call of the KMS fails, then the next time one further.
  uint64_t interrupted = 0;
  for (int allowed = 0;; ++allowed) {
    ASSERT_LT(allowed, 60);
    int left = allowed;
    kms_->refuse = [&left](const std::string&) {
      return left-- > 0 ? absl::OkStatus() : absl::UnavailableError("the KMS cannot be reached");
    };
    const auto result = allowed % 2 == 0 ? store_->Rotate() : store_->FinishRotation();
    kms_->refuse = nullptr;
    if (!result.ok()) {
      EXPECT_CODE(result.status(), absl::StatusCode::kUnavailable);
      ++interrupted;
    }
    if (allowed % 3 == 0) Reopen();
    for (uint64_t slot = 1; slot <= 55; ++slot) {
      ASSERT_TRUE(OpensMark(*store_, slot, marks[slot - 1])) << allowed;
    }
    if (result.ok() && allowed > 20) break;
  }
  EXPECT_GT(interrupted, 5u);
  ASSERT_OK(store_->FinishRotation());
  EXPECT_EQ(kms_->Epochs()->size(), 1u);
}

TEST_F(KeyStoreTest, TheCheckAtStartSaysWhatToDo) {
  ASSERT_OK(store_->Allocate(20));
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{7}));
  Close();
  const std::string good = ReadFile(path());
  struct Case {
    std::string sql;
    absl::StatusCode code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"UPDATE slots SET body = (SELECT body FROM slots WHERE slot = 3) WHERE slot = 4",
       absl::StatusCode::kDataLoss, "key slot 4: holds the key of another slot"},
      {"UPDATE slots SET body = CAST(zeroblob(95) || x'01' AS BLOB) WHERE slot = 9",
       absl::StatusCode::kDataLoss, "key slot 9"},
      {"PRAGMA ignore_check_constraints=1; UPDATE slots SET body = zeroblob(5) WHERE slot = 9",
       absl::StatusCode::kDataLoss, "restore"},
      {"DELETE FROM slots WHERE slot = 12", absl::StatusCode::kDataLoss, "key slot 12 is missing"},
      {"DELETE FROM store", absl::StatusCode::kDataLoss, "names no tenant"},
      {"PRAGMA user_version=2", absl::StatusCode::kFailedPrecondition, "newer release"},
      {"PRAGMA application_id=5", absl::StatusCode::kFailedPrecondition, "not a file of Lethe"},
  };
  for (const Case& c : cases) {
    WriteFile(path(), good);
    Tamper(c.sql);
    const absl::Status status = TryOpen();
    EXPECT_CODE(status, c.code) << c.sql;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
  }
  WriteFile(path(), good);
  absl::Status status = TryOpen(Uid(2));
  EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another tenant"));
  Close();
  std::filesystem::rename(path(), path() + ".away");
  EXPECT_CODE(TryOpen(), absl::StatusCode::kNotFound);
  Close();
  std::filesystem::rename(path() + ".away", path());
  Reopen();
}

TEST_F(KeyStoreTest, AMissingOrForeignKekIsRefusedAtStart) {
  ASSERT_OK(store_->Allocate(3));
  // A KEK folder of another tenant: the right epoch, the wrong key.
  Close();
  std::filesystem::rename(kek_folder(), kek_folder() + ".mine");
  ASSERT_OK(FileKms::Create(kek_folder()));
  absl::Status status = TryOpen();
  EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not the one of this file"));
  // The epoch is not there.
  ASSERT_OK(file_kms_->Rotate());
  ASSERT_OK(file_kms_->Destroy(1));
  status = TryOpen();
  EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("put that KEK back"));
  Close();
  std::filesystem::remove_all(kek_folder());
  std::filesystem::rename(kek_folder() + ".mine", kek_folder());
  Reopen();
  EXPECT_OK(Touch(2));
}

// Every byte of a live slot in the file itself.
TEST_F(KeyStoreTest, EveryFlippedByteOfASlotIsFoundAtStart) {
  ASSERT_OK(store_->Allocate(2));
  Close();
  const std::string good = ReadFile(path());
  const std::string body = BodiesOf(path())[1];
  const size_t at = good.find(body);
  ASSERT_NE(at, std::string::npos);
  for (size_t i = 0; i < kSlotBytes; ++i) {
    std::string damaged = good;
    damaged[at + i] = static_cast<char>(damaged[at + i] ^ 0x10);
    WriteFile(path(), damaged);
    const absl::Status status = TryOpen();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss) << i;
    EXPECT_THAT(std::string(status.message()), HasSubstr("key slot 2"));
  }
  Close();
  WriteFile(path(), good);
  Reopen();
}

TEST_F(KeyStoreTest, NoMessageHoldsASecret) {
  ASSERT_OK(store_->Allocate(5));
  std::vector<absl::Status> seen = {Touch(9), store_->Destroy(std::vector<uint64_t>{9}).status(),
                                    store_->Allocate(0).status()};
  std::set<std::string> secrets = kms_->keys();
  ASSERT_EQ(secrets.size(), 5u);
  for (const std::string& wrapped : WrappedKeys()) secrets.insert(wrapped);
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{1}));
  seen.push_back(Touch(1));
  seen.push_back(store_->WithKey(
      2, 0, [](SealingKey& key) { return key.Open("", std::string(40, 'x')).status(); }));
  Close();
  secrets.insert(ReadFile(kek_folder() + "/kek-0000000001").substr(16, 32));
  const std::string good = ReadFile(path());
  for (size_t i = 0; i < good.size(); i += 13) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    WriteFile(path(), damaged);
    seen.push_back(TryOpen());
    Close();
  }
  size_t errors = 0;
  for (const absl::Status& status : seen) {
    if (status.ok()) continue;
    ++errors;
    const std::string text = status.ToString();
    for (const std::string& secret : secrets) {
      // A piece of it, in any of the ways that bytes get printed.
      for (size_t at = 0; at + 6 <= secret.size(); at += 3) {
        const std::string piece = secret.substr(at, 6);
        ASSERT_FALSE(absl::StrContains(text, piece));
        ASSERT_FALSE(absl::StrContains(absl::AsciiStrToLower(text), absl::BytesToHexString(piece)));
        ASSERT_FALSE(absl::StrContains(text, absl::Base64Escape(piece)));
      }
    }
  }
  EXPECT_GT(errors, 50u);
}

}  // namespace
}  // namespace lethe::store
