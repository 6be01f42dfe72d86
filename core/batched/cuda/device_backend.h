// A backend on a device: cuts batches to what fits, copies, launches, collects.
#ifndef LETHE_CORE_BATCHED_CUDA_DEVICE_BACKEND_H_
#define LETHE_CORE_BATCHED_CUDA_DEVICE_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/batched/backend.h"
#include "core/batched/cuda/device.h"

namespace lethe::batched {

// Two queues take turns: while one computes, the next part of the batch is copied. Whatever the
// device says in the way of errors is returned; the results are then untouched.
// RESOURCE_EXHAUSTED names "batch.n" or "batch.dimension" where not even one problem fits.
absl::StatusOr<std::unique_ptr<Backend>> MakeDeviceBackend(std::unique_ptr<Device> device);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_DEVICE_BACKEND_H_
