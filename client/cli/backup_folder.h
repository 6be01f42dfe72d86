// A backup on this machine: a folder with `tenant.db` and `manifest`.
//
// Errors: a message names the check or the file. Threads: compatible.
#ifndef LETHE_CLIENT_CLI_BACKUP_FOLDER_H_
#define LETHE_CLIENT_CLI_BACKUP_FOLDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/backup_manifest.h"
#include "audit/hash.h"
#include "audit/signer.h"
#include "core/base/files.h"

namespace lethe::cli {

inline constexpr char kBackupFile[] = "tenant.db";
inline constexpr char kBackupManifest[] = "manifest";

// Writes `<parent>/<tenant>`, which must be new or empty, under another name until all of it is
// there and on the disk. Folders have mode 0700, files 0600. What is not finished goes away again.
class BackupWriter {
 public:
  // `parent` is made when it is missing; its own parent is not. Requires a name of [a-z0-9-].
  static absl::StatusOr<std::unique_ptr<BackupWriter>> Create(const std::string& parent,
                                                              const std::string& tenant);
  BackupWriter(const BackupWriter&) = delete;
  BackupWriter& operator=(const BackupWriter&) = delete;
  ~BackupWriter();

  absl::Status Write(absl::string_view bytes);
  // FAILED_PRECONDITION when what was written is not what the manifest says.
  absl::StatusOr<audit::BackupManifest> Finish(absl::string_view note);

 private:
  BackupWriter(std::string parent, std::string tenant, bool made_parent);
  std::string target() const { return parent_ + "/" + tenant_; }

  const std::string parent_;
  const std::string tenant_;
  std::string part_;  // the folder's name until Finish; empty afterwards
  bool made_parent_;
  FileDescriptor file_;
  audit::Sha256Hasher hasher_;
  uint64_t bytes_ = 0;
};

// The backups in a folder: itself, when it has a manifest, or else those in it, in the order of
// names. NOT_FOUND when there is none.
absl::StatusOr<std::vector<std::string>> FindBackups(const std::string& path);

struct FoundBackup {
  std::string note;
  audit::BackupManifest manifest;  // as the note says; its signature is not checked
};
// Reads the manifest and compares size and SHA-256 of the file with it. `progress` is told how many
// bytes of how many have been read. NOT_FOUND for what cannot be read; INVALID_ARGUMENT for a
// malformed manifest; FAILED_PRECONDITION ("file-bytes: ...", "file-sha256: ...") for another file.
absl::StatusOr<FoundBackup> ReadBackup(
    const std::string& folder,
    const std::function<void(uint64_t bytes, uint64_t of)>& progress);
// That one of the keys, which must have the name of the manifest's log, signed it.
// FAILED_PRECONDITION says which check failed.
absl::Status CheckSigned(const FoundBackup& backup, std::span<const audit::VerificationKey> keys);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_BACKUP_FOLDER_H_
