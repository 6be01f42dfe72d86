// Replace: an exact edit. The state is that of a memory which never saw the old tokens and was
// given the new ones last.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/core/state_checks.h"

namespace lethe::svdd {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

MemoryOptions Options(double capacity, DuplicatesPolicy duplicates = DuplicatesPolicy::kShared) {
  return {{kernel::KernelKind::kRbf, 0.5}, *Capacity::FromCapacity(capacity), duplicates, 2, 1};
}

class ReplaceTest : public testing::Test {
 protected:
  OwnedToken Token(std::vector<double> key) { return {next_++, std::move(key), {unit_(random_)}}; }
  OwnedToken Token() { return Token({unit_(random_), unit_(random_)}); }
  std::vector<OwnedToken> Tokens(size_t n) {
    std::vector<OwnedToken> tokens;
    for (size_t i = 0; i < n; ++i) tokens.push_back(Token());
    return tokens;
  }

  // Replaces in `memory` and in `alive`, and holds the one against the other.
  static void ReplaceAndCompare(ExactMemory& memory,
                                std::vector<OwnedToken>& alive,
                                const std::vector<TokenHandle>& handles,
                                const std::vector<OwnedToken>& tokens) {
    std::erase_if(alive, [&](const OwnedToken& token) {
      return std::ranges::count(handles, token.handle) > 0;
    });
    alive.insert(alive.end(), tokens.begin(), tokens.end());
    const uint64_t updates = memory.counters().updates;
    const auto before = memory.snapshot()->counts;
    const auto report = memory.Replace(handles, View(tokens));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(memory.counters().updates, updates + 1);
    EXPECT_EQ(report->before, before);
    EXPECT_EQ(report->after, memory.snapshot()->counts);
    EXPECT_EQ(memory.size(), alive.size());
    const auto fresh = Fresh(memory.snapshot()->options, alive);
    EXPECT_TRUE(SameInEveryBit(*memory.snapshot(), *fresh->snapshot(), {{{0.1, 0.2}, {9, 9}}}));
    EXPECT_EQ(KktFault(*memory.snapshot(), alive), "");
  }

