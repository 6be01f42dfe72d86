// What a batch is: problems that have nothing to do with one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>

#include "core/batched/cpu/cpu_backend.h"
#include "tests/batched/backends.h"
#include "tests/batched/judge.h"
#include "tests/batched/problems.h"

namespace lethe::batched {
namespace {

using testing::HasSubstr;

// Equal in every bit, NaN and signs of zero included.
template <typename T>
bool SameBits(const T* a, const T* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}

template <typename T>
bool SameProblem(const Solution<T>& a, size_t i, const Solution<T>& b, size_t j, size_t n) {
  return SameBits(&a.weights[i * n], &b.weights[j * n], n) &&
         SameBits(&a.labels[i * n], &b.labels[j * n], n) &&
         SameBits(&a.threshold_low[i], &b.threshold_low[j], 1) &&
         SameBits(&a.threshold_high[i], &b.threshold_high[j], 1) &&
         SameBits(&a.gap[i], &b.gap[j], 1) && a.outcome[i] == b.outcome[j] &&
         a.iterations[i] == b.iterations[j] && a.rounds[i] == b.rounds[j];
}

template <typename T>
LossGradient<T> LossOf(const std::vector<T>& weights, const std::vector<T>& threshold) {
  return {weights, threshold};
}

class BatchedBatch : public BackendTest {};

TEST_P(BatchedBatch, ShapesAreCheckedAndNamed) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const auto good = RandomBatch<T>(StandardRegimes(3)[0], 2, 5, 3, 0.4, 0.01, 1);
    Solution<T> solution;
    solution.weights = {T(7)};
    const auto refused = [&](const Batch<T>& batch, const Options& options, const char* field) {
      const absl::Status status = backend_->Solve(batch, options, &solution);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
      EXPECT_THAT(std::string(status.message()), HasSubstr(field));
      EXPECT_EQ(solution.weights, std::vector<T>{T(7)}) << field;
    };
    const std::vector<T> many(1000, T(1));
    const std::span<const T> span(many);
    Batch<T> batch = good.view();
    batch.n = 0;
    batch.points = {};
    refused(batch, {}, "batch.n");
    batch = good.view();
    batch.n = 513;
    refused(batch, {}, "batch.n");
    batch = good.view();
    batch.problems = std::numeric_limits<size_t>::max() / 4;
    refused(batch, {}, "batch.problems");
    batch = good.view();
    batch.points = span.first(29);
    refused(batch, {}, "batch.points");
    batch = good.view();
    batch.dimension = 0;
    refused(batch, {}, "batch.dimension");
    batch = good.view();
    batch.dimension = kMaxDimension + 1;
    refused(batch, {}, "batch.dimension");
    batch = good.view();
    batch.matrices = span.first(50);
    refused(batch, {}, "batch.matrices");
    batch = good.view();
    batch.kernel.kind = static_cast<KernelKind>(9);
    refused(batch, {}, "batch.kernel.kind");
    batch = good.view();
    batch.parameter = span.first(3);
    refused(batch, {}, "batch.parameter");
    batch = good.view();
    batch.box = {};
    refused(batch, {}, "batch.box");
    batch = good.view();
    batch.ridge = span.first(3);
    refused(batch, {}, "batch.ridge");
    batch = good.view();
    batch.start = span.first(9);
    refused(batch, {}, "batch.start");
    batch = good.view();
    const std::vector<uint8_t> labels(11);
    batch.previous_labels = labels;
    refused(batch, {}, "batch.previous_labels");
    batch = {};
    batch.problems = 2;
    batch.n = 5;
    batch.box = batch.ridge = span.first(1);
    batch.matrices = span.first(49);
    refused(batch, {}, "batch.matrices");
    batch.matrices = span.first(50);
    batch.parameter = span.first(1);
    refused(batch, {}, "batch.parameter");
    Options options;
    options.iterations = -1;
    refused(good.view(), options, "options.iterations");
    options = {};
    options.tolerance = std::numeric_limits<double>::quiet_NaN();
    refused(good.view(), options, "options.tolerance");

