#include "store/vault/aes_gcm.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "audit/openssl.h"
#include "core/base/check.h"

namespace lethe::store {
namespace {

using audit::ErrorQueueGuard;
using audit::Unsigned;

struct FreeContext {
  // Wipes the expanded key.
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// Looked up once: a look-up costs as much as sealing a short row.
const EVP_CIPHER* Cipher() {
  static EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  LETHE_CHECK(cipher != nullptr);
  return cipher;
}

absl::Status CheckSizes(const SecretBytes& key,
                        absl::string_view nonce,
                        absl::string_view context,
                        size_t plaintext_bytes) {
  if (key.size() != kAesKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("key: ", key.size(), " bytes, must be ", kAesKeyBytes));
  }
  if (nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("nonce: ", nonce.size(), " bytes, must be ", kNonceBytes));
  }
  if (context.size() > kMaxPlaintextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("context: ", context.size(), " bytes, at most ", kMaxPlaintextBytes));
  }
  if (plaintext_bytes == 0 || plaintext_bytes > kMaxPlaintextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("plaintext: ", plaintext_bytes, " bytes, must be 1 to ", kMaxPlaintextBytes));
  }
  return absl::OkStatus();
}

absl::Status Failed(absl::string_view doing) {
  return absl::InternalError(absl::StrCat(doing, ": OpenSSL failed"));
}

}  // namespace

absl::Status NotAuthentic() {
  return absl::DataLossError(
      "does not authenticate: damaged, in another place than it was sealed for, or sealed under"
      " another key");
}

absl::Status AesGcmSeal(const SecretBytes& key,
                        absl::string_view nonce,
                        absl::string_view context,
                        absl::string_view plaintext,
                        std::string& out) {
  if (absl::Status sizes = CheckSizes(key, nonce, context, plaintext.size()); !sizes.ok()) {
    return sizes;
  }
  const ErrorQueueGuard guard;
  const ContextPtr cipher(EVP_CIPHER_CTX_new());
  const size_t before = out.size();
  out.resize(before + plaintext.size() + kTagBytes);
  unsigned char* text = reinterpret_cast<unsigned char*>(out.data()) + before;
  const int size = static_cast<int>(plaintext.size());
  int context_size = 0;
  int written = 0;
  int last = 0;
  // OpenSSL takes 12 bytes of nonce unless told otherwise.
  const bool sealed =
      cipher != nullptr &&
      EVP_EncryptInit_ex2(cipher.get(), Cipher(), key.data(), Unsigned(nonce), nullptr) == 1 &&
      (context.empty() ||
       (EVP_EncryptUpdate(cipher.get(), nullptr, &context_size, Unsigned(context),
                          static_cast<int>(context.size())) == 1 &&
        context_size == static_cast<int>(context.size()))) &&
      EVP_EncryptUpdate(cipher.get(), text, &written, Unsigned(plaintext), size) == 1 &&
      written == size && EVP_EncryptFinal_ex(cipher.get(), text + written, &last) == 1 &&
      last == 0 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(kTagBytes),
                          text + written) == 1;
  if (sealed) return absl::OkStatus();
  out.resize(before);
  return Failed("sealing");
}

absl::Status AesGcmOpen(const SecretBytes& key,
                        absl::string_view nonce,
                        absl::string_view context,
                        absl::string_view sealed,
                        unsigned char* out) {
  const size_t text_bytes = sealed.size() < kTagBytes ? 0 : sealed.size() - kTagBytes;
  if (absl::Status sizes = CheckSizes(key, nonce, context, text_bytes); !sizes.ok()) {
    OPENSSL_cleanse(out, text_bytes);
    return sizes;
  }
  const ErrorQueueGuard guard;
  const ContextPtr cipher(EVP_CIPHER_CTX_new());
  const int size = static_cast<int>(text_bytes);
  std::string tag(sealed.substr(text_bytes));
  int context_size = 0;
  int written = 0;
  int last = 0;
  const bool ready =
      cipher != nullptr &&
      EVP_DecryptInit_ex2(cipher.get(), Cipher(), key.data(), Unsigned(nonce), nullptr) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(kTagBytes),
                          tag.data()) == 1 &&
      (context.empty() ||
       (EVP_DecryptUpdate(cipher.get(), nullptr, &context_size, Unsigned(context),
                          static_cast<int>(context.size())) == 1 &&
        context_size == static_cast<int>(context.size()))) &&
      EVP_DecryptUpdate(cipher.get(), out, &written, Unsigned(sealed), size) == 1 &&
      written == size;
  if (ready && EVP_DecryptFinal_ex(cipher.get(), out + written, &last) == 1 && last == 0) {
    return absl::OkStatus();
  }
  OPENSSL_cleanse(out, text_bytes);
  return ready ? NotAuthentic() : Failed("opening");
}

}  // namespace lethe::store
