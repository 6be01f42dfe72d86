#include "core/batched/problem.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lethe::batched {
namespace {

absl::Status WrongSize(absl::string_view field, size_t size, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": has ", size, " entries, wanted ", wanted));
}

absl::Status CheckSize(absl::string_view field, size_t size, size_t wanted) {
  if (size == wanted) return absl::OkStatus();
  return WrongSize(field, size, absl::StrCat(wanted));
}

absl::Status CheckOneOrEach(absl::string_view field, size_t size, size_t problems) {
  if (size == 1 || size == problems) return absl::OkStatus();
  return WrongSize(field, size, absl::StrCat("1 or ", problems));
}

template <typename T>
absl::Status ValidateShape(const Batch<T>& batch) {
  if (batch.n < 1 || batch.n > kMaxPoints) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch.n: must be in [1, ", kMaxPoints, "], got ", batch.n));
  }
  // Sizes are compared by division, so that no product overflows.
  const size_t most = static_cast<size_t>(PTRDIFF_MAX) / sizeof(T) / kMaxPoints / kMaxDimension;
  if (batch.problems > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch.problems: must be at most ", most, ", got ", batch.problems));
  }
  const size_t rows = batch.problems * batch.n;
  const bool from_points = batch.dimension > 0;
  if (from_points) {
    if (batch.dimension > kMaxDimension) {
      return absl::InvalidArgumentError(absl::StrCat("batch.dimension: must be at most ",
                                                     kMaxDimension, ", got ", batch.dimension));
    }
    if (!batch.matrices.empty()) {
      return absl::InvalidArgumentError("batch.matrices: points are given too");
    }
    if (batch.kernel.kind < KernelKind::kRbf || batch.kernel.kind > KernelKind::kDot) {
      return absl::InvalidArgumentError("batch.kernel.kind: unknown");
    }
    absl::Status status = CheckSize("batch.points", batch.points.size(), rows * batch.dimension);
    if (!status.ok()) return status;
    status = CheckOneOrEach("batch.parameter", batch.parameter.size(), batch.problems);
    if (!status.ok()) return status;
  } else {
    if (!batch.points.empty()) {
      return absl::InvalidArgumentError("batch.dimension: must be above 0 where points are given");
    }
    absl::Status status = CheckSize("batch.matrices", batch.matrices.size(), rows * batch.n);
    if (!status.ok()) return status;
    if (!batch.parameter.empty()) {
      return absl::InvalidArgumentError("batch.parameter: matrices have no kernel parameter");
    }
  }
  absl::Status status = CheckOneOrEach("batch.box", batch.box.size(), batch.problems);
  if (status.ok()) status = CheckOneOrEach("batch.ridge", batch.ridge.size(), batch.problems);
  return status;
}

}  // namespace

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kConverged:
      return "converged";
    case Outcome::kPolished:
      return "polished";
    case Outcome::kSinglePivot:
      return "single pivot";
    case Outcome::kUnsolved:
      return "unsolved";
    case Outcome::kNotFinite:
      return "not finite";
    case Outcome::kBadBox:
      return "bad box";
    case Outcome::kBoxTooSmall:
      return "box too small";
    case Outcome::kBadRidge:
      return "bad ridge";
    case Outcome::kBadParameter:
      return "bad parameter";
    case Outcome::kNotSymmetric:
      return "not symmetric";
    case Outcome::kNotPositiveDefinite:
      return "not positive definite";
    case Outcome::kZeroKey:
      return "zero key";
  }
  return "unknown";
}

template <typename T>
absl::Status Validate(const Batch<T>& batch, const Options& options) {
  absl::Status status = ValidateShape(batch);
  if (!status.ok()) return status;
  const size_t rows = batch.problems * batch.n;
  if (!batch.start.empty()) {
    status = CheckSize("batch.start", batch.start.size(), rows);
    if (!status.ok()) return status;
  }
  if (!batch.previous_labels.empty()) {
    status = CheckSize("batch.previous_labels", batch.previous_labels.size(), rows);
    if (!status.ok()) return status;
  }
  const auto bounded = [](absl::string_view field, int value, int least) {
    constexpr int kMost = 1000000;
    if (value >= least && value <= kMost) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": must be in [", least, ", ", kMost, "], got ", value));
  };
  status = bounded("options.iterations", options.iterations, 0);
  if (status.ok()) {
    status = bounded("options.stable_iterations", options.stable_iterations, 0);
  }
  if (status.ok()) status = bounded("options.power_iterations", options.power_iterations, 0);
  if (status.ok()) status = bounded("options.block_rounds", options.block_rounds, 0);
  if (status.ok() && !(options.tolerance >= 0.0 && options.tolerance <= 1.0)) {
    status = absl::InvalidArgumentError("options.tolerance: must be in [0, 1]");
  }
  return status;
}

template <typename T>
absl::Status Validate(const Batch<T>& batch,
                      const Solution<T>& solution,
                      const LossGradient<T>& loss) {
  absl::Status status = ValidateShape(batch);
  if (!status.ok()) return status;
  const size_t rows = batch.problems * batch.n;
  status = CheckSize("solution.weights", solution.weights.size(), rows);
  if (status.ok()) status = CheckSize("solution.labels", solution.labels.size(), rows);
  if (status.ok()) status = CheckSize("solution.outcome", solution.outcome.size(), batch.problems);
  if (status.ok()) status = CheckSize("loss.weights", loss.weights.size(), rows);
  if (status.ok() && !loss.threshold.empty()) {
    status = CheckSize("loss.threshold", loss.threshold.size(), batch.problems);
  }
  return status;
}

template absl::Status Validate(const Batch<float>&, const Options&);
template absl::Status Validate(const Batch<double>&, const Options&);
template absl::Status Validate(const Batch<float>&,
                               const Solution<float>&,
                               const LossGradient<float>&);
template absl::Status Validate(const Batch<double>&,
                               const Solution<double>&,
                               const LossGradient<double>&);

}  // namespace lethe::batched
