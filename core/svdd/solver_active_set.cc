// Solving from a feasible point: the cold solve, and the end of every walk that was given up.
//
// Works on a growing subset: solve over the groups with weight and the worst violators, look at the
// rest through the pool, repeat. Each round lowers the objective, so it ends. Double-double first;
// where its factor is singular (near-duplicates closer than about 1e-13) or it does not end,
// MpReal.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/base/check.h"
#include "core/svdd/active_set.h"
#include "core/svdd/ladder.h"
#include "core/svdd/solver.h"

namespace lethe::svdd {
namespace {

constexpr size_t kFewestNewGroups = 32;
// A mass below this share of the total is rounding.
constexpr double kMassNoise = 0x1p-90;
// Bits that a gradient may lose to its sum of products on an upper rung.
constexpr int kToleranceBits = 24;
// Rounds of one solve; each lowers the objective, so that only a fault gets here.
constexpr int kMaxRounds = 1000;

template <typename Real>
DensePoint<Real> StartingPoint(const std::vector<DoubleDouble>& start,
                               const std::vector<Real>& cap) {
  DensePoint<Real> point;
  for (size_t i = 0; i < start.size(); ++i) {
    point.weight.push_back(Real(start[i]));
    point.label.push_back(Label::kMargin);
    // A weight that rounding left outside its bounds is put on them, as its label says.
    if (!(point.weight[i] > Real(0.0))) {
      point.weight[i] = Real(0.0);
      point.label[i] = Label::kReserve;
    } else if (point.weight[i] >= cap[i]) {
      point.weight[i] = cap[i];
      point.label[i] = Label::kError;
    }
  }
  return point;
}

}  // namespace

std::vector<GroupIndex> Solver::SupportGroups() const {
  std::vector<GroupIndex> groups;
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    const SupportSet::Entry& entry = supports_[slot];
    if (entry.role == Role::kFree || entry.role == Role::kLeaving) continue;
    if (!tokens_.Members(entry.group).empty()) groups.push_back(entry.group);
  }
  return groups;
}

std::vector<DoubleDouble> Solver::FeasibleStart(std::vector<GroupIndex>& groups) {
  DoubleDouble left(total_);
  std::vector<DoubleDouble> start;
  for (const GroupIndex group : groups) {
    const std::optional<Slot> slot = supports_.Find(group);
    DoubleDouble weight = slot.has_value() ? supports_[*slot].w : DoubleDouble();
    weight = std::min(std::max(weight, DoubleDouble()), std::min(GroupCap(group), left));
    left -= weight;
    start.push_back(weight);
  }
  for (size_t i = 0; i < groups.size() && left > DoubleDouble(); ++i) {
    const DoubleDouble room = std::min(GroupCap(groups[i]) - start[i], left);
    start[i] += room;
    left -= room;
  }
  for (GroupIndex group = 0; group < tokens_.group_limit() && left > DoubleDouble(); ++group) {
    if (!pool_.Contains(group)) continue;
    pool_.Remove(group);
    groups.push_back(group);
    start.push_back(std::min(GroupCap(group), left));
    left -= start.back();
  }
  // With as many tokens as the capacity nothing but rounding can be left over.
  LETHE_CHECK(left.hi <= total_ * kMassNoise);
  return start;
}

void Solver::Install(const std::vector<GroupIndex>& groups,
                     const std::vector<Label>& labels,
                     const std::vector<DoubleDouble>& weights,
                     const DoubleDouble& mu) {
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    if (supports_[slot].role == Role::kFree) continue;
    supports_[slot].role = Role::kLeaving;
    supports_[slot].w = {};
  }
  std::vector<Slot> margin;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (labels[i] == Label::kReserve) {
      pool_.Set(groups[i], drift_);
      continue;
    }
    const Slot slot = supports_.Add(groups[i], GroupCap(groups[i]), tokens_);
    supports_[slot].w = weights[i];
    if (labels[i] == Label::kError) {
      supports_[slot].role = Role::kError;
      supports_[slot].w = supports_[slot].cap;
    } else {
      margin.push_back(slot);
    }
  }
  factor_ok_ = supports_.RebuildFactor(margin);
  supports_.mu = mu;
  certified_ = nullptr;
}

bool Solver::TryDoubleDouble(const std::vector<GroupIndex>& groups,
                             const std::vector<DoubleDouble>& start) {
  std::vector<Slot> slots;
  for (const GroupIndex group : groups) {
    const std::optional<Slot> slot = supports_.Find(group);
    slots.push_back(slot.has_value() ? *slot : supports_.Add(group, GroupCap(group), tokens_));
  }
  DenseProblem<DoubleDouble> problem;
  problem.total = total_;
  double largest = 0.0;
  for (const Slot a : slots) {
    largest = std::max(largest, supports_.Gram(a, a).hi);
    const double scale = Scale(supports_[a].group);
    problem.gradient_tolerance.push_back(0x1p-92 * total_ * scale * scale);
    problem.cap.push_back(GroupCap(supports_[a].group));
    Numbers<DoubleDouble>& row = problem.gram.emplace_back();
    row.Zero(slots.size());
    for (size_t j = 0; j < slots.size(); ++j) row.Set(j, supports_.Gram(a, slots[j]));
  }
  problem.pivot_threshold = 0x1p-86 * largest;
  DensePoint<DoubleDouble> point = StartingPoint(start, problem.cap);
  if (ActiveSetSolver<DoubleDouble>(problem, point).Solve() != ActiveSetOutcome::kOptimal) {
    return false;
  }
  Install(groups, point.label, point.weight, point.mu);
  return true;
}

