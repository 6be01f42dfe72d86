// The operations over a sequence: each against the plain formula, and its gradients against
// differences.
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/attention.h"
#include "core/model/delta_net.h"
#include "core/model/linear_attention.h"
#include "tests/model/differences.h"

namespace lethe::model {
namespace {

struct Sequence {
  explicit Sequence(size_t length, size_t key_size, size_t value_size, unsigned seed)
      : n(length), d(key_size), e(value_size) {
    Numbers numbers(seed);
    q = numbers.Normal(n * d);
    k = numbers.Normal(n * d);
    v = numbers.Normal(n * e);
    extra = numbers.Normal(n);
    o_bar = numbers.Normal(n * e);
    o.resize(n * e);
    q_bar.resize(n * d);
    k_bar.resize(n * d);
    v_bar.resize(n * e);
    extra_bar.resize(n);
  }
  static Matrix<double> View(std::vector<double>& numbers, size_t columns) {
    return Matrix<double>(std::span<double>(numbers), numbers.size() / columns, columns);
  }
  Matrix<double> Q() { return View(q, d); }
  Matrix<double> K() { return View(k, d); }
  Matrix<double> V() { return View(v, e); }
  Matrix<double> O() { return View(o, e); }
  Matrix<double> Extra() { return View(extra, 1); }
  double Loss() const { return Product(o, o_bar); }

  size_t n, d, e;
  std::vector<double> q, k, v, o, extra, o_bar, q_bar, k_bar, v_bar, extra_bar;
};

// o by its definition, with m as a full matrix.
std::vector<double> PlainAttention(const Sequence& s, const std::vector<double>& m) {
  std::vector<double> o(s.n * s.e);
  for (size_t i = 0; i < s.n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < s.n; ++j) {
      if (m[i * s.n + j] == 0) continue;
      double score = 0;
      for (size_t l = 0; l < s.d; ++l) score += s.q[i * s.d + l] * s.k[j * s.d + l];
      const double p = m[i * s.n + j] * std::exp(score / std::sqrt(static_cast<double>(s.d)));
      sum += p;
      for (size_t l = 0; l < s.e; ++l) o[i * s.e + l] += p * s.v[j * s.e + l];
    }
    for (size_t l = 0; l < s.e; ++l) o[i * s.e + l] /= sum;
  }
  return o;
}

void HoldAttention(const AttentionMask& mask, Sequence s, std::vector<double> gates) {
  std::vector<double> m(s.n * s.n);
  for (size_t i = 0; i < s.n; ++i) {
    const size_t c = mask.chunk > 0 ? i / mask.chunk : 0;
    for (size_t j = 0; j <= i; ++j) {
      if (mask.window > 0 && i - j >= mask.window) continue;
      m[i * s.n + j] = j < c * mask.chunk ? gates[c * s.n + j] : 1.0;
    }
  }
  AttentionWorkspace<double> workspace;
  std::vector<double> log_sums(s.n);
  const auto gate_view = [&](std::vector<double>& numbers) {
    return numbers.empty() ? Matrix<double>() : Sequence::View(numbers, s.n);
  };
  const auto forward = [&] {
    AttentionForward<double>(mask, s.Q(), s.K(), s.V(), gate_view(gates), &workspace, s.O(),
                             log_sums);
    return s.Loss();
  };
  forward();
  const std::vector<double> plain = PlainAttention(s, m);
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(s.o[i], plain[i], 1e-12);
  std::vector<double> gates_bar(gates.size());
  AttentionBackward<double>(mask, s.Q(), s.K(), s.V(), gate_view(gates), s.O(), log_sums,
                            Sequence::View(s.o_bar, s.e), &workspace, Sequence::View(s.q_bar, s.d),
                            Sequence::View(s.k_bar, s.d), Sequence::View(s.v_bar, s.e),
                            gate_view(gates_bar));
  ExpectGradient("q", s.q, s.q_bar, forward, 11);
  ExpectGradient("k", s.k, s.k_bar, forward, 11);
  ExpectGradient("v", s.v, s.v_bar, forward, 11);
  size_t held = 0;
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t c = i / s.n;
    if (i % s.n >= c * mask.chunk) continue;
    if (gates[i] == 0) {
      EXPECT_EQ(gates_bar[i], 0.0);
      continue;
    }
    if (++held % 9 > 0) continue;
    const double quotient = DifferenceQuotient(&gates[i], forward, gates[i] * 0x1p-7);
    EXPECT_NEAR(gates_bar[i], quotient, 1e-7 * std::abs(quotient) + 1e-9) << i;
  }
  if (!gates.empty()) {
    EXPECT_GT(held, 30u);
  }
}

TEST(Attention, Full) { HoldAttention({}, Sequence(70, 4, 3, 1), {}); }
TEST(Attention, Window) {
  HoldAttention({5, 0}, Sequence(70, 4, 3, 2), {});
  HoldAttention({66, 0}, Sequence(70, 4, 3, 3), {});
  HoldAttention({2, 0}, Sequence(9, 4, 3, 4), {});
}

std::vector<double> Gates(size_t chunks, size_t n, unsigned seed) {
  std::vector<double> gates = Numbers(seed).Normal(chunks * n, 0.3);
  for (double& gate : gates) gate = gate < 0 ? 0.0 : gate + 0.01;
  return gates;
}
TEST(Attention, Gated) {
  HoldAttention({0, 8}, Sequence(35, 4, 3, 5), Gates(5, 35, 6));
  // A chunk longer than a tile of rows.
  HoldAttention({0, 70}, Sequence(150, 4, 3, 7), Gates(3, 150, 8));
}

