// What readers of one memory see: an immutable state, complete in itself.
//
// A writer makes a new Published after each durable change and puts it in the place of the old one;
// a reader takes a reference and works on it for as long as it likes. Neither waits for the other
// longer than it takes to copy a pointer.
#ifndef LETHE_SERVER_SERVICE_PUBLISHED_H_
#define LETHE_SERVER_SERVICE_PUBLISHED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/hash.h"
#include "audit/state_digest.h"
#include "core/base/mutex.h"
#include "core/svdd/kkt_check.h"
#include "core/svdd/memory.h"
#include "core/svdd/snapshot.h"
#include "server/service/types.h"

namespace lethe::service {

struct Published {
  audit::Digest config{};  // ConfigDigestOf
  std::shared_ptr<const svdd::Snapshot> snapshot;
  std::vector<std::string> support_ids;       // parallel to snapshot->supports
  std::vector<audit::Digest> support_leaves;  // likewise, plain leaves
  audit::Digest plain_root{};                 // of the token tree
  uint64_t tokens = 0;
  uint64_t subjects = 0;  // distinct
  // The last run of the independent check, on this state or an earlier one: at start, after each
  // Forget, and with every refit that Describe asks for.
  svdd::KktReport last_check;
  svdd::SolverCounters counters;
  uint64_t version = 0;  // 1 for the first state of a memory; one more each time
};

// SHA-256 over a memory's configuration, its encoder included, as certificates and state digests
// use it.
audit::Digest ConfigDigestOf(const svdd::MemoryOptions& options,
                             const std::optional<EncoderInfo>& encoder);

// The state digest over these leaves (parallel to snapshot.supports) and this tree root; plain ones
// or blinded ones. `config` as ConfigDigestOf.
audit::Digest StateDigestOf(const audit::Digest& config,
                            const svdd::Snapshot& snapshot,
                            std::span<const audit::Digest> support_leaves,
                            uint64_t tokens,
                            const audit::Digest& tree_root);

// Hex of the plain state digest. Cost O(supports).
std::string StateDigestHex(const Published& state);

// The largest answer to one Query, and an upper bound on the bytes that one result of it needs.
inline constexpr size_t kMaxAnswerBytes = size_t{16} << 20;
size_t AnswerBytes(size_t value_dimension, size_t top_tokens);

// Answers queries from one state. Requires validated input (CheckQuery, CheckLocalChunk).
// `still_wanted` is asked between queries. Cost O(queries (supports + local keys) (d + m)).
absl::StatusOr<QueryReply> AnswerQueries(const Published& state,
                                         const QueryInput& input,
                                         size_t top_tokens,
                                         const CallOptions& call);

// The place where a state is published. Threads: safe.
class PublishedSlot {
 public:
  // The last state, also a withdrawn one; for what does not answer from it.
  std::shared_ptr<const Published> Get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    return state_;
  }
  // The state to answer readers from. UNAVAILABLE while it is withdrawn.
  absl::StatusOr<std::shared_ptr<const Published>> Serve() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    if (!withdrawn_) return state_;
    return absl::UnavailableError(
        "memory: is not served: its state was wrong and could not be solved again from the stored "
        "tokens; the next write, Verify or start tries again");
  }
  void Set(std::shared_ptr<const Published> state) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(mutex_);
      state_.swap(state);
      withdrawn_ = false;
    }
    // The old state, if this was its last reference, is freed here, outside the lock.
  }
  // Until the next Set: what was published is known to be wrong.
  void Withdraw() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    withdrawn_ = true;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Published> state_ ABSL_GUARDED_BY(mutex_);
  bool withdrawn_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_PUBLISHED_H_
