// Every call that there is, by every role, for a tenant of its own, for one of others and for one
// that does not exist, against a running server: what the table of methods says is what happens.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "audit/bearer_token.h"
#include "lethe/v1/certificate_service.grpc.pb.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "server/access/file_policy.h"
#include "server/access/gate.h"
#include "server/access/methods.h"
#include "server/rpc/server.h"
#include "server/rpc/status.h"
#include "server/service/names.h"
#include "tests/server/access_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::rpc {
namespace {

using access::Effect;
using access::Method;
using access::Role;
using access::Scope;
using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using nlohmann::json;

// All ids of requests have this length.
const char kRequestId[] = "r-000000";

// How a call ended; in the details its own id is replaced by kRequestId.
struct Ending {
  static Ending Of(const grpc::Status& status, const std::string& request_id) {
    return {status.error_code(), status.error_message(),
            absl::StrReplaceAll(status.error_details(), {{request_id, kRequestId}})};
  }

  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  std::string message;
  std::string details;

  friend bool operator==(const Ending&, const Ending&) = default;
};
std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  return out << ending.code << ": " << ending.message;
}

// Every method of the services in proto/, by full name.
std::map<std::string, const MethodDescriptor*> MethodsOfProtos() {
  std::map<std::string, const MethodDescriptor*> methods;
  const std::string root = LETHE_SOURCE_DIR "/proto/";
  for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = file.path().string();
    if (!absl::EndsWith(path, ".proto")) continue;
    const auto* described = DescriptorPool::generated_pool()->FindFileByName(
        std::string(absl::StripPrefix(path, root)));
    if (described == nullptr) {
      ADD_FAILURE() << path << " is not linked";
      continue;
    }
    for (int s = 0; s < described->service_count(); ++s) {
      for (int m = 0; m < described->service(s)->method_count(); ++m) {
        const MethodDescriptor* method = described->service(s)->method(m);
        methods[absl::StrCat("/", described->service(s)->full_name(), "/", method->name())] =
            method;
      }
    }
  }
  return methods;
}

TEST(MethodTable, HasEveryRpcAndNoOther) {
  std::set<std::string> of_table;
  for (const Method& method : access::Methods()) {
    const std::string name(method.name);
    if (absl::StartsWith(name, "/lethe.")) of_table.insert(name);
    EXPECT_EQ(access::FindMethod(method.name), &method);
  }
  std::set<std::string> of_protos;
  for (const auto& [name, method] : MethodsOfProtos()) of_protos.insert(name);
  EXPECT_EQ(of_table, of_protos);
  EXPECT_GT(of_protos.size(), 20u);
}

// The rows of the table that docs/access.md shows.
TEST(MethodTable, IsTheOneOfTheDocument) {
  std::string expected;
  for (const Method& method : access::Methods()) {
    std::string name(method.name);  // of a route of HTTP; of an RPC without its package
    if (absl::StartsWith(name, "/")) {
      const std::vector<std::string> parts = absl::StrSplit(name, absl::ByAnyChar("/."));
      name = absl::StrCat(parts[parts.size() - 2], ".", parts.back());
    }
    absl::StrAppend(&expected, "| `", name, "` | ", std::string(access::ScopeName(method.scope)),
                    " | ", method.roles.empty() ? "everybody" : method.roles.Names(),
                    method.switch_field.empty()
                        ? std::string()
                        : absl::StrCat("; with `", std::string(method.switch_field), "` ",
                                       method.switch_roles.Names()),
                    " | ", std::string(access::EffectName(method.effect)), " |\n");
  }
  EXPECT_NE(access::ReadFile(LETHE_SOURCE_DIR "/docs/access.md").find(expected), std::string::npos)
      << "docs/access.md should have:\n"
      << expected;
}

// Tenant "t" with memory "m", and tenant "foreign", behind a guarded server.
class MatrixTest : public testing::Test {
 protected:
  MatrixTest() {
    tokens_["nobody"] = audit::NewBearerToken();  // that no file has
    for (const Role role : access::kRoles) {
      for (const char* tenant : {"t", "*"}) {
        AddToken(absl::StrCat(tenant, ":", std::string(access::RoleName(role))));
      }
    }
    AddToken("foreign:app");
    log_path_ = folder_.path() + "/operations.log";
  }

