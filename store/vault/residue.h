// Looks for what must be gone in the raw bytes of a file.
//
// Three kinds of evidence that a copy of a slot stayed: eight bytes in a row of its wrapped key, at
// any of eight places in it; a slot header with its number; a slot header with an epoch of the KEK.
// The headers find copies whose bytes nobody knows any more, after a crash.
//
// Eight bytes with fewer than five different values are no pattern: such bytes stand in free space
// and in SQLite's own structures (zeros, small numbers), where they say nothing of a key. What
// follows, for a wrapped key, whose bytes are random: each of its eight patterns is left out with
// probability below 4e-7. Any 15 bytes in a row of it hold one of them, any 23 two, so a copy of 15
// bytes is missed with that probability, one of 23 bytes with its square, a whole one never in
// practice. A slot that was damaged into few values may have no pattern; its header is searched.
//
// A file of n bytes meets k patterns of eight bytes by chance with probability below n k 2^-64.
// Cost: one pass over the file, about a nanosecond a byte; before it the kernel is asked to drop
// its cached pages, so that the device is read. Errors: of the system, by Scan. Threads:
// compatible.
#ifndef LETHE_STORE_VAULT_RESIDUE_H_
#define LETHE_STORE_VAULT_RESIDUE_H_

#include <openssl/crypto.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::store {

// What a container gives back, also while it grows, is wiped first.
template <typename T>
struct WipingAllocator {
  using value_type = T;
  WipingAllocator() = default;
  template <typename Other>
  explicit WipingAllocator(const WipingAllocator<Other>&) {}
  T* allocate(size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* at, size_t count) {
    OPENSSL_cleanse(at, count * sizeof(T));
    std::allocator<T>().deallocate(at, count);
  }
  bool operator==(const WipingAllocator&) const = default;
};

struct Residue {
  uint64_t bytes_read = 0;
  uint64_t hits = 0;          // places where a pattern stands
  uint64_t first_offset = 0;  // of the first hit
};

class ResidueScanner {
 public:
  ResidueScanner();
  ~ResidueScanner();
  ResidueScanner(const ResidueScanner&) = delete;
  ResidueScanner& operator=(const ResidueScanner&) = delete;

  void AddSlot(uint64_t slot);
  void AddEpoch(uint32_t epoch);
  // Requires kWrappedKeyBytes bytes. Keeps eight times eight of them, wiped with the scanner.
  void AddWrappedKey(absl::string_view wrapped);

  // From the start to the end of an open file.
  absl::StatusOr<Residue> Scan(int file);

 private:
  using Filter = std::bitset<size_t{1} << 23>;

  bool Hit(const char* at, size_t left) const;

  std::vector<uint64_t> slots_;  // sorted by Scan
  std::set<uint32_t> epochs_;
  std::vector<uint64_t, WipingAllocator<uint64_t>> chunks_;  // sorted by Scan
  // Places that begin with four bytes of no pattern are passed over with one look.
  std::unique_ptr<Filter> filter_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_RESIDUE_H_
