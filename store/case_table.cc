#include "store/case_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

// The columns of ReadRecord.
constexpr absl::string_view kColumns =
    "SELECT number, id, kind, state, received, due, wake, callback, facts, personal IS NOT NULL"
    " FROM cases ";

CaseRecord ReadRecord(const Statement& row) {
  return {.number = static_cast<uint64_t>(row.ColumnInt(0)),
          .id = std::string(row.ColumnText(1)),
          .kind = static_cast<CaseKind>(row.ColumnInt(2)),
          .state = static_cast<CaseState>(row.ColumnInt(3)),
          .received_micros = row.ColumnInt(4),
          .due_micros = row.ColumnInt(5),
          .wake_micros = row.ColumnIntOrNull(6),
          .callback_micros = row.ColumnIntOrNull(7),
          .facts = std::string(row.ColumnBlob(8)),
          .personal = row.ColumnInt(9) != 0};
}

absl::Status CheckRecord(const CaseRecord& record) {
  LETHE_RETURN_IF_ERROR(CheckHex("case.id", record.id, 32));
  return CheckLength("case.facts", record.facts, 0, kMaxBlobBytes);
}

absl::Status NoSuchCase() { return absl::NotFoundError("case: there is none of this id"); }

}  // namespace

absl::StatusOr<CaseCounts> CaseTable::Count(Database& database) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare("SELECT count(*) FILTER (WHERE kind = 1), count(*) FILTER (WHERE kind = 2)"
                       " FROM cases"));
  LETHE_RETURN_IF_ERROR(select.Step().status());
  return CaseCounts{.requests = static_cast<uint64_t>(select.ColumnInt(0)),
                    .holds = static_cast<uint64_t>(select.ColumnInt(1))};
}

absl::StatusOr<CaseRecord> CaseTable::Create(const CaseCreation& creation, SlotTaker& taker) {
  CaseRecord record = creation.record;
  LETHE_RETURN_IF_ERROR(CheckRecord(record));
  LETHE_RETURN_IF_ERROR(CheckLength("personal", creation.personal, 1, kMaxCaseBytes));
  const bool hold = record.kind == CaseKind::kHold;
  LETHE_RETURN_IF_ERROR(
      CheckLength("subject", creation.subject, hold ? 1 : 0, hold ? kMaxIdBytes : 0));
  LETHE_ASSIGN_OR_RETURN(const uint64_t slot, taker.Take());
  Nonces nonces(1);
  LETHE_ASSIGN_OR_RETURN(const std::string sealed,
                         sealer_.Seal(record.id, 0, slot, 0, nonces, creation.personal));
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO cases (id, kind, state, received, due, wake, callback,"
                         " subject_key, facts, slot, seals, personal)"
                         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, ?11)"));
  insert.Text(1, record.id).Int(2, static_cast<int64_t>(record.kind));
  insert.Int(3, static_cast<int64_t>(record.state)).Int(4, record.received_micros);
  insert.Int(5, record.due_micros).IntOrNull(6, record.wake_micros);
  insert.IntOrNull(7, record.callback_micros);
  if (hold) {
    insert.Blob(8, audit::AsBytes(HoldKeyOf(creation.subject)));
  } else {
    insert.Null(8);
  }
  insert.Blob(9, record.facts).Int(10, ClampToInt64(slot)).Blob(11, sealed);
  const absl::Status status = insert.Run();
  if (absl::IsAlreadyExists(status)) return absl::AlreadyExistsError("case.id: is taken");
  LETHE_RETURN_IF_ERROR(status);
  LETHE_ASSIGN_OR_RETURN(const int64_t number, database_->QueryInt("SELECT last_insert_rowid()"));
  record.number = static_cast<uint64_t>(number);
  record.personal = true;
  return record;
}

