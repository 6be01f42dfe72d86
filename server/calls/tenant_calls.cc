#include <utility>

#include "core/base/status_macros.h"
#include "lethe/v1/tenant_service.pb.h"
#include "server/calls/unary_calls.h"

namespace lethe::calls {

using service::CallOptions;

std::vector<UnaryCall> TenantCalls(service::Service* service) {
  return {
      MakeUnary<v1::CreateTenantRequest, v1::Tenant>(
          "CreateTenant",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->CreateTenant(request.name(), call), response);
          }),
      MakeUnary<v1::GetTenantRequest, v1::Tenant>(
          "GetTenant",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetTenant(request.name(), call), response);
          }),
      MakeUnary<v1::ListTenantsRequest, v1::ListTenantsResponse>(
          "ListTenants",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(auto page, service->ListTenants(PageOf(request), call));
            for (const service::TenantInfo& tenant : page.items) {
              ToProto(tenant, response->add_tenants());
            }
            response->set_next_page_token(std::move(page.next_page_token));
            return absl::OkStatus();
          }),
      MakeUnary<v1::DeleteTenantRequest, v1::DeleteTenantResponse>(
          "DeleteTenant",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->DeleteTenant(request.name(), call), response);
          }),
  };
}

}  // namespace lethe::calls
