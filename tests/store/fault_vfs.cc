#include "tests/store/fault_vfs.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

constexpr uint64_t kSectorBytes = 512;

enum class Op { kOpen, kRead, kWrite, kTruncate, kSync, kDelete, kLock, kSize, kAccess };

constexpr const char* kNames[] = {"open",   "read", "write", "truncate", "sync",
                                  "delete", "lock", "size",  "access"};

bool CanStrike(FaultKind kind, Op op) {
  switch (kind) {
    case FaultKind::kNone:
    case FaultKind::kError:
      return true;
    case FaultKind::kShort:
      return op == Op::kWrite;
    case FaultKind::kLostSync:
      return op == Op::kSync;
    case FaultKind::kPowerCut:
      return op == Op::kWrite || op == Op::kTruncate || op == Op::kSync || op == Op::kDelete;
    case FaultKind::kFlip:
      return op == Op::kRead || op == Op::kWrite;
  }
  return false;
}

using Inode = std::pair<dev_t, ino_t>;

std::optional<Inode> InodeOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return Inode(info.st_dev, info.st_ino);
}

struct Change {
  uint64_t offset = 0;  // of the write, or the new size
  std::string bytes;
  bool truncation = false;
};

void Apply(const Change& change, std::string& content) {
  if (change.truncation) {
    content.resize(change.offset);
    return;
  }
  content.resize(std::max(content.size(), change.offset + change.bytes.size()));
  content.replace(change.offset, change.bytes.size(), change.bytes);
}

// A file as it is and as it would be after a power cut.
struct Tracked {
  std::string path;
  bool named = true;  // its name is durable
  std::string durable;
  std::string present;
  std::vector<Change> unsynced;

  void Add(Change change) {
    Apply(change, present);
    unsynced.push_back(std::move(change));
  }
  void Synced() {
    durable = present;
    unsynced.clear();
    named = true;
  }
};

class Device {
 public:
  void Start(const FaultPlan& plan) {
    plan_ = plan;
    random_.seed(plan.seed * 0x9E3779B97F4A7C15u + plan.at);
    active_ = true;
    off_ = false;
    struck_.clear();
    position_ = 0;
    files_.clear();
    deleted_.clear();
    left_.clear();
  }

  uint64_t Settle() {
    for (const auto& [path, inode, content] : left_) {
      // Gone past SQLite since, or renamed: not ours to put back.
      if (inode.has_value() && InodeOf(path) != inode) continue;
      if (!inode.has_value() && InodeOf(path).has_value()) continue;
      if (content.has_value()) {
        WriteFile(path, *content);
      } else {
        ::unlink(path.c_str());
      }
    }
    left_.clear();
    active_ = false;
    off_ = false;
    return position_;
  }

  bool active() const { return active_; }
  bool off() const { return off_; }
  const std::string& struck() const { return struck_; }
  FaultKind kind() const { return plan_.kind; }
  uint64_t Draw(uint64_t below) { return random_() % below; }

  // Counts the call; true when it is the one to strike.
  bool Strikes(Op op, const std::string& path) {
    if (!active_ || off_ || !CanStrike(plan_.kind, op)) return false;
    if (++position_ != plan_.at || plan_.kind == FaultKind::kNone) return false;
    struck_ = absl::StrCat(kNames[static_cast<int>(op)], " ", path.substr(path.rfind('/') + 1));
    return true;
  }

