#include "server/access/operations_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::access {
namespace {

constexpr absl::Duration kWindow = absl::Minutes(1);
// Callers whose refused calls are counted at a time. Beyond it all counts are written.
constexpr size_t kMaxWindows = 1000;

using Json = nlohmann::ordered_json;

Json LineOf(absl::Time time, absl::string_view event) {
  Json line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
  line["event"] = std::string(event);
  return line;
}

// Names come from requests: what is no name could be anything, so it is left out.
void SetName(Json& line, const char* key, const std::string& name) {
  if (service::CheckName(key, name).ok()) line[key] = name;
}

Json LineOf(absl::Time time, absl::string_view event, const Operation& operation) {
  Json line = LineOf(time, event);
  line["request_id"] = operation.request_id;
  line["method"] = operation.method;
  line["caller"] = operation.caller;
  SetName(line, "tenant", operation.tenant);
  SetName(line, "memory", operation.memory);
  return line;
}

std::string TextOf(const Json& line) {
  return line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

OperationsLog::OperationsLog(OperationsLogOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<OperationsLog>> OperationsLog::Open(OperationsLogOptions options) {
  std::unique_ptr<OperationsLog> log(new OperationsLog(std::move(options)));
  MutexLock lock(log->mutex_);
  LETHE_RETURN_IF_ERROR(log->OpenFile());
  return log;
}

OperationsLog::~OperationsLog() {
  MutexLock lock(mutex_);
  CloseWindows(absl::InfiniteFuture()).IgnoreError();
}

absl::Time OperationsLog::Now() const { return options_.now ? options_.now() : absl::Now(); }

absl::Status OperationsLog::Failed(absl::string_view doing, const std::string& path) {
  return Prefixed(SystemError(errno, doing, path), "operations log");
}

absl::Status OperationsLog::OpenFile() {
  const std::string& path = options_.path;
  // O_NONBLOCK: opening a FIFO must not wait for a reader. O_RDWR: to see how it ends.
  auto file = std::make_shared<FileDescriptor>(
      ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
             S_IRUSR | S_IWUSR));
  if (!file->valid()) return Failed("open it", path);
  struct stat status = {};
  if (::fstat(file->get(), &status) != 0) return Failed("look at it", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("operations log: no regular file: ", path));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("operations log: open to group or others, chmod 0600 it: ", path));
  }
  char last = '\n';
  if (status.st_size > 0 && ::pread(file->get(), &last, 1, status.st_size - 1) != 1) {
    return Failed("read its end", path);
  }
  torn_ = last != '\n';
  bytes_ = static_cast<uint64_t>(status.st_size);
  file_ = std::move(file);
  return SyncFolder(FolderOf(path));
}

absl::Status OperationsLog::Rotate() {
  const std::string& path = options_.path;
  const auto numbered = [&path](int number) { return absl::StrCat(path, ".", number); };
  // The next file is there before a name is changed. Whatever fails from here on can fail again and
  // again: nothing is lost by it, since files move up only as far as there is no gap.
  const std::string next = path + ".next";
  if (::unlink(next.c_str()) != 0 && errno != ENOENT) return Failed("remove it", next);
  auto file = std::make_shared<FileDescriptor>(
      ::open(next.c_str(), O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             S_IRUSR | S_IWUSR));
  if (!file->valid()) return Failed("make it", next);
  if (::access(path.c_str(), F_OK) == 0) {
    int gap = 1;  // the first number without a file; the oldest file is replaced
    while (gap < options_.max_files && ::access(numbered(gap).c_str(), F_OK) == 0) ++gap;
    for (int number = gap; number >= 1; --number) {
      const std::string from = number == 1 ? path : numbered(number - 1);
      if (::rename(from.c_str(), numbered(number).c_str()) != 0) return Failed("rename it", from);
    }
  }
  if (::rename(next.c_str(), path.c_str()) != 0) return Failed("rename it", next);
  torn_ = false;
  bytes_ = 0;
  file_ = std::move(file);
  return SyncFolder(FolderOf(path));
}

absl::Status OperationsLog::AppendOnce(absl::string_view line) {
  if (bytes_ > 0 && bytes_ + line.size() > options_.max_bytes) LETHE_RETURN_IF_ERROR(Rotate());
  const std::string text = absl::StrCat(torn_ ? "\n" : "", line);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file_->get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (done > 0) torn_ = true;
      return Failed("write to it", options_.path);
    }
    done += static_cast<size_t>(written);
    bytes_ += static_cast<uint64_t>(written);
  }
  torn_ = false;
  return absl::OkStatus();
}

absl::Status OperationsLog::Append(absl::string_view line, bool make_room) {
  absl::Status status = AppendOnce(line);
  if (!IsDiskFull(status) || !make_room || !options_.make_room || !options_.make_room()) {
    return status;
  }
  return AppendOnce(line);
}

absl::Status OperationsLog::CloseWindows(absl::Time now) {
  absl::Status status;
  for (auto window = windows_.begin(); window != windows_.end();) {
    if (now < window->second.begin + kWindow) {
      ++window;
      continue;
    }
    if (window->second.more > 0) {
      Json line = LineOf(Now(), "denied-more");
      line["caller"] = window->first;
      line["count"] = window->second.more;
      status.Update(Append(TextOf(line)));
    }
    window = windows_.erase(window);
  }
  return status;
}

absl::Status OperationsLog::Intent(const Operation& operation) {
  std::shared_ptr<FileDescriptor> file;
  {
    MutexLock lock(mutex_);
    const absl::Time now = Now();
    CloseWindows(now).IgnoreError();
    LETHE_RETURN_IF_ERROR(Append(TextOf(LineOf(now, "intent", operation)), operation.destroys));
    file = file_;
  }
  // Without the lock: the kernel makes one of several that wait.
  if (::fdatasync(file->get()) != 0) {
    return Failed("sync it", options_.path);
  }
  return absl::OkStatus();
}

absl::Status OperationsLog::Outcome(const Operation& operation,
                                    absl::string_view code,
                                    absl::string_view certificate) {
  MutexLock lock(mutex_);
  Json line = LineOf(Now(), "outcome", operation);
  line["code"] = std::string(code);
  if (!certificate.empty()) line["certificate"] = std::string(certificate);
  return Append(TextOf(line), operation.destroys);
}

absl::Status OperationsLog::Denied(const Operation& operation,
                                   absl::string_view code,
                                   absl::string_view reason) {
  MutexLock lock(mutex_);
  const absl::Time now = Now();
  absl::Status status = CloseWindows(now);
  if (windows_.size() >= kMaxWindows && !windows_.contains(operation.caller)) {
    status.Update(CloseWindows(absl::InfiniteFuture()));
  }
  const auto [window, opened] = windows_.try_emplace(operation.caller, Window{.begin = now});
  if (window->second.lines == kDeniedLines) {
    ++window->second.more;
    return status;
  }
  ++window->second.lines;
  Json line = LineOf(now, "denied", operation);
  line["code"] = std::string(code);
  line["reason"] = std::string(reason);
  status.Update(Append(TextOf(line)));
  return status;
}

}  // namespace lethe::access
