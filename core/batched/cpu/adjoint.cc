#include "core/batched/cpu/adjoint.h"

#include <algorithm>
#include <cmath>

#include "core/batched/cpu/factor.h"
#include "core/batched/cpu/polish.h"

namespace lethe::batched {
namespace {

// The correction of (lambda, nu) for what is left of (9): right_S in solution, `mass` of m.
template <typename T>
void Correct(T mass, Workspace<T>& work, T* nu) {
  T* const delta = work.solution.get();
  T* const ones = work.ones.get();
  std::fill(ones, ones + work.margin, T{1});
  Solve<T, 2>(work.factor.get(), work.factor_stride, work.margin, work.inverse_pivots.get(),
              {delta, ones});
  T along = 0;
  T total = 0;
  for (size_t k = 0; k < work.margin; ++k) {
    along += delta[k];
    total += ones[k];
  }
  const T step = (along - mass) / total;
  for (size_t k = 0; k < work.margin; ++k) {
    work.lambda[work.order[k]] += delta[k] - step * ones[k];
  }
  *nu += step;
}

}  // namespace

template <typename T>
GradientOutcome Adjoint(const T* weights_bar,
                        T threshold_bar,
                        Workspace<T>& work,
                        ScalarGradients<T>* gradients) {
  *gradients = {};
  std::fill(work.lambda.get(), work.lambda.get() + work.rows, T{0});
  T error_sum = 0;
  T error_count = 0;
  for (size_t i = 0; i < work.n; ++i) {
    if (work.label(i) != Label::kError) continue;
    error_sum += weights_bar[i];
    error_count += 1;
  }
  if (!FactoriseMargin(work)) return GradientOutcome::kNone;
  if (work.margin == 0) {
    gradients->box = error_sum;
    return GradientOutcome::kNoMargin;
  }
  T nu = 0;
  for (size_t k = 0; k < work.margin; ++k) work.solution[k] = weights_bar[work.order[k]];
  Correct(threshold_bar, work, &nu);
  work.Multiply(work.lambda.get(), work.v.get());
  T mass = threshold_bar;
  for (size_t k = 0; k < work.margin; ++k) {
    const size_t i = work.order[k];
    const T lambda = work.lambda[i];
    work.solution[k] = weights_bar[i] - 2 * work.v[i] - work.ridge * lambda - nu;
    mass -= lambda;
  }
  Correct(mass, work, &nu);

  // lambda'K_SE 1 from K lambda over E.
  work.Multiply(work.lambda.get(), work.v.get());
  T across = 0;
  T along = 0;
  for (size_t i = 0; i < work.n; ++i) {
    if (work.label(i) == Label::kError) across += work.v[i];
    along += work.lambda[i] * work.x[i];
  }
  gradients->box = error_sum - error_count * nu - 2 * across;
  gradients->ridge = -along;
  return GradientOutcome::kOk;
}

template GradientOutcome Adjoint(const float*, float, Workspace<float>&, ScalarGradients<float>*);
template GradientOutcome Adjoint(const double*,
                                 double,
                                 Workspace<double>&,
                                 ScalarGradients<double>*);

}  // namespace lethe::batched
