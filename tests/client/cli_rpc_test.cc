// Every RPC of the server can be reached by a verb, and every verb does what this table says.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include <set>

#include "absl/strings/str_split.h"
#include "client/cli/exit_codes.h"
#include "client/cli/program.h"
#include "lethe/v1/backup_service.pb.h"
#include "lethe/v1/certificate_service.pb.h"
#include "lethe/v1/erasure_service.pb.h"
#include "lethe/v1/job_service.pb.h"
#include "lethe/v1/memory_service.pb.h"
#include "lethe/v1/tenant_service.pb.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

struct Row {
  std::string verb;               // the words that name it
  std::vector<std::string> rest;  // arguments of a good call on the filled fake
  std::vector<std::string> rpcs;  // that it calls then
};

const std::vector<Row>& Table() {
  static const auto* const table = new std::vector<Row>{
      {"tenant create", {"new"}, {"CreateTenant"}},
      {"tenant get", {"t"}, {"GetTenant"}},
      {"tenant list", {}, {"ListTenants"}},
      {"tenant delete", {"t", "--yes"}, {"GetTenant", "DeleteTenant"}},
      {"memory create",
       {"new", "--gamma", "1", "--capacity", "2", "--key-dimension", "2", "--value-dimension", "1"},
       {"CreateMemory"}},
      {"memory get", {"m"}, {"GetMemory"}},
      {"memory list", {}, {"ListMemories"}},
      {"memory delete", {"m", "--yes"}, {"DeleteMemory"}},
      {"memory describe", {"m"}, {"Describe"}},
      {"insert", {"--file", "NDJSON"}, {"InsertStream"}},
      {"insert", {"--token", R"({"id":"z","key":[1,2],"value":[3]})"}, {"Insert"}},
      {"query", {"--key", "1,2"}, {"Query"}},
      {"query", {"--file", "NDJSON"}, {"QueryStream"}},
      {"forget", {"--id", "a", "--yes"}, {"Forget"}},
      {"evict", {"--budget", "1", "--yes"}, {"Evict"}},
      {"edit", {"--file", "NDJSON", "--yes"}, {"Edit"}},
      {"erasure request", {"--subject", "s", "--yes"}, {"CreateErasureRequest"}},
      {"erasure status", {"id"}, {"GetErasureRequest"}},
      {"erasure list", {}, {"ListErasureRequests"}},
      {"erasure cancel", {"id"}, {"CancelErasureRequest"}},
      {"erasure extend",
       {"id", "--due", "2026-03-31T00:00:00Z", "--reason", "many"},
       {"ExtendErasureRequest"}},
      {"erasure receipts", {"id"}, {"TakeErasureReceipts"}},
      {"erasure discover", {"--subject", "s"}, {"Discover"}},
      {"hold place", {"--subject", "s"}, {"PlaceHold"}},
      {"hold release", {"id"}, {"ReleaseHold"}},
      {"hold list", {}, {"ListHolds"}},
      {"job submit calibrate", {"--boxes", "0.1,0.2"}, {"SubmitJob"}},
      {"job submit train-encoder", {"--steps", "10"}, {"SubmitJob"}},
      {"job submit train-lm", {"--attention", "linear_decay"}, {"SubmitJob"}},
      {"job get", {"id"}, {"GetJob"}},
      {"job list", {}, {"ListJobs"}},
      {"job cancel", {"id"}, {"CancelJob"}},
      {"job delete", {"id", "--yes"}, {"DeleteJob"}},
      {"job watch", {"id"}, {"WatchJob"}},
      {"job artefact", {"id", "--out", "FOLDER/artefact"}, {"GetArtefact"}},
      {"certificate list", {}, {"ListCertificates"}},
      {"certificate show", {"CERTIFICATE"}, {"GetCertificate"}},
      {"certificate verify", {"CERTIFICATE", "--key", "VKEY"}, {"GetCertificate"}},
      {"log checkpoint", {}, {"GetCheckpoint"}},
      {"log key", {}, {"GetCheckpoint"}},
      {"log prove", {"CERTIFICATE"}, {"GetInclusionProof"}},
      {"log consistency", {"1"}, {"GetConsistencyProof"}},
      {"key rotate", {"--yes"}, {"RotateKey"}},
      {"key rewrap", {"--yes"}, {"RewrapKeys"}},
      {"verify", {}, {"Verify"}},
      {"export", {"--to", "FOLDER/export"}, {"Export"}},
      {"backup create", {"t", "--out", "FOLDER/backup"}, {"CreateBackup"}},
      {"backup verify", {"FOLDER/backup", "--key", "VKEY"}, {}},
      {"backup restore", {"FOLDER/backup/t"}, {"RestoreBackup"}},
      {"solve", {}, {}},
      {"access new-token", {"--name", "app-1", "--grant", "t:app"}, {}},
      {"witness key", {}, {}},
      {"witness sign", {}, {"AddCosignature"}},
      {"doctor", {"--help"}, {}},  // of an installation: tests/deploy
      {"health", {"--help"}, {}},  // of a server: tests/deploy
      {"top", {"--once"}, {"ListTenants", "ListMemories", "Describe"}},
      {"profile list", {}, {}},
      {"profile show", {}, {}},
      {"completion", {"bash"}, {}},
      {"version", {}, {}},
  };
  return *table;
}

