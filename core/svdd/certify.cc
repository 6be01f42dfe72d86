// Certification: from a point that the walk left to the correctly rounded solution.
//
// With the bounds (4) of enclosure.h every sign is judged: weights of S inside their bounds,
// gradients of E below and of R above zero. When all come out right, S and E are the optimal sets
// and the enclosed point is the solution; then Ziv's test rounds it. What stays open goes up the
// ladder: the same in MpReal.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "core/svdd/eigenvalue.h"
#include "core/svdd/enclosure.h"
#include "core/svdd/ladder.h"
#include "core/svdd/mp_rung.h"
#include "core/svdd/rounding.h"
#include "core/svdd/solver.h"

namespace lethe::svdd {
namespace {

// Covers what a few roundings to double can add to a number that must stay a lower bound.
constexpr double kShrink = 1 - 0x1p-40;

}  // namespace

bool Solver::SweepFindsViolators(double slack) {
  Sweep(slack);
  for (const Violator& violator : violators_) pool_.Set(violator.group, drift_);
  return !violators_.empty();
}

// Whether the error groups alone hold exactly the total.
bool Solver::ErrorGroupsHoldTotal() const {
  // Sums of at most 2^53 multiples of the box are exact.
  const PrecisionScope scope(kLadder[0]);
  MpReal left(total_);
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    if (supports_[slot].role == Role::kError) left -= MpReal(supports_[slot].cap);
  }
  return left == MpReal(0.0);
}

// Two keys a distance delta apart (in units of the kernel's width) have gradients and weights that
// differ by powers of delta: what looks like a tie may be one of them. Four powers are allowed for
// in the closest pair among the groups that a decision is about. O(groups^2 d).
int Solver::TieBits() const {
  std::vector<GroupIndex> groups = SupportGroups();
  groups.insert(groups.end(), contested_.begin(), contested_.end());
  double closest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto x = tokens_.Key(groups[i]);
      const auto y = tokens_.Key(groups[j]);
      double distance = 0.0;
      for (size_t k = 0; k < x.size(); ++k) distance = std::max(distance, std::abs(x[k] - y[k]));
      closest = std::min(closest, distance);
    }
  }
  if (!(closest > 0.0) || std::isinf(closest)) return kTieBits;
  const double width = std::log2(options_.kernel.parameter) *
                       (options_.kernel.kind == kernel::KernelKind::kLaplacian ? 1.0 : 0.5);
  constexpr int kBase = 256;
  return std::max(kTieBits, kBase + static_cast<int>(std::ceil(-4 * (std::log2(closest) + width))));
}

// A lower bound on the gradients of the groups in the pool, in units of g. The contested are at 0.
double Solver::ReserveSlack() const {
  if (!contested_.empty()) return 0.0;
  return std::max(0.0, pool_.LowerBound(drift_) / total_ * kShrink);
}

// Without a margin: how far mu, as it is held, may be above the upper end of its interval. After
// BoundedGradients.
double Solver::UpperEndError() const {
  double error = 0.0;
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    if (supports_[slot].role != Role::kError) continue;
    error = std::max(error, 1.01 * (gradient_errors_[slot] + std::max(0.0, gradients_[slot].hi)));
  }
  return error;
}

