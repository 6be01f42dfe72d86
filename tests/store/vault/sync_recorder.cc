#include "tests/store/vault/sync_recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <utility>

namespace lethe::store {
namespace {

struct Inode {
  std::string name;    // the last one
  bool dirty = false;  // bytes, size, mode
  bool names = false;  // of a folder
};

using Key = std::pair<dev_t, ino_t>;

struct Recorder {
  bool on = false;
  uint64_t fail_at = 0;
  std::map<Key, Inode> inodes;
  std::map<Key, Key> renamed;  // a file, and the folder that has not kept its new name yet
  SyncRecord record;
};

// Never destroyed: files are closed at the very end.
Recorder& TheRecorder() {
  static auto* const recorder = new Recorder;
  return *recorder;
}

Key KeyOf(const struct stat& info) { return {info.st_dev, info.st_ino}; }

std::string LastName(const char* path) {
  const char* slash = ::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool IsLog(const std::string& name) {
  return name.size() > 4 && name.compare(name.size() - 4, 4, "-wal") == 0;
}

// Keeps errno, since it runs after the call that is recorded.
class KeepErrno {
 public:
  KeepErrno() : error_(errno) {}
  ~KeepErrno() { errno = error_; }

 private:
  int error_;
};

bool Look(int at, const char* path, struct stat* info) {
  return ::fstatat(at, path, info, AT_SYMLINK_NOFOLLOW) == 0;
}

// Notes that the names of the folder of `path` changed.
Key TouchFolder(int at, const char* path) {
  std::string folder = path;
  const size_t slash = folder.rfind('/');
  folder = slash == std::string::npos ? "." : slash == 0 ? "/" : folder.substr(0, slash);
  struct stat info = {};
  if (::fstatat(at, folder.c_str(), &info, 0) != 0) return {};
  Inode& inode = TheRecorder().inodes[KeyOf(info)];
  if (inode.name.empty()) inode.name = folder == "." ? "a folder" : folder;
  inode.names = true;
  return KeyOf(info);
}

void Violate(const std::string& what) { TheRecorder().record.violations.push_back(what); }

void Changed(int file, const char* how) {
  Recorder& recorder = TheRecorder();
  struct stat info = {};
  if (!recorder.on || ::fstat(file, &info) != 0) return;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return;
  Inode& inode = recorder.inodes[KeyOf(info)];
  if (inode.name.empty()) inode.name = how;
  inode.dirty = true;
  const auto renamed = recorder.renamed.find(KeyOf(info));
  if (::strcmp(how, "written") == 0 && renamed != recorder.renamed.end()) {
    Violate(inode.name + ": written before its new name was synced");
  }
}

long Opened(int at, const char* path, int flags, mode_t mode) {
  Recorder& recorder = TheRecorder();
  struct stat info = {};
  const bool makes = recorder.on && (flags & O_CREAT) != 0 && !Look(at, path, &info);
  const long file = ::syscall(SYS_openat, at, path, flags, mode);
  if (!recorder.on || file < 0) return file;
  const KeepErrno keep;
  if (::fstat(static_cast<int>(file), &info) != 0) return file;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return file;
  Inode& inode = recorder.inodes[KeyOf(info)];
  if (makes) inode = Inode();  // the number may be that of a file that is gone
  if (S_ISREG(info.st_mode) || inode.name.empty()) inode.name = LastName(path);
  if (makes && !IsLog(inode.name)) {
    inode.dirty = true;
    TouchFolder(at, path);
  }
  if ((flags & O_TRUNC) != 0 && info.st_size != 0) inode.dirty = true;
  return file;
}

ssize_t Written(int file, const void* bytes, size_t size, off_t offset) {
  const ssize_t count = ::syscall(SYS_pwrite64, file, bytes, size, offset);
  if (count > 0) {
    const KeepErrno keep;
    Changed(file, "written");
    Recorder& recorder = TheRecorder();
    struct stat info = {};
    if (recorder.on && ::fstat(file, &info) == 0 && IsLog(recorder.inodes[KeyOf(info)].name)) {
      uint64_t& longest = recorder.record.longest_log;
      const uint64_t end = static_cast<uint64_t>(offset) + static_cast<uint64_t>(count);
      longest = end > longest ? end : longest;
    }
  }
  return count;
}

int Synced(long number, int file) {
  Recorder& recorder = TheRecorder();
  if (!recorder.on) return static_cast<int>(::syscall(number, file));
  struct stat info = {};
  const bool known = ::fstat(file, &info) == 0;
  if (++recorder.record.syncs == recorder.fail_at) {
    recorder.record.folder_failed = known && S_ISDIR(info.st_mode);
    if (known) recorder.record.failed = recorder.inodes[KeyOf(info)].name;
    errno = EIO;
    return -1;
  }
  const int result = static_cast<int>(::syscall(number, file));
  if (result != 0 || !known) return result;
  const KeepErrno keep;
  Inode& inode = recorder.inodes[KeyOf(info)];
  inode.dirty = false;
  inode.names = false;
  recorder.record.steps.push_back("sync " + inode.name);
  if (S_ISDIR(info.st_mode)) {
    for (auto it = recorder.renamed.begin(); it != recorder.renamed.end();) {
      it = it->second == KeyOf(info) ? recorder.renamed.erase(it) : std::next(it);
    }
  }
  return result;
}

int Renamed(int from, const char* old_path, int to, const char* new_path, unsigned int flags) {
  Recorder& recorder = TheRecorder();
  const int result =
      static_cast<int>(::syscall(SYS_renameat2, from, old_path, to, new_path, flags));
  if (!recorder.on || result != 0) return result;
  const KeepErrno keep;
  struct stat info = {};
  if (!Look(to, new_path, &info)) return result;
  Inode& inode = recorder.inodes[KeyOf(info)];
  inode.name = LastName(new_path);
  if (inode.dirty) Violate(inode.name + ": renamed before its bytes were synced");
  TouchFolder(from, old_path);
  recorder.renamed[KeyOf(info)] = TouchFolder(to, new_path);
  return result;
}

int Unlinked(int at, const char* path, int flags) {
  Recorder& recorder = TheRecorder();
  struct stat info = {};
  const bool known = recorder.on && Look(at, path, &info);
  const int result = static_cast<int>(::syscall(SYS_unlinkat, at, path, flags));
  if (!known || result != 0) return result;
  const KeepErrno keep;
  const auto found = recorder.inodes.find(KeyOf(info));
  const bool log = IsLog(LastName(path));
  if (found != recorder.inodes.end()) {
    // A log that is moved into its file is SQLite's to forget.
    if (found->second.dirty && !log && S_ISREG(info.st_mode) && info.st_size != 0) {
      Violate(found->second.name + ": unlinked before its bytes were synced");
    }
    if (info.st_nlink <= 1 || S_ISDIR(info.st_mode)) recorder.inodes.erase(found);
  }
  recorder.renamed.erase(KeyOf(info));
  // Nothing depends on whether the name of an empty log is there.
  if (!log || info.st_size != 0) TouchFolder(at, path);
  return result;
}

}  // namespace

void GoOnRecording(uint64_t fail_at) {
  Recorder& recorder = TheRecorder();
  recorder.record = SyncRecord();
  recorder.fail_at = fail_at;
  recorder.on = true;
}

void StartRecording(uint64_t fail_at) {
  TheRecorder().inodes.clear();
  TheRecorder().renamed.clear();
  GoOnRecording(fail_at);
}

SyncRecord StopRecording() {
  Recorder& recorder = TheRecorder();
  recorder.on = false;
  for (const auto& [key, inode] : recorder.inodes) {
    if (inode.dirty) recorder.record.dirty.push_back(inode.name);
    if (inode.names) recorder.record.dirty.push_back("the names in " + inode.name);
  }
  return std::move(recorder.record);
}

}  // namespace lethe::store

// The C library's names. Its own headers declare them; the program's definitions come first.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(lethe::store::Opened(AT_FDCWD, path, flags, mode));
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(lethe::store::Opened(AT_FDCWD, path, flags, mode));
}
int openat(int at, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(lethe::store::Opened(at, path, flags, mode));
}
ssize_t write(int file, const void* bytes, size_t size) {
  const ssize_t count = ::syscall(SYS_write, file, bytes, size);
  if (count > 0) {
    const lethe::store::KeepErrno keep;
    lethe::store::Changed(file, "written");
  }
  return count;
}
ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  return lethe::store::Written(file, bytes, size, offset);
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) {
  return lethe::store::Written(file, bytes, size, offset);
}
ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  lethe::store::Recorder& recorder = lethe::store::TheRecorder();
  struct stat info = {};
  if (recorder.on && ::fstat(file, &info) == 0) {
    recorder.record.steps.push_back("read " + recorder.inodes[lethe::store::KeyOf(info)].name);
  }
  return ::syscall(SYS_pread64, file, bytes, size, offset);
}
int posix_fadvise(int file, off_t offset, off_t size, int advice) noexcept {
  lethe::store::Recorder& recorder = lethe::store::TheRecorder();
  struct stat info = {};
  if (recorder.on && advice == POSIX_FADV_DONTNEED && ::fstat(file, &info) == 0) {
    recorder.record.steps.push_back("drop " + recorder.inodes[lethe::store::KeyOf(info)].name);
  }
  return static_cast<int>(::syscall(SYS_fadvise64, file, offset, size, advice));
}
int fsync(int file) { return lethe::store::Synced(SYS_fsync, file); }
int fdatasync(int file) { return lethe::store::Synced(SYS_fdatasync, file); }
int ftruncate(int file, off_t size) noexcept {
  const int result = static_cast<int>(::syscall(SYS_ftruncate, file, size));
  if (result == 0) lethe::store::Changed(file, "truncated");
  return result;
}
int ftruncate64(int file, off64_t size) noexcept { return ::ftruncate(file, size); }
int fchmod(int file, mode_t mode) noexcept {
  const int result = static_cast<int>(::syscall(SYS_fchmod, file, mode));
  if (result == 0) lethe::store::Changed(file, "given a mode");
  return result;
}
int unlink(const char* path) noexcept { return lethe::store::Unlinked(AT_FDCWD, path, 0); }
int unlinkat(int at, const char* path, int flags) noexcept {
  return lethe::store::Unlinked(at, path, flags);
}
int rmdir(const char* path) noexcept {
  return lethe::store::Unlinked(AT_FDCWD, path, AT_REMOVEDIR);
}
int mkdir(const char* path, mode_t mode) noexcept {
  const int result = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0 && lethe::store::TheRecorder().on) {
    struct stat info = {};
    if (lethe::store::Look(AT_FDCWD, path, &info)) {
      lethe::store::TheRecorder().inodes.erase(lethe::store::KeyOf(info));
    }
    lethe::store::TouchFolder(AT_FDCWD, path);
  }
  return result;
}
int rename(const char* from, const char* to) noexcept {
  return lethe::store::Renamed(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat2(int from,
              const char* old_path,
              int to,
              const char* new_path,
              unsigned int flags) noexcept {
  return lethe::store::Renamed(from, old_path, to, new_path, flags);
}

}  // extern "C"
