// Edit: new content under the same id, as if the old had never been there.
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

// The digest of a memory that was given these tokens and nothing else.
std::string FreshDigest(Harness& service, const std::vector<TokenInput>& tokens, double capacity) {
  service.MakeMemory("fresh", capacity);
  service.Insert("fresh", tokens);
  const std::string digest = service.Digest("fresh");
  EXPECT_THAT(service->DeleteMemory("t", "fresh", {}), IsOk());
  return digest;
}

TEST(EditTest, StateEqualsThatOfAMemoryThatWasGivenTheNewContentLast) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(20));
  TokenInput first = MakeToken("a7", -3, 0.25, 70);
  first.subject = "p";
  const TokenInput second = MakeToken("a2", 0.1, 0.2, 20);
  const auto reply = service->Edit(EditOf("m", {first, second}), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->edited, 2u);
  EXPECT_EQ(reply->unchanged, 0u);
  EXPECT_EQ(Total(reply->partition_before), 20u);
  EXPECT_EQ(Total(reply->partition_after), 20u);
  EXPECT_EQ(reply->verdict, Verdict::kProven);
  EXPECT_EQ(reply->certificate_id.size(), 64u);
  EXPECT_EQ(reply->request_id.size(), 32u);
  EXPECT_TRUE(reply->receipt.has_value());
  EXPECT_FALSE(reply->replayed);
  EXPECT_EQ(service->Describe("t", "m", false, {})->subjects, 1u);

  std::vector<TokenInput> expected;
  for (const TokenInput& token : Spiral(20)) {
    if (token.id != "a7" && token.id != "a2") expected.push_back(token);
  }
  expected.push_back(first);
  expected.push_back(second);
  EXPECT_EQ(reply->state_digest, FreshDigest(service, expected, 4));
  EXPECT_EQ(service.Digest("m"), reply->state_digest);
  service.Restart();
  EXPECT_EQ(service.Digest("m"), reply->state_digest);
  EXPECT_EQ(service->Describe("t", "m", true, {})->verdict, Verdict::kBitIdentical);
  // What is there now is the new content, and only that.
  EXPECT_EQ(service.Insert("m", expected).unchanged, 20u);
  EXPECT_EQ(service.Insert("m", {Spiral(20)[7]}).rejected, 1u);
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m", "p"), {})->erased, 1u);
}

TEST(EditTest, OneCertificateSaysHowManyAndNothingPersonal) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(10));
  ASSERT_THAT(service->Edit(EditOf("m", {MakeToken("a1", 1, 2), MakeToken("a2", 2, 1)}), {}),
              IsOk());
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].kind, audit::CertificateKind::kEdit);
  EXPECT_EQ(log[0].counts, (audit::ErasureCounts{.matched = 2, .erased = 2}));
  EXPECT_EQ(log[0].change->partition_before.total(), 10u);
  EXPECT_EQ(log[0].change->partition_after.total(), 10u);
  EXPECT_NE(log[0].change->root_before, log[0].change->root_after);
  EXPECT_FALSE(log[0].change->selection.has_value());
  EXPECT_TRUE(log[0].change->residuals.readout_bound.has_value());
}

TEST(EditTest, UnchangedTokensKeepTheirPlace) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(12));
  const std::string before = service.Digest("m");
  TokenInput minus_zero = MakeToken("zero", 0.0, 1, 1);
  service.Insert("m", {minus_zero});
  const std::string with_zero = service.Digest("m");
  minus_zero.key[0] = -0.0;
  const auto same = service->Edit(EditOf("m", {Spiral(12)[3], minus_zero, Spiral(12)[5]}), {});
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(same->edited, 0u);
  EXPECT_EQ(same->unchanged, 3u);
  EXPECT_EQ(same->certificate_id, "");
  EXPECT_EQ(same->state_digest, with_zero);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);

  const auto mixed =
      service->Edit(EditOf("m", {Spiral(12)[3], MakeToken("zero", 4, 4), Spiral(12)[5]}), {});
  ASSERT_THAT(mixed, IsOk());
  EXPECT_EQ(mixed->edited, 1u);
  EXPECT_EQ(mixed->unchanged, 2u);
  // Only the edited one has moved to the end, where it stood already.
  EXPECT_EQ(service.Forget("m", {"zero"}).state_digest, before);
}

// Payload, subject, labels alone are content too: the weights stay, the digest does not.
TEST(EditTest, EveryPartOfTheContentCounts) {
  for (const int part : {0, 1, 2, 3, 4}) {
    Harness service;
    service.MakeMemory("m", 3);
    service.Insert("m", Spiral(6));
    const std::string before = service.Digest("m");
    TokenInput token = Spiral(6)[5];
    if (part == 0) token.payload = std::string("new");
    if (part == 1) token.subject = std::string("new");
    if (part == 2) token.labels = {{"new", "label"}};
    if (part == 3) token.value[0] += 1;
    if (part == 4) token.key[1] += 1;
    const auto reply = service->Edit(EditOf("m", {token}), {});
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->edited, 1u);
    EXPECT_NE(reply->state_digest, before);
    service.Restart();
    EXPECT_EQ(service.Digest("m"), reply->state_digest);
    EXPECT_EQ(service.Insert("m", {token}).unchanged, 1u);
    EXPECT_EQ(service->Edit(EditOf("m", {Spiral(6)[5]}), {})->state_digest, before);
  }
}

