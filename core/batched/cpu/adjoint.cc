#include "core/batched/cpu/adjoint.h"

#include <algorithm>

#include "core/batched/cpu/factor.h"
#include "core/batched/cpu/polish.h"

namespace lethe::batched {
namespace {

template <typename T>
class AdjointSteps {
 public:
  using Real = T;

  AdjointSteps(const T* weights_bar, Workspace<T>& work) : weights_bar_(weights_bar), work_(work) {}

  Numbers<T>& numbers() { return work_; }
  bool FactoriseMargin() { return batched::FactoriseMargin(work_); }

  ErrorLoss<T> OfErrors() const {
    ErrorLoss<T> errors;
    for (size_t i = 0; i < work_.n; ++i) {
      if (work_.label(i) != Label::kError) continue;
      errors.sum += weights_bar_[i];
      errors.count += 1;
    }
    return errors;
  }
  void LossOnMargin() {
    std::fill(work_.lambda.get(), work_.lambda.get() + work_.rows, T{0});
    for (size_t k = 0; k < work_.margin; ++k) {
      work_.solution[k] = weights_bar_[work_.order[k]];
    }
  }
  T CorrectLambda(T mass) {
    T* const delta = work_.solution.get();
    T* const ones = work_.ones.get();
    std::fill(ones, ones + work_.margin, T{1});
    Solve<T, 2>(work_.factor.get(), work_.factor_stride, work_.margin, work_.inverse_pivots.get(),
                {delta, ones});
    T along = 0;
    T total = 0;
    for (size_t k = 0; k < work_.margin; ++k) {
      along += delta[k];
      total += ones[k];
    }
    const T nu = (along - mass) / total;
    for (size_t k = 0; k < work_.margin; ++k) {
      work_.lambda[work_.order[k]] += delta[k] - nu * ones[k];
    }
    return nu;
  }
  T Residual(T nu, T mass) {
    work_.Multiply(work_.lambda.get(), work_.v.get());
    for (size_t k = 0; k < work_.margin; ++k) {
      const size_t i = work_.order[k];
      const T lambda = work_.lambda[i];
      work_.solution[k] = weights_bar_[i] - 2 * work_.v[i] - work_.ridge * lambda - nu;
      mass -= lambda;
    }
    return mass;
  }
  T Across() {
    // From K lambda over E.
    work_.Multiply(work_.lambda.get(), work_.v.get());
    T across = 0;
    for (size_t i = 0; i < work_.n; ++i) {
      if (work_.label(i) == Label::kError) across += work_.v[i];
    }
    return across;
  }
  T Along() const {
    T along = 0;
    for (size_t i = 0; i < work_.n; ++i) along += work_.lambda[i] * work_.x[i];
    return along;
  }

 private:
  const T* const weights_bar_;
  Workspace<T>& work_;
};

}  // namespace

template <typename T>
GradientOutcome Adjoint(const T* weights_bar,
                        T threshold_bar,
                        Workspace<T>& work,
                        ScalarGradients<T>* gradients) {
  AdjointSteps<T> steps(weights_bar, work);
  return RunAdjoint(threshold_bar, steps, gradients);
}

template GradientOutcome Adjoint(const float*, float, Workspace<float>&, ScalarGradients<float>*);
template GradientOutcome Adjoint(const double*,
                                 double,
                                 Workspace<double>&,
                                 ScalarGradients<double>*);

}  // namespace lethe::batched
