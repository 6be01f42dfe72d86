#include "store/anchor.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/varint.h"

namespace lethe::store {
namespace {

constexpr size_t kUidBytes = 32;
// The write-ahead log is moved into the file when it has grown to this.
constexpr uint64_t kWalBytes = 4u << 20;

absl::Status BadErased() {
  return absl::DataLossError("what an entry erased is not what was written");
}

absl::Status Lost(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": the anchor of the log: ", what, kAnchorAdvice));
}

// Each number as the difference from the one before, in LEB128.
void PutIncreasing(std::string& bytes, std::span<const uint64_t> numbers) {
  uint64_t previous = 0;
  for (const uint64_t number : numbers)
    AppendVarint(bytes, number - std::exchange(previous, number));
}

absl::StatusOr<std::vector<uint64_t>> GetIncreasing(absl::string_view bytes) {
  std::vector<uint64_t> numbers;
  uint64_t number = 0;
  while (!bytes.empty()) {
    const std::optional<uint64_t> step = TakeVarint(bytes);
    if (!step.has_value() || *step == 0 || *step > std::numeric_limits<uint64_t>::max() - number) {
      return BadErased();
    }
    number += *step;
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::string AnchorFileOf(const std::string& vault_folder) {
  return absl::StrCat(vault_folder, "/anchor.db");
}

std::string EncodeErased(const ErasedTokens& erased) {
  if (erased.memory_uid.empty()) return {};
  std::string bytes = erased.memory_uid;
  bytes.push_back(erased.whole_memory ? 1 : 0);
  PutIncreasing(bytes, erased.handles);
  return bytes;
}

absl::StatusOr<ErasedTokens> DecodeErased(absl::string_view bytes) {
  ErasedTokens erased;
  if (bytes.empty()) return erased;
  if (bytes.size() <= kUidBytes || bytes[kUidBytes] < 0 || bytes[kUidBytes] > 1) return BadErased();
  erased.memory_uid = std::string(bytes.substr(0, kUidBytes));
  erased.whole_memory = bytes[kUidBytes] == 1;
  LETHE_ASSIGN_OR_RETURN(erased.handles, GetIncreasing(bytes.substr(kUidBytes + 1)));
  if (erased.whole_memory == erased.handles.empty()) return erased;
  return BadErased();
}

absl::StatusOr<std::unique_ptr<Anchor>> Anchor::Create(const std::string& path,
                                                       absl::string_view tenant_uid,
                                                       absl::string_view origin) {
  LETHE_RETURN_IF_ERROR(CheckHex("tenant uid", tenant_uid, kUidBytes));
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                         Database::Open(path, Database::Mode::kCreate, kAnchorIdentity));
  std::unique_ptr<Anchor> anchor(new Anchor(std::move(database)));
  LETHE_RETURN_IF_ERROR(anchor->MakeTables(tenant_uid, origin));
  LETHE_RETURN_IF_ERROR(anchor->database_->CheckpointTruncate());
  return anchor;
}

absl::StatusOr<std::unique_ptr<Anchor>> Anchor::Open(const std::string& path,
                                                     absl::string_view tenant_uid,
                                                     absl::string_view origin) {
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                         Database::Open(path, Database::Mode::kOpen, kAnchorIdentity));
  std::unique_ptr<Anchor> anchor(new Anchor(std::move(database)));
  LETHE_RETURN_IF_ERROR(anchor->Load(tenant_uid, origin));
  return anchor;
}

