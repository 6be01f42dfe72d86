// The walk allocates nothing: a program of its own, since it counts every operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "core/svdd/solver.h"

namespace {

size_t allocations = 0;

}  // namespace

void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace lethe::svdd {

// Drives weights of a solver up and down.
class SolverTestPeer {
 public:
  // A margin slot's weight to half and back to its optimum. Counts what the two walks allocate.
  static size_t LowerAndRaise(Solver& solver, Slot slot) {
    const Solver::Lowering lowering{slot, solver.supports_[slot].w * DoubleDouble(0.5)};
    const size_t before = allocations;
    EXPECT_TRUE(solver.LowerByWalk({&lowering, 1}));
    size_t count = allocations - before;
    solver.Settle();
    if (solver.supports_[slot].role != SupportSet::Role::kError) return count;
    solver.supports_[slot].cap = solver.GroupCap(solver.supports_[slot].group);
    const size_t again = allocations;
    EXPECT_TRUE(solver.RaiseByWalk(slot));
    count += allocations - again;
    solver.Settle();
    return count;
  }
  static std::vector<Slot> Margin(const Solver& solver) { return solver.supports_.margin(); }
  static bool InMargin(const Solver& solver, Slot slot) {
    return solver.supports_[slot].role == SupportSet::Role::kMargin;
  }
};

namespace {

TEST(Allocation, NoneInTheWalk) {
  constexpr int kDimension = 5;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  Solver solver({{kernel::KernelKind::kRbf, 0.2},
                 *Capacity::FromCapacity(20.5),
                 DuplicatesPolicy::kShared,
                 kDimension,
                 1});
  const double value = 1.0;
  for (TokenHandle handle = 1; handle <= 400; ++handle) {
    std::vector<double> key(kDimension);
    for (double& coordinate : key) coordinate = normal(random);
    const NewToken token{handle, key, {&value, 1}};
    solver.Insert({&token, 1});
    ASSERT_TRUE(solver.Publish().has_value());
  }
  // The first round takes what scratch the walks need; the second must do with it.
  size_t walks = 0;
  for (int round = 0; round < 2; ++round) {
    const std::vector<Slot> margin = SolverTestPeer::Margin(solver);
    ASSERT_GT(margin.size(), 5u);
    for (const Slot slot : margin) {
      if (!SolverTestPeer::InMargin(solver, slot)) continue;
      const size_t count = SolverTestPeer::LowerAndRaise(solver, slot);
      if (round == 0) continue;
      EXPECT_EQ(count, 0u) << "slot " << slot;
      ++walks;
    }
  }
  EXPECT_GT(walks, 5u);
}

}  // namespace
}  // namespace lethe::svdd
