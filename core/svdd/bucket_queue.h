// Groups ordered by a key, cheap where most keys lie in one range that moves upwards.
//
// Groups stand in buckets of equal width; what lies beyond the last bucket waits in one of its own.
// O(1) a Set or Remove; MinKey looks at buckets from the first on where the smallest key has left
// since; taking out what a rising threshold has reached O(1) a group and bucket. About 28 bytes a
// group. Threads: compatible.
#ifndef LETHE_CORE_SVDD_BUCKET_QUEUE_H_
#define LETHE_CORE_SVDD_BUCKET_QUEUE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/huge_pages.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

// A group and its key.
struct KeyedGroup {
  double key;
  GroupIndex group;
};

class BucketQueue {
 public:
  // `range`: most keys are at most this far above the threshold.
  explicit BucketQueue(double range) : width_(range / (kBuckets / 2)), buckets_(kBuckets + 1) {}

  void Set(GroupIndex group, double key);
  void Remove(GroupIndex group);
  bool Contains(GroupIndex group) const {
    return group < places_.size() && places_[group].bucket != kNowhere;
  }
  void Clear();
  bool empty() const { return size_ == 0; }

  // Takes out every group whose key is at most `drift` and appends it to `reached`, in an order
  // that depends on the calls so far.
  void TakeReached(double threshold, std::vector<KeyedGroup>& reached);
  // Not above the smallest key; equal to it while no group stands beyond the buckets. +infinity
  // when empty.
  double MinKey() const;

 private:
  static constexpr size_t kBuckets = 4096;
  static constexpr size_t kKeptCapacity = 16;
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
  struct Place {
    uint32_t bucket = kNowhere;
    uint32_t index = 0;
  };

  static uint32_t IndexOf(double number);
  uint32_t BucketOf(double key) const;
  void Put(KeyedGroup item);
  void SpreadFar();
  double FindLeast() const;

  double width_;
  double base_ = 0.0;  // number of the first bucket; a key's number is floor(key / width)
  std::vector<std::vector<KeyedGroup>>
      buckets_;  // numbers modulo kBuckets, and the far ones at the end
  double far_min_ = std::numeric_limits<double>::infinity();  // not above any far key
  std::vector<Place, HugePageAllocator<Place>> places_;       // by group
  size_t size_ = 0;
  // The smallest key, while it is known; not above it otherwise.
  mutable double least_ = std::numeric_limits<double>::infinity();
  mutable bool least_known_ = true;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_BUCKET_QUEUE_H_
