// Kernel rows of groups that were looked at more than once, in single precision.
//
// A row holds kappa(x_group, y_slot) for all slots. Slots are given to other keys now and then;
// each row remembers how many of these assignments it has seen, and brings the rest up to date when
// it is read. Memory: up to kBytes; when that is full everything is dropped. Threads: compatible.
#ifndef LETHE_CORE_SVDD_ROW_CACHE_H_
#define LETHE_CORE_SVDD_ROW_CACHE_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/svdd/token_table.h"

namespace lethe::svdd {

class RowCache {
 public:
  static constexpr size_t kBytes = size_t{64} << 20;

  RowCache() = default;
  // A copy starts without rows: they are only a saving.
  RowCache(const RowCache& other) : stride_(other.stride_) {}
  RowCache& operator=(const RowCache& other) {
    if (this != &other) Clear(other.stride_);
    return *this;
  }
  RowCache(RowCache&&) = default;
  RowCache& operator=(RowCache&&) = default;

  // A slot now stands for another key.
  void Assigned(size_t slot) {
    if (assigned_.size() * sizeof(uint32_t) >= kBytes / 16) Clear(stride_);
    assigned_.push_back(static_cast<uint32_t>(slot));
  }
  // All rows are stale: the slots have moved.
  void Clear(size_t stride) {
    stride_ = stride;
    rows_.clear();
    row_of_.clear();
    seen_.clear();
    free_.clear();
    assigned_.clear();
  }
  void Drop(GroupIndex group) {
    if (group >= row_of_.size() || row_of_[group] == kNone) return;
    free_.push_back(row_of_[group]);
    row_of_[group] = kNone;
  }

  // The row of a group, or null; `stale` are the slots whose entries are out of date, to be
  // refreshed by the caller before it calls anything else here.
  float* Find(GroupIndex group, std::span<const uint32_t>& stale) {
    if (group >= row_of_.size() || row_of_[group] == kNone) return nullptr;
    const uint32_t row = row_of_[group];
    // More assignments than entries: computing all of them anew is as good.
    if (assigned_.size() - seen_[row] > stride_) {
      Drop(group);
      return nullptr;
    }
    stale = std::span(assigned_).subspan(seen_[row]);
    seen_[row] = assigned_.size();
    return rows_.data() + row * stride_;
  }

  // A place for a group's row, up to date as of now. The group must not have one.
  float* Add(GroupIndex group) {
    if (free_.empty() && (seen_.size() + 1) * stride_ * sizeof(float) > kBytes) Clear(stride_);
    if (group >= row_of_.size()) row_of_.resize(group + 1, kNone);
    uint32_t row = static_cast<uint32_t>(seen_.size());
    if (free_.empty()) {
      seen_.push_back(0);
      rows_.resize(rows_.size() + stride_);
    } else {
      row = free_.back();
      free_.pop_back();
    }
    row_of_[group] = row;
    seen_[row] = assigned_.size();
    return rows_.data() + row * stride_;
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  size_t stride_ = 0;
  std::vector<float> rows_;
  std::vector<uint32_t> row_of_;    // by group
  std::vector<size_t> seen_;        // by row: how much of assigned_ it knows
  std::vector<uint32_t> free_;      // rows without a group
  std::vector<uint32_t> assigned_;  // slots, in the order in which they were given to other keys
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_ROW_CACHE_H_
