// C2SP signed notes: a text, a blank line, and signatures of it.
//
//     text || 0A || { E2 80 94 20 name 20 base64(key_id4 || signature) 0A }
//
// The text ends with a newline, which is signed; the blank line is not. The last blank line
// separates. A note is UTF-8 without control characters other than the newline. Base64 is strict,
// so that a note has one text. Duplicate lines and lines of unknown keys are kept: who verifies
// decides. Nothing here has been verified. Errors: INVALID_ARGUMENT. Cost: linear. Threads: safe.
// Source: c2sp.org/signed-note@v1.0.0.
#ifndef LETHE_AUDIT_NOTE_H_
#define LETHE_AUDIT_NOTE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::audit {

inline constexpr size_t kMaxNoteBytes = size_t{1} << 20;
inline constexpr size_t kMaxNoteSignatures = 100;

struct NoteSignature {
  std::string name;       // 1 to 255 bytes, no Unicode space, no '+'
  std::string key_id;     // 4 bytes
  std::string signature;  // what follows the key id, at least a byte

  friend bool operator==(const NoteSignature&, const NoteSignature&) = default;
};

struct Note {
  std::string text;  // ends with a newline
  std::vector<NoteSignature> signatures;

  friend bool operator==(const Note&, const Note&) = default;
};

absl::StatusOr<Note> ParseNote(absl::string_view note);
// The one text that parses to this note. Requires a note as ParseNote returns it, perhaps with more
// signatures.
std::string SerializeNote(const Note& note);

// One signature line, with its newline.
absl::StatusOr<NoteSignature> ParseSignatureLine(absl::string_view line);
std::string SerializeSignatureLine(const NoteSignature& signature);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_NOTE_H_
