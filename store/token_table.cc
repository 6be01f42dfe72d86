#include "store/token_table.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/work_ahead.h"
#include "store/validation.h"
#include "store/vault/sealing.h"

namespace lethe::store {
namespace {

// Rows whose keys are brought into the cache together; it holds more.
constexpr size_t kKeysAtOnce = 1000;
// Of a batch. Small, since nothing is inserted before the first part is sealed; making keys takes a
// while now and then, so that several wait meanwhile.
constexpr size_t kSealedAtOnce = 250;
constexpr size_t kPartsAhead = 8;
constexpr size_t kReadBytes = size_t{1} << 20;  // of their bodies, but for the last one
constexpr uint64_t kMaxHandle = std::numeric_limits<int64_t>::max();

// The columns that Decode takes.
constexpr absl::string_view kSelectRow =
    "SELECT handle, id_key, subject_key, slot, body FROM tokens WHERE memory = ?1 AND handle = ?2";

std::string RowField(size_t index, absl::string_view field) {
  return absl::StrCat("tokens[", index, "].", field);
}

// Only the fields whose size the encoder must not be surprised by; the encoded row is bounded
// after.
absl::Status ValidateRow(size_t index, const TokenRow& row, uint64_t least_handle) {
  if (row.handle < least_handle || row.handle >= kMaxHandle) {
    return absl::InvalidArgumentError(absl::StrCat(
        RowField(index, "handle"), ": ", row.handle, ", must be at least ", least_handle,
        " here and below 2^63 - 1: handles increase and are never used twice"));
  }
  const auto check = [index](absl::string_view field, const std::string& value, size_t least,
                             size_t most) {
    const bool good = value.size() >= least && value.size() <= most;
    return good ? absl::OkStatus() : CheckLength(RowField(index, field), value, least, most);
  };
  LETHE_RETURN_IF_ERROR(check("id", row.id, 1, kMaxIdBytes));
  LETHE_RETURN_IF_ERROR(check("subject", row.subject, 0, kMaxIdBytes));
  LETHE_RETURN_IF_ERROR(check("payload", row.payload, 0, kMaxRowBytes));
  LETHE_RETURN_IF_ERROR(check("labels", row.labels, 0, kMaxRowBytes));
  const size_t coordinates = kMaxRowBytes / sizeof(double);
  if (row.key.size() > coordinates || row.value.size() > coordinates) {
    return absl::InvalidArgumentError(absl::StrCat(
        RowField(index, row.key.size() > coordinates ? "key" : "value"), ": too long to store"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ReadHandles(Statement& select) {
  std::vector<uint64_t> handles;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return handles;
    handles.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
  }
}

}  // namespace

absl::StatusOr<uint64_t> TokenTable::SlotOfSubject(const StoredMemory& memory,
                                                   const IndexHash& subject_key,
                                                   SlotTaker& taker) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT slot FROM tokens WHERE memory = ?1 AND"
                                            " subject_key = ?2 LIMIT 1"));
  select.Int(1, memory.key).Blob(2, audit::AsBytes(subject_key));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (row) return static_cast<uint64_t>(select.ColumnInt(0));
  return taker.Take();
}

absl::Status TokenTable::Insert(const StoredMemory& memory,
                                std::span<const TokenRow> rows,
                                SlotTaker& taker) {
  LETHE_ASSIGN_OR_RETURN(
      const int64_t buried,
      CountWhere("SELECT EXISTS (SELECT 1 FROM tombstones WHERE memory = ?1)", memory));
  LETHE_ASSIGN_OR_RETURN(const std::vector<SubjectKey> subjects, FindSubjects(memory, rows, taker));
  // Sealing needs the file of keys and no other, inserting this file and no other, and they take
  // about as long: so a large batch is sealed on another thread while it is inserted.
  size_t sealed = 0;
  const auto seal = [&] {
    const size_t from = std::exchange(sealed, std::min(rows.size(), sealed + kSealedAtOnce));
    return SealPart(memory, rows.subspan(from, sealed - from), from, subjects, taker);
  };
  const size_t parts = (rows.size() + kSealedAtOnce - 1) / kSealedAtOnce;
  std::optional<WorkAhead<absl::StatusOr<std::vector<SealedRow>>>> ahead;
  if (parts > 1) ahead.emplace(parts, kPartsAhead, seal);
  for (size_t from = 0; from < rows.size();) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<SealedRow> part,
                           ahead.has_value() ? ahead->Take() : seal());
    LETHE_RETURN_IF_ERROR(InsertPart(memory, part, from, buried != 0));
    from += part.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenTable::SubjectKey>> TokenTable::FindSubjects(
    const StoredMemory& memory,
    std::span<const TokenRow> rows,
    SlotTaker& taker) {
  std::vector<SubjectKey> subjects(rows.size());
  std::map<IndexHash, uint64_t> slots;
  uint64_t least_handle = memory.record.next_handle;
  for (size_t i = 0; i < rows.size(); ++i) {
    LETHE_RETURN_IF_ERROR(ValidateRow(i, rows[i], least_handle));
    least_handle = rows[i].handle + 1;
    if (rows[i].subject.empty()) continue;
    subjects[i].hash = index_.ForSubject(memory.record.uid, rows[i].subject);
    const auto [place, is_new] = slots.try_emplace(subjects[i].hash, 0);
    if (is_new) {
      LETHE_ASSIGN_OR_RETURN(place->second, SlotOfSubject(memory, subjects[i].hash, taker));
    }
    subjects[i].slot = place->second;
  }
  return subjects;
}

absl::StatusOr<std::vector<TokenTable::SealedRow>> TokenTable::SealPart(
    const StoredMemory& memory,
    std::span<const TokenRow> rows,
    size_t first_index,
    std::span<const SubjectKey> subjects,
    SlotTaker& taker) {
  std::vector<SealedRow> sealed(rows.size());
  std::vector<uint64_t> slots;  // of subjects; keys that are taken here are in the cache
  for (size_t i = 0; i < rows.size(); ++i) {
    SealedRow& row = sealed[i];
    row.handle = rows[i].handle;
    row.id = index_.ForId(memory.record.uid, rows[i].id);
    if (rows[i].subject.empty()) {
      LETHE_ASSIGN_OR_RETURN(row.slot, taker.Take());
    } else {
      row.subject = subjects[first_index + i].hash;
      row.slot = subjects[first_index + i].slot;
      slots.push_back(row.slot);
    }
  }
  LETHE_RETURN_IF_ERROR(sealer_.Prefetch(slots));
  Nonces nonces(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string plaintext = EncodeToken(rows[i]);
    if (plaintext.size() > kMaxRowBytes - kSealedRowOverhead) {
      return CheckLength(absl::StrCat("tokens[", first_index + i, "]"), plaintext, 1,
                         kMaxRowBytes - kSealedRowOverhead);
    }
    LETHE_ASSIGN_OR_RETURN(sealed[i].body,
                           sealer_.Seal(memory.record.uid, sealed[i].handle, sealed[i].slot,
                                        taker.prior_seals(), nonces, plaintext));
    // No other row is under it, and those that wait for theirs would be pushed out.
    if (rows[i].subject.empty()) sealer_.Release(sealed[i].slot);
  }
  return sealed;
}

absl::Status TokenTable::InsertPart(const StoredMemory& memory,
                                    std::span<const SealedRow> rows,
                                    size_t first_index,
                                    bool buried) {
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO tokens (memory, handle, id_key, subject_key, slot, body)"
                         " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
  LETHE_ASSIGN_OR_RETURN(
      Statement revive,
      database_->Prepare("DELETE FROM tombstones WHERE memory = ?1 AND id_key = ?2"));
  for (size_t i = 0; i < rows.size(); ++i) {
    const SealedRow& row = rows[i];
    insert.Int(1, memory.key).Int(2, static_cast<int64_t>(row.handle));
    insert.Blob(3, audit::AsBytes(row.id)).Int(5, ClampToInt64(row.slot));
    if (row.subject.has_value()) {
      insert.Blob(4, audit::AsBytes(*row.subject));
    } else {
      insert.Null(4);
    }
    absl::Status status = insert.Blob(6, row.body).Run();
    if (absl::IsAlreadyExists(status)) {
      return absl::AlreadyExistsError(absl::StrCat(
          RowField(first_index + i, "id"), ": already in this memory, or twice in this batch"));
    }
    LETHE_RETURN_IF_ERROR(status);
    if (!buried) continue;
    revive.Int(1, memory.key).Blob(2, audit::AsBytes(row.id));
    LETHE_RETURN_IF_ERROR(revive.Run());
  }
  return absl::OkStatus();
}

class TokenTable::Eraser {
 public:
  static absl::StatusOr<Eraser> Begin(Database* database, const StoredMemory& memory) {
    LETHE_ASSIGN_OR_RETURN(Statement erase,
                           database->Prepare("DELETE FROM tokens WHERE memory = ?1 AND handle = ?2"
                                             " RETURNING id_key, subject_key, slot"));
    LETHE_ASSIGN_OR_RETURN(
        Statement bury,
        database->Prepare("INSERT OR REPLACE INTO tombstones (memory, id_key) VALUES (?1, ?2)"));
    return Eraser(memory.key, std::move(erase), std::move(bury));
  }

