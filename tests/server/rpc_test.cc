// Calls over a real connection: every method, bad input by its field, limits, health, reflection.
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/sync_stream.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/verify.h"
#include "audit/verify_proof.h"
#include "server/rpc/parse.h"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Text(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// A unary call with bytes of our own making.
grpc::Status RawCall(grpc::Channel* channel,
                     const char* method,
                     const std::string& request,
                     std::string* response) {
  Context context;
  grpc::ByteBuffer reply;
  const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel, rpc, &context, Bytes(request), &reply);
  if (status.ok()) *response = Text(reply);
  return status;
}

TEST_F(RpcTest, TheWholeLifeOfATenant) {
  v1::CreateTenantRequest create;
  create.set_name("clinic");
  v1::Tenant tenant;
  ASSERT_THAT(Call(*tenants_, &v1::TenantService::Stub::CreateTenant, create, &tenant), RpcOk());
  EXPECT_EQ(tenant.name(), "clinic");
  EXPECT_THAT(tenant.verification_key(), HasSubstr(tenant.log_origin() + "+"));

  v1::CreateMemoryRequest make;
  make.set_tenant("clinic");
  make.set_name("visits");
  v1::MemoryConfig* config = make.mutable_config();
  config->mutable_kernel()->mutable_laplacian()->set_gamma(0.75);
  config->set_box(0.25);
  config->set_duplicates(v1::DUPLICATES_POLICY_NEWEST_FIRST);
  config->set_key_dimension(2);
  config->set_value_dimension(1);
  v1::Memory memory;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::CreateMemory, make, &memory), RpcOk());
  EXPECT_EQ(memory.config().SerializeAsString(), config->SerializeAsString());
  EXPECT_EQ(memory.phase(), v1::MEMORY_PHASE_EMPTY);

  v1::InsertRequest insert = InsertOf(10);
  insert.set_tenant("clinic");
  insert.set_memory("visits");
  insert.mutable_tokens(4)->set_subject("p");
  (*insert.mutable_tokens(4)->mutable_labels())["ward"] = "7";
  insert.mutable_tokens(4)->set_payload(std::string("\0\xff", 2));
  insert.mutable_tokens(5)->set_key(1, kNan);
  v1::InsertResponse inserted;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, insert, &inserted), RpcOk());
  EXPECT_EQ(inserted.inserted(), 9u);
  EXPECT_EQ(inserted.rejected(), 1u);
  EXPECT_EQ(inserted.results(4).outcome(), v1::INSERT_OUTCOME_INSERTED);
  EXPECT_EQ(inserted.results(5).outcome(), v1::INSERT_OUTCOME_REJECTED);
  EXPECT_EQ(inserted.results(5).error().code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(inserted.results(5).error().field(), "tokens[5].key[1]");
  EXPECT_EQ(inserted.phase(), v1::MEMORY_PHASE_ACTIVE);

  v1::QueryRequest query;
  query.set_tenant("clinic");
  query.set_memory("visits");
  for (const double x : {0.0, 50.0}) {
    v1::Vector* vector = query.add_queries();
    vector->add_values(x);
    vector->add_values(0);
  }
  query.set_top_tokens(3);
  v1::QueryResponse answer;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Query, query, &answer), RpcOk());
  ASSERT_EQ(answer.results_size(), 2);
  EXPECT_EQ(answer.results(1).position(), v1::QUERY_POSITION_OUTSIDE);
  EXPECT_EQ(answer.results(0).readout_size(), 1);
  EXPECT_EQ(answer.results(0).tokens_size(), 3);
  EXPECT_GT(answer.results(0).tokens(0).weight(), 0.0);

  v1::DescribeRequest describe;
  describe.set_tenant("clinic");
  describe.set_memory("visits");
  describe.set_refit(true);
  v1::DescribeResponse described;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Describe, describe, &described), RpcOk());
  EXPECT_EQ(described.verdict(), v1::VERDICT_BIT_IDENTICAL);
  EXPECT_EQ(described.subjects(), 1u);
  EXPECT_EQ(described.state_digest().size(), 64u);
  EXPECT_NE(described.has_mu(), described.has_mu_interval());

  v1::ForgetRequest forget;
  forget.set_tenant("clinic");
  forget.set_memory("visits");
  forget.set_subject("p");
  forget.set_request_id("r1");
  v1::ForgetResponse forgotten;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Forget, forget, &forgotten), RpcOk());
  EXPECT_EQ(forgotten.erased(), 1u);
  EXPECT_EQ(forgotten.verdict(), v1::VERDICT_PROVEN);
  EXPECT_EQ(forgotten.request_id(), "r1");
  EXPECT_FALSE(forgotten.replayed());
  ExpectDestroyed(forgotten.destruction());
  v1::ForgetResponse replayed;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Forget, forget, &replayed), RpcOk());
  EXPECT_TRUE(replayed.replayed());
  EXPECT_EQ(replayed.certificate_id(), forgotten.certificate_id());
  EXPECT_EQ(replayed.destruction().SerializeAsString(),
            forgotten.destruction().SerializeAsString());

  v1::GetCertificateRequest get;
  get.set_tenant("clinic");
  get.set_id(forgotten.certificate_id());
  v1::Certificate certificate;
  ASSERT_THAT(
      Call(*certificates_, &v1::CertificateService::Stub::GetCertificate, get, &certificate),
      RpcOk());
  EXPECT_EQ(certificate.kind(), "forget");
  EXPECT_EQ(certificate.memory(), "visits");
  EXPECT_FALSE(certificate.envelope().empty());
  v1::ListCertificatesRequest list;
  list.set_tenant("clinic");
  v1::ListCertificatesResponse listed;
  ASSERT_THAT(Call(*certificates_, &v1::CertificateService::Stub::ListCertificates, list, &listed),
              RpcOk());
  ASSERT_EQ(listed.certificates_size(), 2);
  EXPECT_EQ(listed.certificates(0).SerializeAsString(), certificate.SerializeAsString());
  EXPECT_EQ(listed.certificates(1).id(), forgotten.destruction().certificate_id());
  EXPECT_EQ(listed.certificates(1).kind(), "shredded");
  EXPECT_EQ(listed.certificates(1).memory(), "");

  v1::DeleteMemoryRequest remove;
  remove.set_tenant("clinic");
  remove.set_name("visits");
  v1::DeleteMemoryResponse removed;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::DeleteMemory, remove, &removed), RpcOk());
  EXPECT_EQ(removed.erased_tokens(), 8u);
  ExpectDestroyed(removed.destruction());
  v1::DeleteTenantRequest close;
  close.set_name("clinic");
  v1::DeleteTenantResponse closed;
  ASSERT_THAT(Call(*tenants_, &v1::TenantService::Stub::DeleteTenant, close, &closed), RpcOk());
  EXPECT_EQ(closed.erased_tokens(), 0u);
  EXPECT_EQ(closed.certificate_id().size(), 64u);
  ExpectDestroyedIn(closed.stores());
  const std::vector<audit::VerificationKey> keys = {
      *audit::VerificationKey::Parse(tenant.verification_key())};
  const audit::CertificateResult closing =
      audit::VerifyCertificate(closed.envelope(), std::nullopt, keys[0]);
  ASSERT_TRUE(closing.ok()) << closing.message;
  EXPECT_EQ(closing.body->kind, audit::CertificateKind::kTenantClosed);
  const audit::ProofResult proof = audit::VerifyCertificateProof(
      closed.tlog_proof(), closed.envelope(), closing, keys[0], keys, nullptr);
  EXPECT_TRUE(proof.ok()) << proof.message;
  EXPECT_EQ(proof.checkpoint.size, 5u);
  const audit::CheckpointResult checkpoint = audit::VerifyCheckpoint(closed.checkpoint(), keys[0]);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message;
  EXPECT_EQ(checkpoint.checkpoint, proof.checkpoint);
  v1::GetTenantRequest gone;
  gone.set_name("clinic");
  EXPECT_THAT(Call(*tenants_, &v1::TenantService::Stub::GetTenant, gone, &tenant),
              RpcCode(StatusCode::NOT_FOUND));
}

