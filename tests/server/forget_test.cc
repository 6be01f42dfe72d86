// Forget, DeleteMemory, DeleteTenant and the certificates they leave.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/commitments.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/verify.h"
#include "server/service/service.h"
#include "store/sqlite_tenant_store.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

TEST(ForgetTest, StateEqualsThatOfAMemoryThatNeverSawTheToken) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(20));
  const ForgetReply reply = service.Forget("m", {"a3", "a19", "a0"});
  EXPECT_EQ(reply.matched, 3u);
  EXPECT_EQ(reply.erased, 3u);
  EXPECT_EQ(reply.not_found, 0u);
  EXPECT_EQ(reply.already_erased, 0u);
  EXPECT_EQ(reply.held, 0u);
  EXPECT_EQ(reply.verdict, Verdict::kProven);
  EXPECT_EQ(Total(reply.partition_before), 20u);
  EXPECT_EQ(Total(reply.partition_after), 17u);
  EXPECT_FALSE(reply.replayed);
  EXPECT_EQ(reply.certificate_id.size(), 64u);
  EXPECT_EQ(reply.request_id.size(), 32u);

  service.MakeMemory("fresh", 4);
  std::vector<TokenInput> rest;
  for (const TokenInput& token : Spiral(20)) {
    if (token.id != "a3" && token.id != "a19" && token.id != "a0") rest.push_back(token);
  }
  service.Insert("fresh", rest);
  EXPECT_EQ(reply.state_digest, service.Digest("fresh"));
  EXPECT_EQ(service.Digest("m"), service.Digest("fresh"));
  service.Restart();
  EXPECT_EQ(service.Digest("m"), reply.state_digest);
}

TEST(ForgetTest, TheFiveCounts) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(6));
  service.Forget("m", {"a0", "a1"});
  // a0: erased earlier; a2 twice, counted once; nobody: never seen.
  const ForgetReply reply = service.Forget("m", {"a0", "a2", "nobody", "a2", "a3", "nobody"});
  EXPECT_EQ(reply.matched, 2u);
  EXPECT_EQ(reply.erased, 2u);
  EXPECT_EQ(reply.already_erased, 1u);
  EXPECT_EQ(reply.not_found, 1u);
  EXPECT_EQ(reply.held, 0u);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[1].counts,
            (audit::ErasureCounts{
                .matched = 2, .erased = 2, .not_found = 1, .already_erased = 1, .held = 0}));
}

TEST(ForgetTest, NothingErasedMeansNoCertificate) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(3));
  const std::string digest = service.Digest("m");
  const ForgetReply reply = service.Forget("m", {"nobody"});
  EXPECT_EQ(reply.matched, 0u);
  EXPECT_EQ(reply.not_found, 1u);
  EXPECT_EQ(reply.certificate_id, "");
  EXPECT_EQ(reply.state_digest, digest);
  const auto by_subject = service->Forget(ForgetSubjectOf("m", "nobody"), {});
  ASSERT_THAT(by_subject, IsOk());
  EXPECT_EQ(by_subject->matched, 0u);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  service.MakeMemory("empty");
  const auto all = service->Forget(ForgetAllOf("empty"), {});
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->certificate_id, "");
}

TEST(ForgetTest, ErasedIdsCanComeBackAndBeErasedAgain) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  const std::string before = service.Digest("m");
  service.Forget("m", {"a4"});
  EXPECT_EQ(service.Forget("m", {"a4"}).already_erased, 1u);
  EXPECT_EQ(service.Insert("m", {Spiral(5)[4]}).inserted, 1u);
  EXPECT_EQ(service.Digest("m"), before);  // it was the last one, so the order is the same
  service.Restart();
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service.Forget("m", {"a4"}).erased, 1u);
}

