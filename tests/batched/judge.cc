#include "tests/batched/judge.h"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace lethe::batched {
namespace {

Eigen::Index Signed(size_t i) { return static_cast<Eigen::Index>(i); }

template <typename T>
double OneOrEach(std::span<const T> values, size_t b) {
  return static_cast<double>(values.size() == 1 ? values[0] : values[b]);
}

}  // namespace

namespace {

template <typename Scalar>
using MatrixOf = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;

// The definitions of the kernels, a point a column.
template <typename Scalar>
MatrixOf<Scalar> GramOfPoints(const KernelForm& kernel, Scalar p, MatrixOf<Scalar> points) {
  if (kernel.normalise) points.colwise().normalize();
  const Eigen::Index n = points.cols();
  MatrixOf<Scalar> gram(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      Scalar value = 0;
      switch (kernel.kind) {
        case KernelKind::kRbf:
          value = std::exp(-p * (points.col(i) - points.col(j)).squaredNorm());
          break;
        case KernelKind::kLaplacian:
          value = std::exp(-p * (points.col(i) - points.col(j)).norm());
          break;
        case KernelKind::kExpDot:
          value = std::exp(p * points.col(i).dot(points.col(j)));
          break;
        case KernelKind::kDot:
          value = p * points.col(i).dot(points.col(j));
          break;
      }
      gram(i, j) = gram(j, i) = value;
    }
  }
  return gram;
}

}  // namespace

template <typename T>
Eigen::MatrixXd GramOf(const Batch<T>& batch, size_t b) {
  const size_t n = batch.n;
  if (batch.dimension == 0) {
    Eigen::MatrixXd gram(Signed(n), Signed(n));
    for (size_t i = 0; i < n * n; ++i) {
      gram.data()[i] = static_cast<double>(batch.matrices[b * n * n + i]);
    }
    return gram.transpose();
  }
  Eigen::MatrixXd points(Signed(batch.dimension), Signed(n));
  for (size_t i = 0; i < n * batch.dimension; ++i) {
    points.data()[i] = static_cast<double>(batch.points[b * n * batch.dimension + i]);
  }
  return GramOfPoints<double>(batch.kernel, OneOrEach(batch.parameter, b), std::move(points));
}

double DerivativeAlong(const Batch<double>& batch,
                       size_t b,
                       std::span<const uint8_t> labels,
                       std::span<const double> weights,
                       const Direction& direction,
                       double step) {
  using Real = long double;
  const Eigen::Index n = Signed(batch.n);
  const auto loss = [&](Real by) {
    MatrixOf<Real> points(Signed(batch.dimension), n);
    for (Eigen::Index i = 0; i < points.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      points.data()[i] =
          Real{batch.points[b * batch.n * batch.dimension + at]} + by * Real{direction.points[at]};
    }
    const MatrixOf<Real> gram = GramOfPoints<Real>(
        batch.kernel, OneOrEach(batch.parameter, b) + by * direction.parameter, std::move(points));
    const Real box = OneOrEach(batch.box, b) + by * direction.box;
    const Real ridge = OneOrEach(batch.ridge, b) + by * direction.ridge;
    std::vector<Eigen::Index> margin;
    Eigen::Matrix<Real, Eigen::Dynamic, 1> a = decltype(a)::Zero(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto label = static_cast<Label>(labels[static_cast<size_t>(i)]);
      if (label == Label::kMargin) margin.push_back(i);
      if (label == Label::kError) a[i] = box;
    }
    const Eigen::Index s = Signed(margin.size());
    MatrixOf<Real> system = MatrixOf<Real>::Zero(s + 1, s + 1);
    Eigen::Matrix<Real, Eigen::Dynamic, 1> right(s + 1);
    for (Eigen::Index i = 0; i < s; ++i) {
      const Eigen::Index point = margin[static_cast<size_t>(i)];
      for (Eigen::Index j = 0; j < s; ++j) {
        system(i, j) = 2 * gram(point, margin[static_cast<size_t>(j)]);
      }
      system(i, i) += ridge;
      system(i, s) = system(s, i) = 1;
      right[i] = gram(point, point) - 2 * gram.row(point).dot(a);
    }
    right[s] = 1 - a.sum();
    const Eigen::Matrix<Real, Eigen::Dynamic, 1> solved = system.partialPivLu().solve(right);
    for (Eigen::Index i = 0; i < s; ++i) a[margin[static_cast<size_t>(i)]] = solved[i];
    Real sum = 0;
    for (Eigen::Index i = 0; i < n; ++i) sum += a[i] * Real{weights[static_cast<size_t>(i)]};
    return sum;
  };
  const Real h = step;
  return static_cast<double>((8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h));
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
