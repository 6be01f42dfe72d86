// The Merkle tree over the certificates, internal to the store: the hashes of complete subtrees of
// two leaves or more (log_nodes, written once), and the head (log_head: size, compact range,
// checkpoint). Leaf hashes are the certificates' own column. Changes must run inside the caller's
// transaction. Nothing is kept in RAM, so that a rollback needs no care. Threads: compatible.
#ifndef LETHE_STORE_LOG_TREE_H_
#define LETHE_STORE_LOG_TREE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/merkle.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

struct TreeNode {
  int level = 0;
  uint64_t index = 0;
  Bytes32 hash{};
};

// Appends to the range; the subtrees that this leaf completes, smallest first.
std::vector<TreeNode> Extend(audit::CompactRange& range, const Bytes32& leaf_hash);

class LogTree {
 public:
  explicit LogTree(Database* database) : database_(database) {}

  struct Head {
    audit::CompactRange range;  // its size is the log's
    std::string checkpoint;
  };
  // DATA_LOSS when the row is not there or its range does not fit its size.
  absl::StatusOr<Head> Read();
  absl::Status Write(const Head& head);

  absl::Status Insert(const TreeNode& node);
  // Level 0: a leaf hash. DATA_LOSS when it is not there.
  absl::StatusOr<Bytes32> Node(int level, uint64_t index);
  // As TenantStore::GetLogNodes.
  absl::StatusOr<std::vector<Bytes32>> Nodes(int level, uint64_t first, uint32_t limit);
  absl::StatusOr<uint64_t> CountNodes();

 private:
  absl::Status Lost(absl::string_view what) const;
  Database* database_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_LOG_TREE_H_
