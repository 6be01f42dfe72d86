// RFC 6962 roots and proofs from stored hashes of complete subtrees, and their verification.
//
// Node (level, index) is the root over the leaves [index 2^level, (index + 1) 2^level); level 0 are
// leaf hashes. Only nodes that lie wholly within the size asked for are read, so that any earlier
// size can be answered too.
//
// Cost: O(log size) reads and hashes. Errors: INVALID_ARGUMENT; those of the reader are passed on.
// Threads: safe. Source: RFC 6962, section 2.1; RFC 9162, sections 2.1.3.2 and 2.1.4.2 (verifying).
#ifndef LETHE_AUDIT_TREE_PROOF_H_
#define LETHE_AUDIT_TREE_PROOF_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/hash.h"

namespace lethe::audit {

using NodeReader = absl::FunctionRef<absl::StatusOr<Digest>(int level, uint64_t index)>;

// SHA256("") for size 0.
absl::StatusOr<Digest> RootAt(uint64_t size, NodeReader read);

// From the leaf's sibling to the root's child. Requires index < size.
absl::StatusOr<std::vector<Digest>> InclusionProof(uint64_t index, uint64_t size, NodeReader read);

// Requires 0 < old_size <= new_size; empty when they are equal.
absl::StatusOr<std::vector<Digest>> ConsistencyProof(uint64_t old_size,
                                                     uint64_t new_size,
                                                     NodeReader read);

// OK exactly when the proof shows that leaf `index` of the tree with this size and root has this
// hash. A proof means something only under a root that a signed checkpoint names.
absl::Status VerifyInclusion(uint64_t index,
                             uint64_t size,
                             const Digest& leaf_hash,
                             std::span<const Digest> proof,
                             const Digest& root);

// OK exactly when the proof shows that the old tree is a prefix of the new one. An old size of 0 is
// refused: every tree extends the empty one, so nothing would be shown.
absl::Status VerifyConsistency(uint64_t old_size,
                               uint64_t new_size,
                               const Digest& old_root,
                               const Digest& new_root,
                               std::span<const Digest> proof);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TREE_PROOF_H_
