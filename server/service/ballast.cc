#include "server/service/ballast.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

constexpr absl::string_view kName = "/ballast";
constexpr absl::string_view kDraftSuffix = ".new";
constexpr uint64_t kMargin = 4;  // beside it a quarter must be free before it is made again,
constexpr uint64_t kFloor = 8;   // and an eighth for data to grow

class RealDisk final : public BallastDisk {
 public:
  absl::Status Allocate(const std::string& path, uint64_t bytes) override {
    const std::string draft = absl::StrCat(path, kDraftSuffix);
    const absl::Status made = Make(draft, bytes);
    if (!made.ok()) {
      (void)::unlink(draft.c_str());
      return made;
    }
    if (::rename(draft.c_str(), path.c_str()) != 0) return SystemError(errno, "make it", path);
    return SyncFolder(FolderOf(path));
  }

  absl::Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove it", path);
    }
    return absl::OkStatus();
  }

  uint64_t SizeOf(const std::string& path) override {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    return static_cast<uint64_t>(info.st_size);
  }

  absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) override {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) return SystemError(errno, "look at it", folder);
    return uint64_t{info.f_bavail} * uint64_t{info.f_frsize};
  }

  bool SameDevice(const std::string& folder, const std::string& other) override {
    struct stat one {};
    struct stat two {};
    return ::stat(folder.c_str(), &one) == 0 && ::stat(other.c_str(), &two) == 0 &&
           one.st_dev == two.st_dev;
  }

 private:
  static absl::Status Make(const std::string& draft, uint64_t bytes) {
    const FileDescriptor file(::open(
        draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!file.valid()) return SystemError(errno, "make it", draft);
    int error = EINTR;
    while (error == EINTR) error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
    if (error != 0) return SystemError(error, "allocate it", draft);
    return Sync(file.get(), draft);
  }
};

}  // namespace

BallastDisk* SystemDisk() {
  static auto* disk = new RealDisk;
  return disk;
}

Ballast::Ballast(const std::string& data,
                 const std::string& vault,
                 uint64_t bytes,
                 BallastDisk* disk,
                 program::EventLog* log)
    : bytes_(bytes), disk_(disk), log_(log) {
  std::vector<std::string> folders = {data};
  if (!disk_->SameDevice(data, vault)) folders.push_back(vault);
  MutexLock lock(mutex_);
  absl::Status status;
  for (const std::string& folder : folders) {
    Part part{.folder = folder, .path = absl::StrCat(folder, kName)};
    const uint64_t size = disk_->SizeOf(part.path);
    // Of another size: an earlier start had another setting.
    if (size != bytes_) status.Update(disk_->Remove(part.path));
    status.Update(disk_->Remove(absl::StrCat(part.path, kDraftSuffix)));  // of a crash
    part.there = size == bytes_;
    parts_.push_back(std::move(part));
  }
  if (bytes_ == 0) return;
  status.Update(Make());
  if (status.ok()) return;
  log_->Write(
      program::LogLevel::kWarning, "ballast_missing",
      {{"bytes", static_cast<int64_t>(bytes_)}, {"message", std::string(status.message())}});
}

bool Ballast::Enough(uint64_t bytes) {
  for (const Part& part : parts_) {
    const absl::StatusOr<uint64_t> free = disk_->FreeBytes(part.folder);
    if (!free.ok() || *free < bytes + (part.there ? 0 : bytes_)) return false;
  }
  return true;
}

bool Ballast::RoomLeft() {
  for (const Part& part : parts_) {
    const absl::StatusOr<uint64_t> free = disk_->FreeBytes(part.folder);
    if (!free.ok() || *free < bytes_ / kFloor) return false;
  }
  return true;
}

absl::Status Ballast::Make() {
  bool whole = true;
  for (const Part& part : parts_) whole = whole && part.there;
  if (!whole && !Enough(bytes_ / kMargin)) {
    return absl::ResourceExhaustedError("there is no room for it and a quarter more");
  }
  for (Part& part : parts_) {
    if (part.there) continue;
    LETHE_RETURN_IF_ERROR(disk_->Allocate(part.path, bytes_));
    part.there = true;
  }
  whole_.store(true);
  return absl::OkStatus();
}

absl::Status Ballast::Admit(uint64_t bytes) {
  if (bytes_ == 0) return absl::OkStatus();
  Restore();
  if (whole_.load()) {
    MutexLock lock(mutex_);
    if (Enough(bytes_ / kFloor + 2 * bytes)) {
      refusing_.store(false);
      return absl::OkStatus();
    }
  }
  if (!refusing_.exchange(true)) {
    log_->Write(program::LogLevel::kWarning, "growth_refused",
                {{"ballast_whole", int64_t{whole_.load()}}});
  }
  return absl::ResourceExhaustedError(
      "the disk is full: what is left is kept for erasures; make room where the server keeps its "
      "data and keys, and send the same request again; nothing was changed");
}

bool Ballast::Release(absl::string_view tenant) {
  if (bytes_ == 0) return false;
  MutexLock lock(mutex_);
  whole_.store(false);
  int64_t released = 0;
  for (Part& part : parts_) {
    if (!part.there) continue;
    const absl::Status removed = disk_->Remove(part.path);
    if (!removed.ok()) {
      log_->Write(program::LogLevel::kError, "ballast_stuck",
                  {{"message", std::string(removed.message())}});
      continue;
    }
    part.there = false;
    released += static_cast<int64_t>(bytes_);
  }
  // Another erasure was first: what it made room for is there for this one too.
  if (released == 0) return RoomLeft();
  log_->Write(program::LogLevel::kWarning, "ballast_released",
              {{"tenant", std::string(tenant)}, {"bytes", released}});
  return true;
}

Ballast::State Ballast::Look() {
  MutexLock lock(mutex_);
  const auto free = [&](const Part& part) -> std::optional<uint64_t> {
    const absl::StatusOr<uint64_t> bytes = disk_->FreeBytes(part.folder);
    return bytes.ok() ? std::optional(*bytes) : std::nullopt;
  };
  State state{.bytes = bytes_, .whole = whole_.load(), .refusing = refusing_.load()};
  state.data_free = free(parts_.front());
  state.vault_apart = parts_.size() > 1;
  if (state.vault_apart) state.vault_free = free(parts_.back());
  return state;
}

void Ballast::Restore() {
  if (bytes_ == 0 || whole_.load()) return;
  MutexLock lock(mutex_);
  // Where somebody else takes the room meanwhile the next write tries again.
  if (whole_.load() || !Make().ok()) return;
  log_->Write(program::LogLevel::kInfo, "ballast_restored",
              {{"bytes", static_cast<int64_t>(bytes_)}});
}

}  // namespace lethe::service
