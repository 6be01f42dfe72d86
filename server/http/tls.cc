#include "server/http/tls.h"

#include <openssl/x509.h>

#include <utility>
#include <vector>

#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "server/access/guarded_file.h"
#include "server/http/pem.h"

namespace lethe::http {
namespace {

// The answer to a client that names its protocols.
int ChooseHttp(SSL*,
               const unsigned char** chosen,
               unsigned char* length,
               const unsigned char* offered,
               unsigned int offered_length,
               void*) {
  static constexpr unsigned char kHttp[] = "\x08http/1.1";
  unsigned char* out = nullptr;
  if (SSL_select_next_proto(&out, length, kHttp, sizeof kHttp - 1, offered, offered_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = out;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

struct TlsContext::Contents {
  std::string certificate;
  std::string key;
  std::string client_ca;

  std::string Fingerprint() const {
    std::string all;
    for (const std::string* bytes : {&certificate, &key, &client_ca}) {
      all += std::string(audit::AsBytes(audit::Sha256(*bytes)));
    }
    return all;
  }
};

absl::StatusOr<TlsContext::Contents> TlsContext::Read() const {
  using access::ReadGuardedFile;
  using access::Secrecy;
  Contents contents;
  LETHE_ASSIGN_OR_RETURN(contents.certificate,
                         ReadGuardedFile(files_.certificate, kMaxPemBytes, Secrecy::kPublic));
  LETHE_ASSIGN_OR_RETURN(contents.key,
                         ReadGuardedFile(files_.key, kMaxPemBytes, Secrecy::kPrivate));
  if (!files_.client_ca.empty()) {
    LETHE_ASSIGN_OR_RETURN(contents.client_ca,
                           ReadGuardedFile(files_.client_ca, kMaxPemBytes, Secrecy::kPublic));
  }
  return contents;
}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Load(access::TlsFiles files) {
  std::unique_ptr<TlsContext> tls(new TlsContext(std::move(files)));
  LETHE_RETURN_IF_ERROR(tls->Reload());
  return tls;
}

absl::Status TlsContext::Reload() {
  LETHE_ASSIGN_OR_RETURN(const Contents contents, Read());
  return Use(contents);
}

absl::StatusOr<bool> TlsContext::ReloadIfChanged() {
  LETHE_ASSIGN_OR_RETURN(const Contents contents, Read());
  {
    MutexLock lock(mutex_);
    if (fingerprint_ == contents.Fingerprint()) return false;
  }
  LETHE_RETURN_IF_ERROR(Use(contents));
  return true;
}

std::shared_ptr<SSL_CTX> TlsContext::current() const {
  MutexLock lock(mutex_);
  return current_;
}

absl::Status TlsContext::Use(const Contents& contents) {
  {
    MutexLock lock(mutex_);
    fingerprint_ = contents.Fingerprint();
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                         ParseCertificates(files_.certificate, contents.certificate));
  LETHE_ASSIGN_OR_RETURN(const Key key, ParsePrivateKey(files_.key, contents.key));

  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("TLS: no memory for a context");
  SSL_CTX* ssl = context.get();
  SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
  SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ssl, 0);
  SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(ssl, ChooseHttp, nullptr);
  if (SSL_CTX_use_certificate(ssl, chain.front().get()) != 1) {
    return WrongPem(files_.certificate, "its first certificate cannot be used for TLS");
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(ssl, chain[i].get()) != 1) {
      return WrongPem(files_.certificate, "its chain cannot be used");
    }
  }
  if (SSL_CTX_use_PrivateKey(ssl, key.get()) != 1 || SSL_CTX_check_private_key(ssl) != 1) {
    return WrongPem(files_.key, "is not the key of the certificate");
  }
  if (!files_.client_ca.empty()) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<Certificate> authorities,
                           ParseCertificates(files_.client_ca, contents.client_ca));
    for (const Certificate& authority : authorities) {
      if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), authority.get()) != 1 ||
          SSL_CTX_add_client_CA(ssl, authority.get()) != 1) {
        return WrongPem(files_.client_ca, "holds a certificate that cannot be used");
      }
    }
    SSL_CTX_set_verify(
        ssl,
        SSL_VERIFY_PEER |
            (files_.client_certificates_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        nullptr);
  }
  MutexLock lock(mutex_);
  current_ = context;
  return absl::OkStatus();
}

}  // namespace lethe::http
