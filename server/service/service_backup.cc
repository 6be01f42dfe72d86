// Service: copies of tenants, and tenants put back from them.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "audit/commitments.h"
#include "audit/encoding.h"
#include "audit/random.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/service.h"
#include "server/service/write_ticket.h"
#include "store/anchor.h"
#include "store/tenant_glance.h"

namespace lethe::service {
namespace {

int64_t MillisecondsSince(absl::Time begin) {
  return absl::ToInt64Milliseconds(absl::Now() - begin);
}

absl::Status AnotherTenant() {
  return absl::FailedPreconditionError(
      "uid: the tenant of this name is another one than that of the backup; nothing was changed");
}

// Of the tenant in this folder; what its copy takes at most.
uint64_t FileBytes(const std::string& folder) {
  struct stat info {};
  const std::string path = absl::StrCat(folder, "/tenant.db");
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// A file that has lost its name goes away with its descriptor, however the process ends.
absl::StatusOr<FileDescriptor> OpenAndUnlink(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const int error = errno;
  ::unlink(path.c_str());
  if (!file.valid()) return SystemError(error, "open it", path);
  return file;
}

// Writes the file that arrives to `path`, which is new, as far as it is what the manifest says.
absl::Status Receive(const audit::BackupManifest& manifest,
                     const std::string& path,
                     const CallOptions& call,
                     absl::FunctionRef<absl::StatusOr<std::optional<std::string>>()> receive) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return SystemError(errno, "make it", path);
  struct statvfs room {};
  if (::fstatvfs(file.get(), &room) == 0 &&
      manifest.file_bytes / std::max<uint64_t>(room.f_frsize, 1) >= room.f_bavail) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": no room for the backup"));
  }
  audit::Sha256Hasher hasher;
  uint64_t bytes = 0;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::optional<std::string> piece, receive());
    if (!piece.has_value()) break;
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    bytes += piece->size();
    if (bytes > manifest.file_bytes) {
      return absl::InvalidArgumentError("file-bytes: the file is longer than its manifest says");
    }
    hasher.Update(*piece);
    LETHE_RETURN_IF_ERROR(WriteNext(file.get(), *piece, path));
  }
  if (bytes != manifest.file_bytes) {
    return absl::InvalidArgumentError("file-bytes: the file is shorter than its manifest says");
  }
  if (hasher.Finish() != manifest.file_sha256) {
    return absl::InvalidArgumentError("file-sha256: the file is not the one of the manifest");
  }
  return file.Close() ? absl::OkStatus() : SystemError(errno, "write it", path);
}

}  // namespace

absl::StatusOr<std::string> Service::Backup(
    const std::string& tenant,
    const CallOptions& call,
    absl::FunctionRef<absl::Status(absl::string_view piece, uint64_t file_bytes)> send) {
  const absl::Time begin = absl::Now();
  audit::BackupManifest manifest;
  absl::StatusOr<std::string> note = MakeBackup(tenant, call, send, manifest);
  if (note.ok()) {
    options_.tenant.log->Write(program::LogLevel::kInfo, "backup_created",
                               {{"tenant", tenant},
                                {"bytes", static_cast<int64_t>(manifest.file_bytes)},
                                {"certificates", static_cast<int64_t>(manifest.log_size)},
                                {"milliseconds", MillisecondsSince(begin)}});
  } else if (!absl::IsNotFound(note.status()) && !absl::IsInvalidArgument(note.status())) {
    options_.tenant.log->Write(program::LogLevel::kWarning, "backup_failed",
                               {{"tenant", tenant},
                                {"code", static_cast<int64_t>(note.status().code())},
                                {"message", std::string(note.status().message())}});
  }
  return note;
}

