// What a launch is told: a cut of a batch in the device's memory, and where its results go.
#ifndef LETHE_CORE_BATCHED_CUDA_ARGUMENTS_H_
#define LETHE_CORE_BATCHED_CUDA_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

#include "core/batched/cuda/block_layout.h"
#include "core/batched/problem.h"

namespace lethe::batched {

// The arrays of problem.h, for the problems of this part; null is an array that the batch has not.
template <typename T>
struct DeviceProblems {
  size_t count = 0;  // problems
  BlockLayout layout;
  KernelForm kernel;
  const T* matrices = nullptr;
  const T* points = nullptr;
  const T* parameter = nullptr;
  const T* box = nullptr;
  const T* ridge = nullptr;
  // The array has a number for each problem; otherwise one for all.
  bool parameter_each = false;
  bool box_each = false;
  bool ridge_each = false;

  uint32_t blocks = 0;           // that are launched; block i has problems i, i + blocks, ...
  std::byte* scratch = nullptr;  // blocks x layout.scratch_bytes
};

template <typename T>
struct SolveArguments {
  DeviceProblems<T> problems;
  Options options;
  const T* start = nullptr;                  // null: none to start from
  const uint8_t* previous_labels = nullptr;  // null: no churn is counted

  // Results, as in Solution.
  T* weights = nullptr;
  uint8_t* labels = nullptr;
  T* threshold_low = nullptr;
  T* threshold_high = nullptr;
  T* gap = nullptr;
  uint8_t* outcome = nullptr;  // Outcome
  int32_t* iterations = nullptr;
  int32_t* rounds = nullptr;
  int32_t* churn = nullptr;  // null without previous labels
};

template <typename T>
struct BackwardArguments {
  DeviceProblems<T> problems;
  // The solution.
  const T* weights = nullptr;
  const uint8_t* labels = nullptr;
  const uint8_t* outcome = nullptr;  // Outcome
  // dL/da and dL/dmu.
  const T* weights_bar = nullptr;
  const T* threshold_bar = nullptr;  // null: 0

  // Results, as in Gradients: of matrices where the batch has these, else of points and parameter;
  // the others are null.
  T* matrices_bar = nullptr;
  T* points_bar = nullptr;
  T* parameter_bar = nullptr;
  T* box_bar = nullptr;
  T* ridge_bar = nullptr;
  uint8_t* gradient_outcome = nullptr;  // GradientOutcome
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_ARGUMENTS_H_
