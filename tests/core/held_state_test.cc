// What the solver holds between updates, broken on purpose: weights, mu, and the margin's factor.
// What it publishes next is still right in every bit, or nothing: trust is in the certification and
// not in the point.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/core/key_streams.h"
#include "tests/core/solver_peer.h"
#include "tests/core/state_checks.h"

namespace lethe::svdd {
namespace {

double FlipBit(double value, int bit) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ (uint64_t{1} << bit));
}

struct Damage {
  std::string name;
  // False where there is nothing to break.
  std::function<bool(SolverTestPeer&, std::mt19937_64&)> apply;
};

size_t Some(size_t n, std::mt19937_64& random) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random);
}

std::vector<Damage> Damages() {
  std::vector<Damage> damages;
  for (const int bit : {0, 20, 40, 51, 52, 63}) {
    damages.push_back({"margin weight bit " + std::to_string(bit),
                       [bit](SolverTestPeer& peer, std::mt19937_64& random) {
                         if (peer.margin() == 0) return false;
                         double& w = peer.MarginEntry(Some(peer.margin(), random)).w.hi;
                         w = FlipBit(w, bit);
                         return true;
                       }});
    damages.push_back({"mu bit " + std::to_string(bit), [bit](SolverTestPeer& peer, auto&) {
                         peer.mu().hi = FlipBit(peer.mu().hi, bit);
                         return true;
                       }});
    damages.push_back({"factor entry bit " + std::to_string(bit),
                       [bit](SolverTestPeer& peer, std::mt19937_64& random) {
                         if (peer.margin() == 0) return false;
                         const size_t row = Some(peer.margin(), random);
                         return peer.ChangeFactor(row, Some(row + 1, random), [bit](double entry) {
                           return FlipBit(entry, bit);
                         });
                       }});
  }
  for (const int bit : {0, 30, 51}) {
    damages.push_back({"error weight bit " + std::to_string(bit),
                       [bit](SolverTestPeer& peer, std::mt19937_64& random) {
                         const auto slots = peer.ErrorSlots();
                         if (slots.empty()) return false;
                         double& w = peer.Entry(slots[Some(slots.size(), random)]).w.hi;
                         w = FlipBit(w, bit);
                         return true;
                       }});
  }
  damages.push_back({"low part of a margin weight", [](SolverTestPeer& peer, auto& random) {
                       if (peer.margin() == 0) return false;
                       peer.MarginEntry(Some(peer.margin(), random)).w.lo *= -1;
                       return true;
                     }});
  damages.push_back({"two weights swapped", [](SolverTestPeer& peer, auto&) {
                       if (peer.margin() < 2) return false;
                       std::swap(peer.MarginEntry(0).w, peer.MarginEntry(peer.margin() - 1).w);
                       return true;
                     }});
  damages.push_back({"a factor entry doubled", [](SolverTestPeer& peer, auto& random) {
                       if (peer.margin() == 0) return false;
                       const size_t row = Some(peer.margin(), random);
                       return peer.ChangeFactor(row, row, [](double entry) { return 2 * entry; });
                     }});
  return damages;
}

struct Change {
  std::string name;
  std::function<void(Solver&, std::vector<OwnedToken>&)> apply;
};

void ForgetOf(Solver& solver, std::vector<OwnedToken>& alive, TokenHandle handle) {
  solver.Forget({&handle, 1});
  std::erase_if(alive, [&](const OwnedToken& token) { return token.handle == handle; });
}

