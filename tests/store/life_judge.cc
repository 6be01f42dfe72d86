#include "tests/store/life_judge.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "store/vault/bytes.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_slot.h"
#include "store/vault/key_store.h"
#include "store/vault/sealing.h"
#include "store/vault/vault_folder.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kRowSchema = 3;  // of format 3

std::string VaultOf(const std::string& dir) {
  return absl::StrCat(dir, "/vault/", TestTenant().uid);
}

using Rows = std::vector<std::vector<std::string>>;

Rows Query(const std::string& path, const std::string& sql) {
  LETHE_CHECK(!fs::exists(path + "-wal"));  // closed in order
  sqlite3* db = nullptr;
  LETHE_CHECK(sqlite3_open_v2(absl::StrCat("file:", path, "?immutable=1").c_str(), &db,
                              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, "unix") == SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  LETHE_CHECK(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
  Rows rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    std::vector<std::string>& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, i));
      row.emplace_back(bytes == nullptr ? "" : bytes,
                       static_cast<size_t>(sqlite3_column_bytes(statement, i)));
    }
  }
  LETHE_CHECK(sqlite3_finalize(statement) == SQLITE_OK);
  LETHE_CHECK(sqlite3_close(db) == SQLITE_OK);
  return rows;
}

uint64_t Number(const std::string& text) { return std::stoull(text); }

std::string DataOf(const std::string& dir) { return dir + "/tenant.db"; }
std::string KeysOf(const std::string& dir) { return KeysFileOf(VaultOf(dir)); }

Rows TokensOf(const std::string& dir) {
  return Query(DataOf(dir),
               "SELECT uid, handle, slot, body FROM tokens JOIN memories ON memory = key");
}
Rows SlotsOf(const std::string& dir) { return Query(KeysOf(dir), "SELECT slot, body FROM slots"); }

bool Opens(KeyStore& store, uint64_t key, const RowName& name, const Copies::Row& row) {
  const RowPlace place{TestTenant().uid, name.first, name.second, row.slot, kRowSchema};
  return store
      .WithKey(key, 0,
               [&](SealingKey& sealing) { return OpenRow(sealing, place, row.body).status(); })
      .ok();
}

// The slots that are alive and those that may be.
struct KeysFound {
  std::set<uint64_t> live;
  std::set<uint64_t> used;  // by the tenant itself and by rows
  uint64_t next = 0;        // the first that is free
  std::string problem;
};

KeysFound FindKeys(const std::string& dir) {
  KeysFound keys;
  uint64_t slots = 0;
  for (const auto& row : SlotsOf(dir)) {
    slots = Number(row[0]);
    if (!IsDestroyed(row[1])) keys.live.insert(slots);
  }
  keys.used.insert(1);
  for (const auto& row : TokensOf(dir)) keys.used.insert(Number(row[2]));
  std::set<uint64_t> pending;
  for (const auto& row : Query(DataOf(dir), "SELECT slots FROM outbox")) {
    for (size_t at = 0; at < row[0].size(); at += 8) {
      pending.insert(GetLittleEndian<uint64_t>(row[0], at));
    }
  }
  for (const auto& row :
       Query(DataOf(dir), "SELECT slot, personal IS NULL FROM cases WHERE slot IS NOT NULL")) {
    (row[1] == "1" ? pending : keys.used).insert(Number(row[0]));
  }
  if (!Query(DataOf(dir), "SELECT 1 FROM sqlite_schema WHERE name = 'encoders'").empty()) {
    for (const auto& row : Query(DataOf(dir), "SELECT slot, body IS NULL FROM encoders")) {
      (row[1] == "1" ? pending : keys.used).insert(Number(row[0]));
    }
  }
  keys.next = Number(Query(DataOf(dir), "SELECT next_slot FROM tenant")[0][0]);
  for (uint64_t slot = 1; slot <= slots; ++slot) {
    const bool live = keys.live.contains(slot);
    if (live && slot < keys.next && !keys.used.contains(slot) && !pending.contains(slot)) {
      keys.problem = absl::StrCat("key ", slot, " is alive and no row uses it");
    }
    if (!live && (slot >= keys.next || keys.used.contains(slot))) {
      keys.problem = absl::StrCat("key ", slot, " is destroyed, but used or free");
    }
    if (keys.used.contains(slot) && slot >= keys.next) {
      keys.problem = absl::StrCat("key ", slot, " is used and counts as free");
    }
  }
  return keys;
}

}  // namespace

