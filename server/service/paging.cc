#include "server/service/paging.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/service/names.h"

namespace lethe::service {
namespace {

constexpr size_t kChecksumBytes = 8;
constexpr size_t kMaxTokenBytes = 1024;

// FNV-1a over scope, a zero byte and the cursor.
std::string Checksum(absl::string_view scope, absl::string_view cursor) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](unsigned char byte) {
    hash ^= byte;
    hash *= 0x100000001b3u;
  };
  for (const char c : scope) add(static_cast<unsigned char>(c));
  add(0);
  for (const char c : cursor) add(static_cast<unsigned char>(c));
  std::string bytes;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(hash >> (8 * i))));
  }
  return bytes;
}

}  // namespace

std::string EncodePageToken(absl::string_view scope, absl::string_view cursor) {
  return absl::WebSafeBase64Escape(absl::StrCat(Checksum(scope, cursor), cursor));
}

absl::StatusOr<std::string> DecodePageToken(absl::string_view scope, absl::string_view token) {
  if (token.empty()) return std::string();
  std::string bytes;
  if (token.size() <= kMaxTokenBytes && absl::WebSafeBase64Unescape(token, &bytes) &&
      bytes.size() > kChecksumBytes) {
    std::string cursor = bytes.substr(kChecksumBytes);
    if (bytes.compare(0, kChecksumBytes, Checksum(scope, cursor)) == 0) return cursor;
  }
  return FieldError("page_token", "is not a token that this list has given out");
}

absl::StatusOr<size_t> PageSize(uint32_t requested) {
  if (requested == 0) return kDefaultPageSize;
  if (requested > kMaxPageSize) {
    return FieldError("page_size", absl::StrCat("is ", requested, ", the limit is ", kMaxPageSize));
  }
  return size_t{requested};
}

}  // namespace lethe::service
