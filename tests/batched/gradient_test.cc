// Every derivative against central differences of solutions, extrapolated once, in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/batched/backends.h"
#include "tests/batched/judge.h"
#include "tests/batched/problems.h"

namespace lethe::batched {
namespace {

// L = sum_i weights_i a_i + threshold mu.
struct Loss {
  std::vector<double> weights;
  double threshold = 0.0;

  double Of(const Solution<double>& solution) const {
    double sum = threshold * solution.threshold_low[0];
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * solution.weights[i];
    return sum;
  }
};

class BatchedGradient : public BackendTest {};

class BatchedDifferences : public BackendTest {
 protected:
  // The derivative of the loss by `number`, which `batch` reads; nothing where the labels change.
  std::optional<double> Difference(const OwnedBatch<double>& batch,
                                   const Loss& loss,
                                   const std::vector<uint8_t>& labels,
                                   const std::function<void(double)>& move,
                                   double step) {
    const auto at = [&](double by) -> std::optional<double> {
      move(by);
      const Solution<double> solution = Solve(batch.view());
      move(-by);
      if (solution.labels != labels) return std::nullopt;
      return loss.Of(solution);
    };
    const auto near = at(step);
    const auto before = at(-step);
    const auto far = at(2 * step);
    const auto behind = at(-2 * step);
    if (!near || !before || !far || !behind) return std::nullopt;
    return (8 * (*near - *before) - (*far - *behind)) / (12 * step);
  }
};

// Relative to the largest derivative of its kind: what is zero by cancellation has no digits.
constexpr double kRelative = 1e-6;
// What differences of rounded solutions find where there is nothing.
constexpr double kNoise = 1e-10;

TEST_P(BatchedDifferences, EveryDerivativeAgrees) {
  std::mt19937_64 random(17);
  std::normal_distribution<double> normal;
  struct Kind {
    KernelForm form;
    double parameter;
  };
  int compared = 0;
  int kinks = 0;
  int with_errors = 0;
  for (const Kind& kind :
       {Kind{{KernelKind::kRbf, false}, 0.3}, Kind{{KernelKind::kRbf, true}, 1.0},
        Kind{{KernelKind::kLaplacian, false}, 0.5}, Kind{{KernelKind::kLaplacian, true}, 0.8},
        Kind{{KernelKind::kExpDot, false}, 0.2}, Kind{{KernelKind::kExpDot, true}, 1.0},
        Kind{{KernelKind::kDot, false}, 1.0}, Kind{{KernelKind::kDot, true}, 1.0}}) {
    for (const bool matrix : {false, true}) {
      for (const double nu : {0.23, 0.53}) {  // no integers of 1/C, which may empty the margin
        SCOPED_TRACE(testing::Message()
                     << "kernel " << static_cast<int>(kind.form.kind) << " " << kind.form.normalise
                     << " matrix " << matrix << " nu " << nu);
        constexpr size_t kPoints = 12;
        constexpr size_t kDimension = 3;
        OwnedBatch<double> batch = RandomBatch<double>({"", kind.form, kind.parameter}, 1, kPoints,
                                                       kDimension, nu, 0.05, random());
        if (matrix) {
          const Eigen::MatrixXd gram = GramOf(batch.view(), 0);
          batch.matrices.assign(gram.data(), gram.data() + gram.size());
        }
        Loss loss;
        for (size_t i = 0; i < kPoints; ++i) loss.weights.push_back(normal(random));
        loss.threshold = normal(random);
        const Solution<double> solution = Solve(batch.view());
        ASSERT_TRUE(IsSolved(solution.outcome[0]));
        ASSERT_EQ(solution.threshold_low[0], solution.threshold_high[0]);
        Gradients<double> gradients;
        const std::vector<double> threshold_bar = {loss.threshold};
        ASSERT_TRUE(
            backend_->Backward(batch.view(), solution, {loss.weights, threshold_bar}, &gradients)
                .ok());
        ASSERT_EQ(gradients.outcome[0], GradientOutcome::kOk);
        for (const uint8_t label : solution.labels) {
          with_errors += label == static_cast<uint8_t>(Label::kError) ? 1 : 0;
        }

        const auto compare = [&](const char* what, double ours, double scale,
                                 const std::function<void(double)>& move) {
          // Steps that round the same way there and back.
          const auto theirs = Difference(batch, loss, solution.labels, move, 0x1p-14);
          if (!theirs.has_value()) {
            ++kinks;
            return;
          }
          ++compared;
          EXPECT_NEAR(ours, *theirs, kRelative * std::max(scale, std::abs(*theirs)) + kNoise)
              << what;
        };
        const auto largest = [](const std::vector<double>& values) {
          double most = 0.0;
          for (const double value : values) most = std::max(most, std::abs(value));
          return most;
        };
        compare("box", gradients.box[0], 0.0, [&](double by) { batch.box[0] += by; });
        compare("ridge", gradients.ridge[0], 0.0, [&](double by) { batch.ridge[0] += by; });
        if (matrix) {
          EXPECT_TRUE(gradients.points.empty());
          const double scale = largest(gradients.matrices);
          for (size_t i = 0; i < kPoints; ++i) {
            for (size_t j = 0; j <= i; ++j) {
              const size_t lower = i * kPoints + j;
              const size_t upper = j * kPoints + i;
              ASSERT_EQ(gradients.matrices[lower], gradients.matrices[upper]);
              const double ours = gradients.matrices[lower] * (i == j ? 1 : 2);
              compare("matrix", ours, scale, [&](double by) {
                batch.matrices[lower] += by;
                if (i != j) batch.matrices[upper] += by;
              });
            }
          }
          continue;
        }
        EXPECT_TRUE(gradients.matrices.empty());
        compare("parameter", gradients.parameter[0], 0.0,
                [&](double by) { batch.parameter[0] += by; });
        const double scale = largest(gradients.points);
        for (size_t i = 0; i < kPoints * kDimension; ++i) {
          compare("point", gradients.points[i], scale, [&](double by) { batch.points[i] += by; });
          if (solution.labels[i / kDimension] == static_cast<uint8_t>(Label::kReserve)) {
            EXPECT_EQ(gradients.points[i], 0.0);
          }
        }
      }
    }
  }
  // The comparison was one: kinks are rare, and the box had its say.
  EXPECT_GT(compared, 1200);
  EXPECT_LT(kinks, 30);
  EXPECT_GT(with_errors, 10);
}

class BatchedSingleGradient : public BackendTest {};

TEST_P(BatchedSingleGradient, AgreesWithDouble) {
  for (const Regime& regime : StandardRegimes(5)) {
    SCOPED_TRACE(regime.name);
    constexpr size_t kPoints = 40;
    const auto single = RandomBatch<float>(regime, 4, kPoints, 5, 0.4, 0.05, 21);
    OwnedBatch<double> twice;
    twice.problems = single.problems;
    twice.n = single.n;
    twice.dimension = single.dimension;
    twice.kernel = single.kernel;
    twice.points.assign(single.points.begin(), single.points.end());
    twice.parameter.assign(single.parameter.begin(), single.parameter.end());
    twice.box.assign(single.box.begin(), single.box.end());
    twice.ridge.assign(single.ridge.begin(), single.ridge.end());
    const Solution<float> short_solution = Solve(single.view());
    const Solution<double> long_solution = Solve(twice.view());
    std::vector<float> bar(4 * kPoints);
    for (size_t i = 0; i < bar.size(); ++i) bar[i] = static_cast<float>(i % 5) - 2;
    const std::vector<double> wide(bar.begin(), bar.end());
    Gradients<float> ours;
    Gradients<double> exact;
    ASSERT_TRUE(backend_->Backward(single.view(), short_solution, {bar, {}}, &ours).ok());
    ASSERT_TRUE(backend_->Backward(twice.view(), long_solution, {wide, {}}, &exact).ok());
    int compared = 0;
    for (size_t b = 0; b < 4; ++b) {
      const auto labels = [&](const auto& solution) {
        return std::vector<uint8_t>(solution.labels.begin() + static_cast<long>(b * kPoints),
                                    solution.labels.begin() + static_cast<long>((b + 1) * kPoints));
      };
      if (labels(short_solution) != labels(long_solution)) continue;
      ++compared;
      double most = 0.0;
      double worst = 0.0;
      for (size_t i = b * kPoints * 5; i < (b + 1) * kPoints * 5; ++i) {
        most = std::max(most, std::abs(exact.points[i]));
        worst = std::max(worst, std::abs(exact.points[i] - static_cast<double>(ours.points[i])));
      }
      EXPECT_LE(worst, 1e-2 * most) << b;
      EXPECT_NEAR(ours.ridge[b], exact.ridge[b], 1e-2 * std::abs(exact.ridge[b]) + 1e-3);
    }
    EXPECT_GT(compared, 0);
  }
}

TEST_P(BatchedGradient, WithoutAMarginOnlyTheBoxMoves) {
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
    const std::vector<T> bar = {T(2), T(5), T(3)};
    Gradients<T> gradients;
    ASSERT_TRUE(backend_->Backward(batch.view(), solution, {bar, {}}, &gradients).ok());
    EXPECT_EQ(gradients.outcome[0], GradientOutcome::kNoMargin);
    EXPECT_EQ(gradients.box[0], T(5));
    EXPECT_EQ(gradients.ridge[0], T(0));
    EXPECT_EQ(gradients.points, std::vector<T>(3, T(0)));
  });
}

