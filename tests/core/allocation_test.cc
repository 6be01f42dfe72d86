// The walk allocates nothing: a program of its own, since it counts every operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "tests/core/solver_peer.h"

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

namespace {

using Role = SupportSet::Role;

// A margin slot's weight to half and back to its optimum: what the two walks allocate.
size_t LowerAndRaise(SolverTestPeer& solver, Slot slot) {
  const size_t before = allocations;
  EXPECT_TRUE(solver.Lower(slot, 0.5));
  size_t count = allocations - before;
  solver.Settle();
  if (solver.RoleOf(slot) != Role::kError) return count;
  const size_t again = allocations;
  EXPECT_TRUE(solver.Raise(slot));
  count += allocations - again;
  solver.Settle();
  return count;
}

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
  SolverTestPeer peer(solver);
  // The first round takes what scratch the walks need; the second must do with it.
  size_t walks = 0;
  for (int round = 0; round < 2; ++round) {
    const std::vector<Slot> margin = peer.MarginSlots();
    ASSERT_GT(margin.size(), 5u);
    for (const Slot slot : margin) {
      if (peer.RoleOf(slot) != Role::kMargin) continue;
      const size_t count = LowerAndRaise(peer, slot);
      if (round == 0) continue;
      EXPECT_EQ(count, 0u) << "slot " << slot;
      ++walks;
    }
  }
  EXPECT_GT(walks, 5u);
}

}  // namespace
}  // namespace lethe::svdd
