#include "server/guard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/access/tls_files.h"
#include "server/rpc/tls.h"

namespace lethe::server {
namespace {

// As often as gRPC looks at them (rpc/tls.cc).
constexpr absl::Duration kTlsPeriod = absl::Seconds(1);

access::TlsFiles TlsOf(const Config& config) {
  return {.certificate = config.tls_certificate,
          .key = config.tls_key,
          .client_ca = config.tls_client_ca,
          .client_certificates_required = config.tls_client_certificates_required};
}

bool OnOneDevice(const std::string& a, const std::string& b) {
  struct stat of_a = {};
  struct stat of_b = {};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev;
}

// Whether it could be opened, or made; makes nothing.
absl::Status CheckOperationsLog(const std::string& path) {
  const auto can = [](const std::string& what, int how) {
    return ::faccessat(AT_FDCWD, what.c_str(), how, AT_EACCESS) == 0;
  };
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      return absl::FailedPreconditionError(absl::StrCat("no regular file: ", path));
    }
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("open to group or others, chmod 0600 it: ", path));
    }
    return can(path, R_OK | W_OK) ? absl::OkStatus() : SystemError(errno, "open it", path);
  }
  if (errno != ENOENT) return SystemError(errno, "look at it", path);
  const std::string folder = std::filesystem::path(path).parent_path();
  return can(folder.empty() ? "." : folder, W_OK | X_OK) ? absl::OkStatus()
                                                         : SystemError(errno, "make it", path);
}

// In the log of every such start, so that nobody takes it for a guarded one.
void WarnOfInsecurity(bool tls, bool access, program::EventLog& log) {
  if (tls && access) return;
  log.Write(program::LogLevel::kWarning, "insecure_loopback",
            {{"message", access ? "nothing is encrypted on loopback"
                         : tls  ? "every program on this machine may read and erase"
                                : "nothing is encrypted on loopback, and every program on this "
                                  "machine may read and erase"}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Guard>> Guard::Read(const Config& config) {
  std::unique_ptr<Guard> guard(new Guard(config));
  if (!config.access.empty()) {
    auto access = access::Access::Open(config.access);
    if (!access.ok()) return Prefixed(access.status(), "--access");
    guard->access_ = *std::move(access);
  }
  LETHE_RETURN_IF_ERROR(guard->CheckTls());
  if (!config.operations_log.empty()) {
    const absl::Status log = CheckOperationsLog(config.operations_log);
    if (!log.ok()) return Prefixed(log, "--operations-log");
  }
  return guard;
}

absl::Status Guard::CheckTls() const { return access::CheckTlsFiles(TlsOf(config_)); }

absl::Status Guard::Open(service::Service* service, program::EventLog* log) {
  log_ = log;
  access::OperationsLogOptions options;
  options.path =
      config_.operations_log.empty() ? config_.data + "/operations.log" : config_.operations_log;
  // The ballast is in the data folder: giving it up makes room on that device.
  if (OnOneDevice(std::string(FolderOf(options.path)), config_.data)) {
    options.make_room = [service] { return service->MakeRoom(); };
  }
  LETHE_ASSIGN_OR_RETURN(operations_, access::OperationsLog::Open(std::move(options)));
  gate_.emplace(access_.get(), operations_.get(), log);
  const bool tls = !config_.tls_certificate.empty();
  if (tls) {
    LETHE_ASSIGN_OR_RETURN(http_tls_, http::TlsContext::Load(TlsOf(config_)));
    follow_tls_.emplace(kTlsPeriod, [this] { FollowTls(); });
  }
  WarnOfInsecurity(tls, access_ != nullptr, *log);
  return absl::OkStatus();
}

void Guard::FollowTls() {
  const absl::StatusOr<bool> changed = http_tls_->ReloadIfChanged();
  if (!changed.ok()) {
    log_->Write(program::LogLevel::kError, "tls_refused",
                {{"message", std::string(changed.status().message())}});
  } else if (*changed) {
    log_->Write(program::LogLevel::kInfo, "tls_reloaded", {});
  }
}

std::shared_ptr<grpc::ServerCredentials> Guard::grpc_credentials() const {
  return config_.tls_certificate.empty() ? nullptr : rpc::TlsCredentials(TlsOf(config_));
}

void Guard::AddTo(Reloader& reloader) {
  using Change = std::function<void()>;
  if (access_ != nullptr) {
    reloader.Add("access", [this](const Config&) -> absl::StatusOr<Change> {
      LETHE_ASSIGN_OR_RETURN(std::shared_ptr<const access::Policy> policy,
                             access::LoadAccess(config_.access));
      return [this, policy = std::move(policy)] { access_->Replace(policy); };
    });
  }
  if (http_tls_ != nullptr) {
    // gRPC follows the files by itself.
    reloader.Add("tls", [this](const Config&) -> absl::StatusOr<Change> {
      LETHE_RETURN_IF_ERROR(CheckTls());
      return [this] { FollowTls(); };
    });
  }
}

}  // namespace lethe::server
