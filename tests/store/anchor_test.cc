// The anchor of a log: what goes in comes out after a crash, in order, and nothing else is taken.
#include "store/anchor.h"

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

const std::string kOrigin = "lethe.test/log/1";

// A chain of entries of which some erase, some end a memory, some change the key.
std::vector<AnchorEntry> Chain(std::mt19937_64& random, size_t count) {
  std::vector<AnchorEntry> entries;
  for (size_t i = 0; i < count; ++i) {
    AnchorEntry entry;
    entry.record.sequence = i;
    entry.record.id = absl::StrCat("id", i);
    entry.record.kind = i % 3 == 0 ? "forget" : "shredded";
    entry.record.memory_uid = i % 3 == 0 ? Uid(i % 2) : "";
    entry.record.memory_name = i % 3 == 0 ? "m" : "";
    entry.record.create_time_micros = static_cast<int64_t>(1000 * i);
    entry.record.leaf = absl::StrCat("leaf ", random());
    entry.record.envelope = std::string(random() % 500, 'e');
    entry.record.leaf_hash = OpenSslSha256(entry.record.leaf);
    if (i > 0) entry.record.previous_leaf_hash = entries.back().record.leaf_hash;
    if (i % 7 == 6) entry.next_vkey = absl::StrCat("key ", i);
    if (i % 3 == 0) {
      entry.erased.memory_uid = entry.record.memory_uid;
      entry.erased.whole_memory = i % 9 == 0;
      uint64_t handle = 0;
      while (!entry.erased.whole_memory && entry.erased.handles.size() < 1 + random() % 6) {
        handle += 1 + random() % (uint64_t{1} << (random() % 40));
        entry.erased.handles.push_back(handle);
      }
      entry.slots = {i + 2, i + 2 + random() % 1000 + 1};
      entry.pending_from = i - random() % (i + 1);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<AnchorEntry> ReadAll(Anchor& anchor, uint64_t first = 0) {
  std::vector<AnchorEntry> entries;
  const absl::Status status = anchor.Visit(first, [&entries](AnchorEntry& entry) {
    entries.push_back(std::move(entry));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return entries;
}

TEST(AnchorTest, WhatWasAppendedIsThereAfterEveryReopeningAndEveryCrash) {
  TempFolder folder;
  const std::string path = folder.path() + "/anchor.db";
  const std::string crashed = folder.path() + "/crashed.db";
  std::mt19937_64 random(20261130);
  const std::vector<AnchorEntry> all = Chain(random, 60);
  auto anchor = Anchor::Create(path, Uid(1), kOrigin);
  ASSERT_TRUE(anchor.ok()) << anchor.status();
  EXPECT_EQ((*anchor)->head().size, 0u);
  for (size_t at = 0; at < all.size();) {
    const size_t count = std::min<size_t>(1 + random() % 5, all.size() - at);
    const std::string note = absl::StrCat("checkpoint ", at + count);
    ASSERT_TRUE((*anchor)->Append(std::span(all).subspan(at, count), note).ok());
    at += count;
    // A crash leaves the files as they stand.
    for (const std::string suffix : {"", "-wal"}) {
      std::filesystem::copy_file(path + suffix, crashed + suffix,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    const auto copy = Anchor::Open(crashed, Uid(1), kOrigin);
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ((*copy)->head().size, at);
    EXPECT_EQ((*copy)->head().checkpoint, note);
    EXPECT_EQ((*copy)->head().leaf_hash, all[at - 1].record.leaf_hash);
    EXPECT_EQ((*copy)->head().pending_from, all[at - 1].pending_from);
    EXPECT_EQ(ReadAll(**copy), std::vector(all.begin(), all.begin() + static_cast<long>(at)));
    if (random() % 2 == 0) {
      anchor->reset();
      anchor = Anchor::Open(path, Uid(1), kOrigin);
      ASSERT_TRUE(anchor.ok()) << anchor.status();
    }
  }
  EXPECT_EQ(ReadAll(**anchor, 57), std::vector(all.begin() + 57, all.end()));
  EXPECT_TRUE(ReadAll(**anchor, 60).empty());
}

// However it ends, no handle that was noted, or that comes before one that was, is beyond the
// bound.
TEST(AnchorTest, HandlesAreNotedInBlocksBeforeTheyAreGivenOut) {
  TempFolder folder;
  const std::string path = folder.path() + "/anchor.db";
  {
    const auto anchor = Anchor::Create(path, Uid(1), kOrigin);
    ASSERT_TRUE(anchor.ok());
    EXPECT_EQ((*anchor)->head().next_handle, 1u);
    ASSERT_TRUE((*anchor)->RaiseHandles(1).ok());
    EXPECT_EQ((*anchor)->head().next_handle, 1u);  // none of them is below 1
    ASSERT_TRUE((*anchor)->RaiseHandles(7).ok());
    EXPECT_EQ((*anchor)->head().next_handle, 7 + kHandleBlock);
    const uint64_t wal = std::filesystem::file_size(path + "-wal");
    ASSERT_TRUE((*anchor)->RaiseHandles(7 + kHandleBlock).ok());
    EXPECT_EQ(std::filesystem::file_size(path + "-wal"), wal);  // nothing was written
    ASSERT_TRUE((*anchor)->RaiseHandles(8 + kHandleBlock).ok());
  }
  const auto anchor = Anchor::Open(path, Uid(1), kOrigin);
  ASSERT_TRUE(anchor.ok());
  EXPECT_EQ((*anchor)->head().next_handle, 8 + 2 * kHandleBlock);
  const uint64_t most = (uint64_t{1} << 63) - 1;
  ASSERT_TRUE((*anchor)->RaiseHandles(most).ok());
  EXPECT_EQ((*anchor)->head().next_handle, most);
  EXPECT_TRUE((*anchor)->RaiseHandles(most).ok());
}

TEST(AnchorTest, WhatDoesNotContinueItIsRefusedAndChangesNothing) {
  TempFolder folder;
  std::mt19937_64 random(7);
  const std::vector<AnchorEntry> all = Chain(random, 6);
  auto anchor = Anchor::Create(folder.path() + "/anchor.db", Uid(1), kOrigin);
  ASSERT_TRUE(anchor.ok());
  ASSERT_TRUE((*anchor)->Append(std::span(all).first(3), "three").ok());
  std::vector<std::vector<AnchorEntry>> wrong = {
      {all[4]}, {all[2]}, {all[3], all[5]}, {all[3], all[3]}};
  wrong.push_back({all[3]});
  wrong.back()[0].record.previous_leaf_hash = all[0].record.leaf_hash;
  wrong.push_back({all[3]});
  wrong.back()[0].record.previous_leaf_hash.reset();
  for (const std::vector<AnchorEntry>& entries : wrong) {
    EXPECT_EQ((*anchor)->Append(entries, "no").code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ((*anchor)->head().size, 3u);
    EXPECT_EQ((*anchor)->head().checkpoint, "three");
    EXPECT_EQ(ReadAll(**anchor).size(), 3u);
  }
  EXPECT_TRUE((*anchor)->Append(std::span(all).subspan(3), "six").ok());
}

TEST(AnchorTest, AnAnchorOfAnotherTenantLogOrProgramIsRefused) {
  TempFolder folder;
  const std::string path = folder.path() + "/anchor.db";
  ASSERT_TRUE(Anchor::Create(path, Uid(1), kOrigin).ok());
  EXPECT_EQ(Anchor::Create(path, Uid(1), kOrigin).status().code(),
            absl::StatusCode::kAlreadyExists);
  const auto other = Anchor::Open(path, Uid(2), kOrigin);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(other.status().message().find("put this tenant's vault back"), std::string::npos);
  EXPECT_EQ(Anchor::Open(path, Uid(1), "lethe.test/log/2").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Anchor::Open(folder.path() + "/none.db", Uid(1), kOrigin).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(AnchorTest, ErasedTokensKeepTheirCode) {
  std::mt19937_64 random(11);
  for (const AnchorEntry& entry : Chain(random, 200)) {
    const std::string bytes = EncodeErased(entry.erased);
    const auto decoded = DecodeErased(bytes);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, entry.erased);
    // No proper beginning is taken for the whole, but for one that ends between two handles.
    for (size_t size = 1; size < bytes.size(); ++size) {
      const auto part = DecodeErased(absl::string_view(bytes).substr(0, size));
      if (part.ok()) {
        EXPECT_LT(part->handles.size(), entry.erased.handles.size());
      }
    }
  }
  ErasedTokens all;
  all.memory_uid = Uid(1);
  all.handles = {1, (uint64_t{1} << 63) - 1, ~uint64_t{0}};
  EXPECT_EQ(*DecodeErased(EncodeErased(all)), all);
  const std::string one = EncodeErased({Uid(1), false, {5}});
  EXPECT_FALSE(DecodeErased(one + std::string(1, '\0')).ok());  // not increasing
  EXPECT_FALSE(
      DecodeErased(one + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").ok());  // beyond 64 bits
  EXPECT_FALSE(DecodeErased(Uid(1) + std::string(1, '\0')).ok());            // nothing erased
  EXPECT_FALSE(DecodeErased(Uid(1) + "\x02").ok());
}

TEST(AnchorTest, AMissingEntryIsDataLoss) {
  TempFolder folder;
  const std::string path = folder.path() + "/anchor.db";
  std::mt19937_64 random(5);
  {
    const auto anchor = Anchor::Create(path, Uid(1), kOrigin);
    ASSERT_TRUE((*anchor)->Append(Chain(random, 9), "nine").ok());
  }
  RunRaw(path, "DELETE FROM entries WHERE sequence = 4");
  const auto anchor = Anchor::Open(path, Uid(1), kOrigin);
  ASSERT_TRUE(anchor.ok());
  const absl::Status status = (*anchor)->Visit(0, [](AnchorEntry&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("entry 4 is missing"), std::string::npos);
}

}  // namespace
}  // namespace lethe::store
