// The default connection against services of our own in this process, over a real socket.
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "lethe/v1/certificate_service.grpc.pb.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"

namespace lethe::client {
namespace {

using ::testing::HasSubstr;

// How often each method was called, and the statuses it answers before it answers well.
class Script {
 public:
  grpc::Status Next(const std::string& method) {
    std::lock_guard<std::mutex> lock(mutex_);
    const int call = calls_[method]++;
    if (call < failures_) return {code_, "scripted"};
    return grpc::Status::OK;
  }
  void FailFirst(int failures, grpc::StatusCode code) {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_ = failures;
    code_ = code;
    calls_.clear();
  }
  int calls(const std::string& method) {
    std::lock_guard<std::mutex> lock(mutex_);
    return calls_[method];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
  int failures_ = 0;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

#define LETHE_SCRIPTED(METHOD, REQUEST, RESPONSE)                               \
  grpc::Status METHOD(grpc::ServerContext* context, const v1::REQUEST* request, \
                      v1::RESPONSE* response) override {                        \
    static_cast<void>(context);                                                 \
    const grpc::Status status = script.Next(#METHOD);                           \
    if (status.ok()) On(*request, *response);                                   \
    return status;                                                              \
  }

// A level for each place, told apart by `which`.
template <typename Message>
void AddLevels(const std::string& which, Message* message) {
  for (const char* place : {"keys", "backups"}) {
    v1::StoreLevel* level = message->add_stores();
    level->set_store(place);
    level->set_level(which + " level");
    level->set_evidence(which + " evidence");
  }
}
void SetDestruction(const std::string& which, v1::Destruction* destruction) {
  destruction->set_certificate_id(which + " destroyed");
  AddLevels(which, destruction);
}
void ExpectLevels(const std::vector<StoreLevel>& levels, const std::string& which) {
  ASSERT_EQ(levels.size(), 2u) << which;
  EXPECT_EQ(levels[0].store, "keys");
  EXPECT_EQ(levels[1].store, "backups");
  for (const StoreLevel& level : levels) {
    EXPECT_EQ(level.level, which + " level");
    EXPECT_EQ(level.evidence, which + " evidence");
  }
}
void ExpectDestruction(const std::optional<Destruction>& destruction, const std::string& which) {
  ASSERT_TRUE(destruction.has_value()) << which;
  EXPECT_EQ(destruction->certificate_id, which + " destroyed");
  ExpectLevels(destruction->stores, which);
}

class TenantFake : public v1::TenantService::Service {
 public:
  explicit TenantFake(Script& s) : script(s) {}
  LETHE_SCRIPTED(CreateTenant, CreateTenantRequest, Tenant)
  LETHE_SCRIPTED(GetTenant, GetTenantRequest, Tenant)
  LETHE_SCRIPTED(ListTenants, ListTenantsRequest, ListTenantsResponse)
  LETHE_SCRIPTED(DeleteTenant, DeleteTenantRequest, DeleteTenantResponse)

 private:
  template <typename Request>
  static void On(const Request& request, v1::Tenant& tenant) {
    tenant.set_name(request.name());
    tenant.set_verification_key("key");
    tenant.set_memory_count(7);
  }
  static void On(const v1::ListTenantsRequest& request, v1::ListTenantsResponse& response) {
    response.add_tenants()->set_name("page" + request.page_token());
    if (request.page_token().empty()) response.set_next_page_token("2");
  }
  static void On(const v1::DeleteTenantRequest&, v1::DeleteTenantResponse& response) {
    response.set_erased_tokens(9);
    response.set_certificate_id("closing");
    response.set_envelope("bytes");
    response.set_checkpoint("note");
    response.set_tlog_proof("proof");
    AddLevels("tenant", &response);
  }
  Script& script;
};

class CertificateFake : public v1::CertificateService::Service {
 public:
  explicit CertificateFake(Script& s) : script(s) {}
  LETHE_SCRIPTED(GetCertificate, GetCertificateRequest, Certificate)
  LETHE_SCRIPTED(ListCertificates, ListCertificatesRequest, ListCertificatesResponse)

 private:
  static void On(const v1::GetCertificateRequest& request, v1::Certificate& certificate) {
    certificate.set_id(request.id());
    certificate.set_sequence(5);
    certificate.set_kind("forget");
    certificate.set_memory(request.tenant());
    certificate.set_create_time("now");
    certificate.set_envelope(std::string("e\0e", 3));
    certificate.set_leaf("l");
    certificate.set_leaf_hash("h");
    certificate.set_previous_leaf_hash("p");
  }
  static void On(const v1::ListCertificatesRequest& request,
                 v1::ListCertificatesResponse& response) {
    response.add_certificates()->set_id(request.memory());
  }
  Script& script;
};

class MemoryFake : public v1::MemoryService::Service {
 public:
  explicit MemoryFake(Script& s) : script(s) {}
  LETHE_SCRIPTED(CreateMemory, CreateMemoryRequest, Memory)
  LETHE_SCRIPTED(GetMemory, GetMemoryRequest, Memory)
  LETHE_SCRIPTED(ListMemories, ListMemoriesRequest, ListMemoriesResponse)
  LETHE_SCRIPTED(DeleteMemory, DeleteMemoryRequest, DeleteMemoryResponse)
  LETHE_SCRIPTED(Insert, InsertRequest, InsertResponse)
  LETHE_SCRIPTED(Query, QueryRequest, QueryResponse)
  LETHE_SCRIPTED(Forget, ForgetRequest, ForgetResponse)
  LETHE_SCRIPTED(Evict, EvictRequest, EvictResponse)
  LETHE_SCRIPTED(Edit, EditRequest, EditResponse)
  LETHE_SCRIPTED(Describe, DescribeRequest, DescribeResponse)

  grpc::Status InsertStream(grpc::ServerContext* context,
                            grpc::ServerReaderWriter<v1::InsertStreamResponse,
                                                     v1::InsertStreamRequest>* stream) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      agents.push_back(std::string(context->client_metadata().find("user-agent")->second.data(),
                                   context->client_metadata().find("user-agent")->second.size()));
    }
    v1::InsertStreamRequest message;
    std::string memory;
    for (int received = 0; stream->Read(&message); ++received) {
      if (received == 0) memory = message.tenant() + "/" + message.memory();
      if (memory != "t/m") return {grpc::StatusCode::NOT_FOUND, "memory: not found"};
      std::unique_lock<std::mutex> lock(mutex);
      const bool breaks = breaks_left > 0 && random() % 6 == 0;
      if (breaks && random() % 2 == 0) {
        --breaks_left;
        return {grpc::StatusCode::UNAVAILABLE, "broken before"};
      }
      v1::InsertStreamResponse ack;
      ack.set_acknowledged_sequence(message.sequence());
      for (const v1::Token& token : message.tokens()) {
        const bool fresh = tokens.emplace(token.id(), token.key(0)).second;
        if (fresh) order.push_back(token.id());
        fresh ? ack.set_inserted(ack.inserted() + 1) : ack.set_unchanged(ack.unchanged() + 1);
      }
      if (breaks) {
        --breaks_left;
        return {grpc::StatusCode::UNAVAILABLE, "broken after"};
      }
      lock.unlock();
      stream->Write(ack);
    }
    return grpc::Status::OK;
  }

  std::mutex mutex;
  std::mt19937_64 random;
  int breaks_left = 0;
  std::map<std::string, double> tokens;
  std::vector<std::string> order;
  std::vector<std::string> agents;
  v1::InsertRequest inserted;
  v1::ForgetRequest forgotten;
  v1::EvictRequest evicted;
  v1::EditRequest edited;
  v1::MemoryConfig config;
  std::atomic<int> sleep_milliseconds{0};

 private:
  void On(const v1::CreateMemoryRequest& request, v1::Memory& memory) {
    config = request.config();
    memory.set_tenant(request.tenant());
    memory.set_name(request.name());
    *memory.mutable_config() = config;
    memory.set_phase(v1::MEMORY_PHASE_EMPTY);
  }
  void On(const v1::GetMemoryRequest& request, v1::Memory& memory) {
    std::this_thread::sleep_for(std::chrono::milliseconds(sleep_milliseconds.load()));
    memory.set_name(request.name());
    memory.set_phase(static_cast<v1::MemoryPhase>(77));
  }
  static void On(const v1::ListMemoriesRequest& request, v1::ListMemoriesResponse& response) {
    response.add_memories()->set_name("page" + request.page_token());
    if (request.page_token().empty()) response.set_next_page_token("2");
  }
  static void On(const v1::DeleteMemoryRequest&, v1::DeleteMemoryResponse& response) {
    response.set_erased_tokens(4);
    response.set_certificate_id("c");
    SetDestruction("memory", response.mutable_destruction());
  }
  void On(const v1::InsertRequest& request, v1::InsertResponse& response) {
    inserted = request;
    response.set_inserted(1);
    response.set_rejected(1);
    response.add_results()->set_id("made-up");
    v1::InsertResult* rejected = response.add_results();
    rejected->set_outcome(v1::INSERT_OUTCOME_REJECTED);
    rejected->mutable_error()->set_code(3);
    rejected->mutable_error()->set_field("tokens[1].key[0]");
    rejected->mutable_error()->set_message("NaN");
    response.mutable_partition()->set_reserve(3);
    response.set_verdict(v1::VERDICT_PROVEN);
  }
  static void On(const v1::QueryRequest& request, v1::QueryResponse& response) {
    for (const v1::Vector& query : request.queries()) {
      v1::QueryResult* result = response.add_results();
      result->add_readout(query.values(0) * 2);
      result->set_log_denominator(-745.5);
      if (query.values(0) > 0) result->set_decision(0.0);
      if (query.values(0) > 0) result->set_decision_bound(1e-15);
      result->set_readout_bound(1e-14);
      result->set_position(v1::QUERY_POSITION_BOUNDARY);
      v1::QueryToken* token = result->add_tokens();
      token->set_id("x");
      token->set_weight(0.25);
      token->set_share(0.5);
    }
  }
  void On(const v1::ForgetRequest& request, v1::ForgetResponse& response) {
    forgotten = request;
    response.set_matched(1);
    response.set_erased(2);
    response.set_not_found(3);
    response.set_already_erased(4);
    response.set_held(5);
    response.mutable_partition_before()->set_margin(6);
    response.mutable_partition_after()->set_error(7);
    response.set_verdict(v1::VERDICT_PROVEN);
    response.set_certificate_id("c");
    response.set_request_id(request.request_id());
    response.set_state_digest("d");
    response.set_replayed(true);
    response.mutable_receipt()->set_request_salt("salt");
    SetDestruction("forget", response.mutable_destruction());
  }
  void On(const v1::EvictRequest& request, v1::EvictResponse& response) {
    evicted = request;
    response.set_evicted(1);
    response.set_reserve(2);
    response.set_surplus(3);
    response.set_held(4);
    response.set_retained(5);
    response.set_budget_reached(true);
    response.mutable_partition_before()->set_margin(6);
    response.mutable_partition_after()->set_error(7);
    response.set_verdict(v1::VERDICT_PROVEN);
    response.set_certificate_id("c");
    response.set_request_id(request.request_id());
    response.set_state_digest("d");
    response.set_replayed(true);
    response.mutable_receipt()->set_request_salt("salt");
    SetDestruction("evict", response.mutable_destruction());
  }
  void On(const v1::EditRequest& request, v1::EditResponse& response) {
    edited = request;
    response.set_edited(1);
    response.set_unchanged(2);
    response.mutable_partition_before()->set_margin(6);
    response.mutable_partition_after()->set_error(7);
    response.set_verdict(v1::VERDICT_BIT_IDENTICAL);
    response.set_certificate_id("c");
    response.set_request_id(request.request_id());
    response.set_state_digest("d");
    if (request.request_id() == "e") {
      SetDestruction("edit", response.mutable_destruction());
    }
  }
  static void On(const v1::DescribeRequest& request, v1::DescribeResponse& response) {
    response.mutable_memory()->set_name(request.memory());
    response.mutable_mu_interval()->set_high(0.5);
    response.set_radius_squared(0.75);
    response.mutable_solver()->set_climbs(3);
    response.mutable_solver()->set_residual(4);
    response.mutable_solver()->set_weight_bound(5);
    response.mutable_solver()->set_decision_bound(6);
    response.mutable_solver()->set_readout_bound(7);
    response.mutable_solver()->set_gap_bound(8);
    response.mutable_solver()->set_lambda_min(9);
    response.set_verdict(request.refit() ? v1::VERDICT_BIT_IDENTICAL : v1::VERDICT_PROVEN);
    response.set_subjects(2);
  }
  Script& script;
};

class GrpcTest : public testing::Test {
 protected:
  GrpcTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&tenants_);
    builder.RegisterService(&memories_);
    builder.RegisterService(&certificates_);
    server_ = builder.BuildAndStart();
    options_.address = absl::StrCat("127.0.0.1:", port_);
    options_.max_attempts = 4;
    options_.max_stream_attempts = 100;
    options_.user_agent = "grpc-test";
  }
  ~GrpcTest() override { server_->Shutdown(); }