TEST(EditTest, TheOldContentIsGoneAlsoFromCopies) {
  Harness service;
  service.MakeMemory("m", 3);
  std::vector<TokenInput> tokens = Spiral(8);
  tokens[3].payload = "the old payload";
  tokens[3].subject = "old-subject-meier";
  tokens[3].labels = {{"old-label", "old-text"}};
  tokens[3].key = {0.12345678901234567, 2};
  service.Insert("m", tokens);
  const std::string number(reinterpret_cast<const char*>(tokens[3].key.data()), 8);
  const std::vector<std::string> secrets = {"the old payload", "old-subject-meier", "old-label",
                                            "old-text", number};
  StolenRows old(service);
  ASSERT_EQ(old.Readable("m", {"a2", "a3"}), (std::set<std::string>{"a2", "a3"}));
  TokenInput fresh = MakeToken("a3", 1, 1);
  fresh.payload = "the new payload";
  const auto reply = service->Edit(EditOf("m", {fresh}, "edit-4711"), {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(old.Readable("m", {"a2", "a3"}), std::set<std::string>{"a2"});
  for (const std::string& secret : secrets) EXPECT_FALSE(FilesHold(service, secret)) << secret;
  StolenRows edited(service);
  ASSERT_EQ(edited.Readable("m", {"a3"}), std::set<std::string>{"a3"});
  EXPECT_FALSE(FilesHold(service, "edit-4711"));
  EXPECT_FALSE(FilesHold(service, reply->receipt->request_salt));
  // The stored answer does not hold the new content either: it may be erased in its turn.
  service.Forget("m", {"a3"});
  EXPECT_FALSE(FilesHold(service, "the new payload"));
  EXPECT_EQ(edited.Readable("m", {"a3"}), std::set<std::string>{});
}

TEST(EditTest, ATokenThatIsNotThereIsNamedAndNothingChanges) {
  Harness service;
  service.MakeMemory("m", 3);
  service.Insert("m", Spiral(6));
  service.Forget("m", {"a5"});
  const std::string before = service.Digest("m");
  EXPECT_THAT(service->Edit(EditOf("m", {MakeToken("a1", 1, 1), MakeToken("nobody", 1, 1)}), {}),
              Fails(kNotFound, "tokens[1].id"));
  const auto erased = service->Edit(EditOf("m", {MakeToken("a5", 1, 1)}), {});
  EXPECT_THAT(erased, Fails(kNotFound, "tokens[0].id"));
  EXPECT_NE(std::string(erased.status().message()).find("was erased"), std::string::npos);
  EXPECT_EQ(service.Digest("m"), before);
  // An erased id comes back by Insert, as ever, and can be edited then.
  EXPECT_EQ(service.Insert("m", {Spiral(6)[5]}).inserted, 1u);
  EXPECT_EQ(service->Edit(EditOf("m", {MakeToken("a5", 1, 1)}), {})->edited, 1u);
  // Edited and forgotten: the id is erased like any other.
  EXPECT_EQ(service.Forget("m", {"a5"}).erased, 1u);
  EXPECT_EQ(service.Forget("m", {"a5"}).already_erased, 1u);
}

TEST(EditTest, BadRequestsNameTheirFieldAndChangeNothing) {
  Harness service;
  service.MakeMemory("m", 3);
  service.Insert("m", Spiral(6));
  const std::string before = service.Digest("m");
  const auto refused = [&](const char* field, const std::function<void(EditInput&)>& spoil) {
    EditInput input = EditOf("m", {MakeToken("a0", 1, 1), MakeToken("a1", 2, 2)});
    spoil(input);
    EXPECT_THAT(service->Edit(input, {}), Fails(kInvalid, field));
  };
  refused("tokens", [](EditInput& e) { e.tokens.clear(); });
  refused("tokens", [](EditInput& e) { e.tokens.resize(10001, MakeToken("x", 1, 1)); });
  refused("tokens[1].id", [](EditInput& e) { e.tokens[1].id = std::string(""); });
  refused("tokens[1].id", [](EditInput& e) { e.tokens[1].id = std::string("\xff"); });
  refused("tokens[1].id", [](EditInput& e) { e.tokens[1].id = std::string("a0"); });
  refused("tokens[0].key", [](EditInput& e) { e.tokens[0].key = {1}; });
  refused("tokens[1].key[0]", [](EditInput& e) { e.tokens[1].key[0] = std::nan(""); });
  refused("tokens[1].value[0]", [](EditInput& e) { e.tokens[1].value[0] = 1e301; });
  refused("tokens[1].value", [](EditInput& e) { e.tokens[1].value = {}; });
  refused("tokens[0].subject", [](EditInput& e) { e.tokens[0].subject = std::string("a\n"); });
  refused("tokens[0].payload", [](EditInput& e) { e.tokens[0].payload.resize(65537); });
  refused("tokens[0].labels", [](EditInput& e) { e.tokens[0].labels[""] = std::string("x"); });
  refused("request_id", [](EditInput& e) { e.request_id = std::string(129, 'r'); });
  refused("tenant", [](EditInput& e) { e.tenant = std::string(""); });
  refused("memory", [](EditInput& e) { e.memory = std::string("M"); });
  EXPECT_THAT(service->Edit(EditOf("none", {MakeToken("a0", 1, 1)}), {}),
              Fails(kNotFound, "memory"));
  CallOptions gone;
  gone.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service->Edit(EditOf("m", {MakeToken("a0", 1, 1)}), gone),
              HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
}

TEST(EditTest, DryRunForeseesAndChangesNothing) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(15));
  const std::string before = service.Digest("m");
  EditInput input =
      EditOf("m", {MakeToken("a2", 3, 3), Spiral(15)[4], MakeToken("a14", -2, 0)}, "r");
  input.dry_run = true;
  const auto foreseen = service->Edit(input, {});
  ASSERT_THAT(foreseen, IsOk());
  EXPECT_EQ(foreseen->edited, 2u);
  EXPECT_EQ(foreseen->unchanged, 1u);
  EXPECT_EQ(foreseen->certificate_id, "");
  EXPECT_EQ(service.Digest("m"), before);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  input.dry_run = false;
  const auto done = service->Edit(input, {});
  ASSERT_THAT(done, IsOk());
  EXPECT_FALSE(done->replayed);
  EXPECT_EQ(done->partition_after, foreseen->partition_after);
  EXPECT_EQ(done->state_digest, foreseen->state_digest);
  input.dry_run = true;
  EXPECT_EQ(service->Edit(input, {})->unchanged, 3u);
}

