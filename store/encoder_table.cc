#include "store/encoder_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/schema.h"
#include "store/validation.h"
#include "store/vault/sealing.h"

namespace lethe::store {
namespace {

absl::StatusOr<std::vector<uint64_t>> ReadSlots(Database& database, absl::string_view sql) {
  std::vector<uint64_t> slots;
  LETHE_ASSIGN_OR_RETURN(const bool there, HasEncoders(database));
  if (!there) return slots;
  LETHE_ASSIGN_OR_RETURN(Statement select, database.Prepare(sql));
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return slots;
    slots.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
  }
}

}  // namespace

absl::Status EncoderTable::Create(const StoredMemory& memory,
                                  absl::string_view bytes,
                                  SlotTaker& taker) {
  LETHE_RETURN_IF_ERROR(MakeEncoders(*database_));
  LETHE_ASSIGN_OR_RETURN(const uint64_t slot, taker.Take());
  Nonces nonces(1);
  LETHE_ASSIGN_OR_RETURN(const std::string sealed,
                         sealer_.Seal(memory.record.uid, 0, slot, 0, nonces, bytes));
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO encoders (slot, memory, body) VALUES (?1, ?2, ?3)"));
  return insert.Int(1, ClampToInt64(slot)).Int(2, memory.key).Blob(3, sealed).Run();
}

absl::StatusOr<std::string> EncoderTable::Get(const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(const bool there, HasEncoders(*database_));
  if (!there) return absl::NotFoundError("memory: has no encoder");
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT slot, body FROM encoders WHERE memory = ?1"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Int(1, memory.key).Step());
  if (!row) return absl::NotFoundError("memory: has no encoder");
  absl::StatusOr<std::string> opened = sealer_.Open(
      memory.record.uid, 0, static_cast<uint64_t>(select.ColumnInt(0)), select.ColumnBlob(1));
  if (!absl::IsDataLoss(opened.status())) return opened;
  return absl::DataLossError(absl::StrCat(database_->path(), ": the encoder of memory '",
                                          memory.record.name, "': ", opened.status().message(),
                                          "; restore the file from a backup"));
}

absl::Status EncoderTable::End(const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(const bool there, HasEncoders(*database_));
  if (!there) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(
      Statement end,
      database_->Prepare("UPDATE encoders SET memory = NULL, body = NULL WHERE memory = ?1"));
  return end.Int(1, memory.key).Run();
}

absl::Status EncoderTable::EndAll() {
  LETHE_ASSIGN_OR_RETURN(const bool there, HasEncoders(*database_));
  return there ? database_->Execute("DELETE FROM encoders") : absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> EncoderTable::EndedSlots() {
  return ReadSlots(*database_, "SELECT slot FROM encoders WHERE memory IS NULL ORDER BY slot");
}

absl::StatusOr<std::vector<uint64_t>> EncoderTable::Slots(Database& database) {
  return ReadSlots(database, "SELECT slot FROM encoders ORDER BY slot");
}

absl::Status EncoderTable::Forget(std::span<const uint64_t> slots) {
  LETHE_ASSIGN_OR_RETURN(const bool there, HasEncoders(*database_));
  if (!there) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(
      Statement forget,
      database_->Prepare("DELETE FROM encoders WHERE slot = ?1 AND memory IS NULL"));
  for (const uint64_t slot : slots) {
    LETHE_RETURN_IF_ERROR(forget.Int(1, ClampToInt64(slot)).Run());
    forget.Reset();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredMemory>> EncoderTable::RemoveUnder(
    absl::FunctionRef<bool(uint64_t slot)> gone) {
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots, Slots(*database_));
  std::vector<StoredMemory> memories;
  if (slots.empty()) return memories;
  LETHE_ASSIGN_OR_RETURN(
      Statement find,
      database_->Prepare("SELECT uid FROM memories JOIN encoders ON encoders.memory = memories.key"
                         " WHERE slot = ?1"));
  LETHE_ASSIGN_OR_RETURN(Statement remove,
                         database_->Prepare("DELETE FROM encoders WHERE slot = ?1"));
  for (const uint64_t slot : slots) {
    if (!gone(slot)) continue;
    LETHE_ASSIGN_OR_RETURN(const bool row, find.Int(1, ClampToInt64(slot)).Step());
    if (row) {
      LETHE_ASSIGN_OR_RETURN(StoredMemory memory,
                             MemoryTable(database_).Find("uid", find.ColumnText(0)));
      memories.push_back(std::move(memory));
    }
    find.Reset();
    LETHE_RETURN_IF_ERROR(remove.Int(1, ClampToInt64(slot)).Run());
    remove.Reset();
  }
  return memories;
}

}  // namespace lethe::store
