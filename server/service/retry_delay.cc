#include "server/service/retry_delay.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lethe::service {
namespace {

constexpr char kPayload[] = "lethe/retry-delay-milliseconds";

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(delay, absl::Milliseconds(1)));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(std::max<int64_t>(1, milliseconds))));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int64_t milliseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace lethe::service
