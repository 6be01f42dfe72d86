// The rules for everything that a client names: tenants, memories, tokens, subjects, labels and
// requests, with the limits that proto/lethe/v1 states.
//
// Each check returns OK, or INVALID_ARGUMENT with "<field>: <what is wrong>". A message never
// repeats the offending text: names and ids can be personal data.
#ifndef LETHE_SERVER_SERVICE_NAMES_H_
#define LETHE_SERVER_SERVICE_NAMES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lethe::service {

inline constexpr size_t kMaxNameBytes = 63;
inline constexpr size_t kMaxTokenIdBytes = 256;
inline constexpr size_t kMaxSubjectBytes = 256;
inline constexpr size_t kMaxPayloadBytes = 65536;
inline constexpr size_t kMaxEncoderBytes = size_t{4} << 20;  // of a memory
inline constexpr size_t kMaxLabels = 16;
inline constexpr size_t kMaxLabelBytes = 128;
inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxReasonBytes = 1024;
inline constexpr size_t kMaxBatch = 10000;
inline constexpr size_t kMaxTopTokens = 1000;
inline constexpr size_t kDefaultPageSize = 100;
inline constexpr size_t kMaxPageSize = 1000;

// INVALID_ARGUMENT whose message is "<field>: <what>".
absl::Status FieldError(absl::string_view field, absl::string_view what);

// Whether well-formed UTF-8 text holds a control character: U+0000 to U+001F, U+007F to U+009F.
bool HasControlCharacter(absl::string_view text);

// NOT_FOUND: what is said of a tenant that does not exist, and of one that the caller may not know
// of.
absl::Status NoSuchTenant();

// A tenant or a memory: 1 to 63 characters of [a-z0-9-], starting and ending with a letter or
// digit.
absl::Status CheckName(absl::string_view field, absl::string_view name);

// 1 to 256 bytes of UTF-8 without control characters.
absl::Status CheckTokenId(absl::string_view field, absl::string_view id);

// At most 256 bytes of UTF-8 without control characters; empty means no subject.
absl::Status CheckSubject(absl::string_view field, absl::string_view subject);

// A name or value of a label: at most 128 bytes of UTF-8 without control characters; a name is not
// empty.
absl::Status CheckLabelName(absl::string_view field, absl::string_view name);
absl::Status CheckLabelValue(absl::string_view field, absl::string_view value);

// Why something is done: at most 1,024 bytes of UTF-8 without control characters.
absl::Status CheckReason(absl::string_view field, absl::string_view reason);

// What the server named: 32 lower-case hex digits.
absl::Status CheckHexId(absl::string_view field, absl::string_view id);

// At most 128 bytes of printable ASCII; empty lets the server choose.
absl::Status CheckRequestId(absl::string_view field, absl::string_view request_id);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_NAMES_H_
