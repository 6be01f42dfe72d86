// In place of cuda_device.cu in a build without nvcc.
#include "absl/status/status.h"
#include "core/batched/cuda/cuda_backend.h"

namespace lethe::batched {

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend() {
  return absl::FailedPreconditionError("this build has no CUDA backend");
}

}  // namespace lethe::batched
