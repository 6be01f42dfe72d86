#include "audit/tree_proof.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "audit/merkle.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

// The leaves [begin, end) of one node of the tree, which is complete or on its right edge.
struct Range {
  uint64_t begin;
  uint64_t end;

  uint64_t size() const { return end - begin; }
  // Where RFC 6962 splits it. Requires two leaves or more.
  uint64_t split() const { return begin + std::bit_floor(size() - 1); }
};

// Complete subtrees are read; the right edge is put together from them.
absl::StatusOr<Digest> HashOf(Range range, NodeReader read) {
  std::vector<Digest> parts;  // complete subtrees, largest and leftmost first
  while (range.begin < range.end) {
    const uint64_t leaves = std::bit_floor(range.size());
    const int level = std::countr_zero(leaves);
    LETHE_ASSIGN_OR_RETURN(const Digest part, read(level, range.begin >> level));
    parts.push_back(part);
    range.begin += leaves;
  }
  Digest hash = parts.back();
  for (size_t i = parts.size() - 1; i-- > 0;) hash = NodeHash(parts[i], hash);
  return hash;
}

absl::Status Refuse(absl::string_view proof, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(proof, " proof: ", problem));
}

// The walk of both verifications from a leaf of the old tree up: `old_node` is a node's index at
// the current level, `last` that of the tree's last node.
struct Climb {
  uint64_t node;
  uint64_t last;

  bool at_root() const { return last == 0; }
  bool sibling_is_left() const { return (node & 1) != 0 || node == last; }
  void Up() {
    node >>= 1;
    last >>= 1;
  }
  // A node without a right sibling keeps its hash until a left one turns up.
  void SkipToLeftSibling() {
    while ((node & 1) == 0 && node != 0) Up();
  }
};

}  // namespace

absl::StatusOr<Digest> RootAt(uint64_t size, NodeReader read) {
  if (size == 0) return EmptyRoot();
  return HashOf({0, size}, read);
}

absl::StatusOr<std::vector<Digest>> InclusionProof(uint64_t index, uint64_t size, NodeReader read) {
  if (index >= size) {
    return Refuse("inclusion", absl::StrCat("no leaf ", index, " in a log of size ", size));
  }
  std::vector<Digest> proof;
  Range node{0, size};
  while (node.size() > 1) {
    const uint64_t split = node.split();
    const Range left{node.begin, split};
    const Range right{split, node.end};
    const bool in_left = index < split;
    LETHE_ASSIGN_OR_RETURN(const Digest sibling, HashOf(in_left ? right : left, read));
    proof.push_back(sibling);
    node = in_left ? left : right;
  }
  std::reverse(proof.begin(), proof.end());
  return proof;
}

absl::StatusOr<std::vector<Digest>> ConsistencyProof(uint64_t old_size,
                                                     uint64_t new_size,
                                                     NodeReader read) {
  if (old_size == 0) return Refuse("consistency", "nothing is shown about an empty log");
  if (old_size > new_size) {
    return Refuse("consistency",
                  absl::StrCat("the old size ", old_size, " is above the new one, ", new_size));
  }
  std::vector<Digest> proof;
  Range node{0, new_size};
  while (node.end != old_size) {
    const uint64_t split = node.split();
    const Range left{node.begin, split};
    const Range right{split, node.end};
    const bool ends_in_left = old_size <= split;
    LETHE_ASSIGN_OR_RETURN(const Digest sibling, HashOf(ends_in_left ? right : left, read));
    proof.push_back(sibling);
    node = ends_in_left ? left : right;
  }
  // The node that both trees share; when it is the whole old tree the verifier has its hash.
  if (node.begin != 0) {
    LETHE_ASSIGN_OR_RETURN(const Digest shared, HashOf(node, read));
    proof.push_back(shared);
  }
  std::reverse(proof.begin(), proof.end());
  return proof;
}

absl::Status VerifyInclusion(uint64_t index,
                             uint64_t size,
                             const Digest& leaf_hash,
                             std::span<const Digest> proof,
                             const Digest& root) {
  if (index >= size) {
    return Refuse("inclusion", absl::StrCat("no leaf ", index, " in a log of size ", size));
  }
  Climb climb{index, size - 1};
  Digest hash = leaf_hash;
  for (const Digest& sibling : proof) {
    if (climb.at_root()) return Refuse("inclusion", "too many hashes");
    if (climb.sibling_is_left()) {
      hash = NodeHash(sibling, hash);
      climb.SkipToLeftSibling();
    } else {
      hash = NodeHash(hash, sibling);
    }
    climb.Up();
  }
  if (!climb.at_root()) return Refuse("inclusion", "too few hashes");
  if (hash != root) return Refuse("inclusion", "leads to another root");
  return absl::OkStatus();
}

absl::Status VerifyConsistency(uint64_t old_size,
                               uint64_t new_size,
                               const Digest& old_root,
                               const Digest& new_root,
                               std::span<const Digest> proof) {
  if (old_size == 0) return Refuse("consistency", "nothing is shown about an empty log");
  if (old_size > new_size) {
    return Refuse("consistency",
                  absl::StrCat("the old size ", old_size, " is above the new one, ", new_size));
  }
  if (old_size == new_size) {
    if (!proof.empty()) return Refuse("consistency", "too many hashes");
    if (old_root != new_root) return Refuse("consistency", "one size has two roots");
    return absl::OkStatus();
  }
  // Start at the largest complete subtree that ends where the old tree ends.
  Climb climb{old_size - 1, new_size - 1};
  while ((climb.node & 1) != 0) climb.Up();
  Digest old_hash = old_root;
  Digest new_hash = old_root;
  if (!std::has_single_bit(old_size)) {
    if (proof.empty()) return Refuse("consistency", "too few hashes");
    old_hash = new_hash = proof.front();
    proof = proof.subspan(1);
  }
  for (const Digest& sibling : proof) {
    if (climb.at_root()) return Refuse("consistency", "too many hashes");
    if (climb.sibling_is_left()) {
      old_hash = NodeHash(sibling, old_hash);
      new_hash = NodeHash(sibling, new_hash);
      climb.SkipToLeftSibling();
    } else {
      new_hash = NodeHash(new_hash, sibling);
    }
    climb.Up();
  }
  if (!climb.at_root()) return Refuse("consistency", "too few hashes");
  if (old_hash != old_root) return Refuse("consistency", "leads to another old root");
  if (new_hash != new_root) return Refuse("consistency", "leads to another new root");
  return absl::OkStatus();
}

}  // namespace lethe::audit
