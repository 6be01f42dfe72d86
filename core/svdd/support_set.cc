#include "core/svdd/support_set.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lethe::svdd {
namespace {

constexpr double kUnit = 0x1p-53;
constexpr double kSingleUnit = 0x1p-24;
// A pivot squared below this share of the diagonal is noise in double-double.
constexpr double kPivotShare = 0x1p-86;

DoubleDouble Twice(DoubleDouble a) { return {2 * a.hi, 2 * a.lo}; }

// y += a x over n numbers.
void AddScaledDouble(double a, const double* x, double* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// Rows are kept with room for so many more slots.
constexpr size_t kSpareRow = 2 * kernel::PointBlocks::kWidth;
// Kernel values above it are not kept in single precision.
constexpr double kLargestKept = 1e30;

// sum x_i y_i over n numbers, n a multiple of 8; in any order of additions.
double DotDouble(const double* x, const double* y, size_t n) {
  Pack sums[2] = {};
  for (size_t i = 0; i < n; i += 2 * kLanes) {
    sums[0] = Fma(Load(x + i), Load(y + i), sums[0]);
    sums[1] = Fma(Load(x + i + kLanes), Load(y + i + kLanes), sums[1]);
  }
  double sum = 0.0;
  for (size_t lane = 0; lane < kLanes; ++lane) sum += sums[0][lane] + sums[1][lane];
  return sum;
}
double DotSingle(const float* x, const double* y, size_t n) {
  Pack sums[2] = {};
  for (size_t i = 0; i < n; i += 2 * kLanes) {
    sums[0] = Fma(LoadSingle(x + i), Load(y + i), sums[0]);
    sums[1] = Fma(LoadSingle(x + i + kLanes), Load(y + i + kLanes), sums[1]);
  }
  double sum = 0.0;
  for (size_t lane = 0; lane < kLanes; ++lane) sum += sums[0][lane] + sums[1][lane];
  return sum;
}

}  // namespace

void SupportSet::Clear() {
  entries_.clear();
  stride_ = 0;
  gram_.clear();
  gram_low_.clear();
  gram_error_.clear();
  points_.Clear();
  by_group_.clear();
  free_.clear();
  margin_.clear();
  factor_.Clear();
  rows_.Clear(0);
  weights_known_ = false;
  largest_square_ = 0.0;
  mu = {};
  reference_mu_ = {};
}

// Room for one more slot.
void SupportSet::Grow() {
  if (entries_.size() < stride_) return;
  const size_t wider = std::max<size_t>(2 * stride_, 2 * kernel::PointBlocks::kWidth);
  for (std::vector<double>* matrix : {&gram_, &gram_low_, &gram_error_}) {
    std::vector<double> copy(wider * wider);
    for (Slot slot = 0; slot < entries_.size(); ++slot) {
      std::copy_n(matrix->data() + slot * stride_, entries_.size(), copy.data() + slot * wider);
    }
    *matrix = std::move(copy);
  }
  stride_ = wider;
  weights_.assign(stride_, 0.0);
  row_.resize(stride_);
  row_low_.resize(stride_);
  row_error_.resize(stride_);
  weights_known_ = false;
}

Slot SupportSet::Add(GroupIndex group, const DoubleDouble& cap, const TokenTable& tokens) {
  weights_known_ = false;
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
    Grow();
    entries_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  const std::span<const double> key = tokens.Key(group);
  points_.Set(slot, key);
  // Longer rows than before mean new ones; a few spare numbers make that rare.
  if (points_.size() > rows_.stride()) rows_.Clear(points_.size() + kSpareRow);
  rows_.Assigned(slot, key);
  if (slot >= assignments_.size()) assignments_.resize(slot + 1);
  assignments_[slot] = ++last_assignment_;
  entries_[slot] = {.group = group, .role = Role::kDriven, .cap = cap};
  by_group_[group] = slot;
  double square = 0.0;
  for (const double coordinate : key) square += coordinate * coordinate;
  largest_square_ = std::max(largest_square_, kernel_.parameter * square);

  kernel::RowDoubleDouble(kernel_, key, points_, row_.data(), row_low_.data(), row_error_.data());
  // An equal key in rbf and laplacian gives exactly 1.
  if (kernel_.kind != kernel::KernelKind::kExpDot) row_error_[slot] = 0.0;
  for (Slot other = 0; other < entries_.size(); ++other) {
    gram_[slot * stride_ + other] = gram_[other * stride_ + slot] = row_[other];
    gram_low_[slot * stride_ + other] = gram_low_[other * stride_ + slot] = row_low_[other];
    gram_error_[slot * stride_ + other] = gram_error_[other * stride_ + slot] = row_error_[other];
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
  append_.clear();
  for (const Slot other : margin_) append_.push_back(Gram(slot, other));
  const DoubleDouble diagonal = Gram(slot, slot);
  if (!factor_.Append(append_, diagonal, DoubleDouble(diagonal.hi * kPivotShare))) return false;
  margin_.push_back(slot);
  entries_[slot].role = Role::kMargin;
  return true;
}

void SupportSet::LeaveMargin(Slot slot, Role role) {
  const auto position = std::find(margin_.begin(), margin_.end(), slot);
  LETHE_CHECK(position != margin_.end());
  factor_.Remove(static_cast<size_t>(position - margin_.begin()));
  margin_.erase(position);
  weights_known_ = false;
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

// Two solves with the factor of K_SS: w = z - (nu / 2) u, u = K^{-1} 1, z = K^{-1} b / 2; then the
// same for the residual.
void SupportSet::SolveBorderedRefined(const DdVector& b,
                                      const DoubleDouble& mass,
                                      DdVector& w,
                                      DoubleDouble& nu) const {
  const size_t size = margin_.size();
  LETHE_CHECK(size > 0 && factor_.size() == size && b.size() == size);
  unit_.Resize(size);
  for (size_t p = 0; p < size; ++p) unit_.Set(p, DoubleDouble(1.0));
  factor_.Solve(unit_);
  DoubleDouble unit_sum;
  for (size_t p = 0; p < size; ++p) unit_sum += unit_[p];

  w.Zero(size);
  nu = {};
  residual_ = b;
  DoubleDouble mass_left = mass;
  for (int pass = 0;; ++pass) {
    DoubleDouble sum;
    for (size_t p = 0; p < size; ++p) {
      residual_.Set(p, {residual_[p].hi * 0.5, residual_[p].lo * 0.5});
    }
    factor_.Solve(residual_);
    for (size_t p = 0; p < size; ++p) sum += residual_[p];
    const DoubleDouble half_step = (sum - mass_left) / unit_sum;
    nu += Twice(half_step);
    for (size_t p = 0; p < size; ++p) {
      w.Set(p, w[p] + (residual_[p] - half_step * unit_[p]));
    }
    if (pass == 1) return;
    // b - 2 K w - nu
    sums_.Zero(entries_.size());
    mass_left = mass;
    for (size_t p = 0; p < size; ++p) {
      const double* row = gram_.data() + margin_[p] * stride_;
      const double* row_low = gram_low_.data() + margin_[p] * stride_;
      AddScaled(w[p], row, row_low, sums_.high(), sums_.low(), entries_.size());
      mass_left -= w[p];
    }
    for (size_t p = 0; p < size; ++p) {
      residual_.Set(p, b[p] - Twice(sums_[margin_[p]]) - nu);
    }
  }
}

double SupportSet::SmallestEigenvalueBound() const {
  const auto n = static_cast<double>(margin_.size());
  CholeskyFactor<DoubleDouble> factor;
  std::vector<DoubleDouble> row;
  double trace = 0.0;
  double entries = 0.0;
  for (const Slot slot : margin_) {
    row.clear();
    for (size_t p = 0; p <= factor.size(); ++p) {
      entries = std::max(entries, gram_error_[slot * stride_ + margin_[p]]);
      if (p < factor.size()) row.push_back(Gram(slot, margin_[p]));
    }
    trace += gram_[slot * stride_ + slot];
    if (!factor.Append(row, Gram(slot, slot), DoubleDouble())) return 0.0;
  }
  double lower = 0.0;
  double inverse = 0.0;
  factor.Norms(&lower, &inverse);
  // Not `> 0.01`: a NaN must end here too.
  if (!(4 * n * kDoubleDoubleEpsilon * lower * inverse <= 0.01)) return 0.0;
  const double backward = 2 * (n + 3) * kDoubleDoubleEpsilon * trace;
  return std::max(0.0, 0.97 / (inverse * inverse) - backward - n * entries);
}

void SupportSet::SolveMargin() {
  DoubleDouble mass(total_);
  sums_.Zero(entries_.size());
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    const Entry& entry = entries_[slot];
    if (entry.role != Role::kError && entry.role != Role::kDriven) continue;
    mass -= entry.w;
    AddScaled(entry.w, gram_.data() + slot * stride_, gram_low_.data() + slot * stride_,
              sums_.high(), sums_.low(), entries_.size());
  }
  fixed_.Resize(margin_.size());
  for (size_t p = 0; p < margin_.size(); ++p) {
    const Slot i = margin_[p];
    fixed_.Set(p, DoubleDouble(total_) * Gram(i, i) - Twice(sums_[i]));
  }
  SolveBorderedRefined(fixed_, mass, solution_, mu);
  for (size_t p = 0; p < margin_.size(); ++p) entries_[margin_[p]].w = solution_[p];
  weights_known_ = false;
}

void SupportSet::Direction(std::span<const Driven> driven,
                           DdVector& direction,
                           DoubleDouble& dmu) const {
  const size_t size = margin_.size();
  unit_.Resize(size);
  direction.Zero(size);
  DoubleDouble rates;
  for (const auto& [slot, rate] : driven) {
    rates += rate;
    for (size_t p = 0; p < size; ++p) {
      direction.Set(p, direction[p] + rate * Gram(slot, margin_[p]));
    }
  }
  for (size_t p = 0; p < size; ++p) unit_.Set(p, DoubleDouble(1.0));
  factor_.Solve(unit_);
  factor_.Solve(direction);
  DoubleDouble unit_sum;
  DoubleDouble direction_sum;
  for (size_t p = 0; p < size; ++p) {
    unit_sum += unit_[p];
    direction_sum += direction[p];
  }
  const DoubleDouble half = (rates - direction_sum) / unit_sum;
  dmu = Twice(half);
  for (size_t p = 0; p < size; ++p) direction.Set(p, -direction[p] - half * unit_[p]);
}

void SupportSet::Slopes(std::span<const Driven> driven,
                        const DdVector& direction,
                        const DoubleDouble& dmu,
                        DdVector& slopes) const {
  slopes.Zero(entries_.size());
  const auto add = [&](DoubleDouble rate, Slot slot) {
    AddScaled(rate, gram_.data() + slot * stride_, gram_low_.data() + slot * stride_, slopes.high(),
              slopes.low(), entries_.size());
  };
  for (const auto& [slot, rate] : driven) add(rate, slot);
  for (size_t p = 0; p < margin_.size(); ++p) add(direction[p], margin_[p]);
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    slopes.Set(slot, Twice(slopes[slot]) + dmu);
  }
}

void SupportSet::FreshGradients(DdVector& gradients) const {
  gradients.Zero(entries_.size());
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    const Entry& entry = entries_[slot];
    if (entry.w == DoubleDouble()) continue;
    AddScaled(entry.w, gram_.data() + slot * stride_, gram_low_.data() + slot * stride_,
              gradients.high(), gradients.low(), entries_.size());
  }
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    gradients.Set(slot, Twice(gradients[slot]) - DoubleDouble(total_) * Gram(slot, slot) + mu);
  }
}

