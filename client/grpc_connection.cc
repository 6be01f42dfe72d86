// The default Connection: one channel, a stub a service, the retry loop of client/retry.h around
// each call.
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/connection.h"
#include "client/convert.h"
#include "client/convert_erasure.h"
#include "client/convert_jobs.h"
#include "client/grpc_streams.h"
#include "client/hedge.h"
#include "core/base/stall_guard.h"
#include "core/base/status_macros.h"
#include "grpcpp/client_context.h"
#include "lethe/v1/backup_service.grpc.pb.h"
#include "lethe/v1/certificate_service.grpc.pb.h"
#include "lethe/v1/erasure_service.grpc.pb.h"
#include "lethe/v1/job_service.grpc.pb.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"

namespace lethe::client {
namespace {

class GrpcConnection : public Connection {
 public:
  // With a channel of its own.
  GrpcConnection(Options options, Environment environment)
      : GrpcConnection(std::move(options), std::move(environment), absl::OkStatus(), nullptr) {}
  // On a channel that is there, unless `status` says that it must not be used. Null makes one.
  GrpcConnection(Options options,
                 Environment environment,
                 absl::Status status,
                 std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)),
        environment_(std::move(environment)),
        options_status_(status.ok() ? Validate(options_) : std::move(status)),
        channel_(channel != nullptr ? std::move(channel) : MakeChannel(options_, options_status_)),
        tenants_(v1::TenantService::NewStub(channel_)),
        memories_(v1::MemoryService::NewStub(channel_)),
        certificates_(v1::CertificateService::NewStub(channel_)),
        backups_(v1::BackupService::NewStub(channel_)),
        erasures_(v1::ErasureService::NewStub(channel_)),
        jobs_(v1::JobService::NewStub(channel_)) {}

  const Options& options() const override { return options_; }
  std::shared_ptr<Connection> With(const CallOptions& call) override {
    return std::make_shared<GrpcConnection>(client::With(options_, call), environment_,
                                            options_status_, channel_);
  }

  absl::StatusOr<Tenant> CreateTenant(const std::string& tenant) override {
    v1::CreateTenantRequest request;
    request.set_name(tenant);
    return Call(Idempotency::kNotSafe, *tenants_, &v1::TenantService::StubInterface::CreateTenant,
                request);
  }

  absl::StatusOr<Tenant> GetTenant(const std::string& tenant) override {
    v1::GetTenantRequest request;
    request.set_name(tenant);
    return Call(Idempotency::kRead, *tenants_, &v1::TenantService::StubInterface::GetTenant,
                request);
  }

  absl::StatusOr<Page<Tenant>> ListTenants(const PageRequest& page) override {
    v1::ListTenantsRequest request;
    v1::ListTenantsResponse response;
    LETHE_RETURN_IF_ERROR(ListCall(*tenants_, &v1::TenantService::StubInterface::ListTenants, page,
                                   request, response));
    return MakePage<Tenant>(response.tenants(), response.next_page_token());
  }

  absl::StatusOr<TenantDeletion> DeleteTenant(const std::string& tenant) override {
    v1::DeleteTenantRequest request;
    request.set_name(tenant);
    return Call(Idempotency::kNotSafe, *tenants_, &v1::TenantService::StubInterface::DeleteTenant,
                request);
  }

  absl::StatusOr<Memory> CreateMemory(const MemoryName& name, const MemoryConfig& config) override {
    v1::CreateMemoryRequest request;
    request.set_tenant(name.tenant);
    request.set_name(name.memory);
    convert::ToWire(config, *request.mutable_config());
    return Call(Idempotency::kNotSafe, *memories_, &v1::MemoryService::StubInterface::CreateMemory,
                request);
  }

  absl::StatusOr<Memory> GetMemory(const MemoryName& name) override {
    v1::GetMemoryRequest request;
    request.set_tenant(name.tenant);
    request.set_name(name.memory);
    return Call(Idempotency::kRead, *memories_, &v1::MemoryService::StubInterface::GetMemory,
                request);
  }

  absl::StatusOr<Page<Memory>> ListMemories(const std::string& tenant,
                                            const PageRequest& page) override {
    v1::ListMemoriesRequest request;
    request.set_tenant(tenant);
    v1::ListMemoriesResponse response;
    LETHE_RETURN_IF_ERROR(ListCall(*memories_, &v1::MemoryService::StubInterface::ListMemories,
                                   page, request, response));
    return MakePage<Memory>(response.memories(), response.next_page_token());
  }

