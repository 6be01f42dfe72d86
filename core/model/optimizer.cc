#include "core/model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/model/limits.h"

namespace lethe::model {
namespace {

constexpr size_t kBlock = 4096;

}  // namespace

absl::Status Validate(const OptimizerOptions& options) {
  absl::Status status = InRange("optimizer.peak_rate", options.peak_rate, 0.0, 10.0);
  status.Update(InRange("optimizer.last_rate", options.last_rate, 0.0, options.peak_rate));
  status.Update(InRange("optimizer.beta1", options.beta1, 0.0, 0.9999));
  status.Update(InRange("optimizer.beta2", options.beta2, 0.0, 0.999999));
  status.Update(InRange("optimizer.decay", options.decay, 0.0, 10.0));
  status.Update(InRange("optimizer.epsilon", options.epsilon, 1e-15, 1.0));
  status.Update(InRange("optimizer.clip", options.clip, 0.0, 1e6));
  status.Update(InRange("optimizer.steps", options.steps, 1, kMaxSteps));
  if (status.ok() && options.warm_up > options.steps) {
    status = absl::InvalidArgumentError(absl::StrCat("optimizer.steps: must be at least warm_up (",
                                                     options.warm_up, "), got ", options.steps));
  }
  return status;
}

template <typename T>
absl::Status Validate(const OptimizerState<T>& state) {
  absl::Status status = InRange("step", state.step, 0, kMaxSteps);
  status.Update(InRange("skipped", state.skipped, 0, state.step));
  constexpr T kMost = static_cast<T>(MaxMoment<T>());
  // Without the number itself, which is of what was learned. A NaN is not possible either.
  const auto hold = [&](absl::string_view field, const std::vector<T>& numbers, T low, T high) {
    const auto possible = [=](T number) { return number >= low && number <= high; };
    if (status.ok() && !std::ranges::all_of(numbers, possible)) {
      status = absl::InvalidArgumentError(absl::StrCat(field, ": has numbers that no run gives"));
    }
  };
  hold("mean", state.mean, -kMost, kMost);
  hold("squares", state.squares, 0, kMost * kMost);
  return status;
}

absl::Status CheckMoreSteps(uint64_t step) {
  if (step < kMaxSteps) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("step: ", kMaxSteps, " are done, no more"));
}

double RateAt(const OptimizerOptions& options, uint64_t step) {
  if (step < options.warm_up) {
    return options.peak_rate * static_cast<double>(step) / static_cast<double>(options.warm_up);
  }
  if (step >= options.steps) return options.last_rate;
  const double part = static_cast<double>(step - options.warm_up) /
                      static_cast<double>(options.steps - options.warm_up);
  return options.last_rate +
         (options.peak_rate - options.last_rate) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

template <typename T>
double Length(Team* team, std::span<const T> x) {
  std::vector<double> sums((x.size() + kBlock - 1) / kBlock);
  const auto blocks = [&](size_t, size_t first, size_t last) {
    for (size_t block = first; block < last; ++block) {
      const size_t end = std::min((block + 1) * kBlock, x.size());
      double lanes[4] = {};
      for (size_t i = block * kBlock; i < end; ++i) {
        lanes[i % 4] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      }
      sums[block] = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    }
  };
  team == nullptr ? blocks(0, 0, sums.size()) : team->Run(sums.size(), 8, blocks);
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

template <typename T>
UpdateReport Update(Team* team,
                    const OptimizerOptions& options,
                    const ParameterTable& table,
                    std::span<const T> gradient,
                    OptimizerState<T>* state,
                    std::span<T> values) {
  const size_t size = table.size();
  LETHE_CHECK(gradient.size() == size && values.size() == size);
  LETHE_CHECK(state->mean.size() == size && state->squares.size() == size);
  UpdateReport report;
  report.gradient_length = Length(team, gradient);
  report.rate = RateAt(options, ++state->step);
  const bool long_one = options.clip > 0 && report.gradient_length > options.clip;
  const double length = long_one ? options.clip : report.gradient_length;
  // A NaN is not below it.
  if (!std::isfinite(report.gradient_length) || !(length <= MaxMoment<T>() / 2)) {
    ++state->skipped;
    report.skipped = true;
    return report;
  }
  const T shrink = static_cast<T>(long_one ? options.clip / report.gradient_length : 1.0);
  const double t = static_cast<double>(state->step);
  const T beta1 = static_cast<T>(options.beta1);
  const T beta2 = static_cast<T>(options.beta2);
  const T mean_scale = static_cast<T>(report.rate / (1 - std::pow(options.beta1, t)));
  const T square_scale = static_cast<T>(1 / (1 - std::pow(options.beta2, t)));
  const T epsilon = static_cast<T>(options.epsilon);
  for (const Parameter& part : table.parts()) {
    const T decay =
        part.decays == Decays::kYes ? static_cast<T>(report.rate * options.decay) : T(0);
    const auto range = [&](size_t, size_t first, size_t last) {
      for (size_t i = part.first + first; i < part.first + last; ++i) {
        const T g = shrink * gradient[i];
        const T m = state->mean[i] = beta1 * state->mean[i] + (T(1) - beta1) * g;
        const T v = state->squares[i] = beta2 * state->squares[i] + (T(1) - beta2) * g * g;
        values[i] -= mean_scale * m / (std::sqrt(square_scale * v) + epsilon) + decay * values[i];
      }
    };
    team == nullptr ? range(0, 0, part.size())
                    : team->Run(part.size(), 4 * kBlock, std::ref(range));
  }
  return report;
}

#define LETHE_INSTANTIATE(T)                                                          \
  template absl::Status Validate(const OptimizerState<T>&);                           \
  template double Length(Team*, std::span<const T>);                                  \
  template UpdateReport Update(Team*, const OptimizerOptions&, const ParameterTable&, \
                               std::span<const T>, OptimizerState<T>*, std::span<T>);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::model