TEST(EditTest, RequestIdsAreAnsweredOnce) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(10));
  const EditInput input = EditOf("m", {MakeToken("a2", 3, 3), Spiral(10)[4]}, "r");
  const auto first = service->Edit(input, {});
  ASSERT_THAT(first, IsOk());
  service->Edit(EditOf("m", {MakeToken("a2", 4, 4)}), {}).status().IgnoreError();
  const std::string later = service.Digest("m");
  for (int round = 0; round < 2; ++round) {
    const auto again = service->Edit(input, {});
    ASSERT_THAT(again, IsOk());
    EXPECT_TRUE(again->replayed);
    EXPECT_EQ(again->edited, 1u);
    EXPECT_EQ(again->unchanged, 1u);
    EXPECT_EQ(again->certificate_id, first->certificate_id);
    EXPECT_EQ(again->state_digest, first->state_digest);
    EXPECT_EQ(again->partition_before, first->partition_before);
    EXPECT_EQ(again->partition_after, first->partition_after);
    EXPECT_FALSE(again->receipt.has_value());
    EXPECT_EQ(service.Digest("m"), later);
    service.Restart();
  }
  // Other content, another order, another kind: another request.
  EXPECT_THAT(service->Edit(EditOf("m", {MakeToken("a2", 3, 3.5), Spiral(10)[4]}, "r"), {}),
              Fails(kExists, "request_id"));
  EXPECT_THAT(service->Edit(EditOf("m", {Spiral(10)[4], MakeToken("a2", 3, 3)}, "r"), {}),
              Fails(kExists, "request_id"));
  EXPECT_THAT(service->Evict(EvictOf("m", 3, "r"), {}), Fails(kExists, "request_id"));
  // An answer without a change is kept as well.
  ASSERT_THAT(service->Edit(EditOf("m", {Spiral(10)[4]}, "s"), {}), IsOk());
  EXPECT_TRUE(service->Edit(EditOf("m", {Spiral(10)[4]}, "s"), {})->replayed);
  ASSERT_THAT(service->DeleteMemory("t", "m", {}), IsOk());
  EXPECT_TRUE(service->Edit(input, {})->replayed);
}

TEST(EditTest, AlsoWhileWarmingAndAllAtOnce) {
  Harness service;
  service.MakeMemory("m", 6);
  service.Insert("m", Spiral(4));
  const auto one = service->Edit(EditOf("m", {MakeToken("a0", 5, 5)}), {});
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(service->GetMemory("t", "m")->phase, svdd::Phase::kWarming);
  service.Insert("m", Spiral(9, "b"));
  std::vector<TokenInput> all;
  for (const std::string id : {"a0", "a1", "a2", "a3"}) all.push_back(MakeToken(id, 1, 1));
  for (int i = 0; i < 9; ++i) all.push_back(MakeToken(absl::StrCat("b", i), 1, 0.1 * i));
  const auto every = service->Edit(EditOf("m", all), {});
  ASSERT_THAT(every, IsOk());
  EXPECT_EQ(every->edited, 13u);
  EXPECT_EQ(every->state_digest, FreshDigest(service, all, 6));
  EXPECT_EQ(ErasureLog(service).size(), 3u);
}

}  // namespace
}  // namespace lethe::service
