#include "client/cli/backup_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/small_file.h"
#include "client/types.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;

absl::StatusOr<FileDescriptor> NewFile(const std::string& path) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return SystemError(errno, "make it", path);
  return file;
}

absl::Status Differs(absl::string_view folder, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(folder, ": ", what));
}

// Whether size and hash of what is there are the manifest's.
absl::Status CheckFile(absl::string_view folder,
                       const audit::BackupManifest& manifest,
                       uint64_t bytes,
                       const audit::Digest& sha256) {
  if (bytes != manifest.file_bytes) {
    return Differs(folder, absl::StrCat("file-bytes: ", kBackupFile, " has ", bytes,
                                        " bytes, the manifest says ", manifest.file_bytes));
  }
  if (sha256 != manifest.file_sha256) {
    return Differs(folder,
                   absl::StrCat("file-sha256: ", kBackupFile, " is not the file of the manifest"));
  }
  return absl::OkStatus();
}

}  // namespace

BackupWriter::BackupWriter(std::string parent, std::string tenant, bool made_parent)
    : parent_(std::move(parent)), tenant_(std::move(tenant)), made_parent_(made_parent) {}

BackupWriter::~BackupWriter() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove_all(part_, ignored);
  // Only when nothing else came there.
  if (made_parent_) ::rmdir(parent_.c_str());
}

absl::StatusOr<std::unique_ptr<BackupWriter>> BackupWriter::Create(const std::string& parent,
                                                                   const std::string& tenant) {
  const bool made = ::mkdir(parent.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return SystemError(errno, "make it", parent);
  std::unique_ptr<BackupWriter> writer(new BackupWriter(parent, tenant, made));
  if (!IsNewOrEmptyFolder(writer->target())) {
    return absl::AlreadyExistsError(
        absl::StrCat(writer->target(), ": exists and is not an empty folder"));
  }
  const std::string part = absl::StrCat(parent, "/.", tenant, ".part-", client::NewRequestId());
  if (::mkdir(part.c_str(), 0700) != 0) return SystemError(errno, "make it", part);
  writer->part_ = part;
  LETHE_ASSIGN_OR_RETURN(writer->file_, NewFile(absl::StrCat(part, "/", kBackupFile)));
  return writer;
}

absl::Status BackupWriter::Write(absl::string_view bytes) {
  LETHE_RETURN_IF_ERROR(WriteNext(file_.get(), bytes, part_));
  hasher_.Update(bytes);
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::StatusOr<audit::BackupManifest> BackupWriter::Finish(absl::string_view note) {
  LETHE_ASSIGN_OR_RETURN(audit::BackupManifest manifest, audit::ReadBackupManifest(note));
  if (manifest.tenant != tenant_) return Differs(tenant_, "tenant: the manifest names another one");
  LETHE_RETURN_IF_ERROR(CheckFile(tenant_, manifest, bytes_, hasher_.Finish()));
  LETHE_RETURN_IF_ERROR(Sync(file_.get(), part_));
  if (!file_.Close()) return SystemError(errno, "write it", part_);
  LETHE_ASSIGN_OR_RETURN(const FileDescriptor file,
                         NewFile(absl::StrCat(part_, "/", kBackupManifest)));
  LETHE_RETURN_IF_ERROR(WriteNext(file.get(), note, part_));
  LETHE_RETURN_IF_ERROR(Sync(file.get(), part_));
  LETHE_RETURN_IF_ERROR(SyncFolder(part_));
  // A folder takes the place of an empty one, and of nothing else.
  if (std::rename(part_.c_str(), target().c_str()) != 0) {
    return SystemError(errno, "give it its name", target());
  }
  part_.clear();
  LETHE_RETURN_IF_ERROR(SyncFolder(parent_));
  if (std::exchange(made_parent_, false)) LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(parent_)));
  return manifest;
}

absl::StatusOr<std::vector<std::string>> FindBackups(const std::string& path) {
  std::error_code error;
  const auto holds_one = [&error](const std::string& folder) {
    return fs::exists(absl::StrCat(folder, "/", kBackupManifest), error);
  };
  if (holds_one(path)) return std::vector<std::string>{path};
  std::vector<std::string> found;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    // Names with a dot are of backups that were not finished.
    if (it->path().filename().string().front() != '.' && holds_one(it->path().string())) {
      found.push_back(it->path().string());
    }
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": holds no backup: a folder with ", kBackupFile,
                                            " and ", kBackupManifest, ", or several of them"));
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::StatusOr<FoundBackup> ReadBackup(
    const std::string& folder,
    const std::function<void(uint64_t bytes, uint64_t of)>& progress) {
  FoundBackup found;
  LETHE_ASSIGN_OR_RETURN(found.note, ReadSmallFile(absl::StrCat(folder, "/", kBackupManifest)));
  absl::StatusOr<audit::BackupManifest> manifest = audit::ReadBackupManifest(found.note);
  if (!manifest.ok()) return Prefixed(manifest.status(), folder);
  found.manifest = *std::move(manifest);
  const std::string path = absl::StrCat(folder, "/", kBackupFile);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return absl::NotFoundError(SystemError(errno, "read it", path).message());
  }
  // Its size first: a file of another size is not read.
  audit::Sha256Hasher hasher;
  uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (bytes == found.manifest.file_bytes) {
    std::string buffer(kReadBytes, '\0');
    for (bytes = 0;;) {
      LETHE_ASSIGN_OR_RETURN(const size_t count,
                             ReadNext(file.get(), buffer.data(), buffer.size(), path));
      if (count == 0) break;
      hasher.Update(absl::string_view(buffer).substr(0, count));
      bytes += count;
      progress(bytes, found.manifest.file_bytes);
    }
  }
  LETHE_RETURN_IF_ERROR(CheckFile(folder, found.manifest, bytes, hasher.Finish()));
  return found;
}

absl::Status CheckSigned(const FoundBackup& backup, std::span<const audit::VerificationKey> keys) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("signature: no key was given for the log ", backup.manifest.origin));
  for (const audit::VerificationKey& key : keys) {
    if (key.name() != backup.manifest.origin) continue;
    status = audit::VerifyBackupManifest(backup.note, key).status();
    if (status.ok()) return status;
  }
  return status;
}

}  // namespace lethe::cli
