#include "core/model/recall.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/model/elementwise.h"

namespace lethe::model {
namespace {

using batched::KernelKind;

template <typename T>
T SquaredDistance(const T* x, const T* y, size_t size) {
  T sum = 0;
  for (size_t i = 0; i < size; ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sum;
}

// ln kappa(q, x)
template <typename T>
T LogKernel(const RecallInput<T>& input, const T* q, const T* x) {
  const size_t d = input.keys.columns;
  switch (input.kernel) {
    case KernelKind::kRbf:
      return -input.parameter * SquaredDistance(q, x, d);
    case KernelKind::kLaplacian:
      return -input.parameter * std::sqrt(SquaredDistance(q, x, d));
    case KernelKind::kExpDot:
      return input.parameter * Dot(q, x, d);
    case KernelKind::kDot:
      break;
  }
  LETHE_CHECK(false);
  return 0;
}

// Adds bar times the derivative of ln kappa(q, x); returns that by ln p.
template <typename T>
T LogKernelBackward(const RecallInput<T>& input,
                    const T* q,
                    const T* x,
                    T bar,
                    T* q_bar,
                    T* x_bar) {
  const size_t d = input.keys.columns;
  const T p = input.parameter;
  if (input.kernel == KernelKind::kExpDot) {
    AddScaled(bar * p, x, d, q_bar);
    AddScaled(bar * p, q, d, x_bar);
    return bar * p * Dot(q, x, d);
  }
  const T squares = SquaredDistance(q, x, d);
  T by_difference = -2 * p * bar;
  T by_log = -p * squares * bar;
  if (input.kernel == KernelKind::kLaplacian) {
    const T distance = std::sqrt(squares);
    // A kink where q = x: the mean of all directions is 0.
    by_difference = distance > 0 ? -p * bar / distance : T(0);
    by_log = -p * distance * bar;
  }
  for (size_t i = 0; i < d; ++i) {
    const T term = by_difference * (q[i] - x[i]);
    q_bar[i] += term;
    x_bar[i] -= term;
  }
  return by_log;
}

// x becomes softmax(x); entries of minus infinity become 0. False where all are.
template <typename T>
bool Softmax(std::vector<T>* x) {
  const T largest = *std::ranges::max_element(*x);
  if (largest == -std::numeric_limits<T>::infinity()) return false;
  for (T& entry : *x) entry = std::max(entry - largest, std::numeric_limits<T>::lowest());
  std::vector<T>& values = *x;
  Exp(values.data(), values.size());
  T sum = 0;
  for (T& entry : values) {
    // exp of minus infinity is a subnormal number there.
    if (entry < std::numeric_limits<T>::min()) entry = 0;
    sum += entry;
  }
  for (T& entry : values) entry /= sum;
  return true;
}

template <typename T>
void Clear(Matrix<T> m) {
  for (size_t i = 0; i < m.rows; ++i) std::fill_n(m.row(i), m.columns, T(0));
}

// Where token i is read with weight m_i: ln m_i, else minus infinity.
template <typename T>
T LogGate(const RecallInput<T>& input, T log_scale, size_t i) {
  if (i >= input.weights.size()) return 0;
  return input.weights[i] > 0 ? std::log(input.weights[i]) + log_scale
                              : -std::numeric_limits<T>::infinity();
}

}  // namespace

template <typename T>
RecallReport Recall(const RecallInput<T>& input,
                    std::type_identity_t<T> factor,
                    RecallScratch<T>* scratch,
                    RecallGradient<T>* gradient) {
  const size_t n = input.keys.rows;
  const size_t e = input.values.columns;
  LETHE_CHECK(input.values.rows == n && input.groups.size() == n && input.weights.size() <= n);
  LETHE_CHECK(input.targets.size() == input.queries.rows);
  LETHE_CHECK(input.queries.columns == input.keys.columns);
  std::vector<T>& gates = scratch->logits;
  std::vector<T>& read = scratch->read;
  std::vector<T>& ranked = scratch->ranked;
  std::vector<T>& away = scratch->away;
  gates.resize(n);
  read.resize(n);
  ranked.resize(n);
  away.resize(n);
  scratch->out.resize(e);
  T* out = scratch->out.data();
  const T log_scale = std::log(input.scale);
  for (size_t i = 0; i < n; ++i) gates[i] = LogGate(input, log_scale, i);
  if (gradient != nullptr) {
    LETHE_CHECK(gradient->weights.size() == input.weights.size());
    Clear(gradient->queries);
    Clear(gradient->keys);
    Clear(gradient->values);
    std::ranges::fill(gradient->weights, T(0));
    gradient->log_parameter = gradient->log_scale = gradient->log_sharpness = 0;
    scratch->read_bar.resize(n);
    scratch->out_bar.resize(e);
  }

  RecallReport report;
  for (size_t j = 0; j < input.queries.rows; ++j) {
    const T* q = input.queries.row(j);
    const auto belongs = [&](size_t i) { return input.groups[i] == input.targets[j]; };
    for (size_t i = 0; i < n; ++i) {
      read[i] = std::isinf(gates[i]) ? gates[i] : gates[i] + LogKernel(input, q, input.keys.row(i));
    }
    if (!Softmax(&read)) continue;
    std::fill_n(out, e, T(0));
    for (size_t i = 0; i < n; ++i) {
      if (read[i] > 0) AddScaled(read[i], input.values.row(i), e, out);
    }
    for (size_t i = 0; i < n; ++i) {
      away[i] = SquaredDistance(out, input.values.row(i), e);
      ranked[i] = -input.sharpness * away[i];
    }
    const size_t nearest = static_cast<size_t>(std::ranges::min_element(away) - away.begin());
    // ln of the sum over the group, from its own largest: r itself may be 0 in every digit.
    T largest = -std::numeric_limits<T>::infinity();
    for (size_t i = 0; i < n; ++i) {
      if (belongs(i)) largest = std::max(largest, ranked[i]);
    }
    if (std::isinf(largest)) continue;
    scratch->in_group.assign(n, -std::numeric_limits<T>::infinity());
    T in_group = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!belongs(i)) continue;
      scratch->in_group[i] = ranked[i];
      in_group += std::exp(ranked[i] - largest);
    }
    const T top = *std::ranges::max_element(ranked);
    T all = 0;
    for (size_t i = 0; i < n; ++i) all += std::exp(ranked[i] - top);
    report.loss += static_cast<double>((top + std::log(all)) - (largest + std::log(in_group)));
    ++report.counted;
    if (belongs(nearest)) ++report.recalled;
    if (gradient == nullptr) continue;

