// What a block does with one problem of a launch.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_PROBLEM_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_PROBLEM_H_

#include "core/batched/cuda/arguments.h"
#include "core/batched/cuda/block_fista.h"
#include "core/batched/cuda/block_load.h"
#include "core/batched/cuda/block_points.h"
#include "core/batched/cuda/block_polish.h"

namespace lethe::batched {

template <uint32_t kRowRegisters, typename Block, typename T>
LETHE_STEP void SolveProblem(Block& block, const SolveArguments<T>& arguments, size_t b) {
  BlockWork<Block, T> work(block, arguments.problems.layout);
  const uint32_t n = work.n;
  const T* start = arguments.start == nullptr ? nullptr : arguments.start + b * n;
  Outcome outcome = Load(work, arguments.problems, b);
  if (outcome == Outcome::kUnsolved && start != nullptr) {
    const uint32_t wrong =
        SumOver<uint32_t>(block, n, [&](uint32_t i) { return std::isfinite(start[i]) ? 0U : 1U; });
    if (wrong > 0) outcome = Outcome::kNotFinite;
  }
  if (outcome == Outcome::kUnsolved) {
    {
      BlockFistaSteps<BlockWork<Block, T>, kRowRegisters> steps(start, work);
      RunFista(arguments.options, start != nullptr, steps);
      steps.Finish(work);
    }
    BlockPolishSteps steps(work);
    outcome = arguments.options.polish ? RunPolish(arguments.options, steps)
                                       : TakeAsItIs(arguments.options, steps);
  }
  const bool weighed = HasWeights(outcome);
  const auto label_of = [&](uint32_t i) {
    return weighed ? static_cast<uint8_t>(work.labels[i]) : uint8_t{0};
  };
  const int32_t churn =
      arguments.previous_labels == nullptr ? 0 : SumOver<int32_t>(block, n, [&](uint32_t i) {
        return label_of(i) != arguments.previous_labels[b * n + i] ? 1 : 0;
      });
  Each(block, 0, n, [&](uint32_t i) {
    arguments.weights[b * n + i] = weighed ? static_cast<T>(work.x[i]) : T{0};
    arguments.labels[b * n + i] = label_of(i);
    if (i > 0) return;
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const Numbers<T>& numbers = work.numbers;
    arguments.threshold_low[b] = weighed ? numbers.mu_low : -kInfinity;
    arguments.threshold_high[b] = weighed ? numbers.mu_high : kInfinity;
    arguments.gap[b] = weighed ? numbers.gap : kInfinity;
    arguments.outcome[b] = static_cast<uint8_t>(outcome);
    arguments.iterations[b] = numbers.iterations;
    arguments.rounds[b] = numbers.rounds;
    if (arguments.churn != nullptr) arguments.churn[b] = churn;
  });
}

template <typename Block, typename T>
LETHE_STEP void BackwardProblem(Block& block, const BackwardArguments<T>& arguments, size_t b) {
  const DeviceProblems<T>& problems = arguments.problems;
  BlockWork<Block, T> work(block, problems.layout);
  const uint32_t n = work.n;
  const size_t d = work.layout.dimension;
  GradientOutcome outcome = GradientOutcome::kNone;
  ScalarGradients<T> scalars;
  if (IsSolved(static_cast<Outcome>(arguments.outcome[b])) &&
      Load(work, problems, b) == Outcome::kUnsolved) {
    Each(block, 0, n, [&](uint32_t i) {
      work.x[i] = arguments.weights[b * n + i];
      work.labels[i] = arguments.labels[b * n + i];
    });
    BlockAdjointSteps steps(arguments.weights_bar + b * n, work);
    const T threshold_bar = arguments.threshold_bar == nullptr ? T{0} : arguments.threshold_bar[b];
    outcome = RunAdjoint(threshold_bar, steps, &scalars);
  }
  const bool found = outcome == GradientOutcome::kOk;
  T parameter = 0;
  if (d > 0) {
    T* points_bar = arguments.points_bar + b * n * d;
    if (found) {
      parameter = PointsBackward(work, problems.kernel, problems.points + b * n * d, points_bar);
    } else {
      block.AheadStrided(n * static_cast<uint32_t>(d), [&](uint32_t e) { points_bar[e] = T{0}; });
    }
  } else {
    T* matrix_bar = arguments.matrices_bar + b * n * n;
    block.AheadStrided(n * n, [&](uint32_t e) {
      const uint32_t i = e / n;
      const uint32_t j = e % n;
      T entry = 0;
      if (found) {
        entry = -(work.lambda[i] * work.x[j] + work.x[i] * work.lambda[j]);
        if (i == j) entry += work.lambda[i];
      }
      matrix_bar[e] = entry;
    });
  }
  Each(block, 0, 1, [&](uint32_t) {
    arguments.box_bar[b] = scalars.box;
    arguments.ridge_bar[b] = scalars.ridge;
    if (d > 0) arguments.parameter_bar[b] = parameter;
    arguments.gradient_outcome[b] = static_cast<uint8_t>(outcome);
  });
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_PROBLEM_H_
