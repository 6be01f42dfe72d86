#include "core/batched/select.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/batched/cpu/cpu_backend.h"
#include "core/batched/cuda/cuda_backend.h"

namespace lethe::batched {

absl::StatusOr<BackendKind> ParseBackendKind(absl::string_view name) {
  if (name == "auto") return BackendKind::kAuto;
  if (name == "cpu") return BackendKind::kCpu;
  if (name == "cuda") return BackendKind::kCuda;
  return absl::InvalidArgumentError(
      absl::StrCat("backend: must be auto, cpu or cuda, got \"", name, "\""));
}

absl::StatusOr<Selected> SelectBackend(BackendKind kind, int threads) {
  if (kind == BackendKind::kCpu) return Selected{MakeCpuBackend(threads), "asked for"};
  absl::StatusOr<std::unique_ptr<Backend>> cuda = MakeCudaBackend();
  if (cuda.ok()) {
    return Selected{*std::move(cuda),
                    kind == BackendKind::kCuda ? "asked for" : "a CUDA device is there"};
  }
  if (kind == BackendKind::kCuda) {
    return absl::Status(cuda.status().code(),
                        absl::StrCat("backend: cuda: ", cuda.status().message()));
  }
  return Selected{MakeCpuBackend(threads), std::string(cuda.status().message())};
}

std::vector<std::unique_ptr<Backend>> PresentBackends(int threads) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeCpuBackend(threads));
  if (absl::StatusOr<std::unique_ptr<Backend>> cuda = MakeCudaBackend(); cuda.ok()) {
    backends.push_back(*std::move(cuda));
  }
  return backends;
}

}  // namespace lethe::batched
