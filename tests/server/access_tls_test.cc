// TLS and client certificates, against a server on a port: who gets a connection, whom the server
// takes a caller for, and what happens when files change under it.
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "audit/bearer_token.h"
#include "audit/encoding.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "server/access/access.h"
#include "server/access/gate.h"
#include "server/access/tls_files.h"
#include "server/rpc/server.h"
#include "server/rpc/tls.h"
#include "tests/server/access_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::rpc {
namespace {

using access::CertificateSpec;
using access::CheckTlsFiles;
using access::MakeCertificate;
using access::TestKey;
using access::TlsFiles;
using access::WriteFile;
using service::IsOk;
using testing::HasSubstr;

// A certificate authority.
struct Authority {
  explicit Authority(const std::string& name)
      : pem(MakeCertificate({.common_name = name, .authority = true}, key, "", key)) {}
  std::string Issue(const CertificateSpec& spec, const TestKey& of) const {
    return MakeCertificate(spec, of, pem, key);
  }
  TestKey key = TestKey::P256();
  std::string pem;
};

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    // Refused handshakes are what is tested; a line for each tells nobody anything.
    gpr_set_log_function([](gpr_log_func_args*) {});
    files_ = {.certificate = Path("server.pem"),
              .key = Path("server.key"),
              .client_ca = Path("clients.pem")};
    WriteServer(servers_);
    WriteFile(files_.client_ca, clients_.pem);
    WriteFile(Path("access.toml"),
              absl::StrCat("[[certificate]]\nname = \"app-1\"\nuri = \"spiffe://example.org/app\"\n"
                           "grants = [\"t:app\"]\n"
                           "[[token]]\nname = \"app-2\"\nsha256 = \"",
                           audit::Hex(audit::DigestOfToken(token_)), "\"\ngrants = [\"*:app\"]\n"));
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  // Replaced by renaming, as docs/access.md says.
  void WriteServer(const Authority& authority) {
    const TestKey key = TestKey::P256();
    WriteFile(Path("new.key"), key.PrivatePem());
    WriteFile(Path("new.pem"), authority.Issue({.dns = {"localhost"}}, key));
    ASSERT_EQ(rename(Path("new.key").c_str(), files_.key.c_str()), 0);
    ASSERT_EQ(rename(Path("new.pem").c_str(), files_.certificate.c_str()), 0);
  }

