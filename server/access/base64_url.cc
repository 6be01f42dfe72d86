#include "server/access/base64_url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace lethe::access {

std::optional<std::string> DecodeBase64Url(absl::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  std::string bytes;
  if (!plain || !absl::WebSafeBase64Unescape(text, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace lethe::access
