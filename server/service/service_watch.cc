// Service: what it shows of itself.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/service/service.h"

namespace lethe::service {
namespace {

// A file without a name, so that nothing is left of it whatever happens.
absl::Status TryToWrite(const std::string& folder) {
  const auto failed = [&](const char* what) {
    return absl::UnavailableError(
        absl::StrCat(folder, ": cannot ", what, ": ", std::strerror(errno)));
  };
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    // A file system that has no such files is asked what it thinks of us.
    if (errno == EOPNOTSUPP || errno == EISDIR) {
      return ::access(folder.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : failed("be written");
    }
    return errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE
               ? absl::OkStatus()
               : failed("make a file");
  }
  absl::Status status;
  const char byte = 0;
  if ((::write(fd, &byte, 1) != 1 || ::fsync(fd) != 0) && errno != ENOSPC && errno != EDQUOT) {
    status = failed("write a file");
  }
  ::close(fd);
  return status;
}

}  // namespace

absl::Status Service::CheckFolders() const {
  LETHE_RETURN_IF_ERROR(TryToWrite(directory_->path()));
  return TryToWrite(directory_->vault_path());
}

ServiceStats Service::Stats(size_t largest_tenants) {
  return {.tenants = registry_.stats(largest_tenants),
          .limits = options_.limits,
          .writes = writes_.taken(),
          .max_writes = options_.max_waiting_writes,
          .ballast = ballast_->Look(),
          .jobs = jobs_->Counts()};
}

absl::Status Service::TakeRate(Quota rate, const std::string& tenant, uint64_t amount) {
  if (!registry_.Contains(tenant)) return absl::OkStatus();
  return quotas_.Take(rate, tenant, amount);
}

}  // namespace lethe::service