    ASSERT_TRUE(backend_->Solve(good.view(), {}, &solution).ok());
    Gradients<T> gradients;
    const std::vector<T> weights(10, T(1));
    const std::vector<T> threshold(3, T(1));
    EXPECT_THAT(
        std::string(
            backend_->Backward(good.view(), solution, LossOf(threshold, {}), &gradients).message()),
        HasSubstr("loss.weights"));
    EXPECT_THAT(
        std::string(
            backend_->Backward(good.view(), solution, LossOf(weights, threshold), &gradients)
                .message()),
        HasSubstr("loss.threshold"));
    solution.labels.pop_back();
    EXPECT_THAT(
        std::string(
            backend_->Backward(good.view(), solution, LossOf(weights, {}), &gradients).message()),
        HasSubstr("solution.labels"));
  });
}

// One bad problem of each kind between good ones, which must not notice.
TEST_P(BatchedBatch, ABadProblemIsToldAndSpoilsNoOther) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    constexpr size_t kPoints = 20;
    constexpr size_t kDimension = 3;
    OwnedBatch<T> batch =
        RandomBatch<T>({"", {KernelKind::kRbf, true}, 1.0}, 12, kPoints, kDimension, 0.4, 0.01, 2);
    batch.box.assign(12, batch.box[0]);
    batch.ridge.assign(12, batch.ridge[0]);
    batch.parameter.assign(12, batch.parameter[0]);
    std::vector<T> start(12 * kPoints, T(1) / T(kPoints));
    const auto solve = [&] {
      Batch<T> view = batch.view();
      view.start = start;
      return Solve(view);
    };
    const Solution<T> before = solve();
    const std::vector<T> weights_bar(12 * kPoints, T(0.5));
    std::vector<T> varied = weights_bar;
    for (size_t i = 0; i < varied.size(); i += 3) varied[i] = T(-1);
    Gradients<T> gradients_before;
    Batch<T> view = batch.view();
    ASSERT_TRUE(backend_->Backward(view, before, LossOf(varied, {}), &gradients_before).ok());

    batch.points[1 * kPoints * kDimension + 4] = kNan;
    batch.points[2 * kPoints * kDimension + 7] = kInfinity;
    batch.box[3] = T(1) / T(kPoints);
    batch.box[4] = T(0);
    batch.box[5] = T(1.5);
    batch.ridge[6] = T(-1);
    batch.parameter[7] = T(0);
    for (size_t k = 0; k < kDimension; ++k) batch.points[8 * kPoints * kDimension + k] = T(0);
    start[9 * kPoints] = kNan;
    batch.ridge[10] = kInfinity;
    const Solution<T> after = solve();
    const Outcome expected[] = {before.outcome[0],     Outcome::kNotFinite,    Outcome::kNotFinite,
                                Outcome::kBoxTooSmall, Outcome::kBadBox,       Outcome::kBadBox,
                                Outcome::kBadRidge,    Outcome::kBadParameter, Outcome::kZeroKey,
                                Outcome::kNotFinite,   Outcome::kNotFinite,    before.outcome[11]};
    for (size_t b = 0; b < 12; ++b) {
      EXPECT_EQ(after.outcome[b], expected[b]) << b << ": " << OutcomeName(after.outcome[b]);
      if (IsSolved(expected[b])) {
        EXPECT_TRUE(SameProblem(before, b, after, b, kPoints)) << b;
        continue;
      }
      EXPECT_EQ(after.gap[b], kInfinity);
      for (size_t i = 0; i < kPoints; ++i) {
        EXPECT_EQ(after.weights[b * kPoints + i], T(0));
        EXPECT_EQ(after.labels[b * kPoints + i], 0);
      }
    }
    view = batch.view();
    Gradients<T> gradients;
    ASSERT_TRUE(backend_->Backward(view, after, LossOf(varied, {}), &gradients).ok());
    for (size_t b = 0; b < 12; ++b) {
      const T* points = &gradients.points[b * kPoints * kDimension];
      const T* old = &gradients_before.points[b * kPoints * kDimension];
      if (IsSolved(expected[b])) {
        EXPECT_EQ(gradients.outcome[b], GradientOutcome::kOk);
        EXPECT_TRUE(SameBits(points, old, kPoints * kDimension)) << b;
        EXPECT_TRUE(SameBits(&gradients.box[b], &gradients_before.box[b], 1));
        continue;
      }
      EXPECT_EQ(gradients.outcome[b], GradientOutcome::kNone);
      EXPECT_EQ(gradients.box[b], T(0));
      EXPECT_EQ(gradients.ridge[b], T(0));
      EXPECT_EQ(gradients.parameter[b], T(0));
      for (size_t i = 0; i < kPoints * kDimension; ++i) EXPECT_EQ(points[i], T(0));
    }
  });
}

