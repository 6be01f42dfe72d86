#include "store/vault/kek_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "audit/random.h"
#include "core/base/status_macros.h"
#include "store/vault/kms.h"
#include "store/vault/zero_file.h"

namespace lethe::store {
namespace {

constexpr absl::string_view kPrefix = "kek-";
constexpr absl::string_view kDraftPrefix = ".new-";
constexpr absl::string_view kDiscardedPrefix = ".old-";
constexpr absl::string_view kEndedPrefix = ".end-";
constexpr size_t kEpochDigits = 10;
constexpr absl::string_view kMagic = "LETHEKEK";
constexpr uint8_t kVersion = 1;
constexpr absl::string_view kCheckTag("lethe-kek-file\0\1", 16);
constexpr size_t kKeyOffset = 16;
constexpr size_t kCheckOffset = kKeyOffset + kDataKeyBytes;
constexpr size_t kFileBytes = 64;
constexpr size_t kCheckBytes = kFileBytes - kCheckOffset;
static_assert(kFileBytes <= kMaxSecretBytes);

absl::Status Strange(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("KEK: ", path, ": ", what));
}

absl::Status CheckOwner(const struct stat& info, const std::string& path) {
  if (info.st_uid == ::geteuid()) return absl::OkStatus();
  return Strange(path, "belongs to another user than the server's; chown it");
}

absl::Status CheckFolder(int folder, const std::string& path) {
  struct stat info = {};
  if (::fstat(folder, &info) != 0) return SystemError(errno, "inspect it", path);
  if ((info.st_mode & 07777) != 0700) {
    return Strange(path,
                   "the folder must have mode 0700; chmod it, and if others could read it, rotate"
                   " the KEK");
  }
  return CheckOwner(info, path);
}

absl::Status CheckFile(int file, const std::string& path) {
  struct stat info = {};
  if (::fstat(file, &info) != 0) return SystemError(errno, "inspect it", path);
  if (!S_ISREG(info.st_mode)) return Strange(path, "no regular file; take it out of the folder");
  LETHE_RETURN_IF_ERROR(CheckOwner(info, path));
  const mode_t mode = info.st_mode & 07777;
  if (mode != 0400 && mode != 0600) {
    return Strange(path,
                   "must have mode 0400; chmod it, and if others could read it, rotate the KEK");
  }
  if (info.st_nlink != 1) {
    return Strange(path,
                   "has other names (hard links), which may be in reach of others; remove them");
  }
  return absl::OkStatus();
}

// The umask can have taken rights from the owner of a folder that was just made. The descriptor,
// and not the path, is what the mode is set by: between the two steps another process may have put
// a link in the place of the folder.
absl::Status SetFolderMode(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return SystemError(errno, "open the folder", path);
  struct stat info = {};
  if (::fstat(folder.get(), &info) != 0) return SystemError(errno, "inspect it", path);
  LETHE_RETURN_IF_ERROR(CheckOwner(info, path));
  if ((info.st_mode & 07777) == 0700) return absl::OkStatus();
  // fchmod takes no descriptor of O_PATH, and without the right to read there is no other.
  const std::string link = absl::StrCat("/proc/self/fd/", folder.get());
  return ::chmod(link.c_str(), 0700) == 0 ? absl::OkStatus()
                                          : SystemError(errno, "set its mode", path);
}

std::string FileName(uint32_t epoch) {
  char digits[kEpochDigits + 1];
  std::snprintf(digits, sizeof digits, "%010u", epoch);
  return absl::StrCat(kPrefix, digits);
}

// The epoch of a name as FileName writes it.
std::optional<uint32_t> EpochOf(absl::string_view name) {
  uint32_t epoch = 0;
  if (!absl::StartsWith(name, kPrefix) || !absl::SimpleAtoi(name.substr(kPrefix.size()), &epoch) ||
      epoch == 0 || FileName(epoch) != name) {
    return std::nullopt;
  }
  return epoch;
}

std::string EndedName(uint32_t epoch) { return absl::StrCat(kEndedPrefix, FileName(epoch)); }

std::optional<uint32_t> EndedEpochOf(absl::string_view name) {
  if (!absl::StartsWith(name, kEndedPrefix)) return std::nullopt;
  return EpochOf(name.substr(kEndedPrefix.size()));
}

bool IsLeftOver(absl::string_view name) {
  return absl::StartsWith(name, kDraftPrefix) || absl::StartsWith(name, kDiscardedPrefix);
}

absl::string_view View(const SecretBytes& bytes, size_t size) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), size);
}

SecretBytes EncodeFile(uint32_t epoch, const uint8_t* key) {
  SecretBytes file(kFileBytes);
  std::copy(kMagic.begin(), kMagic.end(), file.data());
  file.data()[8] = kVersion;
  for (size_t i = 0; i < 4; ++i) file.data()[12 + i] = static_cast<uint8_t>(epoch >> (8 * i));
  std::copy_n(key, kDataKeyBytes, file.data() + kKeyOffset);
  const audit::Digest digest =
      audit::Sha256Hasher().Update(kCheckTag).Update(View(file, kCheckOffset)).Finish();
  std::copy_n(digest.begin(), kCheckBytes, file.data() + kCheckOffset);
  return file;
}

}  // namespace