DoubleDouble SupportSet::FreshGradient(Slot slot) const {
  DoubleDouble sum;
  for (Slot other = 0; other < entries_.size(); ++other) {
    if (entries_[other].w == DoubleDouble()) continue;
    sum += Gram(slot, other) * entries_[other].w;
  }
  return Twice(sum) - DoubleDouble(total_) * Gram(slot, slot) + mu;
}

void SupportSet::BoundedGradients(DdVector& gradients, std::vector<double>& errors) const {
  FreshGradients(gradients);
  errors.assign(entries_.size(), 0.0);
  row_error_.assign(stride_, 0.0);  // sum of magnitudes
  size_t count = 0;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    const double w = std::abs(entries_[slot].w.hi);
    if (w == 0.0) continue;
    ++count;
    AddScaledDouble(w, gram_error_.data() + slot * stride_, errors.data(), entries_.size());
    AddScaledDouble(w, gram_.data() + slot * stride_, row_error_.data(), entries_.size());
  }
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    const double magnitude =
        2 * row_error_[slot] + total_ * gram_[slot * stride_ + slot] + std::abs(mu.hi);
    errors[slot] = 1.01 * (2 * errors[slot] + total_ * gram_error_[slot * stride_ + slot] +
                           magnitude * kDoubleDoubleEpsilon * static_cast<double>(count + 6));
  }
}

