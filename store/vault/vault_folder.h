// The folder that holds the keys of one tenant, apart from its data:
//
//   <folder>/keys.db   the wrapped data keys (key_store.h)
//   <folder>/kek/      the KEKs (file_kms.h), where the KMS is the default one
//
// Threads: functions without state.
#ifndef LETHE_STORE_VAULT_VAULT_FOLDER_H_
#define LETHE_STORE_VAULT_VAULT_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "store/vault/key_store.h"

namespace lethe::store {

std::string KeysFileOf(const std::string& folder);
std::string KekFolderOf(const std::string& folder);

struct KeysEnded {
  // Of the KEK, the last one that there was; 0 when an earlier call had destroyed it.
  uint32_t last_epoch = 0;
  RemovalResult keys;
};

// The end of a tenant: destroys the KEKs first, which ends everything, then overwrites and unlinks
// the files of the key store (KeyStore::Remove), and removes the folder. Durable on return.
// Requires that no FileKms and no KeyStore of it is open. Idempotent, to be repeated after an error
// or a crash; OK when half of it, or all, is gone. With another Kms, call Kms::DestroyAll before.
//
// Errors: those of FileKms::Remove and KeyStore::Remove; each is called whatever the other one
// said. FAILED_PRECONDITION names what is not ours: the keys are destroyed, the folder stays.
// Cost: O(size of keys.db), twice.
absl::StatusOr<KeysEnded> DestroyAllKeys(const std::string& folder);

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_VAULT_FOLDER_H_
