// Ed25519 keys with a name, in the key format of C2SP signed notes.
//
//     key_id = SHA256(name || 0A || 01 || pk32)[0:4]
//     vkey   = name "+" hex8(key_id) "+" base64(01 || pk32)
//
// The name of a key is the origin of the log it signs: 1 to 255 printable ASCII characters without
// space, '+', '"' and '\'. Signing is deterministic (RFC 8032). Threads: both classes are immutable
// and may be shared. Secrets are wiped from memory that this code owns; OpenSSL wipes its own.
#ifndef LETHE_AUDIT_SIGNER_H_
#define LETHE_AUDIT_SIGNER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// OpenSSL's key, so that no header of ours pulls its headers in.
struct evp_pkey_st;

namespace lethe::audit {

struct FreePrivateKey {
  void operator()(evp_pkey_st* key) const;
};
using PrivateKey = std::unique_ptr<evp_pkey_st, FreePrivateKey>;

// INVALID_ARGUMENT when this cannot name a key.
absl::Status ValidateKeyName(absl::string_view name);

// The public half: what a verifier pins.
class VerificationKey {
 public:
  // Parses a vkey. INVALID_ARGUMENT for any other text, a key id that does not fit, another
  // algorithm.
  static absl::StatusOr<VerificationKey> Parse(absl::string_view vkey);
  // `public_key` has 32 bytes.
  static absl::StatusOr<VerificationKey> FromRaw(absl::string_view name,
                                                 absl::string_view public_key);

  const std::string& name() const { return name_; }
  const std::string& raw() const { return raw_; }        // 32 bytes
  const std::string& key_id() const { return key_id_; }  // 4 bytes
  std::string vkey() const;
  // name "+" hex8(key_id): the keyid of a DSSE signature.
  std::string short_name() const;
  // SubjectPublicKeyInfo, DER, 44 bytes (RFC 8410).
  std::string SpkiDer() const;

  // Whether `signature` (64 bytes) is this key's over `message`. False for anything else.
  bool Verify(absl::string_view message, absl::string_view signature) const;

 private:
  VerificationKey(std::string name, std::string raw);
  std::string name_;
  std::string raw_;
  std::string key_id_;
};

class Signer {
 public:
  // A fresh key that lives in memory only.
  static absl::StatusOr<Signer> Generate(absl::string_view name);
  // The key of a 32-byte RFC 8032 seed. For test vectors and key stores that hold seeds.
  static absl::StatusOr<Signer> FromSeed(absl::string_view name, absl::string_view seed);

  // Makes a key and writes it to a new file: PEM PKCS#8, mode 0400, exclusive creation, file and
  // folder synced. ALREADY_EXISTS when the path exists. A failure leaves no file behind.
  static absl::StatusOr<Signer> CreateFile(absl::string_view name, const std::string& path);
  // Reads such a file. NOT_FOUND when absent; FAILED_PRECONDITION when it is no regular file, when
  // group or others may read or write it, or when it is a symbolic link; INVALID_ARGUMENT when it
  // holds no Ed25519 private key.
  static absl::StatusOr<Signer> LoadFile(absl::string_view name, const std::string& path);

  Signer(Signer&&) noexcept;
  Signer& operator=(Signer&&) noexcept;
  ~Signer();

  // 64 bytes. INTERNAL when OpenSSL fails.
  absl::StatusOr<std::string> Sign(absl::string_view message) const;
  const VerificationKey& verification_key() const;

 private:
  struct Impl;
  explicit Signer(std::unique_ptr<Impl> impl);
  static absl::StatusOr<Signer> FromPrivateKey(absl::string_view name, PrivateKey key);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_SIGNER_H_