TEST(ForgetTest, BySubjectTakesThisMemorysTokensOnly) {
  Harness service;
  for (const char* memory : {"m", "n"}) {
    service.MakeMemory(memory);
    std::vector<TokenInput> tokens = Spiral(8);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i].subject = std::string(1, i % 2 == 0 ? 'p' : 'q');
    service.Insert(memory, tokens);
  }
  const auto reply = service->Forget(ForgetSubjectOf("m", "p"), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->erased, 4u);
  EXPECT_EQ(service->Describe("t", "m", false, {})->subjects, 1u);
  EXPECT_EQ(service->Describe("t", "n", false, {})->subjects, 2u);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_TRUE(log[0].subject_commitment.has_value());
  // Later inserts of the subject stay: ids decide, not the filter.
  service.Insert("m", [] {
    TokenInput token = MakeToken("later", 1, 1);
    token.subject = "p";
    return std::vector<TokenInput>{token};
  }());
  service.Restart();
  EXPECT_EQ(Total(service->GetMemory("t", "m")->partition), 5u);
}

TEST(ForgetTest, EverythingLeavesAnEmptyMemory) {
  Harness service;
  service.MakeMemory("m");
  service.MakeMemory("never");
  service.Insert("m", Spiral(9));
  const auto reply = service->Forget(ForgetAllOf("m"), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->erased, 9u);
  EXPECT_EQ(Total(reply->partition_after), 0u);
  EXPECT_EQ(reply->verdict, Verdict::kProven);
  EXPECT_EQ(service->GetMemory("t", "m")->phase, svdd::Phase::kEmpty);
  EXPECT_EQ(service.Digest("m"), service.Digest("never"));
  EXPECT_EQ(service.Insert("m", Spiral(9)).inserted, 9u);
}

TEST(ForgetTest, DownToWarmingNeverFails) {
  Harness service;
  service.MakeMemory("m", 5);
  service.Insert("m", Spiral(7));
  for (int i = 6; i >= 0; --i) {
    const ForgetReply reply = service.Forget("m", {absl::StrCat("a", i)});
    EXPECT_EQ(reply.erased, 1u);
    EXPECT_EQ(reply.verdict, Verdict::kProven);
  }
  EXPECT_EQ(ErasureLog(service).size(), 7u);
}

TEST(ForgetTest, DryRunForeseesAndChangesNothing) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(15));
  const std::string before = service.Digest("m");
  ForgetInput input = ForgetOf("m", {"a2", "a9", "nobody"});
  input.dry_run = true;
  input.request_id = "r";
  const auto foreseen = service->Forget(input, {});
  ASSERT_THAT(foreseen, IsOk());
  EXPECT_EQ(foreseen->erased, 2u);
  EXPECT_EQ(foreseen->not_found, 1u);
  EXPECT_EQ(foreseen->certificate_id, "");
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  // The dry run did not use the request id up, and it told the truth.
  input.dry_run = false;
  const auto done = service->Forget(input, {});
  ASSERT_THAT(done, IsOk());
  EXPECT_FALSE(done->replayed);
  EXPECT_EQ(done->partition_after, foreseen->partition_after);
  EXPECT_EQ(done->partition_before, foreseen->partition_before);
  EXPECT_EQ(done->state_digest, foreseen->state_digest);
}

// The requester, and nobody else, can show which request and subject a certificate speaks of.
TEST(ForgetTest, TheReceiptOpensTheCommitmentsAndIsNotKept) {
  Harness service;
  service.MakeMemory("m");
  std::vector<TokenInput> tokens = Spiral(8);
  tokens[2].subject = tokens[5].subject = "patient-7";
  service.Insert("m", tokens);
  ForgetInput input = ForgetSubjectOf("m", "patient-7");
  input.request_id = "erase-7";
  const auto reply = service->Forget(input, {});
  ASSERT_THAT(reply, IsOk());
  ASSERT_TRUE(reply->receipt.has_value());

  const auto salt = [](const std::string& bytes) {
    audit::Salt result{};
    EXPECT_EQ(bytes.size(), result.size());
    std::copy(bytes.begin(), bytes.end(), result.begin());
    return result;
  };
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].request_commitment,
            audit::RequestCommitment(salt(reply->receipt->request_salt), "t", "erase-7"));
  EXPECT_EQ(log[0].subject_commitment,
            audit::SubjectCommitment(salt(reply->receipt->subject_salt), "t", "patient-7"));
  EXPECT_NE(log[0].subject_commitment,
            audit::SubjectCommitment(salt(reply->receipt->subject_salt), "t", "patient-8"));

  const auto again = service->Forget(input, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  EXPECT_FALSE(again->receipt.has_value());
  service.Stop();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(service.data())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(content.find(reply->receipt->request_salt), std::string::npos) << entry.path();
    EXPECT_EQ(content.find(reply->receipt->subject_salt), std::string::npos) << entry.path();
  }
}

