// Solutions against judges that share no code with any backend.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/svdd/memory.h"
#include "tests/batched/backends.h"
#include "tests/batched/judge.h"
#include "tests/batched/problems.h"

namespace lethe::batched {
namespace {

class BatchedSolve : public BackendTest {
 protected:
  template <typename T>
  void ExpectSolved(const Batch<T>& batch, const Solution<T>& solution) {
    for (size_t b = 0; b < batch.problems; ++b) {
      ASSERT_TRUE(IsSolved(solution.outcome[b]))
          << "problem " << b << ": " << OutcomeName(solution.outcome[b]);
      const Verdict verdict = JudgeSolution(batch, b, solution);
      ASSERT_LE(verdict.gap, GapBar<T>()) << "problem " << b;
      ASSERT_LE(verdict.mass_error, sizeof(T) == sizeof(double) ? 1e-13 : 1e-5) << "problem " << b;
      ASSERT_EQ(verdict.outside, 0.0) << "problem " << b;
      ASSERT_TRUE(verdict.labels_match) << "problem " << b;
      ASSERT_TRUE(verdict.thresholds_ordered) << "problem " << b;
      // What the backend says of its own gap is what the judge finds, but for K's rounding.
      ASSERT_NEAR(static_cast<double>(solution.gap[b]), verdict.gap, GapBar<T>());
    }
  }
};

TEST_P(BatchedSolve, RandomProblemsSatisfyTheDefinition) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    constexpr size_t kDimension = 7;
    std::vector<Regime> regimes = StandardRegimes(kDimension);
    regimes.push_back({"laplacian", {KernelKind::kLaplacian, false}, 0.3});
    regimes.push_back({"exp of the dot product", {KernelKind::kExpDot, false}, 0.1});
    regimes.push_back({"laplacian, normalised", {KernelKind::kLaplacian, true}, 0.7, 3, 1e-3});
    regimes.push_back({"exp of the dot product, copies", {KernelKind::kExpDot, true}, 1.0, 5, 0.0});
    uint64_t seed = 1;
    for (const Regime& regime : regimes) {
      for (const size_t n : {size_t{2}, size_t{3}, size_t{5}, size_t{8}, size_t{17}, size_t{33},
                             size_t{64}, size_t{100}, size_t{129}, size_t{512}}) {
        for (const double nu : {0.05, 0.3, 0.6, 0.95}) {
          if (n > GetParam().largest) continue;
          // C = 1/(nu n) is cut to 1 and would leave n C = 1 exactly or less.
          if (nu * static_cast<double>(n) < 1 && n < 3) continue;
          const size_t problems = n > 129 ? 1 : n > 64 ? 2 : 6;
          ++seed;
          SCOPED_TRACE(regime.name + ", n " + std::to_string(n) + ", nu " + std::to_string(nu) +
                       ", seed " + std::to_string(seed));
          const double ridge = seed % 2 == 0 ? 1e-3 : 0.1;
          const auto batch = RandomBatch<T>(regime, problems, n, kDimension, nu, ridge, seed);
          ExpectSolved(batch.view(), Solve(batch.view()));
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

// K of rank 6 with a small ridge: corrections lose digits, which a second one must bring back.
TEST_P(BatchedSolve, BadlyConditionedMargins) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const auto batch = RandomBatch<T>(StandardRegimes(6)[4], 3000, 16, 6, 0.1, 1e-3, 40);
    ExpectSolved(batch.view(), Solve(batch.view()));
  });
}

// K is near I and every point in the margin: FISTA's gap is as small as rounding lets it be, and a
// solve does not always make it smaller.
TEST_P(BatchedSolve, NearlyOrthogonalKeys) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    for (const double gamma : {0.1, 0.2, 0.3, 0.5}) {
      const Regime regime = {"rbf, narrow", {KernelKind::kRbf, false}, gamma};
      const auto batch = RandomBatch<T>(regime, 200, 64, 24, 1.0 / 16, 1e-3, 7);
      ExpectSolved(batch.view(), Solve(batch.view()));
    }
  });
}