absl::StatusOr<std::string> Service::MakeBackup(
    const std::string& tenant,
    const CallOptions& call,
    absl::FunctionRef<absl::Status(absl::string_view piece, uint64_t file_bytes)> send,
    audit::BackupManifest& manifest) {
  const std::string path = directory_->NewTemporaryPath();
  std::string vkey;
  {
    LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                           writes_.Take(WriteTickets::Use::kCall, tenant));
    LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                           Find("tenant", tenant, TenantRegistry::Use::kRead, call));
    LETHE_RETURN_IF_ERROR(ballast_->Admit(FileBytes(directory_->tenant_path(tenant))));
    absl::Cleanup remove = [&path] { ::unlink(path.c_str()); };
    LETHE_ASSIGN_OR_RETURN(const Tenant::Copy copy, found->CopyTo(path, call));
    vkey = copy.vkey;
    manifest.origin = copy.made.tenant.log_origin;
    manifest.tenant = copy.made.tenant.name;
    manifest.uid = copy.made.tenant.uid;
    manifest.time = FormatMicros(copy.time_micros);
    manifest.log_size = copy.made.log.count;
    manifest.file_bytes = copy.made.bytes;
    LETHE_ASSIGN_OR_RETURN(manifest.log_root, RootOf(copy.made.log));
    std::move(remove).Cancel();
  }
  LETHE_ASSIGN_OR_RETURN(const FileDescriptor file, OpenAndUnlink(path));
  audit::Sha256Hasher hasher;
  std::string piece;
  for (uint64_t left = manifest.file_bytes; left > 0; left -= piece.size()) {
    piece.resize(std::min<uint64_t>(left, kBackupPieceBytes));
    LETHE_ASSIGN_OR_RETURN(const size_t read,
                           ReadNext(file.get(), piece.data(), piece.size(), path));
    if (read != piece.size()) return absl::DataLossError("the copy lost its end");
    hasher.Update(piece);
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    LETHE_RETURN_IF_ERROR(send(piece, manifest.file_bytes));
  }
  manifest.file_sha256 = hasher.Finish();
  // Gone only where a rotation has ended meanwhile: then the log was handed over to the present
  // key.
  absl::StatusOr<audit::Signer> signer = keys_->Find(manifest.origin, vkey);
  if (!signer.ok()) signer = keys_->Current(manifest.origin);
  LETHE_RETURN_IF_ERROR(signer.status());
  return audit::SignBackupManifest(manifest, *signer);
}

absl::StatusOr<RestoreReply> Service::Restore(
    const RestoreInput& input,
    const CallOptions& call,
    absl::FunctionRef<absl::StatusOr<std::optional<std::string>>()> receive) {
  const absl::Time begin = absl::Now();
  LETHE_ASSIGN_OR_RETURN(const audit::BackupManifest manifest,
                         audit::ReadBackupManifest(input.manifest));
  absl::StatusOr<RestoreReply> reply = RestoreFrom(input, manifest, call, receive);
  if (!reply.ok()) {
    options_.tenant.log->Write(program::LogLevel::kWarning, "restore_failed",
                               {{"tenant", manifest.tenant},
                                {"code", static_cast<int64_t>(reply.status().code())},
                                {"message", std::string(reply.status().message())}});
    return reply;
  }
  options_.tenant.log->Write(program::LogLevel::kInfo, "tenant_restored",
                             {{"tenant", manifest.tenant},
                              {"backup_time", manifest.time},
                              {"certificates", static_cast<int64_t>(reply->copy_size)},
                              {"reapplied", static_cast<int64_t>(reply->reapplied)},
                              {"removed", static_cast<int64_t>(reply->removed)},
                              {"unreadable", static_cast<int64_t>(reply->unreadable)},
                              {"memories_removed", static_cast<int64_t>(reply->memories_removed)},
                              {"keys_destroyed", static_cast<int64_t>(reply->keys_destroyed)},
                              {"requests_lost", static_cast<int64_t>(reply->requests_lost)},
                              {"holds_lost", static_cast<int64_t>(reply->holds_lost)},
                              {"requests_ended", static_cast<int64_t>(reply->requests_ended)},
                              {"holds_released", static_cast<int64_t>(reply->holds_released)},
                              {"certificate", reply->certificate_id},
                              {"milliseconds", MillisecondsSince(begin)}});
  return reply;
}

absl::Status Service::MayRestore(const audit::BackupManifest& manifest,
                                 bool replace,
                                 const CallOptions& call) {
  const std::optional<std::string> uid = registry_.KnownUid(manifest.tenant);
  if (uid.has_value() && *uid != manifest.uid) return AnotherTenant();
  if (replace) return absl::OkStatus();
  // Whether it can be served only an opening tells.
  const absl::Status opened =
      registry_.Acquire(manifest.tenant, TenantRegistry::Use::kRead, call).status();
  if (opened.ok()) return TenantRegistry::Served();
  // One that is quarantined, or none.
  if (absl::IsUnavailable(opened) || absl::IsNotFound(opened)) return absl::OkStatus();
  return opened;
}

