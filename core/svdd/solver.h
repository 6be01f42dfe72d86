// The solver behind ExactMemory: keeps an optimal point of problem (1) while tokens come and go.
//
// Its parts, each in its own file:
//   solver_walk.cc       moves one group along the path of optima (docs/math.md, section 3)
//   solver_active_set.cc solves from a feasible point; also what a given-up walk falls back to
//   certify.cc           decides every sign and rounds every weight, climbing the precision ladder
//   publish.cc           makes the snapshot of a certified point
// solver.cc joins them: reserve groups wait in the pool behind the drift bound (3) and are looked
// at when it reaches them.
//
// Values: copyable, so that a change can be tried on a copy. Threads: compatible.
#ifndef LETHE_CORE_SVDD_SOLVER_H_
#define LETHE_CORE_SVDD_SOLVER_H_

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/svdd/memory.h"
#include "core/svdd/reserve_pool.h"
#include "core/svdd/snapshot.h"
#include "core/svdd/support_set.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

class MpKernelValues;
class MpRung;

class Solver {
 public:
  explicit Solver(const MemoryOptions& options);

  const TokenTable& tokens() const { return tokens_; }

  // Requires validated tokens with increasing handles. Afterwards the point is optimal as far as
  // double-double can see; Publish decides the rest.
  void Insert(std::span<const NewToken> tokens);
  // Requires distinct handles that are present.
  void Forget(std::span<const TokenHandle> handles);

  // The correctly rounded state. Changes the point where a sign was decided the other way. Nullopt
  // when the top of the ladder cannot tell (keys that are equal to thousands of bits): the solver
  // is then of no further use.
  std::optional<Snapshot> Publish();

  // Forget, then Insert, counted as one update.
  void Replace(std::span<const TokenHandle> handles, std::span<const NewToken> tokens);

  // See ExactMemory.
  std::vector<TokenHandle> MarginHandles() const;
  std::optional<MarginSolution> SolveMarginSystem(std::span<const double> b, double mass) const;

  // Of the updates since the last Publish.
  Method method() const { return method_; }
  int events() const { return events_; }
  // Whether the last Publish had to prove its state, or no weight had moved since the last proof.
  bool proved_anew() const { return proved_anew_; }

  friend class SolverTestPeer;  // tests break the state that is held

 private:
  using Role = SupportSet::Role;
  using Gradient = SupportSet::Gradient;
  using Driven = SupportSet::Driven;

  // A group and its place in the order of repair: h / scale, most negative first.
  struct Violator {
    double depth;
    GroupIndex group;
  };
  // What the certification found. kViolated: reserve groups that must enter, in violators_.
  // kRepaired: the groups with weight stood wrong and have been solved for anew.
  enum class Finding { kPublished, kViolated, kRepaired, kUndecided };
  // The decided, rounded solution, and the drift up to which it says something about new groups.
  struct Certificate {
    std::vector<SupportToken> supports;  // by handle
    std::optional<double> mu;
    std::optional<double> mu_low;
    std::optional<double> mu_high;
    Proof proof;
    double slack = 0.0;           // 2 |w - w*|_K + |mu - mu*|, mass units
    double quadratic_form = 0.0;  // a'Ka
  };

  // solver.cc
  void BeginUpdate();
  void InsertTokens(std::span<const NewToken> tokens);
  void ForgetTokens(std::span<const TokenHandle> handles);
  DoubleDouble GroupCap(GroupIndex group) const;
  double Scale(GroupIndex group) const;
  void AddDrift();
  bool HasLandmarks() const;
  void FollowLandmarks();
  void PutInPool(GroupIndex group, double h_lower_bound, bool again);
  // Takes in a group whose weight has become 0, to be looked at by the next sweep.
  void ToReserve(GroupIndex group);
  void ReturnContested();
  // Sign of a group's gradient: evaluated coarsely, then finely; error grows by `slack`.
  // `again`: the group was looked at before, and is likely to be once more.
  Gradient Evaluate(GroupIndex group, double slack, bool again) const;
  // Evaluates every group that the drift has reached; settled ones go back to the pool, undecided
  // ones to contested_, violators (worst first) to violators_.
  void Sweep(double slack);
  void Settle();
  void SolveCold();
  // The reserve groups that may have the smallest gradient, with their fine gradients; they stay in
  // the pool. Empty when there is no reserve.
  std::vector<std::pair<GroupIndex, Gradient>> LowestReserve();

