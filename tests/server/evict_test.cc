// Evict: what it takes, what it leaves as it was, what its certificate says and what it does not.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

// Random tokens close together: most of them carry no weight.
std::vector<TokenInput> Crowd(uint64_t seed, int count, const std::string& prefix = "c") {
  std::mt19937_64 random(seed);
  std::vector<TokenInput> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(RandomToken(random, absl::StrCat(prefix, i)));
    tokens.back().key = {tokens.back().key[0] + 0.001 * i, tokens.back().key[1]};
  }
  return tokens;
}

std::vector<QueryItem> Ask(Harness& service, const std::string& memory, uint32_t top_tokens = 0) {
  QueryInput input{.tenant = "t", .memory = memory, .queries = {}, .top_tokens = top_tokens};
  for (const double x : {-30.0, -2.0, -0.3, 0.0, 0.7, 2.5}) {
    for (const double y : {-1.7, 0.0, 0.4, 40.0}) input.queries.push_back({x, y});
  }
  const auto reply = service->Query(input, {});
  EXPECT_THAT(reply, IsOk());
  return reply.ok() ? reply->results : std::vector<QueryItem>();
}

void ExpectSameBits(const std::vector<QueryItem>& a, const std::vector<QueryItem>& b) {
  const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].readout.size(), b[i].readout.size());
    for (size_t k = 0; k < a[i].readout.size(); ++k) {
      EXPECT_EQ(bits(a[i].readout[k]), bits(b[i].readout[k])) << i;
    }
    EXPECT_EQ(bits(a[i].log_denominator), bits(b[i].log_denominator)) << i;
    ASSERT_EQ(a[i].decision.has_value(), b[i].decision.has_value());
    if (a[i].decision.has_value()) {
      EXPECT_EQ(bits(*a[i].decision), bits(*b[i].decision)) << i;
    }
  }
}

// The tokens that are still there, in order, told by dry runs.
std::vector<TokenInput> Retained(Harness& service,
                                 const std::string& memory,
                                 const std::vector<TokenInput>& tokens) {
  std::vector<TokenInput> retained;
  for (const TokenInput& token : tokens) {
    ForgetInput input = ForgetOf(memory, {token.id});
    input.dry_run = true;
    const auto reply = service->Forget(input, {});
    EXPECT_THAT(reply, IsOk());
    if (reply.ok() && reply->matched == 1) {
      retained.push_back(token);
    } else if (reply.ok()) {
      EXPECT_EQ(reply->already_erased, 1u);
    }
  }
  return retained;
}

TEST(EvictTest, ReserveTokensGoOldestFirstAndNoReadoutChangesABit) {
  Harness service;
  service.MakeMemory("m", 4);
  const std::vector<TokenInput> tokens = Crowd(7, 60);
  service.Insert("m", tokens);
  const std::vector<QueryItem> before = Ask(service, "m", 60);
  const svdd::PartitionCounts partition = service->GetMemory("t", "m")->partition;
  ASSERT_GT(partition.reserve, 30u);

  const auto reply = service->Evict(EvictOf("m", 40), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->reserve, 20u);
  EXPECT_EQ(reply->surplus, 0u);
  EXPECT_EQ(reply->held, 0u);
  EXPECT_EQ(reply->retained, 40u);
  EXPECT_TRUE(reply->budget_reached);
  EXPECT_EQ(reply->partition_before, partition);
  EXPECT_EQ(reply->partition_after.margin, partition.margin);
  EXPECT_EQ(reply->partition_after.error, partition.error);
  EXPECT_EQ(reply->partition_after.reserve, partition.reserve - 20);
  EXPECT_EQ(reply->verdict, Verdict::kProven);
  EXPECT_EQ(reply->certificate_id.size(), 64u);
  EXPECT_TRUE(reply->receipt.has_value());
  ExpectSameBits(before, Ask(service, "m"));

  // The state is that of a memory that was given the retained tokens only, also after a restart.
  const std::vector<TokenInput> retained = Retained(service, "m", tokens);
  ASSERT_EQ(retained.size(), 40u);
  EXPECT_EQ(retained.back().id, "c59");  // the newest stay
  service.MakeMemory("fresh", 4);
  service.Insert("fresh", retained);
  EXPECT_EQ(reply->state_digest, service.Digest("fresh"));
  service.Restart();
  EXPECT_EQ(service.Digest("m"), reply->state_digest);
  ExpectSameBits(before, Ask(service, "m"));
  EXPECT_EQ(service->Describe("t", "m", true, {})->verdict, Verdict::kBitIdentical);
}

