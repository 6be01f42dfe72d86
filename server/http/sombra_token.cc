#include "server/http/sombra_token.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "server/access/base64_url.h"
#include "server/access/guarded_file.h"
#include "server/access/strict_json.h"
#include "server/http/pem.h"

namespace lethe::http {
namespace {

constexpr size_t kMaxTokenBytes = size_t{8} << 10;
constexpr size_t kHalfSignature = 48;
constexpr absl::Duration kSkew = absl::Seconds(30);

absl::Status Refused() { return absl::UnauthenticatedError("no valid token"); }

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
  std::unique_ptr<SombraKey> key(new SombraKey);
  LETHE_ASSIGN_OR_RETURN(key->key_, ParsePublicKey(file, pem));
  char group[32] = {};
  if (EVP_PKEY_get_group_name(key->key_.get(), group, sizeof group, nullptr) != 1 ||
      std::string(group) != SN_secp384r1) {
    return WrongPem(file, "its public key is none of P-384");
  }
  return key;
}

absl::Status SombraKey::Verify(const std::string& token, absl::Time now) const {
  if (token.size() > kMaxTokenBytes) return Refused();
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused();
  const std::optional<std::string> head = access::DecodeBase64Url(parts[0]);
  const std::optional<std::string> body = access::DecodeBase64Url(parts[1]);
  const std::optional<std::string> signature = access::DecodeBase64Url(parts[2]);
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