// Where the point is and where it is not: next to a token with weight, in the middle, far out.
std::vector<Change> Changes(const Snapshot& state, std::span<const OwnedToken> tokens) {
  std::vector<Change> changes;
  const auto insert = [&](std::string name, std::vector<double> key) {
    changes.push_back({std::move(name), [key](Solver& solver, std::vector<OwnedToken>& alive) {
                         alive.push_back({alive.back().handle + 100, key, {1.0}});
                         solver.Insert(View(std::span(alive).last(1)));
                       }});
  };
  std::vector<double> middle(tokens[0].key.size(), 0.0);
  for (const OwnedToken& token : tokens) {
    for (size_t k = 0; k < middle.size(); ++k) {
      middle[k] += token.key[k] / static_cast<double>(tokens.size());
    }
  }
  std::vector<double> far = middle;
  for (double& coordinate : far) coordinate += 2.0;
  std::vector<double> near = tokens[0].key;
  near[0] += 1e-3;
  insert("insert in the middle", middle);
  insert("insert far out", far);
  insert("insert next to a token", near);
  insert("insert a copy", tokens[1].key);
  const TokenHandle support = state.supports.front().handle;
  const TokenHandle last_support = state.supports.back().handle;
  changes.push_back({"forget a support",
                     [support](Solver& solver, auto& alive) { ForgetOf(solver, alive, support); }});
  changes.push_back({"forget the last support", [last_support](Solver& solver, auto& alive) {
                       ForgetOf(solver, alive, last_support);
                     }});
  for (const OwnedToken& token : tokens) {
    if (std::ranges::count(state.supports, token.handle, &SupportToken::handle) > 0) continue;
    const TokenHandle reserve = token.handle;
    changes.push_back({"forget a reserve token", [reserve](Solver& solver, auto& alive) {
                         ForgetOf(solver, alive, reserve);
                       }});
    break;
  }
  changes.push_back({"nothing", [](Solver& solver, auto&) { solver.Insert({}); }});
  return changes;
}

class HeldStateTest : public testing::TestWithParam<KeyRegime> {};

TEST_P(HeldStateTest, IsNotTrusted) {
  const KeyRegime regime = GetParam();
  std::mt19937_64 random(5);
  int damaged = 0;
  int refused = 0;
  for (const auto kind : {kernel::KernelKind::kRbf, kernel::KernelKind::kExpDot}) {
    for (const double capacity : {3.0, 5.6}) {
      KeyStream keys(regime, 3, 12);
      const double width =
          kind == kernel::KernelKind::kRbf ? keys.squared_distance() : keys.squared_norm();
      const MemoryOptions options = {
          {kind, 1 / width}, *Capacity::FromCapacity(capacity), DuplicatesPolicy::kShared, 3, 1};
      Solver healthy(options);
      std::vector<OwnedToken> tokens;
      for (TokenHandle handle = 1; handle <= 24; ++handle) {
        tokens.push_back({handle, keys.Next(), {1.0}});
        healthy.Insert(View(std::span(tokens).last(1)));
        ASSERT_TRUE(healthy.Publish().has_value());
      }
      const Snapshot state = *healthy.Publish();
      for (const Change& change : Changes(state, tokens)) {
        std::vector<OwnedToken> alive = tokens;
        Solver same = healthy;
        change.apply(same, alive);
        const Snapshot truth = *Fresh(options, alive)->snapshot();
        ASSERT_TRUE(SameBits(*same.Publish(), truth)) << change.name;
        for (const Damage& damage : Damages()) {
          SCOPED_TRACE(testing::Message()
                       << "kernel " << static_cast<int>(kind) << ", capacity " << capacity << ": "
                       << damage.name << ", then " << change.name);
          Solver broken = healthy;
          SolverTestPeer peer(broken);
          if (!damage.apply(peer, random)) continue;
          if (damaged % 2 == 0) peer.DropCopies();
          ++damaged;
          std::vector<OwnedToken> rest = tokens;
          change.apply(broken, rest);
          const std::optional<Snapshot> published = broken.Publish();
          if (!published.has_value()) {
            ++refused;  // ExactMemory solves anew from the tokens, or says INTERNAL
            continue;
          }
          EXPECT_TRUE(SameBits(*published, truth));
        }
      }
    }
  }
  RecordProperty("damaged", damaged);
  RecordProperty("refused", refused);
  EXPECT_GT(damaged, 100);
}

INSTANTIATE_TEST_SUITE_P(Regimes,
                         HeldStateTest,
                         testing::ValuesIn(kKeyRegimes),
                         [](const auto& param) { return std::string(Name(param.param)); });

