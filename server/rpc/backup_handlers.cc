#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/backup_manifest.h"
#include "core/base/status_macros.h"
#include "server/calls/convert.h"
#include "server/rpc/services.h"

namespace lethe::rpc {
namespace {

using service::CallOptions;

absl::Status SendBackup(service::Service* service,
                        const v1::CreateBackupRequest& request,
                        const CallOptions& call,
                        const std::function<bool(const v1::BackupPiece&)>& write) {
  v1::BackupPiece piece;
  const auto send = [&]() -> absl::Status {
    const bool sent = write(piece);
    piece.Clear();
    return sent ? absl::OkStatus() : absl::CancelledError("the caller is gone");
  };
  bool first = true;
  LETHE_ASSIGN_OR_RETURN(
      std::string manifest,
      service->Backup(request.tenant(), call, [&](absl::string_view data, uint64_t file_bytes) {
        if (std::exchange(first, false)) piece.set_file_bytes(file_bytes);
        piece.set_data(data.data(), data.size());
        return send();
      }));
  piece.set_manifest(std::move(manifest));
  return send();
}

// As the manifest of the first message says, unverified; empty where it cannot be read.
std::string TenantOfManifest(const v1::RestoreBackupRequest& first) {
  const auto manifest = audit::ReadBackupManifest(first.manifest());
  return manifest.ok() ? manifest->tenant : std::string();
}

using ReadRestore = std::function<absl::StatusOr<std::optional<v1::RestoreBackupRequest>>()>;

absl::Status ReceiveBackup(service::Service* service,
                           const ReadRestore& read,
                           const CallOptions& call,
                           v1::RestoreBackupResponse* response) {
  LETHE_ASSIGN_OR_RETURN(std::optional<v1::RestoreBackupRequest> message, read());
  if (!message.has_value() || message->manifest().empty()) {
    return absl::InvalidArgumentError("manifest: must be in the first message");
  }
  const service::RestoreInput input{.manifest = std::move(*message->mutable_manifest()),
                                    .replace = message->replace()};
  const auto receive = [&]() -> absl::StatusOr<std::optional<std::string>> {
    // The first one has been read; it may have data.
    if (!message.has_value()) {
      LETHE_ASSIGN_OR_RETURN(message, read());
      if (!message.has_value()) return std::nullopt;
      if (!message->manifest().empty() || message->replace()) {
        return absl::InvalidArgumentError(
            "manifest: it and replace must be in the first message only");
      }
    }
    std::string data = std::move(*message->mutable_data());
    message.reset();
    if (data.size() > service::kBackupPieceBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: more than ", service::kBackupPieceBytes, " bytes in a message"));
    }
    return data;
  };
  LETHE_ASSIGN_OR_RETURN(const service::RestoreReply reply, service->Restore(input, call, receive));
  calls::ToProto(reply, response);
  return absl::OkStatus();
}

}  // namespace

BackupHandlers::BackupHandlers(service::Service* service,
                               const Shared& shared,
                               size_t max_backups,
                               absl::Duration max_pause)
    : RawService(shared), backups_(max_backups), restores_(max_backups) {
  AnswerStream<v1::CreateBackupRequest, v1::BackupPiece>(
      "CreateBackup", &backups_, max_pause,
      [service](const auto& request, const CallOptions& call, const auto& write) {
        return SendBackup(service, request, call, write);
      });
  RequestStream<v1::RestoreBackupRequest, v1::RestoreBackupResponse>(
      "RestoreBackup", &restores_, max_pause, TenantOfManifest,
      [service](const auto& read, const CallOptions& call, auto* response) {
        return ReceiveBackup(service, read, call, response);
      });
}

void BackupHandlers::StopCalls() {
  RawService::StopCalls();
  backups_.StopAll();
  restores_.StopAll();
}

void BackupHandlers::WaitForCalls(std::chrono::system_clock::time_point deadline) {
  RawService::WaitForCalls(deadline);
  backups_.WaitUntilEmpty(deadline);
  restores_.WaitUntilEmpty(deadline);
}

}  // namespace lethe::rpc
