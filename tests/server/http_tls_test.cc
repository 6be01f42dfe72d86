// HTTPS: what is shown, what is asked for, and that files can be replaced while it runs.
#include "server/http/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/http/http_listener.h"
#include "tests/server/http_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using service::HasCode;
using service::IsOk;
using testing::HasSubstr;

class HttpTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.WriteCertificate(files_.certificate);
    server_.WriteKey(files_.key);
    authority_.WriteCertificate(folder_.path() + "/ca.pem");
  }
  void Serve() {
    absl::StatusOr<std::unique_ptr<TlsContext>> tls = TlsContext::Load(files_);
    ASSERT_THAT(tls, IsOk());
    tls_ = *std::move(tls);
    listener_ = std::make_unique<HttpListener>(HttpOptions{
        .host = "127.0.0.1", .timeout = std::chrono::milliseconds(1000), .tls = tls_.get()});
    listener_->routes().Add({.method = "GET",
                             .pattern = "/who",
                             .operation = "GET /openapi.json",
                             .handler = [](const HttpRequest& request, HttpCall&) {
                               return HttpResponse{
                                   .body = absl::StrCat(request.encrypted, request.certificate)};
                             }});
    ASSERT_THAT(listener_->Start(), IsOk());
  }
  // What the client trusts is the authority; it shows `shown`, if anything.
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> Client(const TestCertificate* shown = nullptr) {
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                              SSL_CTX_free);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority_.x509());
    if (shown != nullptr) {
      SSL_CTX_use_certificate(context.get(), shown->x509());
      SSL_CTX_use_PrivateKey(context.get(), shown->key());
    }
    return context;
  }
  // In TLS 1.3 a client learns with its first read that its certificate was refused.
  Page Who(SSL_CTX* context) {
    Wire wire(listener_->port());
    if (!wire.Encrypt(context)) return Page();
    wire.Send(RequestText("GET", "/who", {"Connection: close"}));
    return ParsePage(wire.ReceiveAll());
  }

  service::TempDir folder_;
  const TestCertificate authority_{"authority"};
  const TestCertificate server_{"localhost", &authority_};
  access::TlsFiles files_{.certificate = folder_.path() + "/server.pem",
                          .key = folder_.path() + "/key.pem",
                          .client_certificates_required = false};
  std::unique_ptr<TlsContext> tls_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpTlsTest, ServesTlsAlone) {
  Serve();
  const Page page = Who(Client().get());
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "1");
  EXPECT_EQ(page.headers.at("strict-transport-security"), "max-age=31536000");
  const auto old = Client();
  SSL_CTX_set_max_proto_version(old.get(), TLS1_1_VERSION);
  SSL_CTX_set_security_level(old.get(), 0);
  EXPECT_EQ(Who(old.get()).status, 0);
  const auto twelve = Client();
  SSL_CTX_set_max_proto_version(twelve.get(), TLS1_2_VERSION);
  EXPECT_EQ(Who(twelve.get()).status, 200);
  const auto http2 = Client();
  SSL_CTX_set_alpn_protos(http2.get(), reinterpret_cast<const unsigned char*>("\x02h2"), 3);
  EXPECT_EQ(Who(http2.get()).status, 0);
  EXPECT_EQ(Fetch(listener_->port(), "GET", "/who").status, 0);
  // A handshake that does not go on ends, and holds nobody up.
  Wire silent(listener_->port());
  EXPECT_EQ(Who(Client().get()).status, 200);
  EXPECT_EQ(silent.ReceiveAll(), "");
  EXPECT_TRUE(silent.ended());
}

TEST_F(HttpTlsTest, ClientCertificatesAreChecked) {
  const TestCertificate client("app-1.example", &authority_);
  const TestCertificate expired("app-1.example", &authority_, -10);
  const TestCertificate other_authority("authority");
  const TestCertificate stranger("app-1.example", &other_authority);
  files_.client_ca = folder_.path() + "/ca.pem";
  Serve();
  EXPECT_EQ(Who(Client().get()).body, "1");
  const Page known = Who(Client(&client).get());
  EXPECT_THAT(known.body, HasSubstr("-----BEGIN CERTIFICATE-----"));
  // Who shows a bad one is not served as if he had shown none.
  EXPECT_EQ(Who(Client(&expired).get()).status, 0);
  EXPECT_EQ(Who(Client(&stranger).get()).status, 0);
  listener_.reset();
  files_.client_certificates_required = true;
  Serve();
  EXPECT_EQ(Who(Client().get()).status, 0);
  EXPECT_EQ(Who(Client(&client).get()).status, 200);
}

TEST_F(HttpTlsTest, FilesAreReplacedWhileItRuns) {
  Serve();
  Wire before(listener_->port());
  const auto first = Client();
  ASSERT_TRUE(before.Encrypt(first.get()));
  EXPECT_THAT(tls_->ReloadIfChanged(), IsOk());
  const TestCertificate next_authority("next");
  const TestCertificate next("localhost", &next_authority);
  next.WriteCertificate(files_.certificate);
  // The key is still the old one: everything stays as it was.
  EXPECT_THAT(tls_->ReloadIfChanged(), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Who(Client().get()).status, 200);
  EXPECT_FALSE(*tls_->ReloadIfChanged());  // and it was said once
  next.WriteKey(files_.key);
  EXPECT_TRUE(*tls_->ReloadIfChanged());
  EXPECT_EQ(Who(Client().get()).status, 0);
  const auto second = Client();
  X509_STORE_add_cert(SSL_CTX_get_cert_store(second.get()), next_authority.x509());
  EXPECT_EQ(Who(second.get()).status, 200);
  before.Send(RequestText("GET", "/who"));
  EXPECT_EQ(before.ReceivePage().status, 200);
}

TEST_F(HttpTlsTest, BadFilesAreNamed) {
  const auto load = [this] { return TlsContext::Load(files_).status(); };
  const access::TlsFiles good = files_;
  files_.certificate = folder_.path() + "/missing.pem";
  EXPECT_THAT(std::string(load().message()), HasSubstr("missing.pem: cannot open it"));
  files_ = good;
  files_.certificate = good.key;
  EXPECT_THAT(std::string(load().message()), HasSubstr("key.pem: no certificate in PEM"));
  files_ = good;
  files_.key = good.certificate;
  EXPECT_THAT(std::string(load().message()), HasSubstr("server.pem: no private key in PEM"));
  files_ = good;
  authority_.WriteKey(files_.key);
  EXPECT_THAT(std::string(load().message()), HasSubstr("key.pem: is not the key"));
  server_.WriteKey(files_.key);
  std::ofstream(files_.certificate, std::ios::app) << "-----BEGIN CERTIFICATE-----\nabc\n";
  EXPECT_THAT(std::string(load().message()), HasSubstr("or a broken one"));
}

}  // namespace
}  // namespace lethe::http
