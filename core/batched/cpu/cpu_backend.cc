#include "core/batched/cpu/cpu_backend.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/team.h"
#include "core/batched/cpu/adjoint.h"
#include "core/batched/cpu/fista.h"
#include "core/batched/cpu/gram.h"
#include "core/batched/cpu/polish.h"
#include "core/batched/cpu/workspace.h"

namespace lethe::batched {
namespace {

absl::Status NoMemory(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", what));
}

template <typename T>
void SolveOne(const Batch<T>& batch,
              const Options& options,
              size_t b,
              Workspace<T>& work,
              Solution<T>* solution) {
  const size_t n = batch.n;
  work.iterations = 0;
  work.rounds = 0;
  Outcome outcome = Load(batch, b, work);
  if (outcome == Outcome::kUnsolved) {
    Fista(options, batch.start.empty() ? nullptr : batch.start.data() + b * n, work);
    outcome = Polish(options, work);
  }
  solution->outcome[b] = outcome;
  solution->iterations[b] = work.iterations;
  solution->rounds[b] = work.rounds;
  uint8_t* labels = solution->labels.data() + b * n;
  T* weights = solution->weights.data() + b * n;
  if (HasWeights(outcome)) {
    std::copy(work.x.get(), work.x.get() + n, weights);
    std::copy(work.labels.get(), work.labels.get() + n, labels);
    solution->threshold_low[b] = work.mu_low;
    solution->threshold_high[b] = work.mu_high;
    solution->gap[b] = work.gap;
  } else {
    std::fill(weights, weights + n, T{0});
    std::fill(labels, labels + n, uint8_t{0});
    solution->threshold_low[b] = -std::numeric_limits<T>::infinity();
    solution->threshold_high[b] = std::numeric_limits<T>::infinity();
    solution->gap[b] = std::numeric_limits<T>::infinity();
  }
  if (!batch.previous_labels.empty()) {
    const uint8_t* previous = batch.previous_labels.data() + b * n;
    int32_t churn = 0;
    for (size_t i = 0; i < n; ++i) churn += labels[i] != previous[i] ? 1 : 0;
    solution->churn[b] = churn;
  }
}

template <typename T>
void BackwardOne(const Batch<T>& batch,
                 const Solution<T>& solution,
                 const LossGradient<T>& loss,
                 size_t b,
                 Workspace<T>& work,
                 Gradients<T>* gradients) {
  const size_t n = batch.n;
  GradientOutcome outcome = GradientOutcome::kNone;
  ScalarGradients<T> scalars;
  if (IsSolved(solution.outcome[b]) && Load(batch, b, work) == Outcome::kUnsolved) {
    for (size_t i = 0; i < n; ++i) {
      work.x[i] = solution.weights[b * n + i];
      work.labels[i] = solution.labels[b * n + i];
    }
    outcome = Adjoint(loss.weights.data() + b * n,
                      loss.threshold.empty() ? T{0} : loss.threshold[b], work, &scalars);
  }
  gradients->outcome[b] = outcome;
  gradients->box[b] = scalars.box;
  gradients->ridge[b] = scalars.ridge;
  const bool zero = outcome != GradientOutcome::kOk;
  if (batch.dimension > 0) {
    T* points = gradients->points.data() + b * n * batch.dimension;
    if (zero) {
      std::fill(points, points + n * batch.dimension, T{0});
      gradients->parameter[b] = 0;
    } else {
      PointsBackward(batch, work, points, &gradients->parameter[b]);
    }
    return;
  }
  T* matrix = gradients->matrices.data() + b * n * n;
  if (zero) {
    std::fill(matrix, matrix + n * n, T{0});
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    const T lambda = work.lambda[i];
    const T weight = work.x[i];
    for (size_t j = 0; j < n; ++j) {
      matrix[i * n + j] = -(lambda * work.x[j] + weight * work.lambda[j]);
    }
    matrix[i * n + i] += lambda;
  }
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(size_t threads) : team_(threads) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return absl::StrCat("cpu, ", team_.size(), team_.size() == 1 ? " thread" : " threads",
                        ", packs of ", 8 * kPackBytes, " bits");
  }