  bool tracks() const {
    return active_ && (plan_.kind == FaultKind::kLostSync || plan_.kind == FaultKind::kPowerCut);
  }
  // After it was opened.
  void Track(const std::string& path, bool made) {
    const std::optional<Inode> inode = InodeOf(path);
    if (!tracks() || off_ || !inode.has_value()) return;
    std::string content = ReadFile(path);
    auto [found, added] = files_.try_emplace(*inode);
    Tracked& file = found->second;
    // Changed past SQLite, or another file with the number of one that is gone.
    if (added || made || file.present != content) {
      file = {.path = path, .named = !made, .durable = content, .present = content, .unsynced = {}};
    }
    file.path = path;
  }
  Tracked* Find(const std::string& path) {
    if (!tracks() || off_) return nullptr;
    const std::optional<Inode> inode = InodeOf(path);
    const auto found = inode.has_value() ? files_.find(*inode) : files_.end();
    return found == files_.end() ? nullptr : &found->second;
  }
  Tracked* Find(const Inode& inode) {
    const auto found = tracks() && !off_ ? files_.find(inode) : files_.end();
    return found == files_.end() ? nullptr : &found->second;
  }
  void Deleted(const std::string& path, bool durable) {
    const std::optional<Inode> inode = InodeOf(path);
    const auto found = inode.has_value() ? files_.find(*inode) : files_.end();
    if (found == files_.end()) return;
    if (!durable && found->second.named) deleted_[path] = std::move(found->second);
    files_.erase(found);
  }
  void FolderSynced(const std::string& folder) {
    const auto inside = [&folder](const std::string& path) {
      return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
             path[folder.size()] == '/' && path.find('/', folder.size() + 1) == std::string::npos;
    };
    std::erase_if(deleted_, [&](const auto& entry) { return inside(entry.first); });
    for (auto& [inode, file] : files_) {
      if (inside(file.path)) file.named = true;
    }
  }
  void Synced(Tracked& file) {
    if (!file.named) deleted_.erase(file.path);
    file.Synced();
  }

  // The sync fails: what stays of the file is durable, and is what it is from now on.
  void LoseSync(Tracked& file) {
    file.present = Remains(file);
    file.durable = file.present;
    file.unsynced.clear();
    WriteFile(file.path, file.present);
  }

  void CutPower() {
    off_ = true;
    std::map<std::string, bool> taken;
    for (const auto& [inode, file] : files_) {
      if (InodeOf(file.path) != inode) continue;
      const bool there = file.named || Draw(2) == 0;
      taken[file.path] = there;
      if (there) {
        left_.push_back({file.path, inode, Remains(file)});
      } else {
        left_.push_back({file.path, inode, std::nullopt});
      }
    }
    for (const auto& [path, file] : deleted_) {
      if (Draw(2) == 0 || taken[path]) continue;
      left_.push_back({path, std::nullopt, Remains(file)});
    }
  }

 private:
  struct Left {
    std::string path;
    std::optional<Inode> inode;  // of the file that stands there; none: of nothing
    std::optional<std::string> content;
  };

  // What was synced, and of what was not: nothing, all, or some of the sectors.
  std::string Remains(const Tracked& file) {
    std::string content = file.durable;
    const uint64_t how = Draw(4);
    if (how == 0) return content;
    const auto stays = [&] { return how == 1 || Draw(2) == 0; };
    for (const Change& change : file.unsynced) {
      if (change.truncation) {
        if (stays()) Apply(change, content);
        continue;
      }
      for (uint64_t at = 0; at < change.bytes.size();) {
        const uint64_t offset = change.offset + at;
        const uint64_t size =
            std::min<uint64_t>(kSectorBytes - offset % kSectorBytes, change.bytes.size() - at);
        if (stays()) {
          Apply({.offset = offset, .bytes = change.bytes.substr(at, size), .truncation = false},
                content);
        }
        at += size;
      }
    }
    return content;
  }

  FaultPlan plan_;
  std::mt19937_64 random_;
  bool active_ = false;
  bool off_ = false;
  std::string struck_;
  uint64_t position_ = 0;
  std::map<Inode, Tracked> files_;
  std::map<std::string, Tracked> deleted_;  // by path; the deletion is not durable
  std::vector<Left> left_;
};

// Never destroyed: connections may be closed at the very end.
Device& TheDevice() {
  static auto* const device = new Device;
  return *device;
}

// --- Files

struct File {
  sqlite3_file base;
  std::string* path;
  sqlite3_file* real;  // behind this struct
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real; }
const std::string& PathOf(sqlite3_file* file) { return *Of(file)->path; }

// Of a call that changes nothing: the code of its failure, or SQLITE_OK to do it.
int Look(Op op, const std::string& path, int failure) {
  Device& device = TheDevice();
  if (device.off()) return failure;
  if (!device.Strikes(op, path)) return SQLITE_OK;
  return device.kind() == FaultKind::kFlip ? SQLITE_OK : failure;
}

