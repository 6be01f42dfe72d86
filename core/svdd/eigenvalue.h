// A proven lower bound on the smallest eigenvalue of a symmetric matrix, from one fp64 Cholesky
// factor.
#ifndef LETHE_CORE_SVDD_EIGENVALUE_H_
#define LETHE_CORE_SVDD_EIGENVALUE_H_

#include <cstddef>
#include <vector>

namespace lethe::svdd {

// `matrix`: n x n row-major, each entry within one rounding (2^-53 relative) of the matrix meant,
// the diagonal positive and largest. Returns 0 when fp64 cannot prove a positive bound.
//
// With the computed factor, L L' = K + E and |E|_2 <= (n + 3) 2^-53 trace(K) (Demmel; Higham,
// Accuracy and Stability, theorem 10.3), so lambda_min(K) >= 1 / |L^{-1}|_F^2 - |E|_2; the computed
// inverse is within n 2^-53 |L| |L^{-1}| of the true one, relatively. Cost 2 n^3 / 3.
double SmallestEigenvalueBound(const std::vector<double>& matrix, size_t n);

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_EIGENVALUE_H_