TEST_P(BatchedBatch, BadMatricesAreTold) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    constexpr size_t kPoints = 9;
    OwnedBatch<T> batch;
    batch.problems = 6;
    batch.n = kPoints;
    batch.box = {T(0.3)};
    batch.ridge = {T(1e-3)};
    batch.matrices.assign(6 * kPoints * kPoints, T(0.25));
    const auto entry = [&](size_t b, size_t i, size_t j) -> T& {
      return batch.matrices[(b * kPoints + i) * kPoints + j];
    };
    for (size_t b = 0; b < 6; ++b) {
      for (size_t i = 0; i < kPoints; ++i) entry(b, i, i) = T(1) + T(i) / T(64);
    }
    entry(1, 2, 5) = T(0.26);
    entry(2, 7, 3) = entry(2, 3, 7) = std::numeric_limits<T>::quiet_NaN();
    entry(3, 8, 8) = -std::numeric_limits<T>::infinity();
    // Two points more alike than they are like themselves: eigenvalue 1 - 3.
    entry(4, 0, 1) = entry(4, 1, 0) = T(3);
    entry(5, 0, 0) = std::numeric_limits<T>::max() / 2;
    const Solution<T> solution = Solve(batch.view());
    EXPECT_TRUE(IsSolved(solution.outcome[0]));
    EXPECT_EQ(solution.outcome[1], Outcome::kNotSymmetric);
    EXPECT_EQ(solution.outcome[2], Outcome::kNotFinite);
    EXPECT_EQ(solution.outcome[3], Outcome::kNotFinite);
    EXPECT_EQ(solution.outcome[5], Outcome::kNotFinite);
    // Where the two are not both in the margin, the answer is a point that satisfies (8).
    EXPECT_TRUE(solution.outcome[4] == Outcome::kNotPositiveDefinite ||
                IsSolved(solution.outcome[4]))
        << OutcomeName(solution.outcome[4]);
    OwnedBatch<T> indefinite = batch;
    indefinite.problems = 1;
    indefinite.n = 2;
    indefinite.box = {T(1)};
    indefinite.matrices = {T(1), T(3), T(3), T(1)};
    const Solution<T> feasible = Solve(indefinite.view());
    EXPECT_EQ(feasible.outcome[0], Outcome::kNotPositiveDefinite);
    EXPECT_NEAR(feasible.weights[0] + feasible.weights[1], T(1), T(1e-6));
    // Copies without a ridge: the optimum is not unique.
    indefinite.matrices = {T(1), T(1), T(1), T(1)};
    indefinite.ridge = {T(0)};
    EXPECT_EQ(Solve(indefinite.view()).outcome[0], Outcome::kNotPositiveDefinite);
    indefinite.ridge = {T(1e-3)};
    EXPECT_TRUE(IsSolved(Solve(indefinite.view()).outcome[0]));
  });
}

TEST_P(BatchedBatch, OnePointIsTooFew) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    OwnedBatch<T> batch = RandomBatch<T>(StandardRegimes(2)[0], 3, 1, 2, 0.5, 0.1, 1);
    batch.box = {T(1)};
    const Solution<T> solution = Solve(batch.view());
    for (const Outcome outcome : solution.outcome) EXPECT_EQ(outcome, Outcome::kBoxTooSmall);
  });
}

// An index in 16 bits would show here.
TEST_P(BatchedBatch, AnyNumberOfProblems) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    constexpr size_t kMost = 65537;
    constexpr size_t kPoints = 4;
    const auto all = RandomBatch<T>(StandardRegimes(2)[2], kMost, kPoints, 2, 0.4, 0.01, 4);
    const auto first = [&](size_t problems) {
      Batch<T> batch = all.view();
      batch.problems = problems;
      batch.points = batch.points.first(problems * kPoints * 2);
      return batch;
    };
    const Solution<T> whole = Solve(first(kMost));
    for (const size_t problems : {size_t{0}, size_t{1}, size_t{2}, size_t{65535}, size_t{65536}}) {
      const Solution<T> part = Solve(first(problems));
      ASSERT_EQ(part.outcome.size(), problems);
      for (size_t b = 0; b < problems; ++b) {
        ASSERT_TRUE(SameProblem(part, b, whole, b, kPoints)) << problems << " " << b;
      }
      Gradients<T> gradients;
      const std::vector<T> bar(problems * kPoints, T(1));
      ASSERT_TRUE(backend_->Backward(first(problems), part, LossOf(bar, {}), &gradients).ok());
      ASSERT_EQ(gradients.box.size(), problems);
    }
    for (size_t b = 0; b < kMost; ++b) {
      ASSERT_TRUE(IsSolved(whole.outcome[b])) << b;
      if (b % 97 == 0 || b > kMost - 5) {
        ASSERT_LE(JudgeSolution(all.view(), b, whole).gap, GapBar<T>()) << b;
      }
    }
  });
}

