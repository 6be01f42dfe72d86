// Hedged reads, options of single calls and streams of queries over a real socket.
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"

namespace lethe::client {
namespace {

using ::testing::HasSubstr;

// Waits until the caller gives up; false when that took too long.
bool WaitForCancel(grpc::ServerContext& context) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!context.IsCancelled()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// The first call of each kind hangs while `hangs`.
class SlowTenants : public v1::TenantService::Service {
 public:
  grpc::Status GetTenant(grpc::ServerContext* context,
                         const v1::GetTenantRequest* request,
                         v1::Tenant* tenant) override {
    if (gets++ == 0 && hangs) {
      cancelled = WaitForCancel(*context);
      return grpc::Status::CANCELLED;
    }
    tenant->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status CreateTenant(grpc::ServerContext*,
                            const v1::CreateTenantRequest* request,
                            v1::Tenant* tenant) override {
    ++creates;
    absl::SleepFor(absl::Milliseconds(50));  // longer than the hedge waits
    tenant->set_name(request->name());
    return grpc::Status::OK;
  }

  std::atomic<bool> hangs{true};
  std::atomic<bool> cancelled{false};
  std::atomic<int> gets{0};
  std::atomic<int> creates{0};
};

// Answers with the first number of each query; ends each stream after `answers`.
class EchoMemories : public v1::MemoryService::Service {
 public:
  grpc::Status QueryStream(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::QueryResponse, v1::QueryRequest>* stream) override {
    ++streams;
    v1::QueryRequest request;
    for (int i = 0; stream->Read(&request); ++i) {
      if (request.memory() != "m") return {grpc::StatusCode::NOT_FOUND, "memory: not found"};
      if (i == answers) return {grpc::StatusCode::UNAVAILABLE, "restart"};
      v1::QueryResponse response;
      for (const v1::Vector& query : request.queries()) {
        response.add_results()->add_readout(query.values(0));
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  std::atomic<int> streams{0};
  int answers = 1'000'000;
};

class GrpcPoliciesTest : public testing::Test {
 protected:
  GrpcPoliciesTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&tenants_);
    builder.RegisterService(&memories_);
    server_ = builder.BuildAndStart();
    options_.address = absl::StrCat("127.0.0.1:", port);
    options_.initial_backoff = options_.max_backoff = absl::Milliseconds(1);
  }
  ~GrpcPoliciesTest() override { server_->Shutdown(); }

  SlowTenants tenants_;
  EchoMemories memories_;
  std::unique_ptr<grpc::Server> server_;
  Options options_;
};

TEST_F(GrpcPoliciesTest, ASlowReadIsAskedTwiceAndTheSlowOneIsCancelled) {
  options_.hedge_after = absl::Milliseconds(10);
  Client client(MakeConnection(options_));
  const absl::StatusOr<Tenant> tenant = client.GetTenant("t");
  ASSERT_TRUE(tenant.ok()) << tenant.status();
  EXPECT_EQ(tenant->name, "t");
  EXPECT_EQ(tenants_.gets, 2);
  server_->Shutdown();  // waits for the handlers
  EXPECT_TRUE(tenants_.cancelled);
}

TEST_F(GrpcPoliciesTest, WhatChangesSomethingIsNeverHedged) {
  options_.hedge_after = absl::Milliseconds(1);
  Client client(MakeConnection(options_));
  EXPECT_TRUE(client.CreateTenant("t").ok());
  EXPECT_EQ(tenants_.creates, 1);
}

TEST_F(GrpcPoliciesTest, ACallCanHaveADeadlineOfItsOwn) {
  Client client(MakeConnection(options_));
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      client.With({.deadline = absl::Milliseconds(50)}).GetTenant("t").status()));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  EXPECT_TRUE(client.GetTenant("t").ok()) << "the client itself is as it was";
  EXPECT_TRUE(absl::IsInvalidArgument(
      client.With({.hedge_after = absl::ZeroDuration()}).GetTenant("t").status()));
}

TEST_F(GrpcPoliciesTest, QueriesStreamThroughRestarts) {
  memories_.answers = 7;
  Client client(MakeConnection(options_));
  const auto ask = [&](const std::string& memory, std::vector<double>& seen) {
    int next = 0;
    return client.QueryStreamed(
        [&next, &memory]() -> std::optional<QueryRequest> {
          if (next == 30) return std::nullopt;
          const double number = next++;
          return QueryRequest{.name = {"t", memory}, .queries = {{number, 0}, {-number, 0}}};
        },
        [&seen](const QueryResult& result) {
          seen.push_back(result.answers.at(0).readout.at(0));
          EXPECT_EQ(result.answers.at(1).readout.at(0), -seen.back());
          return absl::OkStatus();
        });
  };
  std::vector<double> seen;
  const absl::Status status = ask("m", seen);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(seen.size(), 30u);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<double>(i));
  EXPECT_EQ(memories_.streams, 5) << "seven, seven, seven, seven and two";
  std::vector<double> none;
  const absl::Status refused = ask("absent", none);
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace lethe::client
