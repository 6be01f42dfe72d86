// The bytes of what the store keeps for the service as opaque blobs: a memory's configuration, a
// token's labels, the answer to a Forget, an Evict or an Edit.
//
// Integers and doubles big-endian, strings with a u32 length, a version byte first. A blob that
// these functions would not have written is DATA_LOSS. Threads: functions without state.
#ifndef LETHE_SERVER_SERVICE_RECORDS_H_
#define LETHE_SERVER_SERVICE_RECORDS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/types.h"

namespace lethe::service {

// Requires a configuration that ToOptions accepts.
std::string EncodeConfig(const MemoryConfig& config);
absl::StatusOr<MemoryConfig> DecodeConfig(absl::string_view blob);

std::string EncodeLabels(const std::map<std::string, std::string>& labels);
absl::StatusOr<std::map<std::string, std::string>> DecodeLabels(absl::string_view blob);

// A stored answer and the memory it was given for. `reply.request_id` is not stored: with it a
// guess of what was erased could be tested against the fingerprint that stands beside the answer.
struct StoredAnswer {
  std::string memory_uid;
  Answer reply;
};
std::string EncodeAnswer(const StoredAnswer& answer);
absl::StatusOr<StoredAnswer> DecodeAnswer(absl::string_view blob);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_RECORDS_H_
