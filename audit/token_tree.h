// A Merkle treap over a memory's tokens in insertion order: the digest of n tokens is updated in
// expected O(log n), and depends on the retained tokens and their order alone.
//
//     order     handles, increasing = inserted later
//     priority  SHA256("lethe/token-priority/v1" || 00 || plain leaf), the largest is the root;
//               among equal priorities the earlier token is the ancestor
//     H(empty)  SHA256("lethe/empty/v1")
//     H(node)   SHA256(02 || H(left) || leaf || H(right)), once over plain and once over blinded
//     leaves
//
// The shape follows from the sequence of plain leaves, so absolute handles, insertions and erasures
// in between leave no trace. Each token has two leaf hashes (state_digest.h).
//
// Cost: Insert and Erase O(depth), hashing put off until a root is asked for; roots O(nodes touched
// since the last time). The expected depth is 2 ln n; someone who picks all tokens can make it n,
// which slows that memory down and breaks nothing (no recursion). About 160 bytes a token. Measured
// at 1e5 tokens on one core: Insert 2.6 us, all hashes 0.14 s, one Erase with both roots 41 us.
//
// Errors: ALREADY_EXISTS, NOT_FOUND; nothing changes then. Threads: compatible; the roots are not
// const. Source: Seidel and Aragon, "Randomized search trees", 1996 (unique for fixed priorities).
#ifndef LETHE_AUDIT_TOKEN_TREE_H_
#define LETHE_AUDIT_TOKEN_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "audit/hash.h"

namespace lethe::audit {

class TokenTree {
 public:
  // At most 2^32 - 2 tokens.
  absl::Status Insert(uint64_t handle, const Digest& plain_leaf, const Digest& blinded_leaf);
  // To undo an erasure insert the same three values again: the roots are then what they were.
  absl::Status Erase(uint64_t handle);

  struct Leaves {
    Digest plain;
    Digest blinded;
  };
  // Null when absent; valid until the next change.
  const Leaves* Find(uint64_t handle) const;
  size_t size() const { return size_; }

  Digest plain_root();
  Digest blinded_root();

 private:
  using Index = uint32_t;
  static constexpr Index kNone = ~Index{0};
  struct Node {
    uint64_t handle;
    uint64_t priority;  // first eight bytes; the rest is computed when these are equal
    Index left;
    Index right;
    bool stale;  // the hashes below are older than the subtree; so are all ancestors'
    Leaves leaves;
    Digest plain_hash;
    Digest blinded_hash;
  };

  bool Above(Index a, Index b) const;
  Index Allocate(uint64_t handle, const Digest& plain_leaf, const Digest& blinded_leaf);
  void Split(Index tree, uint64_t handle, Index* low, Index* high);
  void Merge(Index low, Index high, Index* into);
  Index Locate(uint64_t handle) const;
  void Refresh();

  std::vector<Node> nodes_;
  std::vector<Index> free_;
  Index root_ = kNone;
  size_t size_ = 0;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TOKEN_TREE_H_
