// What a launch is told: a cut of a batch in the device's memory, and where its results go.
#ifndef LETHE_CORE_BATCHED_CUDA_ARGUMENTS_H_
#define LETHE_CORE_BATCHED_CUDA_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

#include "core/batched/cuda/block_layout.h"
#include "core/batched/problem.h"

namespace lethe::batched {

// The batch, as in problem.h; null where it has none of these.
template <typename T>
struct DeviceProblems {
  size_t count = 0;
  BlockLayout layout;
  KernelForm kernel;
  const T* matrices = nullptr;
  const T* points = nullptr;
  const T* parameter = nullptr;
  const T* box = nullptr;
  const T* ridge = nullptr;
  // One a problem, and not one for all.
  bool parameter_each = false;
  bool box_each = false;
  bool ridge_each = false;

  uint32_t blocks = 0;
  std::byte* scratch = nullptr;  // blocks x layout.scratch_bytes
};

template <typename T>
struct SolveArguments {
  DeviceProblems<T> problems;
  Options options;
  const T* start = nullptr;
  const uint8_t* previous_labels = nullptr;

  T* weights = nullptr;
  uint8_t* labels = nullptr;
  T* threshold_low = nullptr;
  T* threshold_high = nullptr;
  T* gap = nullptr;
  uint8_t* outcome = nullptr;
  int32_t* iterations = nullptr;
  int32_t* rounds = nullptr;
  int32_t* churn = nullptr;  // null without previous labels
};

template <typename T>
struct BackwardArguments {
  DeviceProblems<T> problems;
  const T* weights = nullptr;
  const uint8_t* labels = nullptr;
  const uint8_t* outcome = nullptr;
  const T* weights_bar = nullptr;
  const T* threshold_bar = nullptr;  // may be null

  T* matrices_bar = nullptr;  // one of the two is null
  T* points_bar = nullptr;
  T* parameter_bar = nullptr;
  T* box_bar = nullptr;
  T* ridge_bar = nullptr;
  uint8_t* gradient_outcome = nullptr;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_ARGUMENTS_H_
