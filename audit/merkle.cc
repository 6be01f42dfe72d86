#include "audit/merkle.h"

#include <bit>

#include "absl/status/status.h"
#include "core/base/check.h"

namespace lethe::audit {

Digest EmptyRoot() { return Sha256(""); }

Digest LeafHash(absl::string_view leaf) {
  Sha256Hasher hasher;
  return hasher.UpdateByte(0).Update(leaf).Finish();
}

Digest NodeHash(const Digest& left, const Digest& right) {
  Sha256Hasher hasher;
  return hasher.UpdateByte(1).Update(left).Update(right).Finish();
}

Digest MerkleRoot(std::span<const Digest> leaf_hashes) {
  if (leaf_hashes.empty()) return EmptyRoot();
  if (leaf_hashes.size() == 1) return leaf_hashes.front();
  const size_t split = std::bit_floor(leaf_hashes.size() - 1);
  return NodeHash(MerkleRoot(leaf_hashes.first(split)), MerkleRoot(leaf_hashes.subspan(split)));
}

absl::StatusOr<CompactRange> CompactRange::Restore(uint64_t size, std::span<const Digest> hashes) {
  if (hashes.size() != static_cast<size_t>(std::popcount(size))) {
    return absl::InvalidArgumentError("compact range: the number of hashes does not fit the size");
  }
  CompactRange range;
  range.size_ = size;
  range.hashes_.assign(hashes.begin(), hashes.end());
  return range;
}

void CompactRange::Append(const Digest& leaf_hash) {
  Append(leaf_hash, [](int, uint64_t, const Digest&) {});
}

void CompactRange::Append(const Digest& leaf_hash, Completed completed) {
  LETHE_CHECK(size_ + 1 != 0);
  Digest hash = leaf_hash;
  // Each trailing one bit of the size is a complete subtree as large as the one being added.
  int level = 0;
  for (uint64_t rest = size_; (rest & 1) != 0; rest >>= 1) {
    hash = NodeHash(hashes_.back(), hash);
    hashes_.pop_back();
    ++level;
    completed(level, rest >> 1, hash);
  }
  hashes_.push_back(hash);
  ++size_;
}

Digest CompactRange::Root() const {
  if (hashes_.empty()) return EmptyRoot();
  Digest root = hashes_.back();
  for (size_t i = hashes_.size() - 1; i-- > 0;) root = NodeHash(hashes_[i], root);
  return root;
}

}  // namespace lethe::audit
