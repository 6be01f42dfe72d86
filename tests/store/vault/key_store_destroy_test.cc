// keys.db: destruction with its evidence, change of epoch.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
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

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/store/vault/vault_fixture.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KeyDestruction : public VaultTest {};

TEST_F(KeyDestruction, ManyAreDestroyedInBatches) {
  options_.destroy_batch = 7;
  options_.evidence_batch = 40;
  Reopen();
  ASSERT_OK(store_->Allocate(200));
  const std::vector<std::string> wrapped = WrappedKeys();
  std::vector<uint64_t> victims(100);
  std::iota(victims.begin(), victims.end(), 51);
  victims.insert(victims.end(), victims.begin(), victims.end());  // each twice
  const auto result = store_->Destroy(victims);
  ASSERT_OK(result);
  EXPECT_OK(result->evidence);
  EXPECT_EQ(result->destroyed, 100u);
  EXPECT_EQ(result->already_destroyed, 0u);
  // Three searches, of 40, 40 and 20.
  EXPECT_EQ(result->bytes_read, 3 * std::filesystem::file_size(path()));
  for (uint64_t slot = 1; slot <= 200; ++slot) {
    const bool gone = slot >= 51 && slot <= 150;
    EXPECT_EQ(*store_->State(slot), gone ? SlotState::kDestroyed : SlotState::kLive);
    EXPECT_EQ(CountIn(files(), wrapped[slot - 1]), gone ? 0u : 1u);
  }
}

TEST_F(KeyDestruction, DestroyedKeysAreGoneFromTheRawFiles) {
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

TEST_F(KeyDestruction, DestroyingIsIdempotentAndRefusesTheUnknown) {
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

TEST_F(KeyDestruction, ACopyElsewhereIsFound) {
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

TEST_F(KeyDestruction, ALargeFileIsNotWrittenAnewAndTheEvidenceSaysSo) {
  ASSERT_OK(store_->Allocate(5));
  const std::vector<std::string> wrapped = WrappedKeys();
  Close();
  std::string bytes = ReadFile(path());
  const size_t gap = bytes.find(std::string(200, '\0'), bytes.size() - 4096);
  ASSERT_NE(gap, std::string::npos);
  bytes.replace(gap + 70, 20, wrapped[2].substr(30, 20));
  WriteFile(path(), bytes);
  options_.max_rewrite_bytes = 4096;
  Reopen();
  auto result = store_->Destroy(std::vector<uint64_t>{3});
  ASSERT_OK(result);
  EXPECT_EQ(result->destroyed, 1u);
  EXPECT_FALSE(result->rewritten);
  EXPECT_CODE(result->evidence, absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(result->evidence.message()), HasSubstr("too large"));
  EXPECT_THAT(std::string(result->evidence.message()), HasSubstr("rotate the KEK"));
  // Rotating ends the epoch that the copy needs.
  ASSERT_OK(store_->Rotate());
  EXPECT_EQ(*kms_->Epochs(), (std::vector<uint32_t>{2}));
}

TEST_F(KeyDestruction, ASlotDamagedIntoFewValuesIsDestroyedWithEvidence) {
  ASSERT_OK(store_->Allocate(5));
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{1}));  // moves all into the file
  const std::vector<std::string> wrapped = WrappedKeys();
  Close();
  const std::string file = ReadFile(path());
  const size_t at = file.find(wrapped[2]);
  ASSERT_NE(at, std::string::npos);
  Reopen();
  const int raw = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);  // closed only when all is over
  ASSERT_GE(raw, 0);
  ASSERT_EQ(::pwrite(raw, std::string(40, '\0').data(), 40, static_cast<off_t>(at)), 40);
  ASSERT_EQ(CountIn(files(), wrapped[2]), 0u);
  // Pushes the page out of SQLite's cache.
  ASSERT_OK(store_->Destroy(std::vector<uint64_t>{1}));
  const auto result = store_->Destroy(std::vector<uint64_t>{3});
  ASSERT_OK(result);
  EXPECT_EQ(result->destroyed, 1u);
  EXPECT_OK(result->evidence);
  EXPECT_FALSE(result->rewritten);
  EXPECT_EQ(CountIn(files(), wrapped[2].substr(40)), 0u);
  Close();
  ::close(raw);
}

