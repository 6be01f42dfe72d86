// Rows and their keys: over random lives, after every erasure, no key is left but those of rows and
// those never used, and none of them opens what an erasure took. The files are looked at with plain
// SQLite and the vault alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_store.h"
#include "store/vault/sealing.h"
#include "tests/store/hooked_kms.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::HasSubstr;

struct SealedRow {
  std::string memory_uid;
  uint64_t handle = 0;
  uint64_t slot = 0;
  std::string body;
  auto operator<=>(const SealedRow&) const = default;
};

struct FileContents {
  std::set<SealedRow> rows;
  uint64_t next_slot = 0;
};

FileContents ReadContents(const std::string& file) {
  FileContents contents;
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  sqlite3_stmt* select = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(db,
                               "SELECT m.uid, t.handle, t.slot, t.body FROM tokens t JOIN memories"
                               " m ON m.key = t.memory",
                               -1, &select, nullptr),
            SQLITE_OK);
  while (sqlite3_step(select) == SQLITE_ROW) {
    contents.rows.insert({reinterpret_cast<const char*>(sqlite3_column_text(select, 0)),
                          static_cast<uint64_t>(sqlite3_column_int64(select, 1)),
                          static_cast<uint64_t>(sqlite3_column_int64(select, 2)),
                          std::string(static_cast<const char*>(sqlite3_column_blob(select, 3)),
                                      static_cast<size_t>(sqlite3_column_bytes(select, 3)))});
  }
  sqlite3_finalize(select);
  EXPECT_EQ(sqlite3_prepare_v2(db, "SELECT next_slot FROM tenant", -1, &select, nullptr),
            SQLITE_OK);
  EXPECT_EQ(sqlite3_step(select), SQLITE_ROW);
  contents.next_slot = static_cast<uint64_t>(sqlite3_column_int64(select, 0));
  sqlite3_finalize(select);
  sqlite3_close(db);
  return contents;
}

class SealedRows : public ::testing::Test {
 protected:
  struct Memory {
    MemoryRecord record;
    std::map<uint64_t, TokenRow> tokens;
  };

  void SetUp() override {
    options_ = TestOptions(folder_.path());
    auto store = CreateTenantStore(folder_.path(), TestTenant(), options_);
    ASSERT_OK(store);
    store_ = std::move(*store);
    ASSERT_OK(store_->StartLog(TestStart()));
  }
  void Open() {
    store_.reset();
    auto store = OpenTenantStore(folder_.path(), options_);
    ASSERT_OK(store);
    store_ = std::move(*store);
  }
  uint64_t Draw(uint64_t below) { return random_() % below; }

  // Calls `look` with the tenant's keys, the store being closed.
  void WithKeys(const std::function<void(KeyStore&)>& look) {
    const std::string vault = options_.vault + "/" + TestTenant().uid;
    auto kms = FileKms::Open(vault + "/kek");
    ASSERT_OK(kms);
    auto keys = KeyStore::Open(vault + "/keys.db", TestTenant().uid, kms->get());
    ASSERT_OK(keys);
    look(**keys);
  }
  static bool Opens(KeyStore& keys, uint64_t slot, const SealedRow& row) {
    bool opened = false;
    EXPECT_OK(keys.WithKey(slot, 0, [&](SealingKey& key) {
      opened =
          OpenRow(key, {TestTenant().uid, row.memory_uid, row.handle, row.slot, 3}, row.body).ok();
      return absl::OkStatus();
    }));
    return opened;
  }

  // Takes note of every row in the file.
  void Archive() {
    store_.reset();
    for (const SealedRow& row : ReadContents(file_).rows) seen_.insert(row);
    Open();
  }
  // Nothing pending: keys and rows must be as the interface promises. `thorough`: every key that is
  // left on every row that is gone.
  void Inspect(bool thorough);
  void Step();
  void Insert(Memory& memory);
  void Forget(Memory& memory);

  TempFolder folder_;
  const std::string file_ = folder_.path() + "/tenant.db";
  SqliteTenantOptions options_;
  std::unique_ptr<TenantStore> store_;
  std::mt19937_64 random_;
  std::map<std::string, Memory> memories_;
  uint64_t next_memory_ = 1;
  std::set<SealedRow> seen_;
  uint64_t gone_ = 0;
};