absl::Status Anchor::MakeTables(absl::string_view tenant_uid, absl::string_view origin) {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  LETHE_RETURN_IF_ERROR(database_->Execute(
      "CREATE TABLE log (singleton INTEGER PRIMARY KEY CHECK (singleton = 1),"
      " tenant_uid TEXT NOT NULL, origin TEXT NOT NULL, checkpoint BLOB NOT NULL,"
      " next_handle INTEGER NOT NULL CHECK (next_handle > 0),"
      " requests INTEGER NOT NULL CHECK (requests >= 0),"
      " holds INTEGER NOT NULL CHECK (holds >= 0)) STRICT;"
      "CREATE TABLE entries (sequence INTEGER PRIMARY KEY CHECK (sequence >= 0),"
      " id TEXT NOT NULL, kind TEXT NOT NULL, memory_uid TEXT NOT NULL, memory_name TEXT NOT NULL,"
      " create_time INTEGER NOT NULL, leaf_hash BLOB NOT NULL CHECK (length(leaf_hash) = 32),"
      " previous_leaf_hash BLOB CHECK (length(previous_leaf_hash) = 32), leaf BLOB NOT NULL,"
      " envelope BLOB NOT NULL, next_vkey TEXT, erased BLOB NOT NULL, slots BLOB NOT NULL,"
      " pending_from INTEGER NOT NULL CHECK (pending_from >= 0)) STRICT;"
      "CREATE TABLE ended (id TEXT PRIMARY KEY, number INTEGER NOT NULL, state INTEGER NOT NULL,"
      " due INTEGER NOT NULL, wake INTEGER, callback INTEGER, facts BLOB NOT NULL,"
      " personal INTEGER NOT NULL CHECK (personal IN (0, 1))) STRICT, WITHOUT ROWID"));
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement insert,
        database_->Prepare(
            "INSERT INTO log (singleton, tenant_uid, origin, checkpoint, next_handle, requests,"
            " holds) VALUES (1, ?1, ?2, x'', 1, 0, 0)"));
    LETHE_RETURN_IF_ERROR(insert.Text(1, tenant_uid).Text(2, origin).Run());
  }
  LETHE_RETURN_IF_ERROR(database_->SetIdentity(kAnchorIdentity));
  return transaction.Commit();
}

absl::Status Anchor::Load(absl::string_view tenant_uid, absl::string_view origin) {
  {
    LETHE_ASSIGN_OR_RETURN(Statement select,
                           database_->Prepare("SELECT tenant_uid, origin, checkpoint, next_handle,"
                                              " requests, holds FROM log"));
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return Lost(path(), "no row in table log");
    if (select.ColumnText(0) != tenant_uid || select.ColumnText(1) != origin) {
      return absl::FailedPreconditionError(absl::StrCat(
          path(), ": is of another tenant; put this tenant's vault back in its place"));
    }
    head_.checkpoint = std::string(select.ColumnBlob(2));
    head_.next_handle = static_cast<uint64_t>(select.ColumnInt(3));
    head_.cases = {.requests = static_cast<uint64_t>(select.ColumnInt(4)),
                   .holds = static_cast<uint64_t>(select.ColumnInt(5))};
  }
  // Dense, or Append would not have taken them; a hole in the middle shows in Visit.
  LETHE_ASSIGN_OR_RETURN(Statement last,
                         database_->Prepare("SELECT sequence, leaf_hash, pending_from FROM entries"
                                            " ORDER BY sequence DESC LIMIT 1"));
  LETHE_ASSIGN_OR_RETURN(const bool row, last.Step());
  if (row) {
    head_.size = static_cast<uint64_t>(last.ColumnInt(0)) + 1;
    LETHE_ASSIGN_OR_RETURN(head_.leaf_hash, ReadHash(last.ColumnBlob(1)));
    head_.pending_from = static_cast<uint64_t>(last.ColumnInt(2));
  }
  if (row == head_.checkpoint.empty()) {
    return Lost(path(), "of its entries and its checkpoint one is missing");
  }
  return absl::OkStatus();
}

