// RFC 6962 Merkle hashing of the log.
//
//     empty = SHA256("")    leaf = SHA256(00 || d)    node = SHA256(01 || l || r)
//     root of n > 1 leaves: split at the largest power of two < n; an odd node is never duplicated
//
// Threads: free functions are safe, CompactRange is a value. Source: RFC 6962, section 2.1.
#ifndef LETHE_AUDIT_MERKLE_H_
#define LETHE_AUDIT_MERKLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"

namespace lethe::audit {

Digest EmptyRoot();
Digest LeafHash(absl::string_view leaf);
Digest NodeHash(const Digest& left, const Digest& right);

// Straight from the definition; cost O(n).
Digest MerkleRoot(std::span<const Digest> leaf_hashes);

// A tree that only grows, as the roots of its complete subtrees, largest first: one per set bit of
// the size. Append: amortised O(1), worst O(log n). Root: O(log n).
class CompactRange {
 public:
  CompactRange() = default;
  // From size() and hashes() of an earlier range. INVALID_ARGUMENT when their number does not fit.
  static absl::StatusOr<CompactRange> Restore(uint64_t size, std::span<const Digest> hashes);

  void Append(const Digest& leaf_hash);
  // As above, and reports each complete subtree of two leaves or more that this leaf completes,
  // smallest first: the root over the leaves [index 2^level, (index + 1) 2^level).
  using Completed = absl::FunctionRef<void(int level, uint64_t index, const Digest& hash)>;
  void Append(const Digest& leaf_hash, Completed completed);
  uint64_t size() const { return size_; }
  std::span<const Digest> hashes() const { return hashes_; }
  Digest Root() const;

 private:
  uint64_t size_ = 0;
  std::vector<Digest> hashes_;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_MERKLE_H_
