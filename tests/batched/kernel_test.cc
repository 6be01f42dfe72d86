// The CPU backend's parts, each against its definition.
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <random>

#include "core/batched/cpu/factor.h"
#include "core/batched/cpu/gram.h"
#include "core/batched/cpu/product.h"
#include "core/batched/cpu/projection.h"
#include "core/batched/cpu/workspace.h"
#include "tests/batched/judge.h"
#include "tests/batched/problems.h"

namespace lethe::batched {
namespace {

template <typename T>
class CpuParts : public testing::Test {
 protected:
  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon();
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

  // Eigenvalues about 1 to 3.
  Matrix PositiveDefinite(size_t n) {
    const auto size = static_cast<Eigen::Index>(n);
    Matrix root(size, size);
    for (Eigen::Index i = 0; i < root.size(); ++i) {
      root.data()[i] = static_cast<T>(normal_(random_) / std::sqrt(static_cast<double>(n)));
    }
    return root * root.transpose() + Matrix::Identity(size, size);
  }
  std::mt19937_64 random_{5};
  std::normal_distribution<double> normal_;
};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(CpuParts, Precisions);

TYPED_TEST(CpuParts, ProductIsEigens) {
  using T = TypeParam;
  for (size_t n = 1; n <= 140; n += 1 + n / 9) {
    Workspace<T> work(n, 0);
    const auto matrix = this->PositiveDefinite(n);
    for (size_t j = 0; j < n; ++j) {
      for (size_t i = 0; i < n; ++i) {
        work.matrix[j * work.stride + i] =
            matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
      }
    }
    Eigen::Matrix<T, Eigen::Dynamic, 1> x(static_cast<Eigen::Index>(n));
    for (size_t i = 0; i < n; ++i) {
      const T value = i % 3 == 1 ? T(0) : static_cast<T>(this->normal_(this->random_));
      x[static_cast<Eigen::Index>(i)] = work.x[i] = value;
    }
    work.Multiply(work.x.get(), work.y.get());
    const auto expected = (matrix * x).eval();
    for (size_t i = 0; i < work.rows; ++i) {
      const T value = i < n ? expected[static_cast<Eigen::Index>(i)] : T(0);
      EXPECT_NEAR(work.y[i], value, 40 * this->kEpsilon) << n << " " << i;
    }
  }
}

TYPED_TEST(CpuParts, ProjectionIsTheNearestPoint) {
  using T = TypeParam;
  for (int round = 0; round < 3000; ++round) {
    const size_t n = 2 + this->random_() % 70;
    const size_t rows = Padded(n);
    AlignedArray<T> v(rows);
    std::fill(v.get(), v.get() + rows, kFarBelow<T>);
    // Every third has values in clumps, so that many breakpoints coincide.
    const double spread = std::pow(10.0, static_cast<double>(round % 7) - 3);
    for (size_t i = 0; i < n; ++i) {
      const double value = this->normal_(this->random_);
      v[i] = static_cast<T>(spread * (round % 3 == 0 ? std::round(value) : value));
    }
    const double most = 1.05 + static_cast<double>(this->random_() % 100) / 20;
    const T box = static_cast<T>(std::min(1.0, most / static_cast<double>(n)));
    if (!(box * static_cast<T>(n) > T(1.001))) continue;
    const T guess = static_cast<T>(this->normal_(this->random_) * (round % 2 == 0 ? 1 : 1e4));
    const T t = ProjectionThreshold(v.get(), rows, n, box, guess);
    double sum = 0.0;
    double scale = 1.0;
    for (size_t i = 0; i < n; ++i) {
      sum += static_cast<double>(std::clamp(v[i] - t, T(0), box));
      scale = std::max(scale, std::abs(static_cast<double>(v[i])));
    }
    // A rounding of t moves every free entry.
    EXPECT_NEAR(sum, 1.0, static_cast<double>(this->kEpsilon) * scale * static_cast<double>(4 * n))
        << "round " << round << " n " << n;
  }
}

TYPED_TEST(CpuParts, FactorIsTheMatrixsThroughChanges) {
  using T = TypeParam;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  for (const size_t n :
       {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{5}, size_t{7}, size_t{8}, size_t{9},
        size_t{16}, size_t{31}, size_t{64}, size_t{65}, size_t{100}}) {
    const auto matrix = this->PositiveDefinite(n);
    const size_t stride = Padded(n) + 2 * kPadding;
    AlignedArray<T> factor(n * stride);
    AlignedArray<T> inverse(stride);
    AlignedArray<T> scratch(stride);
    AlignedArray<T> x(stride);
    AlignedArray<T> y(stride);
    std::vector<size_t> order;
    for (size_t i = 0; i < n / 2; ++i) order.push_back(i);
    const auto entry = [&](size_t i, size_t j) {
      return matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
    };
    for (size_t k = 0; k < order.size(); ++k) {
      for (size_t i = k; i < order.size(); ++i) factor[k * stride + i] = entry(i, k);
    }
    ASSERT_TRUE(Factorise(factor.get(), stride, order.size(), T(1e-6), inverse.get()));
    const auto check = [&] {
      const size_t size = order.size();
      Vector expected(static_cast<Eigen::Index>(size));
      for (Eigen::Index i = 0; i < expected.size(); ++i) {
        expected[i] = static_cast<T>(this->normal_(this->random_));
      }
      for (size_t i = 0; i < size; ++i) {
        x[i] = y[i] = 0;
        for (size_t j = 0; j < size; ++j) {
          x[i] += entry(order[i], order[j]) * expected[static_cast<Eigen::Index>(j)];
          y[i] -= entry(order[i], order[j]) * expected[static_cast<Eigen::Index>(j)];
        }
      }
      Solve<T, 2>(factor.get(), stride, size, inverse.get(), {x.get(), y.get()});
      for (size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(x[i], expected[static_cast<Eigen::Index>(i)], 1000 * this->kEpsilon);
        ASSERT_EQ(y[i], -x[i]);
      }
    };
    check();
    for (int change = 0; change < 60; ++change) {
      if (order.size() < n && (order.empty() || this->random_() % 2 == 0)) {
        size_t next = 0;
        while (std::find(order.begin(), order.end(), next) != order.end()) ++next;
        for (size_t k = 0; k < order.size(); ++k) scratch[k] = entry(order[k], next);
        scratch[order.size()] = entry(next, next);
        ASSERT_TRUE(
            AppendRow(factor.get(), stride, order.size(), T(1e-6), inverse.get(), scratch.get()));
        order.push_back(next);
      } else {
        const size_t at = this->random_() % order.size();
        RemoveRow(factor.get(), stride, order.size(), at, inverse.get(), scratch.get());
        order.erase(order.begin() + static_cast<long>(at));
      }
      check();
    }
  }
}

TYPED_TEST(CpuParts, FactorRefusesWhatIsNotPositiveDefinite) {
  using T = TypeParam;
  for (const size_t n : {size_t{2}, size_t{5}, size_t{9}, size_t{30}}) {
    for (size_t bad = 0; bad < n; ++bad) {
      auto matrix = this->PositiveDefinite(n);
      matrix(static_cast<Eigen::Index>(bad), static_cast<Eigen::Index>(bad)) = T(-0.1);
      const size_t stride = Padded(n) + 2 * kPadding;
      AlignedArray<T> factor(n * stride);
      AlignedArray<T> inverse(stride);
      for (size_t k = 0; k < n; ++k) {
        for (size_t i = k; i < n; ++i) {
          factor[k * stride + i] =
              matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k));
        }
      }
      EXPECT_FALSE(Factorise(factor.get(), stride, n, T(1e-6), inverse.get())) << n << " " << bad;
    }
  }
}