  absl::StatusOr<MemoryDeletion> DeleteMemory(const MemoryName& name) override {
    v1::DeleteMemoryRequest request;
    request.set_tenant(name.tenant);
    request.set_name(name.memory);
    return Call(Idempotency::kNotSafe, *memories_, &v1::MemoryService::StubInterface::DeleteMemory,
                request);
  }

  absl::StatusOr<InsertResult> Insert(const MemoryName& name,
                                      const std::vector<Token>& tokens) override {
    v1::InsertRequest request;
    request.set_tenant(name.tenant);
    request.set_memory(name.memory);
    for (const Token& token : tokens) convert::ToWire(token, *request.add_tokens());
    return Call(IdempotencyOf(tokens), *memories_, &v1::MemoryService::StubInterface::Insert,
                request);
  }

  std::unique_ptr<InsertStream> OpenInsertStream(const MemoryName& name) override {
    if (!options_status_.ok()) return FailedInsertStream(options_status_);
    return OpenGrpcInsertStream(*memories_, name, environment_.now() + options_.stream_lifetime);
  }

  absl::StatusOr<QueryResult> Query(const QueryRequest& request) override {
    return Call(Idempotency::kRead, *memories_, &v1::MemoryService::StubInterface::Query,
                convert::ToWire(request));
  }

  std::unique_ptr<QueryStream> OpenQueryStream() override {
    if (!options_status_.ok()) return FailedQueryStream(options_status_);
    return OpenGrpcQueryStream(*memories_, environment_.now() + options_.stream_lifetime);
  }

  absl::StatusOr<ForgetResult> Forget(const ForgetRequest& request) override {
    return Call(IdempotencyOf(request), *memories_, &v1::MemoryService::StubInterface::Forget,
                convert::ToWire(request));
  }

  absl::StatusOr<EvictResult> Evict(const EvictRequest& request) override {
    return Call(IdempotencyOf(request), *memories_, &v1::MemoryService::StubInterface::Evict,
                convert::ToWire(request));
  }

  absl::StatusOr<EditResult> Edit(const EditRequest& request) override {
    return Call(IdempotencyOf(request), *memories_, &v1::MemoryService::StubInterface::Edit,
                convert::ToWire(request));
  }

  absl::StatusOr<Description> Describe(const MemoryName& name, bool refit) override {
    v1::DescribeRequest request;
    request.set_tenant(name.tenant);
    request.set_memory(name.memory);
    request.set_refit(refit);
    // A refit costs what a solution costs: never two at a time.
    return Call(refit ? Idempotency::kSafeToRepeat : Idempotency::kRead, *memories_,
                &v1::MemoryService::StubInterface::Describe, request);
  }

  // Each one appends to the log, so that a repetition would say the same thing twice.
  absl::StatusOr<Verification> Verify(const MemoryName& name) override {
    v1::VerifyRequest request;
    request.set_tenant(name.tenant);
    request.set_memory(name.memory);
    return Call(Idempotency::kNotSafe, *memories_, &v1::MemoryService::StubInterface::Verify,
                request);
  }

  absl::StatusOr<Checkpoint> GetCheckpoint(const std::string& tenant) override {
    v1::GetCheckpointRequest request;
    request.set_tenant(tenant);
    return Call(Idempotency::kRead, *certificates_,
                &v1::CertificateService::StubInterface::GetCheckpoint, request);
  }

  absl::StatusOr<InclusionProof> GetInclusionProof(const InclusionProofRequest& proof) override {
    v1::GetInclusionProofRequest request;
    request.set_tenant(proof.tenant);
    if (proof.certificate_id.empty()) {
      request.set_sequence(proof.sequence);
    } else {
      request.set_certificate_id(proof.certificate_id);
    }
    request.set_size(proof.size);
    return Call(Idempotency::kRead, *certificates_,
                &v1::CertificateService::StubInterface::GetInclusionProof, request);
  }

  absl::StatusOr<ConsistencyProof> GetConsistencyProof(const std::string& tenant,
                                                       uint64_t old_size,
                                                       uint64_t new_size) override {
    v1::GetConsistencyProofRequest request;
    request.set_tenant(tenant);
    request.set_old_size(old_size);
    request.set_new_size(new_size);
    return Call(Idempotency::kRead, *certificates_,
                &v1::CertificateService::StubInterface::GetConsistencyProof, request);
  }