// Without a margin mu is free within an interval, and what is held of it is no more trusted: too
// high a mu would hide a token that no mu fits.
TEST(HeldStateWithoutMarginTest, MuIsNotTrusted) {
  const MemoryOptions options = {{kernel::KernelKind::kRbf, 0.01},
                                 *Capacity::FromCapacity(2),
                                 DuplicatesPolicy::kShared,
                                 1,
                                 1};
  std::vector<OwnedToken> tokens = {{1, {-1.0}, {1.0}}, {2, {1.0}, {1.0}}, {3, {0.0}, {1.0}}};
  Solver healthy(options);
  healthy.Insert(View(tokens));
  const Snapshot state = healthy.Publish().value();
  ASSERT_FALSE(state.mu.has_value());
  ASSERT_LT(state.mu_low.value(), state.mu_high.value());
  tokens.push_back({4, {1.05}, {1.0}});
  const Snapshot truth = *Fresh(options, tokens)->snapshot();
  ASSERT_FALSE(SamePartition(truth, state));
  for (const double held : {-1e6, -2.0, -1.0, 0.0, 1e6}) {
    for (const bool before : {true, false}) {
      SCOPED_TRACE(testing::Message() << "mu " << held << ", before the insertion: " << before);
      Solver broken = healthy;
      SolverTestPeer peer(broken);
      if (before) peer.mu() = DoubleDouble(held);
      broken.Insert(View(std::span(tokens).last(1)));
      if (!before) peer.mu() = DoubleDouble(held);
      const std::optional<Snapshot> published = broken.Publish();
      if (published.has_value()) {
        EXPECT_TRUE(SameBits(*published, truth));
      }
    }
  }
  // Nothing arrives: the interval is what it was.
  Solver broken = healthy;
  SolverTestPeer(broken).mu() = DoubleDouble(-1.0);
  EXPECT_TRUE(SameBits(broken.Publish().value(), state));
}

// A certificate is used again only for the point that it is about, also where that moves between
// an update and its publication: here the token that was inserted has weight, as only an upper rung
// can see.
TEST(HeldCertificateTest, IsNotUsedAgainForAnotherPoint) {
  const MemoryOptions options = {{kernel::KernelKind::kRbf, 0.5},
                                 *Capacity::FromCapacity(1.5),
                                 DuplicatesPolicy::kShared,
                                 1,
                                 1};
  std::vector<OwnedToken> tokens = {{1, {0.0}, {1.0}}, {2, {2.0}, {1.0}}, {3, {1.0}, {1.0}}};
  Solver solver(options);
  solver.Insert(View(tokens));
  ASSERT_TRUE(solver.Publish().has_value());
  tokens.push_back({4, {-1e-40}, {1.0}});
  solver.Insert(View(std::span(tokens).last(1)));
  SolverTestPeer(solver).mu() += DoubleDouble(0.001);
  EXPECT_TRUE(SameBits(solver.Publish().value(), *Fresh(options, tokens)->snapshot()));
}

// The tokens are what a memory solves from once more: an update after the solver gave up must not
// lose or keep any.
TEST(GivenUpTest, TheTokensAreStillTheOnesAskedFor) {
  for (const double capacity : {2.5, 6.0}) {  // above 5 the replacement passes through warming
    SCOPED_TRACE(testing::Message() << "capacity " << capacity);
    const MemoryOptions options = {{kernel::KernelKind::kRbf, 0.5},
                                   *Capacity::FromCapacity(capacity),
                                   DuplicatesPolicy::kShared,
                                   1,
                                   1};
    Solver solver(options);
    const double keys[] = {0.0, 0.7, 1.9, 3.1, 4.5, 6.2, 7.7};
    const double value = 1.0;
    std::vector<NewToken> tokens;
    for (TokenHandle handle = 0; handle < 7; ++handle) {
      tokens.push_back({handle, {&keys[handle], 1}, {&value, 1}});
    }
    solver.Insert(std::span(tokens).first(6));
    ASSERT_TRUE(solver.Publish().has_value());
    SolverTestPeer(solver).GiveUp();
    const TokenHandle forgotten = 2;
    solver.Replace({&forgotten, 1}, std::span(tokens).last(1));
    EXPECT_FALSE(solver.Publish().has_value());
    EXPECT_EQ(solver.tokens().Handles(), (std::vector<TokenHandle>{0, 1, 3, 4, 5, 6}));
  }
}

}  // namespace
}  // namespace lethe::svdd
