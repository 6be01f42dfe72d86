#include "store/data_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/folders.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kLockFile = "lethe.lock";
// A leading dot is no tenant's name, so a folder that a crash left half-made is never served.
constexpr absl::string_view kBuildPrefix = ".new-";
constexpr absl::string_view kFolderAdvice =
    "; it must be a folder that this user can read and write, or can make";

absl::Status SystemError(absl::string_view doing, const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", doing, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EIO) return absl::InternalError(message);
  return absl::FailedPreconditionError(absl::StrCat(message, kFolderAdvice));
}

// With the words for what a person gives as a folder.
absl::Status MakeGivenFolder(const std::string& path) {
  absl::Status status = MakeFolder(path);
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  return absl::FailedPreconditionError(absl::StrCat(status.message(), kFolderAdvice));
}

absl::Status SyncFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.valid() ? Sync(file.get(), path) : SystemError("opening", path, errno);
}

absl::Status SyncTree(const std::string& path) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_directory(error)) {
      LETHE_RETURN_IF_ERROR(SyncFolder(it->path().string()));
    } else {
      LETHE_RETURN_IF_ERROR(SyncFile(it->path().string()));
    }
  }
  if (error) return SystemError("listing", path, error.value());
  return SyncFolder(path);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  // RENAME_NOREPLACE: rename() would silently replace an empty folder.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  if (errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat(to, " exists"));
  if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(from, " does not exist"));
  return SystemError("moving it", from, errno);
}

// The two change places.
absl::Status Exchange(const std::string& one, const std::string& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  return SystemError("putting it in its place", one, errno);
}

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  LETHE_RETURN_IF_ERROR(CheckLength(field, name, 1, kMaxNameBytes));
  const bool good = name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
                      return c != '/' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must not start with '.' nor hold '/' or control characters"));
}

absl::StatusOr<std::vector<std::string>> ListFolders(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] != '.' && it->is_directory(error)) names.push_back(name);
  }
  if (error) return SystemError("listing", path, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

// What a crash left: the files and folders of these names, and no others, since a person may have
// put something there.
absl::Status RemoveLeft(const std::string& folder,
                        absl::FunctionRef<bool(absl::string_view name)> left) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (left(it->path().filename().string())) paths.push_back(it->path());
  }
  for (const fs::path& path : paths) {
    if (!error) fs::remove_all(path, error);
  }
  return error ? SystemError("removing what a crash left", folder, error.value())
               : absl::OkStatus();
}

absl::Status RemoveHalfMade(const std::string& tenants) {
  return RemoveLeft(tenants, [](absl::string_view name) {
    return name.substr(0, kBuildPrefix.size()) == kBuildPrefix;
  });
}

absl::Status RemoveTemporary(const std::string& temporary) {
  return RemoveLeft(temporary, [](absl::string_view name) {
    return name.find_first_not_of("0123456789") == absl::string_view::npos;
  });
}

// The number that the holder wrote, for people; the lock itself is flock's.
std::string ReadHolder(int fd) {
  char text[32];
  const ssize_t size = ::pread(fd, text, sizeof text, 0);
  std::string digits;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) digits.push_back(text[i]);
  return digits.empty() ? "another process" : absl::StrCat("process ", digits);
}

absl::StatusOr<int> Lock(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kLockFile);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SystemError("opening the lock", path, errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    absl::Status status =
        error == EWOULDBLOCK
            ? absl::UnavailableError(absl::StrCat(folder, ": ", ReadHolder(fd),
                                                  " uses this data folder; stop it, or give this",
                                                  " server a folder of its own"))
            : SystemError("locking", path, error);
    ::close(fd);
    return status;
  }
  const std::string holder = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
    absl::Status status = SystemError("writing the lock", path, errno);
    ::close(fd);
    return status;
  }
  return fd;
}

// A vault that the operator names may be any folder: it is looked at, and its mode is not changed.
// Returns where it really is.
absl::StatusOr<std::string> CheckVault(const std::string& data, const std::string& vault) {
  struct stat info {};
  if (::stat(vault.c_str(), &info) != 0) return SystemError("looking at it", vault, errno);
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        vault,
        ": a vault must belong to the user of the server and to no one else; give another"
        " folder, or set its mode to 0700"));
  }
  std::error_code error;
  const fs::path in = fs::canonical(vault, error);
  const fs::path root = error ? fs::path() : fs::canonical(data, error);
  if (error) return SystemError("looking at it", vault, error.value());
  bool inside = in == root;
  for (const char* part : {"keys", "tenants", "closed", "jobs", "temporary"}) {
    const fs::path taken = root / part;
    inside |= std::mismatch(taken.begin(), taken.end(), in.begin(), in.end()).first == taken.end();
  }
  if (!inside) return in.string();
  return absl::FailedPreconditionError(
      absl::StrCat(vault, ": is a folder of the data; the vault needs one of its own"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(const std::string& path,
                                                                   const std::string& vault) {
  if (path.empty()) return absl::InvalidArgumentError("data folder: the path is empty");
  ::umask(0077);
  LETHE_RETURN_IF_ERROR(MakeGivenFolder(path));
  LETHE_ASSIGN_OR_RETURN(const int lock_fd, Lock(path));
  std::unique_ptr<DataDirectory> directory(
      new DataDirectory(path, vault.empty() ? absl::StrCat(path, "/vault") : vault, lock_fd));
  for (absl::string_view part : {"keys", "tenants", "closed", "temporary"}) {
    LETHE_RETURN_IF_ERROR(MakeGivenFolder(absl::StrCat(path, "/", part)));
  }
  LETHE_RETURN_IF_ERROR(directory->MakeVault());
  std::vector<std::string> own = {directory->keys_path()};
  if (vault.empty()) own.push_back(directory->vault_path());
  for (const std::string& secret : own) {
    if (::chmod(secret.c_str(), 0700) != 0) return SystemError("setting its mode", secret, errno);
  }
  // A link may lead to it; what lies below must be folders.
  LETHE_ASSIGN_OR_RETURN(directory->vault_, CheckVault(path, directory->vault_path()));
  LETHE_RETURN_IF_ERROR(RemoveHalfMade(absl::StrCat(path, "/tenants")));
  LETHE_RETURN_IF_ERROR(RemoveTemporary(absl::StrCat(path, "/temporary")));
  LETHE_RETURN_IF_ERROR(SyncFolder(path));
  LETHE_RETURN_IF_ERROR(SyncFolder(absl::StrCat(directory->vault_path(), "/..")));
  return directory;
}

absl::Status DataDirectory::MakeVault() const {
  struct stat info {};
  if (::stat(vault_.c_str(), &info) != 0 && errno == ENOENT) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> tenants, ListTenants());
    if (!tenants.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          vault_, ": is not there, but holds the keys of the tenants in ", path_,
          "; give the server their vault (--vault), or put this folder back from its copy"));
    }
  }
  return MakeGivenFolder(vault_);
}

