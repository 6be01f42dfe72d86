#include "server/calls/error_details.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "server/service/retry_delay.h"

namespace lethe::calls {
namespace {

bool InField(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '[' ||
         c == ']' || c == '-';
}

}  // namespace

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  details.retry_delay = service::RetryDelayOf(status);
  if (!absl::IsInvalidArgument(status)) return details;
  const absl::string_view message = status.message();
  const size_t end = message.find(": ");
  if (end == absl::string_view::npos || end == 0) return details;
  const absl::string_view field = message.substr(0, end);
  if (!std::all_of(field.begin(), field.end(), InField)) return details;
  details.field = std::string(field);
  details.description = std::string(message.substr(end + 2));
  return details;
}

}  // namespace lethe::calls