  void AddToken(const std::string& grant) {
    const std::string token = audit::NewBearerToken();
    tokens_[grant] = token;
    ASSERT_TRUE(policy_
                    ->AddToken(audit::DigestOfToken(token),
                               {.name = grant, .grants = {*access::ParseGrant(grant)}})
                    .ok());
  }

  void Start(access::OperationsLogOptions log_options = {}) {
    log_options.path = log_path_;
    auto log = access::OperationsLog::Open(std::move(log_options));
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    access_ = std::make_unique<access::Access>(policy_);
    gate_ = std::make_unique<access::Gate>(access_.get(), log_.get(), nullptr);
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.hooks.gate = gate_.get();
    auto server = RpcServer::Start(&*harness_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
  }

  // What an earlier call may have deleted.
  void EnsureTenants() {
    for (const char* name : {"t", "foreign"}) {
      if (harness_->GetTenant(name).ok()) continue;
      ASSERT_TRUE(harness_->CreateTenant(name, {}).ok());
    }
    if (!harness_->GetMemory("t", "m").ok()) harness_.MakeMemory("m");
  }

  // A call of any kind with one message: all kinds look alike on the wire.
  Ending Call(const std::string& method,
              const std::string& request,
              const std::vector<std::string>& headers) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    for (const std::string& header : headers) context.AddMetadata("authorization", header);
    const std::string request_id = absl::StrFormat("r-%06d", ++requests_);
    context.AddMetadata("x-request-id", request_id);
    grpc::CompletionQueue queue;
    auto call = stub_->PrepareCall(&context, method, &queue);
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    call->StartCall(nullptr);
    bool alive = wait();
    if (alive) {
      const grpc::Slice slice(request);
      const grpc::ByteBuffer bytes(&slice, 1);
      call->Write(bytes, nullptr);
      alive = wait();
    }
    if (alive) {
      call->WritesDone(nullptr);
      wait();
    }
    grpc::ByteBuffer answer;
    for (int answers = 0;; ++answers) {
      if (answers == 1 && absl::EndsWith(method, "/Watch")) context.TryCancel();
      call->Read(&answer, nullptr);
      if (!wait()) break;
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    wait();
    return Ending::Of(status, request_id);
  }

  Ending CallAs(const std::string& grant, const std::string& method, const std::string& request) {
    if (grant.empty()) return Call(method, request, {});
    return Call(method, request, {"Bearer " + tokens_.at(grant)});
  }

  // A request with nothing in it but the names.
  static std::string Request(const Method& method,
                             const MethodDescriptor* described,
                             const std::string& tenant) {
    if (described == nullptr) return "";
    std::unique_ptr<google::protobuf::Message> request(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(described->input_type())
            ->New());
    const auto set = [&](absl::string_view field, const std::string& value) {
      if (field.empty()) return;
      const auto* found = described->input_type()->FindFieldByName(std::string(field));
      ASSERT_NE(found, nullptr) << std::string(field);
      request->GetReflection()->SetString(request.get(), found, value);
    };
    set(method.tenant_field, tenant);
    set(method.memory_field, "m");
    return request->SerializeAsString();
  }

  std::vector<json> LinesOfLog() const {
    std::vector<json> lines;
    for (const absl::string_view line :
         absl::StrSplit(access::ReadFile(log_path_), '\n', absl::SkipEmpty())) {
      lines.push_back(json::parse(line.begin(), line.end()));
    }
    return lines;
  }

  service::Harness harness_;
  service::TempDir folder_;
  std::string log_path_;
  std::map<std::string, std::string> tokens_;  // by grant
  const std::shared_ptr<access::FilePolicy> policy_ = std::make_shared<access::FilePolicy>();
  std::unique_ptr<access::OperationsLog> log_;
  std::unique_ptr<access::Access> access_;
  std::unique_ptr<access::Gate> gate_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::atomic<int> requests_{0};
};

const Ending kUnauthenticated =
    Ending::Of(ToGrpc(absl::UnauthenticatedError("no valid credentials"), kRequestId), kRequestId);

Ending NoSuchTenant() {
  return Ending::Of(ToGrpc(service::NoSuchTenant(), kRequestId), kRequestId);
}

bool Refused(const Ending& ending) {
  return ending.code == grpc::StatusCode::PERMISSION_DENIED ||
         ending.code == grpc::StatusCode::UNAUTHENTICATED;
}

TEST_F(MatrixTest, EveryCallByEveryRole) {
  Start();
  const std::map<std::string, const MethodDescriptor*> described = MethodsOfProtos();
  int calls = 0;
  int admitted = 0;
  for (const Method& method : access::Methods()) {
    const std::string name(method.name);
    const auto found = described.find(name);
    const MethodDescriptor* descriptor = found == described.end() ? nullptr : found->second;
    SCOPED_TRACE(name);
    if (!absl::StartsWith(name, "/")) continue;  // of HTTP
    if (absl::StartsWith(name, "/grpc.reflection.")) {
      // Not served at all behind a guarded gate.
      EXPECT_EQ(CallAs("*:admin", name, "").code, grpc::StatusCode::UNIMPLEMENTED);
      continue;
    }
    if (method.scope == Scope::kOpen) {
      for (const char* grant : {"", "nobody", "t:app"})
        EXPECT_FALSE(Refused(CallAs(grant, name, "")));
      continue;
    }
    std::map<std::string, Ending> refusals;  // by grant
    for (const std::string tenant : {"t", "foreign", "absent"}) {
      SCOPED_TRACE(tenant);
      const std::string request = Request(method, descriptor, tenant);
      for (const char* grant : {"", "nobody"}) {
        EXPECT_EQ(CallAs(grant, name, request), kUnauthenticated);
        ++calls;
      }
      for (const Role role : access::kRoles) {
        for (const bool everywhere : {false, true}) {
          const std::string grant =
              absl::StrCat(everywhere ? "*" : "t", ":", std::string(access::RoleName(role)));
          SCOPED_TRACE(grant);
          EnsureTenants();
          const Ending ending = CallAs(grant, name, request);
          ++calls;
          const bool has_role = method.roles.Has(role);
          const bool knows = everywhere || tenant == "t";
          if (!has_role || (method.scope == Scope::kServer && !everywhere)) {
            EXPECT_EQ(ending.code, grpc::StatusCode::PERMISSION_DENIED) << ending;
            EXPECT_EQ(refusals.try_emplace(grant, ending).first->second, ending)
                << "the same for every tenant, there or not";
          } else if (method.scope == Scope::kTenant && !knows) {
            EXPECT_EQ(ending, NoSuchTenant());
          } else {
            EXPECT_FALSE(Refused(ending)) << ending;
            if (tenant == "t") {
              EXPECT_NE(ending, NoSuchTenant());
            }
            ++admitted;
          }
        }
      }
    }
  }
  EXPECT_GT(calls, 700);
  EXPECT_GT(admitted, 100);
  RecordProperty("calls", calls);
  RecordProperty("admitted", admitted);
  // Nothing of a token anywhere in the log; a refused call never has an intent.
  const std::string text = access::ReadFile(log_path_);
  for (const auto& [grant, token] : tokens_) EXPECT_EQ(text.find(token), std::string::npos);
  std::map<std::string, std::set<std::string>> events;
  for (const json& line : LinesOfLog()) {
    if (line["event"] != "denied-more") events[line["request_id"]].insert(line["event"]);
  }
  for (const auto& [id, of_call] : events) {
    EXPECT_TRUE(of_call == std::set<std::string>({"denied"}) ||
                of_call == std::set<std::string>({"intent", "outcome"}))
        << id;
  }
}

TEST_F(MatrixTest, WhatTheServerDoesNotKnowTheCallerMayNotLearnEither) {
  Start();
  EnsureTenants();
  v1::QueryRequest request;
  // A name that could be none says so to everybody, there or not.
  request.set_tenant("No Name");
  request.set_memory("m");
  const Ending invalid =
      CallAs("t:app", "/lethe.v1.MemoryService/Query", request.SerializeAsString());
  EXPECT_EQ(invalid.code, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(invalid, CallAs("*:app", "/lethe.v1.MemoryService/Query", request.SerializeAsString()));
  // Byte for byte what the caller of every tenant is told of one that does not exist.
  request.set_tenant("absent");
  const Ending absent =
      CallAs("*:app", "/lethe.v1.MemoryService/Query", request.SerializeAsString());
  request.set_tenant("foreign");
  EXPECT_EQ(CallAs("t:app", "/lethe.v1.MemoryService/Query", request.SerializeAsString()), absent);
  EXPECT_EQ(absent, NoSuchTenant());
}

TEST_F(MatrixTest, IdentitiesOfOneConnectionDoNotMix) {
  Start();
  EnsureTenants();
  const std::string name = "/lethe.v1.TenantService/GetTenant";
  const auto of = [](const std::string& tenant) {
    v1::GetTenantRequest request;
    request.set_name(tenant);
    return request.SerializeAsString();
  };
  std::atomic<int> calls{0};
  const auto turn = [&] {
    calls += 7;
    EXPECT_EQ(CallAs("t:app", name, of("t")).code, grpc::StatusCode::OK);
    EXPECT_EQ(CallAs("", name, of("t")), kUnauthenticated);
    EXPECT_EQ(CallAs("foreign:app", name, of("t")), NoSuchTenant());
    EXPECT_EQ(CallAs("foreign:app", name, of("foreign")).code, grpc::StatusCode::OK);
    EXPECT_EQ(CallAs("t:app", name, of("foreign")), NoSuchTenant());
    EXPECT_EQ(CallAs("*:admin", name, of("foreign")).code, grpc::StatusCode::OK);
    EXPECT_EQ(CallAs("nobody", name, of("foreign")), kUnauthenticated);
  };
  for (int i = 0; i < 10; ++i) turn();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 25; ++round) turn();
    });
  }
  for (std::thread& thread : threads) thread.join();
  RecordProperty("mixed", calls.load());
}