Solver::Finding Solver::CertifyDoubleDouble(Certificate& certificate) {
  certificate = {};
  const std::vector<Slot>& margin = supports_.margin();
  if (margin.empty()) {
    if (!ErrorGroupsHoldTotal()) {
      SolveByActiveSet({});
      return Finding::kRepaired;
    }
    supports_.SetMuToUpperEnd();
  }
  AddDrift();
  Proof& proof = certificate.proof;
  proof.decided_by_solver = true;
  proof.precision_bits = kDoubleDoubleBits;
  supports_.BoundedGradients(gradients_, gradient_errors_);

  Enclosure<double> bounds;
  double slack = std::numeric_limits<double>::infinity();  // of weights and error gradients
  if (!margin.empty()) {
    std::vector<double> residual;
    std::vector<double> rounding;
    std::vector<double> gram;
    double kmax = 0.0;
    double trace = 0.0;
    for (const Slot slot : margin) {
      residual.push_back(-gradients_[slot].hi);
      rounding.push_back(gradient_errors_[slot]);
      kmax = std::max(kmax, supports_.Gram(slot, slot).hi);
      trace += supports_.Gram(slot, slot).hi;
      for (const Slot other : margin) gram.push_back(supports_.Gram(slot, other).hi);
    }
    DoubleDouble mass(total_);
    for (Slot slot = 0; slot < supports_.slots(); ++slot) {
      const SupportSet::Entry& entry = supports_[slot];
      if (entry.role == Role::kMargin || entry.role == Role::kError) mass -= entry.w;
    }
    const double mass_error = std::abs(mass.hi) + total_ * kDoubleDoubleEpsilon *
                                                      static_cast<double>(supports_.slots() + 1);
    const double lambda = SmallestEigenvalueBound(gram, margin.size());
    if (!(lambda > 0.0)) return Finding::kUndecided;
    bounds = Enclosure<double>::Make(residual, rounding, mass_error, lambda, kmax);
    for (const double value : residual) {
      proof.residual = std::max(proof.residual, std::abs(value) / total_);
    }
    proof.lambda_min = lambda;
    proof.condition = trace / lambda;
  }
  // The weights are exact then, and mu stands at its upper end.
  if (margin.empty()) bounds.mu = UpperEndError();
  certificate.slack = bounds.Slack();
  if (SweepFindsViolators(bounds.Slack())) return Finding::kViolated;
  if (!contested_.empty()) return Finding::kUndecided;

  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    const SupportSet::Entry& entry = supports_[slot];
    if (entry.role == Role::kMargin) {
      if (SignOf(entry.w, bounds.weight, false) != Sign::kPositive ||
          SignOf(entry.cap - entry.w, bounds.weight, false) != Sign::kPositive) {
        return Finding::kUndecided;
      }
      slack = std::min({slack, (entry.w.hi - bounds.weight) / total_,
                        ((entry.cap - entry.w).hi - bounds.weight) / total_});
    } else if (entry.role == Role::kError && !margin.empty()) {
      const Gradient gradient{gradients_[slot], gradient_errors_[slot]};
      const double scale = Scale(entry.group);
      if (SignOf(gradient.h, gradient.error + scale * bounds.Slack(), false) != Sign::kNegative) {
        return Finding::kUndecided;
      }
      slack = std::min(slack, (-gradient.h.hi - gradient.error - scale * bounds.Slack()) / total_);
    }
  }

  const DoubleDouble total(total_);
  if (margin.empty()) {
    // mu is an interval: [max over reserve of mu - h, min over error of mu - h].
    DoubleDouble high;
    bool any = false;
    for (Slot slot = 0; slot < supports_.slots(); ++slot) {
      if (supports_[slot].role != Role::kError) continue;
      const DoubleDouble end = supports_.mu - gradients_[slot];
      if (!any || end < high) high = end;
      any = true;
    }
    certificate.mu_high = RoundToNearest(high / total, bounds.mu / total_, false);
    if (!certificate.mu_high.has_value()) return Finding::kUndecided;
    const auto lowest = LowestReserve();
    if (!lowest.empty()) {
      const DoubleDouble low = supports_.mu - lowest.front().second.h;
      double low_error = 0.0;
      for (const auto& [group, gradient] : lowest) low_error = std::max(low_error, gradient.error);
      certificate.mu_low = RoundToNearest(low / total, low_error / total_, false);
      if (!certificate.mu_low.has_value()) return Finding::kUndecided;
    }
  } else {
    certificate.mu = RoundToNearest(supports_.mu / total, bounds.mu / total_, false);
    if (!certificate.mu.has_value()) return Finding::kUndecided;
  }
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    const SupportSet::Entry& entry = supports_[slot];
    const auto members = tokens_.Members(entry.group);
    if (entry.role == Role::kError) {
      for (const TokenHandle member : members) {
        certificate.supports.push_back({member, Label::kError, options_.capacity.weight_at_box()});
      }
    } else if (entry.role == Role::kMargin &&
               !DivideMargin(members, options_.duplicates, options_.capacity, entry.w,
                             bounds.weight, false, certificate.supports)) {
      return Finding::kUndecided;
    }
  }
  proof.weight_bound = bounds.weight / total_;
  proof.decision_bound = bounds.Slack() / total_;
  proof.slack = std::min(std::max(0.0, slack * kShrink), ReserveSlack());
  return Finding::kPublished;
}

