// Calls that wait for the other side: for a message that has not arrived, or for one that is not
// taken. Each of them holds memory, and a stream its place or a thread of gRPC, so each has a
// limit, and those that can be many are bounded: calls whose one request has not arrived in number,
// answers that are not taken in bytes; all of them, and those of a caller, so that nobody keeps the
// others out.
//
// Threads: safe; a Wait is of one thread at a time. Cost: one thread for all calls.
#ifndef LETHE_SERVER_RPC_PEER_WATCH_H_
#define LETHE_SERVER_RPC_PEER_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace lethe::rpc {

// Ends a call from outside its handler: the peer gets this status, what the handler waits for
// fails, and what it answers is dropped.
void EndCall(grpc::ServerContextBase* context, const absl::Status& status);

struct PeerWatchOptions {
  // For the first message of a call, and for an answer to be taken.
  absl::Duration patience = absl::Seconds(30);
  // Between the messages of a stream.
  absl::Duration idle = absl::Minutes(10);
  // Calls whose one request has not arrived. A caller that is known has half of these places.
  size_t max_requests = 256;
  // Of answers that are not taken, in bytes; of a known caller half of them. What runs already may
  // go beyond that by its answers.
  size_t max_answer_bytes = size_t{256} << 20;
};

class PeerWatch {
 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    grpc::ServerContextBase* context = nullptr;
    Clock::time_point begin;
    bool request = false;
    size_t answer_bytes = 0;
    std::string caller;  // of a request and of an answer
    absl::Status ended;
  };
  using Entries = std::multimap<Clock::time_point, Entry>;

 public:
  // While it lives, a call waits.
  class [[nodiscard]] Wait {
   public:
    Wait(Wait&& other) noexcept
        : watch_(std::exchange(other.watch_, nullptr)), entry_(other.entry_) {}
    Wait& operator=(Wait&&) = delete;
    ~Wait();
    // Why the call was ended; OK when it was not.
    absl::Status status() const;

   private:
    friend class PeerWatch;
    Wait(PeerWatch* watch, Entries::iterator entry) : watch_(watch), entry_(entry) {}
    PeerWatch* watch_;
    Entries::iterator entry_;
  };

  explicit PeerWatch(const PeerWatchOptions& options);
  // Nothing may be waiting.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  const PeerWatchOptions& options() const { return options_; }

  // Ends the call with UNAVAILABLE once `limit` is over. The context must outlive the Wait.
  Wait For(grpc::ServerContextBase* context, absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // For the one request of a call: ends it with DEADLINE_EXCEEDED once the patience is over. When
  // all places, or those of the caller, are taken, the call there that has waited longest is ended
  // for this one, if it has waited for a second; otherwise RESOURCE_EXHAUSTED with a delay.
  // `caller` empty: not known.
  absl::StatusOr<Wait> ForRequest(grpc::ServerContextBase* context, absl::string_view caller)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Before the work on an answer: OK when answers that are not taken leave room for it. Otherwise
  // those that have waited longest are ended, as those above are, until they do.
  absl::Status RoomForAnswer(absl::string_view caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // For this answer to be taken: ends the call with UNAVAILABLE once the patience is over.
  Wait ForAnswer(grpc::ServerContextBase* context, absl::string_view caller, size_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What waits, of all or of a caller.
  struct Waiting {
    size_t requests = 0;
    size_t answer_bytes = 0;
  };

  Wait Add(Clock::time_point due, Entry entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Entry& entry, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a place was made by ending the longest wait for a request, or of an answer; of this
  // caller if not empty.
  bool MakePlace(absl::string_view caller, bool request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Waiting Of(absl::string_view caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const PeerWatchOptions options_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // by when they are due
  // Of requests and answers that were not ended.
  Waiting waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Waiting, std::less<>> waiting_of_ ABSL_GUARDED_BY(mutex_);
  // When the thread looks by itself, perhaps for a call that is gone. Only what is due before that
  // wakes it: on an idle server every call is the first that is due, and to wake a thread for each
  // costs more than the rest of the watch.
  Clock::time_point looks_at_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::min();
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_PEER_WATCH_H_