void SupportSet::KnowWeights() const {
  if (weights_known_) return;
  weight_sum_ = 0.0;
  negative_sum_ = 0.0;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    weights_[slot] = entries_[slot].w.hi;
    weight_sum_ += std::abs(weights_[slot]);
    negative_sum_ += std::max(0.0, -weights_[slot]);
  }
  weights_known_ = true;
}

std::span<const double> SupportSet::Weights() const {
  KnowWeights();
  return std::span(weights_).first(points_.size());
}

void SupportSet::RowOfKey(std::span<const double> key, std::vector<double>& row) const {
  row.resize(points_.size());
  kernel::Row(kernel_, key, points_, row.data());
}

double SupportSet::CoarseError(double sum) const {
  KnowWeights();
  const kernel::RowErrorBound bound = kernel::RowError(kernel_, points_.dimension(), 0.0, 0.0);
  const double terms = std::abs(sum) + 2 * negative_sum_;
  return 1.01 * (2 * (bound.relative * terms + bound.absolute * weight_sum_) +
                 (4 * terms + total_ + std::abs(mu.hi)) * kUnit * static_cast<double>(stride_ + 8));
}

SupportSet::Gradient SupportSet::CoarseGradient(GroupIndex group,
                                                const TokenTable& tokens,
                                                double slack,
                                                bool keep) const {
  KnowWeights();
  const std::span<const double> key = tokens.Key(group);
  double diagonal = 1.0;
  double diagonal_error = 0.0;
  double square = 0.0;
  double largest = 1.0;  // bound on a kernel value
  if (kernel_.kind == kernel::KernelKind::kExpDot) {
    const kernel::Approximate own = kernel::EvaluateDouble(kernel_, key, key);
    diagonal = own.value;
    diagonal_error = own.error * total_;
    for (const double coordinate : key) square += coordinate * coordinate;
    square *= kernel_.parameter;
    largest = std::exp(1.01 * std::sqrt(square * largest_square_));
  }
  // From sum_j row_j w_j, where row_j is within relative row_j + absolute of the kernel.
  const auto gradient = [&](double sum, double relative, double absolute) {
    const double magnitude = 2 * std::abs(sum) + total_ * diagonal + std::abs(mu.hi);
    // sum |row_j w_j| is the sum itself but for weights that rounding left below zero.
    const double terms = std::abs(sum) + 2 * largest * negative_sum_;
    const double error = 2 * (relative * terms + absolute * weight_sum_) + diagonal_error +
                         (magnitude + terms) * kUnit * static_cast<double>(stride_ + 8);
    return Gradient{DoubleDouble(2 * sum - total_ * diagonal + mu.hi), error * 1.01};
  };
  const kernel::RowErrorBound bound =
      kernel::RowError(kernel_, key.size(), square, largest_square_);

  const float* kept = largest < kLargestKept ? rows_.Find(group, kernel_, key) : nullptr;
  if (kept != nullptr) {
    const Gradient result = gradient(DotSingle(kept, weights_.data(), points_.size()),
                                     bound.relative + 2 * kSingleUnit, bound.absolute + 0x1p-149);
    if (std::abs(result.h.hi) > result.error + slack) return result;
  }
  kernel::Row(kernel_, key, points_, row_.data());
  const double sum = DotDouble(row_.data(), weights_.data(), points_.size());
  if (keep && kept == nullptr && largest < kLargestKept) {
    rows_.Add(group, std::span<const double>(row_).first(points_.size()));
  }
  return gradient(sum, bound.relative, bound.absolute);
}

