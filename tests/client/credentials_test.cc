// Who a connection says it is, to whom, and what it refuses to send where.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/client.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "tests/server/access_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::client {
namespace {

using access::MakeCertificate;
using access::TestKey;
using access::WriteFile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Keeps the `authorization` of each call.
class Server final : public v1::TenantService::Service {
 public:
  explicit Server(std::shared_ptr<grpc::ServerCredentials> credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("localhost:0", std::move(credentials), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  grpc::Status ListTenants(grpc::ServerContext* context,
                           const v1::ListTenantsRequest*,
                           v1::ListTenantsResponse*) override {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string all;
    const auto [begin, end] = context->client_metadata().equal_range("authorization");
    for (auto header = begin; header != end; ++header) {
      absl::StrAppend(&all, std::string(header->second.data(), header->second.size()));
    }
    calls_.push_back(all);
    return grpc::Status::OK;
  }

  std::string address() const { return absl::StrCat("localhost:", port_); }
  std::vector<std::string> TakeCalls() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::vector<std::string> calls_;
};

absl::Status List(const Options& options) {
  return MakeConnection(options)->ListTenants({}).status();
}

class CredentialsTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  const TestKey authority_key_ = TestKey::P256();
  const std::string authority_ = MakeCertificate({.common_name = "authority", .authority = true},
                                                 authority_key_,
                                                 "",
                                                 authority_key_);
  service::TempDir folder_;
};

TEST_F(CredentialsTest, OnlyAddressesOfThisMachineAreLoopback) {
  for (const char* own : {"localhost:7421", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost",
                          "unix:/run/lethe", "127.0.0.1"}) {
    EXPECT_TRUE(IsLoopbackAddress(own)) << own;
  }
  for (const char* other : {"example.org:1", "10.0.0.1:1", "[::]:1", "0.0.0.0:1", "localhost.org:1",
                            "127.0.0.1.example.org:1", "dns:///localhost:1", "", "[::2]:1"}) {
    EXPECT_FALSE(IsLoopbackAddress(other)) << other;
  }
}

TEST_F(CredentialsTest, ATokenGoesWithEachCallAndOnlyWhereItIsSafe) {
  Server server(grpc::InsecureServerCredentials());
  EXPECT_TRUE(List({.address = server.address()}).ok());
  EXPECT_TRUE(List({.address = server.address(), .token = "secret-1"}).ok());
  EXPECT_THAT(server.TakeCalls(), ElementsAre("", "Bearer secret-1"));
  for (const char* elsewhere : {"example.org:7421", "10.0.0.1:7421"}) {
    const absl::Status refused =
        List({.address = elsewhere, .token = "secret-1", .max_attempts = 1});
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("token: is sent over TLS"));
    EXPECT_THAT(std::string(refused.message()), testing::Not(HasSubstr("secret-1")));
  }
  EXPECT_TRUE(Validate({.address = "example.org:1", .tls = TlsOptions{}, .token = "secret"}).ok());
  for (const char* bad : {"two words", "line\nfeed", " "}) {
    EXPECT_TRUE(absl::IsInvalidArgument(List({.address = server.address(), .token = bad}))) << bad;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      List({.address = server.address(), .token = "a", .token_file = "b"})));
  EXPECT_THAT(server.TakeCalls(), IsEmpty());
}

