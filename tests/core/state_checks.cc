#include "tests/core/state_checks.h"

#include <algorithm>
#include <bit>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lethe::svdd {
namespace {

bool SameBitsOf(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameBitsOf(std::span<const double> a, std::span<const double> b) {
  return std::ranges::equal(a, b, [](double x, double y) { return SameBitsOf(x, y); });
}

bool SameBitsOf(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a.has_value() || SameBitsOf(*a, *b));
}

// Positions in `tokens` of the copies of each key.
std::map<std::vector<double>, std::vector<size_t>> CopiesOf(std::span<const OwnedToken> tokens) {
  std::map<std::vector<double>, std::vector<size_t>> copies;
  for (size_t i = 0; i < tokens.size(); ++i) copies[tokens[i].key].push_back(i);
  return copies;
}

}  // namespace

std::vector<NewToken> View(std::span<const OwnedToken> tokens) {
  std::vector<NewToken> views;
  for (const OwnedToken& token : tokens) views.push_back({token.handle, token.key, token.value});
  return views;
}

std::vector<TokenHandle> Handles(std::span<const OwnedToken> tokens) {
  std::vector<TokenHandle> handles;
  for (const OwnedToken& token : tokens) handles.push_back(token.handle);
  return handles;
}

std::vector<double> FlatKeys(std::span<const OwnedToken> tokens) {
  std::vector<double> keys;
  for (const OwnedToken& token : tokens) {
    keys.insert(keys.end(), token.key.begin(), token.key.end());
  }
  return keys;
}

std::unique_ptr<ExactMemory> Fresh(const MemoryOptions& options,
                                   std::span<const OwnedToken> tokens) {
  auto memory = ExactMemory::Create(options).value();
  LETHE_CHECK(memory->Insert(View(tokens)).ok());
  return memory;
}

bool SamePartition(const Snapshot& a, const Snapshot& b) {
  return a.phase == b.phase && a.counts == b.counts &&
         std::ranges::equal(a.supports, b.supports,
                            [](const SupportToken& x, const SupportToken& y) {
                              return x.handle == y.handle && x.label == y.label;
                            });
}

bool SameReadout(const Readout& a, const Readout& b) {
  return SameBitsOf(a.value, b.value) && SameBitsOf(a.log_denominator, b.log_denominator) &&
         SameBitsOf(a.kernel_sum, b.kernel_sum) && SameBitsOf(a.decision, b.decision) &&
         SameBitsOf(a.decision_low, b.decision_low) && SameBitsOf(a.decision_high, b.decision_high);
}

bool SameInEveryBit(const Snapshot& a,
                    const Snapshot& b,
                    std::span<const std::vector<double>> queries) {
  if (!SameBits(a, b) || !SameBitsOf(a.radius_squared, b.radius_squared) ||
      !SameBitsOf(a.values, b.values)) {
    return false;
  }
  // -0.0 and 0.0 are the same key.
  if (a.keys != b.keys) return false;
  return a.phase == Phase::kEmpty || std::ranges::all_of(queries, [&](const auto& query) {
           return SameReadout(a.Query(query, false), b.Query(query, false));
         });
}

std::string KktFault(const Snapshot& state, std::span<const OwnedToken> tokens) {
  Snapshot judged = state;
  const DuplicatesPolicy policy = state.options.duplicates;
  if (policy != DuplicatesPolicy::kShared && state.phase == Phase::kActive) {
    std::map<TokenHandle, SupportToken> weight;
    for (const SupportToken& token : state.supports) weight[token.handle] = token;
    for (auto& [key, members] : CopiesOf(tokens)) {
      if (members.size() == 1) continue;
      std::vector<Label> labels;
      double mass = 0.0;
      for (const size_t member : members) {
        const auto found = weight.find(tokens[member].handle);
        labels.push_back(found == weight.end() ? Label::kReserve : found->second.label);
        mass += found == weight.end() ? 0.0 : found->second.alpha;
      }
      if (policy == DuplicatesPolicy::kNewestFirst) std::ranges::reverse(labels);
      // Error copies, then at most one in the margin, then reserve.
      if (!std::is_sorted(labels.rbegin(), labels.rend()) ||
          std::ranges::count(labels, Label::kMargin) > 1) {
        return absl::StrCat("copies of token ", tokens[members[0]].handle, " filled out of order");
      }
      if (labels.front() == labels.back()) continue;
      // One variable strictly inside its bounds: each copy with an equal share.
      for (const size_t member : members) {
        weight[tokens[member].handle] = {tokens[member].handle, Label::kMargin,
                                         mass / static_cast<double>(members.size())};
      }
    }
    judged.supports.clear();
    judged.counts = {.reserve = tokens.size() - weight.size()};
    for (const auto& [handle, token] : weight) {
      judged.supports.push_back(token);
      (token.label == Label::kMargin ? judged.counts.margin : judged.counts.error) += 1;
    }
    // With a margin of groups mu is unique, and published as such; a group that is filled to a
    // multiple of the box exactly has no copy in the margin, and mu may then be an interval.
  }
  const KktReport kkt = CheckKkt(judged, FlatKeys(tokens), Handles(tokens));
  if (kkt.ok()) return "";
  return absl::StrCat("KKT: labels match ", kkt.labels_match_weights, ", violation ",
                      kkt.max_violation, ", mass error ", kkt.mass_error, ", tolerance ",
                      kkt.tolerance);
}

}  // namespace lethe::svdd
