#include "store/certificate_log.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/hash.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "audit/tree_proof.h"
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
  // The log was whole when it was opened; the bytes may be read from the disk once more.
  if (audit::LeafHash(record.leaf) != record.leaf_hash) {
    return absl::DataLossError(absl::StrCat("the log of certificates: leaf ", record.sequence,
                                            " does not have the hash that stands beside it"));
  }
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
  if (append.next_vkey.has_value()) {
    LETHE_RETURN_IF_ERROR(
        CheckLength("certificate.next_vkey", *append.next_vkey, 1, kMaxVkeyBytes));
  }
  return CheckLength("certificate.leaf", record.leaf, 1, kMaxLeafBytes);
}

}  // namespace

absl::Status CertificateLog::Lost(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(database_->path(), ": the log of certificates: ", what,
                                          "; restore the file from a backup"));
}

absl::Status CertificateLog::VisitLeaves(
    absl::FunctionRef<absl::Status(uint64_t sequence, const Bytes32& leaf_hash)> visit) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT sequence, leaf_hash, previous_leaf_hash, leaf FROM certificates"
                         " ORDER BY sequence"));
  std::optional<Bytes32> previous;
  for (uint64_t next = 0;; ++next) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return absl::OkStatus();
    const auto sequence = static_cast<uint64_t>(select.ColumnInt(0));
    if (sequence != next) return Lost(absl::StrCat("certificate ", next, " is missing"));
    const Bytes32 hash = audit::LeafHash(select.ColumnBlob(3));
    if (select.ColumnBlob(1) != audit::AsBytes(hash)) {
      return Lost(absl::StrCat("leaf ", sequence, " does not have the hash that stands beside it"));
    }
    const bool linked = previous.has_value() ? select.ColumnBlob(2) == audit::AsBytes(*previous)
                                             : select.ColumnIsNull(2);
    if (!linked) return Lost(absl::StrCat("certificate ", sequence, " names another predecessor"));
    LETHE_RETURN_IF_ERROR(visit(sequence, hash));
    previous = hash;
  }
}

absl::Status CertificateLog::CheckWhole() {
  LETHE_ASSIGN_OR_RETURN(const LogTree::Head head, tree_.Read());
  audit::CompactRange range;
  const auto compare_nodes = [&](uint64_t, const Bytes32& hash) -> absl::Status {
    for (const TreeNode& node : Extend(range, hash)) {
      LETHE_ASSIGN_OR_RETURN(const Bytes32 stored, tree_.Node(node.level, node.index));
      if (stored != node.hash) {
        return Lost(absl::StrCat("node ", node.index, " of level ", node.level,
                                 " of its tree is not the hash of the leaves below"));
      }
    }
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(VisitLeaves(compare_nodes));
  if (range.size() != head.range.size()) {
    return Lost(absl::StrCat("it holds ", range.size(), " certificates but its head says ",
                             head.range.size()));
  }
  if (!std::ranges::equal(range.hashes(), head.range.hashes())) {
    return Lost("the range in its head is not that of its leaves");
  }
  LETHE_ASSIGN_OR_RETURN(const uint64_t nodes, tree_.CountNodes());
  if (nodes != range.size() - static_cast<uint64_t>(std::popcount(range.size()))) {
    return Lost("its tree holds nodes that belong to no leaves");
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> keys, Keys());
  if (keys.empty() != head.checkpoint.empty()) {
    return Lost("of its first key and its checkpoint one is missing");
  }
  if (keys.empty()) return absl::OkStatus();
  if (keys.front().first_sequence != 0 || keys.back().first_sequence > range.size()) {
    return Lost("its keys do not cover its certificates");
  }
  const absl::Status checkpoint = CheckCheckpoint(head.checkpoint, range);
  return checkpoint.ok() ? checkpoint : Lost(checkpoint.message());
}

// INVALID_ARGUMENT for no checkpoint, FAILED_PRECONDITION for another one.
absl::Status CertificateLog::CheckCheckpoint(absl::string_view note,
                                             const audit::CompactRange& range) {
  const absl::StatusOr<audit::Note> parsed = audit::ParseNote(note);
  if (!parsed.ok()) return absl::InvalidArgumentError("checkpoint: is no signed note");
  const absl::StatusOr<audit::Checkpoint> checkpoint = audit::ParseCheckpointText(parsed->text);
  if (!checkpoint.ok()) return absl::InvalidArgumentError("checkpoint: its text is no checkpoint");
  if (checkpoint->origin != origin_) {
    return absl::FailedPreconditionError("checkpoint.origin: is another log's");
  }
  if (checkpoint->size != range.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint.size: ", checkpoint->size, ", but the log has ", range.size(), " leaves"));
  }
  if (checkpoint->root != range.Root()) {
    return absl::FailedPreconditionError("checkpoint.root: is not the root of the log's leaves");
  }
  return absl::OkStatus();
}

absl::StatusOr<LogHead> CertificateLog::Head() {
  LETHE_ASSIGN_OR_RETURN(LogTree::Head tree, tree_.Read());
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT sequence, leaf_hash FROM certificates"
                                            " ORDER BY sequence DESC LIMIT 1"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  LogHead head;
  head.count = row ? static_cast<uint64_t>(select.ColumnInt(0)) + 1 : 0;
  if (row) {
    LETHE_ASSIGN_OR_RETURN(head.leaf_hash, ReadHash(select.ColumnBlob(1)));
  }
  if (head.count != tree.range.size()) {
    return Lost(absl::StrCat("it ends at ", head.count, " certificates but its head says ",
                             tree.range.size()));
  }
  head.range.assign(tree.range.hashes().begin(), tree.range.hashes().end());
  head.checkpoint = std::move(tree.checkpoint);
  return head;
}

absl::Status CertificateLog::Start(const LogStart& start) {
  if (!start.verify) return absl::InvalidArgumentError("start.verify: required");
  LETHE_RETURN_IF_ERROR(CheckLength("start.vkey", start.vkey, 1, kMaxVkeyBytes));
  LETHE_ASSIGN_OR_RETURN(LogTree::Head head, tree_.Read());
  LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> keys, Keys());
  if (!head.checkpoint.empty() || !keys.empty()) {
    return absl::FailedPreconditionError("start: the log has its key and its checkpoint already");
  }
  LETHE_RETURN_IF_ERROR(CheckCheckpoint(start.checkpoint, head.range));
  const LogKey key{.first_sequence = 0, .vkey = start.vkey};
  LETHE_RETURN_IF_ERROR(InsertKey(key));
  head.checkpoint = start.checkpoint;
  LETHE_RETURN_IF_ERROR(tree_.Write(head));
  LETHE_ASSIGN_OR_RETURN(const LogTree::Head read_back, tree_.Read());
  LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> read_keys, Keys());
  if (read_back.checkpoint != start.checkpoint || read_keys != std::vector<LogKey>{key} ||
      !std::ranges::equal(read_back.range.hashes(), head.range.hashes())) {
    return absl::DataLossError(
        absl::StrCat(database_->path(), ": the log's first checkpoint",
                     " differs when read back; check this machine's memory"));
  }
  return start.verify(read_back.checkpoint);
}

