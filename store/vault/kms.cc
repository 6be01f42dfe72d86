#include "store/vault/kms.h"

#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::store {

absl::StatusOr<uint32_t> Kms::CurrentEpoch() {
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint32_t> epochs, Epochs());
  LETHE_CHECK(!epochs.empty());
  return epochs.back();
}

}  // namespace lethe::store