TEST_F(RpcTest, ListsPageByPage) {
  v1::ListTenantsRequest tenants;
  tenants.set_page_size(1);
  v1::ListTenantsResponse tenant_page;
  ASSERT_THAT(Call(*tenants_, &v1::TenantService::Stub::ListTenants, tenants, &tenant_page),
              RpcOk());
  ASSERT_EQ(tenant_page.tenants_size(), 1);
  EXPECT_EQ(tenant_page.tenants(0).name(), "t");
  EXPECT_EQ(tenant_page.next_page_token(), "");
  harness_.MakeMemory("n");
  v1::ListMemoriesRequest memories;
  memories.set_tenant("t");
  memories.set_page_size(1);
  v1::ListMemoriesResponse page;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::ListMemories, memories, &page), RpcOk());
  EXPECT_EQ(page.memories(0).name(), "m");
  memories.set_page_token(page.next_page_token());
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::ListMemories, memories, &page), RpcOk());
  EXPECT_EQ(page.memories(0).name(), "n");
  memories.set_page_token("bogus");
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::ListMemories, memories, &page),
              RpcFails(StatusCode::INVALID_ARGUMENT, "page_token"));
  memories.set_page_size(1001);
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::ListMemories, memories, &page),
              RpcFails(StatusCode::INVALID_ARGUMENT, "page_size"));
}