TEST_F(KeyDestruction, EndedEpochsAreRememberedUntilTheyAreForgotten) {
  EXPECT_TRUE(store_->EndedEpochs()->empty());
  ASSERT_OK(store_->Allocate(3));
  ASSERT_OK(store_->Rotate());
  ASSERT_OK(store_->Rotate());
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(1, 2));
  Reopen();
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(1, 2));
  EXPECT_OK(store_->ForgetEndedEpochs(0));
  EXPECT_OK(store_->ForgetEndedEpochs(1));
  EXPECT_OK(store_->ForgetEndedEpochs(1));
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(2));
  Reopen();
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(2));
  // One that the KMS did not destroy is marked and has not ended.
  kms_->refuse = [](const std::string& call) {
    return call == "destroy" ? absl::UnavailableError("the KMS cannot be reached")
                             : absl::OkStatus();
  };
  EXPECT_CODE(store_->Rotate(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(2));
  EXPECT_OK(store_->ForgetEndedEpochs(9));
  EXPECT_TRUE(store_->EndedEpochs()->empty());
  Reopen();
  // The KMS did it and could not say so.
  ASSERT_OK(file_kms_->Destroy(3));
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(3));
  EXPECT_OK(store_->FinishRotation());
  EXPECT_THAT(*store_->EndedEpochs(), ElementsAre(3));
  EXPECT_OK(store_->ForgetEndedEpochs(9));
  EXPECT_TRUE(store_->EndedEpochs()->empty());
  EXPECT_TRUE(OpensMark(*store_, 1, SealMark(*store_, 1)));
}

TEST_F(KeyDestruction, NoKeyInRamOutlivesTheKek) {
  const size_t secrets = GetSecretMemoryUse().secrets;
  ASSERT_OK(store_->Allocate(50));
  EXPECT_EQ(GetSecretMemoryUse().secrets, secrets + 50);
  kms_->refuse = [](const std::string&) { return absl::UnavailableError("not now"); };
  EXPECT_CODE(store_->DestroyAll(), absl::StatusCode::kUnavailable);
  kms_->refuse = nullptr;
  EXPECT_EQ(GetSecretMemoryUse().secrets, secrets);
  EXPECT_CODE(Touch(1), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(store_->DestroyAll());
  ASSERT_OK(store_->DestroyAll());
  EXPECT_EQ(GetSecretMemoryUse().secrets, secrets - 1);  // the KEK
  EXPECT_CODE(Touch(1), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(store_->Allocate(1), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(store_->Rotate(), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(store_->Destroy(std::vector<uint64_t>{1}), absl::StatusCode::kFailedPrecondition);
}

TEST_F(KeyDestruction, ARotationWrapsTheLiveKeysAgainAndEndsTheOldEpoch) {
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

TEST_F(KeyDestruction, AnEpochThatIsStillNeededIsNotDestroyed) {
  ASSERT_OK(store_->Allocate(10));
  kms_->spoil_wraps = true;
  EXPECT_FALSE(store_->Rotate().ok());
  EXPECT_EQ(*file_kms_->Epochs(), (std::vector<uint32_t>{1, 2}));
  EXPECT_FALSE(store_->FinishRotation().ok());
  EXPECT_EQ(*file_kms_->Epochs(), (std::vector<uint32_t>{1, 2}));
}

TEST_F(KeyDestruction, AnOldEpochStaysWhileTheNewOneIsNotOnDisk) {
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

TEST_F(KeyDestruction, ARotationThatTheKmsInterruptsGoesOn) {
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

}  // namespace
}  // namespace lethe::store
