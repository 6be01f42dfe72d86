// What long churn must not change: bounds are summed over thousands of moves.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "core/svdd/memory.h"

namespace lethe::svdd {
namespace {

// With no margin the lower end of mu is set by one reserve token. Which one must not be lost in the
// rounding of a drift that is 10^15 times the difference between two of them.
TEST(ChurnTest, TheLowerEndOfMuIsTheRefits) {
  const auto memory = ExactMemory::Create({{kernel::KernelKind::kRbf, 0.1},
                                           *Capacity::FromCapacity(2),
                                           DuplicatesPolicy::kShared,
                                           2,
                                           1})
                          .value();
  TokenHandle last = 0;
  const auto insert = [&](double x, double y) {
    const double key[] = {x, y};
    const double value = 1.0;
    const NewToken token{++last, key, {&value, 1}};
    EXPECT_TRUE(memory->Insert({&token, 1}).ok());
    return last;
  };
  const auto forget = [&](TokenHandle handle) { EXPECT_TRUE(memory->Forget({&handle, 1}).ok()); };
  insert(-1, 0);
  insert(1, 0);
  for (int i = 0; i < 4000; ++i) forget(insert(0, 50));
  constexpr int kSeed = 11;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> uniform;
  int compared = 0;
  for (int i = 0; i < 300; ++i) {
    const double y = 0.3 + 0.4 * uniform(random);
    const TokenHandle first = insert(0, y);
    const TokenHandle second = insert(0, y + 1e-14 + 1e-12 * uniform(random));
    const auto state = memory->snapshot();
    if (state->mu_low.has_value()) ++compared;
    EXPECT_TRUE(SameBits(*state, *memory->Refit())) << "seed " << kSeed << " pair " << i;
    forget(second);
    forget(first);
  }
  EXPECT_EQ(compared, 300);
}

}  // namespace
}  // namespace lethe::svdd
