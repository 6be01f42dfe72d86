#include "audit/checkpoint.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

absl::Status Refuse(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("checkpoint: ", problem));
}

CheckpointResult Failed(Failure failure, std::string message) {
  CheckpointResult result;
  result.failure = failure;
  result.message = std::move(message);
  return result;
}

}  // namespace

std::string CheckpointText(const Checkpoint& checkpoint) {
  return absl::StrCat(checkpoint.origin, "\n", checkpoint.size, "\n", Base64(checkpoint.root),
                      "\n");
}

absl::StatusOr<Checkpoint> ParseCheckpointText(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() != 4 || !lines[3].empty()) return Refuse("not exactly three lines");
  Checkpoint checkpoint;
  checkpoint.origin = std::string(lines[0]);
  if (const absl::Status origin = ValidateKeyName(checkpoint.origin); !origin.ok()) {
    return Refuse(absl::StrCat("origin: ", origin.message()));
  }
  if (!absl::SimpleAtoi(lines[1], &checkpoint.size) || absl::StrCat(checkpoint.size) != lines[1] ||
      checkpoint.size > kMaxLogSize) {
    return Refuse("size: not a decimal of at most 2^63 - 1 without leading zeros");
  }
  const absl::StatusOr<Digest> root = DecodeBase64Digest(lines[2]);
  if (!root.ok()) return Refuse("root: not the base64 of 32 bytes");
  checkpoint.root = *root;
  if (checkpoint.size == 0 && checkpoint.root != EmptyRoot()) {
    return Refuse("root: not that of an empty log");
  }
  return checkpoint;
}

absl::StatusOr<std::string> SignCheckpoint(const Checkpoint& checkpoint, const Signer& signer) {
  const VerificationKey& key = signer.verification_key();
  if (checkpoint.origin != key.name()) return Refuse("the origin must be the signing key's name");
  Note note;
  note.text = CheckpointText(checkpoint);
  LETHE_RETURN_IF_ERROR(ParseCheckpointText(note.text).status());
  LETHE_ASSIGN_OR_RETURN(std::string signature, signer.Sign(note.text));
  note.signatures = {{key.name(), key.key_id(), std::move(signature)}};
  std::string text = SerializeNote(note);
  const CheckpointResult judged = VerifyCheckpoint(text, key);
  if (!judged.ok() || !(judged.checkpoint == checkpoint)) {
    return absl::InternalError(
        absl::StrCat("checkpoint: does not verify after signing: ", judged.message));
  }
  return text;
}

CheckpointResult VerifyCheckpoint(absl::string_view note, const VerificationKey& key) {
  absl::StatusOr<Note> parsed = ParseNote(note);
  if (!parsed.ok()) {
    return Failed(Failure::kMalformedCheckpoint,
                  absl::StrCat("The checkpoint is malformed: ", parsed.status().message(), "."));
  }
  absl::StatusOr<Checkpoint> checkpoint = ParseCheckpointText(parsed->text);
  if (!checkpoint.ok()) {
    return Failed(
        Failure::kMalformedCheckpoint,
        absl::StrCat("The checkpoint is malformed: ", checkpoint.status().message(), "."));
  }
  bool is_signed = false;
  for (const NoteSignature& signature : parsed->signatures) {
    if (signature.name != key.name() || signature.key_id != key.key_id()) continue;
    if (!key.Verify(parsed->text, signature.signature)) {
      return Failed(Failure::kCheckpointSignature,
                    "A signature of the checkpoint that names the key does not verify.");
    }
    is_signed = true;
  }
  if (!is_signed) {
    return Failed(Failure::kCheckpointSignature, "The checkpoint is not signed by the key.");
  }
  if (checkpoint->origin != key.name()) {
    return Failed(Failure::kCheckpointMismatch, "The checkpoint is of another log.");
  }
  CheckpointResult result;
  result.message = "Verified.";
  result.checkpoint = *std::move(checkpoint);
  result.note = *std::move(parsed);
  return result;
}

}  // namespace lethe::audit
