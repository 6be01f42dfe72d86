// What the tests of the gRPC layer share: a service behind a server, and stubs on a channel to it.
#ifndef LETHE_TESTS_SERVER_RPC_TESTING_H_
#define LETHE_TESTS_SERVER_RPC_TESTING_H_

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "lethe/v1/certificate_service.grpc.pb.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "server/rpc/server.h"
#include "tests/server/service_testing.h"

namespace lethe::rpc {

// A context that ends a call that hangs.
class Context : public grpc::ClientContext {
 public:
  Context() { set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30)); }
};

template <typename Request, typename Response, typename Stub, typename Method>
grpc::Status Call(Stub& stub, Method method, const Request& request, Response* response) {
  Context context;
  return (stub.*method)(&context, request, response);
}

MATCHER(RpcOk, "") {
  *result_listener << arg.error_code() << ": " << arg.error_message();
  return arg.ok();
}

MATCHER_P2(RpcFails, code, field, "") {
  *result_listener << arg.error_code() << ": " << arg.error_message();
  return arg.error_code() == code && arg.error_message().rfind(absl::StrCat(field, ":"), 0) == 0;
}

MATCHER_P(RpcCode, code, "") {
  *result_listener << arg.error_code() << ": " << arg.error_message();
  return arg.error_code() == code;
}

// Tenant "t" with memory "m" (rbf, capacity 3, keys in R^2, values in R^1) behind a server on a
// port that the kernel chose.
class RpcTest : public testing::Test {
 protected:
  RpcTest() {
    google::protobuf::SetLogHandler(nullptr);  // some tests send text that is no UTF-8
    harness_.MakeMemory("m");
    StartServer({});
  }

  void StartServer(ServerOptions options) {
    server_.reset();
    options.listen = "127.0.0.1:0";
    auto started = RpcServer::Start(&*harness_, options);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    tenants_ = v1::TenantService::NewStub(channel_);
    memories_ = v1::MemoryService::NewStub(channel_);
    certificates_ = v1::CertificateService::NewStub(channel_);
  }

  static v1::InsertRequest InsertOf(int count, const std::string& prefix = "a") {
    v1::InsertRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    Fill(service::Spiral(count, prefix), request.mutable_tokens());
    return request;
  }

  template <typename Repeated>
  static void Fill(const std::vector<service::TokenInput>& tokens, Repeated* out) {
    for (const service::TokenInput& token : tokens) {
      v1::Token* added = out->Add();
      added->set_id(token.id);
      added->mutable_key()->Add(token.key.begin(), token.key.end());
      added->mutable_value()->Add(token.value.begin(), token.value.end());
    }
  }

  // What an answer says once its keys are destroyed.
  template <typename Levels>
  static void ExpectDestroyedIn(const Levels& levels) {
    std::map<std::string, std::string> found;
    for (const v1::StoreLevel& level : levels) found[level.store()] = level.level();
    EXPECT_EQ(found.size(), static_cast<size_t>(levels.size())) << "each place once";
    EXPECT_EQ(found["tokens"], "rows-deleted");
    EXPECT_EQ(found["keys"], "key-destroyed");
    EXPECT_EQ(found["write-ahead-log"], "truncated");
    EXPECT_EQ(found["backups"], "unreadable-without-key");
    EXPECT_EQ(found["exports"], "no-token-content");
    EXPECT_EQ(found["memory"], "not-claimed");
    EXPECT_EQ(found.size(), 6u);
  }
  static void ExpectDestroyed(const v1::Destruction& destruction) {
    EXPECT_EQ(destruction.certificate_id().size(), 64u);
    ExpectDestroyedIn(destruction.stores());
  }

  service::Harness harness_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TenantService::Stub> tenants_;
  std::unique_ptr<v1::MemoryService::Stub> memories_;
  std::unique_ptr<v1::CertificateService::Stub> certificates_;
};

}  // namespace lethe::rpc

#endif  // LETHE_TESTS_SERVER_RPC_TESTING_H_