TEST_F(MatrixTest, CredentialsOfEveryOtherFormAreNone) {
  Start();
  EnsureTenants();
  const std::string name = "/lethe.v1.TenantService/ListTenants";
  const std::string token = tokens_["*:admin"];
  EXPECT_EQ(Call(name, "", {"Bearer " + token}).code, grpc::StatusCode::OK);
  EXPECT_EQ(Call(name, "", {"Bearer " + token, "Bearer " + token}), kUnauthenticated);
  EXPECT_EQ(Call(name, "", {token}), kUnauthenticated);
  EXPECT_EQ(Call(name, "", {"Basic " + token}), kUnauthenticated);
  EXPECT_EQ(Call(name, "", {"Bearer"}), kUnauthenticated);
  EXPECT_EQ(Call(name, "", {""}), kUnauthenticated);
  EXPECT_EQ(Call("/lethe.v1.TenantService/Unheard", "", {"Bearer " + token}).code,
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(MatrixTest, AListShowsWhatTheCallerMayKnowOfPageByPage) {
  for (const char* name : {"a1", "b1", "b2", "c1", "d1"}) {
    ASSERT_TRUE(harness_->CreateTenant(name, {}).ok());
  }
  const std::string token = audit::NewBearerToken();
  ASSERT_TRUE(policy_
                  ->AddToken(audit::DigestOfToken(token), {.name = "some",
                                                           .grants = {{"b1", Role::kApp},
                                                                      {"d1", Role::kAdmin},
                                                                      {"b1", Role::kEraser},
                                                                      {"gone", Role::kApp}}})
                  .ok());
  Start();
  const auto stub = v1::TenantService::NewStub(channel_);
  std::vector<std::vector<std::string>> pages;
  v1::ListTenantsRequest request;
  request.set_page_size(1);
  do {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    v1::ListTenantsResponse response;
    const grpc::Status status = stub->ListTenants(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    pages.emplace_back();
    for (const v1::Tenant& tenant : response.tenants()) pages.back().push_back(tenant.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, (std::vector<std::vector<std::string>>{{"b1"}, {"d1"}}));
}

TEST_F(MatrixTest, EachMessageOfAStreamIsAsked) {
  Start();
  EnsureTenants();
  const auto stub = v1::MemoryService::NewStub(channel_);
  {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + tokens_["t:app"]);
    context.AddMetadata("x-request-id", "r-stream");
    const auto stream = stub->QueryStream(&context);
    v1::QueryRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    request.add_queries()->add_values(0.5);
    request.mutable_queries(0)->add_values(0.5);
    v1::QueryResponse response;
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    request.set_tenant("foreign");
    ASSERT_TRUE(stream->Write(request));
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(Ending::Of(stream->Finish(), "r-stream"), NoSuchTenant());
  }
  // A stream whose caller loses the right ends with the next message, and what was acknowledged
  // stays.
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + tokens_["t:app"]);
  const auto stream = stub->InsertStream(&context);
  v1::InsertStreamRequest message;
  message.set_tenant("t");
  message.set_memory("m");
  message.set_sequence(1);
  v1::Token* token = message.add_tokens();
  token->set_id("one");
  token->add_key(0.1);
  token->add_key(0.2);
  token->add_value(1);
  v1::InsertStreamResponse acknowledgement;
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->Read(&acknowledgement));
  EXPECT_EQ(acknowledgement.inserted(), 1u);
  access_->Replace(std::make_shared<access::FilePolicy>());
  message.clear_tenant();
  message.clear_memory();
  message.set_sequence(2);
  message.mutable_tokens(0)->set_id("two");
  ASSERT_TRUE(stream->Write(message));
  EXPECT_FALSE(stream->Read(&acknowledgement));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(service::Tokens(harness_, "m"), 1u);
}

TEST_F(MatrixTest, WhatDestroysIsOnRecordWithItsCertificate) {
  Start();
  EnsureTenants();
  ASSERT_TRUE(harness_->Insert("t", "m", service::Spiral(5, "visit-"), {}).ok());
  v1::ForgetRequest request;
  request.set_tenant("t");
  request.set_memory("m");
  request.mutable_tokens()->add_ids("visit-1");
  const auto stub = v1::MemoryService::NewStub(channel_);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + tokens_["t:eraser"]);
  v1::ForgetResponse response;
  const grpc::Status status = stub->Forget(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::vector<json> lines = LinesOfLog();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["event"], "intent");
  EXPECT_EQ(lines[0]["method"], "/lethe.v1.MemoryService/Forget");
  EXPECT_EQ(lines[0]["caller"], "t:eraser");
  EXPECT_EQ(lines[0]["tenant"], "t");
  EXPECT_EQ(lines[0]["memory"], "m");
  EXPECT_EQ(lines[1]["event"], "outcome");
  EXPECT_EQ(lines[1]["request_id"], lines[0]["request_id"]);
  EXPECT_EQ(lines[1]["code"], "OK");
  EXPECT_EQ(lines[1]["certificate"], response.certificate_id());
  EXPECT_EQ(access::ReadFile(log_path_).find("visit-"), std::string::npos) << "no ids of tokens";
  // Of a call of the whole server, the tenant that it names.
  v1::CreateTenantRequest create;
  create.set_name("new");
  EXPECT_EQ(
      CallAs("*:admin", "/lethe.v1.TenantService/CreateTenant", create.SerializeAsString()).code,
      grpc::StatusCode::OK);
  EXPECT_EQ(LinesOfLog().back()["tenant"], "new");
}

