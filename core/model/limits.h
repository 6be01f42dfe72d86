// What options are held against, and what happens where the machine has not the memory after all.
#ifndef LETHE_CORE_MODEL_LIMITS_H_
#define LETHE_CORE_MODEL_LIMITS_H_

#include <cstdint>
#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lethe::model {

// The numbers that a trainer may hold at once: parameters with gradient and moments, and what a
// step works in. 8 GiB in float, 16 GiB in double.
inline constexpr uint64_t kMaxTrainerNumbers = uint64_t{1} << 31;

// INVALID_ARGUMENT "model.layers: must be in [1, 64], got 65". A NaN is in no range.
template <typename Number>
absl::Status InRange(absl::string_view field,
                     Number value,
                     std::type_identity_t<Number> low,
                     std::type_identity_t<Number> high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be in [", low, ", ", high, "], got ", value));
}

// What `work` answers, a status or a StatusOr; RESOURCE_EXHAUSTED where it runs out of memory.
template <typename Work>
auto WithinMemory(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a trainer of these options");
  }
}

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_LIMITS_H_
