#include "core/svdd/landmarks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/check.h"

namespace lethe::svdd {
namespace {

// A key further than this from every landmark becomes one, while there is room.
constexpr double kNear = 0.3;
constexpr double kVeryNear = 0.13;
// What a row's error can add to 2 - 2 kappa, generously.
constexpr double kSquareError = 1e-11;

// Every ring is 1 / sqrt(2) as wide as the one before; the first holds everything.
double RingRadius(uint32_t ring) {
  constexpr double kSquareRootOfTwo = 1.4143;  // rounded up
  const double power = 1.0 / static_cast<double>(1U << (ring / 2));
  return ring % 2 == 0 ? kSquareRootOfTwo * power : power;
}

}  // namespace

void Landmarks::Clear() {
  points_.Clear();
  count_ = 0;
  misses_ = 0;
  columns_.clear();
  known_.clear();
  gradients_.clear();
  cells_.clear();
  occupied_.clear();
  bound_ = kInfinity;
  places_.clear();
  size_ = 0;
  path_ = 0.0;
}

void Landmarks::Remove(GroupIndex group) {
  if (!Contains(group)) return;
  Place& place = places_[group];
  std::vector<KeyedGroup>& groups = cells_[place.cell].groups;
  groups[place.index] = groups.back();
  groups.pop_back();
  if (place.index < groups.size()) places_[groups[place.index].group].index = place.index;
  place.cell = kNowhere;
  --size_;
}

void Landmarks::ForgetGroup(GroupIndex group) {
  LETHE_CHECK(!Contains(group));
  if (group < places_.size()) places_[group] = {};
}

void Landmarks::Follow(const SupportSet& supports, const TokenTable& tokens, double path) {
  path_ = path;
  if (count_ == 0) return;
  const std::span<const double> weights = supports.Weights();
  columns_.resize(weights.size());
  known_.resize(weights.size());
  std::ranges::fill(gradients_, 0.0);
  double largest = 0.0;
  for (Slot slot = 0; slot < supports.slots(); ++slot) {
    if (supports[slot].role == SupportSet::Role::kFree) continue;
    std::vector<double>& column = columns_[slot];
    if (known_[slot] != supports.Assignment(slot)) {
      column.resize(points_.size());
      kernel::Row(kernel_, tokens.Key(supports[slot].group), points_, column.data());
      known_[slot] = supports.Assignment(slot);
    }
    const double w = weights[slot];
    if (w == 0.0) continue;
    for (uint32_t z = 0; z < count_; ++z) gradients_[z] += w * column[z];
  }
  for (uint32_t z = 0; z < count_; ++z) largest = std::max(largest, std::abs(gradients_[z]));
  for (double& gradient : gradients_) gradient = 2 * gradient - supports.total() + supports.mu.hi;
  gradient_error_ = supports.CoarseError(largest);
  FindBound();
}

double Landmarks::Clock(uint32_t cell) const {
  const double radius = RingRadius(cell % kRings);
  return radius * path_ * (1 + 0x1p-49) - (gradients_[cell / kRings] - gradient_error_);
}

Landmarks::Nearest Landmarks::FindNearest(std::span<const double> key) {
  if (count_ == 0) return {0, 2.0};
  row_.resize(points_.size());
  kernel::Row(kernel_, key, points_, row_.data());
  const auto nearest =
      static_cast<uint32_t>(std::max_element(row_.begin(), row_.begin() + count_) - row_.begin());
  return {nearest, std::sqrt(std::max(0.0, 2 - 2 * row_[nearest]) + kSquareError)};
}

bool Landmarks::HasNear(std::span<const double> key) {
  const auto [landmark, distance] = FindNearest(key);
  if (distance > kVeryNear) return false;
  for (uint32_t ring = 0; ring < kRings; ++ring) {
    if (RingRadius(ring) <= kVeryNear && !cells_[landmark * kRings + ring].groups.empty()) {
      return true;
    }
  }
  return false;
}

uint32_t Landmarks::FindHome(std::span<const double> key, const SupportSet& supports) {
  auto [nearest, distance] = FindNearest(key);
  if (distance > kNear && count_ < kMost) {
    nearest = count_++;
    distance = 0.0;
    points_.Set(nearest, key);
    gradients_.resize(count_);
    cells_.resize(count_ * kRings);
    double sum = 0.0;
    supports.RowOfKey(key, row_);
    const std::span<const double> weights = supports.Weights();
    for (Slot slot = 0; slot < columns_.size(); ++slot) {
      columns_[slot].resize(points_.size());
      columns_[slot][nearest] = row_[slot];
    }
    for (Slot slot = 0; slot < weights.size(); ++slot) sum += row_[slot] * weights[slot];
    gradients_[nearest] = 2 * sum - supports.total() + supports.mu.hi;
    gradient_error_ = std::max(gradient_error_, supports.CoarseError(sum));
  }
  if (distance > kNear) ++misses_;
  uint32_t ring = 0;
  while (ring + 1 < kRings && RingRadius(ring + 1) >= distance) ++ring;
  return nearest * kRings + ring;
}

void Landmarks::Put(GroupIndex group,
                    double h,
                    const SupportSet& supports,
                    const TokenTable& tokens) {
  LETHE_CHECK(!Contains(group));
  if (group >= places_.size()) places_.resize(group + 1);
  Place& place = places_[group];
  if (place.home == kNowhere) place.home = FindHome(tokens.Key(group), supports);
  place.cell = place.home;
  Cell& cell = cells_[place.cell];
  const double key = h - (gradients_[place.cell / kRings] + gradient_error_) +
                     RingRadius(place.cell % kRings) * path_ * (1 - 0x1p-49);
  place.index = static_cast<uint32_t>(cell.groups.size());
  cell.groups.push_back({key, group});
  cell.least = std::min(cell.least, key);
  if (!cell.occupied) occupied_.push_back(place.cell);
  cell.occupied = true;
  bound_ = std::min(bound_, key - Clock(place.cell));
  ++size_;
}

void Landmarks::TakeReached(double slack, std::vector<KeyedGroup>& reached) {
  if (bound_ > slack) return;
  for (const uint32_t number : occupied_) {
    Cell& cell = cells_[number];
    const double threshold = Clock(number) + slack;
    if (cell.least > threshold) continue;
    cell.least = kInfinity;
    for (size_t i = 0; i < cell.groups.size();) {
      const KeyedGroup item = cell.groups[i];
      if (item.key > threshold) {
        cell.least = std::min(cell.least, item.key);
        ++i;
      } else {
        reached.push_back(item);
        Remove(item.group);
      }
    }
  }
  FindBound();
}

void Landmarks::Dissolve(std::vector<KeyedGroup>& bounds) {
  for (const uint32_t number : occupied_) {
    for (const KeyedGroup& item : cells_[number].groups) {
      bounds.push_back({item.key - Clock(number), item.group});
    }
  }
  Clear();
}

void Landmarks::FindBound() {
  bound_ = kInfinity;
  for (size_t i = 0; i < occupied_.size();) {
    Cell& cell = cells_[occupied_[i]];
    if (cell.groups.empty()) {
      cell.least = kInfinity;
      cell.occupied = false;
      occupied_[i] = occupied_.back();
      occupied_.pop_back();
      continue;
    }
    bound_ = std::min(bound_, cell.least - Clock(occupied_[i]));
    ++i;
  }
}

}  // namespace lethe::svdd
