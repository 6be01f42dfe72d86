// Little-endian integers in byte strings, internal to the vault. Requires enough bytes.
// Threads: functions without state.
#ifndef LETHE_STORE_VAULT_BYTES_H_
#define LETHE_STORE_VAULT_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lethe::store {

template <typename Unsigned>
void PutLittleEndian(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof(Unsigned); ++i) {
    out.push_back(static_cast<char>(static_cast<uint8_t>(value >> (8 * i))));
  }
}

template <typename Unsigned>
Unsigned GetLittleEndian(absl::string_view bytes, size_t offset) {
  Unsigned value = 0;
  for (size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= static_cast<Unsigned>(static_cast<uint8_t>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_BYTES_H_
