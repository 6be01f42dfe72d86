// What every test holds a published state against: another state bit for bit, and the independent
// KKT check over the retained tokens, copies filled one after another included.
#ifndef LETHE_TESTS_CORE_STATE_CHECKS_H_
#define LETHE_TESTS_CORE_STATE_CHECKS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/svdd/kkt_check.h"
#include "core/svdd/memory.h"

namespace lethe::svdd {

// A token that owns its numbers.
struct OwnedToken {
  TokenHandle handle = 0;
  std::vector<double> key;
  std::vector<double> value;
};

std::vector<NewToken> View(std::span<const OwnedToken> tokens);
std::vector<TokenHandle> Handles(std::span<const OwnedToken> tokens);
std::vector<double> FlatKeys(std::span<const OwnedToken> tokens);

// A memory that was given these tokens in one Insert. Requires that it accepts them.
std::unique_ptr<ExactMemory> Fresh(const MemoryOptions& options,
                                   std::span<const OwnedToken> tokens);

// Same tokens with weight, same labels, same phase.
bool SamePartition(const Snapshot& a, const Snapshot& b);

// SameBits, and every other published number that the state decides: keys and values of the
// supports, radius, and every bit of the readout of each query. (What a proof says about rounding
// may depend on the path.)
bool SameInEveryBit(const Snapshot& a,
                    const Snapshot& b,
                    std::span<const std::vector<double>> queries);
// Value, denominator, kernel sum, decision and both its ends.
bool SameReadout(const Readout& a, const Readout& b);

// Empty when the state is optimal for `tokens` (insertion order) as far as fp64 can see, else what
// is wrong. Under the two filling policies groups of copies are checked for their order of filling
// and then judged with their mass shared, which is the same point of the problem over groups.
std::string KktFault(const Snapshot& state, std::span<const OwnedToken> tokens);

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_STATE_CHECKS_H_
