// Erasure requests and legal holds as the client's plain values; the fields are those of
// proto/lethe/v1/erasure_service.proto, which says what they mean.
#ifndef LETHE_CLIENT_ERASURE_TYPES_H_
#define LETHE_CLIENT_ERASURE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/types.h"

namespace lethe::client {

// Numbered as on the wire.
enum class ErasureState : uint8_t {
  kPending = 1,
  kInProgress = 2,
  kCompleted = 3,
  kDenied = 4,
  kCancelled = 5,
  kFailed = 6,
};
// "pending", "in-progress", ...
absl::string_view ToText(ErasureState state);
// INVALID_ARGUMENT names those there are.
absl::StatusOr<ErasureState> ParseErasureState(absl::string_view text);

enum class IdentityFormat : uint8_t { kRaw = 1, kSha256 = 2, kSha1 = 3, kMd5 = 4 };

struct Identity {
  std::string type = {};
  IdentityFormat format = IdentityFormat::kRaw;
  std::string value;  // a subject, or its hash in lower-case hex digits
};

struct NewErasureRequest {
  std::string tenant;
  std::vector<Identity> identities;
  // A repeated call with the same key returns the first request. Empty: the client makes one, so
  // that it can repeat the call after a lost answer.
  std::string idempotency_key = {};
  std::string source = {};
  std::string regulation = {};
  std::string received_time = {};  // RFC 3339, as all times here
  std::string start_time = {};
  std::vector<std::string> callback_urls = {};
  std::string controller_id = {};
};

struct ErasureCounts {
  uint64_t matched = 0;
  uint64_t erased = 0;
  uint64_t not_found = 0;
  uint64_t already_erased = 0;
  uint64_t held = 0;
};

struct ErasureCertificate {
  std::string id;
  std::string memory;
  std::string sha256;
  std::string shredded_id;
};

struct ErasureRequest {
  std::string tenant;
  std::string id;
  ErasureState state = ErasureState::kPending;
  std::string source;
  std::string regulation;
  std::string received_time;
  std::string due_time;
  std::string start_time;
  std::string begin_time;
  std::string end_time;
  bool extended = false;
  std::string extension_reason;
  std::string controller_id;
  ErasureCounts counts;
  std::vector<StoreLevel> stores;
  std::vector<ErasureCertificate> certificates;
  std::string hold_id;
  std::string failure;
  uint32_t attempts = 0;
  bool personal = false;
  bool receipts = false;
  bool replayed = false;
};

struct ErasureReceipt {
  std::string certificate_id;
  uint32_t identity = 0;
  Receipt receipt;
  std::string request_id;
};

struct DiscoveredMemory {
  std::string memory;
  uint64_t tokens = 0;
};
struct Discovery {
  std::vector<DiscoveredMemory> memories;
  uint64_t tokens = 0;
  uint64_t held = 0;
  uint64_t not_found = 0;
  std::vector<std::string> hold_ids;
};

struct NewHold {
  std::string tenant;
  std::string subject;
  std::string reason = {};
  std::string idempotency_key = {};  // as in NewErasureRequest
};
struct Hold {
  std::string tenant;
  std::string id;
  bool in_force = false;
  std::string place_time;
  std::string release_time;
  std::string subject;
  std::string reason;
  bool replayed = false;
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_ERASURE_TYPES_H_
