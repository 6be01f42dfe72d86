// The retained tokens of a memory, grouped by key.
//
// Tokens whose keys agree in every bit (after -0.0 -> 0.0) form one group: one variable of problem
// (1) with capacity (members x box), so that the solution over groups is unique. Keys are stored
// once a group, values once a token, in blocks that never move. Memory a token: value row + 16
// bytes of map; a group: key row + about 60 bytes. Operations O(d + m + log members). Threads:
// compatible.
#ifndef LETHE_CORE_SVDD_TOKEN_TABLE_H_
#define LETHE_CORE_SVDD_TOKEN_TABLE_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/base/huge_pages.h"
#include "core/svdd/problem.h"

namespace lethe::svdd {

using GroupIndex = uint32_t;

// Rows of equally many doubles in blocks; freed rows are reused.
class RowStore {
 public:
  explicit RowStore(size_t width) : width_(width) {}
  uint32_t Add(std::span<const double> row);
  // The row reads as zeros from then on: what was in it is gone.
  void Free(uint32_t row);
  std::span<const double> Row(uint32_t row) const {
    return {blocks_[row / kRowsPerBlock].data() + (row % kRowsPerBlock) * width_, width_};
  }

 private:
  static constexpr uint32_t kRowsPerBlock = 1024;
  size_t width_;
  uint32_t used_ = 0;
  std::vector<std::vector<double>> blocks_;
  std::vector<uint32_t> free_;
};

class TokenTable {
 public:
  TokenTable(size_t key_dimension, size_t value_dimension)
      : keys_(key_dimension), values_(value_dimension) {}

  size_t size() const { return tokens_.size(); }
  bool Contains(TokenHandle handle) const { return tokens_.contains(handle); }

  // Requires a new handle above all others. Returns the group, which may be new.
  GroupIndex Add(TokenHandle handle, std::span<const double> key, std::span<const double> value);
  // Takes the token out of its group; a group left without members stays until ReleaseGroup.
  GroupIndex Remove(TokenHandle handle);
  void ReleaseGroup(GroupIndex group);

  std::span<const double> Key(GroupIndex group) const { return keys_.Row(groups_[group].key_row); }
  std::span<const double> Value(TokenHandle handle) const {
    return values_.Row(tokens_.at(handle).value_row);
  }
  GroupIndex GroupOf(TokenHandle handle) const { return tokens_.at(handle).group; }
  // In insertion order.
  std::span<const TokenHandle> Members(GroupIndex group) const { return groups_[group].members; }
  // One past the largest group index in use; indices without members are free.
  GroupIndex group_limit() const { return static_cast<GroupIndex>(groups_.size()); }
  // Every handle, in insertion order. O(n log n).
  std::vector<TokenHandle> Handles() const;

 private:
  template <typename Key, typename Value>
  using Table = absl::flat_hash_map<Key,
                                    Value,
                                    typename absl::flat_hash_map<Key, Value>::hasher,
                                    typename absl::flat_hash_map<Key, Value>::key_equal,
                                    HugePageAllocator<std::pair<const Key, Value>>>;
  struct Token {
    GroupIndex group;
    uint32_t value_row;
  };
  struct Group {
    uint32_t key_row = 0;
    absl::InlinedVector<TokenHandle, 1> members;
  };

  RowStore keys_;
  RowStore values_;
  Table<TokenHandle, Token> tokens_;
  std::vector<Group, HugePageAllocator<Group>> groups_;
  std::vector<GroupIndex> free_groups_;
  // Groups by a hash of their key; the key itself decides.
  Table<uint64_t, absl::InlinedVector<GroupIndex, 1>> by_hash_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_TOKEN_TABLE_H_
