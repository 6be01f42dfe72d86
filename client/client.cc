#include "client/client.h"

#include "client/retry.h"
#include "client/sha256.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::client {

Client::Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {
  LETHE_CHECK(connection_ != nullptr);
}

template <typename Request>
Request Client::WithRequestId(Request request) const {
  if (request.request_id.empty() && !request.dry_run && connection_->options().make_request_ids) {
    request.request_id = NewRequestId();
  }
  return request;
}

Client Client::With(const CallOptions& call) const { return Client(connection_->With(call)); }

absl::StatusOr<Tenant> Client::CreateTenant(const std::string& tenant) {
  return connection_->CreateTenant(tenant);
}

absl::StatusOr<Tenant> Client::GetTenant(const std::string& tenant) {
  return connection_->GetTenant(tenant);
}

StreamRange<Tenant> Client::ListTenants() {
  return StreamRange<Tenant>([connection = connection_](const std::string& token) {
    return connection->ListTenants({.page_token = token});
  });
}

absl::StatusOr<TenantDeletion> Client::DeleteTenant(const std::string& tenant) {
  return connection_->DeleteTenant(tenant);
}

absl::StatusOr<Memory> Client::CreateMemory(const MemoryName& name, const MemoryConfig& config) {
  if (config.box.has_value() == config.capacity.has_value()) {
    return absl::InvalidArgumentError("config.size: exactly one of box and capacity must be set");
  }
  return connection_->CreateMemory(name, config);
}

absl::StatusOr<Memory> Client::GetMemory(const MemoryName& name) {
  return connection_->GetMemory(name);
}

StreamRange<Memory> Client::ListMemories(const std::string& tenant) {
  return StreamRange<Memory>([connection = connection_, tenant](const std::string& token) {
    return connection->ListMemories(tenant, {.page_token = token});
  });
}

absl::StatusOr<MemoryDeletion> Client::DeleteMemory(const MemoryName& name) {
  return connection_->DeleteMemory(name);
}

absl::StatusOr<InsertResult> Client::Insert(const MemoryName& name,
                                            const std::vector<Token>& tokens) {
  return connection_->Insert(name, tokens);
}

std::unique_ptr<InsertWriter> Client::WriteTokens(const MemoryName& name,
                                                  InsertWriterOptions options) {
  return std::make_unique<InsertWriter>(connection_, name, std::move(options));
}

absl::StatusOr<QueryResult> Client::Query(const QueryRequest& request) {
  return connection_->Query(request);
}

absl::StatusOr<QueryAnswer> Client::Query(const MemoryName& name, std::vector<double> key) {
  QueryRequest request;
  request.name = name;
  request.queries.push_back(std::move(key));
  LETHE_ASSIGN_OR_RETURN(QueryResult result, connection_->Query(request));
  if (result.answers.size() != 1) {
    return absl::InternalError("the server answered one query with another number of results");
  }
  return std::move(result.answers.front());
}

absl::Status Client::QueryStreamed(const std::function<std::optional<QueryRequest>()>& next,
                                   const std::function<absl::Status(const QueryResult&)>& visit,
                                   QueryStreamOptions options) {
  return client::QueryStreamed(*connection_, next, visit, options);
}

absl::StatusOr<ForgetResult> Client::Forget(const ForgetRequest& request) {
  const int targets = (request.ids.empty() ? 0 : 1) + (request.subject.has_value() ? 1 : 0) +
                      (request.everything ? 1 : 0);
  if (targets != 1) {
    return absl::InvalidArgumentError(
        "target: exactly one of ids, subject and everything must be set");
  }
  return connection_->Forget(WithRequestId(request));
}

absl::StatusOr<EvictResult> Client::Evict(const EvictRequest& request) {
  return connection_->Evict(WithRequestId(request));
}

absl::StatusOr<EditResult> Client::Edit(const EditRequest& request) {
  return connection_->Edit(WithRequestId(request));
}