TEST_P(BatchedSolve, NoLabelsAreBetter) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    uint64_t seed = 100;
    for (const Regime& regime : StandardRegimes(3)) {
      for (const size_t n : {size_t{2}, size_t{3}, size_t{4}, size_t{5}, size_t{6}}) {
        for (const double nu : {0.55, 0.8}) {
          ++seed;
          SCOPED_TRACE(regime.name + ", n " + std::to_string(n) + ", seed " + std::to_string(seed));
          const auto owned = RandomBatch<T>(regime, 4, n, 3, nu, 0.01, seed);
          const Batch<T> batch = owned.view();
          const Solution<T> solution = Solve(batch);
          for (size_t b = 0; b < batch.problems; ++b) {
            const auto best = TryAllLabels(GramOf(batch, b), static_cast<double>(owned.box[0]),
                                           static_cast<double>(owned.ridge[0]));
            ASSERT_TRUE(best.has_value());
            for (size_t i = 0; i < n; ++i) {
              ASSERT_NEAR(static_cast<double>(solution.weights[b * n + i]),
                          best->weights[static_cast<Eigen::Index>(i)],
                          sizeof(T) == sizeof(double) ? 1e-9 : 2e-3);
            }
          }
        }
      }
    }
  });
}

// Without a ridge (8) is the problem of the exact memory.
TEST_P(BatchedSolve, WithoutARidgeItIsTheExactMemorys) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    constexpr size_t kPoints = 40;
    constexpr size_t kDimension = 3;
    struct Pair {
      KernelKind ours;
      kernel::KernelKind theirs;
      double parameter;
    };
    for (const Pair& pair : {Pair{KernelKind::kRbf, kernel::KernelKind::kRbf, 2.0},
                             Pair{KernelKind::kLaplacian, kernel::KernelKind::kLaplacian, 1.0},
                             Pair{KernelKind::kExpDot, kernel::KernelKind::kExpDot, 0.5}}) {
      const Regime regime = {"", {pair.ours, false}, pair.parameter};
      const auto owned = RandomBatch<T>(regime, 3, kPoints, kDimension, 0.31, 0.0, 7);
      const Batch<T> batch = owned.view();
      const Solution<T> solution = Solve(batch);
      for (size_t b = 0; b < batch.problems; ++b) {
        auto memory =
            svdd::ExactMemory::Create({{pair.theirs, pair.parameter},
                                       *svdd::Capacity::FromBox(static_cast<double>(owned.box[0])),
                                       svdd::DuplicatesPolicy::kShared,
                                       static_cast<int>(kDimension),
                                       1})
                .value();
        std::vector<std::vector<double>> keys(kPoints);
        std::vector<svdd::NewToken> tokens;
        const double value = 0.0;
        for (size_t i = 0; i < kPoints; ++i) {
          for (size_t k = 0; k < kDimension; ++k) {
            keys[i].push_back(
                static_cast<double>(owned.points[(b * kPoints + i) * kDimension + k]));
          }
          tokens.push_back({i, keys[i], {&value, 1}});
        }
        ASSERT_TRUE(memory->Insert(tokens).ok());
        std::vector<double> exact(kPoints, 0.0);
        std::vector<uint8_t> labels(kPoints, 0);
        for (const svdd::SupportToken& token : memory->snapshot()->supports) {
          exact[token.handle] = token.alpha;
          labels[token.handle] = static_cast<uint8_t>(token.label);
        }
        ASSERT_TRUE(IsSolved(solution.outcome[b])) << OutcomeName(solution.outcome[b]);
        for (size_t i = 0; i < kPoints; ++i) {
          const size_t at = b * kPoints + i;
          ASSERT_NEAR(static_cast<double>(solution.weights[at]), exact[i],
                      sizeof(T) == sizeof(double) ? 1e-12 : 1e-3);
          if (sizeof(T) == sizeof(double)) {
            ASSERT_EQ(solution.labels[at], labels[i]);
          }
        }
        if (sizeof(T) == sizeof(double)) {
          ASSERT_TRUE(memory->snapshot()->mu.has_value());
          ASSERT_NEAR(static_cast<double>(solution.threshold_low[b]), *memory->snapshot()->mu,
                      1e-12);
        }
      }
    }
  });
}

