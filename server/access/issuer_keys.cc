#include "server/access/issuer_keys.h"

#include <cjose/cjose.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/access/strict_json.h"

namespace lethe::access {
namespace {

constexpr size_t kMaxKeys = 16;  // a token without an id may make us try them all
constexpr size_t kLeastRsaBits = 2048;
constexpr size_t kMostRsaBits = 8192;

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(cjose_jws_t* token) const { cjose_jws_release(token); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

absl::Status NoKey() {
  return absl::InvalidArgumentError("no public key of P-256 or RSA, nor a certificate of one");
}

// Big-endian bytes of a number of the key; empty when it has none of this name.
std::vector<uint8_t> NumberOf(const EVP_PKEY* key, const char* name) {
  BIGNUM* raw = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &raw) != 1) return {};
  const Owned<BIGNUM> number(raw);
  std::vector<uint8_t> bytes(static_cast<size_t>(BN_num_bytes(number.get())));
  BN_bn2bin(number.get(), bytes.data());
  return bytes;
}

int NoPassword(char*, int, int, void*) { return -1; }

Owned<EVP_PKEY> ReadPem(absl::string_view pem) {
  const auto bio = [pem] {
    return Owned<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  };
  Owned<EVP_PKEY> key(PEM_read_bio_PUBKEY(bio().get(), nullptr, NoPassword, nullptr));
  if (key != nullptr) return key;
  const Owned<X509> certificate(PEM_read_bio_X509(bio().get(), nullptr, NoPassword, nullptr));
  return Owned<EVP_PKEY>(certificate == nullptr ? nullptr : X509_get_pubkey(certificate.get()));
}

// Whether a key may be used with an algorithm. cjose takes a curve for whatever a token says.
bool Fits(const cjose_jwk_t* key, Algorithm algorithm) {
  cjose_err error;
  const cjose_jwk_kty_t kind = cjose_jwk_get_kty(key, &error);
  if (algorithm == Algorithm::kEs256) {
    return kind == CJOSE_JWK_KTY_EC && cjose_jwk_EC_get_curve(key, &error) == CJOSE_JWK_EC_P_256;
  }
  return kind == CJOSE_JWK_KTY_RSA;
}

}  // namespace

std::optional<Algorithm> ParseAlgorithm(absl::string_view name) {
  if (name == "ES256") return Algorithm::kEs256;
  if (name == "RS256") return Algorithm::kRs256;
  if (name == "PS256") return Algorithm::kPs256;
  return std::nullopt;
}

void IssuerKeys::Release::operator()(_cjose_jwk_int* key) const { cjose_jwk_release(key); }

absl::Status IssuerKeys::Add(Key key) {
  if (key.key == nullptr) return NoKey();
  cjose_err error;
  const cjose_jwk_kty_t kind = cjose_jwk_get_kty(key.key.get(), &error);
  if (kind == CJOSE_JWK_KTY_RSA) {
    const size_t bits = cjose_jwk_get_keysize(key.key.get(), &error);
    if (bits < kLeastRsaBits || bits > kMostRsaBits) {
      return absl::InvalidArgumentError(
          absl::StrCat("an RSA key of ", bits, " bits; ", kLeastRsaBits, " to ", kMostRsaBits));
    }
  } else if (!Fits(key.key.get(), Algorithm::kEs256)) {
    return NoKey();
  }
  if (keys_.size() == kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxKeys, " keys"));
  }
  keys_.push_back(std::move(key));
  return absl::OkStatus();
}

absl::Status IssuerKeys::AddPem(absl::string_view pem) {
  const Owned<EVP_PKEY> parsed = ReadPem(pem);
  if (parsed == nullptr) return NoKey();
  cjose_err error;
  Key key;
  if (EVP_PKEY_is_a(parsed.get(), "RSA")) {
    std::vector<uint8_t> n = NumberOf(parsed.get(), OSSL_PKEY_PARAM_RSA_N);
    std::vector<uint8_t> e = NumberOf(parsed.get(), OSSL_PKEY_PARAM_RSA_E);
    if (n.empty() || e.empty()) return NoKey();
    cjose_jwk_rsa_keyspec spec = {};
    spec.n = n.data();
    spec.nlen = n.size();
    spec.e = e.data();
    spec.elen = e.size();
    key.key.reset(cjose_jwk_create_RSA_spec(&spec, &error));
  } else if (EVP_PKEY_is_a(parsed.get(), "EC")) {
    char curve[64] = {};
    if (EVP_PKEY_get_group_name(parsed.get(), curve, sizeof(curve), nullptr) != 1 ||
        absl::string_view(curve) != SN_X9_62_prime256v1) {
      return NoKey();
    }
    std::vector<uint8_t> x = NumberOf(parsed.get(), OSSL_PKEY_PARAM_EC_PUB_X);
    std::vector<uint8_t> y = NumberOf(parsed.get(), OSSL_PKEY_PARAM_EC_PUB_Y);
    if (x.empty() || y.empty()) return NoKey();
    cjose_jwk_ec_keyspec spec = {};
    spec.crv = CJOSE_JWK_EC_P_256;
    spec.x = x.data();
    spec.xlen = x.size();
    spec.y = y.data();
    spec.ylen = y.size();
    key.key.reset(cjose_jwk_create_EC_spec(&spec, &error));
  }
  return Add(std::move(key));
}

absl::Status IssuerKeys::AddJwks(absl::string_view json) {
  LETHE_ASSIGN_OR_RETURN(const nlohmann::json set, ParseStrictObject(json));
  const auto keys = set.find("keys");
  if (keys == set.end() || !keys->is_array()) {
    return absl::InvalidArgumentError("no JWK set: it has no list \"keys\"");
  }
  const auto text = [](const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (size_t i = 0; i < keys->size(); ++i) {
    const nlohmann::json& object = (*keys)[i];
    const auto failed = [i](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("keys[", i, "]: ", what));
    };
    if (!object.is_object()) return failed("no object");
    if (object.contains("d")) return failed("a private key");
    if (text(object, "kty") == "oct") return failed("a symmetric key");
    if (object.contains("use") && text(object, "use") != "sig") continue;
    Key key;
    if (object.contains("alg")) {
      key.algorithm = ParseAlgorithm(text(object, "alg"));
      if (!key.algorithm.has_value()) continue;  // of no use here
    }
    key.kid = text(object, "kid");
    const std::string one = object.dump();
    cjose_err error;
    key.key.reset(cjose_jwk_import(one.data(), one.size(), &error));
    if (const absl::Status added = Add(std::move(key)); !added.ok()) return failed(added.message());
  }
  return absl::OkStatus();
}

bool IssuerKeys::Verify(const std::string& token,
                        Algorithm algorithm,
                        absl::string_view kid) const {
  cjose_err error;
  const Owned<cjose_jws_t> parsed(cjose_jws_import(token.data(), token.size(), &error));
  if (parsed == nullptr) return false;
  for (const Key& key : keys_) {
    if (!kid.empty() && !key.kid.empty() && key.kid != kid) continue;
    if (key.algorithm.has_value() && *key.algorithm != algorithm) continue;
    if (!Fits(key.key.get(), algorithm)) continue;
    if (cjose_jws_verify(parsed.get(), key.key.get(), &error)) return true;
  }
  return false;
}

}  // namespace lethe::access
