#include "client/convert_erasure.h"

#include <array>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace lethe::client {
namespace {

constexpr std::array<std::pair<ErasureState, absl::string_view>, 6> kStates = {{
    {ErasureState::kPending, "pending"},
    {ErasureState::kInProgress, "in-progress"},
    {ErasureState::kCompleted, "completed"},
    {ErasureState::kDenied, "denied"},
    {ErasureState::kCancelled, "cancelled"},
    {ErasureState::kFailed, "failed"},
}};

}  // namespace

absl::string_view ToText(ErasureState state) {
  for (const auto& [known, text] : kStates) {
    if (known == state) return text;
  }
  return "unknown";
}

absl::StatusOr<ErasureState> ParseErasureState(absl::string_view text) {
  for (const auto& [state, known] : kStates) {
    if (known == text) return state;
  }
  return absl::InvalidArgumentError(
      "must be pending, in-progress, completed, denied, cancelled or failed");
}

namespace convert {

void ToWire(const std::vector<Identity>& identities,
            google::protobuf::RepeatedPtrField<v1::Identity>* wire) {
  for (const Identity& identity : identities) {
    v1::Identity* added = wire->Add();
    added->set_type(identity.type);
    added->set_format(static_cast<v1::IdentityFormat>(identity.format));
    added->set_value(identity.value);
  }
}

v1::CreateErasureRequestRequest ToWire(const NewErasureRequest& request) {
  v1::CreateErasureRequestRequest wire;
  wire.set_tenant(request.tenant);
  ToWire(request.identities, wire.mutable_identities());
  wire.set_idempotency_key(request.idempotency_key);
  wire.set_source(request.source);
  wire.set_regulation(request.regulation);
  wire.set_received_time(request.received_time);
  wire.set_start_time(request.start_time);
  for (const std::string& url : request.callback_urls) wire.add_callback_urls(url);
  wire.set_controller_id(request.controller_id);
  return wire;
}

v1::PlaceHoldRequest ToWire(const NewHold& hold) {
  v1::PlaceHoldRequest wire;
  wire.set_tenant(hold.tenant);
  wire.set_subject(hold.subject);
  wire.set_reason(hold.reason);
  wire.set_idempotency_key(hold.idempotency_key);
  return wire;
}

ErasureRequest FromWire(const v1::ErasureRequest& wire) {
  ErasureRequest request;
  request.tenant = wire.tenant();
  request.id = wire.id();
  request.state = static_cast<ErasureState>(wire.state());
  request.source = wire.source();
  request.regulation = wire.regulation();
  request.received_time = wire.received_time();
  request.due_time = wire.due_time();
  request.start_time = wire.start_time();
  request.begin_time = wire.begin_time();
  request.end_time = wire.end_time();
  request.extended = wire.extended();
  request.extension_reason = wire.extension_reason();
  request.controller_id = wire.controller_id();
  request.counts = {.matched = wire.counts().matched(),
                    .erased = wire.counts().erased(),
                    .not_found = wire.counts().not_found(),
                    .already_erased = wire.counts().already_erased(),
                    .held = wire.counts().held()};
  for (const v1::StoreLevel& store : wire.stores()) {
    request.stores.push_back({store.store(), store.level(), store.evidence()});
  }
  for (const v1::ErasureCertificate& made : wire.certificates()) {
    request.certificates.push_back({made.id(), made.memory(), made.sha256(), made.shredded_id()});
  }
  request.hold_id = wire.hold_id();
  request.failure = wire.failure();
  request.attempts = wire.attempts();
  request.personal = wire.personal();
  request.receipts = wire.receipts();
  request.replayed = wire.replayed();
  return request;
}

std::vector<ErasureReceipt> FromWire(const v1::TakeErasureReceiptsResponse& wire) {
  std::vector<ErasureReceipt> receipts;
  for (const v1::ErasureReceipt& given : wire.receipts()) {
    receipts.push_back({.certificate_id = given.certificate_id(),
                        .identity = given.identity(),
                        .receipt = {.request_salt = given.receipt().request_salt(),
                                    .subject_salt = given.receipt().subject_salt()},
                        .request_id = given.request_id()});
  }
  return receipts;
}

Discovery FromWire(const v1::DiscoverResponse& wire) {
  Discovery discovery{.memories = {},
                      .tokens = wire.tokens(),
                      .held = wire.held(),
                      .not_found = wire.not_found(),
                      .hold_ids = {wire.hold_ids().begin(), wire.hold_ids().end()}};
  for (const v1::DiscoverResponse::Found& found : wire.memories()) {
    discovery.memories.push_back({found.memory(), found.tokens()});
  }
  return discovery;
}

Hold FromWire(const v1::Hold& wire) {
  return {.tenant = wire.tenant(),
          .id = wire.id(),
          .in_force = wire.in_force(),
          .place_time = wire.place_time(),
          .release_time = wire.release_time(),
          .subject = wire.subject(),
          .reason = wire.reason(),
          .replayed = wire.replayed()};
}

}  // namespace convert
}  // namespace lethe::client
