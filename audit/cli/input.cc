#include "audit/cli/input.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::audit::cli {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

absl::Status Unreadable(const std::string& path, int number) {
  return absl::UnavailableError(
      absl::StrCat("cannot read ", path, ": ", std::generic_category().message(number)));
}

absl::StatusOr<File> Open(const std::string& path) {
  File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return Unreadable(path, errno);
  return file;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit) {
  LETHE_ASSIGN_OR_RETURN(const File file, Open(path));
  std::string bytes;
  std::array<char, 65536> buffer;
  size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) {
    bytes.append(buffer.data(), count);
    if (bytes.size() > limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " is longer than the allowed ", limit, " bytes"));
    }
  }
  if (std::ferror(file.get()) != 0) return Unreadable(path, errno);
  return bytes;
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
}

}  // namespace lethe::audit::cli