  absl::StatusOr<Checkpoint> AddCosignature(const std::string& tenant,
                                            const std::string& line) override {
    v1::AddCosignatureRequest request;
    request.set_tenant(tenant);
    request.set_line(line);
    return Call(Idempotency::kSafeToRepeat, *certificates_,
                &v1::CertificateService::StubInterface::AddCosignature, request);
  }

  absl::StatusOr<ExportSummary> Export(
      const ExportRequest& request,
      const std::function<absl::Status(const ExportPiece&)>& visit) override {
    LETHE_RETURN_IF_ERROR(options_status_);
    v1::ExportRequest wire;
    wire.set_tenant(request.tenant);
    wire.set_first(request.first);
    if (request.last.has_value()) wire.set_last(*request.last);
    grpc::ClientContext context;
    // No deadline: a log may be large and a line slow.
    StallGuard guard(options_.stream_stall, [&context] { context.TryCancel(); });
    const auto reader = certificates_->Export(&context, wire);
    std::optional<ExportSummary> summary;
    absl::Status visited;
    v1::ExportPiece piece;
    while (visited.ok() && reader->Read(&piece)) {
      guard.Progress();
      if (summary.has_value()) {
        visited = absl::DataLossError("the export goes on after its end");
      } else if (piece.done()) {
        summary = ExportSummary{piece.files(), piece.bytes()};
      } else {
        visited = visit({std::move(*piece.mutable_path()), std::move(*piece.mutable_data())});
      }
    }
    if (!visited.ok()) context.TryCancel();
    const absl::Status finished = convert::FromWire(reader->Finish());
    if (!visited.ok()) return visited;
    if (guard.stalled()) return StoodStill("the export");
    if (!finished.ok()) return finished;
    if (!summary.has_value()) return absl::DataLossError("the export ended before it was whole");
    return *summary;
  }

  absl::StatusOr<KeyRotation> RotateKey() override {
    return Call(Idempotency::kNotSafe, *certificates_,
                &v1::CertificateService::StubInterface::RotateKey, v1::RotateKeyRequest());
  }

  absl::StatusOr<std::string> CreateBackup(
      const std::string& tenant,
      const std::function<absl::Status(const BackupPiece&)>& visit) override {
    LETHE_RETURN_IF_ERROR(options_status_);
    v1::CreateBackupRequest request;
    request.set_tenant(tenant);
    grpc::ClientContext context;
    // No deadline, as for an export.
    StallGuard guard(options_.stream_stall, [&context] { context.TryCancel(); });
    const auto reader = backups_->CreateBackup(&context, request);
    std::optional<std::string> manifest;
    uint64_t file_bytes = 0;
    absl::Status visited;
    v1::BackupPiece piece;
    while (visited.ok() && reader->Read(&piece)) {
      guard.Progress();
      if (manifest.has_value()) {
        visited = absl::DataLossError("the backup goes on after its manifest");
      } else if (!piece.manifest().empty()) {
        manifest = std::move(*piece.mutable_manifest());
      } else {
        if (piece.file_bytes() > 0) file_bytes = piece.file_bytes();
        visited = visit({.data = std::move(*piece.mutable_data()), .file_bytes = file_bytes});
      }
    }
    if (!visited.ok()) context.TryCancel();
    const absl::Status finished = convert::FromWire(reader->Finish());
    if (!visited.ok()) return visited;
    if (guard.stalled()) return StoodStill("the backup");
    if (!finished.ok()) return finished;
    if (!manifest.has_value()) return absl::DataLossError("the backup ended before it was whole");
    return *std::move(manifest);
  }

  absl::StatusOr<RestoreResult> RestoreBackup(
      const RestoreRequest& request,
      const std::function<absl::StatusOr<std::string>()>& next) override {
    LETHE_RETURN_IF_ERROR(options_status_);
    grpc::ClientContext context;
    StallGuard guard(options_.stream_stall, [&context] { context.TryCancel(); });
    v1::RestoreBackupResponse response;
    const auto writer = backups_->RestoreBackup(&context, &response);
    v1::RestoreBackupRequest message;
    message.set_manifest(request.manifest);
    message.set_replace(request.replace);
    // A write that fails means that the server has ended the call; Finish has its reason.
    bool open = writer->Write(message);
    message.Clear();
    absl::Status read;
    while (open) {
      guard.Progress();
      absl::StatusOr<std::string> data = next();
      if (!data.ok()) {
        read = data.status();
        context.TryCancel();
        break;
      }
      if (data->empty()) break;
      message.set_data(*std::move(data));
      open = writer->Write(message);
    }
    if (open && read.ok()) writer->WritesDone();
    guard.Progress();
    const absl::Status finished = convert::FromWire(writer->Finish());
    if (!read.ok()) return read;
    if (finished.ok()) return convert::FromWire(response);
    return guard.stalled() ? StoodStill("the restore") : finished;
  }