  std::mt19937_64 random_{12};
  std::normal_distribution<double> unit_;
  TokenHandle next_ = 1;
};

TEST_F(ReplaceTest, EqualsAMemoryThatWasGivenTheNewTokensLast) {
  for (const auto policy : {DuplicatesPolicy::kShared, DuplicatesPolicy::kOldestFirst,
                            DuplicatesPolicy::kNewestFirst}) {
    for (const double capacity : {1.0, 3.0, 4.6}) {
      std::vector<OwnedToken> alive = Tokens(25);
      const auto memory = Fresh(Options(capacity, policy), alive);
      for (int round = 0; round < 40; ++round) {
        SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", round " << round);
        const size_t out = std::uniform_int_distribution<size_t>(0, 3)(random_);
        const size_t in =
            round % 4 == 0 ? out : std::uniform_int_distribution<size_t>(0, 3)(random_);
        std::vector<TokenHandle> handles;
        while (handles.size() < std::min(out, alive.size())) {
          const TokenHandle handle =
              alive[std::uniform_int_distribution<size_t>(0, alive.size() - 1)(random_)].handle;
          if (std::ranges::count(handles, handle) == 0) handles.push_back(handle);
        }
        std::vector<OwnedToken> tokens = Tokens(in);
        // Now and then a copy of what stays.
        if (in > 0 && round % 3 == 0 && !alive.empty()) tokens[0].key = alive.front().key;
        ReplaceAndCompare(*memory, alive, handles, tokens);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(ReplaceTest, IsExactAroundTheCapacity) {
  for (const auto policy : {DuplicatesPolicy::kShared, DuplicatesPolicy::kOldestFirst}) {
    for (const double capacity : {1.0, 1.5, 2.0, 4.0, 5.5}) {
      const auto least = static_cast<size_t>(std::ceil(capacity));
      for (size_t n = least > 1 ? least - 1 : 1; n <= least + 1; ++n) {
        for (size_t out = 1; out <= n; ++out) {
          for (size_t in = 0; in <= out + 1; ++in) {
            SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", " << n << " tokens, "
                                            << out << " out, " << in << " in");
            std::vector<OwnedToken> alive = Tokens(n);
            const auto memory = Fresh(Options(capacity, policy), alive);
            std::vector<TokenHandle> handles = Handles(alive);
            handles.resize(out);
            ReplaceAndCompare(*memory, alive, handles, Tokens(in));
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_F(ReplaceTest, OfAKeyByItselfMovesItToTheEndAndReadsTheNewValue) {
  for (const auto policy : {DuplicatesPolicy::kShared, DuplicatesPolicy::kOldestFirst,
                            DuplicatesPolicy::kNewestFirst}) {
    std::vector<OwnedToken> alive = Tokens(12);
    alive[3].key = alive[7].key = alive[0].key;
    const auto memory = Fresh(Options(3.3, policy), alive);
    for (size_t i = 0; i < 12; ++i) {
      SCOPED_TRACE(i);
      const auto before = memory->snapshot();
      const OwnedToken edited = Token(alive.front().key);
      ReplaceAndCompare(*memory, alive, {alive.front().handle}, {edited});
      // The geometry is the same, so is the description.
      const auto after = memory->snapshot();
      EXPECT_EQ(after->mu, before->mu);
      EXPECT_EQ(after->counts, before->counts);
    }
  }
}

TEST_F(ReplaceTest, NothingByNothingAndOneSidedReplacements) {
  std::vector<OwnedToken> alive = Tokens(8);
  const auto memory = Fresh(Options(2.5), alive);
  const Snapshot before = *memory->snapshot();
  ReplaceAndCompare(*memory, alive, {}, {});
  EXPECT_TRUE(SameInEveryBit(before, *memory->snapshot(), {}));
  ReplaceAndCompare(*memory, alive, {}, Tokens(2));
  ReplaceAndCompare(*memory, alive, {alive[0].handle, alive[4].handle}, {});
  ReplaceAndCompare(*memory, alive, Handles(alive), Tokens(9));
  ReplaceAndCompare(*memory, alive, Handles(alive), {});
  EXPECT_EQ(memory->snapshot()->phase, Phase::kEmpty);
}

// The new token takes the whole weight of an old one at the very step that takes the new one to the
// box: the old one stood in the margin with weight 0 when it was forgotten.
TEST_F(ReplaceTest, OfATokenWhoseWeightTheNewOneHasJustTaken) {
  for (const double capacity : {1.0, 2.0, 3.0, 6.0}) {
    for (int round = 0; round < 60; ++round) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", round " << round);
      std::vector<OwnedToken> alive = Tokens(static_cast<size_t>(capacity));
      const auto memory = Fresh(Options(capacity), alive);
      const size_t old = std::uniform_int_distribution<size_t>(0, alive.size() - 1)(random_);
      OwnedToken token = Token(alive[old].key);
      token.key[0] += 1e-3 * unit_(random_);
      ReplaceAndCompare(*memory, alive, {alive[old].handle}, {token});
      if (HasFailure()) return;
    }
  }
}

TEST_F(ReplaceTest, BadInputNamesItsFieldAndChangesNothing) {
  std::vector<OwnedToken> alive = Tokens(6);  // handles 1 to 6
  const auto memory = Fresh(Options(2.5), alive);
  const auto before = memory->snapshot();
  const SolverCounters counters = memory->counters();
  const OwnedToken good{20, {1, 1}, {1}};
  const auto refused = [&](std::vector<TokenHandle> handles, std::vector<OwnedToken> tokens,
                           absl::StatusCode code) {
    const absl::Status status = memory->Replace(handles, View(tokens)).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(memory->snapshot(), before);
    EXPECT_EQ(memory->size(), 6u);
    EXPECT_EQ(memory->counters().updates, counters.updates);
    return std::string(status.message());
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(refused({1, 9}, {good}, absl::StatusCode::kNotFound), "handles: no token 9");
  EXPECT_EQ(refused({2, 1, 2}, {good}, kInvalid), "handles: token 2 twice");
  EXPECT_EQ(refused({1}, {{6, {1, 1}, {1}}}, kInvalid), "tokens[0].handle: must be above 6");
  EXPECT_EQ(refused({1}, {good, {20, {1, 1}, {1}}}, kInvalid),
            "tokens[1].handle: must be above 20");
  EXPECT_EQ(refused({1}, {good, {21, {1}, {1}}}, kInvalid),
            "tokens[1].key: has 1 numbers, this memory's have 2");
  EXPECT_EQ(refused({1}, {good, {21, {1, kNan}, {1}}}, kInvalid),
            "tokens[1].key[1]: must be finite, got NaN");
  EXPECT_EQ(refused({1}, {good, {21, {-HUGE_VAL, 1}, {1}}}, kInvalid),
            "tokens[1].key[0]: must be finite, got an infinity");
  EXPECT_EQ(refused({1}, {good, {21, {1e101, 1}, {1}}}, kInvalid),
            "tokens[1].key[0]: is above 1e+100 in magnitude");
  EXPECT_EQ(refused({1}, {{21, {1, 1}, {1, 2}}}, kInvalid),
            "tokens[0].value: has 2 numbers, this memory's have 1");
  EXPECT_EQ(refused({1}, {{21, {1, 1}, {1e301}}}, kInvalid),
            "tokens[0].value[0]: is above 1e+300 in magnitude");
  // The old token's own handle is not free for the new one.
  EXPECT_EQ(refused({6}, {{6, {1, 1}, {1}}}, kInvalid), "tokens[0].handle: must be above 6");

  // No refusal has used up a handle.
  ReplaceAndCompare(*memory, alive, {1}, {{7, {1, 1}, {1}}});
}

}  // namespace
}  // namespace lethe::svdd
