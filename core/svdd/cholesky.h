// The Cholesky factor L of a growing and shrinking positive definite matrix K = L L', in any of our
// arithmetics: this one for MpReal in the upper rungs, cholesky_dd.h for the walk.
//
// It knows nothing of the problem: rows are appended at the end and removed anywhere (Givens
// rotations). Holding a factor and not an inverse keeps the residual at rounding level however long
// the churn (docs/math.md, section 3.4). Cost, k rows: Append and Solve O(k^2), Remove O((k -
// i)^2), no allocation but for the row that is added. Threads: compatible.
#ifndef LETHE_CORE_SVDD_CHOLESKY_H_
#define LETHE_CORE_SVDD_CHOLESKY_H_

#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/double_double.h"
#include "core/base/mp_real.h"

namespace lethe::svdd {

template <typename Real>
class CholeskyFactor {
 public:
  size_t size() const { return rows_.size(); }
  void Clear() { rows_.clear(); }

  // Appends the row (k_0, ..., k_{size-1}, diagonal) of K. False, and no change, when the new pivot
  // squared is not above `threshold`: then the matrix is singular as far as this arithmetic can
  // see.
  bool Append(std::vector<Real> row, const Real& diagonal, const Real& threshold) {
    LETHE_CHECK(row.size() == size());
    Real pivot = diagonal;
    for (size_t j = 0; j < row.size(); ++j) {
      const std::vector<Real>& other = rows_[j];
      for (size_t l = 0; l < j; ++l) SubtractProduct(row[j], row[l], other[l]);
      row[j] = row[j] / other[j];
      SubtractProduct(pivot, row[j], row[j]);
    }
    if (!(pivot > threshold)) return false;
    row.push_back(Sqrt(pivot));
    rows_.push_back(std::move(row));
    return true;
  }

  // Removes row and column `index` of K.
  void Remove(size_t index) {
    LETHE_CHECK(index < size());
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(index));
    for (size_t j = index; j < rows_.size(); ++j) {
      // Row j now has one entry too many, right of the diagonal; a rotation of columns j and j + 1
      // moves it into the diagonal.
      const Real a = rows_[j][j];
      const Real b = rows_[j][j + 1];
      const Real length = Sqrt(a * a + b * b);
      const Real c = a / length;
      const Real s = b / length;
      for (size_t i = j + 1; i < rows_.size(); ++i) {
        const Real x = rows_[i][j];
        const Real y = rows_[i][j + 1];
        rows_[i][j] = c * x + s * y;
        rows_[i][j + 1] = c * y - s * x;
      }
      rows_[j][j] = length;
      rows_[j].pop_back();
    }
  }

  // x <- K^{-1} x. Requires x.size() == size().
  void Solve(std::vector<Real>& x) const {
    LETHE_CHECK(x.size() == size());
    const size_t n = size();
    for (size_t i = 0; i < n; ++i) {
      const std::vector<Real>& row = rows_[i];
      for (size_t j = 0; j < i; ++j) SubtractProduct(x[i], row[j], x[j]);
      x[i] = x[i] / row[i];
    }
    for (size_t i = n; i-- > 0;) {
      x[i] = x[i] / rows_[i][i];
      const std::vector<Real>& row = rows_[i];
      for (size_t j = 0; j < i; ++j) SubtractProduct(x[j], row[j], x[i]);
    }
  }

  // Lower bound on the smallest eigenvalue of L L' by 1 / |L^{-1}|_F^2. O(size^3 / 6). Computed in
  // this arithmetic; the caller accounts for its rounding and for K - L L'.
  Real SmallestEigenvalueBound() const {
    const size_t n = size();
    Real sum(0.0);
    std::vector<Real> column(n, Real(0.0));
    for (size_t j = 0; j < n; ++j) {
      column[j] = Real(1.0) / rows_[j][j];
      sum += column[j] * column[j];
      for (size_t i = j + 1; i < n; ++i) {
        Real value(0.0);
        for (size_t l = j; l < i; ++l) SubtractProduct(value, rows_[i][l], column[l]);
        column[i] = value / rows_[i][i];
        sum += column[i] * column[i];
      }
    }
    return Real(1.0) / sum;
  }

 private:
  std::vector<std::vector<Real>> rows_;  // row i holds L(i, 0..i)
};

// The margin weights and mu for a fixed active set, in mass units (problem.h):
//     2 K_SS w + mu 1 = b,   1'w = m.                                                       (2)
// Two solves with the factor of K_SS: w = z - (mu / 2) u, u = K^{-1} 1, z = K^{-1} b / 2.
template <typename Real>
void SolveBordered(const CholeskyFactor<Real>& factor,
                   std::vector<Real> b,
                   const Real& m,
                   std::vector<Real>& w,
                   Real& mu) {
  std::vector<Real> u(factor.size(), Real(1.0));
  factor.Solve(u);
  const Real half(0.5);
  for (Real& value : b) value = value * half;
  factor.Solve(b);
  Real sum_u(0.0);
  Real sum_z(0.0);
  for (size_t i = 0; i < u.size(); ++i) {
    sum_u += u[i];
    sum_z += b[i];
  }
  mu = (sum_z - m) / sum_u * Real(2.0);
  const Real shift = mu * half;
  w = std::move(b);
  for (size_t i = 0; i < w.size(); ++i) SubtractProduct(w[i], shift, u[i]);
}

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_CHOLESKY_H_