Solver::Finding Solver::CertifyMp(int bits,
                                  MpKernelValues& values,
                                  std::unique_ptr<MpRung>& last,
                                  Certificate& certificate) {
  const PrecisionScope scope(bits);
  for (;;) {
    certificate = {};
    if (supports_.margin().empty() && !ErrorGroupsHoldTotal()) {
      return RepairMp(bits, {}) ? Finding::kRepaired : Finding::kUndecided;
    }
    last = std::make_unique<MpRung>(values, total_, supports_, factor_ok_, bits, TieBits(),
                                    std::move(last));
    MpRung& rung = *last;
    if (!rung.SolveMargin()) return Finding::kUndecided;
    const Enclosure<MpReal>& bounds = rung.bounds();
    const MpReal zero(0.0);

    // Weights against their bounds. A tie leaves the margin, and the rest is solved again.
    bool left_margin = false;
    double slack = std::numeric_limits<double>::infinity();
    const bool weight_tie = rung.TieAllowed(bounds.weight, total_);
    for (size_t i = 0; i < rung.groups().size(); ++i) {
      if (!rung.IsMargin(i)) continue;
      const Slot slot = supports_.Find(rung.groups()[i]).value();
      const MpReal room = MpReal(supports_[slot].cap) - rung.weight(i);
      const Sign low = SignOf(rung.weight(i), bounds.weight, weight_tie);
      const Sign high = SignOf(room, bounds.weight, weight_tie);
      if (low == Sign::kOpen || high == Sign::kOpen) return Finding::kUndecided;
      if (low == Sign::kNegative || high == Sign::kNegative) {
        return RepairMp(bits, {}) ? Finding::kRepaired : Finding::kUndecided;
      }
      if (low == Sign::kTie || high == Sign::kTie) {
        if (factor_ok_) {
          supports_.LeaveMargin(slot, low == Sign::kTie ? Role::kLeaving : Role::kError);
        } else {
          std::vector<Slot> margin = supports_.margin();
          std::erase(margin, slot);
          supports_[slot].role = low == Sign::kTie ? Role::kLeaving : Role::kError;
          supports_[slot].w = low == Sign::kTie ? DoubleDouble() : supports_[slot].cap;
          factor_ok_ = supports_.RebuildFactor(std::move(margin));
        }
        if (low == Sign::kTie) pool_.Set(rung.groups()[i], drift_);
        left_margin = true;
        continue;
      }
      slack = std::min({slack, ToDouble(rung.weight(i) - bounds.weight) / total_,
                        ToDouble(room - bounds.weight) / total_});
    }
    if (left_margin) {
      if (supports_.margin().empty()) supports_.SetMuToUpperEnd();
      AddDrift();
      ReturnContested();
      continue;
    }

    // Without a margin mu is the upper end of its interval.
    MpReal mu = rung.mu();
    MpReal mu_error = bounds.mu;
    if (!rung.has_margin()) {
      bool any = false;
      for (const GroupIndex group : rung.groups()) {
        const MpRung::Bounded gradient = rung.GradientOf(group);
        const MpReal end = rung.mu() - gradient.value;
        if (!any || end < mu) mu = end;
        if (gradient.error > mu_error) mu_error = gradient.error;
        any = true;
      }
    }

    // The point moves to this rung's solution; what that brings within reach is looked at.
    for (size_t i = 0; i < rung.groups().size(); ++i) {
      if (!rung.IsMargin(i)) continue;
      supports_[supports_.Find(rung.groups()[i]).value()].w = ToDoubleDouble(rung.weight(i));
    }
    supports_.mu = ToDoubleDouble(mu);
    AddDrift();
    ReturnContested();
    const MpReal slack_mp = bounds.Slack();
    // Including that the stored weights and mu are double-doubles.
    double scale_max = 1.0;
    for (const GroupIndex group : rung.groups()) scale_max = std::max(scale_max, Scale(group));
    const double slack_double = ToDouble(rung.has_margin() ? slack_mp : mu_error) +
                                0x1p-100 * (total_ * scale_max + std::abs(supports_.mu.hi));
    supports_.BoundedGradients(gradients_, gradient_errors_);
    if (SweepFindsViolators(slack_double)) return Finding::kViolated;

    // Signs of gradients: error groups, and reserve groups that double-double left open.
    std::vector<std::pair<GroupIndex, bool>> open;  // and whether it is an error group
    for (size_t i = 0; i < rung.groups().size(); ++i) {
      if (rung.IsMargin(i) || !rung.has_margin()) continue;
      const GroupIndex group = rung.groups()[i];
      const Slot slot = supports_.Find(group).value();
      const Gradient gradient{gradients_[slot], gradient_errors_[slot]};
      const double error = gradient.error + Scale(group) * slack_double;
      if (SignOf(gradient.h, error, false) == Sign::kNegative) {
        slack = std::min(slack, (-gradient.h.hi - error) / total_);
      } else {
        open.emplace_back(group, true);
      }
    }
    for (const GroupIndex group : contested_) open.emplace_back(group, false);
    for (const auto& [group, is_error] : open) {
      MpRung::Bounded gradient = rung.GradientOf(group);
      const double scale = Scale(group);
      if (rung.has_margin()) {
        gradient.error += MpReal(scale) * slack_mp;
      } else {
        gradient.value += mu - rung.mu();
        gradient.error += mu_error;
      }
      const Sign sign = SignOf(gradient.value, gradient.error,
                               rung.TieAllowed(gradient.error, total_ * scale * scale));
      if (sign == Sign::kOpen) return Finding::kUndecided;
      if (sign == (is_error ? Sign::kPositive : Sign::kNegative)) {
        return RepairMp(bits, {}) ? Finding::kRepaired : Finding::kUndecided;
      }
      slack = std::min(slack, sign == Sign::kTie
                                  ? 0.0
                                  : ToDouble(Abs(gradient.value) - gradient.error) / total_);
    }

    // All signs are right; now the roundings. Exact midpoints (or zeros, for mu) stay open on every
    // rung. A mu that may be zero is zero when nothing else within its error is a double; one that
    // is not has midpoints like any other number.
    const MpReal total(total_);
    const auto round_mu = [&](const MpReal& value, const MpReal& error) {
      const bool tie = Abs(value) > error ? rung.TieAllowed(error, ToDouble(Abs(value)))
                                          : error < MpReal::PowerOfTwo(-1080);
      return RoundToNearest(value / total, error / total, tie);
    };
    if (rung.has_margin()) {
      certificate.mu = round_mu(mu, mu_error);
      if (!certificate.mu.has_value()) return Finding::kUndecided;
    } else {
      certificate.mu_high = round_mu(mu, mu_error);
      if (!certificate.mu_high.has_value()) return Finding::kUndecided;
      const auto lowest = LowestReserve();
      if (!lowest.empty()) {
        MpReal low(0.0);
        MpReal low_error(0.0);
        for (size_t i = 0; i < lowest.size(); ++i) {
          const MpRung::Bounded gradient = rung.GradientOf(lowest[i].first);
          const MpReal end = rung.mu() - gradient.value;
          if (i == 0 || end > low) low = end;
          if (gradient.error > low_error) low_error = gradient.error;
        }
        certificate.mu_low = round_mu(low, low_error);
        if (!certificate.mu_low.has_value()) return Finding::kUndecided;
      }
      // Those that LowestReserve gave back to the pool are contested as before.
      if (SweepFindsViolators(slack_double)) return Finding::kViolated;
    }
    for (size_t i = 0; i < rung.groups().size(); ++i) {
      const auto members = tokens_.Members(rung.groups()[i]);
      if (!rung.IsMargin(i)) {
        for (const TokenHandle member : members) {
          certificate.supports.push_back(
              {member, Label::kError, options_.capacity.weight_at_box()});
        }
      } else if (!DivideMargin(members, options_.duplicates, options_.capacity, rung.weight(i),
                               bounds.weight, weight_tie, certificate.supports)) {
        return Finding::kUndecided;
      }
    }
    Proof& proof = certificate.proof;
    proof.decided_by_solver = true;
    proof.precision_bits = bits;
    proof.weight_bound = ToDouble(bounds.weight) / total_ + 0x1p-1074;
    proof.decision_bound = ToDouble(slack_mp) / total_;
    proof.residual = proof.decision_bound;
    proof.lambda_min = ToDouble(rung.lambda());
    proof.condition = rung.has_margin() ? static_cast<double>(supports_.margin().size()) *
                                              rung.kmax() / proof.lambda_min
                                        : 0.0;
    proof.slack = std::min(std::max(0.0, slack * kShrink), ReserveSlack());
    certificate.slack = slack_double;
    return Finding::kPublished;
  }
}

