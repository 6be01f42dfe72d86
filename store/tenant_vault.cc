#include "store/tenant_vault.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/schema.h"
#include "store/vault/file_kms.h"
#include "store/vault/vault_folder.h"

namespace lethe::store {
namespace {

// NOT_FOUND when it is not there.
absl::Status CheckFolder(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": is not there"));
    return SystemError(errno, "look at it", path);
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is no folder; put the vault of this tenant there"));
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": must belong to the user of the server and to no one else (mode 0700)"));
  }
  return absl::OkStatus();
}

absl::Status CheckVault(const TenantVault::Place& place) {
  const absl::Status root = CheckFolder(place.root);
  const absl::Status status = root.ok() ? CheckFolder(place.folder()) : root;
  if (!absl::IsNotFound(status)) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(),
                   ", but holds the keys of this tenant; give the server the right vault, or"
                   " put this folder back from its copy: without it the rows cannot be read"));
}

// It holds no secret: to unlink it is enough. What a connection that closed could not sync is
// synced before, so that a device that fails is told of here as everywhere.
absl::Status RemoveAnchor(const std::string& folder) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string path = absl::StrCat(AnchorFileOf(folder), suffix);
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (file.valid()) LETHE_RETURN_IF_ERROR(Sync(file.get(), path));
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove it", path);
    }
  }
  return absl::OkStatus();
}

absl::Status Missing(const absl::Status& status) {
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(), "; put this tenant's keys back from the copy of its vault"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kms>> MakeFileKms(KmsUse use,
                                                 const std::string& folder,
                                                 const std::string& /*tenant_uid*/) {
  const std::string path = KekFolderOf(folder);
  absl::StatusOr<std::unique_ptr<FileKms>> kms =
      use == KmsUse::kCreate ? FileKms::Create(path) : FileKms::Open(path);
  if (!kms.ok()) return kms.status();
  return std::move(*kms);
}

absl::Status TenantVault::MakeKeys(const Place& place) {
  LETHE_ASSIGN_OR_RETURN(keys_, KeyStore::Create(KeysFileOf(place.folder()), place.tenant_uid,
                                                 kms_.get(), place.keys));
  LETHE_ASSIGN_OR_RETURN(const uint64_t first, keys_->Allocate(1));
  LETHE_CHECK(first == kTenantSlot);
  LETHE_ASSIGN_OR_RETURN(
      anchor_, Anchor::Create(AnchorFileOf(place.folder()), place.tenant_uid, place.log_origin));
  LETHE_RETURN_IF_ERROR(SyncFolder(place.folder()));
  return SyncFolder(place.root);
}

absl::StatusOr<std::unique_ptr<TenantVault>> TenantVault::Create(const Place& place) {
  const absl::Status root = CheckFolder(place.root);
  if (absl::IsNotFound(root)) return absl::FailedPreconditionError(root.message());
  LETHE_RETURN_IF_ERROR(root);
  if (::mkdir(place.folder().c_str(), 0700) != 0) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(
          absl::StrCat(place.folder(), ": a vault of this uid exists; uids are not used twice"));
    }
    return SystemError(errno, "make the folder", place.folder());
  }
  absl::StatusOr<std::unique_ptr<Kms>> kms =
      place.kms(KmsUse::kCreate, place.folder(), place.tenant_uid);
  if (!kms.ok()) {
    // What KEKs there are may be somebody's; a folder that is not empty stays.
    RemoveFolder(place).IgnoreError();
    return kms.status();
  }
  std::unique_ptr<TenantVault> vault(new TenantVault(std::move(*kms), nullptr));
  const absl::Status status = vault->MakeKeys(place);
  if (status.ok()) return vault;
  if (End(place, std::move(vault)).ok()) RemoveFolder(place).IgnoreError();
  return status;
}

absl::StatusOr<std::unique_ptr<TenantVault>> TenantVault::Open(const Place& place) {
  LETHE_RETURN_IF_ERROR(CheckVault(place));
  absl::StatusOr<std::unique_ptr<Kms>> kms =
      place.kms(KmsUse::kOpen, place.folder(), place.tenant_uid);
  if (absl::IsNotFound(kms.status())) return Missing(kms.status());
  LETHE_RETURN_IF_ERROR(kms.status());
  absl::StatusOr<std::unique_ptr<KeyStore>> keys =
      KeyStore::Open(KeysFileOf(place.folder()), place.tenant_uid, kms->get(), place.keys);
  if (absl::IsNotFound(keys.status())) return Missing(keys.status());
  LETHE_RETURN_IF_ERROR(keys.status());
  absl::StatusOr<std::unique_ptr<Anchor>> anchor =
      Anchor::Open(AnchorFileOf(place.folder()), place.tenant_uid, place.log_origin);
  if (absl::IsNotFound(anchor.status())) {
    return absl::FailedPreconditionError(absl::StrCat(anchor.status().message(), kAnchorAdvice));
  }
  LETHE_RETURN_IF_ERROR(anchor.status());
  std::unique_ptr<TenantVault> vault(new TenantVault(std::move(*kms), std::move(*keys)));
  vault->anchor_ = std::move(*anchor);
  return vault;
}

absl::Status TenantVault::Health() const {
  LETHE_RETURN_IF_ERROR(keys_->Health());
  return anchor_->Health();
}

absl::StatusOr<KeysDestroyed> TenantVault::End(const Place& place,
                                               std::unique_ptr<TenantVault> open) {
  LETHE_RETURN_IF_ERROR(CheckVault(place));
  const std::string kek_folder = KekFolderOf(place.folder());
  if (open != nullptr && open->keys_ != nullptr) {
    LETHE_RETURN_IF_ERROR(open->keys_->DestroyAll());
  } else if (open != nullptr) {
    LETHE_RETURN_IF_ERROR(open->kms_->DestroyAll());
  } else {
    const absl::StatusOr<std::unique_ptr<Kms>> kms =
        place.kms(KmsUse::kOpen, place.folder(), place.tenant_uid);
    // NOT_FOUND: an earlier call has ended the KEKs. A folder of KEKs that cannot be opened is
    // ended by FileKms::Remove all the same.
    if (kms.ok()) {
      LETHE_RETURN_IF_ERROR((*kms)->DestroyAll());
    } else if (!absl::IsNotFound(kms.status()) && ::access(kek_folder.c_str(), F_OK) != 0) {
      return kms.status();
    }
  }
  open.reset();
  LETHE_RETURN_IF_ERROR(RemoveAnchor(place.folder()));
  LETHE_RETURN_IF_ERROR(FileKms::Remove(kek_folder).status());
  // From here on nothing unwraps a data key any more, wherever a copy of it lies.
  LETHE_ASSIGN_OR_RETURN(const RemovalResult removed, KeyStore::Remove(KeysFileOf(place.folder())));
  KeysDestroyed result;
  result.destroyed = removed.destroyed;
  result.already_destroyed = removed.already_destroyed;
  result.bytes_read = removed.bytes_overwritten;
  return result;
}

absl::Status TenantVault::RemoveFolder(const Place& place) {
  if (::rmdir(place.folder().c_str()) != 0 && errno != ENOENT) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return SystemError(errno, "remove it", place.folder());
    }
    return absl::FailedPreconditionError(absl::StrCat(
        place.folder(), ": holds files that are not of a vault; take them out and repeat"));
  }
  return SyncFolder(place.root);
}

}  // namespace lethe::store
