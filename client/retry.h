// When a call is repeated, and how long to wait before it.
//
// Only what cannot do harm twice is repeated: reads, inserts whose tokens all carry ids, forgets,
// evictions and edits with a request_id, dry runs. Creating and deleting are not: after a lost
// answer the repetition would report ALREADY_EXISTS or NOT_FOUND for what this very call did. Only
// UNAVAILABLE is worth a repetition, and CANCELLED that the caller did not ask for: that is how a
// server that shuts down ends the calls it does not wait for. RESOURCE_EXHAUSTED is one where the
// server says when to try again (google.rpc.RetryInfo): nothing was done then, so that every call
// is repeated, and as often as the deadline allows: a refusal is no failed attempt. Where the
// server says so, no wait is shorter. Every other code is an answer.
//
// What a repeated insert cannot know: whether its tokens were stored by the first attempt and
// erased by somebody else before the second. They are stored again then. Whoever erases a subject
// first stops what writes about it (docs/erasure_requests.md).
#ifndef LETHE_CLIENT_RETRY_H_
#define LETHE_CLIENT_RETRY_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "client/types.h"

namespace lethe::client {

enum class Idempotency {
  kRead,          // changes nothing, so that it may also be hedged
  kSafeToRepeat,  // twice is as good as once
  kNotSafe,
};

Idempotency IdempotencyOf(const std::vector<Token>& insert);
Idempotency IdempotencyOf(const ForgetRequest& forget);
Idempotency IdempotencyOf(const EvictRequest& evict);
Idempotency IdempotencyOf(const EditRequest& edit);

// How long to wait before another try, where the server said so; carried by the status.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);
// Requires a status that is not OK.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// For the status of a call that this side did not cancel.
bool IsTransient(const absl::Status& status);
// The server refused the call, did nothing, and said when to try again.
bool IsRefusedForNow(const absl::Status& status);

// Time and chance, injected so that tests neither sleep nor flicker.
struct Environment {
  std::function<absl::Time()> now;
  std::function<void(absl::Duration)> sleep;
  std::function<double()> uniform;  // in [0, 1)

  // The machine's clock; a generator seeded by the kernel. Threads: safe.
  static Environment Real();
};

// Exponential backoff with jitter: Next() is uniform in [1/2, 1] of min(max, initial * 2^k).
class Backoff {
 public:
  Backoff(absl::Duration initial, absl::Duration max)
      : initial_(initial), max_(max), base_(initial) {}

  absl::Duration Next(double uniform);
  void Reset() { base_ = initial_; }

 private:
  absl::Duration initial_;
  absl::Duration max_;
  absl::Duration base_;
};

// The wait before the next attempt: the backoff, or what the server said where that is longer, and
// up to a quarter more of it, so that those who were refused together do not come back together.
absl::Duration WaitBefore(Backoff& backoff, double uniform, const absl::Status& status);

// Calls `attempt(deadline)` until it succeeds, fails for good, or attempts or time are used up;
// returns the last status. `deadline` is the same in every attempt. Never sleeps past the deadline.
absl::Status RetryLoop(const Options& options,
                       const Environment& environment,
                       Idempotency idempotency,
                       const std::function<absl::Status(absl::Time deadline)>& attempt);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_RETRY_H_