// A loss that adds up the weights does not depend on anything: they add up to 1.
TEST_P(BatchedGradient, TheSumOfWeightsHasNone) {
  InPrecision([&](auto zero) {
    using T = decltype(zero);
    const auto batch = RandomBatch<T>(StandardRegimes(4)[2], 5, 30, 4, 0.4, 0.05, 31);
    const Solution<T> solution = Solve(batch.view());
    const std::vector<T> bar(5 * 30, T(1));
    Gradients<T> gradients;
    ASSERT_TRUE(backend_->Backward(batch.view(), solution, {bar, {}}, &gradients).ok());
    const T most = sizeof(T) == sizeof(double) ? T(1e-11) : T(2e-3);
    for (const T value : gradients.points) EXPECT_LE(std::abs(value), most);
    for (const T value : gradients.box) EXPECT_LE(std::abs(value), most * 30);
  });
}

LETHE_OVER_ALL_BACKENDS(BatchedGradient);
INSTANTIATE_TEST_SUITE_P(Backends,
                         BatchedDifferences,
                         testing::ValuesIn(BackendCasesOf(false)),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(Backends,
                         BatchedSingleGradient,
                         testing::ValuesIn(BackendCasesOf(true)),
                         NameOfCase);

}  // namespace
}  // namespace lethe::batched
