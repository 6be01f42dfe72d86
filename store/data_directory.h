// The data folder of a server:
//
//   <data>/lethe.lock                      held with flock while a server runs
//   <data>/keys/                           private keys, mode 0700; their files are the caller's
//   <data>/tenants/<name>/tenant.db        a live tenant
//   <data>/closed/<name>-<uid>/tenant.db   a closed tenant: its log of certificates, nothing else
//
// A tenant folder appears and disappears by rename, after an fsync: after a crash it is there whole
// or it is not there. A crash between TenantStore::CloseTenant and DataDirectory::CloseTenant
// leaves a tenant in tenants/ whose state is closed; the server finishes the move at start.
//
// Ensures: folders are made with mode 0700. Open sets the umask of the process to 0077.
// Errors: UNAVAILABLE when another server holds the folder; FAILED_PRECONDITION for a folder that
// cannot be made or written; ALREADY_EXISTS / NOT_FOUND for tenants; INVALID_ARGUMENT for a name
// with
// '/', a leading '.', a control character, or of the wrong length.
// Threads: compatible, not safe.
#ifndef LETHE_STORE_DATA_DIRECTORY_H_
#define LETHE_STORE_DATA_DIRECTORY_H_

#include <memory>
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
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Open(const std::string& path);
  // Gives the lock back.
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string keys_path() const;
  // Where the tenant's store lives or would live; requires a valid name.
  std::string tenant_path(absl::string_view name) const;

  // Names of the folders in tenants/, sorted.
  absl::StatusOr<std::vector<std::string>> ListTenants() const;
  // Paths of the folders in closed/, sorted.
  absl::StatusOr<std::vector<std::string>> ListClosed() const;

  // Calls `build` with an empty folder, in which it makes the tenant's files and closes them; then
  // moves the folder to tenant_path(name). When `build` fails, nothing remains.
  absl::Status CreateTenant(absl::string_view name,
                            absl::FunctionRef<absl::Status(const std::string& dir)> build);
  // Moves a tenant, whose store must be closed (destroyed), to closed/<name>-<uid>. Returns the new
  // path. ALREADY_EXISTS when that is taken.
  absl::StatusOr<std::string> CloseTenant(absl::string_view name, absl::string_view uid);

 private:
  DataDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  std::string path_;
  int lock_fd_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_DATA_DIRECTORY_H_
