// Between the wire (proto/lethe/v1/erasure_service.proto) and the service's plain values, as
// convert.h.
#ifndef LETHE_SERVER_CALLS_CONVERT_ERASURE_H_
#define LETHE_SERVER_CALLS_CONVERT_ERASURE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lethe/v1/erasure_service.pb.h"
#include "server/service/erasure_types.h"

namespace lethe::calls {

// INVALID_ARGUMENT names "identities[i].format" for one that this version does not know.
absl::StatusOr<std::vector<service::Identity>> FromProto(
    const google::protobuf::RepeatedPtrField<v1::Identity>& identities);
// The sources of requests that come by an adapter of HTTP (server/http), which tells of them in
// another's words and under the server's signature: no other caller may claim to be one.
inline constexpr std::array<absl::string_view, 5> kAdapterSources = {
    "opendsr", "opengdpr", "opencompliance", "ketch", "transcend"};
// INVALID_ARGUMENT names a time that is not RFC 3339, and a source that is an adapter's, too.
absl::StatusOr<service::ErasureRequestInput> FromProto(
    const v1::CreateErasureRequestRequest& request);
service::HoldInput FromProto(const v1::PlaceHoldRequest& request);
// Nothing for UNSPECIFIED; INVALID_ARGUMENT names "state".
absl::StatusOr<std::optional<service::ErasureState>> FromProto(v1::ErasureState state);
absl::StatusOr<absl::Time> ParseTime(absl::string_view field, const std::string& text);

void ToProto(const service::ErasureRequestInfo& from, v1::ErasureRequest* to);
void ToProto(const std::vector<service::ErasureReceipt>& from, v1::TakeErasureReceiptsResponse* to);
void ToProto(const service::DiscoveryReply& from, v1::DiscoverResponse* to);
void ToProto(const service::HoldInfo& from, v1::Hold* to);

}  // namespace lethe::calls

#endif  // LETHE_SERVER_CALLS_CONVERT_ERASURE_H_