void Copy(const std::string& dir, Copies& copies) {
  for (const auto& row : TokensOf(dir)) {
    std::vector<Copies::Row>& found = copies.rows[{row[0], Number(row[1])}];
    const Copies::Row copy{Number(row[2]), row[3]};
    if (found.empty() || found.back().body != copy.body) found.push_back(copy);
  }
  for (const auto& row : SlotsOf(dir)) {
    if (IsDestroyed(row[1])) continue;
    copies.wrapped[Number(row[0])] = row[1].substr(kWrappedOffset, kWrappedKeyBytes);
  }
}

std::string JudgeKeys(const std::string& dir,
                      const Model& model,
                      const Copies& copies,
                      bool thorough,
                      uint64_t& controls) {
  if (model.state != TenantState::kOpen) {
    return model.state == TenantState::kClosed && fs::exists(VaultOf(dir))
               ? "a closed tenant has a vault"
               : "";
  }
  for (const std::string& file : {DataOf(dir), KeysOf(dir), VaultOf(dir) + "/anchor.db"}) {
    if (fs::exists(file + "-wal")) return file + ": was not closed in order";
  }
  const KeysFound keys = FindKeys(dir);
  if (!keys.problem.empty()) return keys.problem;

  const auto kms = FileKms::Open(KekFolderOf(VaultOf(dir)));
  if (!kms.ok()) return kms.status().ToString();
  const auto store = KeyStore::Open(KeysOf(dir), TestTenant().uid, kms->get());
  if (!store.ok()) return store.status().ToString();
  for (const auto& [name, rows] : copies.rows) {
    if (!model.shredded.contains(name)) continue;
    for (const Copies::Row& row : rows) {
      for (const uint64_t key : keys.live) {
        if (key >= keys.next && !thorough) break;
        if (Opens(**store, key, name, row)) {
          return absl::StrCat("key ", key, " opens a copy of the erased row ", name.second);
        }
      }
    }
  }
  for (const auto& row : TokensOf(dir)) {
    const RowName name(row[0], Number(row[1]));
    if (!Opens(**store, Number(row[2]), name, {Number(row[2]), row[3]})) {
      return absl::StrCat("row ", row[1], " does not open");
    }
    ++controls;
  }
  return "";
}

std::string JudgeBytes(const std::string& dir, const Model& model, const Copies& copies) {
  constexpr size_t kPiece = 12;
  std::string bytes;
  for (const char* suffix : {"", "-wal", "-journal"}) {
    if (fs::exists(KeysOf(dir) + suffix)) bytes += ReadFile(KeysOf(dir) + suffix);
  }
  for (const RowName& name : model.shredded) {
    const auto rows = copies.rows.find(name);
    if (rows == copies.rows.end()) continue;
    for (const Copies::Row& row : rows->second) {
      const auto wrapped = copies.wrapped.find(row.slot);
      if (wrapped == copies.wrapped.end()) continue;
      for (size_t at = 0; at + kPiece <= wrapped->second.size(); at += kPiece) {
        if (bytes.find(wrapped->second.substr(at, kPiece)) != std::string::npos) {
          return absl::StrCat("a piece of the destroyed key ", row.slot, " is in the file of keys");
        }
      }
    }
  }
  return "";
}

Book::Book() {
  const std::string dir = temp_.path() + "/tenant";
  Model model;
  Copies copies;
  fs::create_directory(dir);
  for (const Chapter& chapter : TheLife()) {
    const std::string folder = absl::StrCat(temp_.path(), "/", starts_.size());
    fs::copy(dir, folder, fs::copy_options::recursive);
    starts_.push_back({chapter, model, copies, folder});
    Life life(dir, model);
    EXPECT_TRUE(life.Live(chapter)) << chapter.name << ": " << life.problem();
    model = life.model();
    if (model.state == TenantState::kOpen) Copy(dir, copies);
  }
}

void Book::Lay(const Start& start, const std::string& dir) {
  fs::remove_all(dir);
  fs::copy(start.folder, dir, fs::copy_options::recursive);
}

}  // namespace lethe::store