TEST(EvictTest, TheCertificateStatesTheSelectionAndItsScope) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(7, 60));
  const auto evicted = service->Evict(EvictOf("m", 50, "keep-50"), {});
  ASSERT_THAT(evicted, IsOk());
  service.Forget("m", {"c59"});
  ASSERT_THAT(service->Edit(EditOf("m", {MakeToken("c58", 9, 9)}), {}), IsOk());
  const std::vector<audit::CertificateBody> log = ErasureLog(service);  // a chain of three kinds
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0].kind, audit::CertificateKind::kEvict);
  EXPECT_EQ(log[1].kind, audit::CertificateKind::kForget);
  EXPECT_EQ(log[2].kind, audit::CertificateKind::kEdit);
  const audit::StateChange& change = *log[0].change;
  ASSERT_TRUE(change.selection.has_value());
  EXPECT_EQ(*change.selection,
            (audit::Selection{.budget = 50, .reserve = 10, .surplus = 0, .retained = 50}));
  EXPECT_EQ(log[0].counts.erased, 10u);
  EXPECT_EQ(change.partition_after.margin, change.partition_before.margin);
  EXPECT_EQ(change.partition_after.error, change.partition_before.error);
  EXPECT_FALSE(log[0].subject_commitment.has_value());
  EXPECT_FALSE(log[1].change->selection.has_value());
  // Each names the state that the one before left, so the forget is measured against what was kept.
  EXPECT_EQ(log[1].change->root_before, change.root_after);
  EXPECT_EQ(log[2].change->root_before, log[1].change->root_after);
  for (const audit::CertificateBody& body : log) {
    EXPECT_TRUE(body.change->residuals.gap_bound.has_value());
    EXPECT_TRUE(body.change->residuals.readout_bound.has_value());
  }
  const auto info = service->GetCertificate("t", evicted->certificate_id);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->kind, "evict");
}

// The bounds in the certificate are those of the state after, bit for bit.
TEST(EvictTest, TheCertificateCarriesTheBoundsOfTheState) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(7, 60));
  ASSERT_THAT(service->Evict(EvictOf("m", 50), {}), IsOk());
  const SolverHealth solver = service->Describe("t", "m", false, {})->solver;
  const audit::Residuals residuals = ErasureLog(service).at(0).change->residuals;
  EXPECT_EQ(residuals.gap_bound, solver.gap_bound);
  EXPECT_EQ(residuals.readout_bound, solver.readout_bound);
  EXPECT_EQ(residuals.weight_bound, solver.weight_bound);
  EXPECT_EQ(residuals.decision_bound, solver.decision_bound);
  EXPECT_GT(solver.gap_bound, 0.0);
  EXPECT_LT(solver.gap_bound, 1e-9);
  EXPECT_GT(solver.readout_bound, 0.0);
  EXPECT_LT(solver.readout_bound, 1e-9);
  EXPECT_GT(solver.lambda_min, 0.0);
}

