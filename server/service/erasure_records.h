// The bytes of what the store keeps of erasure requests and holds (store::CaseRecord): the open
// part, which stays for ever and has nothing personal, and the personal part, which is sealed and
// ends. What is derived from the secret of a request is here too.
//
// A blob that these functions would not have written is DATA_LOSS. Threads: functions without
// state. Cost: linear.
#ifndef LETHE_SERVER_SERVICE_ERASURE_RECORDS_H_
#define LETHE_SERVER_SERVICE_ERASURE_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/random.h"
#include "server/service/erasure_types.h"

namespace lethe::service {

// A certificate of a request, and what its receipt is derived from.
struct RequestCertificate {
  ErasureCertificate certificate;
  std::string memory_uid;
  uint32_t identity = 0;
  uint32_t round = 0;
  bool operator==(const RequestCertificate&) const = default;
};

// A status change that an address has to be told.
struct OwedCallback {
  uint32_t sequence = 0;
  ErasureState state = ErasureState::kPending;
  int64_t change_micros = 0;
  uint32_t url = 0;  // index in the request
  uint32_t attempts = 0;
  int64_t next_micros = 0;
  bool operator==(const OwedCallback&) const = default;
};

struct RequestFacts {
  std::string source;
  std::string regulation;
  int64_t first_due_micros = 0;
  int64_t start_micros = 0;  // not before; 0: at once
  int64_t begin_micros = 0;  // 0: not yet
  int64_t end_micros = 0;    // 0: not yet
  bool extended = false;
  uint32_t identities = 0;
  uint32_t found = 0;  // a bit for each identity of which there was a token
  uint64_t erased = 0;
  uint64_t held = 0;
  std::string cursor;  // the memory that was finished last, by name
  uint32_t attempts = 0;
  std::string hold_id;
  std::string failure;
  bool receipts_taken = false;
  uint32_t changes = 0;  // of status, so far
  std::vector<StoreLevel> stores;
  std::vector<RequestCertificate> certificates;
  std::vector<OwedCallback> owed;
  bool operator==(const RequestFacts&) const = default;
};
std::string EncodeFacts(const RequestFacts& facts);
absl::StatusOr<RequestFacts> DecodeRequestFacts(absl::string_view blob);

struct RequestPersonal {
  std::string secret;                // 32 random bytes
  std::vector<Identity> identities;  // empty once the request has ended
  std::vector<std::string> callback_urls;
  std::vector<std::string> callback_authorizations;  // as ErasureRequestInput has them
  std::string controller_id;
  std::string extension_reason;
  bool operator==(const RequestPersonal&) const = default;
};
std::string EncodePersonal(const RequestPersonal& personal);
absl::StatusOr<RequestPersonal> DecodeRequestPersonal(absl::string_view blob);

struct HoldFacts {
  int64_t release_micros = 0;  // 0: in force
};
std::string EncodeFacts(const HoldFacts& facts);
absl::StatusOr<HoldFacts> DecodeHoldFacts(absl::string_view blob);

struct HoldPersonal {
  std::string subject;
  std::string reason;
};
std::string EncodePersonal(const HoldPersonal& personal);
absl::StatusOr<HoldPersonal> DecodeHoldPersonal(absl::string_view blob);

// --- What one Forget of a request is made of: HMAC-SHA256(secret, label || 0 || memory uid ||
// identity (u32) || round (u32)), so that a repetition after a crash is the same Forget, and its
// receipt is known as long as the secret is. Nobody without the secret can test a guess.
struct ForgetSeed {
  std::string request_id;  // 64 hex digits
  audit::Salt request_salt{};
  audit::Salt subject_salt{};
};
ForgetSeed SeedOf(absl::string_view secret,
                  absl::string_view memory_uid,
                  uint32_t identity,
                  uint32_t round);

// Lower-case hex; empty for kRaw.
std::string HashOfSubject(IdentityFormat format, absl::string_view subject);

// The content of a request or a hold, for the fingerprint under its idempotency key. What a request
// shows to those that are told of it is not among it.
std::string ContentOf(const ErasureRequestInput& input);
std::string ContentOf(const HoldInput& input);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_ERASURE_RECORDS_H_
