#include "audit/verify_export_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/verify_export_open.h"

namespace lethe::audit {

Descriptor::~Descriptor() {
  if (valid()) ::close(number_);
}

absl::Status Unreadable(absl::string_view name, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot read ", name, ": ", std::generic_category().message(error)));
}

absl::Status ReadWhole(const Descriptor& file,
                       uint64_t offset,
                       uint64_t size,
                       size_t limit,
                       absl::string_view name,
                       std::string& bytes) {
  if (size > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name, " has ", size, " bytes, allowed are ", limit));
  }
  bytes.resize(static_cast<size_t>(size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(file.get(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unreadable(name, errno);
    if (count == 0) return absl::UnavailableError(absl::StrCat(name, " became shorter"));
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ExportInput>> ExportInput::Open(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!descriptor.valid() || ::fstat(descriptor.get(), &info) != 0) return Unreadable(path, errno);
  if (S_ISDIR(info.st_mode)) return OpenFolder(path, std::move(descriptor));
  if (!S_ISREG(info.st_mode)) {
    return absl::UnavailableError(absl::StrCat(path, " is neither a folder nor a file"));
  }
  return OpenTar(path, std::move(descriptor), static_cast<uint64_t>(info.st_size));
}

}  // namespace lethe::audit
