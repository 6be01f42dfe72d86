#include "core/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/disk_full.h"

namespace lethe {
namespace {

constexpr absl::string_view kDiskFullPayload = "lethe/disk-full";

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this == &other) return *this;
  (void)Close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

bool FileDescriptor::Close() {
  if (!valid()) return true;
  // Once only: Linux gives the number back even when it reports an error.
  return ::close(std::exchange(descriptor_, -1)) == 0;
}

bool IsDiskFull(const absl::Status& status) {
  return status.GetPayload(kDiskFullPayload).has_value();
}

absl::Status MarkDiskFull(absl::Status status) {
  LETHE_CHECK(!status.ok());
  status.SetPayload(kDiskFullPayload, absl::Cord("1"));
  return status;
}

absl::Status SystemError(int error, absl::string_view doing, const std::string& path) {
  const std::string message =
      absl::StrCat(path, ": cannot ", doing, ": ", std::generic_category().message(error));
  switch (error) {
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOENT:
      return absl::NotFoundError(message);
    case ELOOP:
    case ENOTDIR:
      return absl::FailedPreconditionError(
          absl::StrCat(message, "; symbolic links and files in place of folders are not followed"));
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
      return MarkDiskFull(absl::ResourceExhaustedError(message));
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status WriteAll(int file, absl::string_view bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return SystemError(count < 0 ? errno : EIO, "write it", path);
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ReadUpTo(int file, uint8_t* out, size_t size, const std::string& path) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(file, out + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "read it", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

absl::Status WriteNext(int file, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return SystemError(count < 0 ? errno : EIO, "write it", path);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ReadNext(int file, char* out, size_t size, const std::string& path) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file, out + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "read it", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

absl::Status Sync(int file, const std::string& path) {
  return ::fsync(file) == 0 ? absl::OkStatus() : SystemError(errno, "sync it", path);
}

absl::Status SyncFolder(const std::string& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file.valid() ? Sync(file.get(), folder) : SystemError(errno, "open it", folder);
}

std::string FolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

absl::Status Prefixed(const absl::Status& status, absl::string_view prefix) {
  LETHE_CHECK(!status.ok());
  absl::Status result(status.code(), absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view type, const absl::Cord& payload) {
    result.SetPayload(type, payload);
  });
  return result;
}

}  // namespace lethe