absl::StatusOr<RestoreReply> Service::RestoreFrom(
    const RestoreInput& input,
    const audit::BackupManifest& manifest,
    const CallOptions& call,
    absl::FunctionRef<absl::StatusOr<std::optional<std::string>>()> receive) {
  LETHE_RETURN_IF_ERROR(ballast_->Admit(manifest.file_bytes));
  LETHE_RETURN_IF_ERROR(MayRestore(manifest, input.replace, call));
  const std::string path = directory_->NewTemporaryPath();
  const absl::Cleanup remove = [&path] { ::unlink(path.c_str()); };
  LETHE_RETURN_IF_ERROR(Receive(manifest, path, call, receive));

  MutexLock directory_lock(directory_mutex_);
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  // Again: the name may have been given to another tenant while the file arrived.
  const std::optional<std::string> uid = registry_.KnownUid(manifest.tenant);
  if (uid.has_value() && *uid != manifest.uid) return AnotherTenant();
  std::optional<RestoreReply> reply;
  bool in_order = false;
  const absl::Status status = registry_.WithClosed(
      manifest.tenant, call, input.replace, [&]() -> absl::StatusOr<std::optional<TenantFacts>> {
        LETHE_RETURN_IF_ERROR(CheckSignature(input.manifest, manifest));
        LETHE_ASSIGN_OR_RETURN(reply, PutBack(manifest, path));
        std::optional<TenantFacts> facts = LookAt(manifest.tenant);
        in_order = facts.has_value();
        return facts;
      });
  if (status.ok() && !in_order) {
    // An erasure that was pending is: opening the log finishes it, or the next call's opening does.
    registry_
        .WithLog(manifest.tenant, call, TenantRegistry::Room::kWait,
                 [](Tenant&) { return absl::OkStatus(); })
        .IgnoreError();
  }
  if (status.ok()) return *std::move(reply);
  if (!registry_.Contains(manifest.tenant) && FolderIsThere(manifest.tenant)) {
    registry_.AddQuarantined(manifest.tenant, status);
  }
  return status;
}

absl::Status Service::CheckSignature(const std::string& note,
                                     const audit::BackupManifest& manifest) const {
  const auto signed_by = [&note](const audit::VerificationKey& key) {
    return audit::VerifyBackupManifest(note, key).ok();
  };
  LETHE_ASSIGN_OR_RETURN(const audit::Signer current, keys_->Current(manifest.origin));
  LETHE_ASSIGN_OR_RETURN(const audit::Signer newest, keys_->Newest(manifest.origin));
  if (signed_by(current.verification_key()) || signed_by(newest.verification_key())) {
    return absl::OkStatus();
  }
  // A retired key is known by its hand-over. What the anchor has was verified before it came there.
  bool known = false;
  const absl::StatusOr<std::unique_ptr<store::Anchor>> anchor =
      store::Anchor::Open(absl::StrCat(directory_->vault_path(), "/", manifest.uid, "/anchor.db"),
                          manifest.uid, manifest.origin);
  if (anchor.ok()) {
    LETHE_RETURN_IF_ERROR((*anchor)->Visit(0, [&](store::AnchorEntry& entry) -> absl::Status {
      if (known || !entry.next_vkey.has_value()) return absl::OkStatus();
      LETHE_ASSIGN_OR_RETURN(const audit::VerificationKey key,
                             SigningKeyOf(entry.record, manifest.origin));
      // It signed copies that do not have its hand-over; whoever finds it later signs no newer one.
      known = manifest.log_size <= entry.record.sequence && signed_by(key);
      return absl::OkStatus();
    }));
  } else if (!absl::IsNotFound(anchor.status())) {
    return anchor.status();
  }
  if (known) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "signature: the manifest is signed by no key of this tenant's log",
      anchor.ok() ? "; it was changed, or the backup is another server's"
                  : ", as far as the server knows: the tenant's vault is not there; put it back"));
}

