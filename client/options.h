// How a connection behaves. Every field has a default that suits an interactive program.
#ifndef LETHE_CLIENT_OPTIONS_H_
#define LETHE_CLIENT_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lethe::client {

// The files are PEM and are read when the connection is made.
struct TlsOptions {
  std::string ca_file;           // whom to trust; empty: the machine's authorities
  std::string certificate_file;  // of the client, with its chain; empty: none is shown
  std::string key_file;          // its key; with certificate_file
  std::string server_name;       // that the server's certificate must have; empty: the address's
};

struct Options {
  std::string address = "127.0.0.1:7421";
  // Absent: not encrypted.
  std::optional<TlsOptions> tls = {};
  // A bearer token that goes with each call, or the file that holds it, which is read again once a
  // second. Only over TLS or to an address of this machine.
  std::string token;
  std::string token_file;
  // Of one call, all its attempts and waits together.
  absl::Duration deadline = absl::Seconds(60);
  // Attempts of one call, the first included; 1 turns retrying off.
  int max_attempts = 5;
  // The wait before the k-th retry is uniform in [1/2, 1] of min(max, initial * 2^(k-1)).
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(5);
  // An insert stream that acknowledges nothing for so long is broken off and resumed; none lives
  // longer than stream_lifetime before it is resumed on a new one. An export, a backup or a
  // restore that does not move for stream_stall fails; it may take as long as it likes.
  absl::Duration stream_stall = absl::Seconds(60);
  absl::Duration stream_lifetime = absl::Minutes(10);
  // Attempts in a row without progress of a stream that has made progress before, so that a long
  // import outlives a restart of the server. Before any progress, max_attempts counts.
  int max_stream_attempts = 12;
  // A read that got no answer for so long is asked a second time beside, on the same connection;
  // the first answer counts and the other call is cancelled. Infinite: never. It costs a thread a
  // read; 95 of 100 reads should be faster, or it doubles the load. Only what reads alone is
  // hedged (client/retry.h).
  absl::Duration hedge_after = absl::InfiniteDuration();
  // Gives each forget, eviction and edit that has no request_id one of its own, so that it is safe
  // to repeat too.
  bool make_request_ids = false;
  std::string user_agent = "lethe-client";
};

// INVALID_ARGUMENT names the field.
absl::Status Validate(const Options& options);

// What some calls do otherwise than the connection; what is absent stays as it is there.
struct CallOptions {
  std::optional<absl::Duration> deadline = {};
  std::optional<int> max_attempts = {};
  std::optional<absl::Duration> hedge_after = {};
  std::optional<absl::Duration> stream_stall = {};
};

// `options` with these in their place.
Options With(Options options, const CallOptions& call);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_OPTIONS_H_
