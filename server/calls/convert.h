// Between the wire (proto/lethe/v1) and the service's plain values. Nothing is judged here beyond
// what the plain values cannot express: unknown enumerators, `everything` set to false.
#ifndef LETHE_SERVER_CALLS_CONVERT_H_
#define LETHE_SERVER_CALLS_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "audit/export.h"
#include "lethe/v1/backup_service.pb.h"
#include "lethe/v1/certificate_service.pb.h"
#include "lethe/v1/memory_service.pb.h"
#include "lethe/v1/tenant_service.pb.h"
#include "server/service/types.h"

namespace lethe::calls {

// INVALID_ARGUMENT names "config.duplicates" for a policy that this version does not know.
absl::StatusOr<service::MemoryConfig> FromProto(const v1::MemoryConfig& config);
service::TokenInput FromProto(const v1::Token& token);
std::vector<service::TokenInput> FromProto(
    const google::protobuf::RepeatedPtrField<v1::Token>& tokens);
service::QueryInput FromProto(const v1::QueryRequest& request);
// INVALID_ARGUMENT names "everything" where it is set and false.
absl::StatusOr<service::ForgetInput> FromProto(const v1::ForgetRequest& request);
service::EvictInput FromProto(const v1::EvictRequest& request);
service::EditInput FromProto(const v1::EditRequest& request);
service::CertificateName FromProto(const v1::GetInclusionProofRequest& request);
audit::ExportRange FromProto(const v1::ExportRequest& request);

void ToProto(const service::TenantInfo& from, v1::Tenant* to);
void ToProto(const service::MemoryConfig& from, v1::MemoryConfig* to);
void ToProto(const service::MemoryInfo& from, v1::Memory* to);
void ToProto(const service::DeleteTenantReply& from, v1::DeleteTenantResponse* to);
void ToProto(const service::DeleteMemoryReply& from, v1::DeleteMemoryResponse* to);
void ToProto(const service::InsertReply& from, v1::InsertResponse* to);
// The state after; an acknowledgement's other members are sums over several replies.
void SetState(const service::InsertReply& from, v1::InsertStreamResponse* to);
void ToProto(const service::ItemError& from, v1::ItemError* to);
void ToProto(const service::QueryReply& from, v1::QueryResponse* to);
void ToProto(const service::ForgetReply& from, v1::ForgetResponse* to);
void ToProto(const service::EvictReply& from, v1::EvictResponse* to);
void ToProto(const service::EditReply& from, v1::EditResponse* to);
void ToProto(const service::DescribeReply& from, v1::DescribeResponse* to);
void ToProto(const service::CertificateInfo& from, v1::Certificate* to);
void ToProto(const service::VerifyReply& from, v1::VerifyResponse* to);
void ToProto(const service::CheckpointInfo& from, v1::Checkpoint* to);
void ToProto(const service::InclusionProofReply& from, v1::InclusionProof* to);
void ToProto(const service::ConsistencyProofReply& from, v1::ConsistencyProof* to);
void ToProto(const service::RotateKeyReply& from, v1::RotateKeyResponse* to);
void ToProto(const service::RestoreReply& from, v1::RestoreBackupResponse* to);
void ToProto(const service::RewrapReply& from, v1::RewrapKeysResponse* to);

}  // namespace lethe::calls

#endif  // LETHE_SERVER_CALLS_CONVERT_H_