SupportSet::Gradient SupportSet::FineGradient(GroupIndex group, const TokenTable& tokens) const {
  const std::span<const double> key = tokens.Key(group);
  kernel::RowDoubleDouble(kernel_, key, points_, row_.data(), row_low_.data(), row_error_.data());
  DoubleDouble sum;
  double error = 0.0;
  double terms = 0.0;
  size_t count = 0;
  for (Slot other = 0; other < entries_.size(); ++other) {
    const DoubleDouble w = entries_[other].w;
    if (w == DoubleDouble()) continue;
    sum += DoubleDouble(row_[other], row_low_[other]) * w;
    error += row_error_[other] * std::abs(w.hi);
    terms += row_[other] * std::abs(w.hi);
    ++count;
  }
  const auto diagonal = kernel::EvaluateDoubleDouble(kernel_, key, key);
  const double diagonal_error =
      kernel_.kind == kernel::KernelKind::kExpDot ? diagonal.error * total_ : 0.0;
  const DoubleDouble h = Twice(sum) - DoubleDouble(total_) * diagonal.value + mu;
  const double magnitude = 2 * terms + total_ * diagonal.value.hi + std::abs(mu.hi);
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

SupportSet::Drift SupportSet::TakeDrift() {
  // Every weight is compared, whoever may have written it.
  const bool moved_at_all =
      !(mu == reference_mu_) || std::ranges::any_of(entries_, [](const Entry& entry) {
        return !(entry.w == entry.reference_w) || entry.role == Role::kLeaving;
      });
  if (!moved_at_all) return {};
  delta_.assign(stride_, 0.0);
  row_error_.assign(stride_, 0.0);  // G delta
  double absolute = 0.0;
  size_t moved = 0;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    Entry& entry = entries_[slot];
    if (entry.role == Role::kFree) continue;
    const double difference = (entry.w - entry.reference_w).hi;
    entry.reference_w = entry.w;
    if (difference == 0.0) continue;
    ++moved;
    delta_[slot] = difference;
    absolute += std::abs(difference) * std::sqrt(gram_[slot * stride_ + slot]);
    AddScaledDouble(difference, gram_.data() + slot * stride_, row_error_.data(), entries_.size());
  }
  const double square = DotDouble(row_error_.data(), delta_.data(), stride_);
  // What rounding can have taken from the square: the terms cancel, near-duplicates almost wholly.
  const double rounding = absolute * absolute * 4 * kUnit * static_cast<double>(moved + 4);
  constexpr double kWiden = 1 + 0x1p-40;
  const Drift drift{.path = 2 * std::sqrt(std::max(square, 0.0) + rounding) * kWiden,
                    .mu = std::abs((mu - reference_mu_).hi) * kWiden};
  reference_mu_ = mu;
  for (Slot slot = 0; slot < entries_.size(); ++slot) {
    if (entries_[slot].role != Role::kLeaving) continue;
    by_group_.erase(entries_[slot].group);
    entries_[slot] = {};
    free_.push_back(slot);
  }
  return drift;
}

}  // namespace lethe::svdd