  // solver_walk.cc
  bool EnterByWalk(GroupIndex group);
  bool RaiseByWalk(Slot slot);
  // Lowers groups to what their remaining members may hold.
  bool LowerInSteps(std::span<const GroupIndex> groups);
  struct Lowering {
    Slot slot;
    DoubleDouble target;
  };
  // One path for all of them.
  bool LowerByWalk(std::span<const Lowering> lowerings);
  void Leave(Slot slot);
  bool ArriveByWalk();
  // kGradientZeroOrCap: one driven group, at rate 1. `left` is in units of the rates.
  enum class Goal { kGradientZeroOrCap, kTarget };
  bool Drive(std::span<const Driven> driven, Goal goal, DoubleDouble left);
  bool PrepareMargin(std::span<const Driven> driven, Goal goal, bool* done);

  // solver_active_set.cc
  // Makes the point optimal from its present weights (clipped to the box and topped up to the
  // total), whatever state the walk left. Uses `extra` groups as well.
  void SolveByActiveSet(std::vector<GroupIndex> extra);
  bool TryDoubleDouble(const std::vector<GroupIndex>& groups,
                       const std::vector<DoubleDouble>& start);
  bool TryMp(const std::vector<GroupIndex>& groups,
             const std::vector<DoubleDouble>& start,
             int bits);
  // A feasible weight a group, near the present weights; takes in further groups where these are
  // too few to hold the total.
  std::vector<DoubleDouble> FeasibleStart(std::vector<GroupIndex>& groups);
  // The worst of the violators from the first-th on; the others go back to the pool.
  std::vector<GroupIndex> TakeWorst(size_t first);
  // The same in MpReal on the groups with weight, the contested ones and `extra`, from this rung
  // on. False when the labels stay as they are: this rung cannot see what is wrong.
  bool RepairMp(int bits, std::span<const GroupIndex> extra);
  std::vector<GroupIndex> SupportGroups() const;
  void Install(const std::vector<GroupIndex>& groups,
               const std::vector<Label>& labels,
               const std::vector<DoubleDouble>& weights,
               const DoubleDouble& mu);

  // certify.cc
  Finding CertifyDoubleDouble(Certificate& certificate);
  // `rung`: the one before, or null; becomes this one.
  Finding CertifyMp(int bits,
                    MpKernelValues& values,
                    std::unique_ptr<MpRung>& rung,
                    Certificate& certificate);
  bool SweepFindsViolators(double slack);
  bool ErrorGroupsHoldTotal() const;
  bool BoundsAreTheGroups() const;
  int TieBits() const;
  void AddPublicationRounding(Certificate& certificate) const;
  double ReserveSlack() const;
  double UpperEndError() const;
  double ReserveGap(const Proof& proof) const;
  double QuadraticForm(const std::vector<SupportToken>& supports) const;
  std::optional<Certificate> Certify();

  // publish.cc
  Snapshot MakeSnapshot(const Certificate& certificate) const;
  Snapshot WarmingSnapshot() const;
  void AddTokens(Snapshot& snapshot) const;

  MemoryOptions options_;
  double total_;
  double box_;
  TokenTable tokens_;
  SupportSet supports_;
  ReservePool pool_;
  std::vector<KeyedGroup> reached_;  // scratch of Sweep
  std::vector<Violator> violators_;  // found by the last Sweep
  // Scratch of Drive and of the certification.
  std::vector<Driven> driven_;
  std::vector<Lowering> lowerings_;
  DdVector direction_;
  DdVector slopes_;
  DdVector gradients_;
  std::vector<double> gradient_errors_;
  // Gradient not told from zero in double-double, or not looked at since the weight became 0.
  std::vector<GroupIndex> contested_;
  double drift_ = 0.0;            // sum of 2 |dw|_K + |dmu| over all moves
  double path_ = 0.0;             // sum of 2 |dw|_K
  double followed_drift_ = -1.0;  // drift_ when the landmarks were brought to the weights
  bool active_ = false;           // enough tokens for the box problem
  bool gave_up_ = false;          // no rung could solve for the active set
  bool factor_ok_ = true;         // supports_.factor() is usable
  Method method_ = Method::kUnchanged;
  int events_ = 0;
  bool proved_anew_ = false;
  // The last certified state while no weight, cap or member of a group with weight has changed; its
  // reserve is not counted.
  struct Certified {
    Snapshot state;
    double slack = 0.0;
  };
  std::shared_ptr<const Certified> certified_;
  double certified_drift_ = 0.0;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_SOLVER_H_