  Client MakeClient() {
    return Client(MakeConnection(options_, {.now = [] { return absl::Now(); },
                                            .sleep = [this](absl::Duration) { ++sleeps_; },
                                            .uniform = [] { return 0.5; }}));
  }

  Script script_;
  TenantFake tenants_{script_};
  MemoryFake memories_{script_};
  CertificateFake certificates_{script_};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Options options_;
  std::atomic<int> sleeps_{0};
  const MemoryName name_{"t", "m"};
};

TEST_F(GrpcTest, OnlyWhatIsSafeIsRepeated) {
  Client client = MakeClient();
  struct Call {
    const char* method;
    bool safe;
    std::function<absl::Status()> run;
  };
  const std::vector<Call> calls = {
      {"CreateTenant", false, [&] { return client.CreateTenant("t").status(); }},
      {"GetTenant", true, [&] { return client.GetTenant("t").status(); }},
      {"ListTenants", true, [&] { return (*client.ListTenants().begin()).status(); }},
      {"DeleteTenant", false, [&] { return client.DeleteTenant("t").status(); }},
      {"CreateMemory", false, [&] { return client.CreateMemory(name_, {.box = 0.5}).status(); }},
      {"GetMemory", true, [&] { return client.GetMemory(name_).status(); }},
      {"ListMemories", true, [&] { return (*client.ListMemories("t").begin()).status(); }},
      {"DeleteMemory", false, [&] { return client.DeleteMemory(name_).status(); }},
      {"Insert", true, [&] { return client.Insert(name_, {{.id = "a"}}).status(); }},
      {"Insert", false,
       [&] {
         return client.Insert(name_, {{.id = "a"}, {}}).status();
       }},
      {"Query", true, [&] { return client.Query(name_, {1.0}).status(); }},
      {"Forget", false, [&] { return client.Forget({.name = name_, .ids = {"a"}}).status(); }},
      {"Forget", true,
       [&] { return client.Forget({.name = name_, .ids = {"a"}, .request_id = "r"}).status(); }},
      {"Forget", true,
       [&] { return client.Forget({.name = name_, .ids = {"a"}, .dry_run = true}).status(); }},
      {"Evict", false, [&] { return client.Evict({.name = name_, .budget = 1}).status(); }},
      {"Evict", true,
       [&] { return client.Evict({.name = name_, .budget = 1, .request_id = "r"}).status(); }},
      {"Evict", true,
       [&] { return client.Evict({.name = name_, .budget = 1, .dry_run = true}).status(); }},
      {"Edit", false,
       [&] { return client.Edit({.name = name_, .tokens = {{.id = "a"}}}).status(); }},
      {"Edit", true,
       [&] { return client.Edit({.name = name_, .tokens = {}, .request_id = "r"}).status(); }},
      {"Edit", true,
       [&] { return client.Edit({.name = name_, .tokens = {}, .dry_run = true}).status(); }},
      {"Describe", true, [&] { return client.Describe(name_).status(); }},
      {"GetCertificate", true, [&] { return client.GetCertificate("t", "i").status(); }},
      {"ListCertificates", true, [&] { return (*client.ListCertificates("t").begin()).status(); }},
  };
  for (const Call& call : calls) {
    SCOPED_TRACE(call.method);
    for (const grpc::StatusCode code :
         {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED}) {
      script_.FailFirst(2, code);
      const absl::Status status = call.run();
      if (call.safe) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(script_.calls(call.method), 3);
      } else {
        EXPECT_EQ(status, absl::Status(static_cast<absl::StatusCode>(code), "scripted"));
        EXPECT_EQ(script_.calls(call.method), 1);
      }
    }
    script_.FailFirst(100, grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(absl::IsUnavailable(call.run()));
    EXPECT_EQ(script_.calls(call.method), call.safe ? 4 : 1) << "max_attempts";
    for (const grpc::StatusCode code :
         {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::RESOURCE_EXHAUSTED,
          grpc::StatusCode::INTERNAL, grpc::StatusCode::ABORTED, grpc::StatusCode::UNKNOWN}) {
      script_.FailFirst(100, code);
      EXPECT_EQ(static_cast<int>(call.run().code()), static_cast<int>(code));
      EXPECT_EQ(script_.calls(call.method), 1);
    }
  }
}

TEST_F(GrpcTest, ValuesCrossTheWire) {
  Client client = MakeClient();
  for (const Kernel& kernel : {Kernel::Rbf(0.5), Kernel::Laplacian(2), Kernel::ExpDot(0.1)}) {
    for (const bool by_box : {false, true}) {
      MemoryConfig config{.kernel = kernel,
                          .duplicates = DuplicatesPolicy::kNewestFirst,
                          .key_dimension = 3,
                          .value_dimension = 2};
      (by_box ? config.box : config.capacity) = by_box ? 0.25 : 12.0;
      const absl::StatusOr<Memory> memory = client.CreateMemory(name_, config);
      ASSERT_TRUE(memory.ok());
      EXPECT_EQ(memory->config, config);
      EXPECT_EQ(memory->name, name_);
      EXPECT_EQ(memory->phase, MemoryPhase::kEmpty);
    }
  }
  const Token token{.id = "a",
                    .key = {1.5, -0.0},
                    .value = {2},
                    .subject = "s",
                    .payload = std::string("\0\xff", 2),
                    .labels = {{"k", "v"}}};
  const absl::StatusOr<InsertResult> inserted = client.Insert(name_, {token, {.id = "b"}});
  ASSERT_TRUE(inserted.ok());
  const v1::Token& sent = memories_.inserted.tokens(0);
  EXPECT_EQ(sent.id(), "a");
  EXPECT_THAT(sent.key(), testing::ElementsAre(1.5, 0.0));
  EXPECT_EQ(sent.subject(), "s");
  EXPECT_EQ(sent.payload(), std::string("\0\xff", 2));
  EXPECT_EQ(sent.labels().at("k"), "v");
  EXPECT_EQ(inserted->tokens[1].outcome, InsertOutcome::kRejected);
  EXPECT_EQ(inserted->tokens[1].error,
            (ItemError{absl::StatusCode::kInvalidArgument, "tokens[1].key[0]", "NaN"}));
  EXPECT_EQ(inserted->state.partition, (Partition{.reserve = 3}));
  EXPECT_EQ(inserted->state.verdict, Verdict::kProven);

  const absl::StatusOr<QueryResult> result =
      client.Query({.name = name_, .queries = {{1.5}, {-1}}, .top_tokens = 1});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->answers[0].readout, std::vector<double>{3.0});
  EXPECT_EQ(result->answers[0].decision, 0.0);
  EXPECT_EQ(result->answers[1].decision, std::nullopt);
  EXPECT_EQ(result->answers[1].log_denominator, -745.5);
  EXPECT_EQ(result->answers[1].tokens[0].share, 0.5);
  EXPECT_EQ(result->answers[0].readout_bound, 1e-14);
  EXPECT_EQ(result->answers[0].decision_bound, 1e-15);
  EXPECT_EQ(result->answers[1].decision_bound, std::nullopt);

