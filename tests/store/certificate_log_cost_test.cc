// What an append costs in a long log: what it does in a new one.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/sqlite_tenant_store.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

constexpr uint64_t kLong = 100'000;

// Processor time of this thread, the system's part included: what others do on the machine does not
// count.
double CpuMillis() {
  timespec now = {};
  EXPECT_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double Quartile(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 4),
                   values.end());
  return values[values.size() / 4];
}

// A tenant and what its appends have cost.
class Log {
 public:
  explicit Log(const std::string& folder) : folder_(folder) {
    std::filesystem::create_directory(folder);
  }
  absl::Status Create() {
    auto store = CreateTenantStore(folder_, TestTenant(), TestOptions(folder_));
    if (!store.ok()) return store.status();
    store_ = std::move(*store);
    return store_->StartLog(TestStart());
  }
  void Close() { store_.reset(); }
  absl::Status Open() {
    auto store = OpenTenantStore(folder_, TestOptions(folder_));
    if (store.ok()) store_ = std::move(*store);
    return store.status();
  }
  std::string file() const { return folder_ + "/tenant.db"; }

  void Append() {
    const CertificateAppend append = NextCertificate(*store_->GetLogHead());
    const uint64_t before = LogBytes();
    const double begin = CpuMillis();
    EXPECT_OK(store_->AppendCertificate(append));
    cpu_.push_back(CpuMillis() - begin);
    written_.push_back(static_cast<double>(LogBytes() - before));
  }
  absl::Status EmptyLog() { return store_->Checkpoint(); }
  double cpu() const { return Quartile(cpu_); }
  double written() const { return Quartile(written_); }

 private:
  uint64_t LogBytes() const { return std::filesystem::file_size(file() + "-wal"); }

  std::string folder_;
  std::unique_ptr<TenantStore> store_;
  std::vector<double> cpu_;      // milliseconds
  std::vector<double> written_;  // bytes of the write-ahead log
};

// A log of kLong certificates in one transaction, past the store, with a tree made by the
// definition.
void Fill(const std::string& file) {
  std::vector<std::vector<Bytes32>> levels = {{}};
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;"
                         "PRAGMA cache_size = -400000; BEGIN",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_stmt* insert = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(db,
                               "INSERT INTO certificates SELECT ?1, ?2, 'forget', '', '', 1, ?3,"
                               " (SELECT leaf_hash FROM certificates WHERE sequence = ?1 - 1), ?4,"
                               " ?5",
                               -1, &insert, nullptr),
            SQLITE_OK);
  const std::string padding(300, 'e');
  for (uint64_t i = 0; i < kLong; ++i) {
    const std::string envelope = absl::StrCat(i, padding);
    const std::string leaf = absl::StrCat(i, padding.substr(0, 100));
    const std::string id = Hex(OpenSslSha256(envelope));
    const Bytes32 hash = OpenSslSha256(std::string(1, '\0') + leaf);
    levels[0].push_back(hash);
    sqlite3_bind_int64(insert, 1, static_cast<int64_t>(i));
    sqlite3_bind_text(insert, 2, id.data(), static_cast<int>(id.size()), SQLITE_STATIC);
    sqlite3_bind_blob(insert, 3, hash.data(), 32, SQLITE_STATIC);
    sqlite3_bind_blob(insert, 4, leaf.data(), static_cast<int>(leaf.size()), SQLITE_STATIC);
    sqlite3_bind_blob(insert, 5, envelope.data(), static_cast<int>(envelope.size()), SQLITE_STATIC);
    ASSERT_EQ(sqlite3_step(insert), SQLITE_DONE) << sqlite3_errmsg(db);
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  while (levels.back().size() > 1) {
    const std::vector<Bytes32>& below = levels.back();
    std::vector<Bytes32> level;
    for (size_t k = 0; k + 1 < below.size(); k += 2) {
      level.push_back(TreeNodeHash(below[k], below[k + 1]));
    }
    levels.push_back(std::move(level));
  }
  ASSERT_EQ(sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO log_nodes VALUES (?1, ?2, ?3)", -1,
                               &insert, nullptr),
            SQLITE_OK);
  for (size_t level = 1; level < levels.size(); ++level) {
    for (size_t k = 0; k < levels[level].size(); ++k) {
      sqlite3_bind_int64(insert, 1, static_cast<int64_t>(level));
      sqlite3_bind_int64(insert, 2, static_cast<int64_t>(k));
      sqlite3_bind_blob(insert, 3, levels[level][k].data(), 32, SQLITE_STATIC);
      ASSERT_EQ(sqlite3_step(insert), SQLITE_DONE) << sqlite3_errmsg(db);
      sqlite3_reset(insert);
    }
  }
  sqlite3_finalize(insert);
  std::string range;
  for (size_t level = levels.size(); level-- > 0;) {
    // A complete subtree of this size ends the log's first (kLong >> level) of them when that is
    // odd.
    if (((kLong >> level) & 1) != 0) {
      const Bytes32& root = levels[level][(kLong >> level) - 1];
      range.append(root.begin(), root.end());
    }
  }
  const std::string note = TestNote(kLong, TreeRoot(levels[0]));
  ASSERT_EQ(sqlite3_prepare_v2(db, "UPDATE log_head SET size = ?1, range = ?2, checkpoint = ?3", -1,
                               &insert, nullptr),
            SQLITE_OK);
  sqlite3_bind_int64(insert, 1, static_cast<int64_t>(kLong));
  sqlite3_bind_blob(insert, 2, range.data(), static_cast<int>(range.size()), SQLITE_STATIC);
  sqlite3_bind_blob(insert, 3, note.data(), static_cast<int>(note.size()), SQLITE_STATIC);
  ASSERT_EQ(sqlite3_step(insert), SQLITE_DONE) << sqlite3_errmsg(db);
  sqlite3_finalize(insert);
  ASSERT_EQ(sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
}

