#include "store/log_tree.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

constexpr int kMaxLevel = 63;

}  // namespace

std::vector<TreeNode> Extend(audit::CompactRange& range, const Bytes32& leaf_hash) {
  std::vector<TreeNode> completed;
  range.Append(leaf_hash, [&completed](int level, uint64_t index, const audit::Digest& hash) {
    completed.push_back({level, index, hash});
  });
  return completed;
}

absl::Status LogTree::Lost(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(database_->path(), ": ", what, "; restore the file from a backup"));
}

absl::StatusOr<LogTree::Head> LogTree::Read() {
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database_->Prepare("SELECT size, range, checkpoint FROM log_head"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return Lost("no row in table log_head");
  const absl::string_view bytes = select.ColumnBlob(1);
  std::vector<Bytes32> hashes;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Bytes32)) {
    LETHE_ASSIGN_OR_RETURN(hashes.emplace_back(), ReadHash(bytes.substr(at, sizeof(Bytes32))));
  }
  absl::StatusOr<audit::CompactRange> range =
      audit::CompactRange::Restore(static_cast<uint64_t>(select.ColumnInt(0)), hashes);
  if (!range.ok()) return Lost("table log_head: the range does not fit the size");
  return Head{*std::move(range), std::string(select.ColumnBlob(2))};
}

absl::Status LogTree::Write(const Head& head) {
  std::string bytes;
  for (const Bytes32& hash : head.range.hashes()) absl::StrAppend(&bytes, audit::AsBytes(hash));
  LETHE_ASSIGN_OR_RETURN(
      Statement update,
      database_->Prepare("UPDATE log_head SET size = ?1, range = ?2, checkpoint = ?3"));
  update.Int(1, static_cast<int64_t>(head.range.size())).Blob(2, bytes).Blob(3, head.checkpoint);
  return update.Run();
}

absl::Status LogTree::Insert(const TreeNode& node) {
  LETHE_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO log_nodes (level, idx, hash) VALUES (?1, ?2, ?3)"));
  insert.Int(1, node.level).Int(2, static_cast<int64_t>(node.index));
  return insert.Blob(3, audit::AsBytes(node.hash)).Run();
}

absl::StatusOr<Bytes32> LogTree::Node(int level, uint64_t index) {
  LETHE_ASSIGN_OR_RETURN(const std::vector<Bytes32> nodes, Nodes(level, index, 1));
  if (!nodes.empty()) return nodes.front();
  return Lost(absl::StrCat("node ", index, " of level ", level, " of the log's tree is missing"));
}

absl::StatusOr<std::vector<Bytes32>> LogTree::Nodes(int level, uint64_t first, uint32_t limit) {
  if (level < 0 || level > kMaxLevel) {
    return absl::InvalidArgumentError(absl::StrCat("level: ", level, ", must be 0 to ", kMaxLevel));
  }
  LETHE_RETURN_IF_ERROR(CheckPageSize("limit", limit));
  constexpr absl::string_view kLeaves =
      "SELECT sequence, leaf_hash FROM certificates WHERE sequence >= ?1 ORDER BY sequence"
      " LIMIT ?2";
  constexpr absl::string_view kNodes =
      "SELECT idx, hash FROM log_nodes WHERE level = ?3 AND idx >= ?1 ORDER BY idx LIMIT ?2";
  LETHE_ASSIGN_OR_RETURN(Statement select, database_->Prepare(level == 0 ? kLeaves : kNodes));
  select.Int(1, ClampToInt64(first)).Int(2, limit);
  if (level > 0) select.Int(3, level);
  std::vector<Bytes32> nodes;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    // A gap ends the run: whoever needs what lies behind it will miss it by name.
    if (!row || static_cast<uint64_t>(select.ColumnInt(0)) != first + nodes.size()) return nodes;
    LETHE_ASSIGN_OR_RETURN(nodes.emplace_back(), ReadHash(select.ColumnBlob(1)));
  }
}

absl::StatusOr<uint64_t> LogTree::CountNodes() {
  LETHE_ASSIGN_OR_RETURN(const int64_t count,
                         database_->QueryInt("SELECT count(*) FROM log_nodes"));
  return static_cast<uint64_t>(count);
}

}  // namespace lethe::store
