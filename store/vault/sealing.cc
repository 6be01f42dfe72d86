#include "store/vault/sealing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/vault/bytes.h"
#include "store/vault/random.h"

namespace lethe::store {
namespace {

constexpr char kRowVersion = 1;
constexpr size_t kRowHeaderBytes = 1 + 8;
constexpr absl::string_view kRowTag("lethe-sealed-row\1\0", 18);
constexpr size_t kUidBytes = 32;
static_assert(Nonces::kBytes == kNonceBytes);

absl::string_view Bytes(const SecretBytes& secret) {
  return absl::string_view(reinterpret_cast<const char*>(secret.data()), secret.size());
}

absl::StatusOr<std::string> RowContext(const RowPlace& place) {
  if (place.tenant_uid.size() != kUidBytes || place.memory_uid.size() != kUidBytes) {
    return absl::InvalidArgumentError("row: the uids of tenant and memory must have 32 bytes");
  }
  std::string context = absl::StrCat(kRowTag, place.tenant_uid, place.memory_uid);
  PutLittleEndian(context, place.handle);
  PutLittleEndian(context, place.slot);
  PutLittleEndian(context, place.schema_version);
  return context;
}

absl::Status CheckSealed(absl::string_view sealed) {
  if (sealed.size() > kSealOverhead) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("sealed bytes: ", sealed.size(), " bytes, must be more than ", kSealOverhead));
}

}  // namespace

SealingKey::SealingKey(SecretBytes key, uint64_t prior_seals, uint64_t max_seals)
    : key_(std::move(key)), seals_(prior_seals), max_seals_(std::min(max_seals, kMaxSealsPerKey)) {
  LETHE_CHECK(key_.size() == kAesKeyBytes);
}

void SealingKey::CountAtLeast(uint64_t seals) { seals_ = std::max(seals_, seals); }

absl::Status SealingKey::CheckKey() const {
  uint8_t any = 0;
  for (size_t i = 0; i < key_.size(); ++i) any |= key_.data()[i];
  if (any != 0) return absl::OkStatus();  // a key of zeros is one that nobody drew
  return absl::FailedPreconditionError(
      "key: was wiped, as all are in a forked process, which must open the key store itself");
}

absl::StatusOr<std::string> SealingKey::Seal(absl::string_view context,
                                             absl::string_view plaintext,
                                             Nonces* nonces) {
  LETHE_RETURN_IF_ERROR(CheckKey());
  if (seals_ >= max_seals_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "key: used ", seals_, " times, at most ", max_seals_, "; a new key must take its place"));
  }
  ++seals_;
  std::string sealed(kNonceBytes, '\0');
  Nonces own(1);
  (nonces == nullptr ? own : *nonces).Next(reinterpret_cast<uint8_t*>(sealed.data()));
  const std::string nonce = sealed;
  sealed.reserve(kSealOverhead + plaintext.size());
  LETHE_RETURN_IF_ERROR(AesGcmSeal(key_, nonce, context, plaintext, sealed));
  return sealed;
}

absl::StatusOr<std::string> SealingKey::Open(absl::string_view context,
                                             absl::string_view sealed) const {
  LETHE_RETURN_IF_ERROR(CheckKey());
  LETHE_RETURN_IF_ERROR(CheckSealed(sealed));
  std::string plaintext(sealed.size() - kSealOverhead, '\0');
  LETHE_RETURN_IF_ERROR(AesGcmOpen(key_, sealed.substr(0, kNonceBytes), context,
                                   sealed.substr(kNonceBytes),
                                   reinterpret_cast<unsigned char*>(plaintext.data())));
  return plaintext;
}

absl::StatusOr<std::string> SealingKey::SealSecret(absl::string_view context,
                                                   const SecretBytes& secret,
                                                   Nonces* nonces) {
  return Seal(context, Bytes(secret), nonces);
}

absl::StatusOr<SecretBytes> SealingKey::OpenSecret(absl::string_view context,
                                                   absl::string_view sealed) const {
  LETHE_RETURN_IF_ERROR(CheckKey());
  LETHE_RETURN_IF_ERROR(CheckSealed(sealed));
  const size_t size = sealed.size() - kSealOverhead;
  if (size > kMaxSecretBytes) {
    return absl::DataLossError(
        absl::StrCat("sealed key: ", size, " bytes, at most ", kMaxSecretBytes));
  }
  SecretBytes secret(size);
  LETHE_RETURN_IF_ERROR(AesGcmOpen(key_, sealed.substr(0, kNonceBytes), context,
                                   sealed.substr(kNonceBytes), secret.data()));
  return secret;
}

absl::StatusOr<std::string> SealRow(SealingKey& key,
                                    const RowPlace& place,
                                    absl::string_view plaintext,
                                    Nonces* nonces) {
  LETHE_ASSIGN_OR_RETURN(const std::string context, RowContext(place));
  LETHE_ASSIGN_OR_RETURN(const std::string sealed, key.Seal(context, plaintext, nonces));
  std::string row(1, kRowVersion);
  row.reserve(kRowHeaderBytes + sealed.size());
  PutLittleEndian(row, place.slot);
  return row.append(sealed);
}

absl::StatusOr<uint64_t> SlotOfRow(absl::string_view row) {
  if (row.size() <= kSealedRowOverhead) {
    return absl::DataLossError(
        absl::StrCat("sealed row: ", row.size(), " bytes, must be more than ", kSealedRowOverhead));
  }
  if (row[0] != kRowVersion) {
    return absl::DataLossError(absl::StrCat("sealed row: version ",
                                            static_cast<int>(static_cast<uint8_t>(row[0])),
                                            ", this release knows ", int{kRowVersion}));
  }
  return GetLittleEndian<uint64_t>(row, 1);
}

absl::StatusOr<std::string> OpenRow(const SealingKey& key,
                                    const RowPlace& place,
                                    absl::string_view row) {
  LETHE_ASSIGN_OR_RETURN(const uint64_t slot, SlotOfRow(row));
  LETHE_ASSIGN_OR_RETURN(const std::string context, RowContext(place));
  if (slot != place.slot) return NotAuthentic();
  return key.Open(context, row.substr(kRowHeaderBytes));
}

}  // namespace lethe::store
