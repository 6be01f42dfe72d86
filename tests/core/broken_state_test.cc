// Published states broken on purpose. The exact judge refuses every one, down to a single ulp; the
// fp64 check refuses all that fp64 can see.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/core/exact_judge.h"
#include "tests/core/key_streams.h"

namespace lethe::svdd {
namespace {

// Changes above this are far above the rounding that the fp64 check allows for.
constexpr double kVisible = 1e-11;

struct Broken {
  std::string how;
  Snapshot state;
  bool visible;  // to fp64
};

double FlipBit(double value, int bit) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ (uint64_t{1} << bit));
}

void Recount(Snapshot& state, size_t tokens) {
  state.counts = {};
  for (const SupportToken& token : state.supports) {
    (token.label == Label::kMargin ? state.counts.margin : state.counts.error) += 1;
  }
  state.counts.reserve = tokens - state.supports.size();
}

class Breaker {
 public:
  Breaker(const Snapshot& good, std::span<const OwnedToken> tokens) : good_(good), tokens_(tokens) {
    const ExactSolution solution = SolveExactly(good, tokens);
    for (size_t i = 0; i < tokens.size(); ++i) {
      Exact g = solution.mu.value_or(solution.mu_high.value_or(0));
      g -= ExactKernel(good.options.kernel, tokens[i].key, tokens[i].key);
      g += 2 * solution.KernelSum(good.options, tokens, tokens[i].key);
      gradients_.push_back(std::abs(g.convert_to<double>()));
    }
  }

  std::vector<Broken> All() {
    for (size_t i = 0; i < good_.supports.size(); ++i) {
      BreakWeight(i);
      BreakLabel(i);
      Drop(i);
    }
    SwapWeights();
    BreakMu();
    AddTokens();
    BreakCounts();
    return std::move(broken_);
  }

 private:
  void Add(std::string how, const std::function<void(Snapshot&)>& change, bool visible) {
    Broken& broken = broken_.emplace_back(Broken{std::move(how), good_, visible});
    change(broken.state);
  }

  void SetWeight(size_t i, double alpha, const std::string& how) {
    const double moved = std::abs(alpha - good_.supports[i].alpha);
    // Off the box an error token is seen at once.
    const bool visible = !(moved <= kVisible) || good_.supports[i].label == Label::kError;
    Add(
        "weight " + std::to_string(i) + " " + how,
        [&](Snapshot& state) { state.supports[i].alpha = alpha; }, visible);
  }

  void BreakWeight(size_t i) {
    const double alpha = good_.supports[i].alpha;
    for (const int bit : {0, 1, 7, 20, 30, 40, 51, 52, 53, 56, 62, 63}) {
      SetWeight(i, FlipBit(alpha, bit), "bit " + std::to_string(bit));
    }
    SetWeight(i, std::nextafter(alpha, 0.0), "one ulp down");
    SetWeight(i, std::nextafter(alpha, 2.0), "one ulp up");
    SetWeight(i, alpha * (1 + 1e-6), "a millionth up");
    SetWeight(i, 0.0, "zero");
    SetWeight(i, std::numeric_limits<double>::quiet_NaN(), "NaN");
    SetWeight(i, std::numeric_limits<double>::infinity(), "infinite");
  }

  void BreakLabel(size_t i) {
    const Label old = good_.supports[i].label;
    for (const Label label : {Label::kReserve, Label::kMargin, Label::kError}) {
      if (label == old) continue;
      for (const bool recount : {false, true}) {
        Add(
            "label " + std::to_string(i) + (recount ? ", counted" : ""),
            [&](Snapshot& state) {
              state.supports[i].label = label;
              if (recount) Recount(state, tokens_.size());
            },
            !recount || label != Label::kMargin || gradients_[Position(i)] > kVisible);
      }
    }
  }

  void Drop(size_t i) {
    Add(
        "support " + std::to_string(i) + " dropped",
        [&](Snapshot& state) {
          state.supports.erase(state.supports.begin() + static_cast<std::ptrdiff_t>(i));
          Recount(state, tokens_.size());
        },
        good_.supports[i].alpha > kVisible);
  }

