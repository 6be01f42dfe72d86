#include "store/folders.h"

#include <sys/stat.h>

#include <cerrno>

#include "core/base/files.h"

namespace lethe::store {

absl::Status MakeFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat info {};
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::OkStatus();
  }
  return SystemError(error == EEXIST ? ENOTDIR : error, "make the folder", path);
}

}  // namespace lethe::store
