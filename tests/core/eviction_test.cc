// What Evict promises and what it does not: no readout changes now; later ones may.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/core/state_checks.h"

namespace lethe::svdd {
namespace {

MemoryOptions Options(double capacity,
                      DuplicatesPolicy duplicates = DuplicatesPolicy::kShared,
                      int dimension = 2) {
  return {
      {kernel::KernelKind::kRbf, 0.5}, *Capacity::FromCapacity(capacity), duplicates, dimension, 2};
}

std::vector<OwnedToken> GaussianTokens(size_t n, int dimension, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<OwnedToken> tokens;
  for (size_t i = 0; i < n; ++i) {
    OwnedToken& token = tokens.emplace_back();
    token.handle = i + 1;
    for (int k = 0; k < dimension; ++k) token.key.push_back(normal(random));
    token.value = {normal(random), normal(random)};
  }
  return tokens;
}

std::vector<std::vector<double>> Queries(size_t count, int dimension, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> queries(count);
  for (size_t q = 0; q < count; ++q) {
    // From among the tokens to where every kernel value underflows.
    const double spread = std::pow(10.0, static_cast<double>(q % 4) - 1);
    for (int k = 0; k < dimension; ++k) queries[q].push_back(spread * normal(random));
  }
  return queries;
}

// The mass of the tokens with this key, in units of the box.
double MassInBoxes(const Snapshot& state, const std::vector<OwnedToken>& copies) {
  double mass = 0.0;
  for (const SupportToken& token : state.supports) {
    if (std::ranges::count(Handles(copies), token.handle) > 0) mass += token.alpha;
  }
  return mass / state.options.capacity.weight_at_box();
}

TEST(EvictionTest, ReserveGoesWithoutAChangeInAnyReadoutBit) {
  const auto queries = Queries(200, 3, 5);
  for (const double capacity : {1.0, 4.0, 7.5, 30.25}) {
    for (const auto kind :
         {kernel::KernelKind::kRbf, kernel::KernelKind::kLaplacian, kernel::KernelKind::kExpDot}) {
      SCOPED_TRACE(testing::Message() << capacity << ", kernel " << static_cast<int>(kind));
      MemoryOptions options = Options(capacity, DuplicatesPolicy::kShared, 3);
      options.kernel = {kind, 0.3};
      const auto tokens = GaussianTokens(120, 3, 1);
      const auto memory = Fresh(options, tokens);
      const auto before = memory->snapshot();
      ASSERT_GT(before->counts.reserve, 10u);
      ASSERT_TRUE(before->mu.has_value());
      const size_t carriers = before->supports.size();

      const EvictionPlan plan = memory->PlanEviction(carriers);
      EXPECT_EQ(plan.reserve.size(), before->counts.reserve);
      EXPECT_TRUE(plan.surplus.empty());
      EXPECT_EQ(plan.retained, carriers);
      ASSERT_TRUE(memory->Forget(plan.reserve).ok());
      const auto after = memory->snapshot();
      EXPECT_EQ(after->counts.reserve, 0u);
      Snapshot expected = *before;
      expected.counts.reserve = 0;
      EXPECT_TRUE(SameInEveryBit(expected, *after, queries));
    }
  }
}

TEST(EvictionTest, TakesTheOldestReserveFirstAndNoMoreThanTheBudgetAsks) {
  const auto tokens = GaussianTokens(60, 2, 2);
  const auto memory = Fresh(Options(4.5), tokens);
  const EvictionPlan all = memory->PlanEviction(0);
  EXPECT_TRUE(std::is_sorted(all.reserve.begin(), all.reserve.end()));
  const auto state = memory->snapshot();
  for (const SupportToken& token : state->supports) {
    EXPECT_EQ(std::ranges::count(all.reserve, token.handle), 0) << token.handle;
  }
  for (size_t budget = 0; budget <= tokens.size() + 2; ++budget) {
    const EvictionPlan plan = memory->PlanEviction(budget);
    const size_t wanted = tokens.size() - std::min(budget, tokens.size());
    ASSERT_EQ(plan.reserve.size(), std::min(wanted, all.reserve.size())) << budget;
    ASSERT_TRUE(std::equal(plan.reserve.begin(), plan.reserve.end(), all.reserve.begin()));
    ASSERT_TRUE(plan.surplus.empty());
    ASSERT_EQ(plan.retained, tokens.size() - plan.reserve.size());
  }
  // Every token left carries weight: the budget cannot be met, and nothing is lost over it.
  EXPECT_EQ(all.retained, state->supports.size());
  EXPECT_GT(all.retained, 0u);
  EXPECT_EQ(memory->snapshot(), state) << "a plan changes nothing";
}

TEST(EvictionTest, WithoutAMarginOnlyTheLowerEndOfMuCanFall) {
  // Two far tokens at the box; the third, between them, is what mu is bounded by from below.
  const std::vector<OwnedToken> tokens = {
      {1, {-1, 0}, {1, 0}}, {2, {1, 0}, {0, 1}}, {3, {0, 0.1}, {5, 5}}};
  const auto memory = Fresh(Options(2), tokens);
  const auto before = memory->snapshot();
  ASSERT_FALSE(before->mu.has_value());
  ASSERT_TRUE(before->mu_low.has_value());
  const EvictionPlan plan = memory->PlanEviction(2);
  EXPECT_EQ(plan.reserve, std::vector<TokenHandle>{3});
  ASSERT_TRUE(memory->Forget(plan.reserve).ok());
  const auto after = memory->snapshot();
  EXPECT_FALSE(after->mu_low.has_value());
  for (const auto& query : Queries(50, 2, 3)) {
    Readout a = before->Query(query, false);
    const Readout b = after->Query(query, false);
    EXPECT_LE(b.decision_low, a.decision_low);
    a.decision_low = b.decision_low;
    EXPECT_TRUE(SameReadout(a, b));
  }
}

// Copies of one key in the margin, more than its mass needs.
class SurplusTest : public testing::TestWithParam<DuplicatesPolicy> {
 protected:
  // A cross of single tokens around seven copies of (3, 0); `equal_values` of those.
  static std::vector<OwnedToken> Tokens(bool equal_values) {
    std::vector<OwnedToken> tokens;
    const auto add = [&](std::vector<double> key, double value) {
      tokens.push_back({tokens.size() + 1, std::move(key), {value, 1}});
    };
    for (int i = 0; i < 7; ++i) {
      add({3, 0}, equal_values ? 2.0 : i);
      add({0.3 * i - 1, 0.2 * i * i - 1}, i);
    }
    return tokens;
  }
  static std::vector<OwnedToken> Copies(const std::vector<OwnedToken>& tokens) {
    std::vector<OwnedToken> copies;
    std::ranges::copy_if(tokens, std::back_inserter(copies),
                         [](const OwnedToken& token) { return token.key[0] == 3.0; });
    return copies;
  }
};

TEST_P(SurplusTest, OnlyCopiesThatTheMassDoesNotNeedGo) {
  const DuplicatesPolicy policy = GetParam();
  const auto tokens = Tokens(true);
  const auto copies = Copies(tokens);
  for (const double capacity : {2.2, 3.7, 5.5, 7.25}) {
    SCOPED_TRACE(capacity);
    const auto memory = Fresh(Options(capacity, policy), tokens);
    const auto before = memory->snapshot();
    const double mass = MassInBoxes(*before, copies);
    ASSERT_GT(std::abs(mass - std::round(mass)), 1e-9);
    const size_t needed = static_cast<size_t>(std::floor(mass)) + 1;
    ASSERT_LT(needed, copies.size());

    const EvictionPlan plan = memory->PlanEviction(0);
    EXPECT_EQ(plan.reserve.size() + plan.surplus.size() + plan.retained, tokens.size());
    EXPECT_EQ(plan.surplus.size(), copies.size() - needed);
    // Newest first where the oldest carry the weight or all share it, and the reverse.
    std::vector<TokenHandle> expected = Handles(copies);
    if (policy != DuplicatesPolicy::kNewestFirst) std::ranges::reverse(expected);
    expected.resize(plan.surplus.size());
    EXPECT_EQ(plan.surplus, expected);
    // The reserve of other keys goes first, and a budget in between takes part of the surplus.
    const EvictionPlan some = memory->PlanEviction(plan.retained + 1);
    EXPECT_EQ(some.reserve, plan.reserve);
    EXPECT_EQ(some.surplus.size() + 1, plan.surplus.size());

    ASSERT_TRUE(memory->Forget(plan.reserve).ok());
    ASSERT_TRUE(memory->Forget(plan.surplus).ok());
    const auto after = memory->snapshot();
    EXPECT_EQ(memory->size(), plan.retained);
    EXPECT_EQ(after->mu, before->mu);
    EXPECT_NEAR(MassInBoxes(*after, copies), mass, 1e-14 * mass);
    for (const auto& query : Queries(60, 2, 8)) {
      const Readout a = before->Query(query, false);
      const Readout b = after->Query(query, false);
      if (policy != DuplicatesPolicy::kShared) {
        // The copies that went had no weight.
        EXPECT_TRUE(SameReadout(a, b));
        continue;
      }
      for (size_t k = 0; k < 2; ++k) EXPECT_NEAR(a.value[k], b.value[k], 1e-14);
      EXPECT_NEAR(*a.decision, *b.decision, 1e-14);
    }
    // It was the most that could go: one copy fewer and the solution is another.
    const EvictionPlan again = memory->PlanEviction(0);
    EXPECT_TRUE(again.reserve.empty() && again.surplus.empty());
    std::vector<TokenHandle> rest = Handles(copies);
    std::erase_if(rest, [&](TokenHandle h) { return std::ranges::count(plan.surplus, h) > 0; });
    ASSERT_TRUE(memory->Forget({&rest.front(), 1}).ok());
    EXPECT_NE(memory->snapshot()->mu, before->mu);
  }
}

TEST_P(SurplusTest, InEqualSharesDifferentValuesAreNoSurplus) {
  const auto memory = Fresh(Options(3.7, GetParam()), Tokens(false));
  const EvictionPlan plan = memory->PlanEviction(0);
  EXPECT_EQ(plan.surplus.empty(), GetParam() == DuplicatesPolicy::kShared);
}

INSTANTIATE_TEST_SUITE_P(Policies,
                         SurplusTest,
                         testing::Values(DuplicatesPolicy::kShared,
                                         DuplicatesPolicy::kOldestFirst,
                                         DuplicatesPolicy::kNewestFirst));

TEST(EvictionTest, NothingIsSuperfluousBeforeTheCapacityIsReached) {
  auto memory = ExactMemory::Create(Options(5)).value();
  EXPECT_EQ(memory->PlanEviction(0).retained, 0u);
  ASSERT_TRUE(memory->Insert(View(GaussianTokens(4, 2, 3))).ok());
  ASSERT_EQ(memory->snapshot()->phase, Phase::kWarming);
  const EvictionPlan plan = memory->PlanEviction(1);
  EXPECT_TRUE(plan.reserve.empty() && plan.surplus.empty());
  EXPECT_EQ(plan.retained, 4u);
}

TEST(EvictionTest, ThePlanDependsOnWhatIsRetainedAlone) {
  for (const auto policy : {DuplicatesPolicy::kShared, DuplicatesPolicy::kOldestFirst,
                            DuplicatesPolicy::kNewestFirst}) {
    std::vector<OwnedToken> tokens = GaussianTokens(80, 2, 4);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i % 3 == 0) tokens[i].key = {2.5, static_cast<double>(i % 2)};
      if (i % 3 == 0) tokens[i].value = {1, 1};
    }
    std::vector<OwnedToken> kept;
    std::vector<TokenHandle> gone;
    for (const OwnedToken& token : tokens) {
      if (token.handle % 4 == 1) {
        gone.push_back(token.handle);
      } else {
        kept.push_back(token);
      }
    }
    const auto stranger = Fresh(Options(6.5, policy), kept);
    auto memory = ExactMemory::Create(Options(6.5, policy)).value();
    for (const OwnedToken& token : tokens) ASSERT_TRUE(memory->Insert(View({{token}})).ok());
    std::ranges::shuffle(gone, std::mt19937_64(6));
    for (const TokenHandle handle : gone) ASSERT_TRUE(memory->Forget({&handle, 1}).ok());
    for (const size_t budget : {0u, 10u, 30u, 59u}) {
      const EvictionPlan a = memory->PlanEviction(budget);
      const EvictionPlan b = stranger->PlanEviction(budget);
      EXPECT_EQ(a.reserve, b.reserve);
      EXPECT_EQ(a.surplus, b.surplus);
      EXPECT_EQ(a.retained, b.retained);
    }
  }
}

