// The kinds of keys of the published experiments on forgetting: d = 6, rbf with sigma = 2.
#ifndef LETHE_TESTS_BENCH_REGIMES_H_
#define LETHE_TESTS_BENCH_REGIMES_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/data.h"
#include "tests/bench/icu.h"
#include "tests/bench/result.h"

namespace lethe::bench {

inline constexpr size_t kRegimeDimension = 6;
inline constexpr size_t kRegimeValues = 3;
inline constexpr double kRegimeGamma = 1.0 / (2.0 * 2.0);

enum class Regime {
  kGaussian,   // N(0, 1)
  kRedundant,  // 4 centres of 2 N(0, 1) in turn, noise 0.02: 24 tokens are 6 copies of each
  kIcu,        // consecutive hours of a stay, six vitals, filled and z-scored
  kLearned,    // N(0, 1) scaled to length 4: nearly orthogonal, as learned keys are
};
inline constexpr std::array<Regime, 4> kRegimes = {Regime::kGaussian, Regime::kRedundant,
                                                   Regime::kIcu, Regime::kLearned};

class Regimes {
 public:
  // With stays of --icu FILE, or of the stand-in when `path` is empty.
  static absl::StatusOr<Regimes> Make(const std::string& path, uint64_t seed);

  std::string Name(Regime regime) const;
  // What was used for hours of intensive care.
  std::string Note() const;
  const std::vector<Stay>& stays() const { return stays_; }

 private:
  std::string path_;
  std::vector<Stay> stays_;
};

// An endless stream of one kind.
class TokenSource {
 public:
  TokenSource(const Regimes& regimes, Regime regime, uint64_t seed);
  Token Next();
  std::vector<Token> Take(size_t count);
  Random& random() { return random_; }

 private:
  Vector NextKey();

  const Regimes* regimes_;
  Regime regime_;
  Random random_;
  std::vector<Vector> centres_;
  size_t turn_ = 0;
  const Stay* stay_ = nullptr;
  size_t hour_ = 0;
};

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_REGIMES_H_
