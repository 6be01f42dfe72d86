#include "store/vault/file_kms.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::store {
namespace {

constexpr absl::string_view kPrefix = "kek-";
constexpr absl::string_view kDraftPrefix = ".new-";
constexpr absl::string_view kDiscardedPrefix = ".old-";
constexpr size_t kEpochDigits = 10;
constexpr absl::string_view kMagic = "LETHEKEK";
constexpr uint8_t kVersion = 1;
constexpr absl::string_view kCheckTag("lethe-kek-file\0\1", 16);
constexpr size_t kKeyOffset = 16;
constexpr size_t kCheckOffset = kKeyOffset + kDataKeyBytes;
constexpr size_t kFileBytes = 64;
constexpr size_t kCheckBytes = kFileBytes - kCheckOffset;
static_assert(kFileBytes <= kMaxSecretBytes);

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (valid()) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// With errno.
absl::Status SystemError(absl::string_view doing, const std::string& path) {
  const int number = errno;
  const std::string message =
      absl::StrCat("KEK: cannot ", doing, " ", path, ": ", std::generic_category().message(number));
  if (number == EEXIST) return absl::AlreadyExistsError(message);
  if (number == ENOENT) return absl::NotFoundError(message);
  if (number == ELOOP || number == ENOTDIR) {
    return absl::FailedPreconditionError(
        absl::StrCat(message, "; symbolic links and files in place of folders are not followed"));
  }
  if (number == EACCES || number == EPERM) return absl::PermissionDeniedError(message);
  if (number == ENOSPC || number == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

absl::Status Strange(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("KEK: ", path, ": ", what));
}

absl::Status CheckOwner(const struct stat& info, const std::string& path) {
  if (info.st_uid == ::geteuid()) return absl::OkStatus();
  return Strange(path, "belongs to another user than the server's; chown it");
}

absl::StatusOr<int> OpenFolder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return SystemError("open the folder", path);
  struct stat info = {};
  absl::Status status;
  if (::fstat(folder, &info) != 0) {
    status = SystemError("inspect", path);
  } else if ((info.st_mode & 07777) != 0700) {
    status = Strange(path,
                     "the folder must have mode 0700; chmod it, and if others could read it,"
                     " rotate the KEK");
  } else {
    status = CheckOwner(info, path);
  }
  if (status.ok()) return folder;
  ::close(folder);
  return status;
}

absl::Status CheckFile(int file, const std::string& path) {
  struct stat info = {};
  if (::fstat(file, &info) != 0) return SystemError("inspect", path);
  if (!S_ISREG(info.st_mode)) return Strange(path, "no regular file; take it out of the folder");
  LETHE_RETURN_IF_ERROR(CheckOwner(info, path));
  const mode_t mode = info.st_mode & 07777;
  if (mode != 0400 && mode != 0600) {
    return Strange(path,
                   "must have mode 0400; chmod it, and if others could read it, rotate the"
                   " KEK");
  }
  if (info.st_nlink != 1) {
    return Strange(path,
                   "has other names (hard links), which may be in reach of others; remove"
                   " them");
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(int folder, const std::string& path) {
  return ::fsync(folder) == 0 ? absl::OkStatus() : SystemError("sync", path);
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

absl::string_view View(const SecretBytes& bytes, size_t size) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), size);
}

void WriteCheck(SecretBytes& file) {
  const audit::Digest digest =
      audit::Sha256Hasher().Update(kCheckTag).Update(View(file, kCheckOffset)).Finish();
  std::copy_n(digest.begin(), kCheckBytes, file.data() + kCheckOffset);
}

// The first 16 bytes.
void WriteHeader(uint32_t epoch, SecretBytes& file) {
  std::copy(kMagic.begin(), kMagic.end(), file.data());
  file.data()[8] = kVersion;
  for (size_t i = 0; i < 4; ++i) file.data()[12 + i] = static_cast<uint8_t>(epoch >> (8 * i));
}

absl::Status WriteAll(int file, const uint8_t* bytes, size_t size, const std::string& path) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::pwrite(file, bytes + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return SystemError("write", path);
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

// Bytes read, at most the size of `buffer`.
absl::StatusOr<size_t> ReadFile(int file, SecretBytes& buffer, const std::string& path) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t count =
        ::pread(file, buffer.data() + done, buffer.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

absl::Status NoSuchEpoch(uint32_t epoch, const std::string& path) {
  return absl::NotFoundError(absl::StrCat("KEK: epoch ", epoch, " is not in ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileKms>> FileKms::Create(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) {
    // The umask can only have taken rights from the owner.
    if (::chmod(folder.c_str(), 0700) != 0) return SystemError("set the mode of", folder);
  } else if (errno != EEXIST) {
    return SystemError("make the folder", folder);
  }
  LETHE_ASSIGN_OR_RETURN(const int descriptor, OpenFolder(folder));
  std::unique_ptr<FileKms> kms(new FileKms(folder, descriptor));
  LETHE_RETURN_IF_ERROR(kms->Load());
  if (!kms->keys_.empty()) {
    return absl::AlreadyExistsError(absl::StrCat("KEK: ", folder, " holds keys already"));
  }
  // The folder's own name, too, has to be there after a crash.
  const FileDescriptor parent(::openat(descriptor, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return SystemError("open the parent of", folder);
  LETHE_RETURN_IF_ERROR(SyncFolder(parent.get(), folder));
  LETHE_RETURN_IF_ERROR(kms->CreateEpoch(1));
  return kms;
}

absl::StatusOr<std::unique_ptr<FileKms>> FileKms::Open(const std::string& folder) {
  LETHE_ASSIGN_OR_RETURN(const int descriptor, OpenFolder(folder));
  std::unique_ptr<FileKms> kms(new FileKms(folder, descriptor));
  LETHE_RETURN_IF_ERROR(kms->Load());
  if (kms->keys_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("KEK: ", folder,
                     " holds no key; put the files kek-* of this tenant back from their"
                     " backup; without them its data cannot be read"));
  }
  return kms;
}

FileKms::~FileKms() { ::close(folder_); }

absl::Status FileKms::Load() {
  // fdopendir takes the descriptor it is given.
  const int listed = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* directory = listed < 0 ? nullptr : ::fdopendir(listed);
  if (directory == nullptr) {
    absl::Status status = SystemError("list", path_);
    if (listed >= 0) ::close(listed);
    return status;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) names.push_back(entry->d_name);
  absl::Status status = errno == 0 ? absl::OkStatus() : SystemError("list", path_);
  ::closedir(directory);
  LETHE_RETURN_IF_ERROR(status);

  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    if (absl::StartsWith(name, kDraftPrefix) || absl::StartsWith(name, kDiscardedPrefix)) {
      LETHE_RETURN_IF_ERROR(Erase(name));
      continue;
    }
    const std::optional<uint32_t> epoch = EpochOf(name);
    if (!epoch) {
      return Strange(absl::StrCat(path_, "/", name), "no file of ours; take it out of the folder");
    }
    LETHE_ASSIGN_OR_RETURN(SecretBytes key, ReadKey(*epoch));
    keys_.emplace(*epoch, SealingKey(std::move(key)));
  }
  if (keys_.size() > kMaxEpochs) {
    return Strange(path_, absl::StrCat("holds more than ", kMaxEpochs, " KEKs"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SecretBytes> FileKms::ReadKey(uint32_t epoch) const {
  const std::string name = FileName(epoch);
  const std::string path = absl::StrCat(path_, "/", name);
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(
      ::openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return SystemError("open", path);
  LETHE_RETURN_IF_ERROR(CheckFile(file.get(), path));
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return SystemError("inspect", path);
  SecretBytes bytes(kFileBytes);
  LETHE_ASSIGN_OR_RETURN(const size_t size, ReadFile(file.get(), bytes, path));
  const bool whole = size == kFileBytes && info.st_size == static_cast<off_t>(kFileBytes);
  SecretBytes expected(kFileBytes);
  WriteHeader(epoch, expected);
  std::copy_n(bytes.data() + kKeyOffset, kDataKeyBytes, expected.data() + kKeyOffset);
  WriteCheck(expected);
  if (!whole || !bytes.Equals(expected)) {
    return absl::DataLossError(absl::StrCat(
        "KEK: ", path, ": is not what was written; put the file back from its backup"));
  }
  SecretBytes key(kDataKeyBytes);
  std::copy_n(bytes.data() + kKeyOffset, kDataKeyBytes, key.data());
  return key;
}

absl::Status FileKms::CreateEpoch(uint32_t epoch) {
  SecretBytes key = SecretBytes::Random(kDataKeyBytes);
  SecretBytes bytes(kFileBytes);
  WriteHeader(epoch, bytes);
  std::copy_n(key.data(), kDataKeyBytes, bytes.data() + kKeyOffset);
  WriteCheck(bytes);

  const std::string name = FileName(epoch);
  const std::string path = absl::StrCat(path_, "/", name);
  const std::string draft = absl::StrCat(kDraftPrefix, audit::RandomUid());
  absl::Status status;
  {
    const FileDescriptor file(::openat(
        folder_, draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR));
    if (!file.valid()) return SystemError("create", path);
    status = WriteAll(file.get(), bytes.data(), kFileBytes, path);
    // The process's umask must not decide about a key.
    if (status.ok() && ::fchmod(file.get(), S_IRUSR) != 0) {
      status = SystemError("set the mode of", path);
    }
    if (status.ok() && ::fsync(file.get()) != 0) status = SystemError("sync", path);
  }
  if (status.ok() &&
      ::renameat2(folder_, draft.c_str(), folder_, name.c_str(), RENAME_NOREPLACE) != 0) {
    status = SystemError("create", path);
  }
  if (!status.ok()) {
    // What stays after a second failure is removed by the next Open.
    (void)Erase(draft);
    return status;
  }
  status = SyncFolder(folder_, path_);
  if (status.ok()) {
    const absl::StatusOr<SecretBytes> read = ReadKey(epoch);
    status = read.status();
    if (status.ok() && !read->Equals(key)) {
      status = absl::DataLossError(absl::StrCat("KEK: ", path, ": is not what was written"));
    }
  }
  if (!status.ok()) {
    // By another name first: what is half overwritten must not be taken for a KEK.
    (void)EraseEpoch(epoch);
    return status;
  }
  keys_.emplace(epoch, SealingKey(std::move(key)));
  return absl::OkStatus();
}

absl::Status FileKms::Erase(const std::string& name) const {
  const std::string path = absl::StrCat(path_, "/", name);
  // A file of mode 0400 can be opened for reading, and what is open can be given the right to be
  // written.
  const FileDescriptor reader(
      ::openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!reader.valid()) {
    // Unlinked by an earlier call, whose sync may have failed.
    return errno == ENOENT ? SyncFolder(folder_, path_) : SystemError("open", path);
  }
  struct stat info = {};
  if (::fstat(reader.get(), &info) != 0) return SystemError("inspect", path);
  if (!S_ISREG(info.st_mode)) return Strange(path, "no regular file; take it out of the folder");
  if (::fchmod(reader.get(), S_IRUSR | S_IWUSR) != 0) return SystemError("set the mode of", path);
  const FileDescriptor writer(
      ::openat(folder_, name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!writer.valid()) return SystemError("open", path);
  struct stat again = {};
  if (::fstat(writer.get(), &again) != 0) return SystemError("inspect", path);
  if (again.st_ino != info.st_ino || again.st_dev != info.st_dev) {
    return Strange(path, "was replaced while it was being destroyed");
  }
  const std::array<uint8_t, kFileBytes> zeros = {};
  // Of the size it has, so that a draft cut short is not made longer.
  const size_t size = std::min(kFileBytes, static_cast<size_t>(info.st_size));
  LETHE_RETURN_IF_ERROR(WriteAll(writer.get(), zeros.data(), size, path));
  if (::fsync(writer.get()) != 0) return SystemError("sync", path);
  SecretBytes read(kFileBytes);
  LETHE_ASSIGN_OR_RETURN(const size_t read_size, ReadFile(reader.get(), read, path));
  if (read_size != size || !read.Equals(SecretBytes(kFileBytes))) {
    return absl::UnavailableError(
        absl::StrCat("KEK: ", path, ": was overwritten and does not read as zeros"));
  }
  if (::unlinkat(folder_, name.c_str(), 0) != 0) return SystemError("remove", path);
  return SyncFolder(folder_, path_);
}

absl::Status FileKms::EraseEpoch(uint32_t epoch) const {
  const std::string name = FileName(epoch);
  const std::string discarded = absl::StrCat(kDiscardedPrefix, name);
  // The name goes first, so that a file that is half overwritten is never taken for a KEK.
  if (::renameat2(folder_, name.c_str(), folder_, discarded.c_str(), RENAME_NOREPLACE) != 0 &&
      errno != ENOENT) {
    return SystemError("rename", absl::StrCat(path_, "/", name));
  }
  LETHE_RETURN_IF_ERROR(SyncFolder(folder_, path_));
  return Erase(discarded);
}

absl::StatusOr<std::vector<uint32_t>> FileKms::Epochs() {
  if (keys_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("KEK: all keys of ", path_, " were destroyed"));
  }
  std::vector<uint32_t> epochs;
  for (const auto& [epoch, key] : keys_) epochs.push_back(epoch);
  return epochs;
}

absl::StatusOr<SealingKey*> FileKms::Find(uint32_t epoch) {
  const auto found = keys_.find(epoch);
  if (found == keys_.end()) return NoSuchEpoch(epoch, path_);
  return &found->second;
}

absl::StatusOr<std::vector<std::string>> FileKms::Wrap(uint32_t epoch,
                                                       std::span<const KeyToWrap> keys) {
  LETHE_ASSIGN_OR_RETURN(SealingKey * kek, Find(epoch));
  std::vector<std::string> wrapped;
  wrapped.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].key == nullptr || keys[i].key->size() != kDataKeyBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("keys[", i, "]: must have ", kDataKeyBytes, " bytes"));
    }
    LETHE_ASSIGN_OR_RETURN(std::string bytes, kek->SealSecret(keys[i].context, *keys[i].key));
    wrapped.push_back(std::move(bytes));
  }
  return wrapped;
}

absl::StatusOr<std::vector<SecretBytes>> FileKms::Unwrap(uint32_t epoch,
                                                         std::span<const KeyToUnwrap> keys) {
  LETHE_ASSIGN_OR_RETURN(SealingKey * kek, Find(epoch));
  std::vector<SecretBytes> unwrapped;
  unwrapped.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    absl::StatusOr<SecretBytes> key =
        keys[i].wrapped.size() == kWrappedKeyBytes
            ? kek->OpenSecret(keys[i].context, keys[i].wrapped)
            : absl::DataLossError(absl::StrCat("must have ", kWrappedKeyBytes, " bytes"));
    if (!key.ok()) {
      return absl::Status(key.status().code(),
                          absl::StrCat("keys[", i, "]: ", key.status().message()));
    }
    unwrapped.push_back(*std::move(key));
  }
  return unwrapped;
}

absl::StatusOr<uint32_t> FileKms::Rotate() {
  LETHE_ASSIGN_OR_RETURN(const uint32_t current, CurrentEpoch());
  if (current == std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat("KEK: ", path_, " has no epoch left"));
  }
  if (keys_.size() >= kMaxEpochs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KEK: ", path_, " holds ", keys_.size(),
                     " keys; finish a rotation, which destroys the old ones, first"));
  }
  LETHE_RETURN_IF_ERROR(CreateEpoch(current + 1));
  return current + 1;
}

absl::Status FileKms::Destroy(uint32_t epoch) {
  LETHE_ASSIGN_OR_RETURN(const uint32_t current, CurrentEpoch());
  if (epoch == 0 || epoch > current) return NoSuchEpoch(epoch, path_);
  if (epoch == current) {
    return absl::FailedPreconditionError(
        absl::StrCat("KEK: epoch ", epoch, " is the current one; rotate first"));
  }
  LETHE_RETURN_IF_ERROR(ProveCurrent(current));
  LETHE_RETURN_IF_ERROR(EraseEpoch(epoch));
  keys_.erase(epoch);
  return absl::OkStatus();
}

absl::Status FileKms::ProveCurrent(uint32_t current) {
  LETHE_ASSIGN_OR_RETURN(SecretBytes on_disk, ReadKey(current));
  const SecretBytes probe = SecretBytes::Random(kDataKeyBytes);
  LETHE_ASSIGN_OR_RETURN(const std::string sealed, keys_.at(current).SealSecret(path_, probe));
  const absl::StatusOr<SecretBytes> opened =
      SealingKey(std::move(on_disk)).OpenSecret(path_, sealed);
  if (!opened.ok() || !opened->Equals(probe)) {
    return absl::DataLossError(absl::StrCat("KEK: ", path_, "/", FileName(current),
                                            ": is not the key that is in use; nothing was "
                                            "destroyed. Put the file back from its backup"));
  }
  return absl::OkStatus();
}

absl::Status FileKms::DestroyAll() {
  std::vector<uint32_t> epochs;
  for (const auto& [epoch, key] : keys_) epochs.push_back(epoch);
  for (uint32_t epoch : epochs) {
    LETHE_RETURN_IF_ERROR(EraseEpoch(epoch));
    keys_.erase(epoch);
  }
  return absl::OkStatus();
}

}  // namespace lethe::store