absl::StatusOr<Description> Client::Describe(const MemoryName& name, bool refit) {
  return connection_->Describe(name, refit);
}

absl::StatusOr<Verification> Client::Verify(const MemoryName& name) {
  return connection_->Verify(name);
}

absl::StatusOr<Checkpoint> Client::GetCheckpoint(const std::string& tenant) {
  return connection_->GetCheckpoint(tenant);
}

absl::StatusOr<InclusionProof> Client::GetInclusionProof(const InclusionProofRequest& request) {
  return connection_->GetInclusionProof(request);
}

absl::StatusOr<ConsistencyProof> Client::GetConsistencyProof(const std::string& tenant,
                                                             uint64_t old_size,
                                                             uint64_t new_size) {
  return connection_->GetConsistencyProof(tenant, old_size, new_size);
}

absl::StatusOr<Checkpoint> Client::AddCosignature(const std::string& tenant,
                                                  const std::string& line) {
  return connection_->AddCosignature(tenant, line);
}

absl::StatusOr<ExportSummary> Client::Export(
    const ExportRequest& request,
    const std::function<absl::Status(const ExportPiece&)>& visit) {
  ExportSummary seen;
  LETHE_ASSIGN_OR_RETURN(const ExportSummary said,
                         connection_->Export(request, [&](const ExportPiece& piece) {
                           if (!piece.path.empty()) ++seen.files;
                           seen.bytes += piece.data.size();
                           return visit(piece);
                         }));
  if (seen.files != said.files || seen.bytes != said.bytes) {
    return absl::DataLossError("the export lost a part on its way");
  }
  return said;
}

absl::StatusOr<KeyRotation> Client::RotateKey() { return connection_->RotateKey(); }

absl::StatusOr<std::string> Client::CreateBackup(
    const std::string& tenant,
    const std::function<absl::Status(const BackupPiece&)>& visit) {
  uint64_t seen = 0;
  uint64_t said = 0;
  LETHE_ASSIGN_OR_RETURN(std::string manifest,
                         connection_->CreateBackup(tenant, [&](const BackupPiece& piece) {
                           seen += piece.data.size();
                           said = piece.file_bytes;
                           return visit(piece);
                         }));
  if (seen != said) return absl::DataLossError("the backup lost a part on its way");
  return manifest;
}

absl::StatusOr<RestoreResult> Client::RestoreBackup(
    const RestoreRequest& request,
    const std::function<absl::StatusOr<std::string>()>& next) {
  return connection_->RestoreBackup(request, next);
}

absl::StatusOr<ErasureRequest> Client::CreateErasureRequest(const NewErasureRequest& request) {
  if (!request.idempotency_key.empty()) return connection_->CreateErasureRequest(request);
  NewErasureRequest with_key = request;
  with_key.idempotency_key = NewRequestId();
  return connection_->CreateErasureRequest(with_key);
}

absl::StatusOr<ErasureRequest> Client::GetErasureRequest(const std::string& tenant,
                                                         const std::string& id) {
  return connection_->GetErasureRequest(tenant, id);
}

StreamRange<ErasureRequest> Client::ListErasureRequests(const std::string& tenant,
                                                        std::optional<ErasureState> state) {
  return StreamRange<ErasureRequest>(
      [connection = connection_, tenant, state](const std::string& token) {
        return connection->ListErasureRequests(tenant, state, {.page_token = token});
      });
}

absl::StatusOr<ErasureRequest> Client::CancelErasureRequest(const std::string& tenant,
                                                            const std::string& id) {
  return connection_->CancelErasureRequest(tenant, id);
}

absl::StatusOr<ErasureRequest> Client::ExtendErasureRequest(const std::string& tenant,
                                                            const std::string& id,
                                                            const std::string& due_time,
                                                            const std::string& reason) {
  return connection_->ExtendErasureRequest(tenant, id, due_time, reason);
}

absl::StatusOr<std::vector<ErasureReceipt>> Client::TakeErasureReceipts(const std::string& tenant,
                                                                        const std::string& id,
                                                                        bool discard) {
  return connection_->TakeErasureReceipts(tenant, id, discard);
}