TEST(ForgetTest, RequestIdsAreAnsweredOnce) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  ForgetInput input = ForgetOf("m", {"a1", "a2"});
  input.request_id = "erase-1";
  const auto first = service->Forget(input, {});
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->request_id, "erase-1");
  // The same set of ids, however written, also after a restart and after later changes.
  input.target = ForgetIds{{"a2", "a1", "a2"}};
  service.Insert("m", {Spiral(8)[1]});
  for (int round = 0; round < 2; ++round) {
    const auto again = service->Forget(input, {});
    ASSERT_THAT(again, IsOk());
    EXPECT_TRUE(again->replayed);
    EXPECT_EQ(again->erased, 2u);
    EXPECT_EQ(again->certificate_id, first->certificate_id);
    EXPECT_EQ(again->state_digest, first->state_digest);
    EXPECT_EQ(again->partition_after, first->partition_after);
    service.Restart();
  }
  // The token that came back is still there.
  EXPECT_EQ(service.Insert("m", {Spiral(8)[1]}).unchanged, 1u);

  input.target = ForgetIds{{"a1"}};
  EXPECT_THAT(service->Forget(input, {}), Fails(kExists, "request_id"));
  input.target = ForgetSubject{"a1"};
  EXPECT_THAT(service->Forget(input, {}), Fails(kExists, "request_id"));
  input.target = ForgetEverything{};
  EXPECT_THAT(service->Forget(input, {}), Fails(kExists, "request_id"));

  // An answer without an erasure is kept as well.
  ForgetInput nothing = ForgetOf("m", {"nobody"});
  nothing.request_id = "erase-2";
  ASSERT_THAT(service->Forget(nothing, {}), IsOk());
  EXPECT_TRUE(service->Forget(nothing, {})->replayed);
  // And the answer outlives the memory.
  ASSERT_THAT(service->DeleteMemory("t", "m", {}), IsOk());
  EXPECT_TRUE(service->Forget(nothing, {})->replayed);
}

TEST(ForgetTest, ARequestIdOfADeletedMemoryClaimsNothingOfItsNamesake) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  ForgetInput input = ForgetOf("m", {"a1"});
  input.request_id = "r";
  ASSERT_THAT(service->Forget(input, {}), IsOk());
  ASSERT_THAT(service->DeleteMemory("t", "m", {}), IsOk());
  EXPECT_TRUE(service->Forget(input, {})->replayed);
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(service->Forget(input, {}), Fails(kExists, "request_id"));
    EXPECT_EQ(Total(service->GetMemory("t", "m")->partition), 5u);
    service.Restart();
  }
  input.request_id = "another";
  EXPECT_EQ(service->Forget(input, {})->erased, 1u);
}

