#include "store/tenant_vault.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/schema.h"
#include "store/vault/file_kms.h"

namespace lethe::store {
namespace {

constexpr char kKeysFile[] = "keys.db";
constexpr char kKekFolder[] = "kek";

absl::Status SystemError(absl::string_view doing, const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", doing, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EIO) return absl::UnavailableError(message);
  return absl::FailedPreconditionError(
      absl::StrCat(message, "; the vault must be a folder that this user can read and write"));
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("opening", path, errno);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return result == 0 ? absl::OkStatus() : SystemError("fsync", path, error);
}

// NOT_FOUND when it is not there.
absl::Status CheckFolder(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": is not there"));
    return SystemError("looking at it", path, errno);
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

absl::Status Missing(const absl::Status& status) {
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(), "; put this tenant's keys back from the copy of its vault"));
}

// Overwrites, syncs and unlinks; OK when it is gone.
absl::Status EraseFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : SystemError("opening", path, errno);
  const auto overwrite = [&]() -> absl::Status {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return SystemError("looking at it", path, errno);
    const std::vector<char> zeros(1u << 16);
    for (off_t at = 0; at < info.st_size;) {
      const auto size = std::min(static_cast<size_t>(info.st_size - at), zeros.size());
      const ssize_t written = ::pwrite(fd, zeros.data(), size, at);
      if (written <= 0) return SystemError("overwriting", path, written < 0 ? errno : EIO);
      at += written;
    }
    return ::fsync(fd) == 0 ? absl::OkStatus() : SystemError("fsync", path, errno);
  };
  const absl::Status status = overwrite();
  ::close(fd);
  LETHE_RETURN_IF_ERROR(status);
  return ::unlink(path.c_str()) == 0 ? absl::OkStatus() : SystemError("removing", path, errno);
}

absl::Status RemoveEmptyFolder(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno == ENOTEMPTY || errno == EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": holds files that are not of a vault; take them out and repeat"));
  }
  return SystemError("removing", path, errno);
}

// Everything that the vault consists of, once the KEKs are gone.
absl::Status EraseFiles(const std::string& folder) {
  for (absl::string_view suffix : {"", "-wal", "-shm", "-journal"}) {
    LETHE_RETURN_IF_ERROR(EraseFile(absl::StrCat(folder, "/", kKeysFile, suffix)));
  }
  LETHE_RETURN_IF_ERROR(RemoveEmptyFolder(absl::StrCat(folder, "/", kKekFolder)));
  return SyncFolder(folder);
}

absl::StatusOr<DestroyResult> DestroyEverySlot(KeyStore& keys) {
  constexpr uint32_t kPage = 10'000;
  std::vector<uint64_t> live;
  for (uint64_t after = 0;;) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> page, keys.LiveSlots(after, kPage));
    if (page.empty()) break;
    after = page.back();
    live.insert(live.end(), page.begin(), page.end());
  }
  return keys.Destroy(live);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kms>> MakeFileKms(KmsUse use,
                                                 const std::string& folder,
                                                 const std::string& /*tenant_uid*/) {
  const std::string path = absl::StrCat(folder, "/", kKekFolder);
  absl::StatusOr<std::unique_ptr<FileKms>> kms =
      use == KmsUse::kCreate ? FileKms::Create(path) : FileKms::Open(path);
  if (!kms.ok()) return kms.status();
  return std::move(*kms);
}

absl::Status TenantVault::MakeKeys(const Place& place) {
  LETHE_ASSIGN_OR_RETURN(keys_, KeyStore::Create(absl::StrCat(place.folder(), "/", kKeysFile),
                                                 place.tenant_uid, kms_.get()));
  LETHE_ASSIGN_OR_RETURN(const uint64_t first, keys_->Allocate(1));
  LETHE_CHECK(first == kTenantSlot);
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
    return SystemError("making the folder", place.folder(), errno);
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
      KeyStore::Open(absl::StrCat(place.folder(), "/", kKeysFile), place.tenant_uid, kms->get());
  if (absl::IsNotFound(keys.status())) return Missing(keys.status());
  LETHE_RETURN_IF_ERROR(keys.status());
  return std::unique_ptr<TenantVault>(new TenantVault(std::move(*kms), std::move(*keys)));
}

absl::StatusOr<KeysDestroyed> TenantVault::End(const Place& place,
                                               std::unique_ptr<TenantVault> open) {
  LETHE_RETURN_IF_ERROR(CheckVault(place));
  std::unique_ptr<Kms> kms = open == nullptr ? nullptr : std::move(open->kms_);
  std::unique_ptr<KeyStore> keys = open == nullptr ? nullptr : std::move(open->keys_);
  if (kms == nullptr) {
    absl::StatusOr<std::unique_ptr<Kms>> opened =
        place.kms(KmsUse::kOpen, place.folder(), place.tenant_uid);
    // NOT_FOUND: an earlier call has ended the KEKs.
    if (!opened.ok() && !absl::IsNotFound(opened.status())) return opened.status();
    if (opened.ok()) kms = std::move(*opened);
  }
  if (kms != nullptr && keys == nullptr) {
    // A file that cannot be opened is overwritten all the same.
    absl::StatusOr<std::unique_ptr<KeyStore>> opened =
        KeyStore::Open(absl::StrCat(place.folder(), "/", kKeysFile), place.tenant_uid, kms.get());
    if (opened.ok()) keys = std::move(*opened);
  }
  if (kms != nullptr) LETHE_RETURN_IF_ERROR(kms->DestroyAll());
  // From here on nothing unwraps a data key any more, wherever a copy of it lies.
  KeysDestroyed result;
  if (keys != nullptr) {
    // What fails here, and copies that were found, are answered by the overwriting of the file.
    const absl::StatusOr<DestroyResult> destroyed = DestroyEverySlot(*keys);
    if (destroyed.ok()) {
      result.destroyed = destroyed->destroyed;
      result.bytes_read = destroyed->bytes_read;
      result.rewritten = destroyed->rewritten;
    }
  }
  keys.reset();
  kms.reset();
  LETHE_RETURN_IF_ERROR(EraseFiles(place.folder()));
  return result;
}

absl::Status TenantVault::RemoveFolder(const Place& place) {
  LETHE_RETURN_IF_ERROR(RemoveEmptyFolder(place.folder()));
  return SyncFolder(place.root);
}

}  // namespace lethe::store
