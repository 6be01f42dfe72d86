// The operations that look at one row at a time: each against what it says it computes, and its
// gradients against differences.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/model/cross_entropy.h"
#include "core/model/elementwise.h"
#include "core/model/embedding.h"
#include "core/model/linear.h"
#include "core/model/mlp.h"
#include "core/model/norm.h"
#include "tests/model/differences.h"

namespace lethe::model {
namespace {

Matrix<double> View(std::vector<double>& v, size_t rows) {
  return Matrix<double>(std::span<double>(v), rows, v.size() / rows);
}

TEST(Matmul, AgreesWithSumsAtEverySizeAndBoundary) {
  Numbers numbers(1);
  Team team(2);
  // Around tiles of 128, pieces of 240 and what is too small for blocks.
  for (const auto& [m, n, k] : std::vector<std::array<size_t, 3>>{{1, 1, 1},
                                                                  {3, 2, 5},
                                                                  {1, 40, 300},
                                                                  {40, 1, 241},
                                                                  {127, 129, 240},
                                                                  {130, 20, 481},
                                                                  {5, 6, 7}}) {
    std::vector<double> a = numbers.Normal(m * k);
    std::vector<double> b = numbers.Normal(k * n);
    std::vector<double> a_t(m * k);
    std::vector<double> b_t(k * n);
    for (size_t i = 0; i < m; ++i) {
      for (size_t l = 0; l < k; ++l) a_t[l * m + i] = a[i * k + l];
    }
    for (size_t j = 0; j < n; ++j) {
      for (size_t l = 0; l < k; ++l) b_t[j * k + l] = b[l * n + j];
    }
    std::vector<double> c[3] = {std::vector<double>(m * n, 7.0), std::vector<double>(m * n, 7.0),
                                std::vector<double>(m * n, 7.0)};
    Multiply<double>(&team, View(a, m), View(b, k), View(c[0], m), Store::kSet);
    MultiplyTransposed<double>(&team, View(a, m), View(b_t, n), View(c[1], m), Store::kAdd);
    TransposedMultiply<double>(nullptr, View(a_t, k), View(b, k), View(c[2], m), Store::kSet);
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
        ASSERT_NEAR(c[0][i * n + j], sum, 1e-12) << m << " " << n << " " << k;
        ASSERT_NEAR(c[1][i * n + j], sum + 7, 1e-12) << m << " " << n << " " << k;
        ASSERT_NEAR(c[2][i * n + j], sum, 1e-12) << m << " " << n << " " << k;
      }
    }
  }
}

// The address of an array must not show in the bits of what is computed with it.
template <typename T>
void ExpectNoTraceOfTheAddress() {
  constexpr size_t kRowsA = 9;
  constexpr size_t kDepthA = 21;
  std::vector<T> first;
  for (size_t offset = 0; offset < 8; ++offset) {
    std::vector<T> memory(offset + 2 * kRowsA * kDepthA + kRowsA * kRowsA + 100);
    T* a = memory.data() + offset;
    T* b = a + kRowsA * kDepthA;
    T* c = b + kRowsA * kDepthA;
    for (size_t i = 0; i < 2 * kRowsA * kDepthA; ++i) {
      a[i] = static_cast<T>(std::sin(static_cast<double>(i)));
    }
    const Matrix<T> x(a, kRowsA, kDepthA, kDepthA);
    const Matrix<T> y(b, kRowsA, kDepthA, kDepthA);
    const Matrix<T> z(c, kRowsA, kRowsA, kRowsA);
    MultiplyTransposed<T>(nullptr, x, y, z, Store::kSet);
    Exp(a, kRowsA * kDepthA);
    Sigmoid(b, kRowsA * kDepthA);
    std::vector<T> bits(a, c + kRowsA * kRowsA);
    bits.push_back(Dot(a, b, 100));
    if (offset == 0) first = bits;
    ASSERT_EQ(bits, first) << offset;
  }
}
TEST(Elementwise, BitsDoNotDependOnAddresses) {
  ExpectNoTraceOfTheAddress<float>();
  ExpectNoTraceOfTheAddress<double>();
}