TEST(EvictTest, WhatCarriesWeightStaysWhateverTheBudget) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(8, 40));
  const std::vector<QueryItem> before = Ask(service, "m");
  const svdd::PartitionCounts partition = service->GetMemory("t", "m")->partition;
  const auto reply = service->Evict(EvictOf("m", 1), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->reserve, partition.reserve);
  EXPECT_EQ(reply->retained, partition.margin + partition.error);
  EXPECT_FALSE(reply->budget_reached);
  EXPECT_EQ(reply->partition_after.reserve, 0u);
  ExpectSameBits(before, Ask(service, "m"));

  // Nothing is left to take: said, and without a certificate.
  const auto again = service->Evict(EvictOf("m", 1, "r"), {});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->reserve + again->surplus, 0u);
  EXPECT_EQ(again->certificate_id, "");
  EXPECT_FALSE(again->receipt.has_value());
  EXPECT_EQ(again->state_digest, reply->state_digest);
  EXPECT_FALSE(again->budget_reached);
  EXPECT_TRUE(service->Evict(EvictOf("m", 1, "r"), {})->replayed);
  EXPECT_EQ(ErasureLog(service).size(), 1u);
}

TEST(EvictTest, EmptyWarmingAndSmallMemoriesKeepEverything) {
  Harness service;
  service.MakeMemory("m", 6);
  for (const int count : {0, 3, 6}) {
    if (count > 0) service.Insert("m", Spiral(count));
    const std::string digest = service.Digest("m");
    for (const uint64_t budget : {uint64_t{1}, uint64_t{6}, ~uint64_t{0}}) {
      const auto reply = service->Evict(EvictOf("m", budget), {});
      ASSERT_THAT(reply, IsOk());
      EXPECT_EQ(reply->reserve + reply->surplus, 0u);
      EXPECT_EQ(reply->retained, static_cast<uint64_t>(count));
      EXPECT_EQ(reply->budget_reached, static_cast<uint64_t>(count) <= budget);
      EXPECT_EQ(reply->certificate_id, "");
    }
    EXPECT_EQ(service.Digest("m"), digest);
  }
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
}

// Three corners of a triangle and copies of one of them.
std::vector<TokenInput> Copies(int copies, const std::function<double(int)>& value) {
  std::vector<TokenInput> tokens = {MakeToken("x", 0, 2, 5), MakeToken("y", 2, -1, 7)};
  for (int i = 0; i < copies; ++i) {
    tokens.push_back(MakeToken(absl::StrCat("copy", i), -2, -1, value(i)));
  }
  return tokens;
}

TEST(EvictTest, SurplusCopiesGoNewestFirstAndTheMassOfTheirKeyStays) {
  Harness service;
  service.MakeMemory("m", 2);
  service.Insert("m", Copies(6, [](int) { return 3.0; }));
  const std::vector<QueryItem> before = Ask(service, "m");
  ASSERT_EQ(service->GetMemory("t", "m")->partition.reserve, 0u);
  const auto reply = service->Evict(EvictOf("m", 4), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->reserve, 0u);
  EXPECT_EQ(reply->surplus, 4u);
  EXPECT_EQ(reply->retained, 4u);
  EXPECT_TRUE(reply->budget_reached);
  EXPECT_EQ(service.Forget("m", {"copy5", "copy2"}).already_erased, 2u);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].change->selection->surplus, 4u);
  EXPECT_EQ(log[0].change->partition_before.margin, log[0].change->partition_after.margin + 4);
  const std::vector<QueryItem> after = Ask(service, "m");
  for (size_t i = 0; i < before.size(); ++i) {
    // Equal up to what the rounding of the weights can do; the decision rests on the same mu.
    EXPECT_NEAR(before[i].readout[0], after[i].readout[0],
                before[i].readout_bound + after[i].readout_bound);
    ASSERT_TRUE(before[i].decision.has_value() && after[i].decision.has_value());
    EXPECT_NEAR(*before[i].decision, *after[i].decision,
                *before[i].decision_bound + *after[i].decision_bound);
  }
  service.MakeMemory("fresh", 2);
  service.Insert("fresh", Copies(2, [](int) { return 3.0; }));
  EXPECT_EQ(reply->state_digest, service.Digest("fresh"));
}

TEST(EvictTest, CopiesWithOtherValuesStay) {
  Harness service;
  service.MakeMemory("m", 2);
  service.Insert("m", Copies(6, [](int i) { return 3.0 + i; }));
  const auto reply = service->Evict(EvictOf("m", 3), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->surplus, 0u);
  EXPECT_EQ(reply->retained, 8u);
  EXPECT_FALSE(reply->budget_reached);
}