absl::Status CaseTable::Update(const CaseUpdate& update) {
  const CaseRecord& record = update.record;
  LETHE_RETURN_IF_ERROR(CheckRecord(record));
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement change,
        database_->Prepare("UPDATE cases SET state = ?2, due = ?3, wake = ?4, callback = ?5,"
                           " facts = ?6 WHERE id = ?1"));
    change.Text(1, record.id).Int(2, static_cast<int64_t>(record.state));
    change.Int(3, record.due_micros).Blob(6, record.facts);
    change.IntOrNull(4, record.wake_micros).IntOrNull(5, record.callback_micros);
    LETHE_RETURN_IF_ERROR(change.Run());
    if (database_->Changes() == 0) return NoSuchCase();
  }
  if (update.end_personal) {
    LETHE_ASSIGN_OR_RETURN(
        Statement end,
        database_->Prepare("UPDATE cases SET personal = NULL, subject_key = NULL WHERE id = ?1"));
    return end.Text(1, record.id).Run();
  }
  if (!update.personal.has_value()) return absl::OkStatus();
  LETHE_RETURN_IF_ERROR(CheckLength("personal", *update.personal, 1, kMaxCaseBytes));
  uint64_t slot = 0;
  uint64_t seals = 0;
  {
    LETHE_ASSIGN_OR_RETURN(Statement select,
                           database_->Prepare("SELECT slot, seals FROM cases WHERE id = ?1 AND"
                                              " personal IS NOT NULL"));
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Text(1, record.id).Step());
    if (!row) return absl::FailedPreconditionError("personal: has ended");
    slot = static_cast<uint64_t>(select.ColumnInt(0));
    seals = static_cast<uint64_t>(select.ColumnInt(1));
  }
  Nonces nonces(1);
  LETHE_ASSIGN_OR_RETURN(const std::string sealed,
                         sealer_.Seal(record.id, 0, slot, seals, nonces, *update.personal));
  LETHE_ASSIGN_OR_RETURN(
      Statement write,
      database_->Prepare("UPDATE cases SET personal = ?2, seals = seals + 1 WHERE id = ?1"));
  return write.Text(1, record.id).Blob(2, sealed).Run();
}

absl::StatusOr<CaseRecord> CaseTable::GetById(absl::string_view id) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare(absl::StrCat(kColumns, "WHERE id = ?1")));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Text(1, id).Step());
  if (!row) return NoSuchCase();
  return ReadRecord(select);
}

absl::StatusOr<CaseRecord> CaseTable::GetByNumber(uint64_t number) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare(absl::StrCat(kColumns, "WHERE number = ?1")));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Int(1, ClampToInt64(number)).Step());
  if (!row) return NoSuchCase();
  return ReadRecord(select);
}

absl::StatusOr<std::string> CaseTable::Personal(absl::string_view id) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT slot, personal FROM cases WHERE id = ?1 AND"
                                            " personal IS NOT NULL"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Text(1, id).Step());
  if (!row) return NoSuchCase();
  return sealer_.Open(id, 0, static_cast<uint64_t>(select.ColumnInt(0)), select.ColumnBlob(1));
}

absl::StatusOr<std::vector<CaseRecord>> CaseTable::List(const CaseQuery& query) {
  LETHE_RETURN_IF_ERROR(CheckPageSize("limit", query.limit));
  LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare(absl::StrCat(
                                               kColumns, "WHERE kind = ?1 AND number > ?2",
                                               query.state.has_value() ? " AND state = ?4" : "",
                                               " ORDER BY number LIMIT ?3")));
  select.Int(1, static_cast<int64_t>(query.kind)).Int(2, ClampToInt64(query.after_number));
  select.Int(3, query.limit);
  if (query.state.has_value()) select.Int(4, static_cast<int64_t>(*query.state));
  std::vector<CaseRecord> records;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return records;
    records.push_back(ReadRecord(select));
  }
}

absl::StatusOr<std::vector<OpenCase>> CaseTable::ListOpen() {
  LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare(kSelectOpenCases));
  std::vector<OpenCase> open;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return open;
    open.push_back({.number = static_cast<uint64_t>(select.ColumnInt(0)),
                    .state = static_cast<CaseState>(select.ColumnInt(1)),
                    .received_micros = select.ColumnInt(2),
                    .due_micros = select.ColumnInt(3),
                    .wake_micros = select.ColumnIntOrNull(4),
                    .callback_micros = select.ColumnIntOrNull(5)});
  }
}

absl::StatusOr<std::vector<HeldSubject>> CaseTable::Held() {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT id, subject_key FROM cases WHERE kind = 2 AND state = 7"
                         " ORDER BY number"));
  std::vector<HeldSubject> held;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return held;
    HeldSubject subject{.key = {}, .hold_id = std::string(select.ColumnText(0))};
    const absl::string_view key = select.ColumnBlob(1);
    // A hold that keeps nobody would be worse than one that cannot be read.
    if (key.size() != subject.key.size()) {
      return absl::DataLossError(
          absl::StrCat(database_->path(), ": table cases: a hold in force has no subject"));
    }
    std::copy(key.begin(), key.end(), subject.key.begin());
    held.push_back(std::move(subject));
  }
}