  void Start() {
    ASSERT_THAT(CheckTlsFiles(files_), IsOk());
    auto access = access::Access::Open(Path("access.toml"));
    ASSERT_THAT(access, IsOk());
    access_ = *std::move(access);
    gate_ = std::make_unique<access::Gate>(access_.get(), nullptr, nullptr);
    ServerOptions options;
    options.listen = "localhost:0";
    options.hooks.gate = gate_.get();
    options.credentials = TlsCredentials(files_);
    auto server = RpcServer::Start(&*harness_, options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }

  // A connection of its own; empty certificate: none is shown.
  std::unique_ptr<v1::TenantService::Stub> Connect(const std::string& trusted,
                                                   const std::string& certificate,
                                                   const TestKey& key) const {
    const grpc::SslCredentialsOptions options{
        .pem_root_certs = trusted,
        .pem_private_key = certificate.empty() ? "" : key.PrivatePem(),
        .pem_cert_chain = certificate};
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::TenantService::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("localhost:", server_->port()), grpc::SslCredentials(options), arguments));
  }

  static grpc::Status Get(v1::TenantService::Stub& stub, const std::string& token = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    v1::GetTenantRequest request;
    request.set_name("t");
    v1::Tenant response;
    return stub.GetTenant(&context, request, &response);
  }

  grpc::StatusCode CodeWith(const std::string& certificate,
                            const TestKey& key,
                            const std::string& token = "") const {
    return Get(*Connect(servers_.pem, certificate, key), token).error_code();
  }

  const CertificateSpec app_{.uris = {"spiffe://example.org/app"}};
  const Authority servers_{"servers"};
  const Authority clients_{"clients"};
  const Authority others_{"others"};
  const TestKey key_ = TestKey::P256();
  const std::string token_ = audit::NewBearerToken();
  service::TempDir folder_;
  TlsFiles files_;
  service::Harness harness_;
  std::unique_ptr<access::Access> access_;
  std::unique_ptr<access::Gate> gate_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(TlsTest, ACertificateOfTheClientCaIsRequiredAndKnownByItsName) {
  Start();
  EXPECT_EQ(CodeWith(clients_.Issue(app_, key_), key_), grpc::StatusCode::OK);
  EXPECT_EQ(CodeWith(clients_.Issue({.uris = {"spiffe://example.org/other"}}, key_), key_),
            grpc::StatusCode::UNAUTHENTICATED);
  // A token beside it counts before it.
  EXPECT_EQ(CodeWith(clients_.Issue(app_, key_), key_, audit::NewBearerToken()),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CodeWith(clients_.Issue({.dns = {"anybody"}}, key_), key_, token_),
            grpc::StatusCode::OK);
  // No connection.
  EXPECT_EQ(CodeWith("", key_), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeWith("", key_, token_), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeWith(others_.Issue(app_, key_), key_), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeWith(servers_.Issue(app_, key_), key_), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeWith(MakeCertificate(app_, key_, "", key_), key_), grpc::StatusCode::UNAVAILABLE);
  CertificateSpec expired = app_;
  expired.from = absl::Now() - absl::Hours(48);
  EXPECT_EQ(CodeWith(clients_.Issue(expired, key_), key_), grpc::StatusCode::UNAVAILABLE);
  CertificateSpec later = app_;
  later.from = absl::Now() + absl::Hours(24);
  EXPECT_EQ(CodeWith(clients_.Issue(later, key_), key_), grpc::StatusCode::UNAVAILABLE);
  // The client looks at the server's, too; and nothing is spoken in clear.
  EXPECT_EQ(Get(*Connect(others_.pem, clients_.Issue(app_, key_), key_)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  const auto clear = v1::TenantService::NewStub(grpc::CreateChannel(
      absl::StrCat("localhost:", server_->port()), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(Get(*clear, token_).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, WhereACertificateIsOptionalATokenDoes) {
  files_.client_certificates_required = false;
  Start();
  EXPECT_EQ(CodeWith("", key_, token_), grpc::StatusCode::OK);
  EXPECT_EQ(CodeWith("", key_), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CodeWith(clients_.Issue(app_, key_), key_), grpc::StatusCode::OK);
  EXPECT_EQ(CodeWith(others_.Issue(app_, key_), key_, token_), grpc::StatusCode::UNAVAILABLE)
      << "one that is shown is looked at";
}

TEST_F(TlsTest, WithoutAClientCaACertificateMakesNobody) {
  files_.client_ca.clear();
  Start();
  EXPECT_EQ(CodeWith("", key_, token_), grpc::StatusCode::OK);
  EXPECT_EQ(CodeWith(MakeCertificate(app_, key_, "", key_), key_),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TlsTest, FilesThatChangeAreTakenWhileClientsAreConnected) {
  Start();
  const std::string certificate = clients_.Issue(app_, key_);
  const auto connected = Connect(servers_.pem, certificate, key_);
  ASSERT_TRUE(Get(*connected).ok());

  // A new certificate of another authority, for new connections.
  const Authority next("next");
  WriteServer(next);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  grpc::Status status;
  do {
    status = Get(*Connect(next.pem, certificate, key_));
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Get(*Connect(servers_.pem, certificate, key_)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Get(*connected).ok()) << "what is open stays open";

  // A new authority of clients.
  WriteFile(Path("new.pem"), others_.pem);
  ASSERT_EQ(rename(Path("new.pem").c_str(), files_.client_ca.c_str()), 0);
  const std::string of_others = others_.Issue(app_, key_);
  do {
    status = Get(*Connect(next.pem, of_others, key_));
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Get(*Connect(next.pem, certificate, key_)).error_code(), grpc::StatusCode::UNAVAILABLE);

  // A new access file counts at once, on connections that are open too.
  WriteFile(Path("access.toml"), "");
  ASSERT_THAT(access_->Reload(), IsOk());
  EXPECT_EQ(Get(*connected).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  const auto wrong = [&](const TlsFiles& files) {
    return std::string(CheckTlsFiles(files).message());
  };
  EXPECT_THAT(CheckTlsFiles(files_), IsOk());
  EXPECT_THAT(CheckTlsFiles({}), IsOk());
  TlsFiles files = files_;
  files.certificate = Path("absent");
  EXPECT_THAT(wrong(files), HasSubstr("--tls-certificate: "));
  files = files_;
  WriteFile(Path("other.key"), TestKey::P256().PrivatePem());
  files.key = Path("other.key");
  EXPECT_THAT(wrong(files), HasSubstr("is not the key of"));
  ASSERT_EQ(chmod(files.key.c_str(), 0644), 0);
  EXPECT_THAT(wrong(files), HasSubstr("others can read it"));
  WriteFile(Path("text"), "text");
  files = files_;
  files.key = Path("text");
  EXPECT_THAT(wrong(files), HasSubstr("--tls-key: "));
  files = files_;
  files.client_ca = Path("text");
  EXPECT_THAT(wrong(files), HasSubstr("--tls-client-ca: "));
  WriteFile(Path("torn"),
            access::ReadFile(files_.certificate) + "-----BEGIN CERTIFICATE-----\nAA\n");
  files = files_;
  files.certificate = Path("torn");
  EXPECT_THAT(wrong(files), HasSubstr("cannot be read"));
  CertificateSpec expired{.dns = {"localhost"}};
  expired.from = absl::Now() - absl::Hours(48);
  WriteFile(Path("expired"), servers_.Issue(expired, key_));
  WriteFile(Path("expired.key"), key_.PrivatePem());
  files = {.certificate = Path("expired"), .key = Path("expired.key")};
  EXPECT_THAT(wrong(files), HasSubstr("has expired"));
}

}  // namespace
}  // namespace lethe::rpc