absl::StatusOr<Discovery> Client::Discover(const std::string& tenant,
                                           const std::vector<Identity>& identities) {
  return connection_->Discover(tenant, identities);
}

absl::StatusOr<Hold> Client::PlaceHold(const NewHold& hold) {
  if (!hold.idempotency_key.empty()) return connection_->PlaceHold(hold);
  NewHold with_key = hold;
  with_key.idempotency_key = NewRequestId();
  return connection_->PlaceHold(with_key);
}

absl::StatusOr<Hold> Client::ReleaseHold(const std::string& tenant, const std::string& id) {
  return connection_->ReleaseHold(tenant, id);
}

StreamRange<Hold> Client::ListHolds(const std::string& tenant, bool released_too) {
  return StreamRange<Hold>(
      [connection = connection_, tenant, released_too](const std::string& token) {
        return connection->ListHolds(tenant, released_too, {.page_token = token});
      });
}

absl::StatusOr<Job> Client::SubmitJob(const NewJob& job) {
  if (!job.request_id.empty()) return connection_->SubmitJob(job);
  NewJob with_id = job;
  with_id.request_id = NewRequestId();
  return connection_->SubmitJob(with_id);
}

absl::StatusOr<Job> Client::GetJob(const std::string& tenant, const std::string& id) {
  return connection_->GetJob(tenant, id);
}

StreamRange<Job> Client::ListJobs(const std::string& tenant, std::optional<JobState> state) {
  return StreamRange<Job>([connection = connection_, tenant, state](const std::string& token) {
    return connection->ListJobs(tenant, state, {.page_token = token});
  });
}

absl::StatusOr<Job> Client::CancelJob(const std::string& tenant, const std::string& id) {
  return connection_->CancelJob(tenant, id);
}

absl::Status Client::DeleteJob(const std::string& tenant, const std::string& id) {
  return connection_->DeleteJob(tenant, id);
}

absl::StatusOr<Job> Client::WatchJob(const std::string& tenant,
                                     const std::string& id,
                                     const std::function<absl::Status(const Job&)>& visit) {
  std::optional<Job> last;
  LETHE_RETURN_IF_ERROR(connection_->WatchJob(tenant, id, [&](const Job& job) {
    last = job;
    return visit(job);
  }));
  if (!last.has_value() || !HasEnded(last->state)) {
    return absl::DataLossError("the watch ended before the job");
  }
  return *std::move(last);
}

absl::StatusOr<JobArtefact> Client::GetArtefact(
    const std::string& tenant,
    const std::string& id,
    const std::function<absl::Status(absl::string_view piece)>& visit) {
  uint64_t bytes = 0;
  Sha256 sha256;
  LETHE_ASSIGN_OR_RETURN(JobArtefact artefact,
                         connection_->GetArtefact(tenant, id, [&](absl::string_view piece) {
                           bytes += piece.size();
                           sha256.Update(piece);
                           return visit(piece);
                         }));
  if (bytes != artefact.bytes) return absl::DataLossError("the artefact lost a part on its way");
  if (sha256.Finish() != artefact.sha256) {
    return absl::DataLossError(
        "the artefact is not the one that the server names: SHA-256 differs");
  }
  return artefact;
}

absl::StatusOr<KeyRewrap> Client::RewrapKeys(const std::string& tenant) {
  return connection_->RewrapKeys(tenant);
}

absl::StatusOr<Certificate> Client::GetCertificate(const std::string& tenant,
                                                   const std::string& id) {
  return connection_->GetCertificate(tenant, id);
}

StreamRange<Certificate> Client::ListCertificates(const std::string& tenant,
                                                  const std::string& memory) {
  return StreamRange<Certificate>(
      [connection = connection_, name = MemoryName{tenant, memory}](const std::string& token) {
        return connection->ListCertificates(name, {.page_token = token});
      });
}

}  // namespace lethe::client
