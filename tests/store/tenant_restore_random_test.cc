// Random lives: a tenant changes, is copied, is lost and restored from any of its copies, over and
// over, against a model of sets. The seed is printed; LETHE_TEST_SEED repeats a run.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/restore_fixture.h"

namespace lethe::store {
namespace {

// Keys are numbers that are never used twice, as slots are; a subject's rows in a memory share one.
struct ModelRow {
  TokenRow row;
  uint64_t key = 0;
};
struct ModelMemory {
  MemoryRecord record;
  std::map<uint64_t, ModelRow> rows;  // by handle
  std::set<std::string> erased;       // ids
};
// What stands in the database, and goes back with it.
struct Model {
  std::map<std::string, ModelMemory> memories;  // by uid
  std::vector<CertificateRecord> log;
};
struct ModelCopy {
  std::string path;
  Model model;
  uint64_t next_key = 0;
};

class RandomLives : public RestoreFixture {
 protected:
  void SetUp() override {}
  void Run(uint64_t seed, int steps);
  void Step();
  void Insert(ModelMemory& memory);
  void Erase(ModelMemory& memory);
  void Delete(ModelMemory& memory);
  void RestoreOne();
  void Compare();
  void ExpectErasedKeysAreGone();

  uint64_t Draw(uint64_t below) { return random_() % below; }
  ModelMemory* AnyMemory() {
    if (model_.memories.empty()) return nullptr;
    const auto at = static_cast<std::ptrdiff_t>(Draw(model_.memories.size()));
    return &std::next(model_.memories.begin(), at)->second;
  }
  // The key of a subject's live rows, or a new one.
  uint64_t KeyFor(const ModelMemory& memory, const std::string& subject) {
    for (const auto& [handle, row] : memory.rows) {
      if (!subject.empty() && row.row.subject == subject) return row.key;
    }
    return next_key_++;
  }
  void Add(ModelMemory& memory, const TokenRow& row) {
    memory.erased.erase(row.id);
    memory.rows[row.handle] = {row, KeyFor(memory, row.subject)};
  }
  CertificateAppend Next(const ModelMemory& memory) {
    CertificateAppend append =
        NextCertificate(HeadOf(model_.log), memory.record.uid, memory.record.name);
    model_.log.push_back(append.record);
    return append;
  }
  TokenRow NewRow(uint64_t& handle, const std::string& id) {
    handle += Draw(3);
    return RandomRow(random_, handle++, id);
  }