// The anchor of the log with the same certificates.
void FillAnchor(const std::string& file, const std::string& anchor) {
  const RawResult result = RunRaw(
      anchor, absl::StrCat("ATTACH '", file,
                           "' AS log; BEGIN; INSERT INTO entries SELECT sequence, id, kind,"
                           " memory_uid, memory_name, create_time, leaf_hash, previous_leaf_hash,"
                           " leaf, envelope, NULL, x'', x'', sequence + 1 FROM certificates;"
                           "UPDATE main.log SET checkpoint = (SELECT checkpoint FROM log_head);"
                           "COMMIT"));
  ASSERT_EQ(result.code, SQLITE_OK) << result.message;
}

// First and last appends in turns, so that they meet the same machine.
TEST(LogCost, TheHundredThousandthAppendCostsWhatTheFirstDid) {
  constexpr int kTimed = 150;
  const TempFolder temp;
  Log first(temp.path() + "/first");
  Log last(temp.path() + "/last");
  ASSERT_OK(first.Create());
  ASSERT_OK(last.Create());
  last.Close();
  Fill(last.file());
  FillAnchor(last.file(),
             absl::StrCat(temp.path(), "/last/vault/", TestTenant().uid, "/anchor.db"));
  if (HasFatalFailure()) return;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_OK(last.Open());
  const std::chrono::duration<double> open = std::chrono::steady_clock::now() - begin;
  for (int i = 0; i < kTimed; ++i) {
    if (i % 50 == 0) {  // below the size at which the store empties its log by itself
      ASSERT_OK(first.EmptyLog());
      ASSERT_OK(last.EmptyLog());
    }
    first.Append();
    last.Append();
  }
  std::cout << "an append: " << first.cpu() << " ms of a processor, " << first.written()
            << " bytes; after " << kLong << ": " << last.cpu() << " ms, " << last.written()
            << " bytes; start " << open.count() << " s" << std::endl;
  EXPECT_GT(first.written(), 0);
  EXPECT_LE(last.cpu(), 1.5 * first.cpu());
  EXPECT_LE(last.written(), 1.5 * first.written());
  EXPECT_LE(open.count(), 15.0);
}

}  // namespace
}  // namespace lethe::store