TEST(Elementwise, AgreesWithTheLibrary) {
  std::vector<double> x;
  for (double value = -40; value <= 40; value += 0.37) x.push_back(value);
  std::vector<double> e = x;
  std::vector<double> s = x;
  Exp(e.data(), e.size());
  Sigmoid(s.data(), s.size());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(e[i] / std::exp(x[i]), 1.0, 1e-14);
    EXPECT_NEAR(s[i] * (1 + std::exp(-x[i])), 1.0, 1e-14);
  }
}

TEST(Linear, Gradients) {
  Numbers numbers(2);
  std::vector<double> x = numbers.Normal(7 * 5);
  std::vector<double> w = numbers.Normal(5 * 3);
  std::vector<double> b = numbers.Normal(3);
  const std::vector<double> bar = numbers.Normal(7 * 3);
  std::vector<double> y(7 * 3);
  const auto loss = [&] {
    LinearForward<double>(nullptr, View(x, 7), View(w, 5), b, View(y, 7));
    return Product(y, bar);
  };
  std::vector<double> x_bar(x.size(), 1.0);
  std::vector<double> w_bar(w.size());
  std::vector<double> b_bar(b.size());
  LinearBackward<double>(nullptr, View(x, 7), View(w, 5), {bar.data(), 7, 3, 3}, View(x_bar, 7),
                         Store::kAdd, View(w_bar, 5), b_bar);
  for (double& entry : x_bar) entry -= 1.0;  // kAdd
  ExpectGradient("x", x, x_bar, loss);
  ExpectGradient("w", w, w_bar, loss);
  ExpectGradient("b", b, b_bar, loss);
}

TEST(Embedding, ReadsRowsAndAddsTheirGradients) {
  Numbers numbers(3);
  std::vector<double> table = numbers.Normal(6 * 4);
  const std::vector<uint32_t> ids = {5, 0, 3, 3, 1, 5, 5};
  const std::vector<double> bar = numbers.Normal(ids.size() * 4);
  std::vector<double> y(ids.size() * 4);
  const auto loss = [&] {
    EmbeddingForward<double>(nullptr, View(table, 6), ids, View(y, ids.size()), Store::kSet);
    return Product(y, bar);
  };
  loss();
  EXPECT_EQ(y[4 * 2 + 1], table[4 * 3 + 1]);
  std::vector<double> table_bar(table.size());
  EmbeddingBackward<double>(nullptr, ids, {bar.data(), ids.size(), 4, 4}, View(table_bar, 6));
  ExpectGradient("table", table, table_bar, loss);
}

TEST(Norm, Gradients) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    Numbers numbers(4);
    std::vector<double> x = numbers.Normal(5 * 9, 2.0);
    std::vector<double> gain = numbers.Normal(9);
    std::vector<double> bias = numbers.Normal(9);
    const std::vector<double> bar = numbers.Normal(5 * 9);
    std::vector<double> y(5 * 9);
    const auto loss = [&] {
      NormForward<double>(nullptr, kind, View(x, 5), gain, bias, View(y, 5));
      return Product(y, bar);
    };
    std::vector<double> x_bar(x.size());
    std::vector<double> gain_bar(9);
    std::vector<double> bias_bar(9);
    NormBackward<double>(nullptr, kind, View(x, 5), gain, {bar.data(), 5, 9, 9}, View(x_bar, 5),
                         Store::kSet, gain_bar, bias_bar);
    ExpectGradient("x", x, x_bar, loss);
    ExpectGradient("gain", gain, gain_bar, loss);
    ExpectGradient("bias", bias, bias_bar, loss);
  }
}

TEST(Norm, RowsHaveTheirSize) {
  std::vector<double> x = {3, 4, 0, 0};
  const std::vector<double> ones(4, 1.0);
  std::vector<double> y(4);
  NormForward<double>(nullptr, NormKind::kRms, View(x, 1), ones, {}, View(y, 1));
  EXPECT_NEAR(Product(y, y), 4.0, 1e-5);
  NormForward<double>(nullptr, NormKind::kLayer, View(x, 1), ones, {}, View(y, 1));
  EXPECT_NEAR(Product(y, y), 4.0, 1e-5);
  EXPECT_NEAR(Product(y, ones), 0.0, 1e-12);
}

