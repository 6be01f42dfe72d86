#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/convert.h"
#include "core/base/stall_guard.h"
#include "core/base/status_macros.h"
#include "grpcpp/client_context.h"
#include "lethe/v1/worker_service.grpc.pb.h"
#include "worker/link.h"

namespace lethe::worker {
namespace {

constexpr absl::Duration kCallLimit = absl::Seconds(30);
constexpr absl::Duration kStall = absl::Seconds(60);
constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status StoodStill(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, " stood still"));
}

class GrpcLink final : public Link {
 public:
  explicit GrpcLink(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::WorkerService::NewStub(channel)) {}

  absl::StatusOr<v1::LeaseJobResponse> Lease(const std::string& worker,
                                             const std::vector<jobs::JobKind>& kinds,
                                             absl::Duration wait) override {
    v1::LeaseJobRequest request;
    request.set_worker(worker);
    for (const jobs::JobKind kind : kinds) request.add_kinds(static_cast<v1::JobKind>(kind));
    request.set_wait_seconds(absl::ToDoubleSeconds(wait));
    v1::LeaseJobResponse response;
    grpc::ClientContext context;
    SetDeadline(context, wait + kCallLimit);
    LETHE_RETURN_IF_ERROR(Told(stub_->LeaseJob(&context, request, &response)));
    return response;
  }

  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::JobLease& lease,
                                                  const v1::JobProgress& progress,
                                                  absl::Duration limit) override {
    v1::HeartbeatRequest request;
    *request.mutable_lease() = lease;
    *request.mutable_progress() = progress;
    v1::HeartbeatResponse response;
    grpc::ClientContext context;
    SetDeadline(context, limit);
    LETHE_RETURN_IF_ERROR(Told(stub_->Heartbeat(&context, request, &response)));
    return response;
  }

  absl::Status ReadTokens(
      const v1::JobLease& lease,
      const std::function<absl::Status(uint64_t count)>& begin,
      const std::function<absl::Status(const v1::TrainingTokens::Token&)>& visit) override {
    v1::ReadTokensRequest request;
    *request.mutable_lease() = lease;
    grpc::ClientContext context;
    StallGuard guard(kStall, [&context] { context.TryCancel(); });
    const auto reader = stub_->ReadTokens(&context, request);
    std::optional<uint64_t> count;
    uint64_t seen = 0;
    absl::Status visited;
    v1::TrainingTokens page;
    while (visited.ok() && reader->Read(&page)) {
      guard.Progress();
      if (!count.has_value()) visited = begin(*(count = page.count()));
      for (const v1::TrainingTokens::Token& token : page.tokens()) {
        if (!visited.ok()) break;
        ++seen;
        visited = visit(token);
      }
    }
    if (!visited.ok()) context.TryCancel();
    const absl::Status finished = Told(reader->Finish());
    if (!visited.ok()) return visited;
    if (guard.stalled()) return StoodStill("reading tokens");
    LETHE_RETURN_IF_ERROR(finished);
    if (seen != count.value_or(0)) return absl::DataLossError("not all tokens came");
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> LoadCheckpoint(const v1::JobLease& lease) override {
    v1::LoadCheckpointRequest request;
    *request.mutable_lease() = lease;
    grpc::ClientContext context;
    StallGuard guard(kStall, [&context] { context.TryCancel(); });
    const auto reader = stub_->LoadCheckpoint(&context, request);
    std::optional<uint64_t> bytes;
    std::string content;
    v1::CheckpointPiece piece;
    while (reader->Read(&piece)) {
      guard.Progress();
      if (!bytes.has_value()) bytes = piece.bytes();
      if (content.size() + piece.data().size() > *bytes) break;
      content += piece.data();
    }
    context.TryCancel();
    const grpc::Status finished = reader->Finish();
    if (bytes.has_value() && content.size() == *bytes) return content;
    if (guard.stalled()) return StoodStill("loading the checkpoint");
    if (!finished.ok() && finished.error_code() != grpc::StatusCode::CANCELLED) {
      return Told(finished);
    }
    return absl::DataLossError("not all of the checkpoint came");
  }

  absl::StatusOr<v1::HeartbeatResponse> SaveCheckpoint(const v1::JobLease& lease,
                                                       const v1::JobProgress& progress,
                                                       absl::string_view bytes) override {
    v1::SaveCheckpointRequest first;
    *first.mutable_lease() = lease;
    *first.mutable_progress() = progress;
    return Send<v1::HeartbeatResponse>(
        "saving the checkpoint", first, bytes,
        [this](grpc::ClientContext* context, v1::HeartbeatResponse* response) {
          return stub_->SaveCheckpoint(context, response);
        });
  }

  absl::StatusOr<v1::JobArtefact> Complete(const v1::JobLease& lease,
                                           const v1::JobProgress& progress,
                                           const std::string& manifest,
                                           absl::string_view bytes) override {
    v1::CompleteJobRequest first;
    *first.mutable_lease() = lease;
    *first.mutable_progress() = progress;
    first.set_manifest(manifest);
    LETHE_ASSIGN_OR_RETURN(
        const v1::CompleteJobResponse response,
        Send<v1::CompleteJobResponse>(
            "sending the artefact", first, bytes,
            [this](grpc::ClientContext* context, v1::CompleteJobResponse* answer) {
              return stub_->CompleteJob(context, answer);
            }));
    return response.artefact();
  }

  absl::Status Fail(const v1::JobLease& lease,
                    v1::WorkerEnd end,
                    const std::string& message,
                    const v1::JobProgress& progress) override {
    v1::FailJobRequest request;
    *request.mutable_lease() = lease;
    request.set_end(end);
    request.set_message(message);
    *request.mutable_progress() = progress;
    v1::FailJobResponse response;
    grpc::ClientContext context;
    SetDeadline(context, kCallLimit);
    return Told(stub_->FailJob(&context, request, &response));
  }

 private:
  static void SetDeadline(grpc::ClientContext& context, absl::Duration limit) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
  }
  static absl::Status Told(const grpc::Status& status) { return client::convert::FromWire(status); }

  template <typename Response, typename Request, typename Open>
  absl::StatusOr<Response> Send(absl::string_view what,
                                const Request& first,
                                absl::string_view bytes,
                                const Open& open) {
    grpc::ClientContext context;
    StallGuard guard(kStall, [&context] { context.TryCancel(); });
    Response response;
    const auto writer = open(&context, &response);
    // A write that fails means that the server has ended the call; Finish has its reason.
    bool going = writer->Write(first);
    for (size_t at = 0; going && at < bytes.size(); at += kPieceBytes) {
      guard.Progress();
      const absl::string_view piece = bytes.substr(at, kPieceBytes);
      Request message;
      message.set_data(piece.data(), piece.size());
      going = writer->Write(message);
    }
    if (going) writer->WritesDone();
    guard.Progress();
    const absl::Status finished = Told(writer->Finish());
    if (finished.ok()) return response;
    return guard.stalled() ? StoodStill(what) : finished;
  }

  const std::unique_ptr<v1::WorkerService::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> MakeGrpcLink(const client::Options& options) {
  absl::Status status = client::Validate(options);
  const std::shared_ptr<grpc::Channel> channel = client::MakeChannel(options, status);
  LETHE_RETURN_IF_ERROR(status);
  return std::make_unique<GrpcLink>(channel);
}

}  // namespace lethe::worker
