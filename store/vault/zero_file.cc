#include "store/vault/zero_file.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::store {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 16;

absl::StatusOr<uint64_t> ZeroAndUnlinkDiscarded(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return 0;
  if (!file.valid()) return SystemError(errno, "open it", path);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return SystemError(errno, "inspect it", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": no regular file; take it out of the folder"));
  }
  LETHE_ASSIGN_OR_RETURN(const uint64_t bytes, ZeroFile(file.get(), file.get(), path));
  if (::unlink(path.c_str()) != 0) return SystemError(errno, "remove it", path);
  return bytes;
}

}  // namespace

absl::StatusOr<uint64_t> ZeroFile(int reader, int writer, const std::string& path) {
  struct stat info = {};
  if (::fstat(writer, &info) != 0) return SystemError(errno, "inspect it", path);
  const std::string zeros(kBlockBytes, '\0');
  for (off_t at = 0; at < info.st_size;) {
    const size_t size = std::min(kBlockBytes, static_cast<size_t>(info.st_size - at));
    const ssize_t count = ::pwrite(writer, zeros.data(), size, at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return SystemError(count < 0 ? errno : EIO, "overwrite it", path);
    at += count;
  }
  LETHE_RETURN_IF_ERROR(Sync(writer, path));
  // Advice only: where it is not followed, the pages that were just written are what is read.
  (void)::posix_fadvise(reader, 0, 0, POSIX_FADV_DONTNEED);
  std::string block(kBlockBytes, '\0');
  off_t at = 0;
  while (true) {
    const ssize_t count = ::pread(reader, block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "read it back", path);
    if (count == 0) break;
    if (!std::all_of(block.begin(), block.begin() + count, [](char c) { return c == '\0'; })) {
      OPENSSL_cleanse(block.data(), block.size());
      return absl::UnavailableError(
          absl::StrCat(path, ": was overwritten and does not read as zeros"));
    }
    at += count;
  }
  if (at == info.st_size) return static_cast<uint64_t>(at);
  return absl::UnavailableError(absl::StrCat(path, ": changed while it was overwritten"));
}

absl::StatusOr<uint64_t> ZeroAndUnlink(const std::string& path) {
  const std::string folder = FolderOf(path);
  const std::string discarded =
      absl::StrCat(folder, "/.old-", std::filesystem::path(path).filename().string());
  LETHE_ASSIGN_OR_RETURN(uint64_t bytes, ZeroAndUnlinkDiscarded(discarded));
  if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, discarded.c_str(), RENAME_NOREPLACE) == 0) {
    LETHE_RETURN_IF_ERROR(SyncFolder(folder));
    LETHE_ASSIGN_OR_RETURN(const uint64_t more, ZeroAndUnlinkDiscarded(discarded));
    bytes += more;
  } else if (errno != ENOENT) {
    return SystemError(errno, "rename it", path);
  }
  // Also when nothing was there: an earlier call may have failed to sync.
  LETHE_RETURN_IF_ERROR(SyncFolder(folder));
  return bytes;
}

}  // namespace lethe::store