TEST(EvictTest, WhereCopiesAreFilledInOrderTheEmptyOnesGo) {
  for (const svdd::DuplicatesPolicy policy :
       {svdd::DuplicatesPolicy::kOldestFirst, svdd::DuplicatesPolicy::kNewestFirst}) {
    Harness service;
    MemoryConfig config = SmallConfig(2);
    config.duplicates = policy;
    ASSERT_THAT(service->CreateMemory("t", "m", config, {}), IsOk());
    const std::vector<TokenInput> tokens = Copies(6, [](int i) { return 3.0 + i; });
    service.Insert("m", tokens);
    const std::vector<QueryItem> before = Ask(service, "m");
    const auto reply = service->Evict(EvictOf("m", 5), {});
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->surplus, 3u);
    EXPECT_EQ(reply->partition_after.margin, reply->partition_before.margin);
    EXPECT_EQ(reply->partition_after.error, reply->partition_before.error);
    ExpectSameBits(before, Ask(service, "m"));
    const std::vector<TokenInput> retained = Retained(service, "m", tokens);
    ASSERT_EQ(retained.size(), 5u);
    EXPECT_EQ(retained[2].id, policy == svdd::DuplicatesPolicy::kOldestFirst ? "copy0" : "copy3");
    EXPECT_EQ(ErasureLog(service).size(), 1u);
  }
}

// Where no token is in the margin, tokens of weight 0 bound mu: without them its interval is wider,
// and every readout is what it was.
TEST(EvictTest, WithoutAMarginTheIntervalOfMuMayWiden) {
  Harness service;
  MemoryConfig config = SmallConfig(2);
  config.kernel = kernel::Kernel{kernel::KernelKind::kRbf, 0.04};
  ASSERT_THAT(service->CreateMemory("t", "m", config, {}), IsOk());
  service.Insert("m",
                 {MakeToken("a", -1, 0, 1), MakeToken("b", 1, 0, 2), MakeToken("c", 0, 0.1, 3)});
  const auto before = service->Describe("t", "m", false, {});
  ASSERT_THAT(before, IsOk());
  ASSERT_TRUE(before->mu_is_interval);
  ASSERT_TRUE(before->mu_low.has_value());
  const std::vector<QueryItem> answers = Ask(service, "m");
  const auto reply = service->Evict(EvictOf("m", 2), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->reserve, 1u);
  const auto after = service->Describe("t", "m", false, {});
  EXPECT_TRUE(after->mu_is_interval);
  EXPECT_FALSE(after->mu_low.has_value() && *after->mu_low >= *before->mu_low);
  ExpectSameBits(answers, Ask(service, "m"));
}