DataDirectory::~DataDirectory() { ::close(lock_fd_); }

std::string DataDirectory::keys_path() const { return absl::StrCat(path_, "/keys"); }

std::string DataDirectory::tenant_path(absl::string_view name) const {
  LETHE_CHECK(CheckName("tenant", name).ok());
  return absl::StrCat(path_, "/tenants/", name);
}

absl::StatusOr<std::vector<std::string>> DataDirectory::ListTenants() const {
  return ListFolders(absl::StrCat(path_, "/tenants"));
}

absl::StatusOr<std::vector<std::string>> DataDirectory::ListClosed() const {
  const std::string closed = absl::StrCat(path_, "/closed");
  LETHE_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFolders(closed));
  for (std::string& name : names) name = absl::StrCat(closed, "/", name);
  return names;
}

absl::StatusOr<std::vector<std::string>> DataDirectory::ListOrphanVaults(
    std::span<const std::string> live_uids) const {
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolders(vault_));
  std::vector<std::string> orphans;
  for (const std::string& name : names) {
    const bool vault = CheckHex("uid", name, 32).ok();
    if (vault && std::find(live_uids.begin(), live_uids.end(), name) == live_uids.end()) {
      orphans.push_back(absl::StrCat(vault_, "/", name));
    }
  }
  return orphans;
}

absl::Status DataDirectory::CreateTenant(
    absl::string_view name,
    absl::FunctionRef<absl::Status(const std::string& dir)> build) {
  LETHE_RETURN_IF_ERROR(CheckName("tenant", name));
  const std::string target = tenant_path(name);
  if (::access(target.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError("tenant: a tenant with this name exists");
  }
  return Build(name, build, [&](const std::string& draft) { return Rename(draft, target); });
}

absl::Status DataDirectory::ReplaceTenant(
    absl::string_view name,
    absl::FunctionRef<absl::Status(const std::string& dir)> build) {
  LETHE_RETURN_IF_ERROR(CheckName("tenant", name));
  const std::string target = tenant_path(name);
  std::string replaced;
  const auto put = [&](const std::string& draft) {
    if (::access(target.c_str(), F_OK) != 0) return Rename(draft, target);
    replaced = draft;
    return Exchange(draft, target);
  };
  LETHE_RETURN_IF_ERROR(Build(name, build, put));
  std::error_code ignored;  // the next Open removes what stays
  if (!replaced.empty()) fs::remove_all(replaced, ignored);
  return absl::OkStatus();
}

absl::Status DataDirectory::Build(absl::string_view name,
                                  absl::FunctionRef<absl::Status(const std::string& dir)> build,
                                  absl::FunctionRef<absl::Status(const std::string& draft)> put) {
  const std::string draft = absl::StrCat(path_, "/tenants/", kBuildPrefix, name);
  LETHE_RETURN_IF_ERROR(RemoveHalfMade(absl::StrCat(path_, "/tenants")));
  if (::mkdir(draft.c_str(), 0700) != 0) return SystemError("making the folder", draft, errno);
  absl::Status status = build(draft);
  if (status.ok()) status = SyncTree(draft);
  if (status.ok()) status = put(draft);
  if (!status.ok()) {
    std::error_code ignored;  // the next Open removes what stays
    fs::remove_all(draft, ignored);
    return status;
  }
  return SyncFolder(absl::StrCat(path_, "/tenants"));
}

std::string DataDirectory::NewTemporaryPath() {
  return absl::StrCat(path_, "/temporary/", ++temporary_paths_);
}

absl::StatusOr<std::string> DataDirectory::CloseTenant(absl::string_view name,
                                                       absl::string_view uid) {
  LETHE_RETURN_IF_ERROR(CheckName("tenant", name));
  LETHE_RETURN_IF_ERROR(CheckHex("uid", uid, 32));
  const std::string target = absl::StrCat(path_, "/closed/", name, "-", uid);
  LETHE_RETURN_IF_ERROR(Rename(tenant_path(name), target));
  LETHE_RETURN_IF_ERROR(SyncFolder(absl::StrCat(path_, "/closed")));
  LETHE_RETURN_IF_ERROR(SyncFolder(absl::StrCat(path_, "/tenants")));
  return target;
}

}  // namespace lethe::store
