#include "core/svdd/eviction.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace lethe::svdd {
namespace {

// How many of the group's members must stay so that its mass fits them with room to spare: at the
// box of all of them the group would leave the margin, and mu could change. `mass` is rounded.
size_t FewestMembers(const Capacity& capacity, double mass) {
  const double full = mass * capacity.total() / capacity.box();
  return static_cast<size_t>(full * (1 + 0x1p-40)) + 1;
}

bool EqualValues(const TokenTable& tokens, std::span<const TokenHandle> members) {
  return std::ranges::all_of(members, [&](TokenHandle member) {
    return std::ranges::equal(tokens.Value(member), tokens.Value(members.front()));
  });
}

}  // namespace

EvictionPlan PlanEviction(const TokenTable& tokens, const Snapshot& state, size_t budget) {
  EvictionPlan plan;
  plan.retained = tokens.size();
  // While warming or empty every token carries weight.
  if (state.phase != Phase::kActive) return plan;

  absl::flat_hash_map<GroupIndex, double> mass;  // sum of alpha, groups with weight
  for (const SupportToken& token : state.supports) {
    mass[tokens.GroupOf(token.handle)] += token.alpha;
  }
  const std::vector<TokenHandle> handles = tokens.Handles();
  for (const TokenHandle handle : handles) {
    if (plan.retained <= budget) return plan;
    if (mass.contains(tokens.GroupOf(handle))) continue;
    plan.reserve.push_back(handle);
    --plan.retained;
  }

  // Surplus copies, newest first. Filled oldest first or newest first, the copies without weight
  // are the surplus, whatever their values; in equal shares every copy counts, so that only equal
  // values make one of them superfluous.
  absl::flat_hash_map<GroupIndex, size_t> spare;
  for (const auto& [group, sum] : mass) {
    const auto members = tokens.Members(group);
    const size_t fewest = FewestMembers(state.options.capacity, sum);
    if (members.size() <= fewest) continue;
    if (state.options.duplicates == DuplicatesPolicy::kShared && !EqualValues(tokens, members)) {
      continue;
    }
    spare[group] = members.size() - fewest;
  }
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) {
    if (plan.retained <= budget) break;
    const auto group = spare.find(tokens.GroupOf(*handle));
    if (group == spare.end() || group->second == 0) continue;
    if (state.options.duplicates == DuplicatesPolicy::kNewestFirst) {
      // The newest carry the weight here; its surplus is the oldest.
      const auto members = tokens.Members(group->first);
      for (size_t i = 0; i < group->second && plan.retained > budget; ++i) {
        plan.surplus.push_back(members[i]);
        --plan.retained;
      }
      group->second = 0;
      continue;
    }
    plan.surplus.push_back(*handle);
    --plan.retained;
    --group->second;
  }
  return plan;
}

}  // namespace lethe::svdd
