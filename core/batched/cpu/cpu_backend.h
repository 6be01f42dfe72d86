// The backend that every machine has: threads over problems, each problem in the caches of one
// core.
#ifndef LETHE_CORE_BATCHED_CPU_CPU_BACKEND_H_
#define LETHE_CORE_BATCHED_CPU_CPU_BACKEND_H_

#include <memory>

#include "core/batched/backend.h"

namespace lethe::batched {

// On `threads` threads, 0: as many as the machine has processors. Where the system gives fewer, on
// those. Speed: `lethe-bench batched-speed`.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_CPU_BACKEND_H_
