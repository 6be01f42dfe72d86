// Derivatives judged by central differences in double: three of them, h, 2h and 4h, extrapolated
// twice (Romberg), so that truncation is h^6 and h can be large enough for rounding to stay near
// 1e-12 of the loss.
#ifndef LETHE_TESTS_MODEL_DIFFERENCES_H_
#define LETHE_TESTS_MODEL_DIFFERENCES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace lethe::model {

inline constexpr double kRelative = 1e-7;

inline double DifferenceQuotient(double* x, const std::function<double()>& loss, double h) {
  const double at = *x;
  double quotients[3];
  for (int i = 0; i < 3; ++i) {
    const double step = h * (1 << i);
    *x = at + step;
    const double above = loss();
    *x = at - step;
    const double below = loss();
    quotients[i] = (above - below) / (2 * step);
  }
  *x = at;
  const double first = (4 * quotients[0] - quotients[1]) / 3;
  const double second = (4 * quotients[1] - quotients[2]) / 3;
  return (16 * first - second) / 15;
}

// Holds every `stride`-th entry. An entry may be off by 1e-7 of itself and, for rounding, by 1e-9
// of the largest.
inline void ExpectGradient(const std::string& name,
                           std::span<double> x,
                           std::span<const double> gradient,
                           const std::function<double()>& loss,
                           size_t stride = 1,
                           double h = 0x1p-9) {
  ASSERT_EQ(x.size(), gradient.size()) << name;
  double largest = 0;
  for (const double entry : gradient) largest = std::max(largest, std::abs(entry));
  // All zero would agree with anything that is not looked at.
  ASSERT_GT(largest, 1e-6) << name;
  ASSERT_TRUE(std::isfinite(largest)) << name;
  for (size_t i = 0; i < x.size(); i += stride) {
    const double quotient = DifferenceQuotient(&x[i], loss, h);
    ASSERT_NEAR(gradient[i], quotient, kRelative * std::abs(quotient) + 1e-9 * largest)
        << name << "[" << i << "]";
  }
}

// Numbers of a test, from a fixed seed.
class Numbers {
 public:
  explicit Numbers(unsigned seed) : random_(seed) {}
  std::vector<double> Normal(size_t size, double deviation = 1.0) {
    std::normal_distribution<double> normal(0.0, deviation);
    std::vector<double> numbers(size);
    for (double& number : numbers) number = normal(random_);
    return numbers;
  }

 private:
  std::mt19937_64 random_;
};

inline double Product(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace lethe::model

#endif  // LETHE_TESTS_MODEL_DIFFERENCES_H_
