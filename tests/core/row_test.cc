// Rows of kernel values against MPFR: every value within its own bound, and the bounds not absurd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/base/mp_real.h"
#include "core/kernel/kernel.h"
#include "core/kernel/row.h"

namespace lethe::kernel {
namespace {

double SquaredNorm(std::span<const double> x) {
  double sum = 0.0;
  for (const double coordinate : x) sum += coordinate * coordinate;
  return sum;
}

struct Case {
  KernelKind kind;
  size_t dimension;
};

class RowTest : public testing::TestWithParam<Case> {};

TEST_P(RowTest, StaysWithinItsBounds) {
  const auto [kind, dimension] = GetParam();
  const double d = static_cast<double>(dimension);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const PrecisionScope scope(320);
  double worst = 0.0;       // error over bound
  double worst_fine = 0.0;  // the same in double-double
  // From nearly equal keys to values that underflow.
  for (const double spread : {1e-9, 1e-3, 0.3, 1.0, 3.0, 30.0}) {
    if (kind == KernelKind::kExpDot && spread > 1.0) continue;
    const Kernel kernel{kind, 1.0 / d};
    std::vector<double> x(dimension);
    for (double& coordinate : x) coordinate = normal(random);
    PointBlocks points(dimension);
    std::vector<std::vector<double>> keys;
    double largest = 0.0;
    for (size_t j = 0; j < 13; ++j) {
      std::vector<double>& key = keys.emplace_back(x);
      for (double& coordinate : key) coordinate += spread * normal(random);
      if (j == 0) key = x;
      points.Set(j, key);
      largest = std::max(largest, kernel.parameter * SquaredNorm(key));
    }
    ASSERT_EQ(points.size(), 16u);
    std::vector<double> row(16), high(16), low(16), error(16);
    Row(kernel, x, points, row.data());
    RowDoubleDouble(kernel, x, points, high.data(), low.data(), error.data());
    const RowErrorBound bound =
        RowError(kernel, dimension, kernel.parameter * SquaredNorm(x), largest);
    for (size_t j = 0; j < keys.size(); ++j) {
      const MpReal exact = EvaluateMp(kernel, x, keys[j]).value;
      const double allowed = bound.relative * row[j] + bound.absolute;
      const double off = ToDouble(Abs(exact - MpReal(row[j])));
      EXPECT_LE(off, allowed) << "spread " << spread << " point " << j;
      worst = std::max(worst, off / allowed);
      const double off_fine = ToDouble(Abs(exact - MpReal(DoubleDouble(high[j], low[j]))));
      EXPECT_LE(off_fine, error[j]) << "spread " << spread << " point " << j;
      worst_fine = std::max(worst_fine, off_fine / error[j]);
    }
  }
  // A bound that is never come near to within a factor of ten thousand would hide a mistake.
  EXPECT_GT(worst, 1e-4);
  EXPECT_GT(worst_fine, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Kernels,
                         RowTest,
                         testing::Values(Case{KernelKind::kRbf, 1},
                                         Case{KernelKind::kRbf, 7},
                                         Case{KernelKind::kRbf, 64},
                                         Case{KernelKind::kLaplacian, 3},
                                         Case{KernelKind::kLaplacian, 128},
                                         Case{KernelKind::kExpDot, 5},
                                         Case{KernelKind::kExpDot, 64}));

TEST(Row, ReadsAsZeroWhatUnderflows) {
  const Kernel kernel{KernelKind::kRbf, 1.0};
  PointBlocks points(1);
  const double far[] = {1e100};
  const double near[] = {26.5};  // e^-702
  points.Set(0, far);
  points.Set(1, near);
  const double x[] = {0.0};
  std::vector<double> row(16), high(16), low(16), error(16);
  Row(kernel, x, points, row.data());
  RowDoubleDouble(kernel, x, points, high.data(), low.data(), error.data());
  EXPECT_EQ(row[0], 0.0);
  EXPECT_EQ(row[1], 0.0);
  EXPECT_EQ(row[2], 1.0);  // never set: the origin
  EXPECT_EQ(high[0], 0.0);
  EXPECT_EQ(high[1], 0.0);
  EXPECT_GE(error[1], std::exp(-26.5 * 26.5));
}

TEST(PointBlocks, KeepsPointsWhenItGrows) {
  PointBlocks points(2);
  for (size_t i = 0; i < 40; ++i) {
    const double point[] = {static_cast<double>(i), -static_cast<double>(i)};
    points.Set(i, point);
  }
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(points.Block(i / 16)[i % 16], static_cast<double>(i));
    EXPECT_EQ(points.Block(i / 16)[16 + i % 16], -static_cast<double>(i));
  }
}

}  // namespace
}  // namespace lethe::kernel
