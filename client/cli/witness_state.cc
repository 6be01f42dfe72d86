#include "client/cli/witness_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/small_file.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

absl::Status Failed(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::generic_category().message(errno)));
}

// Writes all of it to a new file and makes it durable.
absl::Status WriteDurably(const std::string& path, absl::string_view content) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return Failed(path);
  absl::Status status;
  while (!content.empty() && status.ok()) {
    const ssize_t count = ::write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      status = Failed(path);
    } else {
      content.remove_prefix(static_cast<size_t>(count));
    }
  }
  if (status.ok() && ::fsync(file) != 0) status = Failed(path);
  if (::close(file) != 0 && status.ok()) status = Failed(path);
  return status;
}

}  // namespace

WitnessState::WitnessState(std::string path, int lock, std::string note)
    : path_(std::move(path)), lock_(lock), note_(std::move(note)) {}

WitnessState::WitnessState(WitnessState&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      note_(std::move(other.note_)) {}

WitnessState::~WitnessState() {
  if (lock_ >= 0) ::close(lock_);
}

absl::StatusOr<WitnessState> WitnessState::Open(const std::string& path, bool create) {
  const std::string lock_path = path + ".lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return Failed(lock_path);
  WitnessState state(path, lock, "");
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(absl::StrCat(path, ": another witness uses it now"));
  }
  std::error_code error;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(path, error));
  if (there && create) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is there; without --first the log must extend it"));
  }
  if (!there && !create) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is not there; --first begins with the log as it is now"));
  }
  if (there) {
    LETHE_ASSIGN_OR_RETURN(state.note_, ReadSmallFile(path));
  }
  return state;
}

absl::Status WitnessState::Replace(absl::string_view note) {
  const std::string part = path_ + ".part";
  LETHE_RETURN_IF_ERROR(WriteDurably(part, note));
  if (std::rename(part.c_str(), path_.c_str()) != 0) return Failed(path_);
  std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  if (parent.empty()) parent = ".";
  const int folder = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Failed(parent.string());
  const bool synced = ::fsync(folder) == 0;
  const absl::Status status = synced ? absl::OkStatus() : Failed(parent.string());
  ::close(folder);
  note_ = std::string(note);
  return status;
}

}  // namespace lethe::cli
