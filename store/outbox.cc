#include "store/outbox.h"

#include <string>

#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/vault/bytes.h"

namespace lethe::store {
namespace {

void AddSlots(absl::string_view bytes, std::vector<uint64_t>& slots) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    slots.push_back(GetLittleEndian<uint64_t>(bytes, at));
  }
}

}  // namespace

absl::Status Outbox::Add(uint64_t sequence,
                         std::span<const uint64_t> slots,
                         const ErasedTokens& erased) {
  if (slots.empty()) return absl::OkStatus();
  std::string bytes;
  bytes.reserve(slots.size() * sizeof(uint64_t));
  for (uint64_t slot : slots) PutLittleEndian(bytes, slot);
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO outbox (sequence, slots, erased) VALUES (?1, ?2, ?3)"));
  insert.Int(1, ClampToInt64(sequence)).Blob(2, bytes).Blob(3, EncodeErased(erased));
  return insert.Run();
}

absl::Status Outbox::Complete(AnchorEntry& entry) {
  const CertificateRecord& record = entry.record;
  entry.pending_from = record.sequence + 1;
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement oldest,
        database_->Prepare("SELECT sequence FROM outbox ORDER BY sequence LIMIT 1"));
    LETHE_ASSIGN_OR_RETURN(const bool row, oldest.Step());
    if (row) entry.pending_from = static_cast<uint64_t>(oldest.ColumnInt(0));
  }
  LETHE_ASSIGN_OR_RETURN(
      Statement select, database_->Prepare("SELECT slots, erased FROM outbox WHERE sequence = ?1"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Int(1, ClampToInt64(record.sequence)).Step());
  if (row) {
    AddSlots(select.ColumnBlob(0), entry.slots);
    LETHE_ASSIGN_OR_RETURN(entry.erased, DecodeErased(select.ColumnBlob(1)));
    return absl::OkStatus();
  }
  if (record.memory_uid.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Statement memory,
                         database_->Prepare("SELECT 1 FROM memories WHERE uid = ?1"));
  LETHE_ASSIGN_OR_RETURN(const bool there, memory.Text(1, record.memory_uid).Step());
  if (!there) entry.erased = {record.memory_uid, true, {}};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PendingErasure>> Outbox::List() {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT sequence, length(slots) FROM outbox ORDER BY sequence LIMIT ?1"));
  select.Int(1, kMaxPageSize);
  std::vector<PendingErasure> pending;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return pending;
    pending.push_back({static_cast<uint64_t>(select.ColumnInt(0)),
                       static_cast<uint64_t>(select.ColumnInt(1)) / sizeof(uint64_t)});
  }
}

absl::StatusOr<std::vector<uint64_t>> Outbox::Slots(uint64_t through_sequence) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT slots FROM outbox WHERE sequence <= ?1 ORDER BY sequence"));
  select.Int(1, ClampToInt64(through_sequence));
  std::vector<uint64_t> slots;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return slots;
    AddSlots(select.ColumnBlob(0), slots);
  }
}

absl::StatusOr<uint64_t> Outbox::Remove(uint64_t through_sequence) {
  LETHE_ASSIGN_OR_RETURN(Statement remove,
                         database_->Prepare("DELETE FROM outbox WHERE sequence <= ?1"));
  LETHE_RETURN_IF_ERROR(remove.Int(1, ClampToInt64(through_sequence)).Run());
  return static_cast<uint64_t>(database_->Changes());
}

}  // namespace lethe::store
