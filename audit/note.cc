#include "audit/note.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "audit/encoding.h"
#include "audit/utf8.h"
#include "audit/vkey.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kDash = "\xE2\x80\x94 ";
constexpr size_t kMaxNameBytes = 255;
// Unicode's White_Space above ASCII.
constexpr absl::string_view kSpaces[] = {"\u0085", "\u00A0", "\u1680", "\u2000", "\u2001",
                                         "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                         "\u2007", "\u2008", "\u2009", "\u200A", "\u2028",
                                         "\u2029", "\u202F", "\u205F", "\u3000"};

absl::Status Refuse(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("note: ", problem));
}

absl::Status CheckCharacters(absl::string_view text) {
  if (!IsValidUtf8(text)) return Refuse("not UTF-8");
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<uint8_t>(text[i]) < 0x20 && text[i] != '\n') {
      return Refuse(absl::StrCat("offset ", i, ": a control character"));
    }
  }
  return absl::OkStatus();
}

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  if (name.find_first_of(" +") != absl::string_view::npos) return false;
  return std::none_of(std::begin(kSpaces), std::end(kSpaces), [&](absl::string_view space) {
    return name.find(space) != absl::string_view::npos;
  });
}

// Without its newline; UTF-8 and control characters have been looked at.
absl::StatusOr<NoteSignature> ParseLine(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kDash)) {
    return Refuse("a signature line does not begin with a dash and a space");
  }
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) return Refuse("a signature line without signature");
  NoteSignature signature;
  signature.name = std::string(line.substr(0, space));
  if (!IsName(signature.name)) return Refuse("a signature line with a bad key name");
  const absl::StatusOr<std::string> bytes = DecodeBase64(line.substr(space + 1));
  if (!bytes.ok()) return Refuse("a signature that is not base64");
  if (bytes->size() <= kKeyIdBytes) return Refuse("a signature that is too short");
  signature.key_id = bytes->substr(0, kKeyIdBytes);
  signature.signature = bytes->substr(kKeyIdBytes);
  return signature;
}

}  // namespace

absl::StatusOr<Note> ParseNote(absl::string_view note) {
  if (note.size() > kMaxNoteBytes) return Refuse("longer than 1 MiB");
  LETHE_RETURN_IF_ERROR(CheckCharacters(note));
  if (note.empty() || note.back() != '\n') return Refuse("does not end with a newline");
  const size_t blank = note.rfind("\n\n");
  if (blank == absl::string_view::npos) return Refuse("no blank line");
  Note parsed;
  parsed.text = std::string(note.substr(0, blank + 1));
  absl::string_view rest = note.substr(blank + 2);
  if (rest.empty()) return Refuse("no signature");
  while (!rest.empty()) {
    if (parsed.signatures.size() == kMaxNoteSignatures) return Refuse("too many signatures");
    const size_t end = rest.find('\n');
    LETHE_ASSIGN_OR_RETURN(NoteSignature signature, ParseLine(rest.substr(0, end)));
    parsed.signatures.push_back(std::move(signature));
    rest.remove_prefix(end + 1);
  }
  return parsed;
}

std::string SerializeNote(const Note& note) {
  std::string text = absl::StrCat(note.text, "\n");
  for (const NoteSignature& signature : note.signatures) text += SerializeSignatureLine(signature);
  return text;
}

absl::StatusOr<NoteSignature> ParseSignatureLine(absl::string_view line) {
  if (line.size() > kMaxNoteBytes) return Refuse("a signature line longer than 1 MiB");
  LETHE_RETURN_IF_ERROR(CheckCharacters(line));
  if (line.empty() || line.find('\n') != line.size() - 1) {
    return Refuse("not one line that ends with a newline");
  }
  return ParseLine(line.substr(0, line.size() - 1));
}

std::string SerializeSignatureLine(const NoteSignature& signature) {
  return absl::StrCat(kDash, signature.name, " ",
                      Base64(absl::StrCat(signature.key_id, signature.signature)), "\n");
}

}  // namespace lethe::audit