TEST_P(BatchedSolve, AMatrixOfThePointsGivesTheSame) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    for (const Regime& regime : StandardRegimes(5)) {
      SCOPED_TRACE(regime.name);
      const auto points = RandomBatch<T>(regime, 5, 37, 5, 0.4, 0.01, 3);
      OwnedBatch<T> matrices = points;
      for (size_t b = 0; b < points.problems; ++b) {
        const Eigen::MatrixXd gram = GramOf(points.view(), b);
        for (Eigen::Index i = 0; i < gram.rows(); ++i) {
          for (Eigen::Index j = 0; j < gram.rows(); ++j) {
            matrices.matrices.push_back(static_cast<T>(gram(i, j)));
          }
        }
      }
      const Solution<T> of_points = Solve(points.view());
      const Solution<T> of_matrices = Solve(matrices.view());
      ExpectSolved(matrices.view(), of_matrices);
      for (size_t i = 0; i < of_points.weights.size(); ++i) {
        ASSERT_NEAR(of_points.weights[i], of_matrices.weights[i],
                    sizeof(T) == sizeof(double) ? 1e-11 : 5e-3);
      }
    }
  });
}

// Two far points hold everything at C = 1/2; the one between them has no say.
TEST_P(BatchedSolve, AnEmptyMarginHasAnInterval) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    OwnedBatch<T> batch;
    batch.problems = 1;
    batch.n = 3;
    batch.dimension = 1;
    batch.kernel = {KernelKind::kRbf, false};
    batch.points = {T(-1), T(0), T(1)};
    batch.parameter = {T(0.1)};
    batch.box = {T(0.5)};
    batch.ridge = {T(1e-3)};
    const Solution<T> solution = Solve(batch.view());
    ExpectSolved(batch.view(), solution);
    EXPECT_EQ(solution.weights, (std::vector<T>{T(0.5), T(0), T(0.5)}));
    EXPECT_EQ(solution.labels, (std::vector<uint8_t>{2, 0, 2}));
    // g of the three without mu: 1 + k(2) + rho/2 - 1, 2 k(1) - 1, as the first.
    const double outer = std::exp(-0.4) + 0.5e-3;
    const double inner = 2 * std::exp(-0.1) - 1;
    EXPECT_NEAR(solution.threshold_low[0], -inner, 1e-6);
    EXPECT_NEAR(solution.threshold_high[0], -outer, 1e-6);
  });
}

TEST_P(BatchedSolve, AStartNearTheAnswerSavesIterations) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const Regime regime = StandardRegimes(16)[2];
    const auto before = RandomBatch<T>(regime, 40, 64, 16, 0.3, 1e-3, 5);
    const Solution<T> old = Solve(before.view());
    OwnedBatch<T> moved = before;
    std::mt19937_64 random(6);
    std::normal_distribution<double> normal(0.0, 1e-3);
    for (T& coordinate : moved.points) coordinate += static_cast<T>(normal(random));
    const Solution<T> answer = Solve(moved.view());

    Options few;
    few.iterations = 10;
    few.stable_iterations = 0;
    few.polish = false;
    const auto wrong = [&](bool warm) {
      Batch<T> batch = moved.view();
      if (warm) batch.start = old.weights;
      batch.previous_labels = answer.labels;
      const Solution<T> solution = Solve(batch, few);
      int32_t sum = 0;
      for (size_t b = 0; b < batch.problems; ++b) {
        EXPECT_EQ(solution.iterations[b], 10);
        sum += solution.churn[b];
      }
      return sum;
    };
    const int32_t cold = wrong(false);
    const int32_t warm = wrong(true);
    EXPECT_GT(cold, 100);
    EXPECT_LT(warm, cold / 3);

    // A start changes the way and not the answer.
    Batch<T> batch = moved.view();
    batch.start = old.weights;
    const Solution<T> again = Solve(batch);
    ExpectSolved(batch, again);
  });
}

TEST_P(BatchedSolve, WithoutPolishTheGapIsToldAndTheWeightsAreFeasible) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const auto owned = RandomBatch<T>(StandardRegimes(16)[3], 20, 64, 16, 0.3, 1e-3, 9);
    Options options;
    options.polish = false;
    const Solution<T> rough = Solve(owned.view(), options);
    options.iterations = 20000;
    options.stable_iterations = 0;
    const Solution<T> patient = Solve(owned.view(), options);
    int unsolved = 0;
    for (size_t b = 0; b < owned.problems; ++b) {
      const Verdict verdict = JudgeSolution(owned.view(), b, rough);
      EXPECT_LE(verdict.mass_error, sizeof(T) == sizeof(double) ? 1e-13 : 1e-5);
      EXPECT_EQ(verdict.outside, 0.0);
      EXPECT_TRUE(verdict.labels_match);
      EXPECT_NEAR(static_cast<double>(rough.gap[b]), verdict.gap, GapBar<T>());
      EXPECT_EQ(rough.rounds[b], 0);
      unsolved += rough.outcome[b] == Outcome::kUnsolved ? 1 : 0;
      EXPECT_TRUE(IsSolved(patient.outcome[b])) << patient.gap[b];
    }
    EXPECT_GT(unsolved, 0);
  });
}