// a'Ka in fp64 over the rounded weights, groups in the order of their first member: the same bits
// whatever slots they stand in.
double Solver::QuadraticForm(const std::vector<SupportToken>& supports) const {
  std::vector<Slot> slots;
  std::vector<double> mass;
  absl::flat_hash_map<GroupIndex, size_t> position;
  for (const SupportToken& token : supports) {
    const GroupIndex group = tokens_.GroupOf(token.handle);
    const auto [entry, inserted] = position.try_emplace(group, slots.size());
    if (inserted) {
      slots.push_back(supports_.Find(group).value());
      mass.push_back(0.0);
    }
    mass[entry->second] += token.alpha;
  }
  double sum = 0.0;
  for (size_t i = 0; i < slots.size(); ++i) {
    double row = 0.0;
    for (size_t j = 0; j < slots.size(); ++j)
      row += supports_.Gram(slots[i], slots[j]).hi * mass[j];
    sum += mass[i] * row;
  }
  return sum;
}

// What rounding weights and mu to doubles adds to the bounds, and what follows for the gap and the
// readout of the published weights.
void Solver::AddPublicationRounding(Certificate& certificate) const {
  constexpr double kUnit = 0x1p-53;
  Proof& proof = certificate.proof;
  double moved = 0.0;
  double relative = kUnit;  // the largest relative error of a published weight
  for (const SupportToken& token : certificate.supports) {
    moved += 2 * (kUnit * token.alpha + 0x1p-1074) * Scale(tokens_.GroupOf(token.handle));
    relative = std::max(relative, 0x1p-1074 / token.alpha);
  }
  double mu = 0.0;
  for (const auto& end : {certificate.mu, certificate.mu_low, certificate.mu_high}) {
    mu = std::max(mu, std::abs(end.value_or(0.0)));
  }
  proof.decision_bound += (moved + kUnit * mu) * (1 + 0x1p-40);
  // o - o* = sum s*_i (rho_i - rho) (v_i) / (1 + rho), rho the mean of the relative errors rho_i in
  // the exact shares s*_i. Never more than the range of a convex combination.
  proof.readout_bound = relative < 0.25 ? 2 * relative / (1 - relative) * (1 + 0x1p-40) : 2.0;
  // Every published gradient is within decision_bound of one with the right sign.
  const double box = options_.capacity.weight_at_box();
  for (const GroupIndex group : SupportGroups()) {
    proof.gap_bound += box * proof.decision_bound * Scale(group) *
                       static_cast<double>(tokens_.Members(group).size());
  }
  proof.gap_bound *= 1 + 0x1p-40;
}

