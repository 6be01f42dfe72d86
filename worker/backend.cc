#include "worker/backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/batched/cpu/cpu_backend.h"
#if __has_include("core/batched/cuda/cuda_backend.h")
#include "core/batched/cuda/cuda_backend.h"
#define LETHE_HAS_CUDA_FOLDER 1
#endif

namespace lethe::worker {
namespace {

absl::StatusOr<std::unique_ptr<batched::Backend>> Cuda() {
#ifdef LETHE_HAS_CUDA_FOLDER
  return batched::MakeCudaBackend();
#else
  return absl::FailedPreconditionError("this build has no CUDA backend");
#endif
}

}  // namespace

absl::StatusOr<ChosenBackend> ChooseBackend(BackendChoice choice, size_t threads) {
  ChosenBackend chosen;
  if (choice != BackendChoice::kCpu) {
    absl::StatusOr<std::unique_ptr<batched::Backend>> cuda = Cuda();
    if (cuda.ok()) {
      chosen.backend = *std::move(cuda);
      chosen.why = choice == BackendChoice::kCuda ? "as asked for" : "there is a device";
      return chosen;
    }
    if (choice == BackendChoice::kCuda) {
      return absl::Status(cuda.status().code(),
                          absl::StrCat("--backend: ", cuda.status().message()));
    }
    chosen.why = std::string(cuda.status().message());
  } else {
    chosen.why = "as asked for";
  }
  chosen.backend = batched::MakeCpuBackend(static_cast<int>(threads));
  return chosen;
}

}  // namespace lethe::worker
