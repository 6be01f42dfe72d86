// Which backend a worker computes with. Threads: functions without state.
#ifndef LETHE_WORKER_BACKEND_H_
#define LETHE_WORKER_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/batched/backend.h"
#include "worker/options.h"

namespace lethe::worker {

struct ChosenBackend {
  std::unique_ptr<batched::Backend> backend;
  std::string why;  // a clause, for the log
};
// kCuda: FAILED_PRECONDITION "--backend: ..." where this build has none or the machine no device.
// kAuto takes it where there is one.
absl::StatusOr<ChosenBackend> ChooseBackend(BackendChoice choice, size_t threads);

}  // namespace lethe::worker

#endif  // LETHE_WORKER_BACKEND_H_
