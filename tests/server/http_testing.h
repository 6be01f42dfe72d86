// Speaking HTTP with bytes of our own, so that what no client library would send can be sent.
#ifndef LETHE_TESTS_SERVER_HTTP_TESTING_H_
#define LETHE_TESTS_SERVER_HTTP_TESTING_H_

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lethe::http {

struct Page {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};
// The first answer in the bytes; what follows it goes to `rest`.
Page ParsePage(const std::string& bytes, std::string* rest = nullptr);

// A connection to 127.0.0.1 that waits at most ten seconds for anything.
class Wire {
 public:
  explicit Wire(uint16_t port);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Everything from here on in TLS; false when the handshake fails. `context` decides what is
  // trusted and shown.
  bool Encrypt(SSL_CTX* context);
  // False when the other side is gone.
  bool Send(const std::string& bytes);
  void FinishSending();
  // What comes next; empty at the end, after a reset and when nothing comes.
  std::string Receive();
  std::string ReceiveAll();
  // One answer, with its body.
  Page ReceivePage();
  // The last call came to the end of the connection, or to a reset.
  bool ended() const { return ended_; }

 private:
  int fd_ = -1;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  std::string pending_;
  bool ended_ = false;
};

// A key of P-256 with a certificate for a DNS name, signed by another or, as an authority, by
// itself.
class TestCertificate {
 public:
  explicit TestCertificate(const std::string& name,
                           const TestCertificate* issuer = nullptr,
                           int days = 30);
  X509* x509() const { return certificate_.get(); }
  EVP_PKEY* key() const { return key_.get(); }
  void WriteCertificate(const std::string& path) const;
  void WriteKey(const std::string& path) const;

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> certificate_;
};

// "METHOD PATH HTTP/1.1" with Host, the headers ("Name: value") and the body, if any, with its
// length.
std::string RequestText(const std::string& method,
                        const std::string& path,
                        const std::vector<std::string>& headers = {},
                        const std::string& body = "");

// One request on a connection of its own.
Page Fetch(uint16_t port,
           const std::string& method,
           const std::string& path,
           const std::vector<std::string>& headers = {},
           const std::string& body = "");

}  // namespace lethe::http

#endif  // LETHE_TESTS_SERVER_HTTP_TESTING_H_
