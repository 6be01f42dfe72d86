// Page tokens: opaque to clients, bound to one list.
//
// A token is web-safe base64 of an 8-byte checksum and a cursor. The checksum covers the scope
// (which list, of whom), so that a token of another list, an edited or a truncated one is refused
// instead of silently starting somewhere. It is no secret: a cursor gives nothing that the list
// would not.
#ifndef LETHE_SERVER_SERVICE_PAGING_H_
#define LETHE_SERVER_SERVICE_PAGING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::service {

struct PageRequest {
  uint32_t size = 0;  // 0: the default, 100
  std::string token;  // empty: the first page
};

std::string EncodePageToken(absl::string_view scope, absl::string_view cursor);

// The cursor; empty for an empty token. INVALID_ARGUMENT names page_token.
absl::StatusOr<std::string> DecodePageToken(absl::string_view scope, absl::string_view token);

// INVALID_ARGUMENT names page_size when above 1,000.
absl::StatusOr<size_t> PageSize(uint32_t requested);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_PAGING_H_
