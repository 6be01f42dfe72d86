#include "core/svdd/mp_rung.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/svdd/ladder.h"

namespace lethe::svdd {
namespace {

// Corrections end when one makes the residual smaller by less than this.
constexpr long kLeastGain = 4;
// ... and were worth nothing when all together do not by this.
constexpr long kLeastTotalGain = 8;

MpReal Largest(const std::vector<MpReal>& numbers, const MpReal& other) {
  MpReal largest = Abs(other);
  for (const MpReal& number : numbers) {
    MpReal magnitude = Abs(number);
    if (magnitude > largest) largest = std::move(magnitude);
  }
  return largest;
}

// To the precision of the current scope.
MpReal Rounded(const MpReal& a) { return a + MpReal(0.0); }

}  // namespace

const kernel::ApproximateMp& MpKernelValues::Of(GroupIndex a, GroupIndex b) {
  std::unique_ptr<kernel::ApproximateMp>& value =
      by_bits_[PrecisionScope::bits()][(uint64_t{std::min(a, b)} << 32) | std::max(a, b)];
  if (value == nullptr) {
    value = std::make_unique<kernel::ApproximateMp>(
        kernel::EvaluateMp(kernel_, tokens_.Key(a), tokens_.Key(b)));
  }
  return *value;
}

MpRung::MpRung(MpKernelValues& values,
               double total,
               const SupportSet& supports,
               bool factor_usable,
               int bits,
               int tie_bits,
               std::unique_ptr<MpRung> below)
    : values_(values),
      total_(total),
      supports_(supports),
      factor_usable_(factor_usable),
      bits_(bits),
      tie_bits_(tie_bits),
      unit_(MpReal::PowerOfTwo(-bits)),
      mu_(supports.mu) {
  const auto add = [&](Slot slot, bool margin) {
    const SupportSet::Entry& entry = supports[slot];
    groups_.push_back(entry.group);
    weights_.push_back(MpReal(entry.w));
    const double diagonal = values_.Diagonal(entry.group);
    scales_.push_back(std::max(1.0, std::sqrt(diagonal) * (1 + 0x1p-30)));
    if (margin) kmax_ = std::max(kmax_, diagonal * (1 + 0x1p-30));
  };
  // The margin first, in the order of the walk's factor.
  for (const Slot slot : supports.margin()) add(slot, true);
  margin_ = groups_.size();
  for (Slot slot = 0; slot < supports.slots(); ++slot) {
    if (supports[slot].role == SupportSet::Role::kError) add(slot, false);
  }
  gram_.assign(margin_ * margin_, nullptr);
  if (below != nullptr && below->factor_usable_ == factor_usable_ &&
      std::ranges::equal(below->margin_groups(), margin_groups())) {
    below_ = std::move(below);
  }
}

const kernel::ApproximateMp& MpRung::Gram(size_t p, size_t q) {
  const kernel::ApproximateMp*& known = gram_[p * margin_ + q];
  if (known == nullptr) {
    known = gram_[q * margin_ + p] = &values_.Of(groups_[p], groups_[q]);
    units_ = std::max(units_, known->units);
  }
  return *known;
}

bool MpRung::Prepare() {
  if (prepared_) return lambda_ > MpReal(0.0);
  prepared_ = true;
  if (bits_ > kLadder[0]) {
    if (below_ == nullptr) {
      const PrecisionScope scope(bits_ / 2);
      below_ = std::make_unique<MpRung>(values_, total_, supports_, factor_usable_, bits_ / 2,
                                        tie_bits_, nullptr);
    }
    const PrecisionScope scope(bits_ / 2);
    if (below_->Prepare()) {
      lambda_ = below_->lambda_;
      return true;
    }
    below_ = nullptr;
  } else if (factor_usable_) {
    lambda_ = MpReal(supports_.SmallestEigenvalueBound());
    by_walk_ = lambda_ > MpReal(0.0);
    if (by_walk_) return true;
  }
  return MakeFactor();
}

bool MpRung::MakeFactor() {
  auto factor = std::make_unique<CholeskyFactor<MpReal>>();
  const MpReal kmax(kmax_);
  lambda_ = MpReal(0.0);
  for (size_t p = 0; p < margin_; ++p) {
    std::vector<MpReal> row;
    for (size_t q = 0; q < p; ++q) row.push_back(Gram(p, q).value);
    const MpReal& diagonal = Gram(p, p).value;
    if (!factor->Append(std::move(row), diagonal, diagonal * MpReal::PowerOfTwo(40 - bits_))) {
      return false;
    }
  }
  const auto n = static_cast<double>(margin_);
  // Errors of the entries and of the factorisation, as in eigenvalue.h, and of the inverse's
  // norm.
  MpReal lambda = MpReal(0.97) * factor->SmallestEigenvalueBound() -
                  MpReal(n * (units_ + 2 * n + 8)) * unit_ * kmax;
  if (!(lambda > MpReal(0.0))) return false;
  lambda_ = std::move(lambda);
  factor_ = std::move(factor);
  return true;
}

std::optional<MpRung::Solution> MpRung::Correction(const System& system) {
  if (factor_ != nullptr) {
    Solution result;
    SolveBordered(*factor_, system.r, system.mass, result.w, result.nu);
    return result;
  }
  if (by_walk_) return CorrectionByWalk(system);
  const PrecisionScope scope(bits_ / 2);
  System rounded;
  for (const MpReal& number : system.r) rounded.r.push_back(Rounded(number));
  rounded.mass = Rounded(system.mass);
  return below_->Solve(rounded, nullptr);
}

std::optional<MpRung::Solution> MpRung::CorrectionByWalk(const System& system) const {
  const MpReal largest = Largest(system.r, system.mass);
  const MpReal up = MpReal::PowerOfTwo(Exponent(largest));
  const MpReal down = MpReal::PowerOfTwo(-Exponent(largest));
  DdVector b;
  DdVector w;
  DoubleDouble nu;
  b.Resize(margin_);
  for (size_t p = 0; p < margin_; ++p) b.Set(p, ToDoubleDouble(system.r[p] * down));
  supports_.SolveBorderedRefined(b, ToDoubleDouble(system.mass * down), w, nu);
  Solution result;
  for (size_t p = 0; p < margin_; ++p) {
    if (!std::isfinite(w[p].hi)) return std::nullopt;
    result.w.push_back(MpReal(w[p]) * up);
  }
  if (!std::isfinite(nu.hi)) return std::nullopt;
  result.nu = MpReal(nu) * up;
  return result;
}

MpRung::System MpRung::Residual(const System& system, const Solution& at) {
  std::vector<MpReal> twice;
  System left;
  left.mass = system.mass;
  for (const MpReal& weight : at.w) {
    twice.push_back(weight + weight);
    left.mass -= weight;
  }
  for (size_t p = 0; p < margin_; ++p) {
    MpReal value = system.r[p] - at.nu;
    for (size_t q = 0; q < margin_; ++q) SubtractProduct(value, Gram(p, q).value, twice[q]);
    left.r.push_back(std::move(value));
  }
  return left;
}

std::optional<MpRung::Solution> MpRung::Solve(const System& system, System* residual) {
  const PrecisionScope scope(bits_);
  Solution at;
  at.w.assign(margin_, MpReal(0.0));
  at.nu = MpReal(0.0);
  System left = system;
  const MpReal first = Largest(left.r, left.mass);
  MpReal size = first;
  while (size > MpReal(0.0)) {
    const std::optional<Solution> step = Correction(left);
    if (!step.has_value()) break;
    Solution next = at;
    MpReal sum = Abs(next.nu);
    for (size_t p = 0; p < margin_; ++p) {
      next.w[p] += step->w[p];
      sum += Abs(next.w[p]);
    }
    next.nu += step->nu;
    System next_left = Residual(system, next);
    MpReal next_size = Largest(next_left.r, next_left.mass);
    if (!(next_size < size)) break;
    const bool little = next_size > size * MpReal::PowerOfTwo(-kLeastGain);
    at = std::move(next);
    left = std::move(next_left);
    size = std::move(next_size);
    // What rounding leaves of a residual.
    if (little || size <= sum * MpReal(kmax_ + 1.0) * unit_) break;
  }
  if (size > first * MpReal::PowerOfTwo(-kLeastTotalGain)) return std::nullopt;
  if (residual != nullptr) *residual = std::move(left);
  return at;
}

bool MpRung::SolveMargin() {
  if (has_margin()) {
    if (!Prepare()) return false;
    System system;
    system.mass = MpReal(total_);
    for (size_t j = margin_; j < groups_.size(); ++j) system.mass -= weights_[j];
    for (size_t p = 0; p < margin_; ++p) {
      MpReal value = MpReal(total_) * Gram(p, p).value;
      for (size_t j = margin_; j < groups_.size(); ++j) {
        SubtractProduct(value, Value(groups_[p], groups_[j]).value, weights_[j] + weights_[j]);
      }
      system.r.push_back(std::move(value));
    }
    System left;
    std::optional<Solution> solution = Solve(system, &left);
    if (!solution.has_value() && factor_ == nullptr) {
      if (!MakeFactor()) return false;
      solution = Solve(system, &left);
    }
    if (!solution.has_value()) return false;
    std::ranges::move(solution->w, weights_.begin());
    mu_ = std::move(solution->nu);
    SumMagnitudes();

    const MpReal mass_error = Abs(left.mass) + (MpReal(total_) + magnitude_) *
                                                   MpReal(static_cast<double>(groups_.size() + 4)) *
                                                   unit_;
    std::vector<MpReal> rounding;
    for (size_t p = 0; p < margin_; ++p) rounding.push_back(GradientError(scales_[p]));
    bounds_ = Enclosure<MpReal>::Make(left.r, rounding, mass_error, lambda_, MpReal(kmax_));
    return true;
  }
  SumMagnitudes();
  return true;
}

void MpRung::SumMagnitudes() {
  magnitude_ = MpReal(0.0);
  for (size_t j = 0; j < groups_.size(); ++j) magnitude_ += Abs(weights_[j]) * MpReal(scales_[j]);
}

// Every kernel value is below the product of the scales, and every partial sum below the sum of
// magnitudes.
MpReal MpRung::GradientError(double scale) const {
  const MpReal own(scale);
  const MpReal magnitude = own * (MpReal(total_) * own + magnitude_ + magnitude_) + Abs(mu_);
  return magnitude * MpReal(1.01 * (units_ + static_cast<double>(groups_.size()) + 8)) * unit_;
}

const kernel::ApproximateMp& MpRung::Value(GroupIndex a, GroupIndex b) {
  const kernel::ApproximateMp& value = values_.Of(a, b);
  units_ = std::max(units_, value.units);
  return value;
}

MpRung::Bounded MpRung::GradientOf(GroupIndex group) {
  MpReal value = mu_ - MpReal(total_) * Value(group, group).value;
  for (size_t j = 0; j < groups_.size(); ++j) {
    SubtractProduct(value, Value(group, groups_[j]).value, -(weights_[j] + weights_[j]));
  }
  const double scale = std::max(1.0, std::sqrt(values_.Diagonal(group)) * (1 + 0x1p-30));
  return {std::move(value), GradientError(scale)};
}

bool MpRung::TieAllowed(const MpReal& error, double scale) const {
  return error <= MpReal(scale) * MpReal::PowerOfTwo(-tie_bits_);
}

}  // namespace lethe::svdd
