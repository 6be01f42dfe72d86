#include "store/database_copy.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::store {
namespace {

// File or folder.
absl::Status Sync(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (synced) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path, ": fsync: ", std::generic_category().message(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatabaseCopy>> DatabaseCopy::Begin(Database* source,
                                                                  const std::string& path) {
  LETHE_RETURN_IF_ERROR(source->health());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    const std::string why = std::generic_category().message(errno);
    if (errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path, ": is there already"));
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be made: ", why));
  }
  ::close(file);
  sqlite3* target = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &target,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  std::unique_ptr<DatabaseCopy> copy(new DatabaseCopy(path, target));
  if (code != SQLITE_OK) return copy->Error(code);
  // Nothing to go back to: what is not finished is removed.
  if (const int off = sqlite3_exec(target, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF",
                                   nullptr, nullptr, nullptr);
      off != SQLITE_OK) {
    return copy->Error(off);
  }
  copy->backup_ = sqlite3_backup_init(target, "main", source->handle_, "main");
  if (copy->backup_ == nullptr) return copy->Error(sqlite3_extended_errcode(target));
  return copy;
}

DatabaseCopy::~DatabaseCopy() {
  if (backup_ != nullptr) sqlite3_backup_finish(backup_);
  if (target_ != nullptr) sqlite3_close(target_);
  if (!complete_) ::unlink(path_.c_str());
}

absl::Status DatabaseCopy::Error(int code) const {
  const std::string text =
      absl::StrCat(path_, ": copying: ", sqlite3_errstr(code), " (SQLite code ", code, ")");
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<bool> DatabaseCopy::Step(int pages) {
  LETHE_CHECK(pages >= 1 && backup_ != nullptr);
  const int code = sqlite3_backup_step(backup_, pages);
  if (code == SQLITE_OK) return false;
  const int finished = sqlite3_backup_finish(backup_);
  backup_ = nullptr;
  if (code != SQLITE_DONE) return Error(code);
  if (finished != SQLITE_OK) return Error(finished);
  LETHE_RETURN_IF_ERROR(Finish());
  return true;
}

absl::Status DatabaseCopy::Finish() {
  const int closed = sqlite3_close(target_);
  target_ = nullptr;
  if (closed != SQLITE_OK) return Error(closed);
  LETHE_RETURN_IF_ERROR(Sync(path_));
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  LETHE_RETURN_IF_ERROR(Sync(folder.empty() ? "." : folder));
  complete_ = true;
  return absl::OkStatus();
}

}  // namespace lethe::store