// Whoever gets the files and does not know the request id has nothing to test a guess against.
TEST(ForgetTest, AStoredAnswerHoldsNeitherTheRequestIdNorASalt) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(5));
  ForgetInput input = ForgetOf("m", {"a3", "a1"});
  input.request_id = "request-90210";
  ASSERT_THAT(service->Forget(input, {}), IsOk());
  service.Stop();
  const auto opened =
      store::OpenTenantStore(service.data() + "/tenants/t", {.vault = service.data() + "/vault"});
  ASSERT_THAT(opened, IsOk());
  const std::vector<store::MemoryRecord> memories = *(*opened)->ListMemories("", 10);
  ASSERT_EQ(memories.size(), 1u);
  const std::string& uid = memories[0].uid;
  const auto found = (*opened)->FindRequest(
      audit::Hex(audit::Sha256(std::string("lethe/request-id/v1\0", 20) + "request-90210")));
  ASSERT_THAT(found, IsOk());
  ASSERT_TRUE(found->has_value());
  // The key is the request id; the content: lengths and texts of name, uid and ids in order.
  const auto text = [](const std::string& bytes) {
    return std::string("\0\0\0", 3) + static_cast<char>(bytes.size()) + bytes;
  };
  EXPECT_EQ((*found)->fingerprint, audit::HmacSha256("request-90210", text("m") + text(uid) + "i" +
                                                                          text("a1") + text("a3")));
  // Fixed fields, the uid, a certificate id and a digest: no room for more.
  EXPECT_EQ((*found)->answer.size(), 1u + 36 + 5 * 8 + 6 * 8 + 1 + 68 + 68);
  EXPECT_EQ((*found)->answer.find("request-90210"), std::string::npos);
}

TEST(ForgetTest, BadRequestsNameTheirFieldAndChangeNothing) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(3));
  const std::string before = service.Digest("m");
  const auto refused = [&](const char* field, const std::function<void(ForgetInput&)>& spoil) {
    ForgetInput input = ForgetOf("m", {"a0", "a1"});
    spoil(input);
    EXPECT_THAT(service->Forget(input, {}), Fails(kInvalid, field));
  };
  refused("target", [](ForgetInput& f) { f.target = std::monostate{}; });
  refused("tokens.ids", [](ForgetInput& f) { f.target = ForgetIds{}; });
  refused("tokens.ids",
          [](ForgetInput& f) { f.target = ForgetIds{std::vector<std::string>(10001, "x")}; });
  refused("tokens.ids[1]", [](ForgetInput& f) { f.target = ForgetIds{{"a0", ""}}; });
  refused("tokens.ids[1]", [](ForgetInput& f) { f.target = ForgetIds{{"a0", "\xff"}}; });
  refused("tokens.ids[0]", [](ForgetInput& f) {
    f.target = ForgetIds{{std::string(257, 'x'), "a0"}};
  });
  refused("subject", [](ForgetInput& f) { f.target = ForgetSubject{""}; });
  refused("subject", [](ForgetInput& f) { f.target = ForgetSubject{"a\n"}; });
  refused("request_id", [](ForgetInput& f) { f.request_id = std::string(129, 'r'); });
  refused("request_id", [](ForgetInput& f) { f.request_id = std::string("\n"); });
  refused("tenant", [](ForgetInput& f) { f.tenant = std::string(""); });
  refused("memory", [](ForgetInput& f) { f.memory = std::string("M"); });
  ForgetInput input = ForgetOf("none", {"a0"});
  EXPECT_THAT(service->Forget(input, {}), HasCode(kNotFound));
  CallOptions gone;
  gone.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service->Forget(ForgetOf("m", {"a0"}), gone), HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
}

TEST(ForgetTest, RefitOnForgetSaysBitIdentical) {
  Harness service;
  service.options().tenant.refit_on_forget = true;
  service.Restart();
  service.MakeMemory("m");
  service.Insert("m", Spiral(10));
  EXPECT_EQ(service.Forget("m", {"a5"}).verdict, Verdict::kBitIdentical);
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 1u);
  ASSERT_TRUE(log[0].change.has_value());
  EXPECT_EQ(log[0].change->verdict, audit::VerdictClass::kBitIdentical);
  ASSERT_TRUE(log[0].change->refit.has_value());
  EXPECT_TRUE(log[0].change->refit->bits_equal);
}