absl::StatusOr<std::vector<uint64_t>> CaseTable::EndedSlots() {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT slot FROM cases WHERE slot IS NOT NULL AND"
                                            " personal IS NULL ORDER BY slot"));
  std::vector<uint64_t> slots;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return slots;
    slots.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
  }
}

absl::StatusOr<std::vector<std::string>> CaseTable::Forget(std::span<const uint64_t> slots) {
  LETHE_ASSIGN_OR_RETURN(Statement find, database_->Prepare("SELECT id FROM cases WHERE slot = ?1"
                                                            " AND personal IS NULL"));
  LETHE_ASSIGN_OR_RETURN(
      Statement forget,
      database_->Prepare("UPDATE cases SET slot = NULL, wake = NULL, callback = NULL"
                         " WHERE slot = ?1 AND personal IS NULL"));
  std::vector<std::string> ids;
  for (const uint64_t slot : slots) {
    LETHE_ASSIGN_OR_RETURN(const bool row, find.Int(1, ClampToInt64(slot)).Step());
    if (row) ids.emplace_back(find.ColumnText(0));
    find.Reset();
    LETHE_RETURN_IF_ERROR(forget.Int(1, ClampToInt64(slot)).Run());
    forget.Reset();
  }
  return ids;
}

absl::StatusOr<std::vector<CaseRecord>> CaseTable::Ended(Database& database) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database.Prepare(absl::StrCat(
                             kColumns, "WHERE slot IS NOT NULL AND state NOT IN (1, 2, 7)")));
  std::vector<CaseRecord> ended;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return ended;
    ended.push_back(ReadRecord(select));
  }
}

absl::StatusOr<std::optional<CaseState>> CaseTable::PutEnded(Database& database,
                                                             const CaseRecord& record) {
  CaseState before{};
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement select,
        database.Prepare("SELECT state FROM cases WHERE id = ?1 AND slot IS NOT NULL"));
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Text(1, record.id).Step());
    if (!row) return std::optional<CaseState>();
    before = static_cast<CaseState>(select.ColumnInt(0));
  }
  LETHE_ASSIGN_OR_RETURN(
      Statement put,
      database.Prepare(
          "UPDATE cases SET state = ?2, due = ?3, wake = ?4, callback = ?5, facts = ?6,"
          " personal = CASE WHEN ?7 THEN personal END,"
          " subject_key = CASE WHEN ?7 THEN subject_key END WHERE id = ?1"));
  put.Text(1, record.id).Int(2, static_cast<int64_t>(record.state)).Int(3, record.due_micros);
  put.IntOrNull(4, record.wake_micros).IntOrNull(5, record.callback_micros);
  LETHE_RETURN_IF_ERROR(put.Blob(6, record.facts).Int(7, record.personal ? 1 : 0).Run());
  return std::optional<CaseState>(before);
}

absl::Status CaseTable::HoldBack(Database& database, int64_t until_micros) {
  LETHE_ASSIGN_OR_RETURN(Statement update,
                         database.Prepare("UPDATE cases SET wake = ?1 WHERE kind = 1 AND"
                                          " state IN (1, 2) AND wake < ?1"));
  return update.Int(1, until_micros).Run();
}

absl::StatusOr<CaseCounts> CaseTable::EndLost(absl::FunctionRef<bool(uint64_t slot)> gone) {
  std::vector<uint64_t> numbers;
  CaseCounts ended;
  {
    LETHE_ASSIGN_OR_RETURN(Statement select,
                           database_->Prepare("SELECT number, slot, kind, state FROM cases"
                                              " WHERE slot IS NOT NULL ORDER BY number"));
    while (true) {
      LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
      if (!row) break;
      if (!gone(static_cast<uint64_t>(select.ColumnInt(1)))) continue;
      numbers.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
      switch (static_cast<CaseState>(select.ColumnInt(3))) {
        case CaseState::kPending:
        case CaseState::kInProgress:
          ++ended.requests;
          break;
        case CaseState::kHeld:
          ++ended.holds;
          break;
        default:
          break;
      }
    }
  }
  LETHE_ASSIGN_OR_RETURN(
      Statement end,
      database_->Prepare(
          "UPDATE cases SET slot = NULL, personal = NULL, subject_key = NULL, wake = NULL,"
          " callback = NULL,"
          " state = CASE WHEN state IN (1, 2) THEN 6 WHEN state = 7 THEN 8 ELSE state END"
          " WHERE number = ?1"));
  for (const uint64_t number : numbers) {
    LETHE_RETURN_IF_ERROR(end.Int(1, ClampToInt64(number)).Run());
    end.Reset();
  }
  return ended;
}

}  // namespace lethe::store
