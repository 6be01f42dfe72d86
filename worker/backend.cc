#include "worker/backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/batched/select.h"

namespace lethe::worker {
namespace {

batched::BackendKind KindOf(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::kCpu:
      return batched::BackendKind::kCpu;
    case BackendChoice::kCuda:
      return batched::BackendKind::kCuda;
    case BackendChoice::kAuto:
      break;
  }
  return batched::BackendKind::kAuto;
}

}  // namespace

absl::StatusOr<ChosenBackend> ChooseBackend(BackendChoice choice, size_t threads) {
  absl::StatusOr<batched::Selected> selected =
      batched::SelectBackend(KindOf(choice), static_cast<int>(threads));
  if (!selected.ok()) {
    return absl::Status(selected.status().code(), absl::StrCat("--", selected.status().message()));
  }
  return ChosenBackend{std::move(selected->backend), std::move(selected->reason)};
}

}  // namespace lethe::worker
