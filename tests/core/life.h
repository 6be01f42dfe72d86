// A random life of a memory: a sequence of inserts, forgets, replacements and evictions, each state
// held against a cold refit of the retained tokens. Everything follows from one seed.
#ifndef LETHE_TESTS_CORE_LIFE_H_
#define LETHE_TESTS_CORE_LIFE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/svdd/memory.h"
#include "tests/core/key_streams.h"
#include "tests/core/state_checks.h"

namespace lethe::svdd {

struct LifePlan {
  // Sizes are drawn log-uniformly: n to `largest`, d to 128, N to min(largest, 500). `seconds` is
  // about what its comparisons with cold refits may cost; a large life is compared every few
  // operations instead of after each.
  static LifePlan Draw(uint64_t seed, size_t largest, double seconds);
  std::string Describe() const;

  uint64_t seed = 0;
  KeyRegime regime = KeyRegime::kGaussian;
  size_t dimension = 1;
  size_t largest = 1;  // tokens
  double capacity = 1.0;
  bool by_box = false;  // C given instead of N
  kernel::Kernel kernel;
  DuplicatesPolicy duplicates = DuplicatesPolicy::kShared;
  size_t operations = 0;
  size_t check_every = 1;
};

struct LifeResult {
  bool finished = false;  // no operation was refused or INTERNAL
  uint64_t operations = 0;
  uint64_t comparisons = 0;
  uint64_t equal_partition = 0;
  uint64_t equal_digest = 0;
  uint64_t uncertified = 0;  // published states without a proof or refused by the KKT check
  SolverCounters counters;
  std::map<std::string, uint64_t> kinds;  // operations by kind
  std::string fault;                      // the first, empty when all is well
};

class Life {
 public:
  explicit Life(const LifePlan& plan);
  LifeResult Run();

 private:
  void Step();
  void Insert(size_t count);
  void Forget(const std::vector<size_t>& positions, const std::string& kind);
  void ForgetSome();
  void ReplaceSome();
  void EvictSome();
  void Preview(const std::vector<TokenHandle>& handles);
  // After every operation: status, counters, proof; and every so often the comparison.
  void Finish(const absl::StatusOr<UpdateReport>& report, const std::string& kind);
  void Compare();
  void Fault(const std::string& what);

  OwnedToken DrawToken();
  // Distinct positions in alive_, in random order.
  std::vector<size_t> Positions(size_t count);
  std::vector<TokenHandle> HandlesAt(const std::vector<size_t>& positions) const;
  void Remove(const std::vector<TokenHandle>& handles);
  size_t Uniform(size_t low, size_t high);
  bool Chance(double probability);

  const LifePlan plan_;
  std::mt19937_64 random_;
  KeyStream keys_;
  std::unique_ptr<ExactMemory> memory_;
  std::vector<OwnedToken> alive_;
  std::map<TokenHandle, int> subject_;
  std::vector<double> last_key_;  // near the tokens: a query
  std::vector<double> far_query_;
  TokenHandle next_ = 1;
  size_t target_ = 0;
  SolverCounters before_;
  LifeResult result_;
};

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_LIFE_H_