absl::Status Anchor::Insert(const AnchorEntry& entry) {
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare(
          "INSERT INTO entries (sequence, id, kind, memory_uid, memory_name, create_time,"
          " leaf_hash, previous_leaf_hash, leaf, envelope, next_vkey, erased, slots, pending_from)"
          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"));
  const CertificateRecord& record = entry.record;
  insert.Int(1, static_cast<int64_t>(record.sequence)).Text(2, record.id).Text(3, record.kind);
  insert.Text(4, record.memory_uid).Text(5, record.memory_name).Int(6, record.create_time_micros);
  insert.Blob(7, audit::AsBytes(record.leaf_hash));
  if (record.previous_leaf_hash.has_value()) {
    insert.Blob(8, audit::AsBytes(*record.previous_leaf_hash));
  } else {
    insert.Null(8);
  }
  insert.Blob(9, record.leaf).Blob(10, record.envelope);
  if (entry.next_vkey.has_value()) {
    insert.Text(11, *entry.next_vkey);
  } else {
    insert.Null(11);
  }
  std::string slots;
  PutIncreasing(slots, entry.slots);
  insert.Blob(12, EncodeErased(entry.erased)).Blob(13, slots);
  return insert.Int(14, ClampToInt64(entry.pending_from)).Run();
}

absl::Status Anchor::Append(std::span<const AnchorEntry> entries, absl::string_view checkpoint) {
  LETHE_RETURN_IF_ERROR(Health());
  if (entries.empty()) return absl::OkStatus();
  AnchorHead next = head_;
  for (const AnchorEntry& entry : entries) {
    if (entry.record.sequence != next.size || entry.record.previous_leaf_hash != next.leaf_hash) {
      return absl::FailedPreconditionError(
          absl::StrCat(path(), ": certificate ", entry.record.sequence,
                       " does not continue the anchor of the log, which has ", next.size));
    }
    ++next.size;
    next.leaf_hash = entry.record.leaf_hash;
    next.pending_from = entry.pending_from;
  }
  next.checkpoint = std::string(checkpoint);
  {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
    for (const AnchorEntry& entry : entries) LETHE_RETURN_IF_ERROR(Insert(entry));
    {
      LETHE_ASSIGN_OR_RETURN(Statement update,
                             database_->Prepare("UPDATE log SET checkpoint = ?1"));
      LETHE_RETURN_IF_ERROR(update.Blob(1, checkpoint).Run());
    }
    LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  head_ = std::move(next);
  // As in the tenant's own file, nothing is lost by a checkpoint that fails here.
  if (database_->wal_bytes() > kWalBytes) database_->CheckpointTruncate().IgnoreError();
  return absl::OkStatus();
}

absl::Status Anchor::RaiseHandles(uint64_t next_handle) {
  LETHE_RETURN_IF_ERROR(Health());
  if (next_handle <= head_.next_handle) return absl::OkStatus();
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const uint64_t raised = std::min(next_handle, kMost - kHandleBlock) + kHandleBlock;
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  {
    LETHE_ASSIGN_OR_RETURN(Statement update, database_->Prepare("UPDATE log SET next_handle = ?1"));
    LETHE_RETURN_IF_ERROR(update.Int(1, static_cast<int64_t>(raised)).Run());
  }
  LETHE_RETURN_IF_ERROR(transaction.Commit());
  head_.next_handle = raised;
  return absl::OkStatus();
}

absl::Status Anchor::RaiseCases(const CaseCounts& cases) {
  return SetCases({.requests = std::max(cases.requests, head_.cases.requests),
                   .holds = std::max(cases.holds, head_.cases.holds)});
}

absl::Status Anchor::SetCases(const CaseCounts& cases) {
  LETHE_RETURN_IF_ERROR(Health());
  if (cases == head_.cases) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  {
    LETHE_ASSIGN_OR_RETURN(Statement update,
                           database_->Prepare("UPDATE log SET requests = ?1, holds = ?2"));
    update.Int(1, ClampToInt64(cases.requests)).Int(2, ClampToInt64(cases.holds));
    LETHE_RETURN_IF_ERROR(update.Run());
  }
  LETHE_RETURN_IF_ERROR(transaction.Commit());
  head_.cases = cases;
  return absl::OkStatus();
}

absl::Status Anchor::PutEnded(const CaseRecord& record) {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement put,
        database_->Prepare("INSERT OR REPLACE INTO ended (id, number, state, due, wake, callback,"
                           " facts, personal) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
    put.Text(1, record.id).Int(2, ClampToInt64(record.number));
    put.Int(3, static_cast<int64_t>(record.state)).Int(4, record.due_micros);
    put.IntOrNull(5, record.wake_micros).IntOrNull(6, record.callback_micros);
    LETHE_RETURN_IF_ERROR(put.Blob(7, record.facts).Int(8, record.personal ? 1 : 0).Run());
  }
  return transaction.Commit();
}

absl::Status Anchor::DropEnded(std::span<const std::string> ids) {
  LETHE_RETURN_IF_ERROR(Health());
  if (ids.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
  {
    LETHE_ASSIGN_OR_RETURN(Statement drop, database_->Prepare("DELETE FROM ended WHERE id = ?1"));
    for (const std::string& id : ids) {
      LETHE_RETURN_IF_ERROR(drop.Text(1, id).Run());
      drop.Reset();
    }
  }
  return transaction.Commit();
}

absl::StatusOr<std::vector<CaseRecord>> Anchor::Ended() {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT id, number, state, due, wake, callback, facts,"
                                            " personal FROM ended"));
  std::vector<CaseRecord> ended;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return ended;
    CaseRecord& record = ended.emplace_back();
    record.id = std::string(select.ColumnText(0));
    record.number = static_cast<uint64_t>(select.ColumnInt(1));
    record.state = static_cast<CaseState>(select.ColumnInt(2));
    record.due_micros = select.ColumnInt(3);
    record.wake_micros = select.ColumnIntOrNull(4);
    record.callback_micros = select.ColumnIntOrNull(5);
    record.facts = std::string(select.ColumnBlob(6));
    record.personal = select.ColumnInt(7) != 0;
  }
}

