// Checks of arguments and columns, internal to the store. Messages start with the field and never
// hold a value.
#ifndef LETHE_STORE_VALIDATION_H_
#define LETHE_STORE_VALIDATION_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "store/tenant_store.h"

namespace lethe::store {

inline absl::Status CheckLength(absl::string_view field,
                                absl::string_view value,
                                size_t least,
                                size_t most) {
  if (value.size() >= least && value.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value.size(), " bytes, must be ", least, " to ", most));
}

// Exactly `size` lower-case hex digits.
inline absl::Status CheckHex(absl::string_view field, absl::string_view value, size_t size) {
  const bool good = value.size() == size && std::all_of(value.begin(), value.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be ", size, " lower-case hex digits"));
}

inline absl::Status CheckPageSize(absl::string_view field, uint32_t limit) {
  if (limit >= 1 && limit <= kMaxPageSize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", limit, ", must be 1 to ", kMaxPageSize));
}

// SQLite's integers are signed; what lies above its range sorts after everything stored.
inline int64_t ClampToInt64(uint64_t value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(value, kMost));
}

// A hash out of a column: DATA_LOSS unless it has 32 bytes.
inline absl::StatusOr<Bytes32> ReadHash(absl::string_view bytes) {
  Bytes32 out;
  if (bytes.size() != out.size()) {
    return absl::DataLossError(absl::StrCat("a stored hash has ", bytes.size(), " bytes, not 32"));
  }
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

}  // namespace lethe::store

#endif  // LETHE_STORE_VALIDATION_H_