void SealedRows::Inspect(bool thorough) {
  store_.reset();
  const FileContents now = ReadContents(file_);
  std::set<uint64_t> named = {1};
  for (const SealedRow& row : now.rows) {
    named.insert(row.slot);
    EXPECT_LT(row.slot, now.next_slot);
    seen_.insert(row);
  }
  WithKeys([&](KeyStore& keys) {
    std::set<uint64_t> live;
    for (uint64_t after = 0;;) {
      const auto page = keys.LiveSlots(after, 1000);
      ASSERT_OK(page);
      if (page->empty()) break;
      after = page->back();
      live.insert(page->begin(), page->end());
    }
    std::set<uint64_t> wanted = named;
    for (uint64_t slot = now.next_slot; slot <= keys.slots(); ++slot) wanted.insert(slot);
    EXPECT_EQ(live, wanted);
    for (const SealedRow& row : now.rows) EXPECT_TRUE(Opens(keys, row.slot, row));
    gone_ = 0;
    for (const SealedRow& row : seen_) {
      if (now.rows.contains(row)) continue;
      ++gone_;
      if (live.contains(row.slot)) {
        EXPECT_FALSE(Opens(keys, row.slot, row)) << row.slot;
      }
      if (!thorough) continue;
      for (uint64_t slot : named) {
        EXPECT_FALSE(live.contains(slot) && Opens(keys, slot, row));
      }
    }
  });
  Open();
}

void SealedRows::Insert(Memory& memory) {
  std::vector<TokenRow> rows;
  std::set<std::string> ids;
  for (const auto& [handle, row] : memory.tokens) ids.insert(row.id);
  for (uint64_t count = 1 + Draw(5); count > 0; --count) {
    const std::string id = absl::StrCat("id-", Draw(60));
    if (!ids.insert(id).second) continue;
    rows.push_back(RandomRow(random_, memory.record.next_handle + rows.size(), id));
  }
  if (rows.empty()) return;
  ASSERT_OK(store_->InsertTokens(memory.record.uid, rows));
  memory.record.next_handle = rows.back().handle + 1;
  for (const TokenRow& row : rows) memory.tokens[row.handle] = row;
}

// By ids, by subject, or an edit.
void SealedRows::Forget(Memory& memory) {
  if (memory.tokens.empty()) return;
  EraseRequest request{
      memory.record.uid, {}, NextCertificate(*store_, memory.record), std::nullopt};
  const uint64_t way = Draw(3);
  const std::string subject = absl::StrCat("subject-", Draw(5));
  for (const auto& [handle, row] : memory.tokens) {
    if (way == 0 ? row.subject == subject : Draw(5) == 0) request.handles.push_back(handle);
  }
  if (request.handles.empty()) return;
  uint64_t next = memory.record.next_handle;
  if (way == 2) {
    for (uint64_t handle : request.handles) {
      if (Draw(3) == 0) continue;
      TokenRow row = memory.tokens.at(handle);  // same id, same subject
      row.handle = next++;
      row.payload = absl::StrCat("edited ", row.handle);
      request.replacements.push_back(row);
    }
  }
  ASSERT_OK(store_->EraseTokens(request));
  memory.record.next_handle = next;
  for (uint64_t handle : request.handles) memory.tokens.erase(handle);
  for (const TokenRow& row : request.replacements) memory.tokens[row.handle] = row;
}

void SealedRows::Step() {
  if (memories_.size() < 3) {
    const MemoryRecord record = TestMemory(next_memory_++);
    ASSERT_OK(store_->CreateMemory(record));
    memories_[record.uid].record = record;
  }
  Memory& memory =
      std::next(memories_.begin(), static_cast<std::ptrdiff_t>(Draw(memories_.size())))->second;
  const uint64_t choice = Draw(100);
  if (choice < 50) {
    Insert(memory);
  } else if (choice < 85) {
    Archive();
    Forget(memory);
  } else if (choice < 88) {
    Archive();
    ASSERT_OK(store_->DeleteMemory(
        {memory.record.uid, NextCertificate(*store_, memory.record), std::nullopt}));
    memories_.erase(memory.record.uid);
  } else if (choice < 94) {
    Open();
  } else {
    ASSERT_TRUE(FinishErasures(*store_));
    Inspect(false);
  }
}

TEST_F(SealedRows, NoKeyThatIsLeftOpensWhatIsGone) {
  const char* fixed = std::getenv("LETHE_TEST_SEED");
  const uint64_t seed =
      fixed == nullptr ? std::random_device()() : std::strtoull(fixed, nullptr, 10);
  std::cout << "LETHE_TEST_SEED=" << seed << std::endl;
  random_.seed(seed);
  for (int i = 0; i < 250 && !HasFailure(); ++i) Step();
  ASSERT_FALSE(HasFailure());
  ASSERT_TRUE(FinishErasures(*store_));
  Inspect(true);
  EXPECT_GT(gone_, 50u);
  for (const auto& [uid, memory] : memories_) {
    std::vector<TokenRow> expected;
    for (const auto& [handle, row] : memory.tokens) expected.push_back(row);
    EXPECT_EQ(LoadAll(*store_, uid), expected);
  }
  std::cout << seen_.size() << " sealed rows seen, " << gone_ << " gone" << std::endl;
  // The end of the tenant: no key is left at all.
  ASSERT_OK(CloseWith(*store_, NextCertificate(*store_->GetLogHead())));
  store_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(options_.vault));
}

