// Every bound that a state or an answer carries, against the truth in 200 digits: the error is
// never above its bound, and the bound is not so wide that it says nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/core/exact_judge.h"
#include "tests/core/key_streams.h"
#include "tests/core/solver_peer.h"
#include "tests/core/vectors.h"

namespace lethe::svdd {
namespace {

// A bound may be this many times the error, or this large.
constexpr double kLoosest = 1e6;
constexpr double kHarmless = 1e-10;

void ExpectBounded(const Exact& error, double bound, double scale, const char* what) {
  EXPECT_LE(error, Exact(bound)) << what;
  const double loosest = std::max(kLoosest * error.convert_to<double>(), kHarmless * scale);
  EXPECT_LE(bound, loosest) << what << " is bounded too widely to mean anything";
}

double Largest(std::span<const double> numbers) {
  double largest = 0.0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  return largest;
}

// The weights as published, so that the error of one evaluation is told from that of the state.
ExactSolution AsPublished(const Snapshot& state, std::span<const OwnedToken> tokens) {
  ExactSolution published;
  published.alpha.assign(tokens.size(), Exact(0));
  size_t position = 0;
  for (const SupportToken& token : state.supports) {
    while (tokens[position].handle != token.handle) ++position;
    published.alpha[position] = token.alpha;
  }
  return published;
}

void ExpectAnswerBounded(const Snapshot& state,
                         std::span<const OwnedToken> tokens,
                         const ExactSolution& truth,
                         const std::vector<double>& query) {
  const Readout readout = state.Query(query, false);
  const double values = Largest(state.values);
  const std::vector<Exact> value = truth.Readout(state.options, tokens, query);
  const ExactSolution published = AsPublished(state, tokens);
  const std::vector<Exact> published_value = published.Readout(state.options, tokens, query);
  Exact value_error = 0;
  Exact weights_error = 0;
  for (size_t k = 0; k < value.size(); ++k) {
    value_error = std::max<Exact>(value_error, abs(Exact(readout.value[k]) - value[k]));
    weights_error = std::max<Exact>(weights_error, abs(published_value[k] - value[k]));
  }
  ExpectBounded(value_error, readout.value_bound, values, "a readout");
  ExpectBounded(weights_error, state.proof.readout_bound * values, values,
                "the readout of the published weights");

  if (state.phase != Phase::kActive) return;
  const Exact self = ExactKernel(state.options.kernel, query, query);
  const Exact base = 2 * truth.KernelSum(state.options, tokens, query) - self;
  const Exact published_base = 2 * published.KernelSum(state.options, tokens, query) - self;
  const double root = std::max(1.0, std::sqrt(self.convert_to<double>()));
  const auto expect_end = [&](double decision, const std::optional<double>& mu,
                              const std::optional<Exact>& exact_mu) {
    if (!mu.has_value()) {
      EXPECT_TRUE(std::isinf(decision));
      return;
    }
    const Exact exact = base + *exact_mu;
    const double scale = std::max({1.0, std::abs(decision), self.convert_to<double>()});
    ExpectBounded(abs(Exact(decision) - exact), readout.decision_bound, scale, "a decision");
    ExpectBounded(abs(published_base + Exact(*mu) - exact), state.proof.decision_bound * root,
                  scale, "the decision function of the published weights");
  };
  if (state.mu.has_value()) {
    ASSERT_TRUE(readout.decision.has_value());
    expect_end(*readout.decision, state.mu, truth.mu);
    EXPECT_EQ(readout.decision_low, *readout.decision);
    EXPECT_EQ(readout.decision_high, *readout.decision);
  } else {
    EXPECT_FALSE(readout.decision.has_value());
    expect_end(readout.decision_low, state.mu_low, truth.mu_low);
    expect_end(readout.decision_high, state.mu_high, truth.mu_high);
  }
}

// How far the state is from another partition: the smallest of what the groups' masses are from
// their bounds and of the gradients' sizes outside the margin. Requires a margin.
Exact ExactSlack(const Snapshot& state,
                 std::span<const OwnedToken> tokens,
                 const ExactSolution& truth) {
  const MemoryOptions& options = state.options;
  const Exact box = Exact(options.capacity.box()) / Exact(options.capacity.total());
  Exact slack = std::numeric_limits<Exact>::max();
  for (const OwnedToken& token : tokens) {
    Exact mass = 0;
    int copies = 0;
    for (size_t j = 0; j < tokens.size(); ++j) {
      if (tokens[j].key != token.key) continue;
      mass += truth.alpha[j];
      ++copies;
    }
    const Exact room = copies * box - mass;
    if (mass > 0 && room > 1e-150) {
      slack = std::min<Exact>(slack, std::min<Exact>(mass, room));
    } else {
      const Exact gradient = 2 * truth.KernelSum(options, tokens, token.key) -
                             ExactKernel(options.kernel, token.key, token.key) + *truth.mu;
      slack = std::min<Exact>(slack, abs(gradient));
    }
  }
  return slack;
}

// False when the tokens are too close to each other for the judge's digits.
bool ExpectProofHolds(const Snapshot& state,
                      std::span<const OwnedToken> tokens,
                      std::span<const std::vector<double>> queries) {
  if (tokens.empty()) return true;
  const ExactSolution truth = SolveExactly(state, tokens);
  if (truth.fault == "too singular for these digits") return false;
  EXPECT_EQ(truth.fault, "");
  EXPECT_EQ(ExactFault(state, tokens), "");
  EXPECT_EQ(state.proof.decided_by_solver, state.phase == Phase::kActive);

  // Rounded once: half an ulp a weight, on top of what is promised before rounding.
  Exact square = 0;
  Exact rounding = 0;
  const ExactSolution published = AsPublished(state, tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Exact difference = published.alpha[i] - truth.alpha[i];
    square += difference * difference;
    const double alpha = published.alpha[i].convert_to<double>();
    const Exact half = Exact(std::nextafter(alpha, 2.0) - alpha) / 2;
    EXPECT_LE(abs(difference), half) << i;
    rounding += half * half;
  }
  EXPECT_LE(sqrt(square), Exact(state.proof.weight_bound) + sqrt(rounding));
  EXPECT_LE(state.proof.weight_bound, kHarmless);

  if (state.phase == Phase::kActive) {
    double scale = 1.0;
    for (const OwnedToken& token : tokens) {
      scale = std::max(
          scale, ExactKernel(state.options.kernel, token.key, token.key).convert_to<double>());
    }
    for (const auto& end : {state.mu, state.mu_low, state.mu_high}) {
      if (!end.has_value()) continue;
      const Exact gap = ExactGap(state, tokens, Exact(*end));
      EXPECT_GE(gap, 0);
      // Without a margin the other ends of mu have gradients of any size on their right side only.
      ExpectBounded(gap, state.proof.gap_bound, scale, "the gap");
      // The gap bounds the error in the kernel's norm (T1).
      EXPECT_LE(square * Exact(state.proof.lambda_min),
                Exact(state.proof.gap_bound) + Exact(1e-30));
    }
    EXPECT_GE(state.proof.slack, 0.0);
    if (truth.mu.has_value()) {
      EXPECT_LE(Exact(state.proof.slack), ExactSlack(state, tokens, truth));
    }
    if (!state.supports.empty() && state.counts.margin > 0) {
      EXPECT_GT(state.proof.lambda_min, 0.0);
      EXPECT_GE(state.proof.condition, 1.0);
    }
  }
  for (const std::vector<double>& query : queries) {
    ExpectAnswerBounded(state, tokens, truth, query);
  }
  return true;
}

std::vector<std::vector<double>> WithFarQueries(std::vector<std::vector<double>> queries,
                                                const std::vector<double>& key,
                                                kernel::KernelKind kind) {
  queries.push_back(key);
  // An exp_dot of far queries leaves the range of doubles soon.
  const std::vector<double> steps =
      kind == kernel::KernelKind::kExpDot ? std::vector{0.1} : std::vector{0.1, 40.0, 1e5};
  for (const double step : steps) {
    std::vector<double> query = key;
    for (double& coordinate : query) coordinate += step;
    queries.push_back(std::move(query));
  }
  return queries;
}

class VectorProofTest : public testing::TestWithParam<size_t> {};

TEST_P(VectorProofTest, EveryErrorIsBelowItsBound) {
  const VectorCase& vector = Vectors()[GetParam()];
  const auto queries =
      WithFarQueries(vector.queries, vector.states[0].tokens[0].key, vector.options.kernel.kind);
  // Fed one by one, then less each token: the incremental path.
  auto memory = ExactMemory::Create(vector.options).value();
  for (const OwnedToken& token : vector.states[0].tokens) {
    ASSERT_TRUE(memory->Insert(View({{token}})).ok());
  }
  EXPECT_TRUE(ExpectProofHolds(*memory->snapshot(), vector.states[0].tokens, queries));
  for (size_t i = 1; i < vector.states.size(); ++i) {
    SCOPED_TRACE(vector.states[i].name);
    const auto& rest = vector.states[i].tokens;
    std::vector<TokenHandle> gone;
    for (const OwnedToken& token : vector.states[0].tokens) {
      if (std::ranges::count(Handles(rest), token.handle) == 0) gone.push_back(token.handle);
    }
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_TRUE(ExpectProofHolds(**memory->Preview(gone), rest, queries));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         VectorProofTest,
                         testing::Range(size_t{0}, Vectors().size()),
                         [](const auto& param) {
                           std::string name = Vectors()[param.param].name;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

// Streams of every kind, so that certificates are kept across operations that move no weight, and
// proofs come from every rung.
class StreamProofTest : public testing::TestWithParam<KeyRegime> {};

TEST_P(StreamProofTest, EveryErrorIsBelowItsBound) {
  const KeyRegime regime = GetParam();
  int judged = 0;
  int too_singular = 0;
  for (const auto kind :
       {kernel::KernelKind::kRbf, kernel::KernelKind::kLaplacian, kernel::KernelKind::kExpDot}) {
    for (const double capacity : {1.0, 3.0, 5.3}) {
      const auto policy = static_cast<DuplicatesPolicy>(1 + (judged + too_singular) % 3);
      const size_t dimension = regime == KeyRegime::kVitals ? 7 : 2;
      KeyStream keys(regime, dimension, static_cast<uint64_t>(kind) * 100);
      const double width = kind == kernel::KernelKind::kExpDot ? keys.squared_norm()
                           : kind == kernel::KernelKind::kRbf  ? keys.squared_distance()
                                                               : std::sqrt(keys.squared_distance());
      const MemoryOptions options = {{kind, 1 / width},
                                     *Capacity::FromCapacity(capacity),
                                     policy,
                                     static_cast<int>(dimension),
                                     2};
      auto memory = ExactMemory::Create(options).value();
      std::mt19937_64 random(7);
      std::normal_distribution<double> normal;
      std::vector<OwnedToken> alive;
      for (TokenHandle handle = 1; handle <= 18; ++handle) {
        SCOPED_TRACE(testing::Message() << "kernel " << static_cast<int>(kind) << ", capacity "
                                        << capacity << ", token " << handle);
        alive.push_back({handle, keys.Next(), {normal(random), 1e3 * normal(random)}});
        ASSERT_TRUE(memory->Insert(View({{alive.back()}})).ok());
        if (handle % 5 == 0) {
          const TokenHandle gone = alive[handle / 5].handle;
          ASSERT_TRUE(memory->Forget({&gone, 1}).ok());
          alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(handle / 5));
        }
        const auto queries = WithFarQueries({}, alive[handle % alive.size()].key, kind);
        if (ExpectProofHolds(*memory->snapshot(), alive, queries)) {
          ++judged;
        } else {
          ++too_singular;
        }
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GE(judged, 140) << "of 162; " << too_singular << " were too singular for the judge";
}

INSTANTIATE_TEST_SUITE_P(Regimes,
                         StreamProofTest,
                         testing::ValuesIn(kKeyRegimes),
                         [](const auto& param) { return std::string(Name(param.param)); });

// Each of many tokens in reserve with gradient 0 adds its rounding to the gap: copies without
// weight of a group in the margin.
TEST(ProofTest, TheGapCountsTheReserveToo) {
  for (const auto policy : {DuplicatesPolicy::kOldestFirst, DuplicatesPolicy::kNewestFirst}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message()
                   << "policy " << static_cast<int>(policy) << ", seed " << seed);
      std::mt19937_64 random(seed);
      std::normal_distribution<double> normal;
      std::vector<OwnedToken> tokens;
      for (TokenHandle handle = 1; handle <= 4; ++handle) {
        tokens.push_back({handle, {normal(random), normal(random)}, {1, 2}});
      }
      while (tokens.size() < 600) {
        tokens.push_back({tokens.size() + 1, {0.7, -0.4}, {1, 2}});
      }
      const MemoryOptions options = {
          {kernel::KernelKind::kRbf, 0.5}, *Capacity::FromCapacity(2.5), policy, 2, 2};
      const auto memory = Fresh(options, tokens);
      ASSERT_GT(memory->snapshot()->counts.reserve, 500u);
      EXPECT_TRUE(ExpectProofHolds(*memory->snapshot(), tokens, {}));
    }
  }
}

// A weight above 0 may round to 0. Where only its token is near, the answer is that of the others,
// and it says that it may be wrong by anything in their range.
TEST(ProofTest, AWeightThatRoundsToZeroAnswersNothing) {
  Snapshot state({{kernel::KernelKind::kRbf, 1.0},
                  *Capacity::FromCapacity(1),
                  DuplicatesPolicy::kShared,
                  1,
                  1});
  state.phase = Phase::kActive;
  state.mu = 0.0;
  state.supports = {{1, Label::kMargin, 1.0}, {2, Label::kMargin, 0.0}};
  state.keys = {0.0, 10.0};
  state.values = {1.0, 2.0};
  state.largest_value = 2.0;
  state.proof.readout_bound = 2.0;
  const double query = 100.0;
  const Readout readout = state.Query({&query, 1}, true);
  EXPECT_EQ(readout.value[0], 1.0);
  EXPECT_EQ(readout.shares, (std::vector<double>{1.0, 0.0}));
  EXPECT_NEAR(readout.log_denominator, -10000.0, 1e-9);
  EXPECT_GE(readout.value_bound, 1.0);
}

// The refined solution before rounding: what weight_bound speaks of.
TEST_P(StreamProofTest, TheRefinedSolutionIsWithinItsBound) {
  const KeyRegime regime = GetParam();
  int judged = 0;
  for (const double capacity : {2.0, 3.7, 6.1}) {
    KeyStream keys(regime, 3, 77);
    const MemoryOptions options = {{kernel::KernelKind::kRbf, 1 / keys.squared_distance()},
                                   *Capacity::FromCapacity(capacity),
                                   DuplicatesPolicy::kShared,
                                   3,
                                   1};
    Solver solver(options);
    std::vector<OwnedToken> tokens;
    for (TokenHandle handle = 1; handle <= 20; ++handle) {
      tokens.push_back({handle, keys.Next(), {1.0}});
      solver.Insert(View(std::span(tokens).last(1)));
      const Snapshot state = solver.Publish().value();
      // On the upper rungs the point itself is kept in double-double only.
      if (state.phase != Phase::kActive || state.proof.precision_bits != 106) continue;
      const ExactSolution truth = SolveExactly(state, tokens);
      if (!truth.fault.empty()) continue;
      SolverTestPeer peer(solver);
      Exact square = 0;
      for (size_t p = 0; p < peer.margin(); ++p) {
        const SupportSet::Entry& entry = peer.MarginEntry(p);
        const Exact held = (Exact(entry.w.hi) + Exact(entry.w.lo)) / options.capacity.total();
        Exact exact = 0;
        for (const TokenHandle member : solver.tokens().Members(entry.group)) {
          exact += truth.alpha[member - 1];
        }
        square += (held - exact) * (held - exact);
      }
      const Exact error = sqrt(square);
      EXPECT_LE(error, Exact(state.proof.weight_bound)) << "capacity " << capacity;
      ++judged;
    }
  }
  // A single key has one exact solution; its ties go up the ladder.
  EXPECT_GE(judged, regime == KeyRegime::kConstant ? 0 : 15);
}

}  // namespace
}  // namespace lethe::svdd
