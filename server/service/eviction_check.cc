#include "server/service/eviction_check.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

absl::Status Refuse(absl::string_view what) {
  return absl::InternalError(
      absl::StrCat("the eviction would change ", what, "; nothing was taken out"));
}

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

std::span<const double> Row(const std::vector<double>& rows, size_t index, int columns) {
  const auto width = static_cast<size_t>(columns);
  return std::span<const double>(rows).subspan(index * width, width);
}

// The bytes of a key; equal keys are equal as bytes (NormaliseKey).
absl::string_view KeyOf(const svdd::Snapshot& state, size_t index) {
  const std::span<const double> key = Row(state.keys, index, state.options.key_dimension);
  return {reinterpret_cast<const char*>(key.data()), key.size_bytes()};
}

struct Group {
  double before = 0.0;  // mass
  double after = 0.0;
  size_t members = 0;  // tokens with weight, before and after together
  bool cut = false;    // lost a token with weight
  size_t first = 0;    // index before
};
using Groups = absl::flat_hash_map<absl::string_view, Group>;

// Sums of at most `members` weights, each rounded once.
bool SameMass(const Group& group) {
  const double tolerance = static_cast<double>(group.members) * 0x1p-52;
  return std::abs(group.before - group.after) <= tolerance * std::max(group.before, group.after);
}

absl::Status CheckMu(const svdd::Snapshot& before, const svdd::Snapshot& after) {
  if (before.mu.has_value() != after.mu.has_value()) return Refuse("whether mu is unique");
  if (before.mu.has_value()) {
    return SameBits(*before.mu, *after.mu) ? absl::OkStatus() : Refuse("mu");
  }
  // Tokens of weight 0 bound mu only from outside: without them the interval may be wider.
  const bool low =
      !after.mu_low.has_value() || (before.mu_low.has_value() && *after.mu_low <= *before.mu_low);
  const bool high = !after.mu_high.has_value() ||
                    (before.mu_high.has_value() && *after.mu_high >= *before.mu_high);
  return low && high ? absl::OkStatus() : Refuse("the interval of mu");
}

absl::Status CheckGroups(const svdd::Snapshot& before, const Groups& groups) {
  for (size_t i = 0; i < before.supports.size(); ++i) {
    const Group& group = groups.at(KeyOf(before, i));
    if (!group.cut) continue;
    if (before.supports[i].label != svdd::Label::kMargin) return Refuse("a token at the box");
    if (!std::ranges::equal(Row(before.values, i, before.options.value_dimension),
                            Row(before.values, group.first, before.options.value_dimension))) {
      return Refuse("a readout: the copies of a key have other values");
    }
    if (!SameMass(group)) return Refuse("the mass of a key");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEviction(const svdd::Snapshot& before,
                           const svdd::Snapshot& after,
                           std::span<const svdd::TokenHandle> evicted) {
  if (before.phase != svdd::Phase::kActive || after.phase != svdd::Phase::kActive) {
    return Refuse("a state that is not active");
  }
  LETHE_RETURN_IF_ERROR(CheckMu(before, after));
  Groups groups;
  uint64_t with_weight = 0;
  for (size_t i = 0; i < before.supports.size(); ++i) {
    const auto [place, fresh] = groups.try_emplace(KeyOf(before, i));
    Group& group = place->second;
    if (fresh) group.first = i;
    group.before += before.supports[i].alpha;
    ++group.members;
    if (std::ranges::binary_search(evicted, before.supports[i].handle)) {
      group.cut = true;
      ++with_weight;
    }
  }
  // What stayed, in step with what was there.
  size_t j = 0;
  for (size_t i = 0; i < before.supports.size(); ++i) {
    const svdd::SupportToken& old = before.supports[i];
    if (std::ranges::binary_search(evicted, old.handle)) continue;
    if (j == after.supports.size()) return Refuse("which tokens carry weight");
    const svdd::SupportToken& now = after.supports[j];
    if (now.handle != old.handle || now.label != old.label || KeyOf(after, j) != KeyOf(before, i)) {
      return Refuse("which tokens carry weight");
    }
    Group& group = groups.at(KeyOf(before, i));
    group.after += now.alpha;
    ++group.members;
    if (!group.cut && !SameBits(now.alpha, old.alpha)) return Refuse("a weight");
    ++j;
  }
  if (j != after.supports.size()) return Refuse("which tokens carry weight");
  LETHE_RETURN_IF_ERROR(CheckGroups(before, groups));
  const bool counts =
      after.counts.error == before.counts.error &&
      after.counts.margin + with_weight == before.counts.margin &&
      after.counts.reserve + (evicted.size() - with_weight) == before.counts.reserve;
  return counts ? absl::OkStatus() : Refuse("the partition");
}

}  // namespace lethe::service
