// Erasure requests and holds from the command line and the client, over a real server, to the
// service and back.
#include <gmock/gmock.h>

#include <cstdlib>
#include <sstream>

#include "client/cli/cli.h"
#include "client/cli/exit_codes.h"
#include "client/client.h"
#include "lethe/v1/erasure_service.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

class RpcErasureTest : public RpcTest {
 protected:
  RpcErasureTest() {
    std::vector<service::TokenInput> tokens = service::Spiral(8);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i].subject = i < 3 ? "subject-17" : i < 6 ? "subject-18" : "";
    }
    harness_.Insert("m", tokens);
    address_ = absl::StrCat("127.0.0.1:", server_->port());
    setenv("XDG_CONFIG_HOME", harness_.data().c_str(), 1);  // no profile of whoever runs this
  }

  struct CliResult {
    int status = 0;
    std::string out;
    std::string err;
  };
  CliResult Lethe(std::vector<std::string> arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    cli::Io io{.in = in,
               .out = out,
               .err = err,
               .in_is_terminal = !input.empty(),
               .err_is_terminal = !input.empty()};
    arguments.insert(arguments.end(), {"-t", "t", "--address", address_});
    const int status = cli::RunCli(arguments, io, [](client::Options options) {
      return client::MakeConnection(std::move(options));
    });
    return {status, out.str(), err.str()};
  }
  Json LetheJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-o", "json"});
    const CliResult result = Lethe(std::move(arguments));
    EXPECT_EQ(result.status, cli::kExitOk) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  std::unique_ptr<v1::ErasureService::Stub> Stub() { return v1::ErasureService::NewStub(channel_); }

  std::string address_;
};

TEST_F(RpcErasureTest, ARequestFromTheCommandLineToItsReceipts) {
  CliResult shown = Lethe({"erasure", "request", "--subject", "subject-17"});
  EXPECT_EQ(shown.status, cli::kExitUsage) << "nobody consented";
  EXPECT_THAT(shown.err, HasSubstr("tokens     3"));
  EXPECT_THAT(harness_->ListErasureRequests("t", {}, {})->items, SizeIs(0));
  const Json made = LetheJson({"erasure", "request", "--subject", "subject-17", "--yes", "--source",
                               "portal", "--regulation", "gdpr", "--controller-id", "controller-1",
                               "--received", "2026-11-01T00:00:00Z", "--callback",
                               "https://a.example/", "--idempotency-key", "key-1"});
  EXPECT_EQ(made["state"], "pending");
  EXPECT_EQ(made["regulation"], "gdpr");
  EXPECT_EQ(made["source"], "portal");
  EXPECT_EQ(made["controller_id"], "controller-1");
  const std::string id = made["id"];
  const Json again = LetheJson({"erasure", "request", "--subject", "subject-17", "--yes",
                                "--source", "portal", "--regulation", "gdpr", "--controller-id",
                                "controller-1", "--received", "2026-11-01T00:00:00Z", "--callback",
                                "https://a.example/", "--idempotency-key", "key-1"});
  EXPECT_EQ(again["id"], id);
  EXPECT_EQ(again["replayed"], true);
  harness_->RunDueErasures();

  const Json status = LetheJson({"erasure", "status", id});
  EXPECT_EQ(status["state"], "completed");
  EXPECT_EQ(status["erased"], 3);
  EXPECT_EQ(status["received_time"], "2026-11-01T00:00:00.000000Z");
  EXPECT_EQ(status["due_time"], "2026-12-01T00:00:00.000000Z");
  ASSERT_EQ(status["certificates"].size(), 1u);
  EXPECT_EQ(status["certificates"][0]["memory"], "m");
  EXPECT_EQ(status["stores"][1]["level"], "key-destroyed");
  EXPECT_EQ(status["receipts"], true);
  EXPECT_EQ(LetheJson({"erasure", "list"}).size(), 1u);
  EXPECT_EQ(LetheJson({"erasure", "list", "--state", "completed"}).size(), 1u);
  EXPECT_EQ(LetheJson({"erasure", "list", "--state", "pending"}).size(), 0u);
  EXPECT_EQ(Lethe({"erasure", "list", "--state", "done"}).status, cli::kExitUsage);
  EXPECT_THAT(Lethe({"erasure", "status", id}).out, HasSubstr("state            completed"));

  const Json receipts = LetheJson({"erasure", "receipts", id});
  ASSERT_EQ(receipts.size(), 1u);
  EXPECT_EQ(receipts[0]["certificate"], status["certificates"][0]["id"]);
  EXPECT_EQ(receipts[0]["subject_salt"].get<std::string>().size(), 64u);
  EXPECT_EQ(Lethe({"erasure", "receipts", id, "--discard"}).status, cli::kExitUsage);
  EXPECT_EQ(LetheJson({"erasure", "receipts", id, "--discard", "--yes"}), receipts);
  EXPECT_EQ(Lethe({"erasure", "receipts", id}).status,
            cli::kExitRpcBase + static_cast<int>(absl::StatusCode::kFailedPrecondition));
}

