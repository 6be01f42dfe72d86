#include "tests/batched/judge.h"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <vector>

namespace lethe::batched {
namespace {

Eigen::Index Signed(size_t i) { return static_cast<Eigen::Index>(i); }

template <typename T>
double OneOrEach(std::span<const T> values, size_t b) {
  return static_cast<double>(values.size() == 1 ? values[0] : values[b]);
}

}  // namespace

template <typename T>
Eigen::MatrixXd GramOf(const Batch<T>& batch, size_t b) {
  const size_t n = batch.n;
  const size_t d = batch.dimension;
  Eigen::MatrixXd gram(Signed(n), Signed(n));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double& entry = gram(Signed(i), Signed(j));
      if (d == 0) {
        entry = static_cast<double>(batch.matrices[(b * n + i) * n + j]);
        continue;
      }
      const auto read = [&](size_t point) {
        Eigen::VectorXd x(Signed(d));
        for (size_t k = 0; k < d; ++k) {
          x[Signed(k)] = static_cast<double>(batch.points[(b * n + point) * d + k]);
        }
        return batch.kernel.normalise ? x.normalized() : x;
      };
      const Eigen::VectorXd x = read(i);
      const Eigen::VectorXd y = read(j);
      const double p = OneOrEach(batch.parameter, b);
      switch (batch.kernel.kind) {
        case KernelKind::kRbf:
          entry = std::exp(-p * (x - y).squaredNorm());
          break;
        case KernelKind::kLaplacian:
          entry = std::exp(-p * (x - y).norm());
          break;
        case KernelKind::kExpDot:
          entry = std::exp(p * x.dot(y));
          break;
        case KernelKind::kDot:
          entry = p * x.dot(y);
          break;
      }
    }
  }
  return gram;
}

template <typename T>
Verdict JudgeSolution(const Batch<T>& batch, size_t b, const Solution<T>& solution) {
  const Eigen::MatrixXd gram = GramOf(batch, b);
  const Eigen::Index n = gram.rows();
  const double box = OneOrEach(batch.box, b);
  Eigen::VectorXd a(n);
  Verdict verdict;
  for (Eigen::Index i = 0; i < n; ++i) {
    const size_t at = b * batch.n + static_cast<size_t>(i);
    a[i] = static_cast<double>(solution.weights[at]);
    verdict.outside = std::max({verdict.outside, -a[i], a[i] - box});
    const Label expected = a[i] == 0.0   ? Label::kReserve
                           : a[i] == box ? Label::kError
                                         : Label::kMargin;
    if (static_cast<Label>(solution.labels[at]) != expected) verdict.labels_match = false;
  }
  verdict.mass_error = std::abs(a.sum() - 1);
  const Eigen::VectorXd plain = 2 * gram * a + OneOrEach(batch.ridge, b) * a - gram.diagonal();
  const double low = static_cast<double>(solution.threshold_low[b]);
  const double high = static_cast<double>(solution.threshold_high[b]);
  verdict.thresholds_ordered = low <= high;
  for (const double mu : {low, high}) {
    if (std::isinf(mu)) continue;
    double gap = 0.0;
    for (Eigen::Index i = 0; i < n; ++i) {
      const double g = plain[i] + mu;
      gap += a[i] * std::max(g, 0.0) + (box - a[i]) * std::max(-g, 0.0);
    }
    // Not max(): a NaN must not be lost.
    if (!(gap <= verdict.gap)) verdict.gap = gap;
  }
  return verdict;
}

std::optional<Optimum> TryAllLabels(const Eigen::MatrixXd& gram, double box, double ridge) {
  const Eigen::Index n = gram.rows();
  const Eigen::MatrixXd hessian = 2 * gram + ridge * Eigen::MatrixXd::Identity(n, n);
  std::optional<Optimum> best;
  std::vector<int> labels(static_cast<size_t>(n), 0);
  while (true) {
    // Stationary for these labels: H_SS a_S + mu 1 = k_S - H_SE a_E, the sum 1.
    Eigen::MatrixXd system = Eigen::MatrixXd::Zero(n + 1, n + 1);
    Eigen::VectorXd right = Eigen::VectorXd::Zero(n + 1);
    right[n] = 1;
    for (Eigen::Index i = 0; i < n; ++i) {
      system(n, i) = 1;
      if (labels[static_cast<size_t>(i)] == 1) {
        system.row(i).head(n) = hessian.row(i);
        system(i, n) = 1;
        right[i] = gram(i, i);
      } else {
        system(i, i) = 1;
        right[i] = labels[static_cast<size_t>(i)] == 2 ? box : 0.0;
      }
    }
    const Eigen::FullPivLU<Eigen::MatrixXd> factor(system);
    Eigen::VectorXd a = factor.solve(right).head(n);
    constexpr double kSlack = 1e-12;
    if (a.allFinite() && std::abs(a.sum() - 1) < kSlack && a.minCoeff() > -kSlack &&
        a.maxCoeff() < box + kSlack) {
      const double objective = a.dot(0.5 * hessian * a - gram.diagonal());
      if (!best.has_value() || objective < best->objective) best = Optimum{a, objective};
    }
    size_t i = 0;
    while (i < labels.size() && ++labels[i] == 3) labels[i++] = 0;
    if (i == labels.size()) break;
  }
  return best;
}

template Eigen::MatrixXd GramOf(const Batch<float>&, size_t);
template Eigen::MatrixXd GramOf(const Batch<double>&, size_t);
template Verdict JudgeSolution(const Batch<float>&, size_t, const Solution<float>&);
template Verdict JudgeSolution(const Batch<double>&, size_t, const Solution<double>&);

}  // namespace lethe::batched