  std::mt19937_64 random_;
  Model model_;
  std::vector<ModelCopy> copies_;
  uint64_t next_memory_ = 1;
  // What no restore takes back.
  uint64_t next_key_ = 1;
  std::set<uint64_t> dead_keys_;                       // of what was erased or lost
  std::set<std::pair<std::string, uint64_t>> erased_;  // memory and handle
  std::set<std::string> deleted_;                      // memories
  std::map<std::string, uint64_t> next_handle_;        // by memory, above all that were given out
};

void RandomLives::Insert(ModelMemory& memory) {
  std::set<std::string> ids;
  for (const auto& [handle, row] : memory.rows) ids.insert(row.row.id);
  std::vector<TokenRow> rows;
  uint64_t handle = store_->GetMemory(memory.record.uid)->next_handle;
  EXPECT_GE(handle, next_handle_[memory.record.uid]);
  for (uint64_t count = 1 + Draw(5); count > 0; --count) {
    const std::string id = absl::StrCat("id-", Draw(40));
    if (ids.insert(id).second) rows.push_back(NewRow(handle, id));
  }
  if (rows.empty()) return;
  ASSERT_OK(store_->InsertTokens(memory.record.uid, rows));
  for (const TokenRow& row : rows) Add(memory, row);
  next_handle_[memory.record.uid] = handle;
}

void RandomLives::Erase(ModelMemory& memory) {
  EraseRequest request{memory.record.uid, {}, {}, std::nullopt};
  const uint64_t subject = Draw(8);  // of the first five; otherwise of anybody
  for (const auto& [handle, row] : memory.rows) {
    const bool named =
        subject < 5 ? row.row.subject == absl::StrCat("subject-", subject) : Draw(4) == 0;
    if (named) request.handles.push_back(handle);
  }
  if (request.handles.empty()) return;
  uint64_t next = store_->GetMemory(memory.record.uid)->next_handle;
  if (Draw(3) == 0) {
    request.replacements.push_back(NewRow(next, memory.rows.at(request.handles.front()).row.id));
    next_handle_[memory.record.uid] = next;
  }
  request.certificate = Next(memory);
  ASSERT_OK(store_->EraseTokens(request));
  std::set<std::string> subjects;
  for (uint64_t handle : request.handles) {
    const ModelRow& row = memory.rows.at(handle);
    if (!row.row.subject.empty()) subjects.insert(row.row.subject);
    dead_keys_.insert(row.key);
    erased_.emplace(memory.record.uid, handle);
    memory.erased.insert(row.row.id);
    memory.rows.erase(handle);
  }
  // What remains of a subject is sealed anew.
  for (const std::string& of : subjects) {
    const uint64_t key = next_key_++;
    for (auto& [handle, row] : memory.rows) {
      if (row.row.subject == of) row.key = key;
    }
  }
  for (const TokenRow& row : request.replacements) Add(memory, row);
}

void RandomLives::Delete(ModelMemory& memory) {
  const std::string uid = memory.record.uid;
  ASSERT_OK(store_->DeleteMemory({uid, Next(memory), std::nullopt}));
  for (const auto& [handle, row] : memory.rows) {
    dead_keys_.insert(row.key);
    erased_.emplace(uid, handle);
  }
  deleted_.insert(uid);
  model_.memories.erase(uid);
}

void RandomLives::RestoreOne() {
  const ModelCopy& copy = copies_[Draw(copies_.size())];
  size_t failed = 0;
  if (Draw(3) == 0) {
    // An attempt that stops before the anchor knows of it, or before the keys are destroyed.
    store_.reset();
    const bool late = Draw(2) == 0;
    const std::string file = late ? KeysFile() : AnchorFile();
    RunRaw(file, absl::StrCat("CREATE TRIGGER stop BEFORE ",
                              late ? "UPDATE ON slots" : "INSERT ON entries",
                              " BEGIN SELECT RAISE(ABORT, 'stop'); END"));
    const auto stopped = Restore(copy.path);
    RunRaw(file, "DROP TRIGGER stop");
    EXPECT_TRUE(late || !stopped.ok());
    failed = late ? 1 : 0;
  }
  const std::vector<CertificateRecord> log = model_.log;
  model_ = copy.model;
  uint64_t removed = 0;
  uint64_t unreadable = 0;
  for (uint64_t key = copy.next_key; key < next_key_; ++key) dead_keys_.insert(key);
  std::erase_if(model_.memories, [&](const auto& entry) {
    if (!deleted_.contains(entry.first)) return false;
    removed += entry.second.rows.size();
    return true;
  });
  for (auto& [uid, memory] : model_.memories) {
    for (auto it = memory.rows.begin(); it != memory.rows.end();) {
      const bool erased = erased_.contains({uid, it->first});
      if (!erased && !dead_keys_.contains(it->second.key)) {
        ++it;
        continue;
      }
      if (erased) memory.erased.insert(it->second.row.id);
      ++(erased ? removed : unreadable);
      it = memory.rows.erase(it);
    }
  }
  const RestoreReport report = MustRestore(copy.path);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(report.reapplied, log.size() + failed - copy.model.log.size());
  EXPECT_EQ(report.removed, removed);
  EXPECT_EQ(report.unreadable, unreadable);
  // The log of before, and a certificate of each restore that came to the anchor.
  model_.log = WholeLog(*store_, 50);
  ASSERT_EQ(model_.log.size(), log.size() + failed + 1);
  EXPECT_TRUE(std::equal(log.begin(), log.end(), model_.log.begin()));
  for (size_t i = log.size(); i < model_.log.size(); ++i) {
    EXPECT_EQ(model_.log[i].kind, "restored");
  }
}

void RandomLives::Step() {
  ModelMemory* memory = AnyMemory();
  const uint64_t choice = Draw(100);
  if (memory == nullptr || choice < 5) {
    MemoryRecord record = TestMemory(next_memory_++);
    ASSERT_OK(store_->CreateMemory(record));
    model_.memories[record.uid].record = record;
  } else if (choice < 40) {
    Insert(*memory);
  } else if (choice < 65) {
    Erase(*memory);
  } else if (choice < 68) {
    Delete(*memory);
  } else if (choice < 75) {
    ASSERT_TRUE(FinishErasures(*store_));
    model_.log = WholeLog(*store_, 50);
  } else if (choice < 78) {
    ASSERT_OK(store_->DestroyPendingKeys(model_.log.size()));
  } else if (choice < 86) {
    copies_.push_back({Copy(), model_, next_key_});
  } else if (choice < 96) {
    if (!copies_.empty()) RestoreOne();
  } else {
    ASSERT_OK(Open());
  }
}

void RandomLives::Compare() {
  EXPECT_EQ(*store_->CountMemories(), model_.memories.size());
  for (const auto& [uid, memory] : model_.memories) {
    std::vector<TokenRow> expected;
    std::map<std::string, IdState> states;
    for (const std::string& id : memory.erased) states[id] = IdState::kErased;
    for (const auto& [handle, row] : memory.rows) {
      expected.push_back(row.row);
      states[row.row.id] = IdState::kLive;
      EXPECT_FALSE(erased_.contains({uid, handle})) << "somebody is back";
    }
    EXPECT_FALSE(deleted_.contains(uid)) << "a memory is back";
    EXPECT_EQ(LoadAll(*store_, uid), expected);
    for (int i = 0; i < 40; ++i) {
      const std::string id = absl::StrCat("id-", i);
      EXPECT_EQ(StateOf(id, memory.record), states[id]) << id;
    }
  }
  const std::vector<CertificateRecord> log = WholeLog(*store_, 50);
  EXPECT_EQ(log, model_.log);
  ExpectLogIsChained(log);
}

// In none of the copies, and not in the present file, has a row that was ever erased a key.
void RandomLives::ExpectErasedKeysAreGone() {
  ASSERT_TRUE(FinishErasures(*store_));
  copies_.push_back({Copy(), model_, next_key_});
  store_.reset();
  const std::string gone =
      RunRaw(KeysFile(), "SELECT group_concat(slot) FROM slots WHERE body = zeroblob(96)").text;
  std::string erased = "''";
  for (const auto& [uid, handle] : erased_) absl::StrAppend(&erased, ",'", uid, "-", handle, "'");
  uint64_t rows = 0;
  for (const ModelCopy& copy : copies_) {
    const std::string count = absl::StrCat(
        "SELECT count(*) FROM tokens JOIN memories ON memories.key = tokens.memory"
        " WHERE uid || '-' || handle IN (",
        erased, ")");
    rows += std::stoull(RunRaw(copy.path, count).text);
    EXPECT_EQ(RunRaw(copy.path, absl::StrCat(count, " AND slot NOT IN (", gone, ")")).text, "0");
  }
  std::cout << copies_.size() << " copies, with " << rows << " rows that were erased" << std::endl;
}

void RandomLives::Run(uint64_t seed, int steps) {
  SCOPED_TRACE(absl::StrCat("LETHE_TEST_SEED=", seed));
  random_.seed(seed);
  Create();
  model_.memories[memory_.uid].record = memory_;
  next_memory_ = 2;
  for (int i = 0; i < steps && !HasFailure(); ++i) {
    Step();
    if (i % 10 == 0 && !HasFailure()) Compare();
  }
  if (HasFailure()) return;
  Compare();
  ExpectErasedKeysAreGone();
}

TEST_F(RandomLives, AgreeWithTheModelAndBringNobodyBack) {
  const char* fixed = std::getenv("LETHE_TEST_SEED");
  const uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : uint64_t{std::random_device()()};
  std::cout << "LETHE_TEST_SEED=" << seed << std::endl;
  Run(seed, 150);
}

TEST_F(RandomLives, OfAKnownSeed) { Run(20261130, 150); }

}  // namespace
}  // namespace lethe::store
