// What the tests compute with.
#ifndef LETHE_TESTS_MODEL_RUNTIME_H_
#define LETHE_TESTS_MODEL_RUNTIME_H_

#include <memory>

#include "core/batched/cpu/cpu_backend.h"
#include "core/model/svdd_gate.h"

namespace lethe::model {

struct TestRuntime {
  explicit TestRuntime(size_t threads)
      : team(threads), backend(batched::MakeCpuBackend(static_cast<int>(threads))) {}
  Runtime get() { return {&team, backend.get(), {}}; }
  Team team;
  std::unique_ptr<batched::Backend> backend;
};

}  // namespace lethe::model

#endif  // LETHE_TESTS_MODEL_RUNTIME_H_