TEST(CertificateTest, StatesWhatHappenedAndNothingPersonal) {
  Harness service;
  service.MakeMemory("private-name", 4);
  std::vector<TokenInput> tokens = Spiral(12, "patient-");
  for (TokenInput& token : tokens) token.subject = "subject-meier";
  service.Insert("private-name", tokens);
  ForgetInput input = ForgetOf("private-name", {"patient-3"});
  input.request_id = "request-4711";
  const auto reply = service->Forget(input, {});
  ASSERT_THAT(reply, IsOk());
  ASSERT_THAT(service->Forget(ForgetSubjectOf("private-name", "subject-meier"), {}), IsOk());

  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].kind, audit::CertificateKind::kForget);
  ASSERT_TRUE(log[0].change.has_value());
  EXPECT_EQ(log[0].change->partition_before.total(), 12u);
  EXPECT_EQ(log[0].change->partition_after.total(), 11u);
  EXPECT_NE(log[0].change->root_before, log[0].change->root_after);
  EXPECT_EQ(log[1].change->root_before, log[0].change->root_after);
  EXPECT_EQ(log[0].change->verdict, audit::VerdictClass::kProven);
  EXPECT_LT(log[0].change->residuals.kkt_residual, 1e-12);
  EXPECT_NE(audit::Hex(log[0].change->root_after), reply->state_digest);  // blinded

  const auto info = service->GetCertificate("t", reply->certificate_id);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->kind, "forget");
  EXPECT_EQ(info->memory, "private-name");
  EXPECT_EQ(info->sequence, 0u);
  EXPECT_EQ(info->previous_leaf_hash, "");
  const auto all = service->ListCertificates("t", "", {});
  ASSERT_THAT(all, IsOk());
  for (const CertificateInfo& each : all->items) {
    const auto envelope = audit::ParseEnvelope(each.envelope);
    ASSERT_TRUE(envelope.ok());
    for (const char* secret : {"patient-", "meier", "private-name", "request-4711"}) {
      EXPECT_EQ(envelope->payload.find(secret), std::string::npos) << secret;
      EXPECT_EQ(each.leaf.find(secret), std::string::npos) << secret;
    }
  }
}

TEST(CertificateTest, ListingAndLookingUp) {
  Harness service;
  for (const char* memory : {"m", "n"}) {
    service.MakeMemory(memory);
    service.Insert(memory, Spiral(4));
  }
  for (int i = 0; i < 3; ++i) {
    service.Forget("m", {absl::StrCat("a", i)});
    service.Forget("n", {absl::StrCat("a", i)});
  }
  const auto of_n = service->ListCertificates("t", "n", {.size = 2, .token = ""});
  ASSERT_THAT(of_n, IsOk());
  ASSERT_EQ(of_n->items.size(), 2u);
  // Those about keys are of no memory: they stand in the list of all.
  EXPECT_EQ(of_n->items[0].sequence, 2u);
  EXPECT_EQ(of_n->items[1].sequence, 6u);
  const auto rest =
      service->ListCertificates("t", "n", {.size = 2, .token = of_n->next_page_token});
  ASSERT_THAT(rest, IsOk());
  ASSERT_EQ(rest->items.size(), 1u);
  EXPECT_EQ(rest->items[0].sequence, 10u);
  EXPECT_EQ(rest->next_page_token, "");
  const auto all = service->ListCertificates("t", "", {});
  ASSERT_THAT(all, IsOk());
  ASSERT_EQ(all->items.size(), 12u);
  for (size_t i = 0; i < all->items.size(); ++i) {
    EXPECT_EQ(all->items[i].kind, i % 2 == 0 ? "forget" : "shredded") << i;
    EXPECT_EQ(all->items[i].memory, i % 2 != 0 ? "" : i % 4 == 0 ? "m" : "n") << i;
  }
  // A token of one list is none of another.
  EXPECT_THAT(service->ListCertificates("t", "m", {.size = 2, .token = of_n->next_page_token}),
              Fails(kInvalid, "page_token"));
  EXPECT_THAT(service->ListCertificates("t", "", {.size = 2, .token = "AAAA"}),
              Fails(kInvalid, "page_token"));
  EXPECT_THAT(service->ListCertificates("t", "", {.size = 1001, .token = ""}),
              Fails(kInvalid, "page_size"));
  EXPECT_THAT(service->GetCertificate("t", "abc"), Fails(kInvalid, "id"));
  EXPECT_THAT(service->GetCertificate("t", std::string(64, '0')), HasCode(kNotFound));
}

