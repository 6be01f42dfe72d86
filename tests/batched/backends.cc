#include "tests/batched/backends.h"

#include "core/batched/cpu/cpu_backend.h"

namespace lethe::batched {

std::vector<BackendCase> BackendCases() {
  std::vector<BackendCase> cases;
  const auto add = [&](const std::string& name, std::function<std::unique_ptr<Backend>()> make) {
    cases.push_back({name + "Double", false, make});
    cases.push_back({name + "Single", true, make});
  };
  add("cpu", [] { return MakeCpuBackend(2); });
  return cases;
}

std::vector<BackendCase> BackendCasesOf(bool single) {
  std::vector<BackendCase> cases = BackendCases();
  std::erase_if(cases, [&](const BackendCase& which) { return which.single != single; });
  return cases;
}

}  // namespace lethe::batched
