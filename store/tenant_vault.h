// The vault of one tenant, `<root>/<uid>`: its KEK, its file of keys and the anchor of its log,
// made, opened and ended together; internal to the store.
//
// Errors: FAILED_PRECONDITION, with what to do, for what is missing, has wrong rights, or is of
// another tenant; ALREADY_EXISTS from Create; those of the Kms and of KeyStore.
// Threads: compatible.
#ifndef LETHE_STORE_TENANT_VAULT_H_
#define LETHE_STORE_TENANT_VAULT_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/anchor.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_store.h"
#include "store/vault/key_store.h"
#include "store/vault/kms.h"

namespace lethe::store {

class TenantVault {
 public:
  struct Place {
    std::string root;
    std::string tenant_uid;
    KmsFactory kms;
    std::string log_origin;
    KeyStoreOptions keys = {};
    std::string folder() const { return root + "/" + tenant_uid; }
  };

  // Makes the folder, the KEK and the keys, with slot 1; durable on return. Leaves nothing after an
  // error, as far as the system lets it.
  static absl::StatusOr<std::unique_ptr<TenantVault>> Create(const Place& place);
  static absl::StatusOr<std::unique_ptr<TenantVault>> Open(const Place& place);

  KeyStore* keys() { return keys_.get(); }
  Anchor* anchor() { return anchor_.get(); }
  // Of the two files.
  absl::Status Health() const;
  absl::StatusOr<uint32_t> Epoch() { return kms_->CurrentEpoch(); }

  // Ends the keys of the tenant: the KEKs, then the data keys, then the files; the anchor goes with
  // them, since without the keys no copy of the tenant is of use. `open` is the vault
  // where it is open already, or null. What remains is an empty folder; can be repeated at any
  // point. FAILED_PRECONDITION when the folder is not there: nobody can tell then whether the keys
  // are.
  static absl::StatusOr<KeysDestroyed> End(const Place& place, std::unique_ptr<TenantVault> open);
  // Removes the empty folder; OK when it is gone.
  static absl::Status RemoveFolder(const Place& place);

 private:
  TenantVault(std::unique_ptr<Kms> kms, std::unique_ptr<KeyStore> keys)
      : kms_(std::move(kms)), keys_(std::move(keys)) {}
  absl::Status MakeKeys(const Place& place);

  std::unique_ptr<Kms> kms_;
  std::unique_ptr<KeyStore> keys_;
  std::unique_ptr<Anchor> anchor_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_TENANT_VAULT_H_
