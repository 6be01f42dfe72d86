// A KMS whose KEKs are files of one folder, the default.
//
//   <folder>                 mode 0700, owned by the server's user, no symbolic link
//   <folder>/kek-0000000001  one file an epoch: mode 0400 (0600 is taken too), the same owner, a
//                            regular file with one name
//
// File, 64 bytes, integers little-endian:
//    0   8  "LETHEKEK"
//    8   4  version = 1
//   12   4  epoch
//   16  32  key
//   48  16  SHA-256("lethe-kek-file" 00 01 || bytes 0 to 47), first 16 bytes
//
// A file appears under its name complete and synced, or not at all. Destroying one renames it to
// ".old-*", overwrites it with zeros, syncs, reads it back, unlinks, syncs the folder. Open
// finishes what a crash left: it erases ".old-*", and ".new-*" of a creation. File systems and
// disks may keep blocks that were overwritten: where that matters, the folder belongs on an
// encrypted or a small, dedicated device, or the KEK into another Kms.
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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/vault/kms.h"
#include "store/vault/sealing.h"

namespace lethe::store {

class FileKms final : public Kms {
 public:
  // Epochs that may exist at once.
  static constexpr size_t kMaxEpochs = 64;

  // Makes the folder, whose parent exists, and epoch 1. ALREADY_EXISTS when the folder holds a KEK;
  // an empty folder of the right mode and owner is taken (what a crash in Create leaves).
  static absl::StatusOr<std::unique_ptr<FileKms>> Create(const std::string& folder);
  static absl::StatusOr<std::unique_ptr<FileKms>> Open(const std::string& folder);
  ~FileKms() override;
  FileKms(const FileKms&) = delete;
  FileKms& operator=(const FileKms&) = delete;

  std::string Location() const override { return path_; }
  absl::StatusOr<std::vector<uint32_t>> Epochs() override;
  absl::StatusOr<std::vector<std::string>> Wrap(uint32_t epoch,
                                                std::span<const KeyToWrap> keys) override;
  absl::StatusOr<std::vector<SecretBytes>> Unwrap(uint32_t epoch,
                                                  std::span<const KeyToUnwrap> keys) override;
  absl::StatusOr<uint32_t> Rotate() override;
  absl::Status Destroy(uint32_t epoch) override;
  absl::Status DestroyAll() override;

 private:
  FileKms(std::string path, int folder) : path_(std::move(path)), folder_(folder) {}

  // Reads every KEK and finishes what a crash left.
  absl::Status Load();
  // From the file, checked.
  absl::StatusOr<SecretBytes> ReadKey(uint32_t epoch) const;
  absl::Status CreateEpoch(uint32_t epoch);
  // Overwrites, unlinks and syncs; OK when there is no such file.
  absl::Status Erase(const std::string& name) const;
  absl::Status EraseEpoch(uint32_t epoch) const;
  // Whether the file of the current epoch still holds the key that is in use.
  absl::Status ProveCurrent(uint32_t current);
  absl::StatusOr<SealingKey*> Find(uint32_t epoch);

  std::string path_;
  int folder_;  // open as long as this object lives, so that every name is looked up in it
  std::map<uint32_t, SealingKey> keys_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_FILE_KMS_H_