  // Nothing when the row is not there.
  absl::StatusOr<std::optional<ErasedRow>> Erase(uint64_t handle) {
    std::optional<ErasedRow> erased;
    erase_.Reset();
    erase_.Int(1, memory_).Int(2, ClampToInt64(handle));
    LETHE_ASSIGN_OR_RETURN(const bool row, erase_.Step());
    if (!row) return erased;
    bury_.Int(1, memory_).Blob(2, erase_.ColumnBlob(0));
    erased.emplace();
    if (!erase_.ColumnIsNull(1)) erased->subject_key = std::string(erase_.ColumnBlob(1));
    erased->slot = static_cast<uint64_t>(erase_.ColumnInt(2));
    LETHE_ASSIGN_OR_RETURN(const bool another, erase_.Step());  // to its end, as Reset may undo
    LETHE_CHECK(!another);                                      // handles are unique
    LETHE_RETURN_IF_ERROR(bury_.Run());
    return erased;
  }

 private:
  Eraser(int64_t memory, Statement erase, Statement bury)
      : memory_(memory), erase_(std::move(erase)), bury_(std::move(bury)) {}
  int64_t memory_;
  Statement erase_;
  Statement bury_;
};

absl::StatusOr<std::vector<uint64_t>> TokenTable::Erase(const StoredMemory& memory,
                                                        std::span<const uint64_t> handles,
                                                        SlotTaker& taker) {
  std::set<uint64_t> slots;
  std::set<std::string> subjects;
  {
    LETHE_ASSIGN_OR_RETURN(Eraser eraser, Eraser::Begin(database_, memory));
    for (size_t i = 0; i < handles.size(); ++i) {
      LETHE_ASSIGN_OR_RETURN(std::optional<ErasedRow> row, eraser.Erase(handles[i]));
      if (!row.has_value()) {
        return absl::NotFoundError(absl::StrCat("handles[", i, "]: ", handles[i],
                                                " is not in this memory, or named twice"));
      }
      if (row->subject_key.has_value()) subjects.insert(*std::move(row->subject_key));
      slots.insert(row->slot);
    }
  }
  for (const std::string& subject_key : subjects) {
    LETHE_RETURN_IF_ERROR(SealAnew(memory, subject_key, taker));
  }
  return std::vector<uint64_t>(slots.begin(), slots.end());
}

absl::StatusOr<uint64_t> TokenTable::EraseAgain(const StoredMemory& memory,
                                                std::span<const uint64_t> handles) {
  uint64_t erased = 0;
  LETHE_ASSIGN_OR_RETURN(Eraser eraser, Eraser::Begin(database_, memory));
  for (const uint64_t handle : handles) {
    LETHE_ASSIGN_OR_RETURN(const std::optional<ErasedRow> row, eraser.Erase(handle));
    if (row.has_value()) ++erased;
  }
  return erased;
}

absl::StatusOr<uint64_t> TokenTable::RemoveUnder(absl::FunctionRef<bool(uint64_t slot)> gone) {
  std::vector<int64_t> rows;
  {
    LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare("SELECT rowid, slot FROM tokens"));
    while (true) {
      LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
      if (!row) break;
      if (gone(static_cast<uint64_t>(select.ColumnInt(1)))) rows.push_back(select.ColumnInt(0));
    }
  }
  LETHE_ASSIGN_OR_RETURN(Statement remove,
                         database_->Prepare("DELETE FROM tokens WHERE rowid = ?1"));
  for (const int64_t row : rows) LETHE_RETURN_IF_ERROR(remove.Int(1, row).Run());
  return rows.size();
}

