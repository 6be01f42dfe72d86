// The services of jobs: for tenants and for workers.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/calls/convert_jobs.h"
#include "server/calls/unary_calls.h"
#include "server/rpc/services.h"
#include "server/service/names.h"

namespace lethe::rpc {
namespace {

using service::CallOptions;

absl::Status Gone() { return absl::CancelledError("the caller is gone"); }

template <typename Message>
using Write = std::function<bool(const Message&)>;
template <typename Request>
using Read = std::function<absl::StatusOr<std::optional<Request>>()>;

template <typename Request>
std::string NoTenant(const Request&) {
  return {};
}

absl::Status SendArtefact(service::Service* service,
                          const v1::GetArtefactRequest& request,
                          const CallOptions& call,
                          const Write<v1::ArtefactPiece>& write) {
  return service->ReadArtefact(
      request.tenant(), request.id(), call,
      [&](const service::JobArtefact& artefact) {
        v1::ArtefactPiece piece;
        calls::ToProto(artefact, piece.mutable_artefact());
        return write(piece) ? absl::OkStatus() : Gone();
      },
      [&](absl::string_view data) {
        v1::ArtefactPiece piece;
        piece.set_data(data.data(), data.size());
        return write(piece) ? absl::OkStatus() : Gone();
      });
}

absl::Status SendTokens(service::Service* service,
                        const v1::ReadTokensRequest& request,
                        const CallOptions& call,
                        const Write<v1::TrainingTokens>& write) {
  return service->ReadTrainingTokens(
      calls::FromProto(request.lease()), call,
      [&](uint64_t count) {
        v1::TrainingTokens first;
        first.set_count(count);
        return write(first) ? absl::OkStatus() : Gone();
      },
      [&](std::vector<service::TrainingToken> tokens) {
        v1::TrainingTokens page;
        calls::ToProto(std::move(tokens), &page);
        return write(page) ? absl::OkStatus() : Gone();
      });
}

absl::Status SendCheckpoint(service::Service* service,
                            const v1::LoadCheckpointRequest& request,
                            const Write<v1::CheckpointPiece>& write) {
  return service->jobs().GetCheckpoint(
      calls::FromProto(request.lease()),
      [&](const store::JobFile& file) {
        v1::CheckpointPiece first;
        first.set_bytes(file.bytes);
        first.set_step(file.step);
        return write(first) ? absl::OkStatus() : Gone();
      },
      [&](absl::string_view data) {
        v1::CheckpointPiece piece;
        piece.set_data(data.data(), data.size());
        return write(piece) ? absl::OkStatus() : Gone();
      });
}

// The first message of an upload names what it is of; those that follow have data alone.
template <typename Request>
absl::StatusOr<Request> ReadFirst(const Read<Request>& read) {
  LETHE_ASSIGN_OR_RETURN(std::optional<Request> first, read());
  if (!first.has_value() || !first->has_lease()) {
    return service::FieldError("lease", "must be in the first message");
  }
  if (!first->data().empty())
    return service::FieldError("data", "must not be in the first message");
  return *std::move(first);
}

template <typename Request>
absl::StatusOr<std::optional<std::string>> ReadData(const Read<Request>& read) {
  LETHE_ASSIGN_OR_RETURN(std::optional<Request> message, read());
  if (!message.has_value()) return std::nullopt;
  if (message->has_lease() || message->has_progress()) {
    return service::FieldError("lease", "it and progress must be in the first message only");
  }
  if (message->data().size() > store::kJobPieceBytes) {
    return service::FieldError(
        "data", absl::StrCat("more than ", store::kJobPieceBytes, " bytes in a message"));
  }
  return std::move(*message->mutable_data());
}

absl::Status ReceiveCheckpoint(service::Service* service,
                               const Read<v1::SaveCheckpointRequest>& read,
                               v1::HeartbeatResponse* response) {
  LETHE_ASSIGN_OR_RETURN(const v1::SaveCheckpointRequest first, ReadFirst(read));
  return calls::Answer(service->jobs().PutCheckpoint(calls::FromProto(first.lease()),
                                                     calls::FromProto(first.progress()),
                                                     [&] { return ReadData(read); }),
                       response);
}

absl::Status ReceiveArtefact(service::Service* service,
                             const Read<v1::CompleteJobRequest>& read,
                             v1::CompleteJobResponse* response) {
  LETHE_ASSIGN_OR_RETURN(const v1::CompleteJobRequest first, ReadFirst(read));
  LETHE_ASSIGN_OR_RETURN(
      const service::JobInfo job,
      service->jobs().Complete(calls::FromProto(first.lease()), first.manifest(),
                               calls::ProgressOf(first), [&] { return ReadData(read); }));
  if (job.artefact.has_value()) calls::ToProto(*job.artefact, response->mutable_artefact());
  return absl::OkStatus();
}

}  // namespace

JobHandlers::JobHandlers(service::Service* service,
                         const Shared& shared,
                         size_t max_streams,
                         absl::Duration max_write)
    : RawService(shared), service_(service), watches_(max_streams), downloads_(max_streams) {
  for (const calls::UnaryCall& call : calls::JobCalls(service)) Unary(call);
  AnswerStream<v1::WatchJobRequest, v1::Job>(
      "WatchJob", &watches_, max_write,
      [service](const auto& request, const CallOptions& call, const auto& write) {
        return service->WatchJob(request.tenant(), request.id(), call,
                                 [&](const service::JobInfo& info) {
                                   v1::Job job;
                                   calls::ToProto(info, &job);
                                   return write(job) ? absl::OkStatus() : Gone();
                                 });
      });
  AnswerStream<v1::GetArtefactRequest, v1::ArtefactPiece>(
      "GetArtefact", &downloads_, max_write,
      [service](const auto& request, const CallOptions& call, const auto& write) {
        return SendArtefact(service, request, call, write);
      });
}

void JobHandlers::StopCalls() {
  RawService::StopCalls();
  watches_.StopAll();
  downloads_.StopAll();
  // Who waits for a job, or for one to change, is sent away.
  service_->jobs().Stop();
}

void JobHandlers::WaitForCalls(std::chrono::system_clock::time_point deadline) {
  RawService::WaitForCalls(deadline);
  watches_.WaitUntilEmpty(deadline);
  downloads_.WaitUntilEmpty(deadline);
}

WorkerHandlers::WorkerHandlers(service::Service* service,
                               const Shared& shared,
                               size_t max_streams,
                               absl::Duration max_pause)
    : RawService(shared), streams_(max_streams) {
  for (const calls::UnaryCall& call : calls::WorkerCalls(service)) Unary(call);
  AnswerStream<v1::ReadTokensRequest, v1::TrainingTokens>(
      "ReadTokens", &streams_, max_pause,
      [service](const auto& request, const CallOptions& call, const auto& write) {
        return SendTokens(service, request, call, write);
      });
  AnswerStream<v1::LoadCheckpointRequest, v1::CheckpointPiece>(
      "LoadCheckpoint", &streams_, max_pause,
      [service](const auto& request, const CallOptions&, const auto& write) {
        return SendCheckpoint(service, request, write);
      });
  RequestStream<v1::SaveCheckpointRequest, v1::HeartbeatResponse>(
      "SaveCheckpoint", &streams_, max_pause, NoTenant<v1::SaveCheckpointRequest>,
      [service](const auto& read, const CallOptions&, auto* response) {
        return ReceiveCheckpoint(service, read, response);
      });
  RequestStream<v1::CompleteJobRequest, v1::CompleteJobResponse>(
      "CompleteJob", &streams_, max_pause, NoTenant<v1::CompleteJobRequest>,
      [service](const auto& read, const CallOptions&, auto* response) {
        return ReceiveArtefact(service, read, response);
      });
}

void WorkerHandlers::StopCalls() {
  RawService::StopCalls();
  streams_.StopAll();
}

void WorkerHandlers::WaitForCalls(std::chrono::system_clock::time_point deadline) {
  RawService::WaitForCalls(deadline);
  streams_.WaitUntilEmpty(deadline);
}

}  // namespace lethe::rpc