// The scope of the promise. Token 3 is in reserve and may go; then a token arrives that would have
// given it weight. The memory that evicted it is now exact for what it retains, and not for what it
// once held.
TEST(EvictionTest, WhatIsSuperfluousNowMayBeMissedLater) {
  MemoryOptions options = Options(1);
  options.kernel.parameter = 1.0 / 25;
  const std::vector<OwnedToken> tokens = {
      {1, {-1, 0}, {1, 0}}, {2, {1, 0}, {0, 1}}, {3, {0, 0.9}, {3, 3}}};
  const OwnedToken later{4, {0, -10}, {0, 0}};
  const auto kept = Fresh(options, tokens);
  const auto evicted = Fresh(options, tokens);
  const EvictionPlan plan = evicted->PlanEviction(2);
  ASSERT_EQ(plan.reserve, std::vector<TokenHandle>{3});
  ASSERT_TRUE(evicted->Forget(plan.reserve).ok());
  const auto queries = Queries(40, 2, 7);
  Snapshot expected = *kept->snapshot();
  expected.counts.reserve = 0;
  EXPECT_TRUE(SameInEveryBit(expected, *evicted->snapshot(), queries));

  ASSERT_TRUE(kept->Insert(View({{later}})).ok());
  ASSERT_TRUE(evicted->Insert(View({{later}})).ok());
  const auto with = kept->snapshot();
  const auto without = evicted->snapshot();
  ASSERT_EQ(with->supports.size(), 4u);
  EXPECT_EQ(with->supports[2].handle, 3u);
  EXPECT_NEAR(with->supports[2].alpha, 0.0333, 5e-5);
  EXPECT_EQ(without->supports.size(), 3u);
  const Readout a = with->Query(std::vector<double>{0, 1}, false);
  const Readout b = without->Query(std::vector<double>{0, 1}, false);
  EXPECT_GT(std::abs(a.value[0] - b.value[0]), 0.05);
  EXPECT_GT(std::abs(*a.decision - *b.decision), 1e-4);
  EXPECT_TRUE(SameInEveryBit(*without, *Fresh(options, {{tokens[0], tokens[1], later}})->snapshot(),
                             queries));
}

}  // namespace
}  // namespace lethe::svdd
