// The reserve groups, ordered by how far the solution must still move before one of them can
// matter.
//
// For any two points (w, mu) and (w', mu') the gradient of a group obeys
//     |h_i' - h_i| <= scale_i (2 |w' - w|_K + |mu' - mu|),   scale_i = max(1, sqrt(K_ii)), (3)
// so a group whose gradient was at least h >= 0 when the summed drift (the bracket above, added
// over every move since) was D needs no look until the drift reaches D + h / scale. That sum is the
// group's key here. O(log n) an operation, about 20 bytes a group.
#ifndef LETHE_CORE_SVDD_RESERVE_POOL_H_
#define LETHE_CORE_SVDD_RESERVE_POOL_H_

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

class ReservePool {
 public:
  void Set(GroupIndex group, double key) {
    Remove(group);
    if (group >= keys_.size()) keys_.resize(group + 1, kAbsent);
    keys_[group] = key;
    order_.insert({key, group});
  }
  void Remove(GroupIndex group) {
    if (!Contains(group)) return;
    order_.erase({keys_[group], group});
    keys_[group] = kAbsent;
  }
  bool Contains(GroupIndex group) const { return group < keys_.size() && keys_[group] != kAbsent; }
  void Clear() {
    keys_.clear();
    order_.clear();
  }
  // Takes out a group whose key is at most `drift`; none left: nullopt.
  std::optional<GroupIndex> PopReached(double drift) {
    if (order_.empty() || order_.begin()->first > drift) return std::nullopt;
    const GroupIndex group = order_.begin()->second;
    Remove(group);
    return group;
  }
  // The smallest key; +infinity when empty.
  double MinKey() const { return order_.empty() ? kAbsent : order_.begin()->first; }

 private:
  static constexpr double kAbsent = std::numeric_limits<double>::infinity();
  std::vector<double> keys_;  // by group
  absl::btree_set<std::pair<double, GroupIndex>> order_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_RESERVE_POOL_H_
