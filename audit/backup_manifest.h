// The manifest of a backup: which copy of which tenant, as a signed note of the tenant's log key.
//
//     lethe-backup/v1
//     origin <name of the log and of its keys>
//     tenant <name>
//     uid <32 hex digits>
//     time <RFC 3339, UTC, microseconds>
//     log-size <certificates in the copy>
//     log-root <base64 of the root over them>
//     file-bytes <size of tenant.db>
//     file-sha256 <64 hex digits>
//
// The first line keeps it apart from a checkpoint, whose first line is its origin. A manifest has
// one text. It says what the copy is; how old it may be, the reader has to know from elsewhere.
//
// Threads: safe. Byte by byte: docs/certificate_format.md, section 15.
#ifndef LETHE_AUDIT_BACKUP_MANIFEST_H_
#define LETHE_AUDIT_BACKUP_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/signer.h"

namespace lethe::audit {

inline constexpr absl::string_view kBackupManifestType = "lethe-backup/v1";
// Longer than any manifest with a few signatures.
inline constexpr size_t kMaxBackupManifestBytes = 16384;

struct BackupManifest {
  std::string origin;       // as ValidateKeyName demands
  std::string tenant;       // 1 to 63 of [a-z0-9-], a letter or digit first and last
  std::string uid;          // 32 lower-case hex digits
  std::string time;         // 2026-01-31T12:00:00.000000Z
  uint64_t log_size = 0;    // at most 2^63 - 1
  Digest log_root{};        // RFC 6962; that of an empty log with size 0
  uint64_t file_bytes = 0;  // 1 to 2^63 - 1
  Digest file_sha256{};

  friend bool operator==(const BackupManifest&, const BackupManifest&) = default;
};

std::string BackupManifestText(const BackupManifest& manifest);
// INVALID_ARGUMENT, naming the line, for any text that BackupManifestText would not have written of
// values as above.
absl::StatusOr<BackupManifest> ParseBackupManifestText(absl::string_view text);

// What the note says, not verified. INVALID_ARGUMENT.
absl::StatusOr<BackupManifest> ReadBackupManifest(absl::string_view note);

// The whole note. INVALID_ARGUMENT unless the origin is the signer's name and the text parses. What
// it returns has been verified with the signer's public key (INTERNAL when that fails).
absl::StatusOr<std::string> SignBackupManifest(const BackupManifest& manifest,
                                               const Signer& signer);

// What the note says, if the key signed it. INVALID_ARGUMENT ("manifest: ...") as
// ReadBackupManifest; FAILED_PRECONDITION when no line is the key's or one of the key's does not
// verify ("signature: ..."), or when the origin is not the key's name ("origin: ..."). Lines of
// other keys are ignored.
absl::StatusOr<BackupManifest> VerifyBackupManifest(absl::string_view note,
                                                    const VerificationKey& key);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_BACKUP_MANIFEST_H_
