// Erasure requests and legal holds as plain values: the same facts as
// proto/lethe/v1/erasure_service.proto. docs/erasure_requests.md says what is promised.
#ifndef LETHE_SERVER_SERVICE_ERASURE_TYPES_H_
#define LETHE_SERVER_SERVICE_ERASURE_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/service/types.h"

namespace lethe::service {

inline constexpr size_t kMaxIdentities = 32;  // of a request
inline constexpr size_t kMaxIdentityTypeBytes = 64;
inline constexpr size_t kMaxCallbackUrls = 4;
inline constexpr size_t kMaxCallbackUrlBytes = 2048;
inline constexpr size_t kMaxAuthorizationBytes = 1024;
inline constexpr size_t kMaxControllerIdBytes = 128;
inline constexpr size_t kMaxSourceBytes = 64;       // source, regulation
inline constexpr size_t kMaxOpenRequests = 10'000;  // of a tenant
inline constexpr size_t kMaxHolds = 10'000;         // in force, of a tenant

// What the server does about requests by itself.
struct ErasureOptions {
  absl::Duration due = absl::Hours(24 * 30);        // after receipt (GDPR 12(3): one month)
  absl::Duration extension = absl::Hours(24 * 61);  // at most, beyond that: two further months
  // How long after its end a request keeps its personal part for receipts that nobody took and
  // callbacks that nobody received.
  absl::Duration retention = absl::Hours(24 * 3);
  // An erasure that cannot be done now is tried again, each time after twice as long.
  int attempts = 60;
  absl::Duration first_retry = absl::Seconds(1);
  absl::Duration longest_retry = absl::Hours(1);
  // After a restore no open request is worked on for so long, so that holds that were lost can be
  // placed again first.
  absl::Duration after_restore = absl::Hours(24);
  // Asked for each callback address of a new request: INVALID_ARGUMENT, which says what is wrong
  // without repeating it, for one that will never be called. Null: all are taken, and who delivers
  // judges them.
  std::function<absl::Status(const std::string& url)> check_callback = {};
};

// How an identity is written. The hashes are of the subject's bytes, in lower-case hex digits.
enum class IdentityFormat : uint8_t { kRaw = 1, kSha256 = 2, kSha1 = 3, kMd5 = 4 };

struct Identity {
  std::string type;  // of the caller, and only kept: "controller_customer_id"
  IdentityFormat format = IdentityFormat::kRaw;
  std::string value;
  bool operator==(const Identity&) const = default;
};

// Numbered as in proto/lethe/v1 and as in the store (CaseState).
enum class ErasureState : uint8_t {
  kPending = 1,
  kInProgress = 2,
  kCompleted = 3,
  kDenied = 4,
  kCancelled = 5,
  kFailed = 6,
};
bool IsFinal(ErasureState state);

struct ErasureRequestInput {
  std::string tenant;
  std::vector<Identity> identities;
  std::string idempotency_key;  // empty: none, and a repetition is another request
  std::string source;           // who passed it on: [a-z0-9._-], "opendsr"
  // What stands for `source` where two requests under one key are compared: of sources that are
  // other names of each other. Empty: `source` itself.
  std::string source_class = {};
  std::string regulation;  // [a-z0-9._-], "gdpr"
  std::optional<absl::Time> received_time;
  std::optional<absl::Time> start_time;  // not begun before; until then it can be cancelled
  std::vector<std::string> callback_urls;
  // The header Authorization for each address, empty for none; or none for all of them. No part of
  // what a repetition is compared by: it may change.
  std::vector<std::string> callback_authorizations = {};
  std::string controller_id;  // the controller's own name for it
};

struct ErasureCounts {
  uint64_t matched = 0;  // erased + held
  uint64_t erased = 0;
  uint64_t not_found = 0;       // identities of which there was no token
  uint64_t already_erased = 0;  // a subject leaves no mark, so always 0 here
  uint64_t held = 0;
  bool operator==(const ErasureCounts&) const = default;
};

struct ErasureCertificate {
  std::string id;
  std::string memory;
  std::string sha256;       // hex, of the envelope
  std::string shredded_id;  // of the certificate that its keys are destroyed
  bool operator==(const ErasureCertificate&) const = default;
};

struct ErasureRequestInfo {
  std::string tenant;
  std::string id;
  ErasureState state = ErasureState::kPending;
  std::string source;
  std::string regulation;
  std::string received_time;  // RFC 3339, UTC, as all of them; empty: not yet, or none
  std::string due_time;
  std::string start_time;
  std::string begin_time;
  std::string end_time;
  bool extended = false;
  std::string extension_reason;  // until the personal part ends
  std::string controller_id;     // until the personal part ends
  ErasureCounts counts;          // so far; complete in a final state
  std::vector<StoreLevel> stores;
  std::vector<ErasureCertificate> certificates;
  std::string hold_id;    // why it was denied
  std::string failure;    // why it failed, in the words of docs/erasure_requests.md
  uint32_t attempts = 0;  // that were given up
  bool personal = false;  // the personal part is still there
  bool receipts = false;  // they can be taken
  bool replayed = false;  // the answer to an earlier call with this idempotency key
};

// What opens the commitments of one certificate of a request.
struct ErasureReceipt {
  std::string certificate_id;
  uint32_t identity = 0;  // index in the request
  Receipt receipt;
  std::string request_id;  // what the certificate's request commitment is over
};

struct DiscoveryItem {
  std::string memory;
  uint64_t tokens = 0;  // of all the identities
};
struct DiscoveryReply {
  std::vector<DiscoveryItem> memories;  // those with tokens
  uint64_t tokens = 0;
  uint64_t held = 0;       // of them
  uint64_t not_found = 0;  // identities of which there is no token
  std::vector<std::string> hold_ids;
};

struct HoldInput {
  std::string tenant;
  std::string subject;
  std::string reason;
  std::string idempotency_key;
};
struct HoldInfo {
  std::string tenant;
  std::string id;
  bool in_force = false;
  std::string place_time;
  std::string release_time;
  std::string subject;  // these two until it is released
  std::string reason;
  bool replayed = false;
};

// A status change that somebody asked to be told of.
struct CallbackDelivery {
  std::string url;
  std::string authorization;  // empty: none
  uint32_t url_index = 0;
  uint32_t sequence = 0;                        // of the change in its request, from 1
  uint32_t attempts = 0;                        // that failed
  ErasureState state = ErasureState::kPending;  // as it was then
  std::string change_time;
  ErasureRequestInfo request;  // as it is now
  uint64_t number = 0;         // of the request in its tenant
};
enum class CallbackOutcome : uint8_t {
  kDelivered = 1,
  kFailed = 2,   // to be tried again
  kRefused = 3,  // never to be tried again: the address is not allowed, or answers for good
};

struct OpenErasureCounts {
  uint64_t pending = 0;
  uint64_t in_progress = 0;
  uint64_t due_soon = 0;  // less than a quarter of their time is left
  uint64_t overdue = 0;
  uint64_t callbacks = 0;  // requests that owe one
  // Could not be read when the server started, so that nobody knows what is open there.
  uint64_t unknown_tenants = 0;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_ERASURE_TYPES_H_
