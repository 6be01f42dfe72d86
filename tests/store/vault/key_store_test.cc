// keys.db: allocation, reading, counts, the check at start.
#include "store/vault/key_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
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

class KeyStoreTest : public VaultTest {};

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

TEST_F(KeyStoreTest, PrefetchedKeysCostNoFurtherUnwrap) {
  ASSERT_OK(store_->Allocate(200));
  const std::vector<std::string> marks = MarkAll();
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{5, 150}));
  options_.rewrap_batch = 50;
  Reopen();
  // Half of the slots under another epoch: the second batch of a change of epoch is refused.
  int wraps = 0;
  kms_->refuse = [&](const std::string& call) {
    return call == "wrap" && ++wraps > 1 ? absl::UnavailableError("not now") : absl::OkStatus();
  };
  EXPECT_CODE(store_->Rotate(), absl::StatusCode::kUnavailable);
  for (const std::vector<uint64_t>& slots :
       {std::vector<uint64_t>{9, 3, 5, 4, 3, 0, 201, ~uint64_t{0}},
        std::vector<uint64_t>{1, 150, 200}, std::vector<uint64_t>{40, 41, 60, 61},
        std::vector<uint64_t>{5}, std::vector<uint64_t>{}}) {
    Reopen();
    ASSERT_OK(store_->Prefetch(slots));
    const size_t unwrapped = kms_->unwrapped();
    std::set<uint64_t> live(slots.begin(), slots.end());
    for (uint64_t gone : {uint64_t{0}, uint64_t{5}, uint64_t{150}, uint64_t{201}, ~uint64_t{0}}) {
      if (live.erase(gone) == 0) continue;
      EXPECT_FALSE(Touch(gone).ok());
    }
    EXPECT_EQ(store_->cache().size(), live.size());
    for (uint64_t slot : live) EXPECT_TRUE(OpensMark(*store_, slot, marks[slot - 1]));
    ASSERT_OK(store_->Prefetch(slots));
    EXPECT_EQ(kms_->unwrapped(), unwrapped);
  }
  // No more than the cache holds; the rest is left to WithKey.
  options_.cached_keys = 10;
  Reopen();
  std::vector<uint64_t> all(200);
  std::iota(all.begin(), all.end(), 1);
  const size_t before = kms_->unwrapped();
  ASSERT_OK(store_->Prefetch(all));
  EXPECT_LE(store_->cache().size(), 10u);
  EXPECT_LE(kms_->unwrapped(), before + 10);
  EXPECT_TRUE(OpensMark(*store_, 200, marks[199]));
}

TEST_F(KeyStoreTest, AReleasedKeyLeavesTheCacheAndNothingElse) {
  ASSERT_OK(store_->Allocate(3));
  const std::vector<std::string> marks = MarkAll();
  ASSERT_EQ(store_->cache().size(), 3u);
  const size_t unwrapped = kms_->unwrapped();
  store_->Release(2);
  store_->Release(2);
  store_->Release(17);
  EXPECT_EQ(store_->cache().size(), 2u);
  EXPECT_TRUE(OpensMark(*store_, 2, marks[1]));
  EXPECT_EQ(kms_->unwrapped(), unwrapped + 1);
}

TEST_F(KeyStoreTest, ADamagedSlotDoesNotStopThePrefetchOfOthers) {
  options_.cached_keys = 1;
  Reopen();
  ASSERT_OK(store_->Allocate(10));
  // While the store is open, past its check at the start.
  kms_->refuse = [](const std::string& call) {
    return call == "unwrap" ? absl::DataLossError("one of them") : absl::OkStatus();
  };
  EXPECT_OK(store_->Prefetch(std::vector<uint64_t>{1, 2}));
  EXPECT_CODE(Touch(1), absl::StatusCode::kDataLoss);
  kms_->refuse = [](const std::string&) { return absl::UnavailableError("not now"); };
  EXPECT_CODE(store_->Prefetch(std::vector<uint64_t>{1, 2}), absl::StatusCode::kUnavailable);
  kms_->refuse = nullptr;
  EXPECT_OK(store_->Prefetch(std::vector<uint64_t>{1}));
  EXPECT_OK(Touch(1));
}

TEST_F(KeyStoreTest, TheLogOfNewKeysIsBounded) {
  options_.wal_checkpoint_bytes = 100'000;
  Reopen();
  uint64_t largest = 0;
  uint64_t emptied = 0;
  for (int i = 0; i < 40; ++i) {
    ASSERT_OK(store_->Allocate(100));
    const uint64_t bytes = std::filesystem::file_size(wal());
    largest = std::max(largest, bytes);
    emptied += bytes == 0 ? 1 : 0;
  }
  EXPECT_GE(emptied, 2u);
  EXPECT_LE(largest, 200'000u);
  const std::vector<std::string> marks = MarkAll();
  Reopen();
  EXPECT_TRUE(OpensMark(*store_, 4000, marks[3999]));
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
  options_.wrap_block = 1;
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

// The count is never behind what was wrapped, whatever becomes of the transaction of the slots.

TEST_F(KeyStoreTest, WrapsAreCountedBeforeTheyAreMade) {
  options_.max_wraps_per_epoch = 100;
  options_.wrap_block = 10;
  Reopen();
  auto counted = [&] {
    Close();
    const std::string wraps = RunCommand(
        absl::StrCat("sqlite3 '", path(), "' 'SELECT wraps FROM epochs WHERE epoch = 1'"));
    Reopen();
    return std::stoul(wraps);
  };
  ASSERT_OK(store_->Allocate(3));
  EXPECT_EQ(counted(), 10u);
  ASSERT_OK(store_->Allocate(3));  // what was counted and not used is lost by closing
  ASSERT_OK(store_->Allocate(7));
  EXPECT_EQ(counted(), 20u);
  ASSERT_OK(store_->Allocate(25));
  EXPECT_EQ(counted(), 45u);
  // The wraps are made, and the slots are not.
  for (int i = 0; i < 5; ++i) {
    kms_->after_wrap = [] { return absl::UnavailableError("the answer was lost"); };
    EXPECT_CODE(store_->Allocate(10), absl::StatusCode::kUnavailable);
    kms_->after_wrap = nullptr;
  }
  EXPECT_EQ(counted(), 95u);
  EXPECT_EQ(store_->slots(), 38u);
  EXPECT_CODE(store_->Allocate(6), absl::StatusCode::kResourceExhausted);
  ASSERT_OK(store_->Allocate(5));
  EXPECT_CODE(store_->Allocate(1), absl::StatusCode::kResourceExhausted);
  ASSERT_OK(store_->Rotate());
  EXPECT_OK(store_->Allocate(1));
}

TEST_F(KeyStoreTest, TheDefaultsLeaveRoomForCountsThatAreBehind) {
  EXPECT_EQ(KeyStoreOptions().max_wraps_per_epoch, uint64_t{1} << 28);
  EXPECT_EQ(KeyStoreOptions().max_seals_per_key, uint64_t{1} << 28);
}

// A copy in a gap of a page, which SQLite knows nothing of: found, and removed by writing the file

// anew. A copy in a row of another table cannot be removed, and the evidence says so.

// VACUUM would take the size of the file in RAM.

// A slot whose bytes were overwritten while the store was open holds what free space holds.

// What cannot be unwrapped under the new epoch keeps the old one alive.

// The file of the current KEK is what the next start reads.

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