absl::Status Anchor::Visit(uint64_t first,
                           absl::FunctionRef<absl::Status(AnchorEntry& entry)> visit) {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare(
          "SELECT sequence, id, kind, memory_uid, memory_name, create_time,"
          " leaf_hash, previous_leaf_hash, leaf, envelope, next_vkey, erased,"
          " slots, pending_from FROM entries WHERE sequence >= ?1 ORDER BY sequence"));
  select.Int(1, ClampToInt64(first));
  for (uint64_t next = first;; ++next) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) {
      if (next >= head_.size) return absl::OkStatus();
      return Lost(path(), absl::StrCat("entry ", next, " is missing"));
    }
    AnchorEntry entry;
    CertificateRecord& record = entry.record;
    record.sequence = static_cast<uint64_t>(select.ColumnInt(0));
    if (record.sequence != next) return Lost(path(), absl::StrCat("entry ", next, " is missing"));
    record.id = std::string(select.ColumnText(1));
    record.kind = std::string(select.ColumnText(2));
    record.memory_uid = std::string(select.ColumnText(3));
    record.memory_name = std::string(select.ColumnText(4));
    record.create_time_micros = select.ColumnInt(5);
    LETHE_ASSIGN_OR_RETURN(record.leaf_hash, ReadHash(select.ColumnBlob(6)));
    if (!select.ColumnIsNull(7)) {
      LETHE_ASSIGN_OR_RETURN(record.previous_leaf_hash, ReadHash(select.ColumnBlob(7)));
    }
    record.leaf = std::string(select.ColumnBlob(8));
    record.envelope = std::string(select.ColumnBlob(9));
    if (!select.ColumnIsNull(10)) entry.next_vkey = std::string(select.ColumnText(10));
    absl::StatusOr<ErasedTokens> erased = DecodeErased(select.ColumnBlob(11));
    absl::StatusOr<std::vector<uint64_t>> slots = GetIncreasing(select.ColumnBlob(12));
    if (!erased.ok() || !slots.ok()) {
      return Lost(path(), absl::StrCat("entry ", next, ": what it erased is not what was written"));
    }
    entry.erased = *std::move(erased);
    entry.slots = *std::move(slots);
    entry.pending_from = static_cast<uint64_t>(select.ColumnInt(13));
    LETHE_RETURN_IF_ERROR(visit(entry));
  }
}

}  // namespace lethe::store
