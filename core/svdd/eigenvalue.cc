#include "core/svdd/eigenvalue.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "core/base/check.h"

namespace lethe::svdd {

double SmallestEigenvalueBound(const std::vector<double>& matrix, size_t n) {
  LETHE_CHECK(matrix.size() == n * n);
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr double kUnit = 0x1p-53;
  const auto size = static_cast<Eigen::Index>(n);
  const Eigen::Map<const Matrix> k(matrix.data(), size, size);
  const Eigen::LLT<Matrix> factor(k);
  if (factor.info() != Eigen::Success) return 0.0;
  const Matrix lower = factor.matrixL();
  const Matrix inverse = factor.matrixL().solve(Matrix::Identity(size, size));
  const double lower_norm = lower.norm();
  const double inverse_norm = inverse.norm();
  const double inverse_error = 4 * static_cast<double>(n) * kUnit * lower_norm * inverse_norm;
  // Not `inverse_error > 0.01`: a NaN must end here too.
  if (!(inverse_error <= 0.01)) return 0.0;
  const double trace = k.trace();
  const double backward = 2 * static_cast<double>(n + 3) * kUnit * trace;
  const double entries = static_cast<double>(n) * kUnit * k.diagonal().maxCoeff();
  const double bound = 0.97 / (inverse_norm * inverse_norm) - backward - entries;
  return std::max(bound, 0.0);
}

}  // namespace lethe::svdd
