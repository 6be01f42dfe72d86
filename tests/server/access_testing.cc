#include "tests/server/access_testing.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"

namespace lethe::access {
namespace {

using nlohmann::json;

std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string Number(const EVP_PKEY* key, const char* name, size_t size) {
  BIGNUM* number = nullptr;
  LETHE_CHECK(EVP_PKEY_get_bn_param(key, name, &number) == 1);
  std::string bytes(size == 0 ? static_cast<size_t>(BN_num_bytes(number)) : size, '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()),
               static_cast<int>(bytes.size()));
  BN_free(number);
  return bytes;
}

// r and s side by side, of what OpenSSL writes as ASN.1.
std::string RawEcdsa(const std::string& der, size_t size) {
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &begin, static_cast<long>(der.size()));
  LETHE_CHECK(signature != nullptr);
  std::string raw(2 * size, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), out, static_cast<int>(size));
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), out + size, static_cast<int>(size));
  ECDSA_SIG_free(signature);
  return raw;
}

}  // namespace

void WriteFile(const std::string& path, absl::string_view text, int mode) {
  {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    ASSERT_TRUE(out.good()) << path;
  }
  ASSERT_EQ(chmod(path.c_str(), static_cast<mode_t>(mode)), 0) << path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string Base64Url(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

// The library takes the name of the curve as text that it might change.
TestKey TestKey::P256() {
  char curve[] = "P-256";
  return TestKey(EVP_EC_gen(curve));
}
TestKey TestKey::P384() {
  char curve[] = "P-384";
  return TestKey(EVP_EC_gen(curve));
}
TestKey TestKey::Rsa(unsigned bits) { return TestKey(EVP_RSA_gen(bits)); }

std::string TestKey::PublicPem() const {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PUBKEY(bio, get());
  return TakeText(bio);
}

std::string TestKey::PrivatePem() const {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, get(), nullptr, nullptr, 0, nullptr, nullptr);
  return TakeText(bio);
}

json TestKey::Jwk(const std::string& kid) const {
  json jwk = {{"kid", kid}, {"use", "sig"}};
  if (EVP_PKEY_is_a(get(), "RSA")) {
    jwk["kty"] = "RSA";
    jwk["n"] = Base64Url(Number(get(), OSSL_PKEY_PARAM_RSA_N, 0));
    jwk["e"] = Base64Url(Number(get(), OSSL_PKEY_PARAM_RSA_E, 0));
    return jwk;
  }
  const size_t size = static_cast<size_t>(EVP_PKEY_get_bits(get()) + 7) / 8;
  jwk["kty"] = "EC";
  jwk["crv"] = absl::StrCat("P-", EVP_PKEY_get_bits(get()));
  jwk["x"] = Base64Url(Number(get(), OSSL_PKEY_PARAM_EC_PUB_X, size));
  jwk["y"] = Base64Url(Number(get(), OSSL_PKEY_PARAM_EC_PUB_Y, size));
  return jwk;
}

std::string TestKey::Sign(absl::string_view alg, absl::string_view bytes) const {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_PKEY_CTX* options = nullptr;
  const EVP_MD* digest = alg == "ES384" ? EVP_sha384() : EVP_sha256();
  LETHE_CHECK(EVP_DigestSignInit(context, &options, digest, nullptr, get()) == 1);
  if (alg == "PS256") {
    LETHE_CHECK(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1);
    LETHE_CHECK(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1);
  }
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t size = 0;
  LETHE_CHECK(EVP_DigestSign(context, nullptr, &size, data, bytes.size()) == 1);
  std::string signature(size, '\0');
  LETHE_CHECK(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                             data, bytes.size()) == 1);
  signature.resize(size);
  EVP_MD_CTX_free(context);
  if (!EVP_PKEY_is_a(get(), "EC")) return signature;
  return RawEcdsa(signature, static_cast<size_t>(EVP_PKEY_get_bits(get()) + 7) / 8);
}

std::string JwtOfText(absl::string_view header,
                      absl::string_view claims,
                      absl::string_view alg,
                      const TestKey& key) {
  const std::string input = absl::StrCat(Base64Url(header), ".", Base64Url(claims));
  return absl::StrCat(input, ".", Base64Url(key.Sign(alg, input)));
}

std::string Jwt(const json& header, const json& claims, const TestKey& key) {
  return JwtOfText(header.dump(), claims.dump(), header.at("alg").get<std::string>(), key);
}

std::string MakeCertificate(const CertificateSpec& spec,
                            const TestKey& key,
                            absl::string_view authority_pem,
                            const TestKey& authority_key) {
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  static long serial = 1;
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  const absl::Time from = spec.from == absl::UnixEpoch() ? absl::Now() - absl::Hours(1) : spec.from;
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(from));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(from + spec.lifetime));
  X509_set_pubkey(certificate, key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(spec.common_name.c_str()), -1,
                             -1, 0);
  X509* authority = nullptr;
  if (!authority_pem.empty()) {
    BIO* bio = BIO_new_mem_buf(authority_pem.data(), static_cast<int>(authority_pem.size()));
    authority = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
  }
  X509* issuer = authority == nullptr ? certificate : authority;
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const auto add = [&](int kind, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    LETHE_CHECK(extension != nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  };
  add(NID_basic_constraints, spec.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  std::string names;
  for (const std::string& dns : spec.dns) {
    absl::StrAppend(&names, names.empty() ? "" : ",", "DNS:", dns);
  }
  for (const std::string& uri : spec.uris) {
    absl::StrAppend(&names, names.empty() ? "" : ",", "URI:", uri);
  }
  if (!names.empty()) add(NID_subject_alt_name, names);
  LETHE_CHECK(X509_sign(certificate, authority_key.get(), EVP_sha256()) != 0);
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  X509_free(certificate);
  X509_free(authority);
  return TakeText(bio);
}

}  // namespace lethe::access
