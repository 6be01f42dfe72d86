#include <utility>

#include "core/base/status_macros.h"
#include "lethe/v1/certificate_service.pb.h"
#include "server/calls/unary_calls.h"

namespace lethe::calls {

using service::CallOptions;

std::vector<UnaryCall> CertificateCalls(service::Service* service) {
  return {
      MakeUnary<v1::GetCheckpointRequest, v1::Checkpoint>(
          "GetCheckpoint",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetCheckpoint(request.tenant(),
                                                 service::TenantRegistry::Depth::kMemories, call),
                          response);
          }),
      MakeUnary<v1::GetInclusionProofRequest, v1::InclusionProof>(
          "GetInclusionProof",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetInclusionProof(request.tenant(), FromProto(request),
                                                     request.size(), call),
                          response);
          }),
      MakeUnary<v1::GetConsistencyProofRequest, v1::ConsistencyProof>(
          "GetConsistencyProof",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetConsistencyProof(request.tenant(), request.old_size(),
                                                       request.new_size(), call),
                          response);
          }),
      MakeUnary<v1::AddCosignatureRequest, v1::Checkpoint>(
          "AddCosignature",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->AddCosignature(request.tenant(), request.line(), call),
                          response);
          }),
      MakeUnary<v1::RotateKeyRequest, v1::RotateKeyResponse>(
          "RotateKey",
          [service](const auto&, const CallOptions& call, auto* response) {
            return Answer(service->RotateKey(call), response);
          }),
      MakeUnary<v1::RewrapKeysRequest, v1::RewrapKeysResponse>(
          "RewrapKeys",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->RewrapKeys(request.tenant(), call), response);
          }),
      MakeUnary<v1::GetCertificateRequest, v1::Certificate>(
          "GetCertificate",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetCertificate(request.tenant(), request.id(), call), response);
          }),
      MakeUnary<v1::ListCertificatesRequest, v1::ListCertificatesResponse>(
          "ListCertificates",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(auto page,
                                   service->ListCertificates(request.tenant(), request.memory(),
                                                             PageOf(request), call));
            for (const service::CertificateInfo& certificate : page.items) {
              ToProto(certificate, response->add_certificates());
            }
            response->set_next_page_token(std::move(page.next_page_token));
            return absl::OkStatus();
          }),
  };
}

}  // namespace lethe::calls
