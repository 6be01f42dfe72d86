#include "audit/signer.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/key_file.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;
constexpr size_t kMaxNameBytes = 255;
constexpr absl::string_view kEd25519Note("\x01", 1);
// SEQUENCE { SEQUENCE { OID 1.3.101.112 } BIT STRING { 0 unused bits, 32 bytes } }
constexpr absl::string_view kSpkiPrefix("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);

const unsigned char* Unsigned(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_MD_CTX, FreeContext>;

// OpenSSL queues errors by thread; what is handled here must not surface somewhere else.
class ErrorQueueGuard {
 public:
  ErrorQueueGuard() { ERR_set_mark(); }
  ~ErrorQueueGuard() { ERR_pop_to_mark(); }
  ErrorQueueGuard(const ErrorQueueGuard&) = delete;
  ErrorQueueGuard& operator=(const ErrorQueueGuard&) = delete;
};

}  // namespace

absl::Status ValidateKeyName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("key name: has ", name.size(), " bytes, allowed are 1 to ", kMaxNameBytes));
  }
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c <= 0x20 || c >= 0x7F || c == '+' || c == '"' || c == '\\') {
      return absl::InvalidArgumentError(absl::StrCat(
          "key name: offset ", i, ": only printable ASCII without space, '+', '\"' and '\\'"));
    }
  }
  return absl::OkStatus();
}

VerificationKey::VerificationKey(std::string name, std::string raw)
    : name_(std::move(name)), raw_(std::move(raw)) {
  Sha256Hasher hasher;
  const Digest digest =
      hasher.Update(name_).Update("\n").Update(kEd25519Note).Update(raw_).Finish();
  key_id_ = std::string(AsBytes(digest).substr(0, 4));
}

absl::StatusOr<VerificationKey> VerificationKey::FromRaw(absl::string_view name,
                                                         absl::string_view public_key) {
  LETHE_RETURN_IF_ERROR(ValidateKeyName(name));
  if (public_key.size() != kKeyBytes) {
    return absl::InvalidArgumentError("public key: an Ed25519 key has 32 bytes");
  }
  return VerificationKey(std::string(name), std::string(public_key));
}

absl::StatusOr<VerificationKey> VerificationKey::Parse(absl::string_view vkey) {
  // Base64 may contain '+' too, so that only the first two separate.
  const std::vector<absl::string_view> parts = absl::StrSplit(vkey, absl::MaxSplits('+', 2));
  if (parts.size() != 3) {
    return absl::InvalidArgumentError("verification key: expected name+hex8+base64");
  }
  const absl::StatusOr<std::string> key_id = DecodeHex(parts[1]);
  if (!key_id.ok() || key_id->size() != 4) {
    return absl::InvalidArgumentError(
        "verification key: the key id is not 8 lower-case hex digits");
  }
  const absl::StatusOr<std::string> body = DecodeBase64(parts[2]);
  if (!body.ok()) return absl::InvalidArgumentError("verification key: the key is not base64");
  if (body->size() != 1 + kKeyBytes || body->substr(0, 1) != kEd25519Note) {
    return absl::InvalidArgumentError("verification key: not an Ed25519 key (01 and 32 bytes)");
  }
  LETHE_ASSIGN_OR_RETURN(VerificationKey key, FromRaw(parts[0], body->substr(1)));
  if (key.key_id() != *key_id) {
    return absl::InvalidArgumentError("verification key: the key id does not fit name and key");
  }
  return key;
}

std::string VerificationKey::vkey() const {
  return absl::StrCat(short_name(), "+", Base64(absl::StrCat(kEd25519Note, raw_)));
}

std::string VerificationKey::short_name() const { return absl::StrCat(name_, "+", Hex(key_id_)); }

std::string VerificationKey::SpkiDer() const { return absl::StrCat(kSpkiPrefix, raw_); }

bool VerificationKey::Verify(absl::string_view message, absl::string_view signature) const {
  if (signature.size() != kSignatureBytes) return false;
  const ErrorQueueGuard guard;
  const PrivateKey key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Unsigned(raw_), raw_.size()));
  const ContextPtr context(EVP_MD_CTX_new());
  if (key == nullptr || context == nullptr) return false;
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), Unsigned(signature), signature.size(), Unsigned(message),
                          message.size()) == 1;
}

struct Signer::Impl {
  PrivateKey private_key;
  VerificationKey verification_key;
};

Signer::Signer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Signer::Signer(Signer&&) noexcept = default;
Signer& Signer::operator=(Signer&&) noexcept = default;
Signer::~Signer() = default;

const VerificationKey& Signer::verification_key() const { return impl_->verification_key; }

absl::StatusOr<Signer> Signer::FromPrivateKey(absl::string_view name, PrivateKey key) {
  std::string raw(kKeyBytes, '\0');
  size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(raw.data()), &size) !=
          1 ||
      size != kKeyBytes) {
    return absl::InternalError("signing key: OpenSSL gave no public key");
  }
  LETHE_ASSIGN_OR_RETURN(VerificationKey verification_key, VerificationKey::FromRaw(name, raw));
  return Signer(std::make_unique<Impl>(Impl{std::move(key), std::move(verification_key)}));
}

absl::StatusOr<Signer> Signer::Generate(absl::string_view name) {
  LETHE_RETURN_IF_ERROR(ValidateKeyName(name));
  const ErrorQueueGuard guard;
  PrivateKey key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (key == nullptr) return absl::InternalError("signing key: OpenSSL made no key");
  return FromPrivateKey(name, std::move(key));
}

absl::StatusOr<Signer> Signer::FromSeed(absl::string_view name, absl::string_view seed) {
  LETHE_RETURN_IF_ERROR(ValidateKeyName(name));
  if (seed.size() != kKeyBytes) {
    return absl::InvalidArgumentError("seed: an Ed25519 seed has 32 bytes");
  }
  const ErrorQueueGuard guard;
  PrivateKey key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Unsigned(seed), seed.size()));
  if (key == nullptr) return absl::InternalError("signing key: OpenSSL refused the seed");
  return FromPrivateKey(name, std::move(key));
}

absl::StatusOr<Signer> Signer::CreateFile(absl::string_view name, const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(Signer signer, Generate(name));
  const ErrorQueueGuard guard;
  LETHE_RETURN_IF_ERROR(WriteKeyFile(*signer.impl_->private_key, path));
  return signer;
}

absl::StatusOr<Signer> Signer::LoadFile(absl::string_view name, const std::string& path) {
  LETHE_RETURN_IF_ERROR(ValidateKeyName(name));
  const ErrorQueueGuard guard;
  LETHE_ASSIGN_OR_RETURN(PrivateKey key, ReadKeyFile(path));
  return FromPrivateKey(name, std::move(key));
}

absl::StatusOr<std::string> Signer::Sign(absl::string_view message) const {
  const ErrorQueueGuard guard;
  const ContextPtr context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, impl_->private_key.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     Unsigned(message), message.size()) != 1 ||
      size != kSignatureBytes) {
    return absl::InternalError("signing: OpenSSL made no signature");
  }
  return signature;
}

}  // namespace lethe::audit
