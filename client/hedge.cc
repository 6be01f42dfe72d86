#include "client/hedge.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "client/retry.h"
#include "core/base/mutex.h"

namespace lethe::client {
namespace {

// What the two threads tell each other.
struct Race {
  Mutex mutex;
  std::condition_variable over;
  bool first_over = false;    // under mutex
  bool second_begun = false;  // under mutex
  std::optional<int> winner;  // under mutex

  // True for the one that wins.
  bool Settle(int which, const absl::Status& status) {
    MutexLock lock(mutex);
    if (winner.has_value() || (!status.ok() && IsTransient(status))) return false;
    winner = which;
    return true;
  }
};

}  // namespace

HedgeResult Hedged(absl::Duration after,
                   const std::function<absl::Status(int)>& attempt,
                   const std::function<void(int)>& cancel) {
  if (after == absl::InfiniteDuration()) return {.status = attempt(0)};
  Race race;
  absl::Status second_status;
  std::thread second([&] {
    {
      std::unique_lock<std::mutex> lock(race.mutex.native());
      const auto patience = absl::ToChronoNanoseconds(std::min(after, absl::Hours(24)));
      if (race.over.wait_for(lock, patience, [&race] { return race.first_over; })) return;
      race.second_begun = true;
    }
    second_status = attempt(1);
    if (race.Settle(1, second_status)) cancel(0);
  });
  const absl::Status first_status = attempt(0);
  bool begun = false;
  {
    MutexLock lock(race.mutex);
    race.first_over = true;
    begun = race.second_begun;
  }
  race.over.notify_one();
  if (race.Settle(0, first_status) && begun) cancel(1);
  second.join();
  const bool second_won = race.winner == 1;
  return {.status = second_won ? second_status : first_status,
          .winner = second_won ? 1 : 0,
          .hedged = begun};
}

}  // namespace lethe::client