TEST_F(MatrixTest, ARestoreIsOnRecordWithTheTenantOfItsManifest) {
  Start();
  EnsureTenants();
  const auto manifest =
      harness_->Backup("t", {}, [](absl::string_view, uint64_t) { return absl::OkStatus(); });
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  v1::RestoreBackupRequest request;
  request.set_manifest(*manifest);
  // Without a byte of the file it fails behind the record.
  EXPECT_NE(
      CallAs("*:admin", "/lethe.v1.BackupService/RestoreBackup", request.SerializeAsString()).code,
      grpc::StatusCode::OK);
  const std::vector<json> lines = LinesOfLog();
  ASSERT_EQ(lines.size(), 2u);
  for (const json& line : lines) {
    EXPECT_EQ(line["method"], "/lethe.v1.BackupService/RestoreBackup");
    EXPECT_EQ(line["tenant"], "t");
  }
  request.set_manifest("no manifest");
  CallAs("*:admin", "/lethe.v1.BackupService/RestoreBackup", request.SerializeAsString());
  EXPECT_FALSE(LinesOfLog().back().contains("tenant"));
}

// A switch that makes a call another one needs the roles of that one.
TEST_F(MatrixTest, ARefitNeedsTheRolesOfVerify) {
  Start();
  EnsureTenants();
  const Method* describe = access::FindMethod("/lethe.v1.MemoryService/Describe");
  const Method* verify = access::FindMethod("/lethe.v1.MemoryService/Verify");
  for (const std::string tenant : {"t", "foreign", "absent"}) {
    v1::DescribeRequest request;
    request.set_tenant(tenant);
    request.set_memory("m");
    for (const Role role : access::kRoles) {
      if (!describe->roles.Has(role)) continue;
      for (const char* of : {"t", "*"}) {
        const std::string grant = absl::StrCat(of, ":", std::string(access::RoleName(role)));
        SCOPED_TRACE(absl::StrCat(grant, " for ", tenant));
        const bool knows = std::string(of) == "*" || tenant == "t";
        request.set_refit(false);
        const Ending plain =
            CallAs(grant, std::string(describe->name), request.SerializeAsString());
        EXPECT_FALSE(Refused(plain)) << plain;
        request.set_refit(true);
        const Ending ending =
            CallAs(grant, std::string(describe->name), request.SerializeAsString());
        if (!knows) {
          EXPECT_EQ(ending, NoSuchTenant());
        } else if (verify->roles.Has(role)) {
          EXPECT_EQ(ending, plain);
        } else {
          EXPECT_EQ(ending.code, grpc::StatusCode::PERMISSION_DENIED) << ending;
          EXPECT_TRUE(absl::StartsWith(ending.message, "refit:")) << ending;
        }
      }
    }
  }
}