absl::Status TokenTable::SealAnew(const StoredMemory& memory,
                                  absl::string_view subject_key,
                                  SlotTaker& taker) {
  std::vector<uint64_t> handles;
  {
    LETHE_ASSIGN_OR_RETURN(Statement select,
                           database_->Prepare("SELECT handle FROM tokens WHERE memory = ?1 AND"
                                              " subject_key = ?2 ORDER BY handle"));
    LETHE_ASSIGN_OR_RETURN(handles, ReadHandles(select.Int(1, memory.key).Blob(2, subject_key)));
  }
  if (handles.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(const uint64_t slot, taker.Take());
  LETHE_ASSIGN_OR_RETURN(Statement read, database_->Prepare(kSelectRow));
  LETHE_ASSIGN_OR_RETURN(Statement write,
                         database_->Prepare("UPDATE tokens SET slot = ?3, body = ?4"
                                            " WHERE memory = ?1 AND handle = ?2"));
  Nonces nonces(handles.size());
  for (uint64_t handle : handles) {
    read.Reset();
    read.Int(1, memory.key).Int(2, ClampToInt64(handle));
    LETHE_ASSIGN_OR_RETURN(const bool row, read.Step());
    LETHE_CHECK(row);
    LETHE_ASSIGN_OR_RETURN(const std::string plaintext, Open(memory, Read(read)));
    LETHE_ASSIGN_OR_RETURN(
        const std::string body,
        sealer_.Seal(memory.record.uid, handle, slot, taker.prior_seals(), nonces, plaintext));
    write.Int(1, memory.key).Int(2, ClampToInt64(handle)).Int(3, ClampToInt64(slot));
    LETHE_RETURN_IF_ERROR(write.Blob(4, body).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenTable::ErasedMemory> TokenTable::EraseMemory(const StoredMemory& memory) {
  ErasedMemory erased;
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement tokens,
        database_->Prepare("DELETE FROM tokens WHERE memory = ?1 RETURNING slot"));
    tokens.Int(1, memory.key);
    while (true) {
      LETHE_ASSIGN_OR_RETURN(const bool row, tokens.Step());
      if (!row) break;
      ++erased.rows;
      erased.slots.push_back(static_cast<uint64_t>(tokens.ColumnInt(0)));
    }
  }
  std::sort(erased.slots.begin(), erased.slots.end());
  erased.slots.erase(std::unique(erased.slots.begin(), erased.slots.end()), erased.slots.end());
  LETHE_ASSIGN_OR_RETURN(Statement tombstones,
                         database_->Prepare("DELETE FROM tombstones WHERE memory = ?1"));
  LETHE_RETURN_IF_ERROR(tombstones.Int(1, memory.key).Run());
  return erased;
}

absl::StatusOr<int64_t> TokenTable::CountWhere(absl::string_view sql, const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(Statement count, database_->Prepare(sql));
  count.Int(1, memory.key);
  LETHE_RETURN_IF_ERROR(count.Step().status());
  return count.ColumnInt(0);
}

absl::StatusOr<uint64_t> TokenTable::CountTokens(const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(const int64_t count,
                         CountWhere("SELECT count(*) FROM tokens WHERE memory = ?1", memory));
  return static_cast<uint64_t>(count);
}

absl::StatusOr<MemoryCounts> TokenTable::Count(const StoredMemory& memory) {
  MemoryCounts counts;
  LETHE_ASSIGN_OR_RETURN(counts.tokens, CountTokens(memory));
  LETHE_ASSIGN_OR_RETURN(const int64_t subjects,
                         CountWhere("SELECT count(DISTINCT subject_key) FROM tokens"
                                    " WHERE memory = ?1 AND subject_key IS NOT NULL",
                                    memory));
  LETHE_ASSIGN_OR_RETURN(const int64_t tombstones,
                         CountWhere("SELECT count(*) FROM tombstones WHERE memory = ?1", memory));
  counts.subjects = static_cast<uint64_t>(subjects);
  counts.tombstones = static_cast<uint64_t>(tombstones);
  return counts;
}

absl::StatusOr<std::vector<IdLookup>> TokenTable::FindByIds(const StoredMemory& memory,
                                                            std::span<const std::string> ids) {
  LETHE_ASSIGN_OR_RETURN(
      Statement live,
      database_->Prepare("SELECT handle FROM tokens WHERE memory = ?1 AND id_key = ?2"));
  LETHE_ASSIGN_OR_RETURN(
      Statement erased,
      database_->Prepare("SELECT 1 FROM tombstones WHERE memory = ?1 AND id_key = ?2"));
  std::vector<IdLookup> lookups;
  lookups.reserve(ids.size());
  for (const std::string& id : ids) {
    const IndexHash id_key = index_.ForId(memory.record.uid, id);
    live.Reset();
    live.Int(1, memory.key).Blob(2, audit::AsBytes(id_key));
    LETHE_ASSIGN_OR_RETURN(const bool is_live, live.Step());
    if (is_live) {
      lookups.push_back({IdState::kLive, static_cast<uint64_t>(live.ColumnInt(0))});
      continue;
    }
    erased.Reset();
    erased.Int(1, memory.key).Blob(2, audit::AsBytes(id_key));
    LETHE_ASSIGN_OR_RETURN(const bool is_erased, erased.Step());
    lookups.push_back({is_erased ? IdState::kErased : IdState::kUnknown, 0});
  }
  return lookups;
}

absl::StatusOr<std::vector<uint64_t>> TokenTable::FindBySubject(const StoredMemory& memory,
                                                                absl::string_view subject) {
  LETHE_RETURN_IF_ERROR(CheckLength("subject", subject, 1, kMaxIdBytes));
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT handle FROM tokens WHERE memory = ?1 AND"
                                            " subject_key = ?2 ORDER BY handle"));
  return ReadHandles(select.Int(1, memory.key)
                         .Blob(2, audit::AsBytes(index_.ForSubject(memory.record.uid, subject))));
}