  void SwapWeights() {
    for (size_t i = 0; i < good_.supports.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const double a = good_.supports[i].alpha;
        const double b = good_.supports[j].alpha;
        if (a == b) continue;
        // What the gradient of one of them sees of it.
        const double distance = 1 - ExactKernel(good_.options.kernel, tokens_[Position(i)].key,
                                                tokens_[Position(j)].key)
                                        .convert_to<double>();
        const bool mixed = good_.supports[i].label != good_.supports[j].label;
        const bool unit = good_.options.kernel.kind != kernel::KernelKind::kExpDot;
        Add(
            "weights " + std::to_string(j) + " and " + std::to_string(i) + " swapped",
            [&](Snapshot& state) { std::swap(state.supports[i].alpha, state.supports[j].alpha); },
            mixed || (unit && std::abs(a - b) * distance > kVisible));
      }
    }
  }

  void BreakMu() {
    const auto break_end = [&](std::optional<double> Snapshot::*end, const std::string& name) {
      const std::optional<double> old = good_.*end;
      if (!old.has_value()) {
        Add(
            name + " made up", [&](Snapshot& state) { state.*end = 0.25; }, false);
        return;
      }
      for (const int bit : {0, 3, 25, 45, 51, 54, 62, 63}) {
        const double mu = FlipBit(*old, bit);
        Add(
            name + " bit " + std::to_string(bit), [&](Snapshot& state) { state.*end = mu; },
            end == &Snapshot::mu && std::abs(mu - *old) > kVisible);
      }
      Add(
          name + " left out", [&](Snapshot& state) { state.*end = std::nullopt; }, false);
    };
    break_end(&Snapshot::mu, "mu");
    break_end(&Snapshot::mu_low, "mu's lower end");
    break_end(&Snapshot::mu_high, "mu's upper end");
  }

  // A token that should be in reserve, with weight 0 or a little.
  void AddTokens() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const TokenHandle handle = tokens_[i].handle;
      const auto at = std::ranges::lower_bound(good_.supports, handle, {}, &SupportToken::handle);
      if (at != good_.supports.end() && at->handle == handle) continue;
      for (const double alpha : {0.0, 1e-300, 1e-6}) {
        for (const Label label : {Label::kMargin, Label::kError}) {
          Add(
              "token " + std::to_string(handle) + " added with weight " + std::to_string(alpha),
              [&](Snapshot& state) {
                const auto place = state.supports.begin() + (at - good_.supports.begin());
                state.supports.insert(place, {handle, label, alpha});
                Recount(state, tokens_.size());
              },
              alpha > kVisible || label == Label::kError || gradients_[i] > kVisible);
        }
      }
    }
    Add(
        "a token that is not retained",
        [&](Snapshot& state) {
          state.supports.push_back({tokens_.back().handle + 1, Label::kMargin, 0.0});
          state.counts.margin += 1;
        },
        true);
  }

  void BreakCounts() {
    Add(
        "one more in reserve", [](Snapshot& state) { ++state.counts.reserve; }, true);
    Add(
        "one more in the margin", [](Snapshot& state) { ++state.counts.margin; }, true);
    Add(
        "phase", [](Snapshot& state) { state.phase = Phase::kWarming; }, false);
    if (good_.supports.size() > 1) {
      Add(
          "out of order", [](Snapshot& state) { std::swap(state.supports[0], state.supports[1]); },
          true);
    }
  }

  size_t Position(size_t support) const {
    const TokenHandle handle = good_.supports[support].handle;
    return static_cast<size_t>(std::ranges::find(tokens_, handle, &OwnedToken::handle) -
                               tokens_.begin());
  }

  const Snapshot& good_;
  std::span<const OwnedToken> tokens_;
  std::vector<double> gradients_;  // |g| at the solution, a token each
  std::vector<Broken> broken_;
};

class BrokenStateTest : public testing::TestWithParam<KeyRegime> {};

