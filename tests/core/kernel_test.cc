// Kernel values in three arithmetics agree within the bounds they state.
#include "core/kernel/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace lethe::kernel {
namespace {

struct Case {
  Kernel kernel;
  int dimension;
  double spread;
};

class KernelBoundTest : public testing::TestWithParam<Case> {};

TEST_P(KernelBoundTest, EveryArithmeticIsWithinItsStatedError) {
  const auto& [kernel, dimension, spread] = GetParam();
  const PrecisionScope precision(500);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.0, spread);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> x(static_cast<size_t>(dimension));
    std::vector<double> y(x.size());
    for (size_t k = 0; k < x.size(); ++k) {
      x[k] = normal(random);
      // Every other pair is nearly equal, where differences cancel.
      y[k] = round % 2 == 0 ? normal(random) : x[k] * (1 + 1e-9 * normal(random));
    }
    const ApproximateMp exact = EvaluateMp(kernel, x, y);
    const Approximate coarse = EvaluateDouble(kernel, x, y);
    const ApproximateDoubleDouble fine = EvaluateDoubleDouble(kernel, x, y);
    ASSERT_LE(ToDouble(Abs(MpReal(coarse.value) - exact.value)), coarse.error);
    ASSERT_LE(ToDouble(Abs(MpReal(fine.value) - exact.value)), fine.error);
    // A lower precision of the upper rungs is within its own bound of a higher one.
    MpReal low;
    double units = 0;
    {
      const PrecisionScope less(200);
      ApproximateMp value = EvaluateMp(kernel, x, y);
      low = value.value;
      units = value.units;
    }
    ASSERT_TRUE(Abs(low - exact.value) <=
                MpReal(units) * MpReal::PowerOfTwo(-200) * Abs(exact.value));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels,
                         KernelBoundTest,
                         testing::Values(Case{{KernelKind::kRbf, 0.5}, 4, 1.0},
                                         Case{{KernelKind::kRbf, 1e4}, 3, 1.0},
                                         Case{{KernelKind::kRbf, 1e-6}, 128, 10.0},
                                         Case{{KernelKind::kLaplacian, 0.7}, 5, 2.0},
                                         Case{{KernelKind::kExpDot, 0.5}, 3, 1.0},
                                         Case{{KernelKind::kExpDot, 0.1}, 64, 1.5}));

TEST(KernelTest, TheSameKeyGivesExactlyOne) {
  const std::vector<double> x = {0.1, -3.0, 1e100};
  for (const KernelKind kind : {KernelKind::kRbf, KernelKind::kLaplacian}) {
    const Kernel kernel{kind, 0.3};
    EXPECT_EQ(EvaluateDouble(kernel, x, x).value, 1.0);
    EXPECT_EQ(EvaluateDoubleDouble(kernel, x, x).value, DoubleDouble(1.0));
    EXPECT_EQ(EvaluateMp(kernel, x, x).value, MpReal(1.0));
  }
}

TEST(KernelTest, FarKeysUnderflowToZeroWithoutNan) {
  const std::vector<double> x = {0.0};
  const std::vector<double> y = {1e140};
  const Kernel kernel{KernelKind::kRbf, 1.0};
  EXPECT_EQ(EvaluateDouble(kernel, x, y).value, 0.0);
  EXPECT_EQ(EvaluateDoubleDouble(kernel, x, y).value, DoubleDouble(0.0));
  EXPECT_TRUE(std::isfinite(Exponent(kernel, x, y).hi));
}

TEST(KernelTest, BadParametersAndKeysAreNamed) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(Validate(Kernel{KernelKind::kRbf, bad}).message().substr(0, 12), "kernel.gamma");
    EXPECT_EQ(Validate(Kernel{KernelKind::kExpDot, bad}).message().substr(0, 12), "kernel.scale");
  }
  EXPECT_TRUE(Validate(Kernel{KernelKind::kRbf, 1.0}).ok());
  const std::vector<double> large = {30.0, 1.0};
  EXPECT_FALSE(ValidateKey(Kernel{KernelKind::kExpDot, 1.0}, large).ok());
  EXPECT_TRUE(ValidateKey(Kernel{KernelKind::kExpDot, 0.1}, large).ok());
  const std::vector<double> huge = {1e151};
  EXPECT_FALSE(ValidateKey(Kernel{KernelKind::kRbf, 1.0}, huge).ok());
}

}  // namespace
}  // namespace lethe::kernel
