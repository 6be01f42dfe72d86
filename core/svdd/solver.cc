#include "core/svdd/solver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace lethe::svdd {
namespace {

// Gradients this close to zero, relative to total max(K_ii), are left to the upper rungs: the
// walk's own rounding is below it.
constexpr double kGradientNoise = 0x1p-90;
// What the first step of a lowering in two leaves of the weight.
constexpr double kFirstLowering = 0.95;
// Key of a group whose gradient is not known.
constexpr double kNeverSeen = -std::numeric_limits<double>::max();

}  // namespace

Solver::Solver(const MemoryOptions& options)
    : options_(options),
      total_(options.capacity.total()),
      box_(options.capacity.box()),
      tokens_(static_cast<size_t>(options.key_dimension),
              static_cast<size_t>(options.value_dimension)),
      supports_(options.kernel,
                options.capacity.total(),
                static_cast<size_t>(options.key_dimension)),
      pool_(options.kernel, static_cast<size_t>(options.key_dimension), options.capacity.total()) {}

DoubleDouble Solver::GroupCap(GroupIndex group) const {
  return TwoProduct(static_cast<double>(tokens_.Members(group).size()), box_);
}

double Solver::Scale(GroupIndex group) const {
  if (options_.kernel.kind != kernel::KernelKind::kExpDot) return 1.0;
  const double diagonal = kernel::Diagonal(options_.kernel, tokens_.Key(group));
  return std::max(1.0, std::sqrt(diagonal) * (1 + 0x1p-30));
}

void Solver::AddDrift() {
  const SupportSet::Drift moved = supports_.TakeDrift();
  // The sums themselves round; the second terms keep them upper bounds. Without a move they stay as
  // they are, which is how Publish knows that the last certificate still holds.
  if (moved.path > 0.0) path_ += moved.path + path_ * 0x1p-51;
  if (moved.path + moved.mu > 0.0) drift_ += moved.path + moved.mu + drift_ * 0x1p-51;
}

// Landmarks need a diagonal that is the same everywhere.
bool Solver::HasLandmarks() const { return options_.kernel.kind != kernel::KernelKind::kExpDot; }

void Solver::FollowLandmarks() {
  if (!HasLandmarks() || followed_drift_ == drift_) return;
  pool_.landmarks().Follow(supports_, tokens_, path_);
  followed_drift_ = drift_;
  if (!pool_.landmarks().Outdated()) return;
  std::vector<KeyedGroup> bounds;
  pool_.landmarks().Dissolve(bounds);
  pool_.landmarks().Follow(supports_, tokens_, path_);
  for (const auto& [bound, group] : bounds) PutInPool(group, bound, false);
}

void Solver::PutInPool(GroupIndex group, double h_lower_bound, bool again) {
  if (again && HasLandmarks()) {
    pool_.landmarks().Put(group, h_lower_bound, supports_, tokens_);
  } else {
    // Rounded down: the sum has the drift's rounding, which may be more than all of h.
    const double h = h_lower_bound / Scale(group) * (1 - 0x1p-40);
    pool_.Set(group, (drift_ + h) - (drift_ + std::abs(h)) * 0x1p-51);
  }
}

void Solver::ToReserve(GroupIndex group) {
  // A group whose last token was just forgotten is gone, not in reserve.
  if (!tokens_.Members(group).empty()) contested_.push_back(group);
}

void Solver::ReturnContested() {
  for (const GroupIndex group : contested_) pool_.Set(group, drift_);
  contested_.clear();
}

SupportSet::Gradient Solver::Evaluate(GroupIndex group, double slack, bool again) const {
  Gradient gradient = supports_.CoarseGradient(group, tokens_, slack, again);
  gradient.error += slack;
  if (std::abs(gradient.h.hi) > gradient.error) return gradient;
  gradient = supports_.FineGradient(group, tokens_);
  const double scale = Scale(group);
  gradient.error = std::max(gradient.error, kGradientNoise * total_ * scale * scale) + slack;
  return gradient;
}

void Solver::Sweep(double slack) {
  violators_.clear();
  reached_.clear();
  AddDrift();
  FollowLandmarks();
  pool_.TakeReached(drift_, slack, reached_);
  for (const auto& [key, group] : reached_) {
    const double scale = Scale(group);
    const bool again = key > kNeverSeen;
    const Gradient gradient = Evaluate(group, slack * scale, again);
    if (gradient.h.hi > gradient.error) {
      PutInPool(group, gradient.h.hi - gradient.error + slack * scale, again);
    } else if (gradient.h.hi < -gradient.error) {
      violators_.push_back({gradient.h.hi / scale, group});
    } else {
      contested_.push_back(group);
    }
  }
  std::sort(violators_.begin(), violators_.end(), [](const Violator& a, const Violator& b) {
    return a.depth < b.depth || (a.depth == b.depth && a.group < b.group);
  });
}