absl::StatusOr<RestoreReply> Service::PutBack(const audit::BackupManifest& manifest,
                                              const std::string& copy) {
  RestoreReply reply;
  reply.tenant = manifest.tenant;
  const store::RestoreCertifier certify =
      [&](const store::RestoreReport& report, const store::LogHead& head,
          std::span<const store::LogKey> keys) -> absl::StatusOr<store::CertificateAppend> {
    LETHE_ASSIGN_OR_RETURN(store::CertificateAppend append,
                           CertifyRestore(manifest, report, head, keys));
    reply.certificate_id = append.record.id;
    return append;
  };
  store::RestoreReport report;
  // What stands there may be a namesake that could not be opened, of which nothing is known.
  const std::optional<store::TenantGlance> there =
      store::GlanceAtTenant(directory_->tenant_path(manifest.tenant), directory_->vault_path());
  if (there.has_value() && there->record.uid != manifest.uid) return AnotherTenant();
  const store::SqliteTenantOptions store_options{.vault = options_.tenant.vault,
                                                 .kms = options_.tenant.kms,
                                                 .keys = options_.tenant.keys,
                                                 .expected_name = manifest.tenant};
  const int64_t held_back_until =
      NowMicros() + absl::ToInt64Microseconds(options_.tenant.erasures.after_restore);
  // What an open job has read may be other tokens afterwards.
  jobs_->StartOver(manifest.uid);
  const absl::Status replaced =
      directory_->ReplaceTenant(manifest.tenant, [&](const std::string& folder) -> absl::Status {
        const std::string path = absl::StrCat(folder, "/tenant.db");
        if (std::rename(copy.c_str(), path.c_str()) != 0) {
          return SystemError(errno, "move it", copy);
        }
        LETHE_ASSIGN_OR_RETURN(
            report, store::RestoreTenantStore(folder, store_options, certify, held_back_until));
        return absl::OkStatus();
      });
  LETHE_RETURN_IF_ERROR(replaced);
  if (const absl::Status noted = store::FinishRestore(store_options, report); !noted.ok()) {
    // The tenant is back all the same; the next restore counts again what this one said is lost.
    options_.tenant.log->Write(
        program::LogLevel::kWarning, "restore_not_noted",
        {{"tenant", manifest.tenant}, {"message", std::string(noted.message())}});
  }
  reply.copy_size = report.copy_size;
  reply.reapplied = report.reapplied;
  reply.removed = report.removed;
  reply.unreadable = report.unreadable;
  reply.memories_removed = report.memories_removed;
  reply.keys_destroyed = report.keys_destroyed;
  reply.requests_lost = report.cases_lost.requests;
  reply.holds_lost = report.cases_lost.holds;
  reply.requests_ended = report.cases_ended.requests;
  reply.holds_released = report.cases_ended.holds;
  return reply;
}

absl::StatusOr<store::CertificateAppend> Service::CertifyRestore(
    const audit::BackupManifest& manifest,
    const store::RestoreReport& report,
    const store::LogHead& head,
    std::span<const store::LogKey> keys) const {
  if (report.tenant.uid != manifest.uid || report.tenant.log_origin != manifest.origin ||
      report.copy_size != manifest.log_size) {
    return absl::FailedPreconditionError("manifest: says something else than the copy");
  }
  if (keys.empty()) return absl::DataLossError("the log of certificates has no key");
  LETHE_ASSIGN_OR_RETURN(const audit::Signer signer,
                         keys_->Find(manifest.origin, keys.back().vkey));
  LETHE_RETURN_IF_ERROR(VerifyHead(head, signer.verification_key()));
  const int64_t now = absl::ToUnixMicros(options_.tenant.now());
  audit::CertificateBody body =
      BaseBody(manifest.origin, head, audit::CertificateKind::kRestored, now);
  body.request_commitment =
      audit::RequestCommitment(audit::RandomSalt(), manifest.tenant, audit::RandomUid());
  body.restoration = audit::Restoration{
      .size = report.copy_size, .reapplied = report.reapplied, .removed = report.removed};
  body.counts.matched = report.removed;
  body.counts.erased = report.removed;
  body.stores = StoresOfRestoration();
  if (report.unreadable > 0) {
    body.exceptions.push_back(absl::StrCat(
        report.unreadable,
        " tokens of the copy that no erasure named were taken out: the keys that the copy has them "
        "under were destroyed, with a part of their subject or by a restore of an older copy"));
  }
  return SignForStore(body, head, signer, nullptr, "", "", now);
}

}  // namespace lethe::service