TEST(UnitLength, Gradients) {
  Numbers numbers(5);
  std::vector<double> x = numbers.Normal(6);
  const std::vector<double> bar = numbers.Normal(6);
  std::vector<double> y(6);
  double inverse = 0;
  const auto loss = [&] {
    inverse = UnitLengthForward(x.data(), 6, y.data());
    return Product(y, bar);
  };
  loss();
  EXPECT_NEAR(Product(y, y), 1.0, 1e-10);
  std::vector<double> x_bar(6);
  UnitLengthBackward(y.data(), inverse, bar.data(), 6, x_bar.data());
  ExpectGradient("x", x, x_bar, loss);
}

TEST(Mlp, Gradients) {
  for (const MlpKind kind : {MlpKind::kGelu, MlpKind::kSwiglu}) {
    const size_t inner = kind == MlpKind::kGelu ? 11 : 22;
    Numbers numbers(6);
    std::vector<double> x = numbers.Normal(4 * 5);
    std::vector<double> up = numbers.Normal(5 * inner, 0.7);
    std::vector<double> down = numbers.Normal(11 * 5, 0.7);
    const std::vector<double> bar = numbers.Normal(4 * 5);
    std::vector<double> y(4 * 5);
    MlpWorkspace<double> workspace;
    MlpScratch<double> scratch;
    const auto loss = [&] {
      MlpForward<double>(nullptr, kind, View(x, 4), View(up, 5), View(down, 11), &workspace,
                         View(y, 4));
      return Product(y, bar);
    };
    loss();
    std::vector<double> x_bar(x.size());
    std::vector<double> up_bar(up.size());
    std::vector<double> down_bar(down.size());
    MlpBackward<double>(nullptr, kind, View(x, 4), View(up, 5), View(down, 11),
                        {bar.data(), 4, 5, 5}, workspace, &scratch, View(x_bar, 4), View(up_bar, 5),
                        View(down_bar, 11));
    ExpectGradient("x", x, x_bar, loss);
    ExpectGradient("up", up, up_bar, loss);
    ExpectGradient("down", down, down_bar, loss);
  }
}

TEST(Mlp, GeluIsTheKnownFunction) {
  MlpWorkspace<double> workspace;
  for (const double a : {-3.0, -0.5, 0.0, 0.25, 2.0}) {
    std::vector<double> x = {a};
    std::vector<double> one = {1.0};
    std::vector<double> y(1);
    MlpForward<double>(nullptr, MlpKind::kGelu, View(x, 1), View(one, 1), View(one, 1), &workspace,
                       View(y, 1));
    // The form by tanh is within 5e-4 of a Phi(a).
    EXPECT_NEAR(y[0], a * std::erfc(-a / std::sqrt(2.0)) / 2, 5e-4);
  }
}

TEST(CrossEntropy, LossAndGradients) {
  Numbers numbers(7);
  std::vector<double> z = numbers.Normal(4 * 6, 3.0);
  const std::vector<uint32_t> targets = {2, kNoTarget, 5, 0};
  std::vector<double> p;
  std::vector<double> losses(4);
  const auto loss = [&] {
    p = z;
    CrossEntropyForward<double>(nullptr, targets, View(p, 4), losses);
    return 0.5 * std::accumulate(losses.begin(), losses.end(), 0.0);
  };
  loss();
  EXPECT_EQ(losses[1], 0.0);
  double sum = 0;
  for (size_t j = 0; j < 6; ++j) sum += std::exp(z[j]);
  EXPECT_NEAR(losses[0], std::log(sum) - z[2], 1e-12);
  CrossEntropyBackward<double>(nullptr, targets, 0.5, View(p, 4));
  const std::vector<double> z_bar = p;
  ExpectGradient("z", z, z_bar, loss);
}

}  // namespace
}  // namespace lethe::model
