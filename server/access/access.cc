#include "server/access/access.h"

#include <utility>

#include "core/base/status_macros.h"

namespace lethe::access {

absl::StatusOr<std::unique_ptr<Access>> Access::Open(const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(std::shared_ptr<const Policy> policy, LoadAccess(path));
  return std::make_unique<Access>(std::move(policy), path);
}

absl::Status Access::Reload() {
  LETHE_ASSIGN_OR_RETURN(std::shared_ptr<const Policy> policy, LoadAccess(path_));
  Replace(std::move(policy));
  return absl::OkStatus();
}

void Access::Replace(std::shared_ptr<const Policy> policy) {
  MutexLock lock(mutex_);
  policy_ = std::move(policy);
}

std::shared_ptr<const Policy> Access::policy() const {
  MutexLock lock(mutex_);
  return policy_;
}

}  // namespace lethe::access
