#include "core/svdd/bucket_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lethe::svdd {

uint32_t BucketQueue::IndexOf(double number) {
  return static_cast<uint32_t>(std::fmod(number, static_cast<double>(kBuckets)));
}

uint32_t BucketQueue::BucketOf(double key) const {
  const double number = std::max(std::floor(key / width_), base_);
  return number < base_ + static_cast<double>(kBuckets) ? IndexOf(number) : uint32_t{kBuckets};
}

void BucketQueue::Put(KeyedGroup item) {
  const uint32_t bucket = BucketOf(item.key);
  places_[item.group] = {bucket, static_cast<uint32_t>(buckets_[bucket].size())};
  buckets_[bucket].push_back(item);
  if (bucket == kBuckets) far_min_ = std::min(far_min_, item.key);
  least_ = std::min(least_, item.key);
}

void BucketQueue::Set(GroupIndex group, double key) {
  Remove(group);
  if (group >= places_.size()) places_.resize(group + 1);
  Put({key, group});
  ++size_;
}

void BucketQueue::Remove(GroupIndex group) {
  if (!Contains(group)) return;
  const Place place = std::exchange(places_[group], Place());
  std::vector<KeyedGroup>& bucket = buckets_[place.bucket];
  if (bucket[place.index].key <= least_) least_known_ = false;
  bucket[place.index] = bucket.back();
  bucket.pop_back();
  if (place.index < bucket.size()) places_[bucket[place.index].group].index = place.index;
  --size_;
}

void BucketQueue::Clear() {
  for (std::vector<KeyedGroup>& bucket : buckets_) bucket.clear();
  places_.clear();
  base_ = 0.0;
  far_min_ = std::numeric_limits<double>::infinity();
  size_ = 0;
  least_ = std::numeric_limits<double>::infinity();
  least_known_ = true;
}

// Looks again at the groups beyond the buckets, whose range has moved on.
void BucketQueue::SpreadFar() {
  std::vector<KeyedGroup> far = std::exchange(buckets_[kBuckets], {});
  far_min_ = std::numeric_limits<double>::infinity();
  for (const KeyedGroup& item : far) Put(item);
}

void BucketQueue::TakeReached(double threshold, std::vector<KeyedGroup>& reached) {
  const double last = std::max(std::floor(threshold / width_), base_);
  const auto take = [&](std::vector<KeyedGroup>& bucket) {
    for (size_t i = 0; i < bucket.size();) {
      if (bucket[i].key > threshold) {
        ++i;
        continue;
      }
      reached.push_back(bucket[i]);
      Remove(bucket[i].group);
    }
    // Each bucket may have held everything once; its room is not kept.
    if (bucket.empty() && bucket.capacity() > kKeptCapacity) std::vector<KeyedGroup>().swap(bucket);
  };
  const double steps = std::min(last - base_, static_cast<double>(kBuckets - 1));
  for (double step = 0.0; step <= steps; ++step) take(buckets_[IndexOf(base_ + step)]);
  if (threshold >= far_min_) {
    take(buckets_[kBuckets]);
    far_min_ = std::numeric_limits<double>::infinity();
    for (const KeyedGroup& item : buckets_[kBuckets]) far_min_ = std::min(far_min_, item.key);
  }
  // What was known may have been no group's key, only a bound on the far ones.
  if (threshold >= least_) least_known_ = false;
  base_ = last;
  // The last bucket's range is now within the others'.
  if (far_min_ < (base_ + static_cast<double>(kBuckets / 2)) * width_) SpreadFar();
}

double BucketQueue::MinKey() const {
  if (!least_known_) least_ = FindLeast();
  least_known_ = true;
  return least_;
}

double BucketQueue::FindLeast() const {
  double least = buckets_[kBuckets].empty() ? std::numeric_limits<double>::infinity() : far_min_;
  if (buckets_[kBuckets].size() == size_) return least;
  const size_t first = IndexOf(base_);
  for (size_t step = 0; step < kBuckets; ++step) {
    const std::vector<KeyedGroup>& bucket = buckets_[(first + step) % kBuckets];
    if (bucket.empty()) continue;
    for (const KeyedGroup& item : bucket) least = std::min(least, item.key);
    break;
  }
  return least;
}

}  // namespace lethe::svdd
