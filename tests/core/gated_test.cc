// The gated softmax over a memory and a chunk, against the truth in 200 digits.
#include "core/svdd/gated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/core/exact_judge.h"
#include "tests/core/key_streams.h"

namespace lethe::svdd {
namespace {

struct Chunk {
  std::vector<double> keys;
  std::vector<double> values;
  double scale;
  double gate;
  LocalChunk view() const { return {keys, values, scale, gate}; }
};

struct Truth {
  std::vector<Exact> value;
  Exact denominator = 0;
  std::vector<Exact> token_terms;
  Exact local = 0;
};

// From the definition; the weights are those of the exact problem.
Truth Judge(const Snapshot& state,
            std::span<const OwnedToken> tokens,
            const std::vector<double>& query,
            const Chunk& chunk) {
  const ExactSolution solution = SolveExactly(state, tokens);
  EXPECT_EQ(solution.fault, "");
  const kernel::Kernel dot{kernel::KernelKind::kExpDot, chunk.scale};
  Truth truth;
  truth.value.assign(static_cast<size_t>(state.options.value_dimension), Exact(0));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Exact term =
        Exact(chunk.gate) * solution.alpha[i] * ExactKernel(dot, query, tokens[i].key);
    truth.token_terms.push_back(term);
    truth.denominator += term;
    for (size_t k = 0; k < truth.value.size(); ++k) {
      truth.value[k] += term * Exact(tokens[i].value[k]);
    }
  }
  const size_t d = query.size();
  const size_t m = truth.value.size();
  for (size_t j = 0; j < chunk.keys.size() / d; ++j) {
    const Exact term = ExactKernel(dot, query, std::span(chunk.keys).subspan(j * d, d));
    truth.local += term;
    truth.denominator += term;
    for (size_t k = 0; k < m; ++k) truth.value[k] += term * Exact(chunk.values[j * m + k]);
  }
  for (Exact& value : truth.value) value /= truth.denominator;
  return truth;
}

TEST(GatedTest, IsTheSoftmaxWithinItsBound) {
  std::mt19937_64 random(20261130);
  std::normal_distribution<double> normal;
  int judged = 0;
  for (const KeyRegime regime : {KeyRegime::kGaussian, KeyRegime::kCopies, KeyRegime::kNoise1e6}) {
    for (const kernel::KernelKind kind :
         {kernel::KernelKind::kRbf, kernel::KernelKind::kLaplacian, kernel::KernelKind::kExpDot}) {
      KeyStream keys(regime, 3, 11);
      std::vector<OwnedToken> tokens;
      for (TokenHandle handle = 1; handle <= 30; ++handle) {
        tokens.push_back({handle, keys.Next(), {normal(random), normal(random)}});
      }
      const MemoryOptions options = {{kind, 1 / keys.squared_distance()},
                                     *Capacity::FromCapacity(4.5),
                                     DuplicatesPolicy::kShared,
                                     3,
                                     2};
      const auto memory = Fresh(options, tokens);
      const Snapshot& state = *memory->snapshot();
      for (const size_t locals : {size_t{0}, size_t{1}, size_t{5}}) {
        for (const double gate : {1.0, 7.5, 1e-3, 1e100}) {
          Chunk chunk{.scale = 1 / std::sqrt(3.0), .gate = gate};
          for (size_t j = 0; j < locals * 3; ++j) chunk.keys.push_back(normal(random));
          for (size_t j = 0; j < locals * 2; ++j) chunk.values.push_back(3 * normal(random));
          std::vector<double> query = keys.Next();
          for (double& x : query) x *= locals == 5 ? 300.0 : 1.0;  // exponents far from 0 too
          const GatedReadout readout = GatedSoftmax(state, query, chunk.view());
          const Truth truth = Judge(state, tokens, query, chunk);
          for (size_t k = 0; k < 2; ++k) {
            const Exact error = abs(Exact(readout.value[k]) - truth.value[k]);
            EXPECT_LE(error, Exact(readout.value_bound));
          }
          EXPECT_LE(readout.value_bound, 1e-10) << "says nothing";
          const double log_denominator = Exact(log(truth.denominator)).convert_to<double>();
          EXPECT_NEAR(readout.log_denominator, log_denominator,
                      1e-14 * std::max(1.0, std::abs(log_denominator)));
          double sum = readout.local_share;
          for (const double share : readout.shares) sum += share;
          EXPECT_NEAR(sum, 1.0, 1e-14);
          EXPECT_NEAR(readout.local_share,
                      Exact(truth.local / truth.denominator).convert_to<double>(), 1e-14);
          ASSERT_EQ(readout.shares.size(), state.supports.size());
          for (size_t i = 0; i < state.supports.size(); ++i) {
            const size_t token = state.supports[i].handle - 1;
            EXPECT_NEAR(readout.shares[i],
                        Exact(truth.token_terms[token] / truth.denominator).convert_to<double>(),
                        1e-14);
          }
          ++judged;
        }
      }
    }
  }
  EXPECT_EQ(judged, 3 * 3 * 3 * 4);
}

TEST(GatedTest, WithoutAChunkItIsTheReadoutOfAMemoryWithThatKernel) {
  KeyStream keys(KeyRegime::kGaussian, 4, 5);
  std::vector<OwnedToken> tokens;
  for (TokenHandle handle = 1; handle <= 40; ++handle) {
    tokens.push_back({handle, keys.Next(), {std::sin(static_cast<double>(handle))}});
  }
  const double scale = 0.25;
  const auto memory = Fresh({{kernel::KernelKind::kExpDot, scale},
                             *Capacity::FromCapacity(6),
                             DuplicatesPolicy::kShared,
                             4,
                             1},
                            tokens);
  for (int i = 0; i < 20; ++i) {
    const std::vector<double> query = keys.Next();
    const Readout expected = memory->snapshot()->Query(query, true);
    const GatedReadout readout = GatedSoftmax(*memory->snapshot(), query, {.scale = scale});
    EXPECT_EQ(readout.value, expected.value) << "in every bit";
    EXPECT_EQ(readout.shares, expected.shares);
    EXPECT_EQ(readout.log_denominator, expected.log_denominator);
    EXPECT_EQ(readout.local_share, 0.0);
  }
}

TEST(GatedTest, AnEmptyMemoryLeavesTheChunkAlone) {
  const Snapshot state({{kernel::KernelKind::kRbf, 1.0},
                        *Capacity::FromCapacity(3),
                        DuplicatesPolicy::kShared,
                        1,
                        1});
  const std::vector<double> keys = {0.0, 1.0};
  const std::vector<double> values = {1.0, -1e300};
  const std::vector<double> query = {0.0};
  const GatedReadout readout =
      GatedSoftmax(state, query, {.keys = keys, .values = values, .scale = 1.0});
  EXPECT_EQ(readout.value[0], 0.5 - 5e299);
  EXPECT_EQ(readout.local_share, 1.0);
  EXPECT_DOUBLE_EQ(readout.log_denominator, std::log(2.0));
  EXPECT_TRUE(readout.shares.empty());
}

}  // namespace
}  // namespace lethe::svdd
