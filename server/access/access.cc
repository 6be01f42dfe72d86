#include "server/access/access.h"

namespace lethe::access {

std::shared_ptr<const Policy> Access::policy() const {
  MutexLock lock(mutex_);
  return policy_;
}

}  // namespace lethe::access
