// MemoryState: everything a writer holds of one memory in RAM: the exact solution, the token tree
// and an index of the retained tokens. It knows no store; Tenant keeps the two in step.
//
// The state is a pure function of the retained tokens in the order of their handles, so it can be
// thrown away at any time and made again from the stored rows.
//
// Errors: INVALID_ARGUMENT / NOT_FOUND for bad calls, nothing changed then. INTERNAL when the core
// cannot prove the state after a change: this object is of no use from then on. Threads:
// compatible.
#ifndef LETHE_SERVER_SERVICE_MEMORY_STATE_H_
#define LETHE_SERVER_SERVICE_MEMORY_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/random.h"
#include "audit/token_tree.h"
#include "core/svdd/kkt_check.h"
#include "core/svdd/memory.h"
#include "server/service/counters.h"
#include "server/service/published.h"
#include "server/service/types.h"

namespace lethe::service {

// The independent judge; svdd::CheckKkt, or a stand-in where a test wants a failing check.
using KktChecker = std::function<svdd::KktReport(const svdd::Snapshot&,
                                                 std::span<const double>,
                                                 std::span<const svdd::TokenHandle>)>;

// A seam for tests: asked before each change. What is not OK is returned in the core's stead.
using UpdateFault = std::function<absl::Status()>;

// A token as it enters the state: checked, its key normalised, its id chosen.
struct AcceptedToken {
  svdd::TokenHandle handle = 0;
  TokenInput content;
  audit::Salt salt{};
  audit::Digest plain_leaf{};  // PlainLeafOf(content)
};

// The bytes that token leaves hash.
std::string TokenBytes(const TokenInput& token);
audit::Digest PlainLeafOf(const TokenInput& token);

class MemoryState {
 public:
  // `config`: ConfigDigestOf these options and what stands before the memory.
  static absl::StatusOr<std::unique_ptr<MemoryState>> Create(
      const svdd::MemoryOptions& options,
      const audit::Digest& config,
      KktChecker checker,
      UpdateFault fault = {},
      ServiceCounters* counters = UnreadCounters());

  // Appends in order; handles increase, ids are new. The whole batch or nothing.
  absl::Status Append(std::span<const AcceptedToken> tokens) { return Replace({}, tokens); }

  // Takes tokens out; handles present, distinct, increasing. The whole batch or nothing.
  absl::Status Remove(std::span<const svdd::TokenHandle> handles) { return Replace(handles, {}); }

  // Both as one change, after which the state is that of a memory which never saw the former and
  // was given the latter last. An id may come back in the same call.
  absl::Status Replace(std::span<const svdd::TokenHandle> handles,
                       std::span<const AcceptedToken> tokens);

  struct Found {
    svdd::TokenHandle handle = 0;
    audit::Digest plain_leaf{};
  };
  std::optional<Found> FindId(absl::string_view id) const;
  // Tokens with this subject.
  uint64_t CountOf(absl::string_view subject) const;
  // Of a token that is there; empty: it has none. Cost O(log n).
  const std::string& SubjectOf(svdd::TokenHandle handle) const {
    return rows_[IndexOf(handle)].subject;
  }
  // Each subject of which there are tokens, once, in no order; stops where `visit` says false.
  void VisitSubjects(
      absl::FunctionRef<bool(absl::string_view subject, uint64_t tokens)> visit) const;

  size_t size() const { return handles_.size(); }
  const svdd::ExactMemory& exact() const { return *exact_; }
  // Of every token, increasing; valid until the next change.
  std::span<const svdd::TokenHandle> handles() const { return handles_; }

  // Runs the independent check over the retained tokens and remembers the result for Publish. The
  // empty and warming phases are exact by definition and pass. INTERNAL when the check fails.
  absl::Status Check();
  // The independent check of another solution for the same tokens; not remembered.
  svdd::KktReport Judge(const svdd::Snapshot& snapshot) const;
  const svdd::KktReport& last_check() const { return last_check_; }

  // The state for readers; counts the solver's work since the last one. Cost O(supports + log n),
  // amortised.
  std::shared_ptr<const Published> Publish(uint64_t version);

  // The public digest of the state: over blinded leaves. Cost O(supports + log n), amortised.
  audit::Digest BlindedState() { return BlindedStateOf(*exact_->snapshot()); }
  // Of another solution for the same tokens.
  audit::Digest BlindedStateOf(const svdd::Snapshot& snapshot);

  // What Remove(handles) and Publish would give, without a lasting change. Cost: that of Remove.
  struct Foreseen {
    svdd::PartitionCounts partition;
    std::string state_digest;
  };
  absl::StatusOr<Foreseen> Foresee(std::span<const svdd::TokenHandle> handles);

 private:
  struct Row {
    std::string id;
    std::string subject;
  };

  MemoryState(std::unique_ptr<svdd::ExactMemory> exact,
              const audit::Digest& config,
              KktChecker checker,
              UpdateFault fault,
              ServiceCounters* counters);
  absl::Status Solve(std::span<const svdd::TokenHandle> handles,
                     std::span<const AcceptedToken> tokens);
  void Drop(std::span<const svdd::TokenHandle> handles);
  void Add(const AcceptedToken& token);
  std::vector<audit::Digest> SupportLeaves(const svdd::Snapshot& snapshot, bool blinded) const;
  size_t IndexOf(svdd::TokenHandle handle) const;

  std::unique_ptr<svdd::ExactMemory> exact_;
  const audit::Digest config_;
  KktChecker checker_;
  UpdateFault fault_;
  size_t key_dimension_ = 0;
  audit::TokenTree tree_;
  // Parallel, in the order of handles; keys row-major.
  std::vector<svdd::TokenHandle> handles_;
  std::vector<Row> rows_;
  std::vector<double> keys_;
  absl::flat_hash_map<std::string, svdd::TokenHandle> handle_by_id_;
  absl::flat_hash_map<std::string, uint64_t> tokens_by_subject_;
  svdd::KktReport last_check_;
  ServiceCounters* counters_;
  svdd::SolverCounters counted_;  // what counters_ has of this state's
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_MEMORY_STATE_H_
