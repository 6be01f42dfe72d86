// The erasure requests and holds of FakeConnection.
#include "core/base/status_macros.h"
#include "tests/client/fake_connection.h"

namespace lethe::client {

absl::StatusOr<ErasureRequest> FakeConnection::Asked(const std::string& call,
                                                     const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called(call));
  if (tenants.count(tenant) == 0) return absl::NotFoundError("tenant: there is none");
  return ErasureRequest{.tenant = tenant, .id = std::string(32, 'a')};
}

absl::StatusOr<Hold> FakeConnection::Held(const std::string& call, const std::string& tenant) {
  LETHE_RETURN_IF_ERROR(Called(call));
  if (tenants.count(tenant) == 0) return absl::NotFoundError("tenant: there is none");
  return Hold{.tenant = tenant, .id = std::string(32, 'b'), .in_force = true};
}

absl::StatusOr<ErasureRequest> FakeConnection::CreateErasureRequest(
    const NewErasureRequest& request) {
  return Asked("CreateErasureRequest", request.tenant);
}

absl::StatusOr<ErasureRequest> FakeConnection::GetErasureRequest(const std::string& tenant,
                                                                 const std::string&) {
  return Asked("GetErasureRequest", tenant);
}

absl::StatusOr<Page<ErasureRequest>> FakeConnection::ListErasureRequests(
    const std::string& tenant,
    std::optional<ErasureState>,
    const PageRequest&) {
  LETHE_ASSIGN_OR_RETURN(ErasureRequest request, Asked("ListErasureRequests", tenant));
  return Page<ErasureRequest>{.items = {request}, .next_page_token = ""};
}

absl::StatusOr<ErasureRequest> FakeConnection::CancelErasureRequest(const std::string& tenant,
                                                                    const std::string&) {
  return Asked("CancelErasureRequest", tenant);
}

absl::StatusOr<ErasureRequest> FakeConnection::ExtendErasureRequest(const std::string& tenant,
                                                                    const std::string&,
                                                                    const std::string&,
                                                                    const std::string&) {
  return Asked("ExtendErasureRequest", tenant);
}

absl::StatusOr<std::vector<ErasureReceipt>>
FakeConnection::TakeErasureReceipts(const std::string& tenant, const std::string&, bool) {
  LETHE_RETURN_IF_ERROR(Asked("TakeErasureReceipts", tenant).status());
  return std::vector<ErasureReceipt>{{.certificate_id = std::string(64, 'c')}};
}

absl::StatusOr<Discovery> FakeConnection::Discover(const std::string& tenant,
                                                   const std::vector<Identity>&) {
  LETHE_RETURN_IF_ERROR(Asked("Discover", tenant).status());
  return Discovery{.tokens = 1};
}

absl::StatusOr<Hold> FakeConnection::PlaceHold(const NewHold& hold) {
  return Held("PlaceHold", hold.tenant);
}

absl::StatusOr<Hold> FakeConnection::ReleaseHold(const std::string& tenant, const std::string&) {
  return Held("ReleaseHold", tenant);
}

absl::StatusOr<Page<Hold>> FakeConnection::ListHolds(const std::string& tenant,
                                                     bool,
                                                     const PageRequest&) {
  LETHE_ASSIGN_OR_RETURN(Hold hold, Held("ListHolds", tenant));
  return Page<Hold>{.items = {hold}, .next_page_token = ""};
}

}  // namespace lethe::client