TYPED_TEST(CpuParts, MatricesOfPointsAreTheirDefinitions) {
  using T = TypeParam;
  for (const KernelKind kind :
       {KernelKind::kRbf, KernelKind::kLaplacian, KernelKind::kExpDot, KernelKind::kDot}) {
    for (const bool normalise : {false, true}) {
      for (const size_t n : {size_t{2}, size_t{7}, size_t{8}, size_t{9}, size_t{40}, size_t{130}}) {
        const auto owned =
            RandomBatch<T>({"", {kind, normalise}, 0.4, 2, 1e-4}, 2, n, 5, 0.4, 0.01, n);
        Workspace<T> work(n, 5);
        for (size_t b = 0; b < 2; ++b) {
          ASSERT_EQ(Load(owned.view(), b, work), Outcome::kUnsolved);
          const Eigen::MatrixXd gram = GramOf(owned.view(), b);
          const double bar = 60 * static_cast<double>(this->kEpsilon) * gram.cwiseAbs().maxCoeff();
          for (size_t j = 0; j < n; ++j) {
            const T* column = work.matrix.get() + j * work.stride;
            for (size_t i = 0; i < work.rows; ++i) {
              const double expected =
                  i < n ? gram(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) : 0.0;
              ASSERT_NEAR(column[i], expected, bar);
              if (i < n) {
                ASSERT_EQ(column[i], work.matrix[i * work.stride + j]);
              }
            }
            ASSERT_EQ(work.diagonal[j], column[j]);
          }
        }
      }
    }
  }
}

// Far keys: values underflow to 0 and no subnormal number stays behind; overflow is told.
TYPED_TEST(CpuParts, ExtremeExponents) {
  using T = TypeParam;
  OwnedBatch<T> batch;
  batch.problems = 1;
  batch.n = 3;
  batch.dimension = 1;
  batch.kernel = {KernelKind::kRbf, false};
  batch.points = {T(0), T(1), T(1000)};
  batch.parameter = {T(1)};
  batch.box = {T(0.5)};
  batch.ridge = {T(0)};
  Workspace<T> work(3, 1);
  ASSERT_EQ(Load(batch.view(), 0, work), Outcome::kUnsolved);
  EXPECT_EQ(work.matrix[2], T(0));
  EXPECT_EQ(work.matrix[0], T(1));
  EXPECT_NEAR(work.matrix[1], std::exp(T(-1)), 4 * this->kEpsilon);
  batch.kernel.kind = KernelKind::kExpDot;
  EXPECT_EQ(Load(batch.view(), 0, work), Outcome::kNotFinite);
  batch.points[2] = T(5);
  EXPECT_EQ(Load(batch.view(), 0, work), Outcome::kUnsolved);
  EXPECT_NEAR(work.matrix[2 * work.stride + 2] / std::exp(T(25)), T(1), 16 * this->kEpsilon);
}

}  // namespace
}  // namespace lethe::batched
