// Double-double and its exp against MPFR, which shares no code with them.
#include "core/base/double_double.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/base/mp_real.h"
#include "core/kernel/exp.h"

namespace lethe {
namespace {

constexpr int kRounds = 200000;

class DoubleDoubleTest : public testing::Test {
 protected:
  DoubleDouble Random() {
    const double high = std::ldexp(unit_(random_), std::uniform_int_distribution(-40, 40)(random_));
    return QuickTwoSum(high, high * 0x1p-53 * unit_(random_));
  }
  // |computed - exact| / |exact|
  static double RelativeError(DoubleDouble computed, const MpReal& exact) {
    return ToDouble(Abs((MpReal(computed) - exact) / exact));
  }
  PrecisionScope precision_{400};
  std::mt19937_64 random_{20260712};
  std::uniform_real_distribution<double> unit_{-1.0, 1.0};
};

TEST_F(DoubleDoubleTest, OperationsStayWithinTheStatedBound) {
  for (int i = 0; i < kRounds; ++i) {
    const DoubleDouble a = Random();
    const DoubleDouble b = Random();
    ASSERT_LE(RelativeError(a + b, MpReal(a) + MpReal(b)), kDoubleDoubleEpsilon) << i;
    ASSERT_LE(RelativeError(a - b, MpReal(a) - MpReal(b)), kDoubleDoubleEpsilon) << i;
    ASSERT_LE(RelativeError(a * b, MpReal(a) * MpReal(b)), kDoubleDoubleEpsilon) << i;
    ASSERT_LE(RelativeError(a / b, MpReal(a) / MpReal(b)), kDoubleDoubleEpsilon) << i;
    ASSERT_LE(RelativeError(Sqrt(Abs(a)), Sqrt(Abs(MpReal(a)))), kDoubleDoubleEpsilon) << i;
  }
}

TEST_F(DoubleDoubleTest, SumAndProductOfDoublesAreExact) {
  for (int i = 0; i < kRounds; ++i) {
    const double a = Random().hi;
    const double b = Random().hi;
    ASSERT_EQ(MpReal(TwoSum(a, b)), MpReal(a) + MpReal(b));
    ASSERT_EQ(MpReal(TwoProduct(a, b)), MpReal(a) * MpReal(b));
  }
}

TEST_F(DoubleDoubleTest, CancellationKeepsTheExactDifference) {
  const DoubleDouble one_more = DoubleDouble(1.0) + DoubleDouble(0x1p-100);
  EXPECT_EQ((one_more - DoubleDouble(1.0)).hi, 0x1p-100);
  EXPECT_TRUE(DoubleDouble(1.0) < one_more);
  EXPECT_FALSE(one_more < one_more);
}

TEST_F(DoubleDoubleTest, ExpStaysWithinTheStatedBound) {
  double worst = 0.0;
  for (int i = 0; i < kRounds; ++i) {
    const double span = i % 4 == 0 ? 650.0 : (i % 4 == 1 ? 30.0 : (i % 4 == 2 ? 1.0 : 1e-9));
    const double high = span * (i % 2 == 0 ? unit_(random_) : -std::abs(unit_(random_)));
    const DoubleDouble x = QuickTwoSum(high, high * 0x1p-54 * unit_(random_));
    const double error = RelativeError(kernel::ExpDoubleDouble(x), Exp(MpReal(x)));
    const double bound = kernel::kExpEpsilon + std::abs(x.hi) * 0x1p-103;
    worst = std::max(worst, error / bound);
    ASSERT_LE(error, bound) << x.hi;
  }
  RecordProperty("worst_share_of_bound", std::to_string(worst));
  EXPECT_LE(worst, 0.5) << "the margin the header speaks of is gone";
}

TEST_F(DoubleDoubleTest, ExpIsExactAtZeroAndEndsInZero) {
  EXPECT_EQ(kernel::ExpDoubleDouble(0.0), DoubleDouble(1.0));
  EXPECT_EQ(kernel::ExpDouble(0.0), 1.0);
  EXPECT_EQ(kernel::ExpDoubleDouble(-800.0), DoubleDouble(0.0));
  EXPECT_EQ(kernel::ExpDouble(-800.0), 0.0);
  EXPECT_GT(kernel::ExpDouble(-745.0), 0.0);
}

TEST_F(DoubleDoubleTest, ExpAsDoubleIsWithinOneUlp) {
  for (int i = 0; i < kRounds; ++i) {
    const double high = 700.0 * unit_(random_);
    const DoubleDouble x = QuickTwoSum(high, high * 0x1p-54 * unit_(random_));
    const double computed = kernel::ExpDouble(x);
    const MpReal exact = Exp(MpReal(x));
    const double ulp = std::nextafter(computed, INFINITY) - computed;
    ASSERT_LE(ToDouble(Abs(MpReal(computed) - exact)), ulp) << x.hi;
  }
}

TEST(MpRealTest, RoundsToNearestAndKeepsItsPrecision) {
  const PrecisionScope scope(320);
  const MpReal third = MpReal(1.0) / MpReal(3.0);
  EXPECT_EQ(ToDouble(third), 1.0 / 3.0);
  const DoubleDouble pair = ToDoubleDouble(third);
  EXPECT_LE(ToDouble(Abs(MpReal(pair) - third)), 0x1p-107);
  // Exactly between two doubles: ties to even.
  EXPECT_EQ(ToDouble(MpReal(DoubleDouble(1.0, 0x1p-53))), 1.0);
  EXPECT_EQ(ToDouble(MpReal(DoubleDouble(1.0 + 0x1p-52, 0x1p-53))), 1.0 + 0x1p-51);
  {
    const PrecisionScope more(640);
    EXPECT_FALSE(MpReal(1.0) / MpReal(3.0) == third);
  }
  EXPECT_EQ(PrecisionScope::bits(), 320);
  EXPECT_EQ(ToDouble(RoundToDecimal(MpReal(0.1), 5)), 0.1);
  EXPECT_EQ(ToDouble(RoundToDecimal(MpReal(-1234.5678), 6)), -1234.57);
  MpReal accumulator(1.0);
  SubtractProduct(accumulator, third, MpReal(3.0));
  EXPECT_LE(ToDouble(Abs(accumulator)), 0x1p-318);
}

}  // namespace
}  // namespace lethe