absl::Status TokenTable::Damaged(const StoredMemory& memory,
                                 uint64_t handle,
                                 absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(database_->path(), ": memory ", memory.record.uid,
                                          ", handle ", handle, ": ", what));
}

TokenTable::StoredRow TokenTable::Read(const Statement& row) {
  StoredRow read;
  read.handle = static_cast<uint64_t>(row.ColumnInt(0));
  read.id_key = std::string(row.ColumnBlob(1));
  if (!row.ColumnIsNull(2)) read.subject_key = std::string(row.ColumnBlob(2));
  read.slot = static_cast<uint64_t>(row.ColumnInt(3));
  read.body = std::string(row.ColumnBlob(4));
  return read;
}

absl::StatusOr<std::string> TokenTable::Open(const StoredMemory& memory, const StoredRow& row) {
  absl::StatusOr<std::string> plaintext =
      sealer_.Open(memory.record.uid, row.handle, row.slot, row.body);
  if (absl::IsDataLoss(plaintext.status())) {
    return Damaged(memory, row.handle, plaintext.status().message());
  }
  return plaintext;
}

absl::StatusOr<TokenRow> TokenTable::Decode(const StoredMemory& memory, const StoredRow& row) {
  LETHE_ASSIGN_OR_RETURN(const std::string plaintext, Open(memory, row));
  absl::StatusOr<TokenRow> token = DecodeToken(row.handle, plaintext);
  if (!token.ok()) return Damaged(memory, row.handle, token.status().message());
  const std::string& uid = memory.record.uid;
  if (row.id_key != audit::AsBytes(index_.ForId(uid, token->id))) {
    return Damaged(memory, row.handle, "the indexed hash of the id does not match the row");
  }
  if (row.subject_key.has_value() == token->subject.empty() ||
      (!token->subject.empty() &&
       *row.subject_key != audit::AsBytes(index_.ForSubject(uid, token->subject)))) {
    return Damaged(memory, row.handle, "the indexed hash of the subject does not match the row");
  }
  return token;
}

