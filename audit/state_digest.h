// The bytes of a token, and the digests of a configuration and of a state.
//
//     token bytes   field(id) field(key) field(value) field(subject) field(payload)
//                   u32(labels) { field(name) field(value) }*      field(x) = u32be(size) || x
//     plain leaf    SHA256("lethe/token/v1" || 00 || token bytes)
//     blinded leaf  SHA256("lethe/token-commitment/v1" || 00 || salt32 || token bytes)
//     config        SHA256("lethe/config/v1" || 00 || u8 kernel || f64 parameter || f64 total ||
//     f64 box
//                   || u8 duplicates || u32 key dimension || u32 value dimension)
//                   and with an encoder: SHA256("lethe/config/v2" || 00 || the same || encoder32)
//     state         SHA256("lethe/state/v1" || 00 || config32 || u8 phase || u64 n || mu
//                   || u64 supports || { leaf32 || u8 label || f64 alpha }* || root32)
//     mu            00: none | 01 f64: unique | 02 end end: interval, end = 00: unbounded | 01 f64
//
// All numbers big-endian, doubles as IEEE-754 bits; keys and values are runs of doubles; labels
// sorted by name. A state is digested twice: with plain leaves and the plain tree root it is the
// tenant's own answer to "equal to a memory that never saw it?", and stays with the tenant (it
// confirms guesses of an erased token); with blinded leaves and the blinded root it is public and
// enters certificates.
//
// Cost: linear in the input. Threads: safe. docs/certificate_format.md, section 6.
#ifndef LETHE_AUDIT_STATE_DIGEST_H_
#define LETHE_AUDIT_STATE_DIGEST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/random.h"

namespace lethe::audit {

struct TokenContent {
  absl::string_view id;
  std::span<const double> key;
  std::span<const double> value;
  absl::string_view subject;
  absl::string_view payload;
  // In any order; requires distinct names.
  std::span<const std::pair<std::string, std::string>> labels;
};

// Requires every field to be shorter than 2^32 bytes. Keeps the doubles' bits, also those of -0.0.
std::string EncodeToken(const TokenContent& token);
Digest PlainLeaf(absl::string_view token_bytes);
Digest BlindedLeaf(const Salt& salt, absl::string_view token_bytes);

// Plain values of svdd::MemoryOptions: enumerators as numbers, Capacity as total() and box().
struct ConfigContent {
  uint8_t kernel_kind = 0;
  double kernel_parameter = 0.0;
  double total = 0.0;
  double box = 0.0;
  uint8_t duplicates = 0;
  uint32_t key_dimension = 0;
  uint32_t value_dimension = 0;
  std::optional<Digest> encoder = {};  // SHA-256 of the artefact that stands before the memory
};
Digest ConfigDigest(const ConfigContent& config);

struct SupportContent {
  Digest leaf{};
  uint8_t label = 0;  // 1 margin, 2 error
  double alpha = 0.0;
};

struct StateContent {
  Digest config{};
  uint8_t phase = 0;  // 1 empty, 2 warming, 3 active
  uint64_t tokens = 0;
  // As in svdd::Snapshot. In the active phase without mu the ends describe an interval, absent ends
  // being unbounded; in the other phases all three are absent.
  std::optional<double> mu;
  std::optional<double> mu_low;
  std::optional<double> mu_high;
  std::vector<SupportContent> supports;  // insertion order
  Digest tree_root{};
};
Digest StateDigest(const StateContent& state);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_STATE_DIGEST_H_