  absl::StatusOr<KeyRewrap> RewrapKeys(const std::string& tenant) override {
    v1::RewrapKeysRequest request;
    request.set_tenant(tenant);
    return Call(Idempotency::kNotSafe, *certificates_,
                &v1::CertificateService::StubInterface::RewrapKeys, request);
  }

  absl::StatusOr<ErasureRequest> CreateErasureRequest(const NewErasureRequest& request) override {
    return Call(
        request.idempotency_key.empty() ? Idempotency::kNotSafe : Idempotency::kSafeToRepeat,
        *erasures_, &v1::ErasureService::StubInterface::CreateErasureRequest,
        convert::ToWire(request));
  }

  absl::StatusOr<ErasureRequest> GetErasureRequest(const std::string& tenant,
                                                   const std::string& id) override {
    v1::GetErasureRequestRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    return Call(Idempotency::kRead, *erasures_,
                &v1::ErasureService::StubInterface::GetErasureRequest, request);
  }

  absl::StatusOr<Page<ErasureRequest>> ListErasureRequests(const std::string& tenant,
                                                           std::optional<ErasureState> state,
                                                           const PageRequest& page) override {
    v1::ListErasureRequestsRequest request;
    request.set_tenant(tenant);
    if (state.has_value()) request.set_state(static_cast<v1::ErasureState>(*state));
    v1::ListErasureRequestsResponse response;
    LETHE_RETURN_IF_ERROR(ListCall(*erasures_,
                                   &v1::ErasureService::StubInterface::ListErasureRequests, page,
                                   request, response));
    return MakePage<ErasureRequest>(response.requests(), response.next_page_token());
  }

  absl::StatusOr<ErasureRequest> CancelErasureRequest(const std::string& tenant,
                                                      const std::string& id) override {
    v1::CancelErasureRequestRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    return Call(Idempotency::kSafeToRepeat, *erasures_,
                &v1::ErasureService::StubInterface::CancelErasureRequest, request);
  }

  absl::StatusOr<ErasureRequest> ExtendErasureRequest(const std::string& tenant,
                                                      const std::string& id,
                                                      const std::string& due_time,
                                                      const std::string& reason) override {
    v1::ExtendErasureRequestRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    request.set_due_time(due_time);
    request.set_reason(reason);
    return Call(Idempotency::kSafeToRepeat, *erasures_,
                &v1::ErasureService::StubInterface::ExtendErasureRequest, request);
  }

  // Given again until they are discarded; an answer that came with a discard is not.
  absl::StatusOr<std::vector<ErasureReceipt>> TakeErasureReceipts(const std::string& tenant,
                                                                  const std::string& id,
                                                                  bool discard) override {
    v1::TakeErasureReceiptsRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    request.set_discard(discard);
    return Call(discard ? Idempotency::kNotSafe : Idempotency::kSafeToRepeat, *erasures_,
                &v1::ErasureService::StubInterface::TakeErasureReceipts, request);
  }

  absl::StatusOr<Discovery> Discover(const std::string& tenant,
                                     const std::vector<Identity>& identities) override {
    v1::DiscoverRequest request;
    request.set_tenant(tenant);
    convert::ToWire(identities, request.mutable_identities());
    return Call(Idempotency::kRead, *erasures_, &v1::ErasureService::StubInterface::Discover,
                request);
  }

  absl::StatusOr<Hold> PlaceHold(const NewHold& hold) override {
    return Call(hold.idempotency_key.empty() ? Idempotency::kNotSafe : Idempotency::kSafeToRepeat,
                *erasures_, &v1::ErasureService::StubInterface::PlaceHold, convert::ToWire(hold));
  }

  absl::StatusOr<Hold> ReleaseHold(const std::string& tenant, const std::string& id) override {
    v1::ReleaseHoldRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    return Call(Idempotency::kSafeToRepeat, *erasures_,
                &v1::ErasureService::StubInterface::ReleaseHold, request);
  }

