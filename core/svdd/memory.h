// ExactMemory: the exact SVDD of a growing and shrinking set of tokens.
//
// Insert and Forget move the solution along the path of optima (docs/math.md, section 3); what they
// publish is certified afterwards by arithmetic that trusts nothing of the path: the published
// snapshot is the correctly rounded solution for the retained tokens, or the call does not return.
//
// Cost, n tokens, |S| margin groups, |E| error groups, d dimensions: a token that lands in reserve,
// or leaves it, O((|S| + |E|) d); a change of the active set O((|S| + |E|)^2) an event in
// double-double plus O(|S|^3) in double for the proof, plus O(|S| + |E|) to O((|S| + |E|) d) for
// each reserve token that the bounds (3) and (3') of docs/math.md do not clear. |S| + |E| counts
// the most there ever were since the last cold solve. Memory a token: 8 (d + m) bytes and about 270
// more, and 80 MiB at most for rows that are kept; 24 bytes for each pair of groups with weight.
//
// Errors: absl::InvalidArgumentError / NotFoundError for bad calls, checked before anything changes
// (strong guarantee). absl::InternalError when no rung of the ladder can decide the state (keys
// equal to thousands of bits): snapshot() stays, every later change is refused; make the memory
// anew without them. Determinism: a snapshot's bits depend on the retained tokens, their order and
// the options alone. Threads: compatible, not safe; snapshots may be read from any thread.
#ifndef LETHE_CORE_SVDD_MEMORY_H_
#define LETHE_CORE_SVDD_MEMORY_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/svdd/problem.h"
#include "core/svdd/snapshot.h"

namespace lethe::svdd {

struct NewToken {
  TokenHandle handle = 0;
  std::span<const double> key;
  std::span<const double> value;
};

// How the last update reached its state.
enum class Method : uint8_t {
  kUnchanged,  // the active set did not change
  kWalk,       // by the path of optima alone
  kFallback,   // the walk was given up and the cold solver finished
  kCold,       // solved from scratch
};

struct UpdateReport {
  PartitionCounts before;
  PartitionCounts after;
  Method method = Method::kUnchanged;
  int events = 0;          // changes of the active set along the way
  int precision_bits = 0;  // rung that decided the published state
};

// Counted since the memory was made; never part of its state.
struct SolverCounters {
  uint64_t updates = 0;
  uint64_t proofs = 0;     // updates whose state had to be proven; the others moved no weight
  uint64_t climbs = 0;     // published states that needed more than the first rung
  uint64_t fallbacks = 0;  // updates finished by the cold solver
  uint64_t refits = 0;     // states no rung could decide, solved anew from the tokens
};

// What may be taken out without changing any readout or kernel sum now; without a margin the lower
// end of mu's interval may fall. The scope of that promise is the present state: a token that
// arrives later could have given an evicted one weight, so from then on "retrained" means retrained
// on what was retained (docs/math.md, section 8).
struct EvictionPlan {
  std::vector<TokenHandle> reserve;  // weight 0, oldest first
  // Copies beside others of their key, after all of the reserve; the group's weight still fits
  // those that stay. Under equal shares only where all values of the group are equal, newest first;
  // under the filling policies those without weight, the last to be filled first.
  std::vector<TokenHandle> surplus;
  size_t retained = 0;  // above the budget when the rest carries weight
};

// The solution of [0 1'; 1 2K_SS] (nu, w) = (mass, b) over the margin groups.
struct MarginSolution {
  std::vector<double> w;
  double nu = 0.0;
};

class ExactMemory {
 public:
  static absl::StatusOr<std::unique_ptr<ExactMemory>> Create(const MemoryOptions& options);
  ~ExactMemory();
  ExactMemory(const ExactMemory&) = delete;
  ExactMemory& operator=(const ExactMemory&) = delete;

  // What Insert would say of this token, without its handle: dimensions, NaN, Inf, overflow of the
  // kernel. The message starts with the field: "key: ...", "key[3]: ...", "value[0]: ...".
  absl::Status Validate(std::span<const double> key, std::span<const double> value) const;

  // Appends tokens; handles must increase, above every handle so far. The whole batch or nothing.
  absl::StatusOr<UpdateReport> Insert(std::span<const NewToken> tokens);

  // Takes tokens out. Handles must be present and distinct. The whole batch or nothing.
  absl::StatusOr<UpdateReport> Forget(std::span<const TokenHandle> handles);

  // Takes tokens out and puts others in as one change, after which the state is that of a memory
  // which never saw the former and was given the latter last. Requirements, cost and errors are
  // those of Forget and Insert; messages name "handles" or "tokens[i]". The whole or nothing.
  absl::StatusOr<UpdateReport> Replace(std::span<const TokenHandle> handles,
                                       std::span<const NewToken> tokens);

  // What to forget so that at most `budget` tokens are retained, or as near as is possible without
  // changing a readout. Depends on the retained tokens and the budget alone. O(n log n).
  EvictionPlan PlanEviction(size_t budget) const;

  // The published state; never null. Insert and Forget replace it, they never change it.
  std::shared_ptr<const Snapshot> snapshot() const;

  // The published state of a memory fed with this memory's tokens from scratch, by the cold solver.
  // O(cold solve); does not change this memory. A refit that cannot be decided is an empty
  // snapshot, which no memory with tokens equals.
  std::shared_ptr<const Snapshot> Refit() const;

  // The state that Forget(handles) would publish, without changing this memory.
  absl::StatusOr<std::shared_ptr<const Snapshot>> Preview(
      std::span<const TokenHandle> handles) const;

  // One handle a margin group: the order of MarginSolution::w. Empty without a margin.
  std::vector<TokenHandle> MarginHandles() const;
  // By the factor that the memory holds, refined once in double-double; O(|S|^2). Nullopt without a
  // margin, or where K_SS is singular in double-double. Requires b.size() ==
  // MarginHandles().size().
  std::optional<MarginSolution> SolveMarginSystem(std::span<const double> b, double mass) const;

  size_t size() const;
  const SolverCounters& counters() const;

 private:
  class Impl;
  explicit ExactMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// True when both states agree in every bit that is published: phase, counts, supports (handle,
// label, weight bits), mu or its interval.
bool SameBits(const Snapshot& a, const Snapshot& b);

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_MEMORY_H_
