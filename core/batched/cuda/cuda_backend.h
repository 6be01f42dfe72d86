// The backend for NVIDIA devices of compute capability 8.0, 9.0 and 10.0 (and later ones of the
// same generation): a problem a block, K's rows in registers where they fit.
//
// Deterministic: the same inputs give the same bits on devices of the same kind, with the same
// build, whatever else is in the batch and however the batch is cut: sums run over fixed trees, and
// nothing is added by atomics. Other devices and the CPU backend agree within the gap, not in bits.
//
// Memory, whatever the batch is: two queues, each with at most 256 MiB on the device (or a quarter
// of what was free there at the start) and at most as many pinned in the process, which grow to
// what the largest call wanted and stay. Longer batches are cut, and one part is copied while the
// one before is computed.
//
// Errors, beside those of backend.h: RESOURCE_EXHAUSTED where the device has no memory, INTERNAL
// for its other failures, with the call and the device's message. Results are then untouched.
#ifndef LETHE_CORE_BATCHED_CUDA_CUDA_BACKEND_H_
#define LETHE_CORE_BATCHED_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/batched/backend.h"

namespace lethe::batched {

// On the first device that CUDA counts (CUDA_VISIBLE_DEVICES chooses). FAILED_PRECONDITION says why
// there is none: "no CUDA device: ...", "this build has no CUDA backend".
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend();

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_CUDA_BACKEND_H_
