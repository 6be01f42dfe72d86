// Looks for what must be gone in the raw bytes of a file.
//
// Three kinds of evidence that a copy of a slot stayed: eight bytes in a row of its wrapped key, at
// any of eight places in it; a slot header with its number; a slot header with an epoch of the KEK.
// The headers find copies whose bytes nobody knows any more, after a crash.
//
// A file of n bytes meets k patterns of eight bytes by chance with probability below n k 2^-64.
// Cost: one pass over the file, about a nanosecond a byte; before it the kernel is asked to drop
// its cached pages, so that the device is read. Errors: of the system, by Scan. Threads:
// compatible.
#ifndef LETHE_STORE_VAULT_RESIDUE_H_
#define LETHE_STORE_VAULT_RESIDUE_H_

#include <bitset>
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::store {

struct Residue {
  uint64_t bytes_read = 0;
  uint64_t hits = 0;          // places where a pattern stands
  uint64_t first_offset = 0;  // of the first hit
};

class ResidueScanner {
 public:
  ResidueScanner();
  ~ResidueScanner();  // wipes the patterns
  ResidueScanner(const ResidueScanner&) = delete;
  ResidueScanner& operator=(const ResidueScanner&) = delete;

  void AddSlot(uint64_t slot);
  void AddEpoch(uint32_t epoch);
  // Requires kWrappedKeyBytes bytes.
  void AddWrappedKey(absl::string_view wrapped);

  // From the start to the end of an open file.
  absl::StatusOr<Residue> Scan(int file);

 private:
  using Filter = std::bitset<size_t{1} << 20>;

  bool Hit(const char* at, size_t left) const;

  std::unordered_set<uint64_t> slots_;
  std::set<uint32_t> epochs_;
  std::vector<uint64_t> chunks_;  // sorted by Scan
  // Places that begin with four bytes of no pattern are passed over with one look.
  std::unique_ptr<Filter> filter_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_RESIDUE_H_