// What reserve groups can add to the gap of the published weights: those whose gradient may be
// below the bound on its error.
double Solver::ReserveGap(const Proof& proof) const {
  const double box = options_.capacity.weight_at_box();
  const auto share = [&](GroupIndex group) {
    return box * proof.decision_bound * Scale(group) *
           static_cast<double>(tokens_.Members(group).size());
  };
  double gap = 0.0;
  for (const GroupIndex group : contested_) gap += share(group);
  if (pool_.LowerBound(drift_) <= total_ * proof.decision_bound) {
    for (GroupIndex group = 0; group < tokens_.group_limit(); ++group) {
      if (pool_.Contains(group)) gap += share(group);
    }
  }
  return gap * (1 + 0x1p-40);
}

// Whether every group with weight stands where its label says: what is published for an error group
// is the box of each member.
bool Solver::BoundsAreTheGroups() const {
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    const SupportSet::Entry& entry = supports_[slot];
    if (entry.role == Role::kFree || entry.role == Role::kLeaving) continue;
    if (entry.role == Role::kDriven || !(entry.cap == GroupCap(entry.group))) return false;
    if (entry.role == Role::kError && !(entry.w == entry.cap)) return false;
  }
  return true;
}

std::optional<Solver::Certificate> Solver::Certify() {
  Certificate certificate;
  if (!BoundsAreTheGroups()) SolveByActiveSet({});
  MpKernelValues values(options_.kernel, tokens_);
  // Violators enter by a walk once. Where that did not mend it, or a rung has moved a group, the
  // walk's arithmetic is too coarse for this state and may undo what was done: violators enter on
  // the rungs then. Each such round lowers the objective, so this ends; the bound is a safety net.
  bool walk = true;
  for (int round = 0; round < 1000 && !gave_up_; ++round) {
    Finding finding = CertifyDoubleDouble(certificate);
    std::unique_ptr<MpRung> rung;
    for (const int bits : kLadder) {
      if (finding != Finding::kUndecided) break;
      finding = CertifyMp(bits, values, rung, certificate);
    }
    switch (finding) {
      case Finding::kPublished:
        std::sort(certificate.supports.begin(), certificate.supports.end(),
                  [](const SupportToken& a, const SupportToken& b) { return a.handle < b.handle; });
        certificate.quadratic_form = QuadraticForm(certificate.supports);
        AddPublicationRounding(certificate);
        return certificate;
      case Finding::kUndecided:
        return std::nullopt;
      case Finding::kRepaired:
        walk = false;
        break;
      case Finding::kViolated:
        if (walk) {
          walk = false;
          Settle();
          break;
        }
        const std::vector<GroupIndex> worst = TakeWorst(0);
        if (!std::ranges::any_of(kLadder, [&](int bits) { return RepairMp(bits, worst); })) {
          return std::nullopt;
        }
        break;
    }
  }
  return std::nullopt;
}

}  // namespace lethe::svdd