void Solver::Settle() {
  const size_t limit = 1000 + 50 * supports_.slots();
  size_t walks = 0;
  while (!gave_up_) {
    AddDrift();
    ReturnContested();
    Sweep(0.0);
    if (violators_.empty()) return;
    for (size_t i = 0; i < violators_.size(); ++i) {
      const GroupIndex group = violators_[i].group;
      const Gradient gradient = Evaluate(group, 0.0, true);
      if (gradient.h.hi >= -gradient.error) {
        // The walks before it mended this one too.
        pool_.Set(group, drift_);
        continue;
      }
      if (++walks > limit || !factor_ok_ || !EnterByWalk(group)) {
        SolveByActiveSet(TakeWorst(i));
        break;
      }
      AddDrift();
    }
  }
}

void Solver::SolveCold() {
  supports_.Clear();
  pool_.Clear();
  contested_.clear();
  certified_ = nullptr;
  drift_ = 0.0;
  path_ = 0.0;
  followed_drift_ = -1.0;
  factor_ok_ = true;
  active_ = true;
  method_ = Method::kCold;
  for (GroupIndex group = 0; group < tokens_.group_limit(); ++group) {
    if (!tokens_.Members(group).empty()) {
      pool_.Set(group, kNeverSeen);
    }
  }
  SolveByActiveSet({});
  method_ = Method::kCold;
}

void Solver::BeginUpdate() {
  method_ = Method::kUnchanged;
  events_ = 0;
}

void Solver::Insert(std::span<const NewToken> tokens) {
  BeginUpdate();
  InsertTokens(tokens);
}

void Solver::Forget(std::span<const TokenHandle> handles) {
  BeginUpdate();
  ForgetTokens(handles);
}

void Solver::Replace(std::span<const TokenHandle> handles, std::span<const NewToken> tokens) {
  BeginUpdate();
  // Without a dip into warming, from which only a cold solve leads back.
  if (options_.capacity.Warming(tokens_.size() - handles.size())) {
    InsertTokens(tokens);
    ForgetTokens(handles);
  } else {
    ForgetTokens(handles);
    InsertTokens(tokens);
  }
}

void Solver::InsertTokens(std::span<const NewToken> tokens) {
  std::vector<GroupIndex> grown;
  for (const NewToken& token : tokens) {
    const GroupIndex group = tokens_.Add(token.handle, token.key, token.value);
    if (active_) grown.push_back(group);
  }
  // The tokens are kept in any case: they may be solved anew.
  if (gave_up_ || options_.capacity.Warming(tokens_.size())) return;
  if (!active_) {
    SolveCold();
    return;
  }
  std::sort(grown.begin(), grown.end());
  grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
  std::vector<GroupIndex> given_up;
  for (const GroupIndex group : grown) {
    const std::optional<Slot> slot = supports_.Find(group);
    if (!slot.has_value()) {
      pool_.Set(group, kNeverSeen);
      continue;
    }
    // One more copy of a key that carries weight: only its cap grows, which matters at the cap.
    supports_[*slot].cap = GroupCap(group);
    certified_ = nullptr;
    if (supports_[*slot].role == Role::kError && (!factor_ok_ || !RaiseByWalk(*slot))) {
      given_up.push_back(group);
      factor_ok_ = false;
    }
  }
  if (!given_up.empty()) SolveByActiveSet({});
  Settle();
}

// The reserve does not take part in a walk; what a move makes violate enters afterwards. Where a
// near-duplicate waits in reserve, the first step is short: it enters early and takes the weight
// over, and the solution as a whole hardly moves.
bool Solver::LowerInSteps(std::span<const GroupIndex> groups) {
  const bool substitutes =
      HasLandmarks() && std::ranges::any_of(groups, [this](GroupIndex group) {
        return supports_.Find(group).has_value() && pool_.landmarks().HasNear(tokens_.Key(group));
      });
  for (const double share : {kFirstLowering, 0.0}) {
    if (share > 0.0 && !substitutes) continue;
    lowerings_.clear();
    for (const GroupIndex group : groups) {
      const std::optional<Slot> slot = supports_.Find(group);
      if (!slot.has_value()) continue;
      const DoubleDouble cap = GroupCap(group);
      const DoubleDouble excess = supports_[*slot].w - cap;
      // A margin group without members may stand at 0 exactly; it must go all the same.
      if (excess > DoubleDouble(0.0) || tokens_.Members(group).empty()) {
        lowerings_.push_back({*slot, share > 0.0 ? cap + DoubleDouble(share) * excess : cap});
      } else {
        // It must not rise above what is left of it while the others fall.
        supports_[*slot].cap = cap;
      }
    }
    if (lowerings_.empty()) return true;
    if (!LowerByWalk(lowerings_)) return false;
    if (share == 0.0) return true;
    Settle();
    if (gave_up_) return true;
    if (!factor_ok_) return false;
  }
  return true;
}

