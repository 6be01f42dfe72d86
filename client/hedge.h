// A second attempt beside a slow first one.
//
// Internal to client/. Threads: see Hedged.
#ifndef LETHE_CLIENT_HEDGE_H_
#define LETHE_CLIENT_HEDGE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lethe::client {

struct HedgeResult {
  absl::Status status;
  int winner = 0;       // whose status it is
  bool hedged = false;  // whether there was a second attempt
};

// Calls attempt(0) in this thread. When it has not returned after `after`, attempt(1) is called in
// another. The first that does not fail transiently (client/retry.h) wins, and cancel(the other) is
// called, which must make that one return soon; it may come before attempt(1) has begun, and from
// either thread. Where both fail, the first's status is returned. Returns when both have returned.
// Cost: a thread, unless `after` is infinite.
HedgeResult Hedged(absl::Duration after,
                   const std::function<absl::Status(int)>& attempt,
                   const std::function<void(int)>& cancel);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_HEDGE_H_