absl::Status CertificateLog::InsertKey(const LogKey& key) {
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO log_keys (first_sequence, vkey) VALUES (?1, ?2)"));
  insert.Int(1, static_cast<int64_t>(key.first_sequence)).Text(2, key.vkey);
  const absl::Status status = insert.Run();
  if (absl::IsAlreadyExists(status)) {
    return absl::AlreadyExistsError("certificate.next_vkey: the log has or had this key");
  }
  return status;
}

absl::Status CertificateLog::InsertRecord(const CertificateRecord& record) {
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
  return insert.Blob(9, record.leaf).Blob(10, record.envelope).Run();
}

absl::Status CertificateLog::Append(const CertificateAppend& append) {
  LETHE_RETURN_IF_ERROR(Validate(append));
  const CertificateRecord& record = append.record;
  LETHE_ASSIGN_OR_RETURN(const LogHead head, Head());
  if (head.checkpoint.empty()) {
    return absl::FailedPreconditionError("certificate: the log has no key and no checkpoint yet");
  }
  if (record.sequence != head.count) {
    return absl::FailedPreconditionError(absl::StrCat("certificate.sequence: ", record.sequence,
                                                      ", but the log continues at ", head.count));
  }
  if (record.previous_leaf_hash != head.leaf_hash) {
    return absl::FailedPreconditionError(
        "certificate.previous_leaf_hash: is not the hash of the last leaf");
  }
  if (record.leaf_hash != audit::LeafHash(record.leaf)) {
    return absl::InvalidArgumentError("certificate.leaf_hash: is not the hash of the leaf");
  }
  LETHE_ASSIGN_OR_RETURN(const audit::CompactRange before,
                         audit::CompactRange::Restore(head.count, head.range));
  LogTree::Head after{before, append.checkpoint};
  const std::vector<TreeNode> nodes = Extend(after.range, record.leaf_hash);
  LETHE_RETURN_IF_ERROR(CheckCheckpoint(append.checkpoint, after.range));
  LETHE_RETURN_IF_ERROR(InsertRecord(record));
  for (const TreeNode& node : nodes) LETHE_RETURN_IF_ERROR(tree_.Insert(node));
  LETHE_RETURN_IF_ERROR(tree_.Write(after));
  if (append.next_vkey.has_value()) {
    LETHE_RETURN_IF_ERROR(InsertKey({record.sequence + 1, *append.next_vkey}));
  }
  LETHE_ASSIGN_OR_RETURN(const WrittenCertificate written, ReadBack(append, before, after, nodes));
  return append.verify(written);
}