    Softmax(&ranked);
    Softmax(&scratch->in_group);
    T* out_bar = scratch->out_bar.data();
    std::fill_n(out_bar, e, T(0));
    for (size_t i = 0; i < n; ++i) {
      const T logit_bar = factor * (ranked[i] - scratch->in_group[i]);
      gradient->log_sharpness -= logit_bar * input.sharpness * away[i];
      const T by_difference = -2 * input.sharpness * logit_bar;
      const T* value = input.values.row(i);
      T* value_bar = gradient->values.row(i);
      for (size_t c = 0; c < e; ++c) {
        const T term = by_difference * (out[c] - value[c]);
        out_bar[c] += term;
        value_bar[c] -= term;
      }
    }
    T along = 0;
    for (size_t i = 0; i < n; ++i) {
      scratch->read_bar[i] = read[i] > 0 ? Dot(out_bar, input.values.row(i), e) : T(0);
      along += read[i] * scratch->read_bar[i];
    }
    for (size_t i = 0; i < n; ++i) {
      if (!(read[i] > 0)) continue;
      AddScaled(read[i], out_bar, e, gradient->values.row(i));
      const T logit_bar = read[i] * (scratch->read_bar[i] - along);
      if (i < input.weights.size()) {
        gradient->weights[i] += logit_bar / input.weights[i];
        gradient->log_scale += logit_bar;
      }
      gradient->log_parameter += LogKernelBackward(input, q, input.keys.row(i), logit_bar,
                                                   gradient->queries.row(j), gradient->keys.row(i));
    }
  }
  return report;
}

#define LETHE_INSTANTIATE(T) \
  template RecallReport Recall(const RecallInput<T>&, T, RecallScratch<T>*, RecallGradient<T>*);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