  const absl::StatusOr<ForgetResult> forgotten =
      client.Forget({.name = name_, .subject = "", .request_id = "r"});
  ASSERT_TRUE(forgotten.ok());
  EXPECT_TRUE(memories_.forgotten.has_subject()) << "an empty subject is still the target";
  EXPECT_EQ(forgotten->held, 5u);
  EXPECT_EQ(forgotten->before, (Partition{.margin = 6}));
  EXPECT_EQ(forgotten->after, (Partition{.error = 7}));
  EXPECT_EQ(forgotten->verdict, Verdict::kProven);
  EXPECT_TRUE(forgotten->replayed);
  ASSERT_TRUE(forgotten->receipt.has_value());
  EXPECT_EQ(forgotten->receipt->request_salt, "salt");
  ExpectDestruction(forgotten->destruction, "forget");
  ASSERT_TRUE(client.Forget({.name = name_, .everything = true}).ok());
  EXPECT_TRUE(memories_.forgotten.everything());
  EXPECT_TRUE(absl::IsInvalidArgument(client.Forget({.name = name_}).status()));

  const absl::StatusOr<EvictResult> evicted =
      client.Evict({.name = name_, .budget = 17, .dry_run = true, .request_id = "r"});
  ASSERT_TRUE(evicted.ok());
  EXPECT_EQ(memories_.evicted.tenant(), "t");
  EXPECT_EQ(memories_.evicted.memory(), "m");
  EXPECT_EQ(memories_.evicted.budget(), 17u);
  EXPECT_TRUE(memories_.evicted.dry_run());
  EXPECT_EQ(evicted->evicted, 1u);
  EXPECT_EQ(evicted->reserve, 2u);
  EXPECT_EQ(evicted->surplus, 3u);
  EXPECT_EQ(evicted->held, 4u);
  EXPECT_EQ(evicted->retained, 5u);
  EXPECT_TRUE(evicted->budget_reached);
  EXPECT_EQ(evicted->before, (Partition{.margin = 6}));
  EXPECT_EQ(evicted->after, (Partition{.error = 7}));
  EXPECT_EQ(evicted->verdict, Verdict::kProven);
  EXPECT_EQ(evicted->certificate_id, "c");
  EXPECT_EQ(evicted->request_id, "r");
  EXPECT_EQ(evicted->state_digest, "d");
  EXPECT_TRUE(evicted->replayed);
  EXPECT_EQ(evicted->receipt->request_salt, "salt");
  ExpectDestruction(evicted->destruction, "evict");