TEST_F(RpcErasureTest, ExtendAndCancel) {
  const Json made = LetheJson(
      {"erasure", "request", "--subject", "subject-17", "--yes", "--start",
       absl::FormatTime(absl::RFC3339_full, absl::Now() + absl::Hours(24), absl::UTCTimeZone())});
  const std::string id = made["id"];
  const std::string due = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now() + absl::Hours(24 * 60),
                                           absl::UTCTimeZone());
  const Json extended = LetheJson({"erasure", "extend", id, "--due", due, "--reason", "many"});
  EXPECT_EQ(extended["extended"], true);
  EXPECT_EQ(extended["extension_reason"], "many");
  EXPECT_EQ(extended["due_time"].get<std::string>().substr(0, 19), due.substr(0, 19));
  EXPECT_EQ(LetheJson({"erasure", "cancel", id})["state"], "cancelled");
  harness_->RunDueErasures();
  EXPECT_EQ(service::Tokens(harness_, "m"), 8u);
}

TEST_F(RpcErasureTest, HoldsFromTheCommandLine) {
  const Json placed = LetheJson({"hold", "place", "--subject", "subject-17", "--reason", "case 4"});
  const std::string hold = placed["id"];
  EXPECT_EQ(placed["in_force"], true);
  EXPECT_EQ(placed["subject"], "subject-17");
  const Json found = LetheJson({"erasure", "discover", "--subject", "subject-17", "--subject",
                                "subject-18", "--md5", std::string(32, '0')});
  EXPECT_EQ(found["tokens"], 6);
  EXPECT_EQ(found["held"], 3);
  EXPECT_EQ(found["not_found"], 1);
  EXPECT_EQ(found["holds"][0], hold);
  EXPECT_EQ(found["memories"][0]["memory"], "m");
  const Json made = LetheJson({"erasure", "request", "--subject", "subject-17", "--yes"});
  harness_->RunDueErasures();
  const Json denied = LetheJson({"erasure", "status", made["id"]});
  EXPECT_EQ(denied["state"], "denied");
  EXPECT_EQ(denied["hold"], hold);
  EXPECT_EQ(denied["held"], 3);
  EXPECT_EQ(LetheJson({"hold", "list"}).size(), 1u);
  EXPECT_EQ(LetheJson({"hold", "release", hold})["in_force"], false);
  EXPECT_EQ(LetheJson({"hold", "list"}).size(), 0u);
  EXPECT_EQ(LetheJson({"hold", "list", "--all"})[0]["id"], hold);
}

TEST_F(RpcErasureTest, BadInputNamesItsField) {
  const auto stub = Stub();
  v1::CreateErasureRequestRequest create;
  v1::ErasureRequest made;
  create.set_tenant("t");
  const auto call = [&] {
    return Call(*stub, &v1::ErasureService::Stub::CreateErasureRequest, create, &made);
  };
  EXPECT_THAT(call(), RpcFails(grpc::INVALID_ARGUMENT, "identities"));
  create.add_identities()->set_value("subject-17");
  create.mutable_identities(0)->set_format(static_cast<v1::IdentityFormat>(9));
  EXPECT_THAT(call(), RpcFails(grpc::INVALID_ARGUMENT, "identities[0].format"));
  create.mutable_identities(0)->clear_format();
  create.set_received_time("yesterday");
  EXPECT_THAT(call(), RpcFails(grpc::INVALID_ARGUMENT, "received_time"));
  create.clear_received_time();
  create.set_start_time("2026-13-01T00:00:00Z");
  EXPECT_THAT(call(), RpcFails(grpc::INVALID_ARGUMENT, "start_time"));
  create.clear_start_time();
  create.set_idempotency_key("key-1");
  ASSERT_THAT(call(), RpcOk());

  v1::GetErasureRequestRequest get;
  v1::ErasureRequest got;
  get.set_tenant("t");
  const auto find = [&] {
    return Call(*stub, &v1::ErasureService::Stub::GetErasureRequest, get, &got);
  };
  EXPECT_THAT(find(), RpcFails(grpc::INVALID_ARGUMENT, "id"));
  get.set_idempotency_key("key-1");
  ASSERT_THAT(find(), RpcOk());
  EXPECT_EQ(got.id(), made.id());
  get.set_id(made.id());
  EXPECT_THAT(find(), RpcFails(grpc::INVALID_ARGUMENT, "id"));

  v1::ListErasureRequestsRequest list;
  v1::ListErasureRequestsResponse listed;
  list.set_tenant("t");
  list.set_state(static_cast<v1::ErasureState>(99));
  EXPECT_THAT(Call(*stub, &v1::ErasureService::Stub::ListErasureRequests, list, &listed),
              RpcFails(grpc::INVALID_ARGUMENT, "state"));
  v1::ExtendErasureRequestRequest extend;
  extend.set_tenant("t");
  extend.set_id(made.id());
  EXPECT_THAT(Call(*stub, &v1::ErasureService::Stub::ExtendErasureRequest, extend, &got),
              RpcFails(grpc::INVALID_ARGUMENT, "due_time"));
}

}  // namespace
}  // namespace lethe::rpc