bool Solver::TryMp(const std::vector<GroupIndex>& groups,
                   const std::vector<DoubleDouble>& start,
                   int bits) {
  const PrecisionScope scope(bits);
  DenseProblem<MpReal> problem;
  problem.total = MpReal(total_);
  double largest = 0.0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const double diagonal = kernel::Diagonal(options_.kernel, tokens_.Key(groups[i]));
    largest = std::max(largest, diagonal);
    problem.cap.push_back(MpReal(GroupCap(groups[i])));
    problem.gram.emplace_back().Zero(groups.size());
    for (size_t j = 0; j <= i; ++j) {
      const MpReal value =
          kernel::EvaluateMp(options_.kernel, tokens_.Key(groups[i]), tokens_.Key(groups[j])).value;
      problem.gram[i].Set(j, value);
      problem.gram[j].Set(i, value);
    }
  }
  // What this rung computes of a gradient is good to a few units of the last place of the largest
  // term that goes into mu.
  problem.gradient_tolerance.assign(groups.size(), MpReal(total_ * std::max(1.0, largest)) *
                                                       MpReal::PowerOfTwo(kToleranceBits - bits));
  problem.pivot_threshold = MpReal(largest) * MpReal::PowerOfTwo(40 - bits);
  DensePoint<MpReal> point = StartingPoint(start, problem.cap);
  if (ActiveSetSolver<MpReal>(problem, point).Solve() != ActiveSetOutcome::kOptimal) return false;
  std::vector<DoubleDouble> weights;
  for (const MpReal& weight : point.weight) weights.push_back(ToDoubleDouble(weight));
  Install(groups, point.label, weights, ToDoubleDouble(point.mu));
  return true;
}

// So many at a time that the dense problem stays small; the rest waits for the next round.
std::vector<GroupIndex> Solver::TakeWorst(size_t first) {
  std::vector<GroupIndex> worst;
  const size_t take = first + std::max(kFewestNewGroups, supports_.slots() / 2);
  for (size_t i = first; i < violators_.size(); ++i) {
    if (i < take) {
      worst.push_back(violators_[i].group);
    } else {
      pool_.Set(violators_[i].group, drift_);
    }
  }
  return worst;
}

void Solver::SolveByActiveSet(std::vector<GroupIndex> extra) {
  if (gave_up_) return;
  method_ = Method::kFallback;
  // Any group may be needed to hold the total.
  ReturnContested();
  int least_bits = kDoubleDoubleBits;  // of the arithmetic that solves
  for (int round = 0;; ++round) {
    if (round == kMaxRounds) {
      gave_up_ = true;
      return;
    }
    std::vector<GroupIndex> groups = SupportGroups();
    groups.insert(groups.end(), extra.begin(), extra.end());
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    for (const GroupIndex group : groups) pool_.Remove(group);
    const std::vector<DoubleDouble> start = FeasibleStart(groups);
    const absl::flat_hash_set<GroupIndex> problem(groups.begin(), groups.end());
    int solved_bits = kDoubleDoubleBits;
    if (least_bits > kDoubleDoubleBits || !TryDoubleDouble(groups, start)) {
      const auto rung = std::ranges::find_if(
          kLadder, [&](int bits) { return bits >= least_bits && TryMp(groups, start, bits); });
      gave_up_ = rung == std::end(kLadder);
      if (gave_up_) return;
      solved_bits = *rung;
    }
    ++events_;
    AddDrift();
    ReturnContested();
    Sweep(0.0);
    if (violators_.empty()) return;
    // What this arithmetic takes for optimal and the sweep does not is for the next rung.
    const bool missed = std::ranges::any_of(violators_, [&problem](const Violator& violator) {
      return problem.contains(violator.group);
    });
    if (missed) least_bits = solved_bits + 1;
    extra = TakeWorst(0);
  }
}

bool Solver::RepairMp(int bits, std::span<const GroupIndex> extra) {
  if (gave_up_) return true;
  const auto labels = [this] {
    std::vector<std::pair<GroupIndex, Role>> result;
    for (Slot slot = 0; slot < supports_.slots(); ++slot) {
      const SupportSet::Entry& entry = supports_[slot];
      if (entry.role == Role::kMargin || entry.role == Role::kError) {
        result.emplace_back(entry.group, entry.role);
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  };
  const auto before = labels();
  if (method_ == Method::kUnchanged || method_ == Method::kWalk) method_ = Method::kFallback;
  std::vector<GroupIndex> groups = SupportGroups();
  groups.insert(groups.end(), contested_.begin(), contested_.end());
  groups.insert(groups.end(), extra.begin(), extra.end());
  contested_.clear();
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const GroupIndex group : groups) pool_.Remove(group);
  const std::vector<DoubleDouble> start = FeasibleStart(groups);
  gave_up_ = !std::ranges::any_of(
      kLadder, [&](int rung) { return rung >= bits && TryMp(groups, start, rung); });
  if (gave_up_) return true;
  ++events_;
  AddDrift();
  return labels() != before;
}

}  // namespace lethe::svdd
