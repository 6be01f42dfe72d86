// The words of the server for the places that hold tokens and for what it claims of them, in the
// `stores` of a certificate (docs/certificate_format.md, section 3). A certificate says what is so
// when it is signed, so an erasure's own certificate and the `shredded` one after it differ.
#ifndef LETHE_AUDIT_STORES_H_
#define LETHE_AUDIT_STORES_H_

#include "absl/strings/string_view.h"

namespace lethe::audit {

// The rows of the tenant's database.
inline constexpr absl::string_view kStoreTokens = "tokens";
// The data keys that the rows are sealed under.
inline constexpr absl::string_view kStoreKeys = "keys";
// The write-ahead log of the database.
inline constexpr absl::string_view kStoreWriteAheadLog = "write-ahead-log";
// Copies of the database, by whomever, and not of the keys.
inline constexpr absl::string_view kStoreBackups = "backups";
// The server's own memory, swap included.
inline constexpr absl::string_view kStoreMemory = "memory";
// Exports of the log.
inline constexpr absl::string_view kStoreExports = "exports";

// tokens: the rows are no longer in the database as it is read.
inline constexpr absl::string_view kLevelRowsDeleted = "rows-deleted";
// keys, in an erasure: the rows are gone, their keys are not yet; a `shredded` follows.
inline constexpr absl::string_view kLevelKeyPending = "key-pending";
// keys, in a shredded or tenant-closed: overwritten, and read back as such.
inline constexpr absl::string_view kLevelKeyDestroyed = "key-destroyed";
// write-ahead-log, in a shredded or tenant-closed: emptied after the rows were deleted.
inline constexpr absl::string_view kLevelTruncated = "truncated";
// backups, in a shredded: the rows in them are ciphertext under destroyed keys. Outside of this are
// the keyed hashes of ids and subjects beside the rows, whose key lives until the tenant is
// deleted, and copies of the key store itself until the epoch of their key-encryption key ends.
inline constexpr absl::string_view kLevelUnreadableWithoutKey = "unreadable-without-key";
// exports: there never was content of a token in them.
inline constexpr absl::string_view kLevelNoTokenContent = "no-token-content";
// Any: nothing is claimed.
inline constexpr absl::string_view kLevelNotClaimed = "not-claimed";

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_STORES_H_