int Close(sqlite3_file* file) {
  const int code = Real(file)->pMethods->xClose(Real(file));
  delete Of(file)->path;
  return code;
}

void FlipBit(std::string& bytes) {
  const uint64_t bit = TheDevice().Draw(bytes.size() * 8);
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
}

int Read(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  Device& device = TheDevice();
  if (device.off()) return SQLITE_IOERR_READ;
  const bool strikes = device.Strikes(Op::kRead, PathOf(file));
  if (strikes && device.kind() == FaultKind::kError) return SQLITE_IOERR_READ;
  const int code = Real(file)->pMethods->xRead(Real(file), out, size, offset);
  if (!strikes || code != SQLITE_OK) return code;
  std::string bytes(static_cast<const char*>(out), static_cast<size_t>(size));
  FlipBit(bytes);
  ::memcpy(out, bytes.data(), bytes.size());
  return code;
}

int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  Device& device = TheDevice();
  if (device.off()) return SQLITE_IOERR_WRITE;
  std::string bytes(static_cast<const char*>(data), static_cast<size_t>(size));
  const bool strikes = device.Strikes(Op::kWrite, PathOf(file));
  if (strikes && device.kind() == FaultKind::kFlip) FlipBit(bytes);
  if (strikes && device.kind() == FaultKind::kShort) bytes.resize(device.Draw(bytes.size()));
  const bool fails = strikes && device.kind() != FaultKind::kFlip;
  const int failure = device.Draw(2) == 0 ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  if (fails && device.kind() == FaultKind::kError) return failure;
  if (Tracked* tracked = device.Find(PathOf(file)); tracked != nullptr) {
    tracked->Add({.offset = static_cast<uint64_t>(offset), .bytes = bytes, .truncation = false});
  }
  if (fails && device.kind() == FaultKind::kPowerCut) {
    device.CutPower();
    return SQLITE_IOERR_WRITE;
  }
  const int code = bytes.empty()
                       ? SQLITE_OK
                       : Real(file)->pMethods->xWrite(Real(file), bytes.data(),
                                                      static_cast<int>(bytes.size()), offset);
  return fails ? failure : code;
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  Device& device = TheDevice();
  if (device.off()) return SQLITE_IOERR_TRUNCATE;
  const bool strikes = device.Strikes(Op::kTruncate, PathOf(file));
  if (strikes && device.kind() == FaultKind::kError) return SQLITE_IOERR_TRUNCATE;
  if (Tracked* tracked = device.Find(PathOf(file)); tracked != nullptr) {
    tracked->Add({.offset = static_cast<uint64_t>(size), .bytes = {}, .truncation = true});
  }
  if (strikes) {
    device.CutPower();
    return SQLITE_IOERR_TRUNCATE;
  }
  return Real(file)->pMethods->xTruncate(Real(file), size);
}

// False: the sync fails.
bool SyncTracked(const std::string& path, Tracked* tracked) {
  Device& device = TheDevice();
  if (device.off()) return false;
  if (!device.Strikes(Op::kSync, path)) {
    if (tracked != nullptr) device.Synced(*tracked);
    return true;
  }
  if (device.kind() == FaultKind::kPowerCut) device.CutPower();
  if (device.kind() == FaultKind::kLostSync && tracked != nullptr) device.LoseSync(*tracked);
  return false;
}

int Sync(sqlite3_file* file, int /*flags*/) {
  if (!TheDevice().active()) return SQLITE_OK;
  const bool synced = SyncTracked(PathOf(file), TheDevice().Find(PathOf(file)));
  return synced ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  const int code = Look(Op::kSize, PathOf(file), SQLITE_IOERR_FSTAT);
  return code != SQLITE_OK ? code : Real(file)->pMethods->xFileSize(Real(file), size);
}

int Lock(sqlite3_file* file, int level) {
  const int code = Look(Op::kLock, PathOf(file), SQLITE_IOERR_LOCK);
  return code != SQLITE_OK ? code : Real(file)->pMethods->xLock(Real(file), level);
}