TEST_P(BrokenStateTest, IsRefused) {
  const KeyRegime regime = GetParam();
  size_t broken_states = 0;
  size_t visible = 0;
  for (const auto kind :
       {kernel::KernelKind::kRbf, kernel::KernelKind::kLaplacian, kernel::KernelKind::kExpDot}) {
    for (const double capacity : {2.0, 3.4}) {
      const auto policy = static_cast<DuplicatesPolicy>(1 + broken_states % 3);
      const size_t dimension = regime == KeyRegime::kVitals ? 7 : 2;
      KeyStream keys(regime, dimension, 40 + static_cast<uint64_t>(kind));
      const double width = kind == kernel::KernelKind::kExpDot ? keys.squared_norm()
                           : kind == kernel::KernelKind::kRbf  ? keys.squared_distance()
                                                               : std::sqrt(keys.squared_distance());
      const MemoryOptions options = {{kind, 1 / width},
                                     *Capacity::FromCapacity(capacity),
                                     policy,
                                     static_cast<int>(dimension),
                                     1};
      std::vector<OwnedToken> tokens;
      for (TokenHandle handle = 1; handle <= 9; ++handle) {
        tokens.push_back({handle, keys.Next(), {1.0}});
      }
      const auto memory = Fresh(options, tokens);
      const Snapshot& good = *memory->snapshot();
      ASSERT_EQ(ExactFault(good, tokens), "");
      ASSERT_EQ(KktFault(good, tokens), "");
      for (const Broken& broken : Breaker(good, tokens).All()) {
        SCOPED_TRACE(testing::Message()
                     << "kernel " << static_cast<int>(kind) << ", capacity " << capacity
                     << ", policy " << static_cast<int>(policy) << ": " << broken.how);
        ++broken_states;
        EXPECT_NE(ExactFault(broken.state, tokens), "");
        if (!broken.visible || policy != DuplicatesPolicy::kShared) continue;
        ++visible;
        EXPECT_FALSE(CheckKkt(broken.state, FlatKeys(tokens), Handles(tokens)).ok());
      }
    }
  }
  EXPECT_GT(broken_states, 500u);
  EXPECT_GT(visible, 100u);
}

INSTANTIATE_TEST_SUITE_P(Regimes,
                         BrokenStateTest,
                         testing::ValuesIn(kKeyRegimes),
                         [](const auto& param) { return std::string(Name(param.param)); });

// The tokens are part of what is judged.
TEST(OtherTokensTest, AStateOfOtherTokensIsRefused) {
  KeyStream keys(KeyRegime::kGaussian, 3, 9);
  const MemoryOptions options = {{kernel::KernelKind::kRbf, 0.5},
                                 *Capacity::FromCapacity(3.5),
                                 DuplicatesPolicy::kShared,
                                 3,
                                 1};
  std::vector<OwnedToken> tokens;
  for (TokenHandle handle = 1; handle <= 12; ++handle) {
    tokens.push_back({handle, keys.Next(), {1.0}});
  }
  const auto state = Fresh(options, tokens)->snapshot();
  const TokenHandle support = state->supports[0].handle;
  for (const double factor : {1 + 1e-13, 1 + 1e-8, 1.5}) {
    std::vector<OwnedToken> moved = tokens;
    moved[support - 1].key[0] *= factor;
    EXPECT_NE(ExactFault(*state, moved), "") << factor;
    if (factor > 1 + 1e-10) {
      EXPECT_NE(KktFault(*state, moved), "") << factor;
    }
  }
  std::vector<OwnedToken> fewer = tokens;
  std::erase_if(fewer, [&](const OwnedToken& token) { return token.handle == support; });
  EXPECT_NE(ExactFault(*state, fewer), "");
  EXPECT_NE(KktFault(*state, fewer), "");
  std::vector<OwnedToken> more = tokens;
  more.push_back({13, {4, 4, 4}, {1.0}});
  EXPECT_NE(ExactFault(*state, more), "");
  EXPECT_NE(KktFault(*state, more), "");
}

}  // namespace
}  // namespace lethe::svdd
