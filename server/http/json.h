// Between JSON and the messages of proto/lethe/v1, by proto3's own mapping, so that HTTP and gRPC
// have one schema. Threads: safe.
#ifndef LETHE_SERVER_HTTP_JSON_H_
#define LETHE_SERVER_HTTP_JSON_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::http {

inline constexpr int kMaxJsonDepth = 16;

// OK for JSON as RFC 8259 has it, in UTF-8, whose names are not repeated within an object, nested
// at most kMaxJsonDepth deep, with at most 10,000 names in an object and 300,000 objects and texts
// in all. INVALID_ARGUMENT says what is wrong and where ("body: at byte 17:
// ...") and holds nothing of the text. Cost: O(bytes); recursion: none.
//
// To be asked before any other reader sees a text from outside: the one of Protocol Buffers takes
// more than JSON, and is recursive.
absl::Status CheckJson(absl::string_view text);

// Fills the message. Unknown fields are refused; numbers of 64 bits are texts or numbers; doubles
// are read to the nearest, "-0" with its sign; NaN and infinities are not JSON but the texts "NaN",
// "Infinity" and "-Infinity", which no call takes. Empty text is an empty object. INVALID_ARGUMENT
// names the field ("tokens[3].key[1]") and never a value.
absl::Status FromJson(absl::string_view text, google::protobuf::Message* message);

// As proto3 maps it: names in lowerCamelCase, 64 bits as text, bytes as base64, doubles in the
// shortest digits that read back as the same; fields without a value are there, except those that
// were declared optional or are messages.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_JSON_H_
