// Kernel rows of groups that were looked at more than once, in single precision.
//
// A row holds kappa(x_group, y_slot) for all slots. Slots are given to other keys now and then;
// each row remembers how many of these assignments it has seen, and brings the rest up to date when
// it is read. Memory: up to kBytes; when that is full everything is dropped. Threads: compatible.
#ifndef LETHE_CORE_SVDD_ROW_CACHE_H_
#define LETHE_CORE_SVDD_ROW_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/kernel/row.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

class RowCache {
 public:
  static constexpr size_t kBytes = size_t{80} << 20;

  explicit RowCache(size_t dimension) : assigned_keys_(dimension) {}
  // A copy starts without rows: they are only a saving.
  RowCache(const RowCache& other)
      : stride_(other.stride_), assigned_keys_(other.assigned_keys_.dimension()) {}
  RowCache& operator=(const RowCache& other) {
    if (this != &other) *this = RowCache(other);
    return *this;
  }
  RowCache(RowCache&&) = default;
  RowCache& operator=(RowCache&&) = default;

  size_t stride() const { return stride_; }
  // Drops all rows; those to come have `stride` numbers.
  void Clear(size_t stride) {
    stride_ = stride;
    rows_.clear();
    row_of_.clear();
    seen_.clear();
    free_.clear();
    assigned_.clear();
    assigned_keys_.Clear();
  }
  void Drop(GroupIndex group) {
    if (group >= row_of_.size() || row_of_[group] == kNone) return;
    free_.push_back(row_of_[group]);
    row_of_[group] = kNone;
  }

  // A slot now stands for this key.
  void Assigned(size_t slot, std::span<const double> key) {
    if (assigned_.size() == MostAssigned()) Clear(stride_);
    assigned_keys_.Set(assigned_.size(), key);
    assigned_.push_back(static_cast<uint32_t>(slot));
  }

  // The row of a group, brought up to date; null when there is none.
  const float* Find(GroupIndex group, const kernel::Kernel& kernel, std::span<const double> key) {
    if (group >= row_of_.size() || row_of_[group] == kNone) return nullptr;
    const uint32_t row = row_of_[group];
    float* values = rows_.data() + row * stride_;
    if (seen_[row] == assigned_.size()) return values;
    // More assignments than entries: computing all of them anew is as good.
    if (assigned_.size() - seen_[row] > stride_) {
      Drop(group);
      return nullptr;
    }
    constexpr size_t kWidth = kernel::PointBlocks::kWidth;
    const size_t first = seen_[row] / kWidth;
    const size_t last = (assigned_.size() + kWidth - 1) / kWidth;
    fresh_.resize((last - first) * kWidth);
    kernel::RowOfBlocks(kernel, key, assigned_keys_, first, last, fresh_.data());
    for (size_t i = seen_[row]; i < assigned_.size(); ++i) {
      values[assigned_[i]] = static_cast<float>(fresh_[i - first * kWidth]);
    }
    seen_[row] = assigned_.size();
    return values;
  }

  // Keeps a group's row, which is up to date as of now. The group must not have one here.
  void Add(GroupIndex group, std::span<const double> values) {
    if (free_.empty() && (seen_.size() + 1) * stride_ * sizeof(float) > kBytes / 5 * 4)
      Clear(stride_);
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
    float* to = rows_.data() + row * stride_;
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<float>(values[i]);
  }

 private:
  size_t MostAssigned() const {
    const size_t bytes = std::max<size_t>(1, assigned_keys_.dimension()) * sizeof(double);
    return std::min<size_t>(8192, kBytes / 5 / bytes);
  }
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  size_t stride_ = 0;
  std::vector<float> rows_;
  std::vector<uint32_t> row_of_;       // by group
  std::vector<size_t> seen_;           // by row: how much of assigned_ it knows
  std::vector<uint32_t> free_;         // rows without a group
  std::vector<uint32_t> assigned_;     // slots, in the order in which they were given to other keys
  kernel::PointBlocks assigned_keys_;  // their keys
  std::vector<double> fresh_;          // scratch
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_ROW_CACHE_H_
