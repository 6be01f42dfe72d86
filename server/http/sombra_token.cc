#include "server/http/sombra_token.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "server/access/guarded_file.h"
#include "server/access/strict_json.h"
#include "server/http/pem.h"

namespace lethe::http {
namespace {

constexpr size_t kMaxTokenBytes = size_t{8} << 10;
constexpr size_t kHalfSignature = 48;
constexpr absl::Duration kSkew = absl::Seconds(30);

absl::Status Refused() { return absl::UnauthenticatedError("no valid token"); }

std::optional<std::string> Decode(absl::string_view part) {
  const bool plain = std::all_of(part.begin(), part.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  std::string bytes;
  if (!plain || !absl::WebSafeBase64Unescape(part, &bytes)) return std::nullopt;
  return bytes;
}

// A signature is two numbers in a JWT, and in OpenSSL the DER of them.
std::string ToDer(const std::string& raw) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(raw.data());
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> signature(ECDSA_SIG_new(),
                                                                        ECDSA_SIG_free);
  ECDSA_SIG_set0(signature.get(), BN_bin2bn(bytes, kHalfSignature, nullptr),
                 BN_bin2bn(bytes + kHalfSignature, kHalfSignature, nullptr));
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  std::string out;
  if (size > 0) out.assign(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SombraKey>> SombraKey::Load(const std::string& file) {
  LETHE_ASSIGN_OR_RETURN(const std::string pem,
                         access::ReadGuardedFile(file, kMaxPemBytes, access::Secrecy::kPublic));
  const std::unique_ptr<BIO, decltype(&BIO_free)> bytes(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::unique_ptr<SombraKey> key(new SombraKey);
  key->key_.reset(PEM_read_bio_PUBKEY(bytes.get(), nullptr, nullptr, nullptr));
  char group[32] = {};
  if (key->key_ == nullptr ||
      EVP_PKEY_get_group_name(key->key_.get(), group, sizeof group, nullptr) != 1 ||
      std::string(group) != SN_secp384r1) {
    return WrongPem(file, "no public key of P-384 in PEM");
  }
  return key;
}

absl::Status SombraKey::Verify(const std::string& token, absl::Time now) const {
  if (token.size() > kMaxTokenBytes) return Refused();
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused();
  const std::optional<std::string> head = Decode(parts[0]);
  const std::optional<std::string> body = Decode(parts[1]);
  const std::optional<std::string> signature = Decode(parts[2]);
  if (!head.has_value() || !body.has_value() || !signature.has_value() ||
      signature->size() != 2 * kHalfSignature) {
    return Refused();
  }
  const absl::StatusOr<nlohmann::json> header = access::ParseStrictObject(*head);
  if (!header.ok() || header->value("alg", nlohmann::json()) != "ES384" ||
      header->contains("crit")) {
    return Refused();
  }
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const std::string der = ToDer(*signature);
  const size_t signed_bytes = parts[0].size() + 1 + parts[1].size();
  const bool good =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha384(), nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(der.data()),
                       der.size(), reinterpret_cast<const unsigned char*>(token.data()),
                       signed_bytes) == 1;
  ERR_clear_error();
  if (!good) return Refused();
  const absl::StatusOr<nlohmann::json> claims = access::ParseStrictObject(*body);
  if (!claims.ok()) return Refused();
  const auto expires = claims->find("exp");
  if (expires == claims->end() || !expires->is_number_integer() ||
      absl::FromUnixSeconds(expires->get<int64_t>()) + kSkew <= now) {
    return Refused();
  }
  const auto begins = claims->find("nbf");
  if (begins != claims->end() && (!begins->is_number_integer() ||
                                  absl::FromUnixSeconds(begins->get<int64_t>()) - kSkew > now)) {
    return Refused();
  }
  return absl::OkStatus();
}

}  // namespace lethe::http