  absl::StatusOr<Page<Hold>> ListHolds(const std::string& tenant,
                                       bool released_too,
                                       const PageRequest& page) override {
    v1::ListHoldsRequest request;
    request.set_tenant(tenant);
    request.set_released_too(released_too);
    v1::ListHoldsResponse response;
    LETHE_RETURN_IF_ERROR(ListCall(*erasures_, &v1::ErasureService::StubInterface::ListHolds, page,
                                   request, response));
    return MakePage<Hold>(response.holds(), response.next_page_token());
  }

  absl::StatusOr<Job> SubmitJob(const NewJob& job) override {
    return Call(job.request_id.empty() ? Idempotency::kNotSafe : Idempotency::kSafeToRepeat, *jobs_,
                &v1::JobService::StubInterface::SubmitJob, convert::ToWire(job));
  }

  absl::StatusOr<Job> GetJob(const std::string& tenant, const std::string& id) override {
    v1::GetJobRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    return Call(Idempotency::kRead, *jobs_, &v1::JobService::StubInterface::GetJob, request);
  }

  absl::StatusOr<Page<Job>> ListJobs(const std::string& tenant,
                                     std::optional<JobState> state,
                                     const PageRequest& page) override {
    v1::ListJobsRequest request;
    request.set_tenant(tenant);
    if (state.has_value()) request.set_state(static_cast<v1::JobState>(*state));
    v1::ListJobsResponse response;
    LETHE_RETURN_IF_ERROR(
        ListCall(*jobs_, &v1::JobService::StubInterface::ListJobs, page, request, response));
    return MakePage<Job>(response.jobs(), response.next_page_token());
  }

  absl::StatusOr<Job> CancelJob(const std::string& tenant, const std::string& id) override {
    v1::CancelJobRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    return Call(Idempotency::kSafeToRepeat, *jobs_, &v1::JobService::StubInterface::CancelJob,
                request);
  }

  // After a lost answer the repetition would say NOT_FOUND.
  absl::Status DeleteJob(const std::string& tenant, const std::string& id) override {
    v1::DeleteJobRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    v1::DeleteJobResponse response;
    return RawCall(Idempotency::kNotSafe, static_cast<v1::JobService::StubInterface&>(*jobs_),
                   &v1::JobService::StubInterface::DeleteJob, request, response);
  }

  absl::Status WatchJob(const std::string& tenant,
                        const std::string& id,
                        const std::function<absl::Status(const Job&)>& visit) override {
    LETHE_RETURN_IF_ERROR(options_status_);
    v1::WatchJobRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    Backoff backoff(options_.initial_backoff, options_.max_backoff);
    for (int attempt = 1;; ++attempt) {
      grpc::ClientContext context;
      // No deadline: a job may wait for days.
      const auto reader = jobs_->WatchJob(&context, request);
      absl::Status visited;
      v1::Job job;
      while (visited.ok() && reader->Read(&job)) {
        attempt = 0;
        backoff.Reset();
        visited = visit(convert::FromWire(job));
      }
      if (!visited.ok()) context.TryCancel();
      const absl::Status finished = convert::FromWire(reader->Finish());
      if (!visited.ok()) return visited;
      const bool again = IsTransient(finished) || IsRefusedForNow(finished);
      if (!again || attempt >= options_.max_stream_attempts) return finished;
      environment_.sleep(WaitBefore(backoff, environment_.uniform(), finished));
    }
  }

  absl::StatusOr<JobArtefact> GetArtefact(
      const std::string& tenant,
      const std::string& id,
      const std::function<absl::Status(absl::string_view piece)>& visit) override {
    LETHE_RETURN_IF_ERROR(options_status_);
    v1::GetArtefactRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    grpc::ClientContext context;
    // No deadline, as for an export.
    StallGuard guard(options_.stream_stall, [&context] { context.TryCancel(); });
    const auto reader = jobs_->GetArtefact(&context, request);
    std::optional<JobArtefact> artefact;
    absl::Status visited;
    v1::ArtefactPiece piece;
    while (visited.ok() && reader->Read(&piece)) {
      guard.Progress();
      if (piece.has_artefact()) artefact = convert::FromWire(piece.artefact());
      if (!piece.data().empty()) visited = visit(piece.data());
    }
    if (!visited.ok()) context.TryCancel();
    const absl::Status finished = convert::FromWire(reader->Finish());
    if (!visited.ok()) return visited;
    if (guard.stalled()) return StoodStill("the download");
    if (!finished.ok()) return finished;
    if (!artefact.has_value()) return absl::DataLossError("the server did not name the artefact");
    return *std::move(artefact);
  }

