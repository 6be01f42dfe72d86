#include "audit/key_file.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "audit/random.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

// An Ed25519 key in PEM has about 120 bytes.
constexpr size_t kMaxFileBytes = 4096;

absl::Status SystemError(absl::string_view action, const std::string& path) {
  const int number = errno;
  const std::string message = absl::StrCat("key file: cannot ", action, " ", path, ": ",
                                           std::generic_category().message(number));
  if (number == EEXIST) return absl::AlreadyExistsError(message);
  if (number == ENOENT) return absl::NotFoundError(message);
  if (number == ELOOP) return absl::FailedPreconditionError(message);
  if (number == EACCES || number == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }
  bool Close() {
    if (!valid()) return true;
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    return closed == 0;
  }

 private:
  int descriptor_;
};

class UnlinkAtExit {
 public:
  explicit UnlinkAtExit(std::string path) : path_(std::move(path)) {}
  ~UnlinkAtExit() { ::unlink(path_.c_str()); }
  UnlinkAtExit(const UnlinkAtExit&) = delete;
  UnlinkAtExit& operator=(const UnlinkAtExit&) = delete;

 private:
  std::string path_;
};

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

absl::Status WriteAll(int descriptor, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.valid()) return SystemError("open", folder);
  if (::fsync(descriptor.get()) != 0) return SystemError("sync", folder);
  return absl::OkStatus();
}

// An encrypted key must fail instead of asking at a terminal.
int NoPassword(char*, int, int, void*) { return -1; }

}  // namespace

void FreePrivateKey::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

absl::Status WriteKeyFile(evp_pkey_st& key, const std::string& path) {
  // OpenSSL wipes the buffer of a memory BIO when it frees it.
  const BioPtr pem(BIO_new(BIO_s_secmem()));
  if (pem == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(pem.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return absl::InternalError("key file: OpenSSL did not encode the key");
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(pem.get(), &text);
  if (size <= 0) return absl::InternalError("key file: OpenSSL encoded an empty key");

  // Written under another name and then linked: link refuses an existing path, as O_EXCL does, and
  // a crash in between never leaves half a key under the real name.
  const std::string draft = absl::StrCat(path, ".", RandomUid(), ".new");
  FileDescriptor file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR));
  if (!file.valid()) return SystemError("create", path);
  const UnlinkAtExit remove_draft(draft);
  LETHE_RETURN_IF_ERROR(
      WriteAll(file.get(), absl::string_view(text, static_cast<size_t>(size)), path));
  // The process's umask must not decide about a key.
  if (::fchmod(file.get(), S_IRUSR) != 0) return SystemError("set the mode of", path);
  if (::fsync(file.get()) != 0) return SystemError("sync", path);
  if (!file.Close()) return SystemError("close", path);
  if (::link(draft.c_str(), path.c_str()) != 0) return SystemError("create", path);
  // Before the sync, so that no second name of the key can come back after a crash.
  ::unlink(draft.c_str());
  if (const absl::Status synced = SyncFolder(path); !synced.ok()) {
    ::unlink(path.c_str());
    return synced;
  }
  return absl::OkStatus();
}

absl::StatusOr<PrivateKey> ReadKeyFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return SystemError("open", path);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return SystemError("inspect", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("key file: no regular file: ", path));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("key file: open to group or others, chmod 0400 it: ", path));
  }
  std::array<char, kMaxFileBytes> buffer;
  size_t size = 0;
  absl::Status read_status;
  while (size < buffer.size()) {
    const ssize_t count = ::read(file.get(), buffer.data() + size, buffer.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) read_status = SystemError("read", path);
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  const BioPtr pem(BIO_new_mem_buf(buffer.data(), static_cast<int>(size)));
  PrivateKey key(pem == nullptr ? nullptr
                                : PEM_read_bio_PrivateKey(pem.get(), nullptr, NoPassword, nullptr));
  OPENSSL_cleanse(buffer.data(), buffer.size());
  LETHE_RETURN_IF_ERROR(read_status);
  if (key == nullptr || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return absl::InvalidArgumentError(
        absl::StrCat("key file: no unencrypted Ed25519 private key in PEM: ", path));
  }
  return key;
}

}  // namespace lethe::audit
