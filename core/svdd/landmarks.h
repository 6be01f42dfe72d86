// Landmarks: keys whose gradients are followed exactly, so that groups near them need not be.
//
// For a group i and a landmark z, with rho >= |phi_i - phi_z| the distance in the kernel's space,
//     |(h_i' - h_z') - (h_i - h_z)| <= 2 rho |w' - w|_K                                     (3')
// (docs/math.md, 3.2): mu cancels, and for near-duplicates almost everything else. A group whose
// gradient was at least h when the landmark's was h_z and the summed path 2 |dw|_K was P needs no
// look while  h - h_z + rho P  is above the landmark's clock  rho P' - h_z'. That sum is its key.
//
// Groups stand in cells, one a landmark and ring of distances. Only for kernels with unit diagonal.
// Cost, L <= kMost landmarks: Follow O(L slots) when the weights have moved, Assign O(L d) the
// first time for a group, taking out what is reached O(1) a group of each cell that is reached and
// O(1) a cell. Memory 8 L bytes a slot, 24 a group. Threads: compatible.
#ifndef LETHE_CORE_SVDD_LANDMARKS_H_
#define LETHE_CORE_SVDD_LANDMARKS_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/base/huge_pages.h"
#include "core/kernel/row.h"
#include "core/svdd/bucket_queue.h"
#include "core/svdd/support_set.h"

namespace lethe::svdd {

class Landmarks {
 public:
  Landmarks(const kernel::Kernel& kernel, size_t dimension) : kernel_(kernel), points_(dimension) {}

  void Clear();
  bool Contains(GroupIndex group) const {
    return group < places_.size() && places_[group].cell != kNowhere;
  }
  bool empty() const { return size_ == 0; }
  void Remove(GroupIndex group);
  // Must be told when a group's index may come to mean another key. The group must not be here.
  void ForgetGroup(GroupIndex group);

  // Brings the clocks to the present weights. `path`: the sum of 2 |dw|_K over all moves so far.
  // Everything below is about the point of the last call.
  void Follow(const SupportSet& supports, const TokenTable& tokens, double path);
  // Puts a group with gradient at least `h` near its landmark, a new one if none is near enough.
  void Put(GroupIndex group, double h, const SupportSet& supports, const TokenTable& tokens);
  // Takes out every group whose gradient may be `slack` or less.
  void TakeReached(double slack, std::vector<KeyedGroup>& reached);
  // Whether a group stands here that is very near this key. O(L d).
  bool HasNear(std::span<const double> key);
  // Whether the groups that come no longer stand near the landmarks there are: several times as
  // many as stand here, so that starting anew costs each of them little.
  bool Outdated() const { return misses_ > 4 * (kMost + size_); }
  // Gives up all groups, each with a lower bound on its gradient, and all landmarks.
  void Dissolve(std::vector<KeyedGroup>& bounds);
  // A lower bound on all their gradients; +infinity when empty.
  double LowerBound() const { return bound_; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr uint32_t kMost = 1024;
  static constexpr uint32_t kRings = 18;
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
  struct Cell {
    std::vector<KeyedGroup> groups;
    double least = kInfinity;  // not above any key
    bool occupied = false;     // listed in occupied_
  };
  struct Place {
    uint32_t cell = kNowhere;
    uint32_t index = 0;
    uint32_t home = kNowhere;  // the cell it is put into, once it is known
  };

  struct Nearest {
    uint32_t landmark;
    double distance;
  };
  Nearest FindNearest(std::span<const double> key);
  uint32_t FindHome(std::span<const double> key, const SupportSet& supports);
  double Clock(uint32_t cell) const;
  void FindBound();

  kernel::Kernel kernel_;
  kernel::PointBlocks points_;  // of the landmarks
  uint32_t count_ = 0;
  uint32_t misses_ = 0;  // keys that were near no landmark when there was no room for one more
  std::vector<std::vector<double>> columns_;  // by slot: kappa(landmark, slot)
  std::vector<uint64_t> known_;               // by slot: the assignment its column is of
  std::vector<double> gradients_;             // by landmark
  double gradient_error_ = 0.0;
  double path_ = 0.0;
  std::vector<Cell> cells_;         // landmark * kRings + ring
  std::vector<uint32_t> occupied_;  // cells with groups, and some that have lost theirs
  double bound_ = kInfinity;
  std::vector<Place, HugePageAllocator<Place>> places_;  // by group
  size_t size_ = 0;
  std::vector<double> row_;  // scratch
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_LANDMARKS_H_