  absl::StatusOr<Certificate> GetCertificate(const std::string& tenant,
                                             const std::string& id) override {
    v1::GetCertificateRequest request;
    request.set_tenant(tenant);
    request.set_id(id);
    return Call(Idempotency::kRead, *certificates_,
                &v1::CertificateService::StubInterface::GetCertificate, request);
  }

  absl::StatusOr<Page<Certificate>> ListCertificates(const MemoryName& name,
                                                     const PageRequest& page) override {
    v1::ListCertificatesRequest request;
    request.set_tenant(name.tenant);
    request.set_memory(name.memory);
    v1::ListCertificatesResponse response;
    LETHE_RETURN_IF_ERROR(ListCall(*certificates_,
                                   &v1::CertificateService::StubInterface::ListCertificates, page,
                                   request, response));
    return MakePage<Certificate>(response.certificates(), response.next_page_token());
  }

 private:
  template <typename Stub, typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  template <typename Stub, typename Request, typename Response>
  absl::Status RawCall(Idempotency idempotency,
                       Stub& stub,
                       Method<Stub, Request, Response> method,
                       const Request& request,
                       Response& response) {
    LETHE_RETURN_IF_ERROR(options_status_);
    const absl::Duration hedge_after =
        idempotency == Idempotency::kRead ? options_.hedge_after : absl::InfiniteDuration();
    return RetryLoop(options_, environment_, idempotency, [&](absl::Time deadline) {
      grpc::ClientContext contexts[2];
      Response responses[2];
      for (grpc::ClientContext& context : contexts) {
        context.set_deadline(absl::ToChronoTime(deadline));
      }
      const HedgeResult result = Hedged(
          hedge_after,
          [&](int which) {
            return convert::FromWire((stub.*method)(&contexts[which], request, &responses[which]));
          },
          [&contexts](int which) { contexts[which].TryCancel(); });
      response = std::move(responses[result.winner]);
      return result.status;
    });
  }

  template <typename Concrete, typename Stub, typename Request, typename Response>
  auto Call(Idempotency idempotency,
            Concrete& stub,
            Method<Stub, Request, Response> method,
            const Request& request) -> absl::StatusOr<decltype(convert::FromWire(Response()))> {
    Response response;
    LETHE_RETURN_IF_ERROR(
        RawCall(idempotency, static_cast<Stub&>(stub), method, request, response));
    return convert::FromWire(response);
  }

  template <typename Concrete, typename Stub, typename Request, typename Response>
  absl::Status ListCall(Concrete& stub,
                        Method<Stub, Request, Response> method,
                        const PageRequest& page,
                        Request& request,
                        Response& response) {
    request.set_page_size(page.page_size);
    request.set_page_token(page.page_token);
    return RawCall(Idempotency::kRead, static_cast<Stub&>(stub), method, request, response);
  }

  absl::Status StoodStill(absl::string_view what) const {
    return absl::UnavailableError(
        absl::StrCat(what, " stood still for ", absl::FormatDuration(options_.stream_stall)));
  }

  template <typename T, typename Items>
  static Page<T> MakePage(const Items& items, const std::string& next) {
    Page<T> page;
    for (const auto& item : items) page.items.push_back(convert::FromWire(item));
    page.next_page_token = next;
    return page;
  }

  const Options options_;
  const Environment environment_;
  absl::Status options_status_;  // of the options, and of the files that they name
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TenantService::Stub> tenants_;
  std::unique_ptr<v1::MemoryService::Stub> memories_;
  std::unique_ptr<v1::CertificateService::Stub> certificates_;
  std::unique_ptr<v1::BackupService::Stub> backups_;
  std::unique_ptr<v1::ErasureService::Stub> erasures_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

}  // namespace

std::shared_ptr<Connection> MakeConnection(Options options) {
  return MakeConnection(std::move(options), Environment::Real());
}

std::shared_ptr<Connection> MakeConnection(Options options, Environment environment) {
  return std::make_shared<GrpcConnection>(std::move(options), std::move(environment));
}

}  // namespace lethe::client
