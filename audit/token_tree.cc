#include "audit/token_tree.h"

#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kPriorityTag = "lethe/token-priority/v1";

Digest Priority(const Digest& plain_leaf) {
  Sha256Hasher hasher;
  return hasher.Update(kPriorityTag).UpdateByte(0).Update(plain_leaf).Finish();
}

uint64_t FirstEightBytes(const Digest& digest) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | digest[i];
  return value;
}

const Digest& EmptyHash() {
  static const Digest hash = Sha256("lethe/empty/v1");
  return hash;
}

}  // namespace

bool TokenTree::Above(Index a, Index b) const {
  const Node& x = nodes_[a];
  const Node& y = nodes_[b];
  if (x.priority != y.priority) return x.priority > y.priority;
  const Digest full_x = Priority(x.leaves.plain);
  const Digest full_y = Priority(y.leaves.plain);
  if (full_x != full_y) return full_x > full_y;
  return x.handle < y.handle;
}

TokenTree::Index TokenTree::Allocate(uint64_t handle,
                                     const Digest& plain_leaf,
                                     const Digest& blinded_leaf) {
  Index index = kNone;
  if (free_.empty()) {
    LETHE_CHECK(nodes_.size() < kNone);
    index = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  nodes_[index] = Node{.handle = handle,
                       .priority = FirstEightBytes(Priority(plain_leaf)),
                       .left = kNone,
                       .right = kNone,
                       .stale = true,
                       .leaves = {plain_leaf, blinded_leaf},
                       .plain_hash = {},
                       .blinded_hash = {}};
  return index;
}

TokenTree::Index TokenTree::Locate(uint64_t handle) const {
  Index at = root_;
  while (at != kNone && nodes_[at].handle != handle) {
    at = handle < nodes_[at].handle ? nodes_[at].left : nodes_[at].right;
  }
  return at;
}

// Parts a subtree that does not hold `handle`; every node whose subtree changes becomes stale.
void TokenTree::Split(Index tree, uint64_t handle, Index* low, Index* high) {
  while (tree != kNone) {
    Node& node = nodes_[tree];
    node.stale = true;
    if (node.handle < handle) {
      *low = tree;
      low = &node.right;
      tree = node.right;
    } else {
      *high = tree;
      high = &node.left;
      tree = node.left;
    }
  }
  *low = kNone;
  *high = kNone;
}

void TokenTree::Merge(Index low, Index high, Index* into) {
  while (low != kNone && high != kNone) {
    const bool low_wins = Above(low, high);
    const Index winner = low_wins ? low : high;
    Node& node = nodes_[winner];
    node.stale = true;
    *into = winner;
    into = low_wins ? &node.right : &node.left;
    (low_wins ? low : high) = *into;
  }
  *into = low != kNone ? low : high;
}

absl::Status TokenTree::Insert(uint64_t handle,
                               const Digest& plain_leaf,
                               const Digest& blinded_leaf) {
  if (Locate(handle) != kNone) return absl::AlreadyExistsError("token tree: handle is taken");
  const Index added = Allocate(handle, plain_leaf, blinded_leaf);
  Index* link = &root_;
  while (*link != kNone && Above(*link, added)) {
    Node& node = nodes_[*link];
    node.stale = true;
    link = handle < node.handle ? &node.left : &node.right;
  }
  const Index displaced = *link;
  *link = added;
  Split(displaced, handle, &nodes_[added].left, &nodes_[added].right);
  ++size_;
  return absl::OkStatus();
}

absl::Status TokenTree::Erase(uint64_t handle) {
  if (Locate(handle) == kNone) return absl::NotFoundError("token tree: no such handle");
  Index* link = &root_;
  while (nodes_[*link].handle != handle) {
    Node& node = nodes_[*link];
    node.stale = true;
    link = handle < node.handle ? &node.left : &node.right;
  }
  const Index erased = *link;
  Merge(nodes_[erased].left, nodes_[erased].right, link);
  // The leaf of an erased token is derived from it: keep no copy.
  nodes_[erased].leaves = {};
  nodes_[erased].plain_hash = {};
  nodes_[erased].blinded_hash = {};
  nodes_[erased].priority = 0;
  free_.push_back(erased);
  --size_;
  return absl::OkStatus();
}

const TokenTree::Leaves* TokenTree::Find(uint64_t handle) const {
  const Index at = Locate(handle);
  return at == kNone ? nullptr : &nodes_[at].leaves;
}

void TokenTree::Refresh() {
  if (root_ == kNone || !nodes_[root_].stale) return;
  Sha256Hasher hasher;
  std::vector<Index> pending = {root_};
  while (!pending.empty()) {
    Node& node = nodes_[pending.back()];
    const bool left_stale = node.left != kNone && nodes_[node.left].stale;
    const bool right_stale = node.right != kNone && nodes_[node.right].stale;
    if (left_stale) pending.push_back(node.left);
    if (right_stale) pending.push_back(node.right);
    if (left_stale || right_stale) continue;
    const auto hash = [&](const Digest& leaf, Digest Node::*subtree) {
      const Digest& left = node.left == kNone ? EmptyHash() : nodes_[node.left].*subtree;
      const Digest& right = node.right == kNone ? EmptyHash() : nodes_[node.right].*subtree;
      return hasher.UpdateByte(2).Update(left).Update(leaf).Update(right).Finish();
    };
    node.plain_hash = hash(node.leaves.plain, &Node::plain_hash);
    node.blinded_hash = hash(node.leaves.blinded, &Node::blinded_hash);
    node.stale = false;
    pending.pop_back();
  }
}

Digest TokenTree::plain_root() {
  Refresh();
  return root_ == kNone ? EmptyHash() : nodes_[root_].plain_hash;
}

Digest TokenTree::blinded_root() {
  Refresh();
  return root_ == kNone ? EmptyHash() : nodes_[root_].blinded_hash;
}

}  // namespace lethe::audit
