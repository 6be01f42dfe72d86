#include "store/vault/vault_folder.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/vault/file_kms.h"

namespace lethe::store {

std::string KeysFileOf(const std::string& folder) { return absl::StrCat(folder, "/keys.db"); }
std::string KekFolderOf(const std::string& folder) { return absl::StrCat(folder, "/kek"); }

absl::StatusOr<KeysEnded> DestroyAllKeys(const std::string& folder) {
  KeysEnded ended;
  const absl::StatusOr<uint32_t> last_epoch = FileKms::Remove(KekFolderOf(folder));
  const absl::StatusOr<RemovalResult> keys = KeyStore::Remove(KeysFileOf(folder));
  if (!last_epoch.ok()) return last_epoch.status();
  if (!keys.ok()) return keys.status();
  ended.last_epoch = *last_epoch;
  ended.keys = *keys;
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) {
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return absl::FailedPreconditionError(
          absl::StrCat(folder, ": holds files that are not ours; take them out"));
    }
    return SystemError(errno, "remove the folder", folder);
  }
  // Also when it was gone: an earlier call may have failed to sync.
  const absl::Status synced = SyncFolder(FolderOf(folder));
  if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
  return ended;
}

}  // namespace lethe::store
