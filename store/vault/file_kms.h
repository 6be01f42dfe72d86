// A KMS whose KEKs are files of one folder, the default.
//
//   <folder>                 mode 0700, owned by the server's user, no symbolic link
//   <folder>/kek-0000000001  one file an epoch: mode 0400 (0600 is taken too), the same owner, a
//                            regular file with one name
//
//   <folder>/.end-kek-*      zeros, in a folder whose keys were all destroyed: no key is ever made
//                            in it again, so that no epoch has two keys
//
// kek_folder.h has the bytes of a file. A file appears under its name complete and synced, or not
// at all. Destroying one renames it to ".old-*", overwrites it with zeros, syncs, reads it back,
// unlinks, syncs the folder; the last one of DestroyAll is renamed to ".end-*" and stays. Open
// finishes what a crash left: it erases ".old-*", ".new-*" of a creation, and ".end-*".
//
// What reading back shows: before it, the kernel is asked to drop its cached pages of the file
// (POSIX_FADV_DONTNEED, which file systems in RAM ignore), so that the zeros come from where the
// file system put them. It does not show that they lie on the same cells of the device as the key
// did: file systems that copy on write, SSDs, snapshots and backups keep blocks that were
// overwritten. Where that matters, the folder belongs on an encrypted or a small, dedicated device,
// or the KEK into another Kms.
//
// The keys are read once, when the folder is opened, and kept in SecretBytes.
//
// Errors, beside those of Kms: ALREADY_EXISTS, NOT_FOUND (no such folder, no KEK in it),
// FAILED_PRECONDITION for modes, owners, links and strange files, with what to do; DATA_LOSS for a
// file of our name whose bytes are not ours; PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full),
// UNAVAILABLE (I/O) from the system. No message holds key material.
// Cost: a few fsyncs for Rotate and Destroy; about a microsecond a key for Wrap and Unwrap.
// Threads: compatible, not safe. One process a folder (the lock of the data folder sees to it).
#ifndef LETHE_STORE_VAULT_FILE_KMS_H_
#define LETHE_STORE_VAULT_FILE_KMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/vault/kek_folder.h"
#include "store/vault/kms.h"
#include "store/vault/sealing.h"

namespace lethe::store {

class FileKms final : public Kms {
 public:
  // Epochs that may exist at once.
  static constexpr size_t kMaxEpochs = 64;

  // Makes the folder, whose parent exists, and epoch 1. ALREADY_EXISTS when the folder holds a KEK;
  // an empty folder of the right mode and owner is taken (what a crash in Create leaves).
  // FAILED_PRECONDITION for one whose keys were all destroyed.
  static absl::StatusOr<std::unique_ptr<FileKms>> Create(const std::string& folder);
  static absl::StatusOr<std::unique_ptr<FileKms>> Open(const std::string& folder);
  // The end of a tenant: destroys every key and removes the folder, whether Open would take it or
  // not. Idempotent, to be repeated after an error; requires that no FileKms has the folder open.
  // Returns the last epoch, 0 when the folder was empty or gone. FAILED_PRECONDITION names a file
  // that is not ours; the keys are destroyed all the same.
  static absl::StatusOr<uint32_t> Remove(const std::string& folder);
  FileKms(const FileKms&) = delete;
  FileKms& operator=(const FileKms&) = delete;

  std::string Location() const override { return folder_.path(); }
  absl::StatusOr<std::vector<uint32_t>> Epochs() override;
  absl::StatusOr<std::vector<std::string>> Wrap(uint32_t epoch,
                                                std::span<const KeyToWrap> keys) override;
  absl::StatusOr<std::vector<SecretBytes>> Unwrap(uint32_t epoch,
                                                  std::span<const KeyToUnwrap> keys) override;
  absl::StatusOr<uint32_t> Rotate() override;
  absl::Status Destroy(uint32_t epoch) override;
  absl::Status DestroyAll() override;

 private:
  explicit FileKms(KekFolder folder) : folder_(std::move(folder)) {}

  // Finishes what a crash left and reads every KEK.
  absl::Status Load();
  absl::Status CreateEpoch(uint32_t epoch);
  // Whether the file of the current epoch still holds the key that is in use.
  absl::Status ProveCurrent(uint32_t current);
  absl::StatusOr<SealingKey*> Find(uint32_t epoch);

  KekFolder folder_;
  std::map<uint32_t, SealingKey> keys_;
  bool ended_ = false;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_FILE_KMS_H_
