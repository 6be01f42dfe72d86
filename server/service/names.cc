#include "server/service/names.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "audit/utf8.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

// The byte at `i` as a number, so that comparisons do not depend on the sign of char.
uint8_t Byte(absl::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

bool IsNameCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
}

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return FieldError(field,
                      absl::StrCat("is ", text.size(), " bytes long, the limit is ", max_bytes));
  }
  if (!audit::IsValidUtf8(text)) return FieldError(field, "is not valid UTF-8");
  if (HasControlCharacter(text)) return FieldError(field, "contains a control character");
  return absl::OkStatus();
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status NoSuchTenant() { return absl::NotFoundError("tenant: there is none with this name"); }

bool HasControlCharacter(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = Byte(text, i);
    if (byte < 0x20 || byte == 0x7F) return true;
    // U+0080 to U+009F are C2 80 to C2 9F.
    if (byte == 0xC2 && i + 1 < text.size() && Byte(text, i + 1) < 0xA0) return true;
  }
  return false;
}

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  constexpr absl::string_view kRule =
      "must be 1 to 63 characters of a-z, 0-9 and '-', starting and ending with a letter or digit";
  if (name.empty()) return FieldError(field, absl::StrCat("is empty; it ", kRule));
  if (name.size() > kMaxNameBytes || name.front() == '-' || name.back() == '-') {
    return FieldError(field, kRule);
  }
  for (const char c : name) {
    if (!IsNameCharacter(c)) return FieldError(field, kRule);
  }
  return absl::OkStatus();
}

absl::Status CheckTokenId(absl::string_view field, absl::string_view id) {
  if (id.empty()) return FieldError(field, "is empty");
  return CheckText(field, id, kMaxTokenIdBytes);
}

absl::Status CheckSubject(absl::string_view field, absl::string_view subject) {
  return CheckText(field, subject, kMaxSubjectBytes);
}

absl::Status CheckLabelName(absl::string_view field, absl::string_view name) {
  if (name.empty()) return FieldError(field, "has an empty label name");
  return CheckText(field, name, kMaxLabelBytes);
}

absl::Status CheckLabelValue(absl::string_view field, absl::string_view value) {
  return CheckText(field, value, kMaxLabelBytes);
}

absl::Status CheckReason(absl::string_view field, absl::string_view reason) {
  return CheckText(field, reason, kMaxReasonBytes);
}

absl::Status CheckHexId(absl::string_view field, absl::string_view id) {
  const bool good =
      id.size() == 32 && id.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
  return good ? absl::OkStatus() : FieldError(field, "must be 32 lower-case hex digits");
}

absl::Status CheckRequestId(absl::string_view field, absl::string_view request_id) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return FieldError(field, absl::StrCat("is ", request_id.size(), " bytes long, the limit is ",
                                          kMaxRequestIdBytes));
  }
  for (const char c : request_id) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) {
      return FieldError(field, "must be printable ASCII");
    }
  }
  return absl::OkStatus();
}

}  // namespace lethe::service
