// The walk: some groups' weights move, the rest stay optimal (docs/math.md, section 3).
//
// With the driven weights changing at rates r_c the margin weights and mu follow
//     [0 1'; 1 2K_SS] [dmu; dw_S] = -sum_c r_c [1; 2K_Sc]
// until the first event: a margin weight meets a bound, an error gradient meets zero, or the driven
// groups arrive. Only groups with weight take part; reserve groups that the move makes violate
// enter afterwards, worst first (Settle). A step of length zero is a real step: which way a group
// leaves its bound is decided by the sign of its direction, never by the size of a step.
#include <algorithm>
#include <cmath>

#include "core/svdd/solver.h"

namespace lethe::svdd {
namespace {

// A length below this share of the total is rounding.
constexpr double kLengthNoise = 0x1p-90;
// A margin weight further outside its bounds than this share of the total was not put there by
// rounding.
constexpr double kWeightNoise = 0x1p-60;

}  // namespace

bool Solver::EnterByWalk(GroupIndex group) {
  const Slot slot = supports_.Add(group, GroupCap(group), tokens_);
  supports_[slot].w = {};
  return RaiseByWalk(slot);
}

bool Solver::RaiseByWalk(Slot slot) {
  supports_[slot].role = Role::kDriven;
  const Driven driven{slot, DoubleDouble(1.0)};
  if (!Drive({&driven, 1}, Goal::kGradientZeroOrCap, supports_[slot].cap - supports_[slot].w)) {
    return false;
  }
  if (supports_[slot].role == Role::kDriven) {
    SupportSet::Entry& mover = supports_[slot];
    if (!(mover.w > DoubleDouble(0.0))) {
      Leave(slot);
    } else if ((mover.cap - mover.w).hi <= total_ * kLengthNoise) {
      mover.w = mover.cap;
      mover.role = Role::kError;
    } else if (!supports_.EnterMargin(slot)) {
      return false;
    }
  }
  return ArriveByWalk();
}

bool Solver::LowerByWalk(std::span<const Lowering> lowerings) {
  std::vector<Driven>& driven = driven_;
  driven.clear();
  for (const auto& [slot, target] : lowerings) {
    if (supports_[slot].role == Role::kMargin) supports_.LeaveMargin(slot, Role::kDriven);
    supports_[slot].role = Role::kDriven;
    driven.push_back({slot, target - supports_[slot].w});
  }
  if (!Drive(driven, Goal::kTarget, DoubleDouble(1.0))) return false;
  for (const auto& [slot, target] : lowerings) {
    supports_[slot].w = target;
    if (target > DoubleDouble(0.0)) {
      supports_[slot].role = Role::kError;
      supports_[slot].cap = target;
    } else {
      Leave(slot);
    }
  }
  return ArriveByWalk();
}

void Solver::Leave(Slot slot) {
  supports_[slot].w = {};
  supports_[slot].role = Role::kLeaving;
  ToReserve(supports_[slot].group);
}

// The end of a walk: the margin is solved afresh.
bool Solver::ArriveByWalk() {
  if (supports_.margin().empty()) {
    // Without an error group either, an outer walk's driven group holds everything.
    if (supports_.HasError()) supports_.SetMuToUpperEnd();
    return true;
  }
  supports_.SolveMargin();
  // The solution must be where the path ended; a walk that lost its way is given up.
  return std::ranges::all_of(supports_.margin(), [this](Slot slot) {
    const SupportSet::Entry& entry = supports_[slot];
    const double noise = total_ * kWeightNoise;
    return entry.w.hi >= -noise && (entry.cap - entry.w).hi >= -noise;
  });
}

// Without a margin mu is free within its interval. Moves it to the end where a partner can take or
// give weight and puts that partner into the margin; `done` when the driven group arrives first.
bool Solver::PrepareMargin(std::span<const Driven> driven, Goal goal, bool* done) {
  *done = false;
  if (goal == Goal::kTarget) {
    // Weight must go somewhere: to the reserve group that lowering mu meets first. While the driven
    // group alone holds everything mu has no upper end, and any reserve group fits some mu.
    const bool bounded = supports_.HasError();
    if (bounded) supports_.SetMuToUpperEnd();
    const auto lowest = LowestReserve();
    if (lowest.empty()) return false;
    const auto& [group, gradient] = lowest.front();
    pool_.Remove(group);
    // The walk does not watch the reserve: a group that no mu of the interval fits must enter
    // first, while the driven one waits.
    if (bounded && gradient.h < DoubleDouble(0.0)) return EnterByWalk(group);
    const Slot slot = supports_.Add(group, GroupCap(group), tokens_);
    supports_[slot].w = {};
    supports_.mu -= supports_.FreshGradient(slot);
    return supports_.EnterMargin(slot);
  }
  // Weight must come from somewhere: from the error group that raising mu meets first.
  bool any = false;
  Slot partner = 0;
  DoubleDouble highest;
  for (Slot slot = 0; slot < supports_.slots(); ++slot) {
    if (supports_[slot].role != Role::kError) continue;
    const DoubleDouble h = supports_.FreshGradient(slot);
    if (!any || h > highest) {
      highest = h;
      partner = slot;
    }
    any = true;
  }
  const DoubleDouble own = supports_.FreshGradient(driven.front().slot);
  if (!any || own >= highest) {
    supports_.mu -= own;
    *done = true;
    return true;
  }
  supports_.mu -= highest;
  return supports_.EnterMargin(partner);
}

bool Solver::Drive(std::span<const Driven> driven, Goal goal, DoubleDouble left) {
  if (method_ == Method::kUnchanged) method_ = Method::kWalk;
  const size_t limit = 60 + 12 * (supports_.slots() + driven.size());
  size_t zero_steps = 0;
  bool gradients_fresh = false;

  for (size_t step = 0;; ++step) {
    if (step > limit || zero_steps > 20 + supports_.margin().size()) return false;
    if (supports_.margin().empty()) {
      // The last margin group met its bound a rounding error before the driven groups arrived.
      double distance = 0.0;
      for (const Driven& mover : driven) distance += std::abs((left * mover.rate).hi);
      if (distance <= total_ * kLengthNoise) {
        for (const Driven& mover : driven) supports_[mover.slot].w += left * mover.rate;
        return true;
      }
      bool arrived = false;
      if (!PrepareMargin(driven, goal, &arrived)) return false;
      if (arrived) return true;
      gradients_fresh = false;
    }
    const std::vector<Slot>& margin = supports_.margin();
    const size_t size = margin.size();
    if (!gradients_fresh) supports_.FreshGradients(gradients_);
    gradients_fresh = true;
    DoubleDouble dmu;
    supports_.Direction(driven, direction_, dmu);
    supports_.Slopes(driven, direction_, dmu, slopes_);

    // The nearest event. Lengths below zero are rounding: the event is here.
    enum class Event { kArrived, kZeroGradient, kToReserve, kToError, kFromError };
    DoubleDouble length = left;
    Event event = Event::kArrived;
    Slot who = driven.front().slot;
    const auto offer = [&](DoubleDouble candidate, Event kind, Slot slot) {
      if (candidate < DoubleDouble(0.0)) candidate = {};
      if (candidate < length) {
        length = candidate;
        event = kind;
        who = slot;
      }
    };
    if (goal == Goal::kGradientZeroOrCap) {
      const DoubleDouble rate = slopes_[who];
      if (rate > DoubleDouble(0.0)) offer(-gradients_[who] / rate, Event::kZeroGradient, who);
    }
    for (size_t p = 0; p < size; ++p) {
      const SupportSet::Entry& entry = supports_[margin[p]];
      const DoubleDouble rate = direction_[p];
      if (rate < DoubleDouble(0.0)) {
        offer(entry.w / -rate, Event::kToReserve, margin[p]);
      } else if (rate > DoubleDouble(0.0)) {
        offer((entry.cap - entry.w) / rate, Event::kToError, margin[p]);
      }
    }
    for (Slot slot = 0; slot < supports_.slots(); ++slot) {
      if (supports_[slot].role != Role::kError) continue;
      const DoubleDouble rate = slopes_[slot];
      if (rate > DoubleDouble(0.0)) offer(-gradients_[slot] / rate, Event::kFromError, slot);
    }

    if (length > DoubleDouble(0.0)) {
      zero_steps = 0;
    } else {
      length = {};
      ++zero_steps;
    }
    for (size_t p = 0; p < size; ++p) supports_[margin[p]].w += length * direction_[p];
    AddScaled(length, slopes_.high(), slopes_.low(), gradients_.high(), gradients_.low(),
              supports_.slots());
    for (const Driven& mover : driven) supports_[mover.slot].w += length * mover.rate;
    supports_.mu += length * dmu;
    left -= length;
    ++events_;
    switch (event) {
      case Event::kArrived:
        return true;
      case Event::kZeroGradient:
        return supports_.EnterMargin(who);
      case Event::kToReserve: {
        const GroupIndex group = supports_[who].group;
        supports_.LeaveMargin(who, Role::kLeaving);
        ToReserve(group);
        break;
      }
      case Event::kToError:
        supports_.LeaveMargin(who, Role::kError);
        break;
      case Event::kFromError:
        if (!supports_.EnterMargin(who)) return false;
        break;
    }
  }
}

}  // namespace lethe::svdd