absl::Status CertificateLog::PutBack(const CertificateRecord& record,
                                     const std::optional<std::string>& next_vkey,
                                     absl::string_view checkpoint) {
  LETHE_ASSIGN_OR_RETURN(LogTree::Head head, tree_.Read());
  head.checkpoint = std::string(checkpoint);
  LETHE_RETURN_IF_ERROR(InsertRecord(record));
  for (const TreeNode& node : Extend(head.range, record.leaf_hash)) {
    LETHE_RETURN_IF_ERROR(tree_.Insert(node));
  }
  LETHE_RETURN_IF_ERROR(tree_.Write(head));
  return next_vkey.has_value() ? InsertKey({record.sequence + 1, *next_vkey}) : absl::OkStatus();
}

absl::StatusOr<WrittenCertificate> CertificateLog::ReadBack(const CertificateAppend& append,
                                                            const audit::CompactRange& before,
                                                            const LogTree::Head& after,
                                                            const std::vector<TreeNode>& nodes) {
  const uint64_t sequence = append.record.sequence;
  const auto differs = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(database_->path(), ": ", what, " of certificate ", sequence,
                     " differs when read back; check this machine's memory"));
  };
  WrittenCertificate written;
  LETHE_ASSIGN_OR_RETURN(written.record, Get(append.record.id));
  if (written.record != append.record) return differs("the row");
  for (const TreeNode& node : nodes) {
    LETHE_ASSIGN_OR_RETURN(const Bytes32 stored, tree_.Node(node.level, node.index));
    if (stored != node.hash) return differs("a node of the tree");
  }
  LETHE_ASSIGN_OR_RETURN(LogTree::Head head, tree_.Read());
  if (head.range.size() != after.range.size() || head.checkpoint != after.checkpoint ||
      !std::ranges::equal(head.range.hashes(), after.range.hashes())) {
    return differs("the head");
  }
  if (append.next_vkey.has_value()) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> keys, Keys());
    if (keys.empty() || keys.back() != LogKey{sequence + 1, *append.next_vkey}) {
      return differs("the next key");
    }
  }
  written.checkpoint = std::move(head.checkpoint);
  const auto read = [this](int level, uint64_t index) { return tree_.Node(level, index); };
  const uint64_t size = sequence + 1;
  LETHE_ASSIGN_OR_RETURN(written.root, audit::RootAt(size, read));
  LETHE_ASSIGN_OR_RETURN(written.inclusion, audit::InclusionProof(sequence, size, read));
  written.old_root = before.Root();
  if (sequence > 0) {
    LETHE_ASSIGN_OR_RETURN(written.consistency, audit::ConsistencyProof(sequence, size, read));
  }
  return written;
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

absl::StatusOr<std::vector<Bytes32>> CertificateLog::Nodes(int level,
                                                           uint64_t first,
                                                           uint32_t limit) {
  return tree_.Nodes(level, first, limit);
}

absl::StatusOr<std::vector<LogKey>> CertificateLog::Keys() {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT first_sequence, vkey FROM log_keys"
                                            " ORDER BY first_sequence"));
  std::vector<LogKey> keys;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return keys;
    keys.push_back({static_cast<uint64_t>(select.ColumnInt(0)), std::string(select.ColumnText(1))});
  }
}

absl::Status CertificateLog::PutCosignature(const Cosignature& cosignature) {
  LETHE_RETURN_IF_ERROR(CheckLength("cosignature.key_id", cosignature.key_id, 4, 4));
  LETHE_RETURN_IF_ERROR(CheckLength("cosignature.line", cosignature.line, 1, kMaxCosignatureBytes));
  LETHE_ASSIGN_OR_RETURN(const LogTree::Head head, tree_.Read());
  if (cosignature.size == 0 || cosignature.size != head.range.size()) {
    return absl::FailedPreconditionError(absl::StrCat("cosignature.size: ", cosignature.size,
                                                      ", but the log has ", head.range.size()));
  }
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO cosignatures (key_id, size, line) VALUES (?1, ?2, ?3)"
                         " ON CONFLICT (key_id) DO UPDATE SET size = ?2, line = ?3"));
  insert.Blob(1, cosignature.key_id).Int(2, static_cast<int64_t>(cosignature.size));
  return insert.Blob(3, cosignature.line).Run();
}

absl::StatusOr<std::vector<Cosignature>> CertificateLog::Cosignatures() {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT key_id, size, line FROM cosignatures WHERE size ="
                         " (SELECT size FROM log_head) ORDER BY key_id"));
  std::vector<Cosignature> cosignatures;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return cosignatures;
    cosignatures.push_back({std::string(select.ColumnBlob(0)),
                            static_cast<uint64_t>(select.ColumnInt(1)),
                            std::string(select.ColumnBlob(2))});
  }
}

}  // namespace lethe::store