// Half of the places for calls that wait for their request is the most that one caller has.
TEST_F(MatrixTest, ACallerThatSendsNoRequestsKeepsNoOtherOut) {
  Start();
  EnsureTenants();
  const std::string name = "/lethe.v1.MemoryService/Query";
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls;
  for (int i = 0; i < 600; ++i) {
    if (i % 100 == 0) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                    grpc::InsecureChannelCredentials(), arguments)));
    }
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->AddMetadata("authorization", "Bearer " + tokens_["t:app"]);
    calls.push_back(stubs.back()->PrepareCall(contexts.back().get(), name, &queue));
    calls.back()->StartCall(nullptr);
  }
  for (size_t i = 0; i < calls.size(); ++i) queue.Next(&tag, &ok);
  v1::GetTenantRequest request;
  request.set_name("foreign");
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(
        CallAs("foreign:app", "/lethe.v1.TenantService/GetTenant", request.SerializeAsString())
            .code,
        grpc::StatusCode::OK);
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& call : calls) {
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
  }
  queue.Shutdown();
}

TEST_F(MatrixTest, WithoutItsRecordNothingIsDestroyed) {
  Start({.max_bytes = 1, .max_files = 1});  // each line opens a new file
  EnsureTenants();
  ASSERT_TRUE(harness_->Insert("t", "m", service::Spiral(5, "visit-"), {}).ok());
  v1::ForgetRequest request;
  request.set_tenant("t");
  request.set_memory("m");
  request.mutable_tokens()->add_ids("visit-1");
  const std::string forget = "/lethe.v1.MemoryService/Forget";
  EXPECT_EQ(CallAs("t:eraser", forget, request.SerializeAsString()).code, grpc::StatusCode::OK);
  // A folder where the present file has to go.
  unlink((log_path_ + ".1").c_str());
  ASSERT_TRUE(std::filesystem::create_directory(log_path_ + ".1"));
  request.mutable_tokens()->set_ids(0, "visit-2");
  const Ending refused = CallAs("t:eraser", forget, request.SerializeAsString());
  EXPECT_EQ(refused.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(absl::StartsWith(refused.message, "operations log:")) << refused;
  EXPECT_EQ(service::Tokens(harness_, "m"), 4u);
  // Refused calls are refused all the same, and reading goes on.
  EXPECT_EQ(CallAs("t:app", forget, request.SerializeAsString()).code,
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(CallAs("t:app", "/lethe.v1.MemoryService/GetMemory",
                   [] {
                     v1::GetMemoryRequest get;
                     get.set_tenant("t");
                     get.set_name("m");
                     return get.SerializeAsString();
                   }())
                .code,
            grpc::StatusCode::OK);
  ASSERT_TRUE(std::filesystem::remove(log_path_ + ".1"));
  EXPECT_EQ(CallAs("t:eraser", forget, request.SerializeAsString()).code, grpc::StatusCode::OK);
}

}  // namespace
}  // namespace lethe::rpc