TEST_F(RpcTest, BadInputNamesItsField) {
  const std::string bad_text = "\xff";
  v1::InsertResponse inserted;
  const auto insert = [&](const char* field, const std::function<void(v1::InsertRequest*)>& spoil) {
    v1::InsertRequest request = InsertOf(3);
    spoil(&request);
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, request, &inserted),
                RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  insert("tokens", [](auto* r) { r->clear_tokens(); });
  insert("tenant", [](auto* r) { r->clear_tenant(); });
  insert("memory", [](auto* r) { r->set_memory("M"); });
  insert("tenant", [&](auto* r) { r->set_tenant(bad_text); });
  insert("tokens[1].id", [&](auto* r) { r->mutable_tokens(1)->set_id(bad_text); });
  insert("tokens[2].subject", [&](auto* r) { r->mutable_tokens(2)->set_subject(bad_text); });
  insert("tokens[0].labels.value",
         [&](auto* r) { (*r->mutable_tokens(0)->mutable_labels())["a"] = bad_text; });

  v1::Memory memory;
  const auto create = [&](const char* field,
                          const std::function<void(v1::CreateMemoryRequest*)>& spoil) {
    v1::CreateMemoryRequest request;
    request.set_tenant("t");
    request.set_name("new");
    request.mutable_config()->mutable_kernel()->mutable_rbf()->set_gamma(1);
    request.mutable_config()->set_capacity(3);
    request.mutable_config()->set_key_dimension(1);
    request.mutable_config()->set_value_dimension(1);
    spoil(&request);
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::CreateMemory, request, &memory),
                RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  create("config.kernel", [](auto* r) { r->mutable_config()->clear_kernel(); });
  create("config.kernel", [](auto* r) { r->mutable_config()->mutable_kernel()->Clear(); });
  create("config.kernel", [](auto* r) { r->clear_config(); });
  create("config.kernel.gamma",
         [](auto* r) { r->mutable_config()->mutable_kernel()->mutable_rbf()->set_gamma(kNan); });
  create("config.kernel.gamma",
         [](auto* r) { r->mutable_config()->mutable_kernel()->mutable_laplacian(); });
  create("config.kernel.scale",
         [](auto* r) { r->mutable_config()->mutable_kernel()->mutable_exp_dot(); });
  create("config.box", [](auto* r) { r->mutable_config()->clear_size(); });
  create("config.box", [](auto* r) { r->mutable_config()->set_box(1.5); });
  create("config.box", [](auto* r) { r->mutable_config()->set_box(0); });
  create("config.capacity", [](auto* r) { r->mutable_config()->set_capacity(0.5); });
  create("config.duplicates", [](auto* r) {
    r->mutable_config()->set_duplicates(static_cast<v1::DuplicatesPolicy>(9));
  });
  create("config.key_dimension", [](auto* r) { r->mutable_config()->clear_key_dimension(); });
  create("config.value_dimension", [](auto* r) { r->mutable_config()->clear_value_dimension(); });
  create("name", [](auto* r) { r->set_name("a/b"); });

  v1::QueryResponse answer;
  const auto query = [&](const char* field, const std::function<void(v1::QueryRequest*)>& spoil) {
    v1::QueryRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    request.add_queries()->mutable_values()->Resize(2, 0.0);
    request.add_queries()->mutable_values()->Resize(2, 0.0);
    spoil(&request);
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Query, request, &answer),
                RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  query("queries", [](auto* r) { r->clear_queries(); });
  query("queries[1]", [](auto* r) { r->mutable_queries(1)->add_values(0); });
  query("queries[1].values[0]", [](auto* r) { r->mutable_queries(1)->set_values(0, kNan); });
  query("top_tokens", [](auto* r) { r->set_top_tokens(1001); });

  v1::ForgetResponse forgotten;
  const auto forget = [&](const char* field, const std::function<void(v1::ForgetRequest*)>& spoil) {
    v1::ForgetRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    request.mutable_tokens()->add_ids("a0");
    spoil(&request);
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Forget, request, &forgotten),
                RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  forget("target", [](auto* r) { r->clear_target(); });
  forget("everything", [](auto* r) { r->set_everything(false); });
  forget("subject", [](auto* r) { r->set_subject(""); });
  forget("tokens.ids", [](auto* r) { r->mutable_tokens()->clear_ids(); });
  forget("tokens.ids[1]", [](auto* r) { r->mutable_tokens()->add_ids(""); });
  forget("tokens.ids[1]", [&](auto* r) { r->mutable_tokens()->add_ids(bad_text); });
  forget("request_id", [](auto* r) { r->set_request_id(std::string(129, 'r')); });

  v1::EvictResponse evicted;
  const auto evict = [&](const char* field, const std::function<void(v1::EvictRequest*)>& spoil) {
    v1::EvictRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    request.set_budget(3);
    spoil(&request);
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Evict, request, &evicted),
                RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  evict("budget", [](auto* r) { r->clear_budget(); });
  evict("memory", [](auto* r) { r->set_memory(""); });
  evict("request_id", [](auto* r) { r->set_request_id("\n"); });

  v1::EditResponse edited;
  const auto edit = [&](const char* field, const std::function<void(v1::EditRequest*)>& spoil) {
    v1::EditRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    *request.mutable_tokens() = InsertOf(3).tokens();
    spoil(&request);
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Edit, request, &edited),
                RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  edit("tokens", [](auto* r) { r->clear_tokens(); });
  edit("tokens[2].id", [](auto* r) { r->mutable_tokens(2)->clear_id(); });
  edit("tokens[2].id", [](auto* r) { r->mutable_tokens(2)->set_id("a0"); });
  edit("tokens[1].id", [&](auto* r) { r->mutable_tokens(1)->set_id(bad_text); });
  edit("tokens[0].key", [](auto* r) { r->mutable_tokens(0)->clear_key(); });
  edit("request_id", [](auto* r) { r->set_request_id(std::string(129, 'r')); });
  EXPECT_EQ(harness_->ListMemories("t", {})->items.size(), 1u);
  EXPECT_EQ(harness_->GetMemory("t", "m")->phase, svdd::Phase::kEmpty);
}

