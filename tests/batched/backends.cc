#include "tests/batched/backends.h"

#include "core/batched/cpu/cpu_backend.h"
#include "core/batched/cuda/cuda_backend.h"
#include "tests/batched/emulated_device.h"

namespace lethe::batched {

std::vector<BackendCase> BackendCases() {
  std::vector<BackendCase> cases;
  const auto add = [&](const std::string& name, std::function<std::unique_ptr<Backend>()> make,
                       size_t largest = kMaxPoints) {
    cases.push_back({name + "Double", false, largest, make});
    cases.push_back({name + "Single", true, largest, make});
  };
  add("cpu", [] { return MakeCpuBackend(2); });
  // The kernels for devices, run on the host; 512 points are in device_test.cc.
  add(
      "emulated", [] { return MakeEmulatedBackend({}, nullptr); }, 130);
  if (MakeCudaBackend().ok()) {
    add("cuda", [] { return *MakeCudaBackend(); });
  }
  return cases;
}

std::vector<BackendCase> BackendCasesOf(bool single) {
  std::vector<BackendCase> cases = BackendCases();
  std::erase_if(cases, [&](const BackendCase& which) { return which.single != single; });
  return cases;
}

}  // namespace lethe::batched