// The leaves of the tree, as the words that name them.
std::set<std::string> Verbs() {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{.in = in, .out = out, .err = err};
  const Program program(io, nullptr);
  std::set<std::string> verbs;
  const std::function<void(const CLI::App&, const std::string&)> visit =
      [&](const CLI::App& app, const std::string& path) {
        const auto below = app.get_subcommands([](const CLI::App*) { return true; });
        if (below.empty()) verbs.insert(path);
        for (const CLI::App* verb : below) {
          visit(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name());
        }
      };
  visit(program.app(), "");
  return verbs;
}

// Of every service in proto/lethe/v1 but that of workers, which are a program of their own.
std::set<std::string> Rpcs() {
  std::set<std::string> rpcs;
  for (const auto& file : std::filesystem::directory_iterator(LETHE_SOURCE_DIR "/proto/lethe/v1")) {
    const std::string name = "lethe/v1/" + file.path().filename().string();
    if (name == "lethe/v1/worker_service.proto") continue;
    const auto* descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name);
    EXPECT_NE(descriptor, nullptr) << name << " is not linked into this test";
    for (int s = 0; descriptor != nullptr && s < descriptor->service_count(); ++s) {
      for (int m = 0; m < descriptor->service(s)->method_count(); ++m) {
        rpcs.insert(descriptor->service(s)->method(m)->name());
      }
    }
  }
  return rpcs;
}

class RpcTest : public CliTest {
 protected:
  // Keeps the services' descriptors in the program.
  static void SetUpTestSuite() {
    v1::BackupPiece::descriptor();
    v1::Certificate::descriptor();
    v1::ErasureRequest::descriptor();
    v1::Job::descriptor();
    v1::Memory::descriptor();
    v1::Tenant::descriptor();
  }

  std::string Meant(const std::string& argument) {
    if (argument == "NDJSON") {
      return WriteFile("in.ndjson", "{\"id\":\"a\",\"key\":[1,2],\"value\":[4]}\n");
    }
    if (argument == "VKEY") return server_->vkey();
    if (argument == "CERTIFICATE") return server_->log.empty() ? "none" : server_->log[0].id;
    if (argument.rfind("FOLDER", 0) == 0) return folder_ + argument.substr(6);
    return argument;
  }
};

TEST_F(RpcTest, TheTableHasEveryVerbAndEveryRpc) {
  std::set<std::string> verbs, rpcs;
  for (const Row& row : Table()) {
    verbs.insert(row.verb);
    rpcs.insert(row.rpcs.begin(), row.rpcs.end());
  }
  EXPECT_EQ(verbs, Verbs());
  EXPECT_EQ(rpcs, Rpcs());
}

TEST_F(RpcTest, EveryVerbCallsWhatTheTableSays) {
  for (const Row& row : Table()) {
    // Those are run with their files in tests of their own.
    if (row.verb == "solve" || row.verb == "profile show" || row.verb.rfind("witness", 0) == 0) {
      continue;
    }
    SCOPED_TRACE(row.verb);
    server_ = std::make_shared<client::FakeConnection>();
    server_->backup_file = "bytes";
    server_->watched = {{.id = "id", .state = client::JobState::kSucceeded}};
    Fill({"a", "b", "c"});
    ASSERT_EQ(RunIn({"forget", "--id", "c", "--yes"}).status, kExitOk);
    server_->calls.clear();
    std::vector<std::string> arguments = absl::StrSplit(row.verb, ' ');
    for (const std::string& argument : row.rest) arguments.push_back(Meant(argument));
    const CliResult result = row.verb == "top" ? Run(arguments) : RunIn(arguments);
    EXPECT_EQ(result.status, kExitOk) << result.err;
    for (const std::string& rpc : row.rpcs) {
      EXPECT_THAT(server_->calls, ::testing::Contains(::testing::StartsWith(rpc)));
    }
    EXPECT_EQ(server_->calls.empty(), row.rpcs.empty());
  }
}

TEST_F(RpcTest, TokensOfTheCommandLineGoInOneCall) {
  Fill({"a"});
  const std::string good = R"({"id":"x","key":[1,2],"value":[3],"subject":"s"})";
  const CliResult two = RunIn({"insert", "--token", good, "--token",
                               R"({"id":"y","key":[3,4],"value":[5]})", "-o", "jsonl"});
  EXPECT_EQ(two.status, kExitOk) << two.err;
  EXPECT_THAT(two.out, ::testing::HasSubstr("\"inserted\":2"));
  EXPECT_THAT(two.out, ::testing::HasSubstr("\"ids\":[\"x\",\"y\"]"));
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.at("x").subject, "s");
  for (const std::string bad : {"[]", "{\"key\":[1", R"({"key":[1,2],"colour":1})"}) {
    const CliResult refused = RunIn({"insert", "--token", good, "--token=" + bad});
    EXPECT_EQ(refused.status, kExitUsage) << bad;
    EXPECT_THAT(refused.err, ::testing::HasSubstr("--token number 2: ")) << bad;
  }
  EXPECT_EQ(RunIn({"insert", "--token", good, "--file", "x.csv"}).status, kExitUsage);
}

}  // namespace
}  // namespace lethe::cli
