// Small problems against an oracle that shares nothing with the solver: every assignment of labels
// is tried in 100-digit arithmetic (Boost.Multiprecision), and the one that satisfies the
// optimality conditions is the truth.
#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/svdd/memory.h"

namespace lethe::svdd {
namespace {

using Decimal = boost::multiprecision::cpp_bin_float_100;

struct Truth {
  std::string partition;
  std::vector<Decimal> alpha;
  std::optional<Decimal> mu;
};

// Gaussian elimination with partial pivoting; empty when singular.
std::vector<Decimal> SolveLinear(std::vector<std::vector<Decimal>> a, std::vector<Decimal> b) {
  const size_t n = b.size();
  for (size_t c = 0; c < n; ++c) {
    size_t best = c;
    for (size_t r = c + 1; r < n; ++r) {
      if (abs(a[r][c]) > abs(a[best][c])) best = r;
    }
    if (abs(a[best][c]) < Decimal("1e-80")) return {};
    std::swap(a[c], a[best]);
    std::swap(b[c], b[best]);
    for (size_t r = c + 1; r < n; ++r) {
      const Decimal factor = a[r][c] / a[c][c];
      for (size_t k = c; k < n; ++k) a[r][k] -= factor * a[c][k];
      b[r] -= factor * b[c];
    }
  }
  for (size_t r = n; r-- > 0;) {
    for (size_t k = r + 1; k < n; ++k) b[r] -= a[r][k] * b[k];
    b[r] /= a[r][r];
  }
  return b;
}

// Requires distinct keys and at least one weight strictly inside its bounds in the optimum, or
// none.
Truth Enumerate(const std::vector<std::vector<Decimal>>& gram, const Decimal& box) {
  const size_t n = gram.size();
  size_t assignments = 1;
  for (size_t i = 0; i < n; ++i) assignments *= 3;
  for (size_t code = 0; code < assignments; ++code) {
    std::string label(n, 'R');
    std::vector<size_t> margin;
    Decimal mass = 1;
    for (size_t i = 0, rest = code; i < n; ++i, rest /= 3) {
      label[i] = "RSE"[rest % 3];
      if (label[i] == 'S') margin.push_back(i);
      if (label[i] == 'E') mass -= box;
    }
    std::vector<Decimal> alpha(n, Decimal(0));
    for (size_t i = 0; i < n; ++i) {
      if (label[i] == 'E') alpha[i] = box;
    }
    std::optional<Decimal> mu;
    if (margin.empty()) {
      if (abs(mass) > Decimal("1e-60")) continue;
    } else {
      // [0 1'; 1 2K_SS] [mu; a_S] = [mass; diag_S - 2 K_SE a_E]
      const size_t m = margin.size();
      std::vector<std::vector<Decimal>> matrix(m + 1, std::vector<Decimal>(m + 1, Decimal(0)));
      std::vector<Decimal> right(m + 1);
      right[0] = mass;
      for (size_t p = 0; p < m; ++p) {
        matrix[0][p + 1] = matrix[p + 1][0] = 1;
        right[p + 1] = gram[margin[p]][margin[p]];
        for (size_t j = 0; j < n; ++j) {
          if (label[j] == 'E') right[p + 1] -= 2 * gram[margin[p]][j] * box;
        }
        for (size_t q = 0; q < m; ++q) matrix[p + 1][q + 1] = 2 * gram[margin[p]][margin[q]];
      }
      const std::vector<Decimal> solution = SolveLinear(matrix, right);
      if (solution.empty()) continue;
      mu = solution[0];
      bool inside = true;
      for (size_t p = 0; p < m; ++p) {
        alpha[margin[p]] = solution[p + 1];
        inside &= solution[p + 1] > Decimal("1e-70") && solution[p + 1] < box - Decimal("1e-70");
      }
      if (!inside) continue;
    }
    // Signs of the gradients; without a margin some mu must fit all of them.
    Decimal low = mu.value_or(Decimal("-1e50"));
    Decimal high = mu.value_or(Decimal("1e50"));
    for (size_t i = 0; i < n; ++i) {
      Decimal slope = -gram[i][i];
      for (size_t j = 0; j < n; ++j) slope += 2 * gram[i][j] * alpha[j];
      if (label[i] == 'R' && -slope > low) low = -slope;
      if (label[i] == 'E' && -slope < high) high = -slope;
    }
    if (low > high + Decimal("1e-60")) continue;
    return {label, alpha, mu};
  }
  return {};
}

double RoundToDouble(const Decimal& value) {
  // Through 60 decimal digits, so that the conversion is strtod's and not the library's.
  return std::strtod(value.str(60, std::ios_base::scientific).c_str(), nullptr);
}

TEST(OracleTest, SmallProblemsAreTheTruthRounded) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  int margins = 0;
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const size_t n = 2 + static_cast<size_t>(round) % 5;
    const int d = 1 + round % 3;
    const auto kind = static_cast<kernel::KernelKind>(1 + round % 3);
    const double parameter = 0.3 + 0.2 * std::abs(normal(random));
    // Between one and n tokens must carry the answer; every fourth round an integer many.
    double capacity =
        1.0 + std::uniform_real_distribution<>(0.0, static_cast<double>(n) - 1)(random);
    if (round % 4 == 0) capacity = std::floor(capacity);
    std::vector<std::vector<double>> keys(n, std::vector<double>(static_cast<size_t>(d)));
    for (size_t i = 0; i < n; ++i) {
      for (double& coordinate : keys[i]) coordinate = normal(random);
      // Every third round pairs of near-duplicates.
      if (round % 3 == 1 && i % 2 == 1) {
        keys[i] = keys[i - 1];
        keys[i][0] += std::pow(10.0, -3 - round % 8);
      }
    }
    std::vector<std::vector<Decimal>> gram(n, std::vector<Decimal>(n));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        Decimal sum = 0;
        for (size_t k = 0; k < keys[i].size(); ++k) {
          const Decimal x = keys[i][k];
          const Decimal y = keys[j][k];
          sum += kind == kernel::KernelKind::kExpDot ? x * y : (x - y) * (x - y);
        }
        if (kind == kernel::KernelKind::kLaplacian) sum = sqrt(sum);
        gram[i][j] = exp((kind == kernel::KernelKind::kExpDot ? 1 : -1) * Decimal(parameter) * sum);
      }
    }
    const Truth truth = Enumerate(gram, 1 / Decimal(capacity));
    ASSERT_EQ(truth.partition.size(), n);

    auto memory =
        ExactMemory::Create(
            {{kind, parameter}, *Capacity::FromCapacity(capacity), DuplicatesPolicy::kShared, d, 1})
            .value();
    const double value = 1.0;
    for (size_t i = 0; i < n; ++i) {
      const NewToken token{i, keys[i], {&value, 1}};
      ASSERT_TRUE(memory->Insert({&token, 1}).ok());
    }
    const auto state = memory->snapshot();
    std::string partition(n, 'R');
    std::vector<double> alpha(n, 0.0);
    for (const SupportToken& token : state->supports) {
      partition[token.handle] = token.label == Label::kMargin ? 'S' : 'E';
      alpha[token.handle] = token.alpha;
    }
    EXPECT_EQ(partition, truth.partition);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(alpha[i], RoundToDouble(truth.alpha[i])) << i;
    ASSERT_EQ(state->mu.has_value(), truth.mu.has_value());
    if (truth.mu.has_value()) {
      ++margins;
      EXPECT_EQ(*state->mu, RoundToDouble(*truth.mu));
    }
  }
  EXPECT_GT(margins, 60);
}

}  // namespace
}  // namespace lethe::svdd
