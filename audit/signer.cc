#include "audit/signer.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/key_file.h"
#include "audit/openssl.h"
#include "audit/vkey.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kMaxNameBytes = 255;
// SEQUENCE { SEQUENCE { OID 1.3.101.112 } BIT STRING { 0 unused bits, 32 bytes } }
constexpr absl::string_view kSpkiPrefix("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_MD_CTX, FreeContext>;

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
    : name_(std::move(name)),
      raw_(std::move(raw)),
      key_id_(KeyId(name_, KeyType::kEd25519, raw_)) {}

absl::StatusOr<VerificationKey> VerificationKey::FromRaw(absl::string_view name,
                                                         absl::string_view public_key) {
  LETHE_RETURN_IF_ERROR(ValidateKeyName(name));
  if (public_key.size() != kPublicKeyBytes) {
    return absl::InvalidArgumentError("public key: an Ed25519 key has 32 bytes");
  }
  return VerificationKey(std::string(name), std::string(public_key));
}

absl::StatusOr<VerificationKey> VerificationKey::Parse(absl::string_view vkey) {
  LETHE_ASSIGN_OR_RETURN(NamedKey key, ParseVkey(vkey, KeyType::kEd25519));
  return VerificationKey(std::move(key.name), std::move(key.raw));
}

std::string VerificationKey::vkey() const {
  return FormatVkey({name_, raw_, key_id_}, KeyType::kEd25519);
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
  std::string raw(kPublicKeyBytes, '\0');
  size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(raw.data()), &size) !=
          1 ||
      size != kPublicKeyBytes) {
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
  if (seed.size() != kPublicKeyBytes) {
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
