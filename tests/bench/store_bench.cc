#include "tests/bench/store_bench.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit/hash.h"
#include "core/base/check.h"
#include "store/sqlite_tenant_store.h"

namespace lethe::bench {
namespace {

using store::Bytes32;
using store::TokenRow;

constexpr size_t kCoordinates = 16;
constexpr size_t kPayloadBytes = 100;
constexpr size_t kLabelBytes = 20;
constexpr char kOrigin[] = "lethe.example/log/bench";

std::string MemoryUid() { return std::string(32, 'b'); }

std::string Note(uint64_t size, const Bytes32& root) {
  return absl::StrCat(kOrigin, "\n", size, "\n", absl::Base64Escape(audit::AsBytes(root)), "\n\n",
                      "\u2014 ", kOrigin, " ", absl::Base64Escape(std::string(68, 'x')), "\n");
}

Bytes32 NodeHash(const Bytes32& left, const Bytes32& right) {
  return audit::Sha256Hasher().UpdateByte(1).Update(left).Update(right).Finish();
}

std::string Bits(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

}  // namespace

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BenchFolder::BenchFolder() {
  const char* base = ::getenv("TMPDIR");
  path_ = absl::StrCat(base == nullptr ? "/tmp" : base, "/lethe-bench-XXXXXX");
  LETHE_CHECK(::mkdtemp(path_.data()) != nullptr);
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<TokenRow> Rows::Next(size_t count) {
  std::vector<TokenRow> rows(count);
  std::uniform_real_distribution<double> even(-1.0, 1.0);
  for (TokenRow& row : rows) {
    row.handle = ++handle_;
    row.id = absl::StrFormat("%016x%016x", random_(), random_());
    if (subjects_ != 0) row.subject = absl::StrFormat("subject-%08d", random_() % subjects_);
    for (size_t i = 0; i < kCoordinates; ++i) row.key.push_back(even(random_));
    for (size_t i = 0; i < kCoordinates; ++i) row.value.push_back(even(random_));
    for (size_t i = 0; i < kPayloadBytes; ++i) row.payload.push_back(static_cast<char>(random_()));
    row.labels.assign(kLabelBytes, 'l');
    for (uint8_t& byte : row.salt) byte = static_cast<uint8_t>(random_());
  }
  return rows;
}

// --- Ours

OurStore::OurStore(const std::string& folder) : folder_(folder) {
  store::SqliteTenantOptions options;
  options.vault = folder_ + "/vault";
  std::filesystem::create_directories(folder_);
  LETHE_CHECK(::mkdir(options.vault.c_str(), 0700) == 0);
  auto made = store::CreateTenantStore(
      folder_, {"bench", std::string(32, 'a'), kOrigin, 1, store::TenantState::kOpen}, options);
  LETHE_CHECK(made.ok());
  store_ = std::move(*made);
  const store::LogStart start{
      .vkey = "a key",
      .checkpoint = Note(0, audit::Sha256("")),
      .verify = [](absl::string_view) { return absl::OkStatus(); },
  };
  LETHE_CHECK(store_->StartLog(start).ok());
  LETHE_CHECK(store_->CreateMemory({MemoryUid(), "memory", "config", 1}).ok());
}

void OurStore::Insert(std::span<const TokenRow> rows) {
  LETHE_CHECK(store_->InsertTokens(MemoryUid(), rows).ok());
}

store::CertificateAppend OurStore::NextCertificate(const std::string& kind) {
  const store::LogHead head = store_->GetLogHead().value();
  store::CertificateAppend append;
  store::CertificateRecord& record = append.record;
  record.sequence = head.count;
  record.kind = kind;
  record.memory_uid = MemoryUid();
  record.memory_name = "memory";
  record.previous_leaf_hash = head.leaf_hash;
  record.envelope = absl::StrCat(head.count, std::string(1500, 'e'));
  record.id = absl::BytesToHexString(audit::AsBytes(audit::Sha256(record.envelope)));
  record.leaf = absl::StrCat(record.id, std::string(500, 'l'));
  record.leaf_hash = audit::Sha256Hasher().UpdateByte(0).Update(record.leaf).Finish();
  // Complete subtrees, folded from the right.
  std::vector<Bytes32> range = head.range;
  range.push_back(record.leaf_hash);
  for (uint64_t rest = head.count; (rest & 1) != 0; rest >>= 1) {
    const Bytes32 right = range.back();
    range.pop_back();
    range.back() = NodeHash(range.back(), right);
  }
  Bytes32 root = range.back();
  for (size_t i = range.size() - 1; i-- > 0;) root = NodeHash(range[i], root);
  append.checkpoint = Note(head.count + 1, root);
  append.verify = [](const store::WrittenCertificate&) { return absl::OkStatus(); };
  return append;
}

void OurStore::Forget(std::vector<uint64_t> handles) {
  const store::CertificateAppend forget = NextCertificate("forget");
  const auto erased = store_->EraseTokens({MemoryUid(), std::move(handles), forget, std::nullopt});
  LETHE_CHECK(erased.ok() && erased->checkpoint.ok());
  const auto destroyed = store_->DestroyPendingKeys(forget.record.sequence);
  LETHE_CHECK(destroyed.ok() && destroyed->evidence.ok());
  LETHE_CHECK(store_->AppendShredded(NextCertificate("shredded"), forget.record.sequence).ok());
}

void OurStore::Open() {
  store::SqliteTenantOptions options;
  options.vault = folder_ + "/vault";
  auto opened = store::OpenTenantStore(folder_, options);
  LETHE_CHECK(opened.ok());
  store_ = std::move(*opened);
}

uint64_t OurStore::Load() {
  uint64_t rows = 0;
  const absl::Status loaded = store_->LoadTokens(MemoryUid(), [&](TokenRow& row) {
    if (!row.id.empty()) ++rows;
    return absl::OkStatus();
  });
  LETHE_CHECK(loaded.ok());
  return rows;
}

std::vector<uint64_t> OurStore::OfSubject(const std::string& subject) {
  return store_->FindBySubject(MemoryUid(), subject).value();
}

// --- Plain SQLite

PlainStore::PlainStore(const std::string& folder, bool secure_delete)
    : path_(folder + "/plain.db"), secure_delete_(secure_delete) {
  std::filesystem::create_directories(folder);
  Open();
  Run("CREATE TABLE tokens (id TEXT PRIMARY KEY, subject TEXT, body BLOB NOT NULL);"
      "CREATE INDEX tokens_by_subject ON tokens (subject) WHERE subject IS NOT NULL");
}

PlainStore::~PlainStore() { Close(); }

void PlainStore::Run(const std::string& sql) {
  LETHE_CHECK(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
}

void PlainStore::Open() {
  LETHE_CHECK(sqlite3_open(path_.c_str(), &db_) == SQLITE_OK);
  Run(absl::StrCat(
      "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
      "PRAGMA wal_autocheckpoint=0; PRAGMA cache_spill=4096; PRAGMA secure_delete=",
      secure_delete_ ? 1 : 0));
}

void PlainStore::Close() {
  sqlite3_finalize(std::exchange(insert_, nullptr));
  sqlite3_finalize(std::exchange(delete_, nullptr));
  if (db_ != nullptr) LETHE_CHECK(sqlite3_close(std::exchange(db_, nullptr)) == SQLITE_OK);
}

void PlainStore::Insert(std::span<const TokenRow> rows) {
  if (insert_ == nullptr) {
    LETHE_CHECK(sqlite3_prepare_v2(db_, "INSERT INTO tokens VALUES (?1, ?2, ?3)", -1, &insert_,
                                   nullptr) == SQLITE_OK);
  }
  Run("BEGIN IMMEDIATE");
  for (const TokenRow& row : rows) {
    const std::string body = absl::StrCat(Bits(row.key), Bits(row.value), row.payload, row.labels);
    sqlite3_bind_text(insert_, 1, row.id.data(), static_cast<int>(row.id.size()), SQLITE_STATIC);
    if (row.subject.empty()) {
      sqlite3_bind_null(insert_, 2);
    } else {
      sqlite3_bind_text(insert_, 2, row.subject.data(), static_cast<int>(row.subject.size()),
                        SQLITE_STATIC);
    }
    sqlite3_bind_blob(insert_, 3, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
    LETHE_CHECK(sqlite3_step(insert_) == SQLITE_DONE);
    sqlite3_reset(insert_);
  }
  Run("COMMIT");
  if (std::filesystem::file_size(path_ + "-wal") >
      store::SqliteTenantOptions().wal_checkpoint_bytes) {
    Run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
}

void PlainStore::Delete(std::span<const std::string> ids) {
  if (delete_ == nullptr) {
    LETHE_CHECK(sqlite3_prepare_v2(db_, "DELETE FROM tokens WHERE id = ?1", -1, &delete_,
                                   nullptr) == SQLITE_OK);
  }
  Run("BEGIN IMMEDIATE");
  for (const std::string& id : ids) {
    sqlite3_bind_text(delete_, 1, id.data(), static_cast<int>(id.size()), SQLITE_STATIC);
    LETHE_CHECK(sqlite3_step(delete_) == SQLITE_DONE && sqlite3_changes(db_) == 1);
    sqlite3_reset(delete_);
  }
  Run("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
}

uint64_t PlainStore::Load() {
  sqlite3_stmt* select = nullptr;
  LETHE_CHECK(sqlite3_prepare_v2(db_, "SELECT id, subject, body FROM tokens ORDER BY rowid", -1,
                                 &select, nullptr) == SQLITE_OK);
  uint64_t rows = 0;
  const auto text = [&](int column) {
    const void* bytes = sqlite3_column_blob(select, column);
    return bytes == nullptr
               ? std::string()
               : std::string(static_cast<const char*>(bytes),
                             static_cast<size_t>(sqlite3_column_bytes(select, column)));
  };
  while (sqlite3_step(select) == SQLITE_ROW) {
    const std::string id = text(0);
    const std::string subject = text(1);
    const std::string body = text(2);
    if (!id.empty() && !body.empty()) ++rows;
  }
  sqlite3_finalize(select);
  return rows;
}

}  // namespace lethe::bench