  absl::Status Solve(const Batch<float>& batch,
                     const Options& options,
                     Solution<float>* solution) override {
    return SolveAll(batch, options, solution);
  }
  absl::Status Solve(const Batch<double>& batch,
                     const Options& options,
                     Solution<double>* solution) override {
    return SolveAll(batch, options, solution);
  }
  absl::Status Backward(const Batch<float>& batch,
                        const Solution<float>& solution,
                        const LossGradient<float>& loss,
                        Gradients<float>* gradients) override {
    return BackwardAll(batch, solution, loss, gradients);
  }
  absl::Status Backward(const Batch<double>& batch,
                        const Solution<double>& solution,
                        const LossGradient<double>& loss,
                        Gradients<double>* gradients) override {
    return BackwardAll(batch, solution, loss, gradients);
  }

 private:
  template <typename T>
  absl::Status SolveAll(const Batch<T>& batch, const Options& options, Solution<T>* solution) {
    LETHE_RETURN_IF_ERROR(Validate(batch, options));
    try {
      const size_t problems = batch.problems;
      std::vector<Workspace<T>> works = Workspaces<T>(batch);
      solution->weights.resize(problems * batch.n);
      solution->labels.resize(problems * batch.n);
      solution->threshold_low.resize(problems);
      solution->threshold_high.resize(problems);
      solution->gap.resize(problems);
      solution->outcome.resize(problems);
      solution->iterations.resize(problems);
      solution->rounds.resize(problems);
      solution->churn.resize(batch.previous_labels.empty() ? 0 : problems);
      team_.Run(problems, Grain(batch), [&](size_t member, size_t first, size_t last) {
        for (size_t b = first; b < last; ++b) SolveOne(batch, options, b, works[member], solution);
      });
    } catch (const std::bad_alloc&) {
      return NoMemory("the solutions");
    }
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status BackwardAll(const Batch<T>& batch,
                           const Solution<T>& solution,
                           const LossGradient<T>& loss,
                           Gradients<T>* gradients) {
    LETHE_RETURN_IF_ERROR(Validate(batch, solution, loss));
    try {
      const size_t problems = batch.problems;
      const bool points = batch.dimension > 0;
      std::vector<Workspace<T>> works = Workspaces<T>(batch);
      gradients->matrices.resize(points ? 0 : problems * batch.n * batch.n);
      gradients->points.resize(points ? problems * batch.n * batch.dimension : 0);
      gradients->parameter.resize(points ? problems : 0);
      gradients->box.resize(problems);
      gradients->ridge.resize(problems);
      gradients->outcome.resize(problems);
      team_.Run(problems, Grain(batch), [&](size_t member, size_t first, size_t last) {
        for (size_t b = first; b < last; ++b) {
          BackwardOne(batch, solution, loss, b, works[member], gradients);
        }
      });
    } catch (const std::bad_alloc&) {
      return NoMemory("the gradients");
    }
    return absl::OkStatus();
  }

  template <typename T>
  std::vector<Workspace<T>> Workspaces(const Batch<T>& batch) const {
    std::vector<Workspace<T>> works;
    works.reserve(team_.size());
    for (size_t i = 0; i < team_.size(); ++i) works.emplace_back(batch.n, batch.dimension);
    return works;
  }

  // Some tens of microseconds of work at a time.
  template <typename T>
  static size_t Grain(const Batch<T>& batch) {
    constexpr size_t kWork = 32768;
    return std::max<size_t>(1, kWork / (batch.n * batch.n));
  }

  Team team_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
  return std::make_unique<CpuBackend>(threads > 0 ? static_cast<size_t>(threads) : processors);
}

}  // namespace lethe::batched