absl::StatusOr<KekFolder> KekFolder::Make(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    LETHE_RETURN_IF_ERROR(SetFolderMode(path));
  } else if (errno != EEXIST) {
    return SystemError(errno, "make the folder", path);
  }
  LETHE_ASSIGN_OR_RETURN(KekFolder folder, Open(path));
  // The folder's own name, too, has to be there after a crash.
  const FileDescriptor parent(
      ::openat(folder.folder_.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return SystemError(errno, "open the parent folder", path);
  LETHE_RETURN_IF_ERROR(Sync(parent.get(), path));
  return folder;
}

absl::StatusOr<KekFolder> KekFolder::Open(const std::string& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return SystemError(errno, "open the folder", path);
  LETHE_RETURN_IF_ERROR(CheckFolder(folder.get(), path));
  return KekFolder(path, std::move(folder));
}

std::string KekFolder::PathOf(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

absl::StatusOr<std::vector<std::string>> KekFolder::Names() const {
  // fdopendir takes the descriptor it is given.
  const int listed = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listed < 0) return SystemError(errno, "list it", path_);
  DIR* directory = ::fdopendir(listed);
  if (directory == nullptr) {
    const int error = errno;
    ::close(listed);
    return SystemError(error, "list it", path_);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int error = errno;
  ::closedir(directory);
  if (error != 0) return SystemError(error, "list it", path_);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<KekFolder::Content> KekFolder::Recover() const {
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  Content content;
  absl::Status status;
  for (const std::string& name : names) {
    if (IsLeftOver(name)) status.Update(ZeroAndUnlink(name));
    if (const std::optional<uint32_t> ended = EndedEpochOf(name)) {
      status.Update(Zero(name));
      content.ended = *ended;
    }
  }
  LETHE_RETURN_IF_ERROR(status);
  for (const std::string& name : names) {
    if (IsLeftOver(name) || EndedEpochOf(name)) continue;
    const std::optional<uint32_t> epoch = EpochOf(name);
    if (!epoch) return Strange(PathOf(name), "no file of ours; take it out of the folder");
    if (content.ended != 0) {
      return Strange(PathOf(name),
                     "was put into a folder whose keys were all destroyed; take it out");
    }
    content.epochs.push_back(*epoch);
  }
  return content;
}

absl::StatusOr<SecretBytes> KekFolder::Read(uint32_t epoch) const {
  const std::string name = FileName(epoch);
  const std::string path = PathOf(name);
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(
      ::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return SystemError(errno, "open it", path);
  LETHE_RETURN_IF_ERROR(CheckFile(file.get(), path));
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return SystemError(errno, "inspect it", path);
  SecretBytes bytes(kFileBytes);
  LETHE_ASSIGN_OR_RETURN(const size_t size, ReadUpTo(file.get(), bytes.data(), kFileBytes, path));
  const bool whole = size == kFileBytes && info.st_size == static_cast<off_t>(kFileBytes);
  if (!whole || !bytes.Equals(EncodeFile(epoch, bytes.data() + kKeyOffset))) {
    return absl::DataLossError(absl::StrCat(
        "KEK: ", path, ": is not what was written; put the file back from its backup"));
  }
  SecretBytes key(kDataKeyBytes);
  std::copy_n(bytes.data() + kKeyOffset, kDataKeyBytes, key.data());
  return key;
}

absl::Status KekFolder::Write(uint32_t epoch, const SecretBytes& key) const {
  const SecretBytes bytes = EncodeFile(epoch, key.data());
  const std::string name = FileName(epoch);
  const std::string path = PathOf(name);
  const std::string draft = absl::StrCat(kDraftPrefix, audit::RandomUid());
  absl::Status status;
  {
    const FileDescriptor file(::openat(folder_.get(), draft.c_str(),
                                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                       S_IRUSR));
    if (!file.valid()) return SystemError(errno, "create it", path);
    status = WriteAll(file.get(), View(bytes, kFileBytes), path);
    // The process's umask must not decide about a key.
    if (status.ok() && ::fchmod(file.get(), S_IRUSR) != 0) {
      status = SystemError(errno, "set its mode", path);
    }
    if (status.ok()) status = Sync(file.get(), path);
  }
  if (status.ok() && ::renameat2(folder_.get(), draft.c_str(), folder_.get(), name.c_str(),
                                 RENAME_NOREPLACE) != 0) {
    status = SystemError(errno, "create it", path);
  }
  if (!status.ok()) {
    // What stays after a second failure is removed by the next Recover.
    (void)ZeroAndUnlink(draft);
    return status;
  }
  status = SyncNames();
  if (status.ok()) {
    const absl::StatusOr<SecretBytes> read = Read(epoch);
    status = read.status();
    if (status.ok() && !read->Equals(key)) {
      status = absl::DataLossError(absl::StrCat("KEK: ", path, ": is not what was written"));
    }
  }
  if (!status.ok()) (void)Erase(epoch);
  return status;
}

absl::Status KekFolder::SyncNames() const { return Sync(folder_.get(), path_); }

absl::Status KekFolder::Rename(const std::string& from, const std::string& to) const {
  if (::renameat2(folder_.get(), from.c_str(), folder_.get(), to.c_str(), RENAME_NOREPLACE) != 0 &&
      errno != ENOENT) {
    return SystemError(errno, "rename it", PathOf(from));
  }
  return SyncNames();
}

absl::Status KekFolder::Zero(const std::string& name) const {
  const std::string path = PathOf(name);
  // A file of mode 0400 can be opened for reading, and what is open can be given the right to be
  // written.
  const FileDescriptor reader(
      ::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!reader.valid()) return SystemError(errno, "open it", path);
  struct stat info = {};
  if (::fstat(reader.get(), &info) != 0) return SystemError(errno, "inspect it", path);
  if (!S_ISREG(info.st_mode)) return Strange(path, "no regular file; take it out of the folder");
  if (::fchmod(reader.get(), S_IRUSR | S_IWUSR) != 0) {
    return SystemError(errno, "set its mode", path);
  }
  const FileDescriptor writer(
      ::openat(folder_.get(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!writer.valid()) return SystemError(errno, "open it", path);
  struct stat again = {};
  if (::fstat(writer.get(), &again) != 0) return SystemError(errno, "inspect it", path);
  if (again.st_ino != info.st_ino || again.st_dev != info.st_dev) {
    return Strange(path, "was replaced while it was being destroyed");
  }
  return ZeroFile(reader.get(), writer.get(), path).status();
}

absl::Status KekFolder::ZeroAndUnlink(const std::string& name) const {
  const absl::Status zeroed = Zero(name);
  // Unlinked by an earlier call; Rename, which comes first, has synced the names.
  if (absl::IsNotFound(zeroed)) return absl::OkStatus();
  LETHE_RETURN_IF_ERROR(zeroed);
  if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) {
    return SystemError(errno, "remove it", PathOf(name));
  }
  return SyncNames();
}

absl::Status KekFolder::Erase(uint32_t epoch) const {
  const std::string name = FileName(epoch);
  const std::string discarded = absl::StrCat(kDiscardedPrefix, name);
  // The name goes first, so that a file that is half overwritten is never taken for a KEK.
  LETHE_RETURN_IF_ERROR(Rename(name, discarded));
  return ZeroAndUnlink(discarded);
}

absl::Status KekFolder::EraseLast(uint32_t epoch) const {
  const std::string name = FileName(epoch);
  const std::string ended = EndedName(epoch);
  LETHE_RETURN_IF_ERROR(Rename(name, ended));
  const absl::Status zeroed = Zero(ended);
  return absl::IsNotFound(zeroed) ? absl::OkStatus() : zeroed;  // somebody took the file away
}

absl::StatusOr<uint32_t> KekFolder::Remove(const std::string& path) {
  const std::string parent = FolderOf(path);
  absl::StatusOr<KekFolder> folder = Open(path);
  if (absl::IsNotFound(folder.status())) {
    // Removed by an earlier call, whose sync may have failed.
    const absl::Status synced = SyncFolder(parent);
    if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
    return 0;
  }
  if (!folder.ok()) return folder.status();
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder->Names());
  std::vector<uint32_t> epochs;
  uint32_t last = 0;
  std::set<std::string> marks;
  absl::Status status;
  for (const std::string& name : names) {
    if (const std::optional<uint32_t> epoch = EpochOf(name)) {
      epochs.push_back(*epoch);
    } else if (const std::optional<uint32_t> ended = EndedEpochOf(name)) {
      status.Update(folder->Zero(name));
      marks.insert(name);
      last = std::max(last, *ended);
    } else if (IsLeftOver(name)) {
      status.Update(folder->ZeroAndUnlink(name));
    } else {
      status.Update(Strange(folder->PathOf(name), "no file of ours; take it out of the folder"));
    }
  }
  for (size_t i = 0; i < epochs.size(); ++i) {
    const bool is_last = i + 1 == epochs.size() && epochs[i] > last;
    status.Update(is_last ? folder->EraseLast(epochs[i]) : folder->Erase(epochs[i]));
    if (!is_last) continue;
    last = epochs[i];
    marks.insert(EndedName(last));
  }
  LETHE_RETURN_IF_ERROR(status);
  for (const std::string& mark : marks) LETHE_RETURN_IF_ERROR(folder->ZeroAndUnlink(mark));
  if (::rmdir(path.c_str()) != 0) return SystemError(errno, "remove the folder", path);
  LETHE_RETURN_IF_ERROR(SyncFolder(parent));
  return last;
}

}  // namespace lethe::store
