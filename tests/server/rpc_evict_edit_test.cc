// Evict and Edit over a real connection, and the bounds that answers carry.
#include <string>
#include <vector>

#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;

TEST_F(RpcTest, EvictEditAndTheProofOfEveryAnswer) {
  v1::InsertRequest insert = InsertOf(8);
  std::vector<service::TokenInput> inside;
  for (int i = 0; i < 12; ++i) {
    inside.push_back(service::MakeToken(absl::StrCat("in", i), 0.04 * i, 0.1, i));
  }
  Fill(inside, insert.mutable_tokens());
  v1::InsertResponse inserted;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, insert, &inserted), RpcOk());
  EXPECT_EQ(inserted.verdict(), v1::VERDICT_PROVEN);

  v1::QueryRequest query;
  query.set_tenant("t");
  query.set_memory("m");
  query.add_queries()->mutable_values()->Resize(2, 0.25);
  v1::QueryResponse before;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Query, query, &before), RpcOk());
  EXPECT_GT(before.results(0).readout_bound(), 0.0);
  EXPECT_LT(before.results(0).readout_bound(), 1e-9);
  ASSERT_EQ(before.results(0).has_decision(), before.results(0).has_decision_bound());

  v1::DescribeRequest describe;
  describe.set_tenant("t");
  describe.set_memory("m");
  v1::DescribeResponse described;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Describe, describe, &described), RpcOk());
  const auto health = harness_->Describe("t", "m", false, {})->solver;
  EXPECT_EQ(described.solver().residual(), health.residual);
  EXPECT_EQ(described.solver().weight_bound(), health.weight_bound);
  EXPECT_EQ(described.solver().decision_bound(), health.decision_bound);
  EXPECT_EQ(described.solver().readout_bound(), health.readout_bound);
  EXPECT_EQ(described.solver().gap_bound(), health.gap_bound);
  EXPECT_EQ(described.solver().lambda_min(), health.lambda_min);
  EXPECT_GT(described.solver().gap_bound(), 0.0);

  v1::EvictRequest evict;
  evict.set_tenant("t");
  evict.set_memory("m");
  evict.set_budget(15);
  evict.set_dry_run(true);
  evict.set_request_id("e1");
  v1::EvictResponse plan;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Evict, evict, &plan), RpcOk());
  EXPECT_EQ(plan.evicted(), 5u);
  EXPECT_EQ(plan.certificate_id(), "");
  EXPECT_FALSE(plan.has_destruction());
  evict.set_dry_run(false);
  v1::EvictResponse evicted;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Evict, evict, &evicted), RpcOk());
  EXPECT_EQ(evicted.evicted(), 5u);
  EXPECT_EQ(evicted.reserve(), 5u);
  EXPECT_EQ(evicted.surplus(), 0u);
  EXPECT_EQ(evicted.held(), 0u);
  EXPECT_EQ(evicted.retained(), 15u);
  EXPECT_TRUE(evicted.budget_reached());
  EXPECT_EQ(evicted.partition_before().reserve(), evicted.partition_after().reserve() + 5);
  EXPECT_EQ(evicted.verdict(), v1::VERDICT_PROVEN);
  EXPECT_EQ(evicted.request_id(), "e1");
  EXPECT_EQ(evicted.state_digest(), plan.state_digest());
  EXPECT_EQ(evicted.receipt().request_salt().size(), 32u);
  ExpectDestroyed(evicted.destruction());
  v1::EvictResponse again;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Evict, evict, &again), RpcOk());
  EXPECT_TRUE(again.replayed());
  EXPECT_FALSE(again.has_receipt());
  EXPECT_EQ(again.destruction().SerializeAsString(), evicted.destruction().SerializeAsString());
  v1::QueryResponse after;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Query, query, &after), RpcOk());
  EXPECT_EQ(after.results(0).SerializeAsString(), before.results(0).SerializeAsString());

  v1::EditRequest edit;
  edit.set_tenant("t");
  edit.set_memory("m");
  edit.set_request_id("e2");
  Fill({service::MakeToken("a6", 3, 3, 9), service::Spiral(8)[7]}, edit.mutable_tokens());
  v1::EditResponse edited;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Edit, edit, &edited), RpcOk());
  EXPECT_EQ(edited.edited(), 1u);
  EXPECT_EQ(edited.unchanged(), 1u);
  EXPECT_EQ(edited.verdict(), v1::VERDICT_PROVEN);
  EXPECT_EQ(edited.request_id(), "e2");
  EXPECT_EQ(edited.state_digest(), harness_.Digest("m"));
  EXPECT_EQ(edited.receipt().request_salt().size(), 32u);
  ExpectDestroyed(edited.destruction());
  EXPECT_NE(edited.destruction().certificate_id(), evicted.destruction().certificate_id());
  v1::GetCertificateRequest get;
  get.set_tenant("t");
  get.set_id(edited.certificate_id());
  v1::Certificate certificate;
  ASSERT_THAT(
      Call(*certificates_, &v1::CertificateService::Stub::GetCertificate, get, &certificate),
      RpcOk());
  EXPECT_EQ(certificate.kind(), "edit");
}

// What the core cannot decide reaches the caller as INTERNAL.
TEST_F(RpcTest, AnUndecidableStateIsInternal) {
  bool undecidable = false;
  server_.reset();
  harness_.options().tenant.update_fault = [&undecidable]() -> absl::Status {
    if (!undecidable) return absl::OkStatus();
    return absl::InternalError("the state of these tokens cannot be decided at any precision");
  };
  harness_.Restart();
  StartServer({});
  v1::InsertResponse inserted;
  ASSERT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(8), &inserted), RpcOk());
  const std::string digest = harness_.Digest("m");
  undecidable = true;
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(2, "b"), &inserted),
              RpcCode(StatusCode::INTERNAL));
  v1::EditRequest edit;
  edit.set_tenant("t");
  edit.set_memory("m");
  Fill({service::MakeToken("a1", 3, 3, 9)}, edit.mutable_tokens());
  v1::EditResponse edited;
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Edit, edit, &edited),
              RpcCode(StatusCode::INTERNAL));
  EXPECT_EQ(harness_.Digest("m"), digest);
  undecidable = false;
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Edit, edit, &edited), RpcOk());
}

}  // namespace
}  // namespace lethe::rpc
