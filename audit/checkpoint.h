// Checkpoints: signed notes that state size and root of a log.
//
//     text   origin 0A size 0A base64(root) 0A        origin = name of the log and of its keys
//
// Extension lines, which C2SP allows and recommends against, are refused: a checkpoint has one
// text. Threads: safe. Source: c2sp.org/tlog-checkpoint@v1.0.0.
#ifndef LETHE_AUDIT_CHECKPOINT_H_
#define LETHE_AUDIT_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/note.h"
#include "audit/signer.h"
#include "audit/verify.h"

namespace lethe::audit {

// At most 2^63 - 1, which other readers of checkpoints hold too.
inline constexpr uint64_t kMaxLogSize = ~uint64_t{0} >> 1;

struct Checkpoint {
  std::string origin;
  uint64_t size = 0;
  Digest root{};

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// Requires an origin that ValidateKeyName accepts and a size of at most kMaxLogSize.
std::string CheckpointText(const Checkpoint& checkpoint);
// INVALID_ARGUMENT for any text that CheckpointText would not have written, and for an empty log
// with another root than SHA256("").
absl::StatusOr<Checkpoint> ParseCheckpointText(absl::string_view text);

// The whole note, with this one signature. INVALID_ARGUMENT unless the origin is the signer's name
// and the text parses. What it returns has been verified with the signer's public key (INTERNAL
// when that fails).
absl::StatusOr<std::string> SignCheckpoint(const Checkpoint& checkpoint, const Signer& signer);

struct CheckpointResult {
  Failure failure = Failure::kNone;
  std::string message;  // one English sentence without content of the note
  // Set when nothing failed.
  Checkpoint checkpoint;
  Note note;

  bool ok() const { return failure == Failure::kNone; }
};

// The checks, in this order: note and text parse (kMalformedCheckpoint); at least one line is the
// pinned key's and each of those verifies (kCheckpointSignature); the origin is the key's name
// (kCheckpointMismatch). Lines of other keys are ignored.
CheckpointResult VerifyCheckpoint(absl::string_view note, const VerificationKey& key);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_CHECKPOINT_H_