TEST_F(SealedRows, ASubjectHasOneKeyAndATokenWithoutOneItsOwn) {
  const MemoryRecord one = TestMemory(1);
  const MemoryRecord two = TestMemory(2);
  ASSERT_OK(store_->CreateMemory(one));
  ASSERT_OK(store_->CreateMemory(two));
  ASSERT_OK(store_->InsertTokens(
      one.uid, std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c"),
                                     TestRow(4, "d"), TestRow(5, "e", "y")}));
  Open();
  ASSERT_OK(store_->InsertTokens(one.uid, std::vector<TokenRow>{TestRow(6, "f", "x")}));
  ASSERT_OK(store_->InsertTokens(two.uid, std::vector<TokenRow>{TestRow(1, "a", "x")}));
  store_.reset();
  std::map<std::pair<std::string, uint64_t>, uint64_t> slots;
  for (const SealedRow& row : ReadContents(file_).rows) {
    slots[{row.memory_uid, row.handle}] = row.slot;
  }
  const auto slot = [&](const MemoryRecord& memory, uint64_t handle) {
    return slots.at({memory.uid, handle});
  };
  EXPECT_EQ(slot(one, 1), slot(one, 2));
  EXPECT_EQ(slot(one, 1), slot(one, 6));
  const std::set<uint64_t> distinct = {slot(one, 1), slot(one, 3), slot(one, 4), slot(one, 5),
                                       slot(two, 1)};
  EXPECT_EQ(distinct.size(), 5u);
  EXPECT_FALSE(distinct.contains(1));
}

TEST_F(SealedRows, RowsThatChangePlacesDoNotOpen) {
  const MemoryRecord memory = TestMemory(1);
  ASSERT_OK(store_->CreateMemory(memory));
  // The same subject: the same key.
  ASSERT_OK(store_->InsertTokens(
      memory.uid, std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "b", "x")}));
  store_.reset();
  const RawResult swapped =
      RunRaw(file_,
             "CREATE TEMP TABLE keep AS SELECT handle, id_key, body FROM tokens;"
             "UPDATE tokens SET id_key = zeroblob(16) WHERE handle = 1;"
             "UPDATE tokens SET id_key = (SELECT id_key FROM keep WHERE handle = 1),"
             " body = (SELECT body FROM keep WHERE handle = 1) WHERE handle = 2;"
             "UPDATE tokens SET id_key = (SELECT id_key FROM keep WHERE handle = 2),"
             " body = (SELECT body FROM keep WHERE handle = 2) WHERE handle = 1;");
  ASSERT_EQ(swapped.code, SQLITE_OK) << swapped.message;
  Open();
  for (uint64_t handle = 1; handle <= 2; ++handle) {
    const absl::Status status =
        store_->GetTokens(memory.uid, std::vector<uint64_t>{handle}).status();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(memory.uid));
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("handle ", handle)));
  }
}

TEST_F(SealedRows, ARefusedInsertTakesNoKey) {
  const MemoryRecord memory = TestMemory(1);
  ASSERT_OK(store_->CreateMemory(memory));
  ASSERT_OK(store_->InsertTokens(memory.uid, std::vector<TokenRow>{TestRow(1, "a")}));
  EXPECT_CODE(store_->InsertTokens(memory.uid,
                                   std::vector<TokenRow>{TestRow(2, "b", "s"), TestRow(3, "a")}),
              absl::StatusCode::kAlreadyExists);
  store_.reset();
  EXPECT_EQ(ReadContents(file_).next_slot, 3u);  // 1 the tenant's, 2 the row's
  Open();
  ASSERT_OK(store_->InsertTokens(memory.uid, std::vector<TokenRow>{TestRow(2, "b")}));
  Inspect(true);
}