  const absl::StatusOr<EditResult> edited =
      client.Edit({.name = name_, .tokens = {token}, .request_id = "e"});
  ASSERT_TRUE(edited.ok());
  EXPECT_EQ(memories_.edited.tokens_size(), 1);
  EXPECT_EQ(memories_.edited.tokens(0).SerializeAsString(), sent.SerializeAsString());
  EXPECT_EQ(memories_.edited.memory(), "m");
  EXPECT_FALSE(memories_.edited.dry_run());
  EXPECT_EQ(edited->edited, 1u);
  EXPECT_EQ(edited->unchanged, 2u);
  EXPECT_EQ(edited->before, (Partition{.margin = 6}));
  EXPECT_EQ(edited->after, (Partition{.error = 7}));
  EXPECT_EQ(edited->verdict, Verdict::kBitIdentical);
  EXPECT_EQ(edited->request_id, "e");
  EXPECT_EQ(edited->state_digest, "d");
  EXPECT_FALSE(edited->replayed);
  EXPECT_FALSE(edited->receipt.has_value());
  ExpectDestruction(edited->destruction, "edit");
  const absl::StatusOr<EditResult> unchanged = client.Edit({.name = name_, .tokens = {token}});
  ASSERT_TRUE(unchanged.ok());
  EXPECT_FALSE(unchanged->destruction.has_value());

