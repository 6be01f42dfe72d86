// The groups with weight: their weights, gradients and kernel values among each other, all in
// double-double, and the factor of the margin's part of the Gram matrix.
//
// A group with weight holds a slot; slots are reused, so that rows of the Gram matrix stay where
// they are. Mass units (problem.h): h_i = 2 (Kw)_i - total K_ii + mu. Memory 24 slots^2 bytes.
#ifndef LETHE_CORE_SVDD_SUPPORT_SET_H_
#define LETHE_CORE_SVDD_SUPPORT_SET_H_

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/kernel/kernel.h"
#include "core/svdd/cholesky.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

using Slot = size_t;

class SupportSet {
 public:
  enum class Role : uint8_t {
    kFree,     // the slot is unused
    kMargin,   // 0 < w < cap
    kError,    // w = cap
    kDriven,   // moved by the walk
    kLeaving,  // w = 0; kept until the drift that its departure causes is added up
  };
  struct Entry {
    GroupIndex group = 0;
    Role role = Role::kFree;
    DoubleDouble cap;
    DoubleDouble w;
    DoubleDouble reference_w;  // weight when the drift was last added up
  };
  // A computed gradient and a bound on its absolute error for the weights as stored.
  struct Gradient {
    DoubleDouble h;
    double error;
  };

  SupportSet(const kernel::Kernel& kernel, double total) : kernel_(kernel), total_(total) {}

  // Everything but the kernel and total.
  void Clear();

  // A slot for this group, with weight 0 and the role kDriven. O(slots) kernel values.
  Slot Add(GroupIndex group, const DoubleDouble& cap, const TokenTable& tokens);
  // The slot of a group that is not leaving.
  std::optional<Slot> Find(GroupIndex group) const;
  // Whether any slot is still its, a leaving one included.
  bool Holds(GroupIndex group) const { return by_group_.contains(group); }
  Entry& operator[](Slot slot) { return entries_[slot]; }
  const Entry& operator[](Slot slot) const { return entries_[slot]; }
  size_t slots() const { return entries_.size(); }
  const DoubleDouble& Gram(Slot a, Slot b) const { return gram_[a][b]; }
  const std::vector<Slot>& margin() const { return margin_; }  // in the order of the factor's rows
  const CholeskyFactor<DoubleDouble>& factor() const { return factor_; }

  // Moves a driven or error slot into the margin. False, and no change, when the factor would be
  // singular in double-double.
  bool EnterMargin(Slot slot);
  // Takes a margin slot out, to `role`; its weight becomes exactly 0 or cap for leaving and error.
  void LeaveMargin(Slot slot, Role role);
  // A fresh factor for these margin slots; false when it is singular in double-double.
  bool RebuildFactor(std::vector<Slot> margin);

  // 2 K_SS w + nu 1 = b, 1'w = mass by the factor, refined once: the factor has a long history, its
  // residual need not be at rounding level. Requires a margin and its factor.
  void SolveBorderedRefined(const std::vector<DoubleDouble>& b,
                            const DoubleDouble& mass,
                            std::vector<DoubleDouble>& w,
                            DoubleDouble& nu) const;
  // Margin weights and mu from the bordered system (2). Requires a margin.
  void SolveMargin();
  DoubleDouble FreshGradient(Slot slot) const;
  // Fresh, with its error bound: the kernel's and the rounding's, not that of the weights.
  Gradient BoundedGradient(Slot slot) const;
  // The same for any group, kernel values computed anew: in double, or in double-double.
  Gradient CoarseGradient(GroupIndex group, const TokenTable& tokens) const;
  Gradient FineGradient(GroupIndex group, const TokenTable& tokens) const;
  bool HasError() const;
  // mu at the upper end of its interval, the smallest -slope of an error slot. Requires no margin
  // and an error slot.
  void SetMuToUpperEnd();

  // How far (w, mu) moved since the last call, rounded up: 2 |dw|_K + |dmu|. Frees leaving slots.
  double TakeDrift();

  DoubleDouble mu;

 private:
  kernel::Kernel kernel_;
  double total_;
  std::vector<Entry> entries_;
  std::vector<std::vector<DoubleDouble>> gram_;
  std::vector<std::vector<double>> gram_error_;
  absl::flat_hash_map<GroupIndex, Slot> by_group_;
  std::vector<Slot> free_;
  std::vector<Slot> margin_;
  CholeskyFactor<DoubleDouble> factor_;
  DoubleDouble reference_mu_;
  // Keys of the slots, so that gradients of other groups read contiguous memory.
  std::vector<std::vector<double>> keys_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_SUPPORT_SET_H_