void Solver::ForgetTokens(std::span<const TokenHandle> handles) {
  std::vector<GroupIndex> shrunk;
  for (const TokenHandle handle : handles) shrunk.push_back(tokens_.Remove(handle));
  if (gave_up_) return;
  std::sort(shrunk.begin(), shrunk.end());
  shrunk.erase(std::unique(shrunk.begin(), shrunk.end()), shrunk.end());
  if (active_ && options_.capacity.Warming(tokens_.size())) {
    active_ = false;
    certified_ = nullptr;
    supports_.Clear();
    pool_.Clear();
    contested_.clear();
    method_ = Method::kWalk;
  }
  if (active_) {
    // Groups without tokens must not be chosen to take up weight.
    ReturnContested();
    for (const GroupIndex group : shrunk) {
      if (tokens_.Members(group).empty()) pool_.Remove(group);
    }
    const bool weighted = std::ranges::any_of(
        shrunk, [this](GroupIndex group) { return supports_.Find(group).has_value(); });
    if (weighted) certified_ = nullptr;
    const bool walked = !weighted || (factor_ok_ && LowerInSteps(shrunk));
    for (const GroupIndex group : shrunk) {
      if (const std::optional<Slot> slot = supports_.Find(group)) {
        supports_[*slot].cap = GroupCap(group);
      }
    }
    if (!walked) SolveByActiveSet({});
    AddDrift();
    Settle();
    // The point is of no further use, and what it holds does not matter any more.
    if (gave_up_) return;
  }
  for (const GroupIndex group : shrunk) {
    if (!tokens_.Members(group).empty()) continue;
    // Its index may name another key from here on: nothing may still hold it.
    LETHE_CHECK(!pool_.Contains(group) && !supports_.Holds(group));
    supports_.ForgetRow(group);
    pool_.ForgetGroup(group);
    tokens_.ReleaseGroup(group);
  }
}

std::vector<TokenHandle> Solver::MarginHandles() const {
  std::vector<TokenHandle> handles;
  for (const Slot slot : supports_.margin()) {
    // The member that is filled first has weight under every policy.
    const auto members = tokens_.Members(supports_[slot].group);
    const bool newest = options_.duplicates == DuplicatesPolicy::kNewestFirst;
    handles.push_back(newest ? members.back() : members.front());
  }
  return handles;
}

std::optional<MarginSolution> Solver::SolveMarginSystem(std::span<const double> b,
                                                        double mass) const {
  if (!active_ || !factor_ok_ || supports_.margin().empty()) return std::nullopt;
  LETHE_CHECK(b.size() == supports_.margin().size());
  DdVector fixed;
  DdVector w;
  fixed.Resize(b.size());
  for (size_t p = 0; p < b.size(); ++p) fixed.Set(p, DoubleDouble(b[p]));
  DoubleDouble nu;
  supports_.SolveBorderedRefined(fixed, DoubleDouble(mass), w, nu);
  MarginSolution solution({.w = std::vector<double>(w.high(), w.high() + w.size()), .nu = nu.hi});
  return solution;
}

std::vector<std::pair<GroupIndex, SupportSet::Gradient>> Solver::LowestReserve() {
  AddDrift();
  ReturnContested();
  std::vector<std::pair<GroupIndex, Gradient>> candidates;
  double lowest = std::numeric_limits<double>::infinity();  // upper bound on the smallest gradient
  // A key above the drift bounds a gradient from below by key - drift (scale >= 1), one below it by
  // nothing.
  FollowLandmarks();
  while (!pool_.empty()) {
    const double bound = pool_.LowerBound(drift_);
    if (bound > std::max(0.0, lowest)) break;
    reached_.clear();
    // Rounding must not leave the one behind that the bound is about.
    pool_.TakeReached(drift_, bound + (std::abs(bound) + drift_ + total_) * 0x1p-50, reached_);
    for (const auto& [key, group] : reached_) {
      const Gradient gradient = supports_.FineGradient(group, tokens_);
      lowest = std::min(lowest, gradient.h.hi + gradient.error);
      candidates.emplace_back(group, gradient);
    }
  }
  for (const auto& [group, gradient] : candidates) {
    PutInPool(group, gradient.h.hi - gradient.error, true);
  }
  std::erase_if(candidates, [lowest](const auto& candidate) {
    return candidate.second.h.hi - candidate.second.error > lowest;
  });
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.second.h < b.second.h || (a.second.h == b.second.h && a.first < b.first);
  });
  return candidates;
}

}  // namespace lethe::svdd