int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}

int CheckReservedLock(sqlite3_file* file, int* locked) {
  const int code = Look(Op::kLock, PathOf(file), SQLITE_IOERR_CHECKRESERVEDLOCK);
  return code != SQLITE_OK ? code : Real(file)->pMethods->xCheckReservedLock(Real(file), locked);
}

int FileControl(sqlite3_file* file, int op, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), op, argument);
}
int SectorSize(sqlite3_file* file) { return Real(file)->pMethods->xSectorSize(Real(file)); }
int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}

const sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = FileSize,
    .xLock = Lock,
    .xUnlock = Unlock,
    .xCheckReservedLock = CheckReservedLock,
    .xFileControl = FileControl,
    .xSectorSize = SectorSize,
    .xDeviceCharacteristics = DeviceCharacteristics,
};

// --- The file system

sqlite3_vfs* RealOf(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  Device& device = TheDevice();
  file->pMethods = nullptr;
  LETHE_CHECK(name != nullptr);  // the store keeps its temporary tables in RAM
  const std::string path = name;
  if (const int code = Look(Op::kOpen, path, SQLITE_CANTOPEN); code != SQLITE_OK) return code;
  const bool made = !InodeOf(path).has_value();
  auto* const real = reinterpret_cast<sqlite3_file*>(Of(file) + 1);
  const int code = RealOf(vfs)->xOpen(RealOf(vfs), name, real, flags, out_flags);
  if (code != SQLITE_OK) return code;
  device.Track(path, made);
  Of(file)->path = new std::string(path);
  Of(file)->real = real;
  file->pMethods = &kMethods;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  Device& device = TheDevice();
  if (device.off()) return SQLITE_IOERR_DELETE;
  const bool strikes = device.Strikes(Op::kDelete, name);
  if (strikes && device.kind() == FaultKind::kError) return SQLITE_IOERR_DELETE;
  if (device.tracks()) device.Deleted(name, sync_folder != 0 && !strikes);
  const int code = RealOf(vfs)->xDelete(RealOf(vfs), name, 0);
  if (!strikes) return code;
  device.CutPower();
  return SQLITE_IOERR_DELETE;
}

int Access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  const int code = Look(Op::kAccess, name, SQLITE_IOERR_ACCESS);
  return code != SQLITE_OK ? code : RealOf(vfs)->xAccess(RealOf(vfs), name, flags, result);
}

// --- fsync past SQLite

int SyncDescriptor(int descriptor) {
  Device& device = TheDevice();
  if (!device.active()) return 0;
  struct stat info = {};
  char target[4096];
  const ssize_t length =
      ::readlink(absl::StrCat("/proc/self/fd/", descriptor).c_str(), target, sizeof target);
  if (::fstat(descriptor, &info) != 0 || length <= 0) return -1;
  const std::string path(target, static_cast<size_t>(length));
  const Inode inode(info.st_dev, info.st_ino);
  if (!SyncTracked(path, device.Find(inode))) {
    errno = EIO;
    return -1;
  }
  if (S_ISDIR(info.st_mode)) device.FolderSynced(path);
  return 0;
}

}  // namespace

void InstallFaultVfs() {
  static sqlite3_vfs vfs;
  sqlite3_vfs* const real = sqlite3_vfs_find(nullptr);
  LETHE_CHECK(real != nullptr && real != &vfs);
  vfs = *real;
  vfs.pNext = nullptr;
  vfs.zName = "lethe-fault";
  vfs.pAppData = real;
  vfs.szOsFile = static_cast<int>(sizeof(File)) + real->szOsFile;
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  vfs.xAccess = Access;
  LETHE_CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

void StartFaults(const FaultPlan& plan) { TheDevice().Start(plan); }
const std::string& Struck() { return TheDevice().struck(); }
bool PowerIsOff() { return TheDevice().off(); }
uint64_t Settle() { return TheDevice().Settle(); }

}  // namespace lethe::store

extern "C" int fsync(int descriptor) { return lethe::store::SyncDescriptor(descriptor); }
