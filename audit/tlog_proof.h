// A proof that an entry is in a log, in one text file.
//
//     c2sp.org/tlog-proof@v1 0A
//     index N 0A
//     { base64(hash) 0A }              the inclusion proof, from the leaf's sibling up
//     0A
//     checkpoint note
//
// The optional `extra` line, which nothing authenticates, is neither written nor accepted. Errors:
// INVALID_ARGUMENT. Threads: safe. Source: c2sp.org/tlog-proof.
#ifndef LETHE_AUDIT_TLOG_PROOF_H_
#define LETHE_AUDIT_TLOG_PROOF_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"

namespace lethe::audit {

// No log has more levels than 63.
inline constexpr size_t kMaxProofHashes = 63;

// Requires an index of at most 2^63 - 1 and at most kMaxProofHashes hashes; the note is taken as it
// is.
std::string TlogProof(uint64_t index,
                      std::span<const Digest> proof,
                      absl::string_view checkpoint_note);

struct ParsedTlogProof {
  uint64_t index = 0;
  std::vector<Digest> proof;
  std::string checkpoint_note;  // unparsed
};

// Reads what TlogProof writes, and nothing else. Says nothing about proof and checkpoint being
// good.
absl::StatusOr<ParsedTlogProof> ParseTlogProof(absl::string_view text);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TLOG_PROOF_H_
