#include "core/svdd/problem.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/double_double.h"
#include "core/base/status_macros.h"

namespace lethe::svdd {
namespace {

// 1/C counts as the integer N within this relative distance: 0.1 in binary is not 1/10.
constexpr double kSnap = 1e-9;

}  // namespace

absl::StatusOr<Capacity> Capacity::FromBox(double box) {
  if (!(box > 0.0) || !(box <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat("box: must be in (0, 1], got ", box));
  }
  if (box < 1.0 / kMaxCapacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("box: must be at least ", 1.0 / kMaxCapacity, ", got ", box));
  }
  const double nearest = std::round(1.0 / box);
  if (std::abs(1.0 / box - nearest) <= kSnap * nearest) return Capacity(nearest, 1.0);
  return Capacity(1.0, box);
}

absl::StatusOr<Capacity> Capacity::FromCapacity(double capacity) {
  if (!(capacity >= 1.0) || !(capacity <= kMaxCapacity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity: must be in [1, ", kMaxCapacity, "], got ", capacity));
  }
  const double nearest = std::round(capacity);
  if (std::abs(capacity - nearest) <= kSnap * nearest) return Capacity(nearest, 1.0);
  // Not an integer: token units already have exact constants.
  return Capacity(capacity, 1.0);
}

bool Capacity::Warming(size_t tokens) const {
  return TwoProduct(static_cast<double>(tokens), box_) < DoubleDouble(total_);
}

absl::Status Validate(const MemoryOptions& options) {
  LETHE_RETURN_IF_ERROR(kernel::Validate(options.kernel));
  if (options.key_dimension < 1 || options.key_dimension > kMaxKeyDimension) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key_dimension: must be in [1, ", kMaxKeyDimension, "], got ", options.key_dimension));
  }
  if (options.value_dimension < 1 || options.value_dimension > kMaxValueDimension) {
    return absl::InvalidArgumentError(absl::StrCat("value_dimension: must be in [1, ",
                                                   kMaxValueDimension, "], got ",
                                                   options.value_dimension));
  }
  return absl::OkStatus();
}

}  // namespace lethe::svdd