  const absl::StatusOr<Description> description = client.Describe(name_, true);
  ASSERT_TRUE(description.ok());
  EXPECT_EQ(description->mu, std::nullopt);
  EXPECT_EQ(description->mu_interval->low, std::nullopt);
  EXPECT_EQ(description->mu_interval->high, 0.5);
  EXPECT_EQ(description->radius_squared, 0.75);
  EXPECT_EQ(description->solver.climbs, 3u);
  EXPECT_EQ(description->solver.residual, 4);
  EXPECT_EQ(description->solver.weight_bound, 5);
  EXPECT_EQ(description->solver.decision_bound, 6);
  EXPECT_EQ(description->solver.readout_bound, 7);
  EXPECT_EQ(description->solver.gap_bound, 8);
  EXPECT_EQ(description->solver.lambda_min, 9);
  EXPECT_EQ(description->verdict, Verdict::kBitIdentical);

  const absl::StatusOr<Certificate> certificate = client.GetCertificate("t", "id");
  ASSERT_TRUE(certificate.ok());
  EXPECT_EQ(certificate->envelope, std::string("e\0e", 3));
  EXPECT_EQ(certificate->sequence, 5u);
  const absl::StatusOr<TenantDeletion> deletion = client.DeleteTenant("t");
  ASSERT_TRUE(deletion.ok());
  EXPECT_EQ(deletion->erased_tokens, 9u);
  EXPECT_EQ(deletion->certificate_id, "closing");
  EXPECT_EQ(deletion->envelope, "bytes");
  EXPECT_EQ(deletion->checkpoint, "note");
  EXPECT_EQ(deletion->tlog_proof, "proof");
  ExpectLevels(deletion->stores, "tenant");
  const absl::StatusOr<MemoryDeletion> memory_deletion = client.DeleteMemory(name_);
  ASSERT_TRUE(memory_deletion.ok());
  EXPECT_EQ(memory_deletion->erased_tokens, 4u);
  ExpectDestruction(memory_deletion->destruction, "memory");
  EXPECT_EQ(client.GetMemory(name_)->phase, MemoryPhase::kUnspecified)
      << "an enumerator of a newer server";
}

