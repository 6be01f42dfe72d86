// The problem and everything that decides its solution besides the tokens.
//
//     min_a  a'Ka - diag(K)'a    s.t.  sum_i a_i = 1,  0 <= a_i <= C       K_ij = kappa(x_i, x_j)
//     (1)
//
// x_i in R^d are the keys of the retained tokens in insertion order. kappa is fixed, C (the box) in
// (0, 1] is fixed. Solver and state work in mass units: w = total a, so that the two constants
// below are exact doubles and "at the box" is an exact statement.
//
//     1/C an integer N (to 1e-9 relative), or N given:  total = N, box = 1     else:  total = 1,
//     box = C
//
// With fewer tokens than 1/C the problem is infeasible; the memory is then warming and every weight
// is 1/n. docs/math.md, section 1.
#ifndef LETHE_CORE_SVDD_PROBLEM_H_
#define LETHE_CORE_SVDD_PROBLEM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"

namespace lethe::svdd {

inline constexpr int kMaxKeyDimension = 4096;
inline constexpr int kMaxValueDimension = 4096;
inline constexpr double kMaxValue = 1e300;  // weighted sums of values stay finite
// At least this many tokens carry weight, and the solver holds their Gram matrix: 24 bytes a pair,
// and three times that during a cold solve.
inline constexpr double kMaxCapacity = 4096;

// The box C, exactly as the problem uses it.
class Capacity {
 public:
  // 0 < C <= 1, C >= 1 / kMaxCapacity. INVALID_ARGUMENT names "box".
  static absl::StatusOr<Capacity> FromBox(double box);
  // N = 1/C, 1 <= N <= kMaxCapacity. INVALID_ARGUMENT names "capacity".
  static absl::StatusOr<Capacity> FromCapacity(double capacity);

  // The mass that all weights together hold, and the largest mass of one token. Both exact.
  double total() const { return total_; }
  double box() const { return box_; }
  // C rounded to nearest: the weight of an error token.
  double weight_at_box() const { return box_ / total_; }
  // True while n tokens cannot hold the total: n box < total.
  bool Warming(size_t tokens) const;

  friend bool operator==(const Capacity&, const Capacity&) = default;

 private:
  Capacity(double total, double box) : total_(total), box_(box) {}
  double total_;
  double box_;
};

// How a group of tokens with bit-identical keys (after -0.0 -> 0.0) divides its mass. Over distinct
// keys the optimum is unique; without such a rule the readout over copies would not be.
enum class DuplicatesPolicy : uint8_t {
  kShared = 1,       // equal shares: the optimum of least norm
  kOldestFirst = 2,  // copies are filled to the box in insertion order
  kNewestFirst = 3,  // and in the reverse order
};

struct MemoryOptions {
  kernel::Kernel kernel;
  Capacity capacity;
  DuplicatesPolicy duplicates = DuplicatesPolicy::kShared;
  int key_dimension = 0;
  int value_dimension = 0;

  friend bool operator==(const MemoryOptions&, const MemoryOptions&) = default;
};

// INVALID_ARGUMENT names the field: "kernel.gamma", "key_dimension", ...
absl::Status Validate(const MemoryOptions& options);

// Names a token of a memory. Chosen by the caller; larger means inserted later.
using TokenHandle = uint64_t;

// The optimal partition; decided by the exact mass alone (0, box or between), so that a tie in the
// gradient never makes two answers.
enum class Label : uint8_t { kReserve = 0, kMargin = 1, kError = 2 };

enum class Phase : uint8_t { kEmpty = 1, kWarming = 2, kActive = 3 };

struct PartitionCounts {
  uint64_t margin = 0;
  uint64_t error = 0;
  uint64_t reserve = 0;

  friend bool operator==(const PartitionCounts&, const PartitionCounts&) = default;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_PROBLEM_H_
