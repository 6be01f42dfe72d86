#include "tests/server/http_testing.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lethe::http {

Page ParsePage(const std::string& bytes, std::string* rest) {
  Page page;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) return page;
  const std::vector<std::string> lines = absl::StrSplit(bytes.substr(0, end), "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  EXPECT_TRUE(first.size() > 1 && absl::SimpleAtoi(first[1], &page.status)) << lines[0];
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> header = absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
    if (header.size() == 2) page.headers[absl::AsciiStrToLower(header[0])] = header[1];
  }
  size_t length = bytes.size();
  if (const auto found = page.headers.find("content-length"); found != page.headers.end()) {
    EXPECT_TRUE(absl::SimpleAtoi(found->second, &length)) << found->second;
  }
  page.body = bytes.substr(end + 4, length);
  if (rest != nullptr) *rest = bytes.substr(end + 4 + page.body.size());
  return page;
}

Wire::Wire(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr generic{};
  static_assert(sizeof generic == sizeof address);
  memcpy(&generic, &address, sizeof address);
  EXPECT_EQ(connect(fd_, &generic, sizeof generic), 0) << strerror(errno);
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Wire::~Wire() {
  ssl_.reset();
  close(fd_);
}

bool Wire::Encrypt(SSL_CTX* context) {
  ssl_.reset(SSL_new(context));
  SSL_set_fd(ssl_.get(), fd_);
  char name[] = "localhost";
  SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name);
  return SSL_connect(ssl_.get()) == 1;
}

bool Wire::Send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const char* from = bytes.data() + sent;
    const size_t left = bytes.size() - sent;
    const ssize_t n = ssl_ != nullptr ? SSL_write(ssl_.get(), from, static_cast<int>(left))
                                      : send(fd_, from, left, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

void Wire::FinishSending() { shutdown(fd_, SHUT_WR); }

std::string Wire::Receive() {
  char buffer[16384];
  const ssize_t n = ssl_ != nullptr ? SSL_read(ssl_.get(), buffer, sizeof buffer)
                                    : recv(fd_, buffer, sizeof buffer, 0);
  if (n > 0) return std::string(buffer, static_cast<size_t>(n));
  ended_ = ssl_ != nullptr || n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  return "";
}

std::string Wire::ReceiveAll() {
  std::string all = std::move(pending_);
  pending_.clear();
  while (true) {
    const std::string next = Receive();
    if (next.empty()) return all;
    all += next;
  }
}

Page Wire::ReceivePage() {
  while (true) {
    const size_t end = pending_.find("\r\n\r\n");
    if (end != std::string::npos) {
      std::string rest;
      Page page = ParsePage(pending_, &rest);
      const auto length = page.headers.find("content-length");
      if (length == page.headers.end() || length->second == absl::StrCat(page.body.size())) {
        pending_ = rest;
        return page;
      }
    }
    const std::string next = Receive();
    if (next.empty()) return Page();
    pending_ += next;
  }
}

namespace {
int serial = 0;

EVP_PKEY* NewKey() {
  char curve[] = "P-256";  // the library takes it as text that it might change
  return EVP_EC_gen(curve);
}
}  // namespace

TestCertificate::TestCertificate(const std::string& name, const TestCertificate* issuer, int days)
    : key_(NewKey(), EVP_PKEY_free), certificate_(X509_new(), X509_free) {
  X509* x = certificate_.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600 * 24 * 40);
  X509_gmtime_adj(X509_getm_notAfter(x), 3600L * 24 * days);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name((issuer == nullptr ? *this : *issuer).x509()));
  X509_set_pubkey(x, key_.get());
  X509V3_CTX context;
  X509V3_set_ctx(&context, (issuer == nullptr ? *this : *issuer).x509(), x, nullptr, nullptr, 0);
  for (const auto& [id, value] :
       {std::pair<int, std::string>(NID_basic_constraints,
                                    issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE"),
        {NID_subject_alt_name, absl::StrCat("DNS:", name)}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(x, (issuer == nullptr ? *this : *issuer).key(), EVP_sha256());
}

void TestCertificate::WriteCertificate(const std::string& path) const {
  FILE* file = fopen(path.c_str(), "w");
  PEM_write_X509(file, x509());
  fclose(file);
}

void TestCertificate::WriteKey(const std::string& path) const {
  FILE* file = fopen(path.c_str(), "w");
  fchmod(fileno(file), 0600);
  PEM_write_PrivateKey(file, key(), nullptr, nullptr, 0, nullptr, nullptr);
  fclose(file);
}

std::string RequestText(const std::string& method,
                        const std::string& path,
                        const std::vector<std::string>& headers,
                        const std::string& body) {
  std::string text = absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n");
  for (const std::string& header : headers) absl::StrAppend(&text, header, "\r\n");
  if (!body.empty()) absl::StrAppend(&text, "Content-Length: ", body.size(), "\r\n");
  return absl::StrCat(text, "\r\n", body);
}

Page Fetch(uint16_t port,
           const std::string& method,
           const std::string& path,
           const std::vector<std::string>& headers,
           const std::string& body) {
  Wire wire(port);
  std::vector<std::string> all = headers;
  all.emplace_back("Connection: close");
  wire.Send(RequestText(method, path, all, body));
  return ParsePage(wire.ReceiveAll());
}

}  // namespace lethe::http