// Of both signs, entries have row sums far above the largest eigenvalue.
TEST_P(BatchedSolve, WithoutPowerIterationsStepsFollowTheRowSums) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const auto owned = RandomBatch<T>(StandardRegimes(16)[4], 20, 64, 16, 0.3, 1e-3, 9);
    Options by_row_sums;
    by_row_sums.power_iterations = 0;
    ExpectSolved(owned.view(), Solve(owned.view(), by_row_sums));
    const auto gap_after = [&](Options options, int iterations) {
      options.polish = false;
      options.stable_iterations = 0;
      options.iterations = iterations;
      const Solution<T> solution = Solve(owned.view(), options);
      double sum = 0;
      for (const T gap : solution.gap) sum += static_cast<double>(gap);
      return sum;
    };
    // Shorter steps, which get there all the same.
    EXPECT_GT(gap_after(by_row_sums, 20), 2 * gap_after({}, 20));
    EXPECT_LT(gap_after(by_row_sums, 2000), gap_after({}, 20) / 100);
  });
}

// Every way of ending: near-duplicates need the polish, some of them point by point.
TEST_P(BatchedSolve, OutcomesSayWhatWasNeeded) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const auto count = [&](const Regime& regime, Outcome outcome, const Options& options) {
      const auto owned = RandomBatch<T>(regime, 50, 64, 16, 0.4, 1e-3, 11);
      const Solution<T> solution = Solve(owned.view(), options);
      ExpectSolved(owned.view(), solution);
      return std::count(solution.outcome.begin(), solution.outcome.end(), outcome);
    };
    const std::vector<Regime> regimes = StandardRegimes(16);
    EXPECT_GT(count(regimes[4], Outcome::kConverged, {}), 40);
    EXPECT_GT(count(regimes[3], Outcome::kPolished, {}), 2);
    EXPECT_GT(count(regimes[5], Outcome::kSinglePivot, {}), 30);
    Options no_blocks;
    no_blocks.block_rounds = 0;
    for (const Regime& regime : regimes) {
      EXPECT_EQ(count(regime, Outcome::kSinglePivot, no_blocks), 50) << regime.name;
    }
    // From equal weights alone, which is right where every point is a support.
    Options no_fista;
    no_fista.iterations = 0;
    EXPECT_GT(count(regimes[0], Outcome::kConverged, no_fista), 10);
    for (size_t i = 1; i < regimes.size(); ++i) {
      EXPECT_EQ(count(regimes[i], Outcome::kConverged, no_fista), 0) << regimes[i].name;
    }
  });
}

LETHE_OVER_ALL_BACKENDS(BatchedSolve);

TEST(BatchedJudge, SeesWhatIsWrong) {
  const auto owned = RandomBatch<double>(StandardRegimes(4)[2], 1, 20, 4, 0.3, 1e-3, 1);
  const Batch<double> batch = owned.view();
  const auto backend = BackendCases()[0].make();
  Solution<double> good;
  ASSERT_TRUE(backend->Solve(batch, {}, &good).ok());
  const Verdict verdict = JudgeSolution(batch, 0, good);
  ASSERT_LE(verdict.gap, 1e-12);
  ASSERT_TRUE(verdict.labels_match);
  Solution<double> bad = good;
  std::swap(*std::max_element(bad.weights.begin(), bad.weights.end()),
            *std::min_element(bad.weights.begin(), bad.weights.end()));
  EXPECT_GT(JudgeSolution(batch, 0, bad).gap, 1e-4);
  EXPECT_FALSE(JudgeSolution(batch, 0, bad).labels_match);
  bad = good;
  bad.threshold_low[0] = bad.threshold_high[0] = good.threshold_low[0] + 1e-3;
  EXPECT_GT(JudgeSolution(batch, 0, bad).gap, 1e-4);
  bad = good;
  bad.weights[0] = -1e-3;
  EXPECT_GE(JudgeSolution(batch, 0, bad).outside, 1e-3);
}

}  // namespace
}  // namespace lethe::batched