TEST(Attention, AKeyThatIsOutMayScoreAboveAllOthers) {
  Sequence s(4, 2, 1, 9);
  s.q = {100, 100, 100, 100, 100, 100, 100, 100};
  s.k = {100, 100, 0, 0, 0, 0, 0, 0};
  s.v = {5, 1, 2, 3};
  std::vector<double> gates = {0, 0, 0, 0, 0, 1, 0, 0};
  AttentionWorkspace<double> workspace;
  std::vector<double> log_sums(4);
  AttentionForward<double>({0, 2}, s.Q(), s.K(), s.V(), Sequence::View(gates, 4), &workspace, s.O(),
                           log_sums);
  EXPECT_NEAR(s.o[2], (1 + 2) / 2.0, 1e-12);
  EXPECT_NEAR(s.o[3], (1 + 2 + 3) / 3.0, 1e-12);
}

TEST(DeltaNet, FollowsItsRuleAndItsGradients) {
  Sequence s(70, 4, 3, 10);
  DeltaNetWorkspace<double> workspace;
  const auto forward = [&] {
    DeltaNetForward<double>(s.Q(), s.K(), s.V(), s.Extra(), &workspace, s.O());
    return s.Loss();
  };
  forward();
  // S (e x d here) by its definition: S += b (v - S k) k'.
  std::vector<double> state(s.e * s.d);
  const auto unit = [&](const std::vector<double>& x, size_t t) {
    std::vector<double> row(x.begin() + static_cast<long>(t * s.d),
                            x.begin() + static_cast<long>((t + 1) * s.d));
    const double length = std::sqrt(Product(row, row));
    for (double& entry : row) entry /= length;
    return row;
  };
  for (size_t t = 0; t < s.n; ++t) {
    const std::vector<double> key = unit(s.k, t);
    const std::vector<double> query = unit(s.q, t);
    const double b = 1 / (1 + std::exp(-s.extra[t]));
    for (size_t j = 0; j < s.e; ++j) {
      const std::span<double> row(&state[j * s.d], s.d);
      const double off = s.v[t * s.e + j] - Product(row, key);
      for (size_t i = 0; i < s.d; ++i) row[i] += b * off * key[i];
      ASSERT_NEAR(s.o[t * s.e + j], Product(row, query), 1e-9) << t;
    }
  }
  DeltaNetBackward<double>(s.Q(), s.K(), s.V(), s.Extra(), Sequence::View(s.o_bar, s.e), &workspace,
                           Sequence::View(s.q_bar, s.d), Sequence::View(s.k_bar, s.d),
                           Sequence::View(s.v_bar, s.e), Sequence::View(s.extra_bar, 1));
  ExpectGradient("q", s.q, s.q_bar, forward, 3);
  ExpectGradient("k", s.k, s.k_bar, forward, 3);
  ExpectGradient("v", s.v, s.v_bar, forward, 3);
  ExpectGradient("beta", s.extra, s.extra_bar, forward, 3);
}

TEST(LinearAttention, FollowsItsRuleAndItsGradients) {
  for (const bool decays : {false, true}) {
    Sequence s(40, 4, 3, 11);
    for (double& g : s.extra) g = -std::abs(g) / 4;
    // Where elu's second derivative jumps a difference says little.
    for (std::vector<double>* x : {&s.q, &s.k}) {
      for (double& entry : *x) entry += entry > 0 ? 0.05 : -0.05;
    }
    LinearAttentionWorkspace<double> workspace;
    const auto g = [&] { return decays ? s.Extra() : Matrix<double>(); };
    const auto forward = [&] {
      LinearAttentionForward<double>(s.Q(), s.K(), s.V(), g(), &workspace, s.O());
      return s.Loss();
    };
    forward();
    const auto feature = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
    for (size_t t = 0; t < s.n; ++t) {
      double sum = 0;
      std::vector<double> o(s.e);
      double decay = 0;
      for (size_t u = t + 1; u-- > 0;) {
        double weight = 0;
        for (size_t i = 0; i < s.d; ++i)
          weight += feature(s.q[t * s.d + i]) * feature(s.k[u * s.d + i]);
        weight *= std::exp(decay);
        if (decays) decay += s.extra[u];
        sum += weight;
        for (size_t j = 0; j < s.e; ++j) o[j] += weight * s.v[u * s.e + j];
      }
      for (size_t j = 0; j < s.e; ++j) ASSERT_NEAR(s.o[t * s.e + j], o[j] / sum, 1e-12);
    }
    LinearAttentionBackward<double>(s.Q(), s.K(), s.V(), g(), Sequence::View(s.o_bar, s.e),
                                    &workspace, Sequence::View(s.q_bar, s.d),
                                    Sequence::View(s.k_bar, s.d), Sequence::View(s.v_bar, s.e),
                                    decays ? Sequence::View(s.extra_bar, 1) : Matrix<double>());
    ExpectGradient("q", s.q, s.q_bar, forward, 3);
    ExpectGradient("k", s.k, s.k_bar, forward, 3);
    ExpectGradient("v", s.v, s.v_bar, forward, 3);
    if (decays) ExpectGradient("g", s.extra, s.extra_bar, forward, 3);
  }
}

}  // namespace
}  // namespace lethe::model
