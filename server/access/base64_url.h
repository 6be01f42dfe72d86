// base64url as RFC 7515 wants it: without padding, and without any other character, which a lenient
// reader would skip. Threads: safe.
#ifndef LETHE_SERVER_ACCESS_BASE64_URL_H_
#define LETHE_SERVER_ACCESS_BASE64_URL_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lethe::access {

// nullopt for what is none.
std::optional<std::string> DecodeBase64Url(absl::string_view text);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_BASE64_URL_H_
