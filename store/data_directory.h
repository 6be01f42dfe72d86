// The data folder of a server:
//
//   <data>/lethe.lock                      held with flock while a server runs
//   <data>/keys/                           private keys, mode 0700; their files are the caller's
//   <data>/tenants/<name>/tenant.db        a live tenant
//   <data>/closed/<name>-<uid>/tenant.db   a closed tenant: its log of certificates, nothing else
//   <data>/temporary/                      files that last no longer than a call, named by numbers;
//                                          Open removes what a crash left
//   <vault>/<uid>/                         the keys of the live tenant with this uid; <vault> is
//                                          <data>/vault unless another is given
//
// A tenant folder appears, is replaced and disappears by rename, after an fsync: after a crash it
// is there whole or it is not there. A crash between TenantStore::BeginClose and
// DataDirectory::CloseTenant leaves a tenant in tenants/ whose state is closing or closed; the
// server goes on from there at start.
//
// The keys of a tenant are made, durable, before its folder appears, and removed before its folder
// moves to closed/. A crash in CreateTenant can therefore leave a vault of no tenant. It is never
// removed here, since a tenant that cannot be read just now would lose its keys for good; it is
// listed.
//
// Ensures: folders are made with mode 0700. Open sets the umask of the process to 0077.
// Errors: UNAVAILABLE when another server holds the folder; FAILED_PRECONDITION for a folder that
// cannot be made or written; ALREADY_EXISTS / NOT_FOUND for tenants; INVALID_ARGUMENT for a name
// with
// '/', a leading '.', a control character, or of the wrong length.
// Threads: NewTemporaryPath is safe; otherwise compatible, not safe.
#ifndef LETHE_STORE_DATA_DIRECTORY_H_
#define LETHE_STORE_DATA_DIRECTORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::store {

class DataDirectory {
 public:
  // Makes the layout where it is missing, takes the lock, and removes what a crash left half-made.
  // `vault`: empty for <path>/vault; otherwise its parent exists. It is made with the data folder,
  // and not where there are tenants: an empty one has not their keys (FAILED_PRECONDITION). One
  // that is there already must belong to this user alone and be no folder of the data
  // (FAILED_PRECONDITION).
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Open(const std::string& path,
                                                             const std::string& vault = "");
  // Gives the lock back.
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string keys_path() const;
  const std::string& vault_path() const { return vault_; }
  // Where the tenant's store lives or would live; requires a valid name.
  std::string tenant_path(absl::string_view name) const;

  // Names of the folders in tenants/, sorted.
  absl::StatusOr<std::vector<std::string>> ListTenants() const;
  // Paths of the folders in closed/, sorted.
  absl::StatusOr<std::vector<std::string>> ListClosed() const;

  // Paths of the vaults whose uid is not among those of the live tenants, sorted. A tenant whose
  // uid cannot be read counts as none, so what is listed here is for a person to judge.
  absl::StatusOr<std::vector<std::string>> ListOrphanVaults(
      std::span<const std::string> live_uids) const;

  // Calls `build` with an empty folder, in which it makes the tenant's files and closes them; what
  // it makes in the vault must be durable when it returns (CreateTenantStore sees to both). Then
  // moves the folder to tenant_path(name). When `build` fails, nothing remains of the folder.
  absl::Status CreateTenant(absl::string_view name,
                            absl::FunctionRef<absl::Status(const std::string& dir)> build);
  // As CreateTenant, but a folder that is there under this name is replaced by the new one, in one
  // step, and removed. Its store must be closed (destroyed), once `build` has returned at the
  // latest.
  absl::Status ReplaceTenant(absl::string_view name,
                             absl::FunctionRef<absl::Status(const std::string& dir)> build);
  // A path in temporary/ that was not given out before; nothing is there. What the caller makes
  // there is the caller's to remove; a crash leaves it to the next Open.
  std::string NewTemporaryPath();
  // Moves a tenant, whose store must be closed (destroyed), to closed/<name>-<uid>. Returns the new
  // path. ALREADY_EXISTS when that is taken.
  absl::StatusOr<std::string> CloseTenant(absl::string_view name, absl::string_view uid);

 private:
  DataDirectory(std::string path, std::string vault, int lock_fd)
      : path_(std::move(path)), vault_(std::move(vault)), lock_fd_(lock_fd) {}
  absl::Status Build(absl::string_view name,
                     absl::FunctionRef<absl::Status(const std::string& dir)> build,
                     absl::FunctionRef<absl::Status(const std::string& draft)> put);
  absl::Status MakeVault() const;

  std::string path_;
  std::string vault_;
  int lock_fd_;
  std::atomic<uint64_t> temporary_paths_{0};  // given out
};

}  // namespace lethe::store

#endif  // LETHE_STORE_DATA_DIRECTORY_H_
