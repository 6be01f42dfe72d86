#include "server/access/guarded_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::access {

absl::StatusOr<std::string> ReadGuardedFile(const std::string& path,
                                            size_t max_bytes,
                                            Secrecy secrecy) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return SystemError(errno, "open it", path);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return SystemError(errno, "look at it", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": no regular file"));
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": belongs to another user; chown it to the server's or to root"));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": its group or others can write it; chmod go-w it"));
  }
  if (secrecy == Secrecy::kPrivate && (status.st_mode & S_IRWXO) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": others can read it; chmod 0600 or 0640 it"));
  }
  // One byte more than may be there tells that there is more.
  std::string bytes(max_bytes + 1, '\0');
  LETHE_ASSIGN_OR_RETURN(
      const size_t size,
      ReadUpTo(file.get(), reinterpret_cast<uint8_t*>(bytes.data()), bytes.size(), path));
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": larger than ", max_bytes, " bytes"));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace lethe::access
