// CheckEviction: an honest eviction passes, and every single thing that must not change is seen.
#include "server/service/eviction_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/svdd/memory.h"
#include "server/service/validate.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

using svdd::TokenHandle;

// A memory over tokens in R^2, its states before and after an honest eviction of `handles`.
struct Case {
  svdd::Snapshot before;
  svdd::Snapshot after;
  std::vector<TokenHandle> evicted;
};

Case Evicted(double capacity, const std::vector<TokenInput>& tokens, size_t budget) {
  auto memory = svdd::ExactMemory::Create(*ToOptions(SmallConfig(capacity)));
  EXPECT_THAT(memory, IsOk());
  std::vector<svdd::NewToken> batch;
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.push_back({.handle = i + 1, .key = tokens[i].key, .value = tokens[i].value});
  }
  EXPECT_THAT((*memory)->Insert(batch), IsOk());
  const svdd::EvictionPlan plan = (*memory)->PlanEviction(budget);
  std::vector<TokenHandle> handles = plan.reserve;
  handles.insert(handles.end(), plan.surplus.begin(), plan.surplus.end());
  std::sort(handles.begin(), handles.end());
  svdd::Snapshot before = *(*memory)->snapshot();
  EXPECT_THAT((*memory)->Forget(handles), IsOk());
  return {std::move(before), *(*memory)->snapshot(), handles};
}

// Reserve tokens only.
Case Reserve() {
  std::vector<TokenInput> tokens = Spiral(12);
  for (int i = 0; i < 8; ++i) tokens.push_back(MakeToken("in", 0.1 * i, 0.05));
  return Evicted(4, tokens, 1);
}

// Copies with weight.
Case Surplus() {
  std::vector<TokenInput> tokens = {MakeToken("x", 0, 2, 5), MakeToken("y", 2, -1, 7)};
  for (int i = 0; i < 6; ++i) tokens.push_back(MakeToken("copy", -2, -1, 3));
  return Evicted(2, tokens, 4);
}

absl::Status Check(const Case& c) { return CheckEviction(c.before, c.after, c.evicted); }

TEST(EvictionCheckTest, HonestEvictionsPass) {
  const Case reserve = Reserve();
  EXPECT_FALSE(reserve.evicted.empty());
  EXPECT_THAT(Check(reserve), IsOk());
  const Case surplus = Surplus();
  EXPECT_EQ(surplus.evicted.size(), 4u);
  EXPECT_EQ(surplus.before.supports.size(), 8u);
  EXPECT_THAT(Check(surplus), IsOk());
}

TEST(EvictionCheckTest, EverySingleChangeIsRefused) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const char* what, const std::function<void(Case&)>& spoil) {
    for (const Case& honest : {Reserve(), Surplus()}) {
      Case c = honest;
      spoil(c);
      const absl::Status status = Check(c);
      EXPECT_THAT(status, HasCode(absl::StatusCode::kInternal)) << what;
    }
  };
  refused("phase", [](Case& c) { c.after.phase = svdd::Phase::kWarming; });
  refused("mu by a bit", [&](Case& c) { c.after.mu = std::nextafter(*c.after.mu, infinity); });
  refused("mu gone", [](Case& c) { c.after.mu.reset(); });
  refused("handle", [](Case& c) { ++c.after.supports[0].handle; });
  refused("label", [](Case& c) { c.after.supports[0].label = svdd::Label::kError; });
  refused("weight by a bit", [&](Case& c) {
    c.after.supports[0].alpha = std::nextafter(c.after.supports[0].alpha, infinity);
  });
  refused("a token lost", [](Case& c) { c.after.supports.pop_back(); });
  refused("a token more", [](Case& c) {
    c.after.supports.push_back(c.after.supports.back());
    c.after.keys.insert(c.after.keys.end(), {1.0, 1.0});
  });
  refused("margin", [](Case& c) { --c.after.counts.margin; });
  refused("error", [](Case& c) { ++c.after.counts.error; });
  refused("reserve", [](Case& c) { ++c.after.counts.reserve; });
  refused("key", [](Case& c) { c.after.keys[0] += 1.0; });
  // A token with weight and no copies among the evicted.
  refused("evicted", [](Case& c) {
    c.evicted.push_back(c.before.supports.front().handle);
    std::sort(c.evicted.begin(), c.evicted.end());
  });
}

TEST(EvictionCheckTest, CopiesMustShareValuesKeepTheirMassAndStayInTheMargin) {
  const Case honest = Surplus();
  {
    Case c = honest;
    c.before.values.back() += 1.0;
    EXPECT_THAT(Check(c), HasCode(absl::StatusCode::kInternal));
  }
  {
    // The last two of the four that stay are the copies.
    Case c = honest;
    c.after.supports.back().alpha *= 1 + 0x1p-40;
    EXPECT_THAT(Check(c), HasCode(absl::StatusCode::kInternal));
  }
  {
    Case c = honest;
    for (svdd::Snapshot* state : {&c.before, &c.after}) {
      for (svdd::SupportToken& token : state->supports) token.label = svdd::Label::kError;
    }
    EXPECT_THAT(Check(c), HasCode(absl::StatusCode::kInternal));
  }
}

TEST(EvictionCheckTest, AnIntervalOfMuMayWidenAndNotShrink) {
  Case c = Reserve();
  const auto set = [](svdd::Snapshot& state, std::optional<double> low,
                      std::optional<double> high) {
    state.mu.reset();
    state.mu_low = low;
    state.mu_high = high;
  };
  set(c.before, 0.25, 0.5);
  for (const std::optional<double> low : {std::optional<double>(), {0.25}, {0.125}}) {
    for (const std::optional<double> high : {std::optional<double>(), {0.5}, {0.75}}) {
      set(c.after, low, high);
      EXPECT_THAT(Check(c), IsOk());
    }
  }
  set(c.after, 0.3, 0.5);
  EXPECT_THAT(Check(c), HasCode(absl::StatusCode::kInternal));
  set(c.after, 0.25, 0.4);
  EXPECT_THAT(Check(c), HasCode(absl::StatusCode::kInternal));
  set(c.before, std::nullopt, 0.5);
  set(c.after, 0.25, 0.5);
  EXPECT_THAT(Check(c), HasCode(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace lethe::service
