// Which backend a program computes with: what was asked for, or the fastest that is there.
#ifndef LETHE_CORE_BATCHED_SELECT_H_
#define LETHE_CORE_BATCHED_SELECT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/batched/backend.h"

namespace lethe::batched {

enum class BackendKind : uint8_t { kAuto, kCpu, kCuda };

// "auto", "cpu", "cuda". INVALID_ARGUMENT names the three.
absl::StatusOr<BackendKind> ParseBackendKind(absl::string_view name);

struct Selected {
  std::unique_ptr<Backend> backend;
  // Why this one, for a log: "asked for", "no CUDA device: ...", "this build has no CUDA backend".
  std::string reason;
};

// `threads` of the CPU backend, 0: as many as processors. kAuto takes the first CUDA device where
// there is one. FAILED_PRECONDITION: kCuda, and there is none, with the reason.
absl::StatusOr<Selected> SelectBackend(BackendKind kind, int threads);

// Every backend that can be had here, the CPU's first: for tests and benches.
std::vector<std::unique_ptr<Backend>> PresentBackends(int threads);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_SELECT_H_
