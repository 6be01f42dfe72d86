// The end of a key store.
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/vault/key_store.h"
#include "store/vault/zero_file.h"

namespace lethe::store {
namespace {

// Counts the slots, and moves the log into the file. Leaves the numbers at 0 for a file that cannot
// be read: it is overwritten all the same.
absl::Status Count(const std::string& path, RemovalResult& result) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : SystemError(errno, "inspect it", path);
  }
  if (info.st_size == 0) return absl::OkStatus();  // SQLite would take it for a new database
  const absl::Status status = [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db,
                           Database::Open(path, Database::Mode::kOpen, kKeyStoreIdentity));
    LETHE_ASSIGN_OR_RETURN(const int64_t all, db->QueryInt("SELECT count(*) FROM slots"));
    LETHE_ASSIGN_OR_RETURN(const int64_t live,
                           db->QueryInt("SELECT count(*) FROM slots WHERE body <> zeroblob(96)"));
    result.destroyed = static_cast<uint64_t>(live);
    result.already_destroyed = static_cast<uint64_t>(all - live);
    result.counted = true;
    return absl::OkStatus();
  }();
  // Somebody has it open, or it is not ours.
  if (absl::IsUnavailable(status) || absl::IsFailedPrecondition(status)) return status;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RemovalResult> KeyStore::Remove(const std::string& path) {
  RemovalResult result;
  struct stat info = {};
  if (::stat(FolderOf(path).c_str(), &info) != 0) {
    if (errno == ENOENT) return result;
    return SystemError(errno, "inspect its folder", path);
  }
  LETHE_RETURN_IF_ERROR(Count(path, result));
  // The log before its file: alone it would be taken for that of the next file of this name.
  for (const absl::string_view name : {"", ".new"}) {
    for (const absl::string_view suffix : {"-wal", "-journal", "-shm", ""}) {
      LETHE_ASSIGN_OR_RETURN(const uint64_t bytes, ZeroAndUnlink(absl::StrCat(path, name, suffix)));
      result.bytes_overwritten += bytes;
    }
  }
  return result;
}

}  // namespace lethe::store
