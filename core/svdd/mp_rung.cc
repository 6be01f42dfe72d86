#include "core/svdd/mp_rung.h"

#include <algorithm>
#include <utility>

#include "core/svdd/cholesky.h"
#include "core/svdd/ladder.h"

namespace lethe::svdd {

MpRung::MpRung(const kernel::Kernel& kernel,
               double total,
               const TokenTable& tokens,
               const SupportSet& supports,
               int bits,
               int tie_bits)
    : kernel_(kernel),
      total_(total),
      tokens_(tokens),
      bits_(bits),
      tie_bits_(tie_bits),
      unit_(MpReal::PowerOfTwo(-bits)),
      mu_(supports.mu) {
  for (Slot slot = 0; slot < supports.slots(); ++slot) {
    const SupportSet::Entry& entry = supports[slot];
    if (entry.role != SupportSet::Role::kMargin && entry.role != SupportSet::Role::kError) continue;
    groups_.push_back(entry.group);
    weights_.push_back(MpReal(entry.w));
    if (entry.role == SupportSet::Role::kMargin) margin_.push_back(groups_.size() - 1);
  }
}

bool MpRung::IsMargin(size_t i) const {
  return std::binary_search(margin_.begin(), margin_.end(), i);
}

bool MpRung::SolveMargin() {
  if (margin_.empty()) return true;
  CholeskyFactor<MpReal> factor;
  MpReal kmax(0.0);
  double units = 0.0;
  for (const size_t i : margin_) {
    std::vector<MpReal> row;
    for (const size_t j : margin_) {
      if (j == i) break;
      const kernel::ApproximateMp& value = Value(groups_[i], groups_[j]);
      row.push_back(value.value);
      units = std::max(units, value.units);
    }
    const kernel::ApproximateMp& diagonal = Value(groups_[i], groups_[i]);
    units = std::max(units, diagonal.units);
    if (diagonal.value > kmax) kmax = diagonal.value;
    if (!factor.Append(std::move(row), diagonal.value,
                       diagonal.value * MpReal::PowerOfTwo(40 - bits_))) {
      return false;
    }
  }
  const auto n = static_cast<double>(margin_.size());
  // Errors of the entries and of the factorisation, as in eigenvalue.h, and of the inverse's
  // norm.
  lambda_ = MpReal(0.97) * factor.SmallestEigenvalueBound() -
            MpReal(n * (units + 2 * n + 8)) * unit_ * kmax;
  if (!(lambda_ > MpReal(0.0))) return false;

  MpReal mass(total_);
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!IsMargin(i)) mass -= weights_[i];
  }
  std::vector<MpReal> b;
  for (const size_t i : margin_) {
    MpReal value = MpReal(total_) * Value(groups_[i], groups_[i]).value;
    for (size_t j = 0; j < groups_.size(); ++j) {
      if (IsMargin(j)) continue;
      SubtractProduct(value, Value(groups_[i], groups_[j]).value, weights_[j] + weights_[j]);
    }
    b.push_back(std::move(value));
  }
  std::vector<MpReal> w;
  SolveBordered(factor, std::move(b), mass, w, mu_);
  for (size_t p = 0; p < margin_.size(); ++p) weights_[margin_[p]] = std::move(w[p]);

  std::vector<MpReal> residual;
  std::vector<MpReal> rounding;
  for (const size_t i : margin_) {
    Bounded gradient = GradientOf(groups_[i]);
    residual.push_back(-gradient.value);
    rounding.push_back(std::move(gradient.error));
  }
  MpReal left(total_);
  for (const MpReal& weight : weights_) left -= weight;
  const MpReal mass_error =
      Abs(left) + MpReal(total_ * static_cast<double>(groups_.size() + 4)) * unit_;
  bounds_ = Enclosure<MpReal>::Make(residual, rounding, mass_error, lambda_, kmax);
  kmax_ = ToDouble(kmax);
  return true;
}

MpRung::Bounded MpRung::GradientOf(GroupIndex group) {
  MpReal sum(0.0);
  MpReal error(0.0);
  for (size_t j = 0; j < groups_.size(); ++j) {
    const kernel::ApproximateMp& value = Value(group, groups_[j]);
    const MpReal product = value.value * weights_[j];
    sum += product;
    error += Abs(product) * MpReal(value.units);
  }
  const kernel::ApproximateMp& own = Value(group, group);
  const MpReal diagonal = MpReal(total_) * own.value;
  const MpReal two(2.0);
  const MpReal magnitude = two * Abs(sum) + diagonal + Abs(mu_);
  error = (two * error + diagonal * MpReal(own.units) +
           magnitude * MpReal(static_cast<double>(groups_.size() + 8))) *
          unit_;
  return {two * sum - diagonal + mu_, error};
}

bool MpRung::TieAllowed(const MpReal& error, double scale) const {
  return error <= MpReal(scale) * MpReal::PowerOfTwo(-tie_bits_);
}

const kernel::ApproximateMp& MpRung::Value(GroupIndex a, GroupIndex b) {
  const uint64_t key = (uint64_t{std::min(a, b)} << 32) | std::max(a, b);
  const auto found = values_.find(key);
  if (found != values_.end()) return *found->second;
  auto value = std::make_unique<kernel::ApproximateMp>(
      kernel::EvaluateMp(kernel_, tokens_.Key(a), tokens_.Key(b)));
  return *values_.emplace(key, std::move(value)).first->second;
}

}  // namespace lethe::svdd