// Nothing goes in clear to whoever listens because a file of TLS is not there, whatever is asked.
TEST_F(CredentialsTest, WithoutTheFilesOfTlsNothingIsSent) {
  Server server(grpc::InsecureServerCredentials());
  const Options options = {
      .address = server.address(), .tls = TlsOptions{.ca_file = Path("absent")}, .max_attempts = 1};
  const auto connection = MakeConnection(options);
  EXPECT_TRUE(absl::IsInvalidArgument(connection->ListTenants({}).status()));
  const auto with = connection->With({.deadline = absl::Seconds(5)});
  EXPECT_TRUE(absl::IsInvalidArgument(with->ListTenants({}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(with->With({})->ListTenants({}).status()));
  absl::Status status;
  const auto stub = v1::TenantService::NewStub(MakeChannel(options, status));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  grpc::ClientContext context;
  v1::ListTenantsResponse response;
  EXPECT_FALSE(stub->ListTenants(&context, {}, &response).ok());
  EXPECT_THAT(server.TakeCalls(), IsEmpty());
}

TEST_F(CredentialsTest, AFileWithATokenIsReadAgain) {
  Server server(grpc::InsecureServerCredentials());
  WriteFile(Path("token"), "first\n");
  const auto connection =
      MakeConnection({.address = server.address(), .token_file = Path("token")});
  ASSERT_TRUE(connection->ListTenants({}).ok());
  EXPECT_THAT(server.TakeCalls(), ElementsAre("Bearer first"));
  WriteFile(Path("new"), "second\n");
  ASSERT_EQ(rename(Path("new").c_str(), Path("token").c_str()), 0);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  std::string seen;
  do {
    ASSERT_TRUE(connection->ListTenants({}).ok());
    seen = server.TakeCalls().back();
  } while (seen == "Bearer first" && absl::Now() < deadline);
  EXPECT_EQ(seen, "Bearer second");
  EXPECT_TRUE(
      absl::IsInvalidArgument(List({.address = server.address(), .token_file = Path("absent")})));
}

TEST_F(CredentialsTest, TlsTrustsWhomItIsTold) {
  const TestKey key = TestKey::P256();
  const grpc::SslServerCredentialsOptions::PemKeyCertPair pair{
      key.PrivatePem(),
      MakeCertificate({.dns = {"lethe.example.org"}}, key, authority_, authority_key_)};
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = authority_;
  options.pem_key_cert_pairs.push_back(pair);
  Server server(grpc::SslServerCredentials(options));
  WriteFile(Path("ca.pem"), authority_);
  const TestKey own = TestKey::P256();
  WriteFile(Path("own.key"), own.PrivatePem());
  WriteFile(Path("own.pem"), MakeCertificate({}, own, authority_, authority_key_));
  const TlsOptions good{.ca_file = Path("ca.pem"),
                        .certificate_file = Path("own.pem"),
                        .key_file = Path("own.key"),
                        .server_name = "lethe.example.org"};
  const auto list = [&](const TlsOptions& tls) {
    return List({.address = server.address(), .tls = tls, .token = "secret", .max_attempts = 1});
  };
  EXPECT_TRUE(list(good).ok()) << list(good);
  EXPECT_EQ(server.TakeCalls().back(), "Bearer secret");
  TlsOptions other = good;
  other.server_name = "other.example.org";
  EXPECT_TRUE(absl::IsUnavailable(list(other)));
  other = good;
  other.server_name.clear();
  EXPECT_TRUE(absl::IsUnavailable(list(other))) << "localhost is not its name";
  other = good;
  other.certificate_file.clear();
  other.key_file.clear();
  EXPECT_TRUE(absl::IsUnavailable(list(other)));
  other = good;
  const TestKey stranger = TestKey::P256();
  WriteFile(Path("stranger.pem"), MakeCertificate({.authority = true}, stranger, "", stranger));
  other.ca_file = Path("stranger.pem");
  EXPECT_TRUE(absl::IsUnavailable(list(other)));
  EXPECT_TRUE(absl::IsUnavailable(
      List({.address = server.address(), .token = "secret", .max_attempts = 1})));
  EXPECT_THAT(server.TakeCalls(), IsEmpty()) << "no token went to any of them";
  other = good;
  other.key_file.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(list(other)));
  other = good;
  other.ca_file = Path("absent");
  EXPECT_TRUE(absl::IsInvalidArgument(list(other)));
}

}  // namespace
}  // namespace lethe::client