TEST(DeleteMemoryTest, ErasesWithACertificateAndLeavesTheNameFree) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(6));
  const auto reply = service->DeleteMemory("t", "m", {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->erased_tokens, 6u);
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  EXPECT_THAT(service->DeleteMemory("t", "m", {}), HasCode(kNotFound));
  const auto certificate = service->GetCertificate("t", reply->certificate_id);
  ASSERT_THAT(certificate, IsOk());
  EXPECT_EQ(certificate->memory, "m");
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].counts.erased, 6u);

  service.MakeMemory("m");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(service->GetMemory("t", "m")->phase, svdd::Phase::kEmpty);
    // A namesake knows nothing of what its forerunner held.
    const ForgetReply forget = service.Forget("m", {"a0"});
    EXPECT_EQ(forget.already_erased, 0u);
    EXPECT_EQ(forget.not_found, 1u);
    service.Restart();
  }
  const auto empty = service->DeleteMemory("t", "m", {});
  ASSERT_THAT(empty, IsOk());
  EXPECT_EQ(empty->erased_tokens, 0u);
  EXPECT_EQ(empty->certificate_id, "");
}

TEST(DeleteTenantTest, ClosesTheLogAndKeepsIt) {
  Harness service;
  service.MakeMemory("m");
  service.MakeMemory("n");
  service.Insert("m", Spiral(6));
  service.Insert("n", Spiral(4));
  service.Forget("m", {"a0"});
  ASSERT_THAT(service->CreateTenant("other", {}), IsOk());
  const TenantInfo old = *service->GetTenant("t");

  const auto reply = service->DeleteTenant("t", {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->erased_tokens, 9u);
  const auto key = audit::VerificationKey::Parse(old.verification_key);
  const audit::CertificateResult result =
      audit::VerifyCertificate(reply->envelope, std::nullopt, *key, old.log_origin);
  ASSERT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(result.id, reply->certificate_id);
  EXPECT_EQ(result.body->kind, audit::CertificateKind::kTenantClosed);
  EXPECT_EQ(result.body->counts.erased, 9u);
  EXPECT_EQ(result.body->sequence, 2u);  // after the forget and what became of its key

  EXPECT_THAT(service->GetTenant("t"), HasCode(kNotFound));
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kNotFound));
  EXPECT_THAT(service->GetTenant("other"), IsOk());
  EXPECT_FALSE(std::filesystem::exists(service.data() + "/tenants/t"));
  size_t closed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(service.data() + "/closed")) {
    EXPECT_TRUE(std::filesystem::exists(entry.path() / "tenant.db"));
    ++closed;
  }
  EXPECT_EQ(closed, 1u);

  // A new tenant of the same name sees nothing of the old one.
  ASSERT_THAT(service->CreateTenant("t", {}), IsOk());
  for (int round = 0; round < 2; ++round) {
    const TenantInfo fresh = *service->GetTenant("t");
    EXPECT_NE(fresh.log_origin, old.log_origin);
    EXPECT_EQ(fresh.certificate_count, 0u);
    EXPECT_EQ(fresh.memory_count, 0u);
    EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
    EXPECT_THAT(service->GetCertificate("t", reply->certificate_id), HasCode(kNotFound));
    service.Restart();
  }
}

}  // namespace
}  // namespace lethe::service