// No key can be made any more: inserts are refused and change nothing, erasures go on, those too
// that need new keys for what remains.
TEST_F(SealedRows, ErasuresGoOnWhenNoKeyCanBeMade) {
  const auto hooks = std::make_shared<KmsHooks>();
  options_.kms = HookedKmsFactory(hooks);
  Open();
  const MemoryRecord memory = TestMemory(1);
  ASSERT_OK(store_->CreateMemory(memory));
  uint64_t next = 1;
  std::vector<TokenRow> rows;
  for (; next <= 400; ++next) {
    rows.push_back(TestRow(next, absl::StrCat(next), absl::StrCat("s", next % 200)));
  }
  ASSERT_OK(store_->InsertTokens(memory.uid, rows));
  hooks->wrap = absl::ResourceExhaustedError("the disk is full");
  absl::Status status;
  while (status.ok()) {
    status =
        store_->InsertTokens(memory.uid, std::vector<TokenRow>{TestRow(next, absl::StrCat(next))});
    if (status.ok()) ++next;
    ASSERT_LT(next, 5000u);
  }
  EXPECT_CODE(status, absl::StatusCode::kResourceExhausted);
  EXPECT_OK(store_->Health());
  EXPECT_EQ(LoadAll(*store_, memory.uid).size(), next - 1);
  EXPECT_EQ(store_->GetMemory(memory.uid)->next_handle, next);
  // A subject that has a key takes no new one.
  ASSERT_OK(store_->InsertTokens(memory.uid,
                                 std::vector<TokenRow>{TestRow(next, absl::StrCat(next), "s1")}));
  // One token each of two hundred subjects: as many new keys.
  EraseRequest request{memory.uid, {}, NextCertificate(*store_, memory), std::nullopt};
  for (uint64_t handle = 1; handle <= 200; ++handle) request.handles.push_back(handle);
  ASSERT_OK(store_->EraseTokens(request));
  ASSERT_TRUE(FinishErasures(*store_));
  options_.kms = MakeFileKms;
  Inspect(false);
  EXPECT_EQ(LoadAll(*store_, memory.uid).size(), next - 200);
}

// A batch that took many keys leaves a block for the next one, made beside its commit; one that
// took few does not.
TEST_F(SealedRows, ALargeBatchLeavesKeysForTheNext) {
  const auto hooks = std::make_shared<KmsHooks>();
  options_.kms = HookedKmsFactory(hooks);
  Open();
  const MemoryRecord memory = TestMemory(1);
  ASSERT_OK(store_->CreateMemory(memory));
  uint64_t next = 1;
  const auto insert = [&](uint64_t count) {
    std::vector<TokenRow> rows;
    for (uint64_t i = 0; i < count; ++i) {
      rows.push_back(TestRow(next + i, absl::StrCat(next + i)));
    }
    const absl::Status status = store_->InsertTokens(memory.uid, rows);
    if (status.ok()) next += count;
    return status;
  };
  ASSERT_OK(insert(3000));
  hooks->wrap = absl::UnavailableError("not now");
  EXPECT_OK(insert(2048));
  EXPECT_CODE(insert(1), absl::StatusCode::kUnavailable);
  // What could not be made ahead is no error of the batch.
  hooks->wrap = absl::OkStatus();
  ASSERT_OK(insert(100));
  int wraps = 0;
  hooks->at = [&](const std::string& step) {
    return step == "before wrap" && ++wraps > 2 ? absl::UnavailableError("not now")
                                                : absl::OkStatus();
  };
  ASSERT_OK(insert(4000));
  EXPECT_GE(wraps, 3);
  hooks->at = [](const std::string&) { return absl::OkStatus(); };
  EXPECT_OK(store_->Health());
  EXPECT_EQ(LoadAll(*store_, memory.uid).size(), next - 1);
  options_.kms = MakeFileKms;
  Inspect(false);
}

// The file of keys cannot grow, or anything else: whatever the point, the insert is there whole or
// not at all, and the store opens and forgets afterwards.
TEST_F(SealedRows, AFullDiskInTheMiddleOfAnInsertLosesNothing) {
  const MemoryRecord memory = TestMemory(1);
  ASSERT_OK(store_->CreateMemory(memory));
  uint64_t next = 1;
  uint64_t erased = 0;
  int failed = 0;
  for (uint64_t bytes = 10'000; bytes < 600'000; bytes += 37'000) {
    SCOPED_TRACE(bytes);
    std::vector<TokenRow> rows;
    for (uint64_t i = 0; i < 600; ++i) {
      rows.push_back(TestRow(next + i, absl::StrCat("id-", next + i)));
    }
    absl::Status status;
    {
      const ScopedFileLimit limit(bytes);
      status = store_->InsertTokens(memory.uid, rows);
    }
    if (!status.ok()) ++failed;
    Open();
    const uint64_t after = store_->GetMemory(memory.uid)->next_handle;
    EXPECT_TRUE(after == next || after == next + 600);
    EXPECT_TRUE(!status.ok() || after == next + 600);
    EXPECT_EQ(store_->CountMemory(memory.uid)->tokens, after - 1 - erased);
    const bool inserted = after != next;
    next = after;
    if (inserted) {
      const std::vector<uint64_t> last = {next - 1};
      ASSERT_OK(
          store_->EraseTokens({memory.uid, last, NextCertificate(*store_, memory), std::nullopt}));
      ++erased;
      ASSERT_TRUE(FinishErasures(*store_));
    }
    Inspect(false);
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 2);
}

}  // namespace
}  // namespace lethe::store
