// The files of a FileKms: their names, bytes and permissions, and how one goes. Internal to the
// vault; file_kms.h describes the folder.
//
// File, 64 bytes, integers little-endian:
//    0   8  "LETHEKEK"
//    8   4  version = 1
//   12   4  epoch
//   16  32  key
//   48  16  SHA-256("lethe-kek-file" 00 01 || bytes 0 to 47), first 16 bytes
//
// Errors: those of file_kms.h. Threads: compatible, not safe.
#ifndef LETHE_STORE_VAULT_KEK_FOLDER_H_
#define LETHE_STORE_VAULT_KEK_FOLDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

class KekFolder {
 public:
  struct Content {
    std::vector<uint32_t> epochs;  // increasing
    uint32_t ended = 0;  // not 0: the last epoch of a folder whose keys were all destroyed
  };

  // Makes the folder when it is not there, durably.
  static absl::StatusOr<KekFolder> Make(const std::string& path);
  static absl::StatusOr<KekFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }

  // First finishes what a crash left, all of it, whatever else is wrong with the folder.
  absl::StatusOr<Content> Recover() const;

  // The key in the file, checked.
  absl::StatusOr<SecretBytes> Read(uint32_t epoch) const;
  // A new file, complete and synced under its name, or none.
  absl::Status Write(uint32_t epoch, const SecretBytes& key) const;
  // Renames, overwrites, reads back, unlinks, syncs; OK when there is no such file.
  absl::Status Erase(uint32_t epoch) const;
  // Does so with the last key of the folder, but for unlinking: zeros under ".end-*" stay, and
  // nothing is ever made in this folder again.
  absl::Status EraseLast(uint32_t epoch) const;

  // Ends the folder if it is not ended, and removes it. Returns the last epoch, 0 for a folder that
  // is gone. A strange file in it stays, and so does the folder (FAILED_PRECONDITION).
  static absl::StatusOr<uint32_t> Remove(const std::string& path);

 private:
  KekFolder(std::string path, FileDescriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string PathOf(absl::string_view name) const;
  absl::StatusOr<std::vector<std::string>> Names() const;
  absl::Status SyncNames() const;
  // Gives the file another name, durably; OK when there is no such file.
  absl::Status Rename(const std::string& from, const std::string& to) const;
  // Overwrites with zeros, syncs and reads back. NOT_FOUND when there is no such file.
  absl::Status Zero(const std::string& name) const;
  // Zero, unlinked and synced; OK when there is no such file.
  absl::Status ZeroAndUnlink(const std::string& name) const;

  std::string path_;
  FileDescriptor folder_;  // every name is looked up in it
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_KEK_FOLDER_H_
