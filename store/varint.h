// Whole numbers in LEB128, as blobs of the store have them: seven bits a byte, the low ones first,
// the high bit set in all but the last. Threads: functions without state.
#ifndef LETHE_STORE_VARINT_H_
#define LETHE_STORE_VARINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lethe::store {

inline void AppendVarint(std::string& out, uint64_t number) {
  for (; number >= 0x80; number >>= 7) {
    out.push_back(static_cast<char>((number & 0x7f) | 0x80));
  }
  out.push_back(static_cast<char>(number));
}

// Takes one off the front; nullopt, with `bytes` wherever it stands, where there is none of at most
// 64 bits.
inline std::optional<uint64_t> TakeVarint(absl::string_view& bytes) {
  uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    if (bytes.empty() || shift > 63) return std::nullopt;
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

}  // namespace lethe::store

#endif  // LETHE_STORE_VARINT_H_