// The counter-example: an evicted token could have carried weight later.
TEST(EvictTest, TheFutureIsThatOfTheRetainedTokens) {
  Harness service;
  MemoryConfig config = SmallConfig(1);
  config.kernel = kernel::Kernel{kernel::KernelKind::kRbf, 1.0 / 25.0};
  const std::vector<TokenInput> first = {MakeToken("a", -1, 0, 1), MakeToken("b", 1, 0, 2),
                                         MakeToken("c", 0, 0.9, 3)};
  const TokenInput late = MakeToken("d", 0, -10, 4);
  for (const char* name : {"evicted", "kept", "never"}) {
    ASSERT_THAT(service->CreateMemory("t", name, config, {}), IsOk());
  }
  service.Insert("evicted", first);
  service.Insert("kept", first);
  service.Insert("never", {first[0], first[1]});
  const std::vector<QueryItem> before = Ask(service, "kept");

  const auto reply = service->Evict(EvictOf("evicted", 2), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->reserve, 1u);
  // (a) At that time nothing that can be read has changed.
  ExpectSameBits(before, Ask(service, "evicted"));
  EXPECT_EQ(service.Digest("evicted"), service.Digest("never"));

  // (b) Afterwards the token would have had weight. "Retrained" means without it from now on: the
  // state equals that of a memory that never had it, and no longer that of one that kept it.
  for (const char* name : {"evicted", "kept", "never"}) service.Insert(name, {late});
  double weight = 0.0;
  const std::vector<QueryItem> carried = Ask(service, "kept", 4);
  for (const QueryToken& token : carried.front().tokens) {
    if (token.id == "c") weight = token.weight;
  }
  EXPECT_NEAR(weight, 0.0333, 1e-4);
  EXPECT_NE(service.Digest("evicted"), service.Digest("kept"));
  EXPECT_EQ(service.Digest("evicted"), service.Digest("never"));
  const std::vector<QueryItem> evicted = Ask(service, "evicted");
  const std::vector<QueryItem> kept = Ask(service, "kept");
  double apart = 0.0;
  for (size_t i = 0; i < kept.size(); ++i) {
    apart = std::max(apart, std::abs(kept[i].readout[0] - evicted[i].readout[0]));
  }
  EXPECT_GT(apart, 1e-3);
  // Which is why the certificate says so, and a later forget is measured against what was retained.
  const ForgetReply forgotten = service.Forget("evicted", {"d"});
  EXPECT_EQ(forgotten.state_digest, reply->state_digest);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 2u);
  EXPECT_TRUE(log[0].change->selection.has_value());
}

TEST(EvictTest, DryRunForeseesAndChangesNothing) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(9, 50));
  const std::string before = service.Digest("m");
  EvictInput input = EvictOf("m", 30, "r");
  input.dry_run = true;
  const auto foreseen = service->Evict(input, {});
  ASSERT_THAT(foreseen, IsOk());
  EXPECT_EQ(foreseen->reserve, 20u);
  EXPECT_EQ(foreseen->retained, 30u);
  EXPECT_TRUE(foreseen->budget_reached);
  EXPECT_EQ(foreseen->certificate_id, "");
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  input.dry_run = false;
  const auto done = service->Evict(input, {});
  ASSERT_THAT(done, IsOk());
  EXPECT_FALSE(done->replayed);
  EXPECT_EQ(done->reserve, foreseen->reserve);
  EXPECT_EQ(done->partition_after, foreseen->partition_after);
  EXPECT_EQ(done->state_digest, foreseen->state_digest);
}

TEST(EvictTest, RequestIdsAreAnsweredOnceAndNeverForAnotherKindOfRequest) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(10, 50));
  const auto first = service->Evict(EvictOf("m", 40, "r"), {});
  ASSERT_THAT(first, IsOk());
  service.Insert("m", Crowd(11, 20, "later"));
  for (int round = 0; round < 2; ++round) {
    const auto again = service->Evict(EvictOf("m", 40, "r"), {});
    ASSERT_THAT(again, IsOk());
    EXPECT_TRUE(again->replayed);
    EXPECT_EQ(again->reserve, first->reserve);
    EXPECT_EQ(again->retained, first->retained);
    EXPECT_EQ(again->budget_reached, first->budget_reached);
    EXPECT_EQ(again->partition_before, first->partition_before);
    EXPECT_EQ(again->partition_after, first->partition_after);
    EXPECT_EQ(again->certificate_id, first->certificate_id);
    EXPECT_EQ(again->state_digest, first->state_digest);
    EXPECT_EQ(again->request_id, "r");
    EXPECT_FALSE(again->receipt.has_value());
    service.Restart();
  }
  EXPECT_EQ(Total(service->GetMemory("t", "m")->partition), 60u);
  EXPECT_THAT(service->Evict(EvictOf("m", 41, "r"), {}), Fails(kExists, "request_id"));
  ForgetInput forget = ForgetAllOf("m");
  forget.request_id = "r";
  EXPECT_THAT(service->Forget(forget, {}), Fails(kExists, "request_id"));
  EXPECT_THAT(service->Edit(EditOf("m", {MakeToken("c49", 1, 1)}, "r"), {}),
              Fails(kExists, "request_id"));
  forget.request_id = "f";
  ASSERT_THAT(service->Forget(forget, {}), IsOk());
  EXPECT_THAT(service->Evict(EvictOf("m", 40, "f"), {}), Fails(kExists, "request_id"));
  ASSERT_THAT(service->DeleteMemory("t", "m", {}), IsOk());
  EXPECT_TRUE(service->Evict(EvictOf("m", 40, "r"), {})->replayed);
}