// Place and company: the same problems backwards, and each alone.
TEST_P(BatchedBatch, AProblemsBitsAreItsOwn) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    for (const Regime& regime : StandardRegimes(5)) {
      SCOPED_TRACE(regime.name);
      constexpr size_t kProblems = 15;
      constexpr size_t kPoints = 35;
      const auto batch = RandomBatch<T>(regime, kProblems, kPoints, 5, 0.4, 1e-3, 8);
      OwnedBatch<T> backwards = batch;
      constexpr size_t kSize = kPoints * 5;
      for (size_t b = 0; b < kProblems; ++b) {
        std::copy_n(&batch.points[b * kSize], kSize,
                    &backwards.points[(kProblems - 1 - b) * kSize]);
      }
      const Solution<T> there = Solve(batch.view());
      const Solution<T> back = Solve(backwards.view());
      for (size_t b = 0; b < kProblems; ++b) {
        ASSERT_TRUE(SameProblem(there, b, back, kProblems - 1 - b, kPoints)) << b;
        Batch<T> alone = batch.view();
        alone.problems = 1;
        alone.points = alone.points.subspan(b * kSize, kSize);
        ASSERT_TRUE(SameProblem(Solve(alone), 0, there, b, kPoints)) << b;
      }
    }
  });
}

LETHE_OVER_ALL_BACKENDS(BatchedBatch);

TEST(CpuBackendThreads, GiveTheSameBits) {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    constexpr size_t kProblems = 200;
    constexpr size_t kPoints = 33;
    for (const Regime& regime : StandardRegimes(6)) {
      const auto batch = RandomBatch<T>(regime, kProblems, kPoints, 6, 0.3, 1e-3, 12);
      std::vector<T> bar(kProblems * kPoints);
      for (size_t i = 0; i < bar.size(); ++i) bar[i] = T(i % 7) - T(3);
      Solution<T> first;
      Gradients<T> first_gradients;
      for (const int threads : {1, 2, 3}) {
        const auto backend = MakeCpuBackend(threads);
        Solution<T> solution;
        ASSERT_TRUE(backend->Solve(batch.view(), {}, &solution).ok());
        Gradients<T> gradients;
        ASSERT_TRUE(backend->Backward(batch.view(), solution, LossOf(bar, {}), &gradients).ok());
        if (threads == 1) {
          first = solution;
          first_gradients = gradients;
          continue;
        }
        for (size_t b = 0; b < kProblems; ++b) {
          ASSERT_TRUE(SameProblem(first, b, solution, b, kPoints)) << threads << " " << b;
        }
        ASSERT_TRUE(SameBits(first_gradients.points.data(), gradients.points.data(),
                             gradients.points.size()));
        ASSERT_TRUE(
            SameBits(first_gradients.box.data(), gradients.box.data(), gradients.box.size()));
      }
    }
  };
  check(double{});
  check(float{});
}

TEST(CpuBackendThreads, CallsFromManyThreadsTakeTurns) {
  const auto batch = RandomBatch<double>(StandardRegimes(4)[2], 50, 20, 4, 0.3, 1e-3, 13);
  const auto backend = MakeCpuBackend(2);
  Solution<double> expected;
  ASSERT_TRUE(backend->Solve(batch.view(), {}, &expected).ok());
  std::vector<Solution<double>> solutions(4);
  std::vector<std::thread> callers;
  for (Solution<double>& solution : solutions) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(backend->Solve(batch.view(), {}, &solution).ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Solution<double>& solution : solutions) {
    for (size_t b = 0; b < 50; ++b) EXPECT_TRUE(SameProblem(expected, b, solution, b, 20));
  }
}

}  // namespace
}  // namespace lethe::batched
