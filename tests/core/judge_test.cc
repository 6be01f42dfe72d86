// The exact judge against what is known without it: the 60-digit vectors and random small lives. A
// judge that refuses nothing is tested in broken_state_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/exact_judge.h"
#include "tests/core/vectors.h"

namespace lethe::svdd {
namespace {

TEST(ExactJudgeTest, RoundsOnceAndMidpointsByTheirDecimal) {
  EXPECT_EQ(RoundOnce(Exact(1) / 3), 1.0 / 3.0);
  EXPECT_EQ(RoundOnce(Exact("0.1")), 0.1);
  const Exact below = (Exact(1.0) + Exact(std::nextafter(1.0, 2.0))) / 2;
  EXPECT_EQ(RoundOnce(below + Exact("1e-60")), std::nextafter(1.0, 2.0));
  EXPECT_EQ(RoundOnce(below - Exact("1e-60")), 1.0);
  // (1 - 0.3) / 4 with 0.3 a double lies halfway; its 25 digits decide.
  const Exact midpoint = (1 - Exact(0.3)) / 4;
  const double nearest = RoundOnce(midpoint);
  EXPECT_EQ(midpoint.str(25), "0.1750000000000000027755576");
  EXPECT_EQ(nearest, 0.1750000000000000027755576);
  EXPECT_LE(abs(Exact(nearest) - midpoint), Exact(std::ldexp(1.0, -55)));
}

TEST(ExactJudgeTest, AgreesWithTheVectorsInAllTheirDigits) {
  for (const VectorCase& vector : Vectors()) {
    for (const VectorState& truth : vector.states) {
      SCOPED_TRACE(vector.name + ", " + truth.name);
      if (truth.tokens.empty()) continue;
      const auto state = Fresh(vector.options, truth.tokens)->snapshot();
      const ExactSolution solution = SolveExactly(*state, truth.tokens);
      ASSERT_EQ(solution.fault, "");
      for (size_t i = 0; i < truth.tokens.size(); ++i) {
        const Exact printed(truth.alpha[i]);
        EXPECT_LE(abs(solution.alpha[i] - printed), abs(printed) * Exact("1e-24")) << i;
      }
      if (solution.mu.has_value()) {
        EXPECT_LE(abs(*solution.mu - Exact(truth.mu)), Exact("1e-24"));
      }
      EXPECT_EQ(ExactFault(*state, truth.tokens), "");
      for (size_t q = 0; q < vector.queries.size(); ++q) {
        const Exact sum = solution.KernelSum(vector.options, truth.tokens, vector.queries[q]);
        const Exact printed(truth.decision[q]);
        EXPECT_LE(abs(sum - printed), abs(printed) * Exact("1e-24"));
      }
    }
  }
}

}  // namespace
}  // namespace lethe::svdd