TEST_F(RpcTest, BytesThatAreNoMessageAreRefused) {
  std::string response;
  // A field of wire type 2 that ends before its length says.
  for (const std::string& bytes :
       {std::string("\x0a\x7f"), std::string("\x0a"),
        std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x07")}) {
    EXPECT_THAT(RawCall(channel_.get(), "/lethe.v1.MemoryService/Insert", bytes, &response),
                RpcFails(StatusCode::INVALID_ARGUMENT, "request"));
  }
  EXPECT_THAT(RawCall(channel_.get(), "/lethe.v1.MemoryService/NoSuchMethod", "", &response),
              RpcCode(StatusCode::UNIMPLEMENTED));
}

TEST_F(RpcTest, MessagesAndMetadataAreBounded) {
  v1::InsertRequest request = InsertOf(1);
  request.mutable_tokens(0)->set_payload(std::string(17 << 20, 'x'));
  v1::InsertResponse response;
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, request, &response),
              RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  Context context;
  context.AddMetadata("x-large", std::string(64 << 10, 'x'));
  EXPECT_FALSE(memories_->Insert(&context, InsertOf(1), &response).ok());
  EXPECT_EQ(harness_->GetMemory("t", "m")->phase, svdd::Phase::kEmpty);
  // gRPC may close the connection over it; a new one works.
  grpc::Status status;
  for (int attempt = 0; attempt < 20; ++attempt) {
    status = Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(1), &response);
    if (status.error_code() != StatusCode::UNAVAILABLE) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_THAT(status, RpcOk());
}

