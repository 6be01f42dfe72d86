#include "store/certificate_log.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

constexpr size_t kMaxKindBytes = 64;

constexpr absl::string_view kSelect =
    "SELECT sequence, id, kind, memory_uid, memory_name, create_time, leaf_hash,"
    " previous_leaf_hash, leaf, envelope FROM certificates ";

absl::StatusOr<CertificateRecord> ReadRow(const Statement& row) {
  CertificateRecord record;
  record.sequence = static_cast<uint64_t>(row.ColumnInt(0));
  record.id = std::string(row.ColumnText(1));
  record.kind = std::string(row.ColumnText(2));
  record.memory_uid = std::string(row.ColumnText(3));
  record.memory_name = std::string(row.ColumnText(4));
  record.create_time_micros = row.ColumnInt(5);
  LETHE_ASSIGN_OR_RETURN(record.leaf_hash, ReadHash(row.ColumnBlob(6)));
  if (!row.ColumnIsNull(7)) {
    LETHE_ASSIGN_OR_RETURN(record.previous_leaf_hash, ReadHash(row.ColumnBlob(7)));
  }
  record.leaf = std::string(row.ColumnBlob(8));
  record.envelope = std::string(row.ColumnBlob(9));
  return record;
}

absl::Status Validate(const CertificateAppend& append) {
  const CertificateRecord& record = append.record;
  if (!append.verify) return absl::InvalidArgumentError("certificate.verify: required");
  LETHE_RETURN_IF_ERROR(CheckHex("certificate.id", record.id, 64));
  LETHE_RETURN_IF_ERROR(CheckLength("certificate.kind", record.kind, 1, kMaxKindBytes));
  if (record.memory_uid.empty() != record.memory_name.empty()) {
    return absl::InvalidArgumentError(
        "certificate.memory_name: must be empty exactly when memory_uid is");
  }
  if (!record.memory_uid.empty()) {
    LETHE_RETURN_IF_ERROR(CheckHex("certificate.memory_uid", record.memory_uid, 32));
    LETHE_RETURN_IF_ERROR(
        CheckLength("certificate.memory_name", record.memory_name, 1, kMaxNameBytes));
  }
  LETHE_RETURN_IF_ERROR(CheckLength("certificate.envelope", record.envelope, 1, kMaxBlobBytes));
  return CheckLength("certificate.leaf", record.leaf, 1, kMaxLeafBytes);
}

}  // namespace

absl::Status CertificateLog::CheckDense() {
  LETHE_ASSIGN_OR_RETURN(const int64_t count,
                         database_->QueryInt("SELECT count(*) FROM certificates"));
  LETHE_ASSIGN_OR_RETURN(const int64_t past_last,
                         database_->QueryInt("SELECT coalesce(max(sequence), -1) + 1 FROM"
                                             " certificates"));
  if (count == past_last) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database_->path(), ": the log of certificates ends at ",
                                          past_last, " but holds ", count,
                                          "; restore the file from a backup"));
}

absl::StatusOr<LogHead> CertificateLog::Head() {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT sequence, leaf_hash FROM certificates"
                                            " ORDER BY sequence DESC LIMIT 1"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  LogHead head;
  if (!row) return head;
  head.count = static_cast<uint64_t>(select.ColumnInt(0)) + 1;
  LETHE_ASSIGN_OR_RETURN(head.leaf_hash, ReadHash(select.ColumnBlob(1)));
  return head;
}

absl::Status CertificateLog::Append(const CertificateAppend& append) {
  LETHE_RETURN_IF_ERROR(Validate(append));
  const CertificateRecord& record = append.record;
  LETHE_ASSIGN_OR_RETURN(const LogHead head, Head());
  if (record.sequence != head.count) {
    return absl::FailedPreconditionError(absl::StrCat("certificate.sequence: ", record.sequence,
                                                      ", but the log continues at ", head.count));
  }
  if (record.previous_leaf_hash != head.leaf_hash) {
    return absl::FailedPreconditionError(
        "certificate.previous_leaf_hash: is not the hash of the last leaf");
  }
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement insert,
        database_->Prepare("INSERT INTO certificates (sequence, id, kind, memory_uid, memory_name,"
                           " create_time, leaf_hash, previous_leaf_hash, leaf, envelope)"
                           " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"));
    insert.Int(1, static_cast<int64_t>(record.sequence)).Text(2, record.id).Text(3, record.kind);
    insert.Text(4, record.memory_uid).Text(5, record.memory_name);
    insert.Int(6, record.create_time_micros).Blob(7, audit::AsBytes(record.leaf_hash));
    if (record.previous_leaf_hash.has_value()) {
      insert.Blob(8, audit::AsBytes(*record.previous_leaf_hash));
    } else {
      insert.Null(8);
    }
    LETHE_RETURN_IF_ERROR(insert.Blob(9, record.leaf).Blob(10, record.envelope).Run());
  }
  LETHE_ASSIGN_OR_RETURN(const CertificateRecord read_back, Get(record.id));
  if (read_back != record) {
    return absl::DataLossError(
        absl::StrCat(database_->path(), ": certificate ", record.sequence,
                     " differs when read back; check this machine's memory"));
  }
  return append.verify(read_back);
}

absl::StatusOr<CertificateRecord> CertificateLog::Get(absl::string_view id) {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare(absl::StrCat(kSelect, "WHERE id = ?1")));
  select.Text(1, id);
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return absl::NotFoundError("no certificate with this id");
  return ReadRow(select);
}

absl::StatusOr<std::vector<CertificateRecord>> CertificateLog::List(const CertificateQuery& query) {
  LETHE_RETURN_IF_ERROR(CheckPageSize("limit", query.limit));
  const bool one_memory = !query.memory_name.empty();
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare(absl::StrCat(
          kSelect, one_memory ? "WHERE memory_name = ?3 AND sequence > ?1" : "WHERE sequence > ?1",
          " ORDER BY sequence LIMIT ?2")));
  select.Int(1, query.after_sequence.has_value() ? ClampToInt64(*query.after_sequence) : -1);
  select.Int(2, query.limit);
  if (one_memory) select.Text(3, query.memory_name);
  std::vector<CertificateRecord> records;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return records;
    LETHE_ASSIGN_OR_RETURN(CertificateRecord record, ReadRow(select));
    records.push_back(std::move(record));
  }
}

}  // namespace lethe::store
