// Between the plain values of client/types.h and the messages of proto/lethe/v1. Private to the
// client.
#ifndef LETHE_CLIENT_CONVERT_H_
#define LETHE_CLIENT_CONVERT_H_

#include "absl/status/status.h"
#include "client/connection.h"
#include "client/types.h"
#include "grpcpp/support/status.h"
#include "lethe/v1/backup_service.pb.h"
#include "lethe/v1/certificate_service.pb.h"
#include "lethe/v1/common.pb.h"
#include "lethe/v1/memory_service.pb.h"
#include "lethe/v1/tenant_service.pb.h"

namespace lethe::client::convert {

absl::Status FromWire(const grpc::Status& status);
Tenant FromWire(const v1::Tenant& wire);
TenantDeletion FromWire(const v1::DeleteTenantResponse& wire);
MemoryConfig FromWire(const v1::MemoryConfig& wire);
Partition FromWire(const v1::Partition& wire);
Memory FromWire(const v1::Memory& wire);
MemoryDeletion FromWire(const v1::DeleteMemoryResponse& wire);
ItemError FromWire(const v1::ItemError& wire);
InsertResult FromWire(const v1::InsertResponse& wire);
InsertAck FromWire(const v1::InsertStreamResponse& wire);
QueryResult FromWire(const v1::QueryResponse& wire);
ForgetResult FromWire(const v1::ForgetResponse& wire);
EvictResult FromWire(const v1::EvictResponse& wire);
EditResult FromWire(const v1::EditResponse& wire);
Description FromWire(const v1::DescribeResponse& wire);
Certificate FromWire(const v1::Certificate& wire);
Verification FromWire(const v1::VerifyResponse& wire);
Checkpoint FromWire(const v1::Checkpoint& wire);
InclusionProof FromWire(const v1::InclusionProof& wire);
ConsistencyProof FromWire(const v1::ConsistencyProof& wire);
KeyRotation FromWire(const v1::RotateKeyResponse& wire);
RestoreResult FromWire(const v1::RestoreBackupResponse& wire);
KeyRewrap FromWire(const v1::RewrapKeysResponse& wire);

void ToWire(const MemoryConfig& config, v1::MemoryConfig& wire);
void ToWire(const Token& token, v1::Token& wire);
v1::QueryRequest ToWire(const QueryRequest& request);
v1::ForgetRequest ToWire(const ForgetRequest& request);
v1::EvictRequest ToWire(const EvictRequest& request);
v1::EditRequest ToWire(const EditRequest& request);

}  // namespace lethe::client::convert

#endif  // LETHE_CLIENT_CONVERT_H_
