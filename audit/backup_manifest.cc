#include "audit/backup_manifest.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "audit/utc_time.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kMaxTenantBytes = 63;
constexpr size_t kUidDigits = 32;
constexpr absl::string_view kTimeShape = "2026-01-31T12:00:00.000000Z";
constexpr uint64_t kMaxFileBytes = std::numeric_limits<int64_t>::max();
// After the line that says what it is, in order.
constexpr std::array<absl::string_view, 8> kNames = {
    "origin", "tenant", "uid", "time", "log-size", "log-root", "file-bytes", "file-sha256"};

absl::Status Refuse(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("manifest: ", problem));
}

bool IsLetterOrDigit(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c));
}

bool IsTenantName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxTenantBytes && IsLetterOrDigit(name.front()) &&
         IsLetterOrDigit(name.back()) && std::all_of(name.begin(), name.end(), [](char c) {
           return IsLetterOrDigit(c) || c == '-';
         });
}

// Decimal without leading zeros.
bool ReadNumber(absl::string_view text, uint64_t most, uint64_t* number) {
  return absl::SimpleAtoi(text, number) && absl::StrCat(*number) == text && *number <= most;
}

}  // namespace

std::string BackupManifestText(const BackupManifest& manifest) {
  return absl::StrCat(kBackupManifestType, "\norigin ", manifest.origin, "\ntenant ",
                      manifest.tenant, "\nuid ", manifest.uid, "\ntime ", manifest.time,
                      "\nlog-size ", manifest.log_size, "\nlog-root ", Base64(manifest.log_root),
                      "\nfile-bytes ", manifest.file_bytes, "\nfile-sha256 ",
                      Hex(manifest.file_sha256), "\n");
}

absl::StatusOr<BackupManifest> ParseBackupManifestText(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.front() != kBackupManifestType) {
    return Refuse(absl::StrCat("line 1: not ", kBackupManifestType));
  }
  if (lines.size() != kNames.size() + 2 || !lines.back().empty()) {
    return Refuse(absl::StrCat("not exactly ", kNames.size() + 1, " lines"));
  }
  std::array<absl::string_view, kNames.size()> values;
  const auto refuse = [](size_t index, absl::string_view problem) {
    return Refuse(absl::StrCat("line ", index + 2, " (", kNames[index], "): ", problem));
  };
  for (size_t i = 0; i < kNames.size(); ++i) {
    values[i] = lines[i + 1];
    if (!absl::ConsumePrefix(&values[i], kNames[i]) || !absl::ConsumePrefix(&values[i], " ")) {
      return refuse(i, "missing");
    }
  }
  BackupManifest manifest;
  manifest.origin = std::string(values[0]);
  if (const absl::Status name = ValidateKeyName(values[0]); !name.ok()) {
    return refuse(0, name.message());
  }
  if (!IsTenantName(values[1])) return refuse(1, "not the name of a tenant");
  manifest.tenant = std::string(values[1]);
  if (values[2].size() != kUidDigits || !DecodeHex(values[2]).ok()) {
    return refuse(2, "not 32 lower-case hex digits");
  }
  manifest.uid = std::string(values[2]);
  if (values[3].size() != kTimeShape.size() || !IsUtcTime(values[3])) {
    return refuse(3, absl::StrCat("not a time such as ", kTimeShape));
  }
  manifest.time = std::string(values[3]);
  if (!ReadNumber(values[4], kMaxLogSize, &manifest.log_size)) {
    return refuse(4, "not a decimal of at most 2^63 - 1 without leading zeros");
  }
  const absl::StatusOr<Digest> root = DecodeBase64Digest(values[5]);
  if (!root.ok()) return refuse(5, "not the base64 of 32 bytes");
  manifest.log_root = *root;
  if (manifest.log_size == 0 && manifest.log_root != EmptyRoot()) {
    return refuse(5, "not that of an empty log");
  }
  if (!ReadNumber(values[6], kMaxFileBytes, &manifest.file_bytes) || manifest.file_bytes == 0) {
    return refuse(6, "not a decimal from 1 to 2^63 - 1 without leading zeros");
  }
  const absl::StatusOr<Digest> sha256 = DecodeDigest(values[7]);
  if (!sha256.ok()) return refuse(7, "not 64 lower-case hex digits");
  manifest.file_sha256 = *sha256;
  return manifest;
}

absl::StatusOr<BackupManifest> ReadBackupManifest(absl::string_view note) {
  if (note.size() > kMaxBackupManifestBytes) {
    return Refuse(absl::StrCat("longer than ", kMaxBackupManifestBytes, " bytes"));
  }
  const absl::StatusOr<Note> parsed = ParseNote(note);
  if (!parsed.ok()) return Refuse(parsed.status().message());
  return ParseBackupManifestText(parsed->text);
}

absl::StatusOr<std::string> SignBackupManifest(const BackupManifest& manifest,
                                               const Signer& signer) {
  const VerificationKey& key = signer.verification_key();
  if (manifest.origin != key.name()) return Refuse("the origin must be the signing key's name");
  Note note;
  note.text = BackupManifestText(manifest);
  LETHE_RETURN_IF_ERROR(ParseBackupManifestText(note.text).status());
  LETHE_ASSIGN_OR_RETURN(std::string signature, signer.Sign(note.text));
  note.signatures = {{key.name(), key.key_id(), std::move(signature)}};
  std::string text = SerializeNote(note);
  const absl::StatusOr<BackupManifest> judged = VerifyBackupManifest(text, key);
  if (!judged.ok() || !(*judged == manifest)) {
    return absl::InternalError("manifest: does not verify after signing");
  }
  return text;
}

absl::StatusOr<BackupManifest> VerifyBackupManifest(absl::string_view note,
                                                    const VerificationKey& key) {
  LETHE_ASSIGN_OR_RETURN(BackupManifest manifest, ReadBackupManifest(note));
  LETHE_ASSIGN_OR_RETURN(const Note parsed, ParseNote(note));
  bool is_signed = false;
  for (const NoteSignature& signature : parsed.signatures) {
    if (signature.name != key.name() || signature.key_id != key.key_id()) continue;
    if (!key.Verify(parsed.text, signature.signature)) {
      return absl::FailedPreconditionError(
          "signature: one that names the key does not verify; the manifest was changed");
    }
    is_signed = true;
  }
  if (!is_signed) {
    return absl::FailedPreconditionError("signature: none is the key's; was another key in use?");
  }
  if (manifest.origin != key.name()) {
    return absl::FailedPreconditionError("origin: the manifest is of another log than the key");
  }
  return manifest;
}

}  // namespace lethe::audit
