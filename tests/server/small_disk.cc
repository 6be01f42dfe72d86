#include "tests/server/small_disk.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/base/files.h"

namespace lethe::service {
namespace {

SmallDisk* disk = nullptr;
sqlite3_vfs* real = nullptr;

// Before the real file, which follows in the same block.
struct Layer {
  sqlite3_file base;
  char path[512];
};
sqlite3_file* RealOf(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<char*>(file) + sizeof(Layer));
}
const char* PathOf(sqlite3_file* file) { return reinterpret_cast<Layer*>(file)->path; }

int Close(sqlite3_file* file) { return RealOf(file)->pMethods->xClose(RealOf(file)); }
int Read(sqlite3_file* file, void* out, int size, sqlite3_int64 at) {
  return RealOf(file)->pMethods->xRead(RealOf(file), out, size, at);
}
int Write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
  if (!disk->Grow(PathOf(file), static_cast<uint64_t>(at) + static_cast<uint64_t>(size))) {
    return SQLITE_FULL;
  }
  return RealOf(file)->pMethods->xWrite(RealOf(file), bytes, size, at);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  disk->Set(PathOf(file), static_cast<uint64_t>(size));
  return RealOf(file)->pMethods->xTruncate(RealOf(file), size);
}
int SyncFile(sqlite3_file* file, int flags) {
  return RealOf(file)->pMethods->xSync(RealOf(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return RealOf(file)->pMethods->xFileSize(RealOf(file), size);
}
int Lock(sqlite3_file* file, int level) {
  return RealOf(file)->pMethods->xLock(RealOf(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return RealOf(file)->pMethods->xUnlock(RealOf(file), level);
}
int Reserved(sqlite3_file* file, int* out) {
  return RealOf(file)->pMethods->xCheckReservedLock(RealOf(file), out);
}
int Control(sqlite3_file* file, int op, void* argument) {
  return RealOf(file)->pMethods->xFileControl(RealOf(file), op, argument);
}
int SectorSize(sqlite3_file* file) { return RealOf(file)->pMethods->xSectorSize(RealOf(file)); }
int Traits(sqlite3_file* file) {
  return RealOf(file)->pMethods->xDeviceCharacteristics(RealOf(file));
}
int ShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return RealOf(file)->pMethods->xShmMap(RealOf(file), page, size, extend, out);
}
int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return RealOf(file)->pMethods->xShmLock(RealOf(file), offset, count, flags);
}
void ShmBarrier(sqlite3_file* file) { RealOf(file)->pMethods->xShmBarrier(RealOf(file)); }
int ShmUnmap(sqlite3_file* file, int remove) {
  return RealOf(file)->pMethods->xShmUnmap(RealOf(file), remove);
}

const sqlite3_io_methods kMethods = {
    2,       Close,      Read,   Write,  Truncate, SyncFile,   FileSize, Lock,    Unlock, Reserved,
    Control, SectorSize, Traits, ShmMap, ShmLock,  ShmBarrier, ShmUnmap, nullptr, nullptr};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto* layer = reinterpret_cast<Layer*>(file);
  std::memset(file, 0, sizeof(Layer));
  if (name != nullptr) {
    if (std::strlen(name) >= sizeof layer->path) return SQLITE_CANTOPEN;
    std::strcpy(layer->path, name);
  }
  const int code = real->xOpen(real, name, RealOf(file), flags, out_flags);
  if (RealOf(file)->pMethods == nullptr) return code;
  layer->base.pMethods = &kMethods;
  sqlite3_int64 size = 0;
  if (code == SQLITE_OK && RealOf(file)->pMethods->xFileSize(RealOf(file), &size) == SQLITE_OK) {
    disk->Set(layer->path, static_cast<uint64_t>(size));
  }
  return code;
}
int Delete(sqlite3_vfs*, const char* name, int sync) {
  disk->Set(name, 0);
  return real->xDelete(real, name, sync);
}

sqlite3_vfs* Vfs() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs made = *real;
    made.zName = "small-disk";
    made.szOsFile = static_cast<int>(sizeof(Layer)) + real->szOsFile;
    made.pNext = nullptr;
    made.xOpen = Open;
    made.xDelete = Delete;
    return made;
  }();
  return &vfs;
}

}  // namespace

SmallDisk::SmallDisk() {
  if (disk != nullptr) std::abort();
  disk = this;
  if (real == nullptr) real = sqlite3_vfs_find(nullptr);
  sqlite3_vfs_register(Vfs(), 1);
}

SmallDisk::~SmallDisk() {
  sqlite3_vfs_unregister(Vfs());
  sqlite3_vfs_register(real, 1);
  disk = nullptr;
}

uint64_t SmallDisk::UsedLocked() const {
  uint64_t used = 0;
  for (const auto& [path, size] : sizes_) used += size;
  return used;
}

uint64_t SmallDisk::used() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return UsedLocked();
}

void SmallDisk::LeaveFree(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  capacity_ = UsedLocked() + bytes;
}

bool SmallDisk::Grow(const std::string& path, uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t& now = sizes_[path];
  if (size <= now) return true;
  if (UsedLocked() + (size - now) > capacity_) {
    ++refused_;
    return false;
  }
  now = size;
  return true;
}

void SmallDisk::Set(const std::string& path, uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  sizes_[path] = size;
}

absl::Status SmallDisk::Allocate(const std::string& path, uint64_t bytes) {
  if (Grow(path, bytes)) return absl::OkStatus();
  return SystemError(ENOSPC, "allocate it", path);
}

absl::Status SmallDisk::Remove(const std::string& path) {
  Set(path, 0);
  return absl::OkStatus();
}

uint64_t SmallDisk::SizeOf(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  return sizes_[path];
}

absl::StatusOr<uint64_t> SmallDisk::FreeBytes(const std::string&) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t used = UsedLocked();
  return used < capacity_ ? capacity_ - used : 0;
}

}  // namespace lethe::service
