// What an error says besides its words, in the way of google.rpc's details. Threads: safe.
#ifndef LETHE_SERVER_CALLS_ERROR_DETAILS_H_
#define LETHE_SERVER_CALLS_ERROR_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lethe::calls {

struct ErrorDetails {
  // Of an INVALID_ARGUMENT that is "<field>: <what is wrong>": empty otherwise.
  std::string field;
  std::string description;
  // Where another try helps (server/service/retry_delay.h).
  std::optional<absl::Duration> retry_delay;
};

ErrorDetails DetailsOf(const absl::Status& status);

}  // namespace lethe::calls

#endif  // LETHE_SERVER_CALLS_ERROR_DETAILS_H_
