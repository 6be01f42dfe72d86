#include "server/calls/convert_erasure.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::calls {

absl::StatusOr<std::vector<service::Identity>> FromProto(
    const google::protobuf::RepeatedPtrField<v1::Identity>& identities) {
  std::vector<service::Identity> result;
  for (int i = 0; i < identities.size(); ++i) {
    service::Identity identity{.type = identities[i].type(),
                               .format = service::IdentityFormat::kRaw,
                               .value = identities[i].value()};
    switch (identities[i].format()) {
      case v1::IDENTITY_FORMAT_UNSPECIFIED:
      case v1::IDENTITY_FORMAT_RAW:
        break;
      case v1::IDENTITY_FORMAT_SHA256:
        identity.format = service::IdentityFormat::kSha256;
        break;
      case v1::IDENTITY_FORMAT_SHA1:
        identity.format = service::IdentityFormat::kSha1;
        break;
      case v1::IDENTITY_FORMAT_MD5:
        identity.format = service::IdentityFormat::kMd5;
        break;
      default:
        return service::FieldError(absl::StrCat("identities[", i, "].format"), "is not known here");
    }
    result.push_back(std::move(identity));
  }
  return result;
}

absl::StatusOr<absl::Time> ParseTime(absl::string_view field, const std::string& text) {
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error) && time > absl::UnixEpoch() &&
      time < absl::FromUnixSeconds(253402300800)) {  // the year 10,000
    return time;
  }
  return service::FieldError(field, "must be a time as RFC 3339 has it, 2026-01-31T12:00:00Z");
}

absl::StatusOr<service::ErasureRequestInput> FromProto(
    const v1::CreateErasureRequestRequest& request) {
  service::ErasureRequestInput input;
  input.tenant = request.tenant();
  LETHE_ASSIGN_OR_RETURN(input.identities, FromProto(request.identities()));
  input.idempotency_key = request.idempotency_key();
  for (const absl::string_view adapter : kAdapterSources) {
    if (request.source() == adapter) {
      return service::FieldError("source", "is for requests that come by the adapter of this name");
    }
  }
  input.source = request.source();
  input.regulation = request.regulation();
  if (!request.received_time().empty()) {
    LETHE_ASSIGN_OR_RETURN(input.received_time,
                           ParseTime("received_time", request.received_time()));
  }
  if (!request.start_time().empty()) {
    LETHE_ASSIGN_OR_RETURN(input.start_time, ParseTime("start_time", request.start_time()));
  }
  input.callback_urls.assign(request.callback_urls().begin(), request.callback_urls().end());
  input.controller_id = request.controller_id();
  return input;
}

service::HoldInput FromProto(const v1::PlaceHoldRequest& request) {
  return {.tenant = request.tenant(),
          .subject = request.subject(),
          .reason = request.reason(),
          .idempotency_key = request.idempotency_key()};
}

absl::StatusOr<std::optional<service::ErasureState>> FromProto(v1::ErasureState state) {
  std::optional<service::ErasureState> result;
  if (state == v1::ERASURE_STATE_UNSPECIFIED) return result;
  if (!v1::ErasureState_IsValid(state)) return service::FieldError("state", "is not known here");
  result = static_cast<service::ErasureState>(state);
  return result;
}

void ToProto(const service::ErasureRequestInfo& from, v1::ErasureRequest* to) {
  to->set_tenant(from.tenant);
  to->set_id(from.id);
  to->set_state(static_cast<v1::ErasureState>(from.state));
  to->set_source(from.source);
  to->set_regulation(from.regulation);
  to->set_received_time(from.received_time);
  to->set_due_time(from.due_time);
  to->set_start_time(from.start_time);
  to->set_begin_time(from.begin_time);
  to->set_end_time(from.end_time);
  to->set_extended(from.extended);
  to->set_extension_reason(from.extension_reason);
  to->set_controller_id(from.controller_id);
  v1::ErasureCounts* counts = to->mutable_counts();
  counts->set_matched(from.counts.matched);
  counts->set_erased(from.counts.erased);
  counts->set_not_found(from.counts.not_found);
  counts->set_already_erased(from.counts.already_erased);
  counts->set_held(from.counts.held);
  for (const service::StoreLevel& store : from.stores) {
    v1::StoreLevel* level = to->add_stores();
    level->set_store(store.store);
    level->set_level(store.level);
    level->set_evidence(store.evidence);
  }
  for (const service::ErasureCertificate& certificate : from.certificates) {
    v1::ErasureCertificate* made = to->add_certificates();
    made->set_id(certificate.id);
    made->set_memory(certificate.memory);
    made->set_sha256(certificate.sha256);
    made->set_shredded_id(certificate.shredded_id);
  }
  to->set_hold_id(from.hold_id);
  to->set_failure(from.failure);
  to->set_attempts(from.attempts);
  to->set_personal(from.personal);
  to->set_receipts(from.receipts);
  to->set_replayed(from.replayed);
}

void ToProto(const std::vector<service::ErasureReceipt>& from,
             v1::TakeErasureReceiptsResponse* to) {
  for (const service::ErasureReceipt& receipt : from) {
    v1::ErasureReceipt* given = to->add_receipts();
    given->set_certificate_id(receipt.certificate_id);
    given->set_identity(receipt.identity);
    given->mutable_receipt()->set_request_salt(receipt.receipt.request_salt);
    given->mutable_receipt()->set_subject_salt(receipt.receipt.subject_salt);
    given->set_request_id(receipt.request_id);
  }
}

void ToProto(const service::DiscoveryReply& from, v1::DiscoverResponse* to) {
  for (const service::DiscoveryItem& item : from.memories) {
    v1::DiscoverResponse::Found* found = to->add_memories();
    found->set_memory(item.memory);
    found->set_tokens(item.tokens);
  }
  to->set_tokens(from.tokens);
  to->set_held(from.held);
  to->set_not_found(from.not_found);
  for (const std::string& id : from.hold_ids) to->add_hold_ids(id);
}

void ToProto(const service::HoldInfo& from, v1::Hold* to) {
  to->set_tenant(from.tenant);
  to->set_id(from.id);
  to->set_in_force(from.in_force);
  to->set_place_time(from.place_time);
  to->set_release_time(from.release_time);
  to->set_subject(from.subject);
  to->set_reason(from.reason);
  to->set_replayed(from.replayed);
}

}  // namespace lethe::calls
