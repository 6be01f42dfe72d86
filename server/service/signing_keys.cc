#include "server/service/signing_keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

constexpr absl::string_view kSigning = "signing.pem";
constexpr absl::string_view kNext = "signing.next.pem";
constexpr absl::string_view kRetired = "signing.retired.pem";
// The name a key has in its file does not matter: it signs for every log under the log's own.
constexpr absl::string_view kAnyOrigin = "lethe";

absl::Status SystemError(const std::string& path, absl::string_view doing) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", doing, ": ", std::strerror(error));
  return error == ENOSPC ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

absl::Status Sync(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "opening");
  const int result = ::fsync(fd);
  absl::Status status = result == 0 ? absl::OkStatus() : SystemError(path, "fsync");
  ::close(fd);
  return status;
}

// Zeros over the whole file, on the disk as far as fsync goes.
absl::Status Wipe(const std::string& path) {
  if (::chmod(path.c_str(), 0600) != 0) return SystemError(path, "setting its mode");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return SystemError(path, "opening");
  const auto close = absl::MakeCleanup([fd] { ::close(fd); });
  struct stat info {};
  if (::fstat(fd, &info) != 0) return SystemError(path, "looking at it");
  const std::string zeros(static_cast<size_t>(info.st_size), '\0');
  for (size_t at = 0; at < zeros.size();) {
    const ssize_t written =
        ::pwrite(fd, zeros.data() + at, zeros.size() - at, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError(path, "overwriting");
    at += static_cast<size_t>(written);
  }
  return ::fsync(fd) == 0 ? absl::OkStatus() : SystemError(path, "fsync");
}

}  // namespace

std::string SigningKeys::Path(absl::string_view file) const {
  return absl::StrCat(folder_, "/", file);
}

bool SigningKeys::Exists(absl::string_view file) const {
  struct stat info {};
  return ::lstat(Path(file).c_str(), &info) == 0;
}

absl::Status SigningKeys::Rename(absl::string_view from, absl::string_view to) const {
  // RENAME_NOREPLACE: a key that is in the way is a key that a log may need.
  if (::renameat2(AT_FDCWD, Path(from).c_str(), AT_FDCWD, Path(to).c_str(), RENAME_NOREPLACE) !=
      0) {
    return SystemError(Path(from), absl::StrCat("renaming to ", to));
  }
  return Sync(folder_, O_RDONLY | O_DIRECTORY);
}

absl::StatusOr<std::unique_ptr<SigningKeys>> SigningKeys::Open(const std::string& folder,
                                                               bool may_create,
                                                               RotationFault fault) {
  std::unique_ptr<SigningKeys> store(new SigningKeys(folder, std::move(fault)));
  MutexLock lock(store->mutex_);
  // `retired` appears only after the last log handed over.
  if (store->Exists(kRetired)) LETHE_RETURN_IF_ERROR(store->FinishSwap());
  const absl::StatusOr<audit::Signer> present =
      audit::Signer::LoadFile(kAnyOrigin, store->Path(kSigning));
  if (absl::IsNotFound(present.status())) {
    if (!may_create || store->Exists(kNext)) {
      return absl::FailedPreconditionError(
          "keys/signing.pem is missing though there are tenants whose logs it signed; restore it "
          "from a backup");
    }
    LETHE_RETURN_IF_ERROR(audit::Signer::CreateFile(kAnyOrigin, store->Path(kSigning)).status());
    store->created_ = true;
    return store;
  }
  LETHE_RETURN_IF_ERROR(present.status());
  if (store->Exists(kNext)) {
    LETHE_RETURN_IF_ERROR(audit::Signer::LoadFile(kAnyOrigin, store->Path(kNext)).status());
  }
  return store;
}

bool SigningKeys::rotating() const {
  MutexLock lock(mutex_);
  return Rotating();
}

absl::StatusOr<audit::Signer> SigningKeys::Current(absl::string_view origin) const {
  MutexLock lock(mutex_);
  return audit::Signer::LoadFile(origin, Path(Exists(kSigning) ? kSigning : kNext));
}

absl::StatusOr<audit::Signer> SigningKeys::Newest(absl::string_view origin) const {
  MutexLock lock(mutex_);
  return audit::Signer::LoadFile(origin, Path(Exists(kNext) ? kNext : kSigning));
}

absl::StatusOr<audit::Signer> SigningKeys::Find(absl::string_view origin,
                                                absl::string_view vkey) const {
  MutexLock lock(mutex_);
  for (absl::string_view file : {kSigning, kNext}) {
    absl::StatusOr<audit::Signer> signer = audit::Signer::LoadFile(origin, Path(file));
    if (!signer.ok() && !absl::IsNotFound(signer.status())) return signer.status();
    if (signer.ok() && signer->verification_key().vkey() == vkey) return signer;
  }
  return absl::FailedPreconditionError(
      "keys/ does not hold the key that this log is signed with; restore it from a backup");
}

absl::Status SigningKeys::Begin() {
  {
    MutexLock lock(mutex_);
    if (Rotating()) return absl::OkStatus();
    LETHE_RETURN_IF_ERROR(audit::Signer::CreateFile(kAnyOrigin, Path(kNext)).status());
  }
  return Reached("begun");
}

absl::Status SigningKeys::Finish() {
  MutexLock lock(mutex_);
  if (!Rotating()) return absl::OkStatus();
  if (!Exists(kRetired)) {
    LETHE_RETURN_IF_ERROR(Rename(kSigning, kRetired));
    LETHE_RETURN_IF_ERROR(Reached("retired"));
  }
  return FinishSwap();
}

absl::Status SigningKeys::FinishSwap() const {
  if (!Exists(kSigning)) {
    LETHE_RETURN_IF_ERROR(Rename(kNext, kSigning));
    LETHE_RETURN_IF_ERROR(Reached("promoted"));
  }
  LETHE_RETURN_IF_ERROR(Wipe(Path(kRetired)));
  LETHE_RETURN_IF_ERROR(Reached("wiped"));
  if (::unlink(Path(kRetired).c_str()) != 0) return SystemError(Path(kRetired), "removing");
  return Sync(folder_, O_RDONLY | O_DIRECTORY);
}

}  // namespace lethe::service