TEST(EvictTest, BadRequestsNameTheirFieldAndChangeNothing) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(12, 30));
  const std::string before = service.Digest("m");
  EXPECT_THAT(service->Evict(EvictOf("m", 0), {}), Fails(kInvalid, "budget"));
  EXPECT_THAT(service->Evict(EvictOf("m", 5, std::string(129, 'r')), {}),
              Fails(kInvalid, "request_id"));
  EXPECT_THAT(service->Evict(EvictOf("M", 5), {}), Fails(kInvalid, "memory"));
  EXPECT_THAT(service->Evict(EvictOf("none", 5), {}), Fails(kNotFound, "memory"));
  EvictInput other = EvictOf("m", 5);
  other.tenant = "nobody";
  EXPECT_THAT(service->Evict(other, {}), Fails(kNotFound, "tenant"));
  CallOptions gone;
  gone.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service->Evict(EvictOf("m", 5), gone), HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
}

TEST(EvictTest, WhatWasTakenOutIsGoneAlsoFromCopiesAndItsIdsAreFree) {
  Harness service;
  service.MakeMemory("m", 4);
  std::vector<TokenInput> tokens = Crowd(13, 40);
  for (TokenInput& token : tokens) {
    token.payload = absl::StrCat("secret-of-", token.id, ".");
    token.subject.clear();  // so that each has a key of its own, and no row is sealed anew
  }
  service.Insert("m", tokens);
  StolenRows copy(service);
  std::vector<std::string> ids;
  for (const TokenInput& token : tokens) ids.push_back(token.id);
  ASSERT_EQ(copy.Readable("m", ids).size(), ids.size());
  const auto reply = service->Evict(EvictOf("m", 1), {});
  ASSERT_THAT(reply, IsOk());
  const std::vector<TokenInput> retained = Retained(service, "m", tokens);
  ASSERT_EQ(retained.size(), reply->retained);
  const std::set<std::string> readable = copy.Readable("m", ids);
  std::vector<TokenInput> evicted;
  for (const TokenInput& token : tokens) {
    const bool stays = std::any_of(retained.begin(), retained.end(),
                                   [&](const TokenInput& kept) { return kept.id == token.id; });
    EXPECT_EQ(readable.contains(token.id), stays) << token.id;
    EXPECT_FALSE(FilesHold(service, token.payload)) << token.id;  // sealed while it is there
    if (!stays) evicted.push_back(token);
  }
  ASSERT_FALSE(evicted.empty());
  EXPECT_EQ(service.Insert("m", {evicted.front()}).inserted, 1u);
  EXPECT_EQ(service.Forget("m", {evicted.front().id}).state_digest, reply->state_digest);
}

TEST(EvictTest, RefitOnForgetComparesEvictionsAndEditsToo) {
  Harness service;
  service.options().tenant.refit_on_forget = true;
  service.Restart();
  service.MakeMemory("m", 4);
  service.Insert("m", Crowd(14, 40));
  EXPECT_EQ(service->Evict(EvictOf("m", 30), {})->verdict, Verdict::kBitIdentical);
  EXPECT_EQ(service->Edit(EditOf("m", {MakeToken("c39", 5, 5)}), {})->verdict,
            Verdict::kBitIdentical);
  for (const audit::CertificateBody& body : ErasureLog(service)) {
    EXPECT_EQ(body.change->verdict, audit::VerdictClass::kBitIdentical);
  }
}

}  // namespace
}  // namespace lethe::service
