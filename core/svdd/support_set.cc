#include "core/svdd/support_set.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lethe::svdd {
namespace {

constexpr double kUnit = 0x1p-53;
// A pivot squared below this share of the diagonal is noise in double-double.
constexpr double kPivotShare = 0x1p-86;

}  // namespace

void SupportSet::Clear() {
  entries_.clear();
  gram_.clear();
  gram_error_.clear();
  keys_.clear();
  by_group_.clear();
  free_.clear();
  margin_.clear();
  factor_.Clear();
  mu = {};
  reference_mu_ = {};
}

Slot SupportSet::Add(GroupIndex group, const DoubleDouble& cap, const TokenTable& tokens) {
  const auto found = by_group_.find(group);
  if (found != by_group_.end()) {
    // It left and returns before its slot was freed.
    Entry& entry = entries_[found->second];
    LETHE_CHECK(entry.role == Role::kLeaving);
    entry.role = Role::kDriven;
    entry.cap = cap;
    return found->second;
  }
  Slot slot = entries_.size();
  if (free_.empty()) {
    entries_.emplace_back();
    keys_.emplace_back();
    for (auto& row : gram_) row.emplace_back();
    for (auto& row : gram_error_) row.emplace_back();
    gram_.emplace_back(entries_.size());
    gram_error_.emplace_back(entries_.size());
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  const std::span<const double> key = tokens.Key(group);
  keys_[slot].assign(key.begin(), key.end());
  entries_[slot] = {.group = group, .role = Role::kDriven, .cap = cap};
  by_group_[group] = slot;
  for (Slot other = 0; other < entries_.size(); ++other) {
    if (entries_[other].role == Role::kFree) continue;
    const auto value = kernel::EvaluateDoubleDouble(kernel_, keys_[slot], keys_[other]);
    gram_[slot][other] = gram_[other][slot] = value.value;
    // An equal key in rbf and laplacian gives exactly 1.
    const bool exact = slot == other && kernel_.kind != kernel::KernelKind::kExpDot;
    gram_error_[slot][other] = gram_error_[other][slot] = exact ? 0.0 : value.error;
  }
  return slot;
}

std::optional<Slot> SupportSet::Find(GroupIndex group) const {
  const auto found = by_group_.find(group);
  if (found == by_group_.end() || entries_[found->second].role == Role::kLeaving) {
    return std::nullopt;
  }
  return found->second;
}

bool SupportSet::EnterMargin(Slot slot) {
  std::vector<DoubleDouble> row;
  row.reserve(margin_.size() + 1);
  for (const Slot other : margin_) row.push_back(gram_[slot][other]);
  const DoubleDouble& diagonal = gram_[slot][slot];
  if (!factor_.Append(std::move(row), diagonal, DoubleDouble(diagonal.hi * kPivotShare)))
    return false;
  margin_.push_back(slot);
  entries_[slot].role = Role::kMargin;
  return true;
}

void SupportSet::LeaveMargin(Slot slot, Role role) {
  const auto position = std::find(margin_.begin(), margin_.end(), slot);
  LETHE_CHECK(position != margin_.end());
  factor_.Remove(static_cast<size_t>(position - margin_.begin()));
  margin_.erase(position);
  Entry& entry = entries_[slot];
  entry.role = role;
  if (role == Role::kError) entry.w = entry.cap;
  if (role == Role::kLeaving) entry.w = {};
}

bool SupportSet::RebuildFactor(std::vector<Slot> margin) {
  factor_.Clear();
  margin_.clear();
  for (const Slot slot : margin) {
    if (!EnterMargin(slot)) {
      factor_.Clear();
      margin_ = std::move(margin);
      for (const Slot member : margin_) entries_[member].role = Role::kMargin;
      return false;
    }
  }
  return true;
}

void SupportSet::SolveBorderedRefined(const std::vector<DoubleDouble>& b,
                                      const DoubleDouble& mass,
                                      std::vector<DoubleDouble>& w,
                                      DoubleDouble& nu) const {
  SolveBordered(factor_, b, mass, w, nu);
  std::vector<DoubleDouble> residual;
  DoubleDouble mass_left = mass;
  for (size_t p = 0; p < margin_.size(); ++p) {
    DoubleDouble value = b[p] - nu;
    for (size_t q = 0; q < margin_.size(); ++q) {
      SubtractProduct(value, gram_[margin_[p]][margin_[q]], {2 * w[q].hi, 2 * w[q].lo});
    }
    residual.push_back(value);
    mass_left -= w[p];
  }
  std::vector<DoubleDouble> step;
  DoubleDouble nu_step;
  SolveBordered(factor_, std::move(residual), mass_left, step, nu_step);
  nu += nu_step;
  for (size_t p = 0; p < margin_.size(); ++p) w[p] += step[p];
}

void SupportSet::SolveMargin() {
  LETHE_CHECK(!margin_.empty() && factor_.size() == margin_.size());
  std::vector<DoubleDouble> fixed;  // total K_ii - 2 K_iE cap
  DoubleDouble mass(total_);
  std::vector<Slot> others;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    const Entry& entry = entries_[slot];
    if (entry.role == Role::kError || entry.role == Role::kDriven) {
      others.push_back(slot);
      mass -= entry.w;
    }
  }
  for (const Slot i : margin_) {
    DoubleDouble value = DoubleDouble(total_) * gram_[i][i];
    for (const Slot j : others) {
      SubtractProduct(value, gram_[i][j], {2 * entries_[j].w.hi, 2 * entries_[j].w.lo});
    }
    fixed.push_back(value);
  }
  std::vector<DoubleDouble> w;
  SolveBorderedRefined(fixed, mass, w, mu);
  for (size_t p = 0; p < margin_.size(); ++p) entries_[margin_[p]].w = w[p];
}

