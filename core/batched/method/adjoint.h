// The derivative of one solution, (9) of backend.h: solved by the factor, and refined once.
//
// What a backend supplies beside numbers() and FactoriseMargin() (polish.h):
//
//     ErrorLoss<Real> OfErrors()             over E: sum of dL/da, how many
//     void LossOnMargin()                    right side = dL/da on S; lambda = 0
//     Real CorrectLambda(Real mass)          lambda and nu gain what solves (9) for the right side
//                                            and that mass; returns nu's gain
//     Real Residual(Real nu, Real mass)      right side = what lambda and nu leave of it; returns
//                                            mass - sum lambda
//     Real Across()                          lambda'K_SE 1
//     Real Along()                           lambda'a_S
#ifndef LETHE_CORE_BATCHED_METHOD_ADJOINT_H_
#define LETHE_CORE_BATCHED_METHOD_ADJOINT_H_

#include "core/batched/method/numbers.h"

namespace lethe::batched {

template <typename T>
struct ScalarGradients {
  T box = 0;
  T ridge = 0;
};
template <typename T>
struct ErrorLoss {
  T sum = 0;
  T count = 0;
};

// Requires a loaded problem with x and labels of its solution. Sets lambda where kOk is returned.
template <typename Steps>
LETHE_PART GradientOutcome RunAdjoint(typename Steps::Real threshold_bar,
                                      Steps& steps,
                                      ScalarGradients<typename Steps::Real>* gradients) {
  using T = typename Steps::Real;
  *gradients = {};
  const ErrorLoss<T> errors = steps.OfErrors();
  if (!steps.FactoriseMargin()) return GradientOutcome::kNone;
  if (steps.numbers().margin == 0) {
    gradients->box = errors.sum;
    return GradientOutcome::kNoMargin;
  }
  steps.LossOnMargin();
  T nu = steps.CorrectLambda(threshold_bar);
  const T mass = steps.Residual(nu, threshold_bar);
  nu += steps.CorrectLambda(mass);
  gradients->box = errors.sum - errors.count * nu - 2 * steps.Across();
  gradients->ridge = -steps.Along();
  return GradientOutcome::kOk;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_METHOD_ADJOINT_H_
