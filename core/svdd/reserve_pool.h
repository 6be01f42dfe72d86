// The reserve groups, ordered by how far the solution must still move before one of them can
// matter.
//
// For any two points (w, mu) and (w', mu') the gradient of a group obeys
//     |h_i' - h_i| <= scale_i (2 |w' - w|_K + |mu' - mu|),   scale_i = max(1, sqrt(K_ii)), (3)
// so a group whose gradient was at least h >= 0 when the summed drift (the bracket above, added
// over every move since) was D needs no look until the drift reaches D + h / scale. That sum is the
// group's key here: in the queue below it waits. A group that was reached once is likely to be near
// the boundary for good, where the landmarks' bound (3') is the better one.
//
// Cost as stated there. Threads: compatible.
#ifndef LETHE_CORE_SVDD_RESERVE_POOL_H_
#define LETHE_CORE_SVDD_RESERVE_POOL_H_

#include <algorithm>
#include <vector>

#include "core/svdd/bucket_queue.h"
#include "core/svdd/landmarks.h"

namespace lethe::svdd {

class ReservePool {
 public:
  ReservePool(const kernel::Kernel& kernel, size_t dimension, double total)
      : queue_(total), landmarks_(kernel, dimension) {}

  void Set(GroupIndex group, double key) {
    landmarks_.Remove(group);
    queue_.Set(group, key);
  }
  void Remove(GroupIndex group) {
    queue_.Remove(group);
    landmarks_.Remove(group);
  }
  bool Contains(GroupIndex group) const {
    return queue_.Contains(group) || landmarks_.Contains(group);
  }
  bool empty() const { return queue_.empty() && landmarks_.empty(); }
  void Clear() {
    queue_.Clear();
    landmarks_.Clear();
  }
  // Must be told when a group's index may come to mean another key.
  void ForgetGroup(GroupIndex group) { landmarks_.ForgetGroup(group); }

  Landmarks& landmarks() { return landmarks_; }

  // Takes out the groups whose gradient may be `slack` (in units of the scale) or less.
  void TakeReached(double drift, double slack, std::vector<KeyedGroup>& reached) {
    queue_.TakeReached(drift + slack, reached);
    landmarks_.TakeReached(slack, reached);
  }
  // A lower bound on all gradients; +infinity when empty.
  double LowerBound(double drift) const {
    return std::min(queue_.MinKey() - drift, landmarks_.LowerBound());
  }

  friend class SolverTestPeer;  // tests look into it

 private:
  BucketQueue queue_;
  Landmarks landmarks_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_RESERVE_POOL_H_