absl::StatusOr<std::vector<TokenRow>> TokenTable::Get(const StoredMemory& memory,
                                                      std::span<const uint64_t> handles) {
  LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare(kSelectRow));
  std::vector<TokenRow> rows;
  rows.reserve(handles.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    select.Reset();
    select.Int(1, memory.key).Int(2, ClampToInt64(handles[i]));
    LETHE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) {
      return absl::NotFoundError(
          absl::StrCat("handles[", i, "]: ", handles[i], " is not in this memory"));
    }
    LETHE_ASSIGN_OR_RETURN(TokenRow row, Decode(memory, Read(select)));
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::Status TokenTable::Load(const StoredMemory& memory,
                              absl::FunctionRef<absl::Status(TokenRow&)> visit) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT handle, id_key, subject_key, slot, body FROM tokens"
                         " WHERE memory = ?1 ORDER BY handle"));
  select.Int(1, memory.key);
  std::vector<StoredRow> rows;
  std::vector<uint64_t> slots;
  uint64_t loaded = 0;
  for (bool more = true; more;) {
    rows.clear();
    slots.clear();
    size_t bytes = 0;
    while (rows.size() < kKeysAtOnce && bytes < kReadBytes) {
      LETHE_ASSIGN_OR_RETURN(more, select.Step());
      if (!more) break;
      const StoredRow& row = rows.emplace_back(Read(select));
      slots.push_back(row.slot);
      bytes += row.body.size();
    }
    if (rows.empty()) break;
    LETHE_RETURN_IF_ERROR(sealer_.Prefetch(slots));
    for (const StoredRow& row : rows) {
      LETHE_ASSIGN_OR_RETURN(TokenRow token, Decode(memory, row));
      LETHE_RETURN_IF_ERROR(visit(token));
    }
    loaded += rows.size();
  }
  // Whoever goes by an index does not see what it has lost. The rows were found by one, so they are
  // counted by another, which a damaged page cannot have shared.
  LETHE_ASSIGN_OR_RETURN(
      const int64_t count,
      CountWhere("SELECT count(*) FROM tokens INDEXED BY tokens_by_id WHERE memory = ?1", memory));
  if (loaded == static_cast<uint64_t>(count)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      database_->path(), ": memory ", memory.record.uid, ": ", loaded, " tokens by their handles, ",
      count, " by their ids: an index of the table is damaged; restore the file from a backup"));
}

}  // namespace lethe::store