TEST_F(RpcTest, ACallThatNobodyWaitsForIsNotCommitted) {
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  v1::InsertResponse response;
  std::thread first([&] {
    v1::InsertResponse mine;
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(1), &mine), RpcOk());
  });
  door.WaitUntilSomebodyWaits();
  grpc::ClientContext impatient;
  impatient.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  EXPECT_THAT(memories_->Insert(&impatient, InsertOf(1, "late"), &response),
              RpcCode(StatusCode::DEADLINE_EXCEEDED));
  door.Open();
  first.join();
  // Whatever waited has had its turn once this one is through.
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(1, "b"), &response),
              RpcOk());
  EXPECT_EQ(harness_.Forget("m", {"late0"}).not_found, 1u);
}

TEST_F(RpcTest, HealthOfTheServerAndOfEachService) {
  for (const std::string name : {"", "lethe.v1.TenantService", "lethe.v1.MemoryService",
                                 "lethe.v1.CertificateService", "lethe.v1.BackupService"}) {
    // HealthCheckRequest{1: service}; HealthCheckResponse{1: SERVING}.
    std::string request;
    if (!name.empty()) request = absl::StrCat("\x0a", std::string(1, char(name.size())), name);
    std::string response;
    ASSERT_THAT(RawCall(channel_.get(), "/grpc.health.v1.Health/Check", request, &response),
                RpcOk())
        << name;
    EXPECT_EQ(response, "\x08\x01") << name;
  }
  std::string response;
  EXPECT_THAT(RawCall(channel_.get(), "/grpc.health.v1.Health/Check", "\x0a\x01x", &response),
              RpcCode(StatusCode::NOT_FOUND));
}

TEST_F(RpcTest, ReflectionListsTheServices) {
  Context context;
  const grpc::internal::RpcMethod rpc(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING);
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel_.get(), rpc, &context));
  ASSERT_TRUE(stream->Write(Bytes(std::string("\x3a\x00", 2))));  // list_services: ""
  grpc::ByteBuffer reply;
  ASSERT_TRUE(stream->Read(&reply));
  const std::string text = Text(reply);
  for (const char* name :
       {"lethe.v1.TenantService", "lethe.v1.MemoryService", "lethe.v1.CertificateService",
        "lethe.v1.BackupService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
  stream->WritesDone();
  EXPECT_THAT(stream->Finish(), RpcOk());
}

TEST_F(RpcTest, DrainLetsRunningCallsFinishAndTakesNoNewOnes) {
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  std::thread call([&] {
    v1::InsertResponse response;
    EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(2), &response),
                RpcOk());
  });
  door.WaitUntilSomebodyWaits();
  std::thread drain([&] { server_->Drain(absl::Seconds(20)); });
  // New calls are turned away while the old one still runs.
  grpc::Status status;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
    v1::GetTenantRequest request;
    request.set_name("t");
    v1::Tenant tenant;
    status = tenants_->GetTenant(&context, request, &tenant);
  } while (status.ok());
  door.Open();
  call.join();
  drain.join();
  EXPECT_EQ(harness_.Insert("m", service::Spiral(2)).unchanged, 2u);
}

TEST_F(RpcTest, ATakenPortIsAnError) {
  ServerOptions options;
  options.listen = absl::StrCat("127.0.0.1:", server_->port());
  const auto second = RpcServer::Start(&*harness_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RpcTest, InProcessChannelsWorkToo) {
  const auto stub = v1::TenantService::NewStub(server_->InProcessChannel());
  v1::GetTenantRequest request;
  request.set_name("t");
  v1::Tenant tenant;
  EXPECT_THAT(Call(*stub, &v1::TenantService::Stub::GetTenant, request, &tenant), RpcOk());
  EXPECT_EQ(tenant.name(), "t");
}

}  // namespace
}  // namespace lethe::rpc