TEST_F(GrpcTest, ListingsTurnPages) {
  Client client = MakeClient();
  std::vector<std::string> names;
  for (const absl::StatusOr<Memory>& memory : client.ListMemories("t")) {
    ASSERT_TRUE(memory.ok());
    names.push_back(memory->name.memory);
  }
  EXPECT_THAT(names, testing::ElementsAre("page", "page2"));
  script_.FailFirst(100, grpc::StatusCode::PERMISSION_DENIED);
  int elements = 0;
  for (const absl::StatusOr<Tenant>& tenant : client.ListTenants()) {
    EXPECT_TRUE(absl::IsPermissionDenied(tenant.status()));
    ++elements;
  }
  EXPECT_EQ(elements, 1) << "an error is the last element";
}

TEST_F(GrpcTest, TheDeadlineHolds) {
  options_.deadline = absl::Milliseconds(100);
  memories_.sleep_milliseconds = 1500;
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(MakeClient().GetMemory(name_).status()));
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(1200));
  EXPECT_EQ(script_.calls("GetMemory"), 1);
}

TEST_F(GrpcTest, NoServerIsUnavailableAndBadOptionsAreInvalid) {
  server_->Shutdown();
  EXPECT_TRUE(absl::IsUnavailable(MakeClient().GetTenant("t").status()));
  EXPECT_EQ(sleeps_, 3);
  options_.max_attempts = 0;
  Client client = MakeClient();
  EXPECT_TRUE(absl::IsInvalidArgument(client.GetTenant("t").status()));
  const std::unique_ptr<InsertWriter> writer = client.WriteTokens(name_);
  ASSERT_TRUE(writer->Write({.id = "a", .key = {1}}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Close().status()));
}