DoubleDouble SupportSet::FreshGradient(Slot slot) const {
  DoubleDouble sum;
  for (Slot other = 0; other < entries_.size(); ++other) {
    const Entry& entry = entries_[other];
    if (entry.role == Role::kFree || entry.role == Role::kLeaving) continue;
    sum += gram_[slot][other] * entry.w;
  }
  return DoubleDouble(2 * sum.hi, 2 * sum.lo) - DoubleDouble(total_) * gram_[slot][slot] + mu;
}

SupportSet::Gradient SupportSet::BoundedGradient(Slot slot) const {
  double magnitude = total_ * gram_[slot][slot].hi + std::abs(mu.hi);
  double error = total_ * gram_error_[slot][slot];
  size_t count = 0;
  for (Slot other = 0; other < entries_.size(); ++other) {
    const Entry& entry = entries_[other];
    if (entry.role == Role::kFree || entry.role == Role::kLeaving) continue;
    const double w = std::abs(entry.w.hi);
    magnitude += 2 * gram_[slot][other].hi * w;
    error += 2 * gram_error_[slot][other] * w;
    ++count;
  }
  error += magnitude * kDoubleDoubleEpsilon * static_cast<double>(count + 6);
  return {FreshGradient(slot), error * 1.01};
}

SupportSet::Gradient SupportSet::CoarseGradient(GroupIndex group, const TokenTable& tokens) const {
  const std::span<const double> key = tokens.Key(group);
  double sum = 0.0;
  double error = 0.0;
  size_t count = 0;
  for (Slot other = 0; other < entries_.size(); ++other) {
    const Entry& entry = entries_[other];
    if (entry.role == Role::kFree || entry.role == Role::kLeaving) continue;
    const auto value = kernel::EvaluateDouble(kernel_, key, keys_[other]);
    const double w = std::abs(entry.w.hi);
    sum += value.value * entry.w.hi;
    error += value.error * w;
    ++count;
  }
  const double diagonal = kernel::Diagonal(kernel_, key);
  const double diagonal_error = kernel_.kind == kernel::KernelKind::kExpDot
                                    ? kernel::EvaluateDouble(kernel_, key, key).error * total_
                                    : 0.0;
  const double magnitude = 2 * sum + total_ * diagonal + std::abs(mu.hi);
  error = 2 * error + diagonal_error + magnitude * kUnit * static_cast<double>(count + 8);
  return {DoubleDouble(2 * sum - total_ * diagonal + mu.hi), error * 1.01};
}

SupportSet::Gradient SupportSet::FineGradient(GroupIndex group, const TokenTable& tokens) const {
  const std::span<const double> key = tokens.Key(group);
  DoubleDouble sum;
  double error = 0.0;
  size_t count = 0;
  for (Slot other = 0; other < entries_.size(); ++other) {
    const Entry& entry = entries_[other];
    if (entry.role == Role::kFree || entry.role == Role::kLeaving) continue;
    const auto value = kernel::EvaluateDoubleDouble(kernel_, key, keys_[other]);
    sum += value.value * entry.w;
    error += value.error * std::abs(entry.w.hi);
    ++count;
  }
  const auto diagonal = kernel::EvaluateDoubleDouble(kernel_, key, key);
  const double diagonal_error =
      kernel_.kind == kernel::KernelKind::kExpDot ? diagonal.error * total_ : 0.0;
  const DoubleDouble h =
      DoubleDouble(2 * sum.hi, 2 * sum.lo) - DoubleDouble(total_) * diagonal.value + mu;
  const double magnitude = 2 * sum.hi + total_ * diagonal.value.hi + std::abs(mu.hi);
  error = 2 * error + diagonal_error +
          magnitude * kDoubleDoubleEpsilon * static_cast<double>(count + 8);
  return {h, error * 1.01};
}

bool SupportSet::HasError() const {
  return std::ranges::any_of(entries_,
                             [](const Entry& entry) { return entry.role == Role::kError; });
}

void SupportSet::SetMuToUpperEnd() {
  LETHE_CHECK(margin_.empty());
  mu = {};
  bool any = false;
  DoubleDouble upper;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    if (entries_[slot].role != Role::kError) continue;
    const DoubleDouble end = -FreshGradient(slot);
    if (!any || end < upper) upper = end;
    any = true;
  }
  LETHE_CHECK(any);
  mu = upper;
}

double SupportSet::TakeDrift() {
  std::vector<Slot> moved;
  std::vector<double> delta;
  double absolute = 0.0;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    Entry& entry = entries_[slot];
    if (entry.role == Role::kFree) continue;
    const double difference = (entry.w - entry.reference_w).hi;
    entry.reference_w = entry.w;
    if (difference == 0.0) continue;
    moved.push_back(slot);
    delta.push_back(difference);
    absolute += std::abs(difference) * std::sqrt(gram_[slot][slot].hi);
  }
  double square = 0.0;
  for (size_t p = 0; p < moved.size(); ++p) {
    double sum = 0.0;
    for (size_t q = 0; q < moved.size(); ++q) sum += gram_[moved[p]][moved[q]].hi * delta[q];
    square += sum * delta[p];
  }
  // What rounding can have taken from the square: the terms cancel, near-duplicates almost wholly.
  square = std::max(square, 0.0) +
           absolute * absolute * 4 * kUnit * static_cast<double>(moved.size() + 4);
  const double drift = 2 * std::sqrt(square) + std::abs((mu - reference_mu_).hi);
  reference_mu_ = mu;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    if (entries_[slot].role != Role::kLeaving) continue;
    by_group_.erase(entries_[slot].group);
    entries_[slot] = {};
    free_.push_back(slot);
  }
  return drift * (1 + 0x1p-40);
}

}  // namespace lethe::svdd
