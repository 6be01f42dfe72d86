// How long to wait before a refused call is worth another try, carried by its status.
#ifndef LETHE_SERVER_SERVICE_RETRY_DELAY_H_
#define LETHE_SERVER_SERVICE_RETRY_DELAY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lethe::service {

// The status with this delay, rounded up to milliseconds. Requires a status that is not OK.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// nullopt where nobody said that another try helps.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_RETRY_DELAY_H_