TEST_F(GrpcTest, StreamsSurviveRandomBreaks) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  memories_.random.seed(seed);
  memories_.breaks_left = 40;
  options_.max_attempts = 100;
  Client client = MakeClient();
  InsertWriterOptions options;
  options.batch_tokens = 10;
  options.environment.sleep = [](absl::Duration) {};
  const std::unique_ptr<InsertWriter> writer = client.WriteTokens(name_, options);
  std::vector<std::string> wanted;
  for (int i = 0; i < 5000; ++i) {
    wanted.push_back(absl::StrCat("id", i));
    ASSERT_TRUE(writer->Write({.id = wanted.back(), .key = {static_cast<double>(i)}}).ok());
  }
  const absl::StatusOr<InsertSummary> summary = writer->Close();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(memories_.order, wanted) << "nothing lost, nothing doubled, in order";
  EXPECT_EQ(summary->totals.acknowledged, 5000u);
  EXPECT_EQ(summary->totals.inserted + summary->totals.unchanged, 5000u);
  EXPECT_GT(summary->totals.resumed, 10u);
  EXPECT_THAT(memories_.agents.front(), HasSubstr("grpc-test"));
}

TEST_F(GrpcTest, AStreamsLifeIsLimitedAndResumed) {
  options_.stream_lifetime = absl::Milliseconds(60);
  Client client = MakeClient();
  InsertWriterOptions options;
  options.batch_tokens = 1;
  const std::unique_ptr<InsertWriter> writer = client.WriteTokens(name_, options);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(writer->Write({.id = absl::StrCat("id", i), .key = {1}}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const absl::StatusOr<InsertSummary> summary = writer->Close();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(memories_.order.size(), 40u);
  EXPECT_GT(memories_.agents.size(), 1u);
}

TEST_F(GrpcTest, AStreamOutlivesAnOrderlyRestart) {
  Client client = MakeClient();
  InsertWriterOptions options;
  options.batch_tokens = 1;
  const std::unique_ptr<InsertWriter> writer = client.WriteTokens(name_, options);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(writer->Write({.id = absl::StrCat("id", i), .key = {1}}).ok());
    if (i != 10) continue;
    // As a server does that has waited long enough: calls that still run are cancelled.
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options_.address, grpc::InsecureServerCredentials());
    builder.RegisterService(&memories_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  const absl::StatusOr<InsertSummary> summary = writer->Close();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(memories_.order.size(), 20u);
  EXPECT_GT(summary->totals.resumed, 0u);
}

TEST_F(GrpcTest, AnAnswerEndsTheStream) {
  Client client = MakeClient();
  const std::unique_ptr<InsertWriter> writer = client.WriteTokens({"t", "other"});
  ASSERT_TRUE(writer->Write({.id = "a", .key = {1}}).ok());
  EXPECT_EQ(writer->Close().status(), absl::NotFoundError("memory: not found"));
}

TEST_F(GrpcTest, AServerThatComesBackIsFoundAgain) {
  Client client = MakeClient();
  ASSERT_TRUE(client.GetTenant("t").ok());
  server_->Shutdown();
  server_.reset();
  EXPECT_TRUE(absl::IsUnavailable(client.GetTenant("t").status()));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options_.address, grpc::InsecureServerCredentials());
  builder.RegisterService(&tenants_);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  // The default pauses, in real time.
  Client patient(MakeConnection(options_));
  EXPECT_TRUE(patient.GetTenant("t").ok());
}

}  // namespace
}  // namespace lethe::client
