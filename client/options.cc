#include "client/options.h"

#include "client/channel.h"

namespace lethe::client {

absl::Status Validate(const Options& options) {
  if (options.address.empty()) return absl::InvalidArgumentError("address: must not be empty");
  if (options.tls.has_value() &&
      options.tls->certificate_file.empty() != options.tls->key_file.empty()) {
    return absl::InvalidArgumentError(options.tls->key_file.empty()
                                          ? "certificate_file: wants its key_file beside it"
                                          : "key_file: wants its certificate_file beside it");
  }
  if (!options.token.empty() && !options.token_file.empty()) {
    return absl::InvalidArgumentError("token: either it or token_file, not both");
  }
  if ((!options.token.empty() || !options.token_file.empty()) && !options.tls.has_value() &&
      !IsLoopbackAddress(options.address)) {
    return absl::InvalidArgumentError(
        "token: is sent over TLS, or to an address of this machine, and nowhere else");
  }
  if (options.deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("deadline: must be positive");
  }
  if (options.max_attempts < 1 || options.max_attempts > 100) {
    return absl::InvalidArgumentError("max_attempts: must be in 1 to 100");
  }
  if (options.max_stream_attempts < 1 || options.max_stream_attempts > 100) {
    return absl::InvalidArgumentError("max_stream_attempts: must be in 1 to 100");
  }
  if (options.initial_backoff < absl::ZeroDuration() ||
      options.max_backoff < options.initial_backoff) {
    return absl::InvalidArgumentError(
        "max_backoff: must be at least initial_backoff, which is >= 0");
  }
  if (options.stream_stall <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("stream_stall: must be positive");
  }
  if (options.stream_lifetime <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("stream_lifetime: must be positive");
  }
  if (options.hedge_after <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("hedge_after: must be positive");
  }
  return absl::OkStatus();
}

Options With(Options options, const CallOptions& call) {
  options.deadline = call.deadline.value_or(options.deadline);
  options.max_attempts = call.max_attempts.value_or(options.max_attempts);
  options.hedge_after = call.hedge_after.value_or(options.hedge_after);
  options.stream_stall = call.stream_stall.value_or(options.stream_stall);
  return options;
}

}  // namespace lethe::client
