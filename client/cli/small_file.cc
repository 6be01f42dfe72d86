#include "client/cli/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/retry.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

constexpr size_t kMaxSmallFile = size_t{16} << 20;

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": is a directory"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string content(kMaxSmallFile + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) return absl::NotFoundError(absl::StrCat(path, ": reading failed"));
  if (content.size() > kMaxSmallFile) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": is larger than 16 MiB"));
  }
  return content;
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      std::remove(part.c_str());
      return absl::UnknownError(absl::StrCat(path, ": ", why));
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status NameFile(const std::string& part, const std::string& path) {
  if (::link(part.c_str(), path.c_str()) != 0) return SystemError(errno, "write it", path);
  return SyncFolder(FolderOf(path));
}

absl::Status WriteNewFile(const std::string& path, absl::string_view content) {
  const std::string part = absl::StrCat(path, ".part-", client::NewRequestId());
  const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return SystemError(errno, "make it", part);
  const absl::Cleanup remove_part = [&part] { ::unlink(part.c_str()); };
  LETHE_RETURN_IF_ERROR(WriteNext(file.get(), content, part));
  LETHE_RETURN_IF_ERROR(Sync(file.get(), part));
  return NameFile(part, path);
}

bool IsNewOrEmptyFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, error);
  if (!std::filesystem::exists(status)) return true;
  return std::filesystem::is_directory(status) && std::filesystem::is_empty(path, error) && !error;
}

}  // namespace lethe::cli
