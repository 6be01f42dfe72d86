#include "store/memory_table.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

// Over the columns of a memory that never change.
Bytes32 MemoryRowCheck(const MemoryRecord& memory) {
  return audit::Sha256(absl::StrCat(absl::string_view("lethe-memory-row\0", 17), memory.uid,
                                    memory.create_time_micros, ",", memory.name.size(), ",",
                                    memory.name, memory.config));
}

absl::StatusOr<StoredMemory> ReadMemory(const Database& database, const Statement& row) {
  StoredMemory memory;
  memory.key = row.ColumnInt(0);
  MemoryRecord& record = memory.record;
  record.uid = std::string(row.ColumnText(1));
  record.name = std::string(row.ColumnText(2));
  record.config = std::string(row.ColumnBlob(3));
  record.create_time_micros = row.ColumnInt(4);
  record.next_handle = static_cast<uint64_t>(row.ColumnInt(6));
  if (row.ColumnBlob(5) != audit::AsBytes(MemoryRowCheck(record))) {
    return absl::DataLossError(
        absl::StrCat(database.path(), ": table memories, row ", row.ColumnInt(0),
                     ": does not match its check value; restore the file from a backup"));
  }
  return memory;
}

constexpr absl::string_view kSelectMemory =
    "SELECT key, uid, name, config, create_time, row_check, next_handle FROM memories WHERE ";

}  // namespace

absl::Status MemoryTable::Create(const MemoryRecord& memory) {
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO memories (uid, name, config, create_time, row_check,"
                         " next_handle) VALUES (?1, ?2, ?3, ?4, ?5, 1)"));
  insert.Text(1, memory.uid).Text(2, memory.name).Blob(3, memory.config);
  insert.Int(4, memory.create_time_micros).Blob(5, audit::AsBytes(MemoryRowCheck(memory)));
  absl::Status status = insert.Run();
  if (absl::IsAlreadyExists(status)) {
    return absl::AlreadyExistsError("memory.name: a memory with this name or uid exists");
  }
  return status;
}

absl::StatusOr<StoredMemory> MemoryTable::Find(absl::string_view column, absl::string_view value) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare(absl::StrCat(kSelectMemory, column, " = ?1")));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Text(1, value).Step());
  if (!row) return absl::NotFoundError(absl::StrCat("no memory with this ", column));
  return ReadMemory(*database_, select);
}

absl::StatusOr<std::vector<StoredMemory>> MemoryTable::List(absl::string_view after_name,
                                                            uint32_t limit) {
  LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare(absl::StrCat(
                                               kSelectMemory, "name > ?1 ORDER BY name LIMIT ?2")));
  select.Text(1, after_name).Int(2, limit);
  std::vector<StoredMemory> memories;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return memories;
    LETHE_ASSIGN_OR_RETURN(StoredMemory memory, ReadMemory(*database_, select));
    memories.push_back(std::move(memory));
  }
}

absl::StatusOr<uint64_t> MemoryTable::Count() {
  LETHE_ASSIGN_OR_RETURN(const int64_t count, database_->QueryInt("SELECT count(*) FROM memories"));
  return static_cast<uint64_t>(count);
}

absl::Status MemoryTable::SetNextHandle(const StoredMemory& memory, uint64_t next_handle) {
  LETHE_ASSIGN_OR_RETURN(Statement advance,
                         database_->Prepare("UPDATE memories SET next_handle = ?2 WHERE key = ?1"));
  return advance.Int(1, memory.key).Int(2, ClampToInt64(next_handle)).Run();
}

absl::Status MemoryTable::RaiseNextHandles(uint64_t next_handle) {
  LETHE_ASSIGN_OR_RETURN(
      Statement raise,
      database_->Prepare("UPDATE memories SET next_handle = ?1 WHERE next_handle < ?1"));
  return raise.Int(1, ClampToInt64(next_handle)).Run();
}

absl::StatusOr<uint64_t> MemoryTable::LargestNextHandle() {
  LETHE_ASSIGN_OR_RETURN(const int64_t largest,
                         database_->QueryInt("SELECT coalesce(max(next_handle), 1) FROM memories"));
  return static_cast<uint64_t>(largest);
}

absl::Status MemoryTable::Remove(const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(Statement remove,
                         database_->Prepare("DELETE FROM memories WHERE key = ?1"));
  return remove.Int(1, memory.key).Run();
}

}  // namespace lethe::store
