// From a certified point to the snapshot that readers see.
#include <algorithm>
#include <cmath>

#include "core/svdd/solver.h"

namespace lethe::svdd {

Snapshot Solver::WarmingSnapshot() const {
  Snapshot snapshot(options_);
  const std::vector<TokenHandle> handles = tokens_.Handles();
  snapshot.phase = handles.empty() ? Phase::kEmpty : Phase::kWarming;
  const double alpha = handles.empty() ? 0.0 : 1.0 / static_cast<double>(handles.size());
  for (const TokenHandle handle : handles) {
    snapshot.supports.push_back({handle, Label::kError, alpha});
  }
  // 1 / n is rounded.
  if (!handles.empty()) snapshot.proof.readout_bound = 0x1.000001p-52;
  AddTokens(snapshot);
  return snapshot;
}

// The weights' keys and values beside them, and all that the certificate alone decides.
Snapshot Solver::MakeSnapshot(const Certificate& certificate) const {
  Snapshot snapshot(options_);
  snapshot.phase = Phase::kActive;
  snapshot.supports = certificate.supports;
  snapshot.mu = certificate.mu;
  snapshot.mu_low = certificate.mu_low;
  snapshot.mu_high = certificate.mu_high;
  snapshot.proof = certificate.proof;
  if (snapshot.mu.has_value()) {
    snapshot.radius_squared = certificate.quadratic_form + *snapshot.mu;
  }
  AddTokens(snapshot);
  return snapshot;
}

void Solver::AddTokens(Snapshot& snapshot) const {
  snapshot.keys.reserve(snapshot.supports.size() * static_cast<size_t>(options_.key_dimension));
  snapshot.values.reserve(snapshot.supports.size() * static_cast<size_t>(options_.value_dimension));
  for (const SupportToken& token : snapshot.supports) {
    const auto key = tokens_.Key(tokens_.GroupOf(token.handle));
    const auto value = tokens_.Value(token.handle);
    snapshot.keys.insert(snapshot.keys.end(), key.begin(), key.end());
    snapshot.values.insert(snapshot.values.end(), value.begin(), value.end());
    (token.label == Label::kMargin ? snapshot.counts.margin : snapshot.counts.error) += 1;
  }
  for (const double value : snapshot.values) {
    snapshot.largest_value = std::max(snapshot.largest_value, std::abs(value));
  }
}

std::optional<Snapshot> Solver::Publish() {
  if (gave_up_) return std::nullopt;
  proved_anew_ = false;
  if (!active_) return WarmingSnapshot();
  // A state whose weights did not move is still the solution when no new group violates it.
  bool reuse =
      certified_ != nullptr && drift_ == certified_drift_ && certified_->state.mu.has_value();
  if (reuse) {
    ReturnContested();
    const bool violated = SweepFindsViolators(certified_->slack);
    // The sweep compares every weight with what it was: it must have been about this point.
    reuse = !violated && contested_.empty() && drift_ == certified_drift_;
    if (violated) Settle();
  }
  if (!reuse) {
    proved_anew_ = true;
    const std::optional<Certificate> certificate = Certify();
    if (!certificate.has_value()) return std::nullopt;
    certified_ = std::make_shared<const Certified>(
        Certified{.state = MakeSnapshot(*certificate), .slack = certificate->slack});
    certified_drift_ = drift_;
  }
  Snapshot snapshot = certified_->state;
  snapshot.proof.slack = std::min(snapshot.proof.slack, ReserveSlack());
  snapshot.proof.gap_bound += ReserveGap(snapshot.proof);
  snapshot.counts.reserve = tokens_.size() - snapshot.supports.size();
  return snapshot;
}

}  // namespace lethe::svdd
