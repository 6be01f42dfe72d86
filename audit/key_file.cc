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
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "audit/random.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

// An Ed25519 key in PEM has about 120 bytes.
constexpr size_t kMaxFileBytes = 4096;

absl::Status Failed(absl::string_view doing, const std::string& path) {
  return Prefixed(SystemError(errno, doing, path), "key file");
}

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
  if (!file.valid()) return Failed("create it", path);
  const UnlinkAtExit remove_draft(draft);
  LETHE_RETURN_IF_ERROR(
      WriteAll(file.get(), absl::string_view(text, static_cast<size_t>(size)), path));
  // The process's umask must not decide about a key.
  if (::fchmod(file.get(), S_IRUSR) != 0) return Failed("set its mode", path);
  LETHE_RETURN_IF_ERROR(Sync(file.get(), path));
  if (!file.Close()) return Failed("close it", path);
  if (::link(draft.c_str(), path.c_str()) != 0) return Failed("create it", path);
  // Before the sync, so that no second name of the key can come back after a crash.
  ::unlink(draft.c_str());
  if (const absl::Status synced = SyncFolder(FolderOf(path)); !synced.ok()) {
    ::unlink(path.c_str());
    return synced;
  }
  return absl::OkStatus();
}

absl::StatusOr<PrivateKey> ReadKeyFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return Failed("open it", path);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return Failed("look at it", path);
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("key file: no regular file: ", path));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("key file: open to group or others, chmod 0400 it: ", path));
  }
  std::array<uint8_t, kMaxFileBytes> buffer;
  const absl::StatusOr<size_t> size = ReadUpTo(file.get(), buffer.data(), buffer.size(), path);
  const BioPtr pem(BIO_new_mem_buf(buffer.data(), static_cast<int>(size.value_or(0))));
  PrivateKey key(pem == nullptr ? nullptr
                                : PEM_read_bio_PrivateKey(pem.get(), nullptr, NoPassword, nullptr));
  OPENSSL_cleanse(buffer.data(), buffer.size());
  LETHE_RETURN_IF_ERROR(size.status());
  if (key == nullptr || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return absl::InvalidArgumentError(
        absl::StrCat("key file: no unencrypted Ed25519 private key in PEM: ", path));
  }
  return key;
}

}  // namespace lethe::audit
