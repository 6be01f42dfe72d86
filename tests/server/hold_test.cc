// Legal holds: what they keep from every call that takes tokens out.
#include "tests/server/backup_testing.h"
#include "tests/server/erasure_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

TEST(HoldTest, ForgetLeavesWhatIsHeldAndCountsIt) {
  ErasureHarness service;
  service.Hold(kAnna);
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    if (restarted) service.Restart();
    const auto by_subject = service->Forget(ForgetSubjectOf("m1", kAnna), {});
    ASSERT_THAT(by_subject, IsOk());
    EXPECT_EQ(by_subject->matched, 2u);
    EXPECT_EQ(by_subject->held, 2u);
    EXPECT_EQ(by_subject->erased, 0u);
    EXPECT_EQ(by_subject->certificate_id, "");
    EXPECT_EQ(Tokens(service, "m1"), 7u);
  }
  ForgetInput plan = ForgetOf("m1", {"k1", "k2", "nobody"});
  plan.dry_run = true;
  const auto foreseen = service->Forget(plan, {});
  ASSERT_THAT(foreseen, IsOk());
  EXPECT_EQ(foreseen->held, 1u);
  EXPECT_EQ(foreseen->erased, 1u);
  const auto by_id = service->Forget(ForgetOf("m1", {"k1", "k2", "nobody"}), {});
  ASSERT_THAT(by_id, IsOk());
  EXPECT_EQ(by_id->matched, 2u);
  EXPECT_EQ(by_id->erased, 1u);
  EXPECT_EQ(by_id->held, 1u);
  EXPECT_EQ(by_id->not_found, 1u);
  EXPECT_EQ(by_id->state_digest, foreseen->state_digest);
  const audit::CertificateBody body = service.BodyOf(by_id->certificate_id);
  EXPECT_EQ(body.counts,
            (audit::ErasureCounts{.matched = 2, .erased = 1, .not_found = 1, .held = 1}));
  const auto all = service->Forget(ForgetAllOf("m1"), {});
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->erased, 4u);
  EXPECT_EQ(all->held, 2u);
  EXPECT_EQ(Tokens(service, "m1"), 2u);
  VerifiedLog(service);
}

TEST(HoldTest, EditOfAHeldTokenIsRefusedByName) {
  ErasureHarness service;
  const std::string hold = service.Hold(kAnna);
  const auto refused =
      service->Edit(EditOf("m1", {TokenOf("k2", 2.0, kBert), TokenOf("k1", 2.5, kAnna)}), {});
  EXPECT_THAT(refused, Fails(kFailedPrecondition, "tokens[1].id"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(hold));
  // The same content changes nothing.
  EXPECT_THAT(service->Edit(EditOf("m1", {TokenOf("k1", 0.25, kAnna)}), {}), IsOk());
  ASSERT_THAT(service->ReleaseHold("t", hold), IsOk());
  EXPECT_THAT(service->Edit(EditOf("m1", {TokenOf("k1", 2.5, kAnna)}), {}), IsOk());
}

TEST(HoldTest, EvictPassesOverWhatIsHeldAndTakesTheNext) {
  Harness service;
  service.MakeMemory("m", 5);
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<TokenInput> tokens;
  for (int i = 0; i < 80; ++i) {
    tokens.push_back(RandomToken(random, absl::StrCat("a", i)));
    tokens.back().subject = i % 2 == 0 ? kAnna : kBert;
  }
  service.Insert("m", tokens);
  const auto plan = [&](uint64_t budget) {
    EvictInput input = EvictOf("m", budget);
    input.dry_run = true;
    const auto planned = service->Evict(input, {});
    EXPECT_THAT(planned, IsOk());
    return *planned;
  };
  const uint64_t reserve = plan(1).reserve;
  ASSERT_GE(reserve, 20u);
  const uint64_t budget = 80 - reserve / 4;
  ASSERT_EQ(plan(budget).reserve, reserve / 4);
  ASSERT_THAT(service->PlaceHold({.tenant = "t", .subject = kAnna, .reason = ""}, {}), IsOk());
  const EvictReply planned = plan(budget);
  const auto evicted = service->Evict(EvictOf("m", budget), {});
  ASSERT_THAT(evicted, IsOk());
  EXPECT_EQ(evicted->state_digest, planned.state_digest);
  EXPECT_EQ(evicted->reserve, reserve / 4) << "others of no weight are taken instead";
  EXPECT_GT(evicted->held, 0u);
  EXPECT_TRUE(evicted->budget_reached);
  EXPECT_EQ(Tokens(service, "m"), budget);
  const auto held = [&] { return service->Forget(ForgetSubjectOf("m", kAnna), {})->held; };
  EXPECT_EQ(held(), 40u) << "nothing of the held subject went";
  const auto more = service->Evict(EvictOf("m", 1), {});
  ASSERT_THAT(more, IsOk());
  EXPECT_FALSE(more->budget_reached);
  EXPECT_EQ(held(), 40u);
  for (const audit::CertificateBody& body : ErasureLog(service)) {
    EXPECT_EQ(body.counts.matched, body.counts.erased + body.counts.held);
    EXPECT_GT(body.counts.held, 0u);
  }
}

TEST(HoldTest, AMemoryAndATenantWithHeldTokensStay) {
  ErasureHarness service;
  const std::string first = service.Hold(kAnna);
  const std::string second = service.Hold(kAnna);
  const auto memory = service->DeleteMemory("t", "m1", {});
  EXPECT_THAT(memory, Fails(kFailedPrecondition, "memory"));
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("2 legal holds keep 2 tokens"));
  const auto tenant = service->DeleteTenant("t", {});
  EXPECT_THAT(tenant, Fails(kFailedPrecondition, "name"));
  EXPECT_THAT(std::string(tenant.status().message()), HasSubstr("2 legal holds keep 4 tokens"));
  EXPECT_EQ(Tokens(service, "m1"), 7u);
  EXPECT_THAT(service->DeleteMemory("t", "m3", {}), IsOk()) << "it has none of them";
  ASSERT_THAT(service->ReleaseHold("t", first), IsOk());
  EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kFailedPrecondition));
  ASSERT_THAT(service->ReleaseHold("t", second), IsOk());
  EXPECT_THAT(service->DeleteMemory("t", "m1", {}), IsOk());
  EXPECT_THAT(service->DeleteTenant("t", {}), IsOk());
}

TEST(HoldTest, AnErasureRequestIsDeniedAndNamesTheHold) {
  ErasureHarness service;
  const std::string hold = service.Hold(kAnna);
  const std::string id = service.Ask(service.InputFor({service.Raw(kBert), service.Raw(kAnna)}));
  service.Run();
  const ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kDenied);
  EXPECT_EQ(info.hold_id, hold);
  EXPECT_EQ(info.counts, (ErasureCounts{.matched = 8, .held = 8}));
  EXPECT_THAT(info.certificates, IsEmpty());
  EXPECT_FALSE(info.personal);
  EXPECT_EQ(Tokens(service, "m1"), 7u);
  const auto found = service->Discover("t", {service.Raw(kBert), service.Raw(kAnna)}, {});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->tokens, 8u);
  EXPECT_EQ(found->held, 4u);
  EXPECT_THAT(found->hold_ids, ElementsAre(hold));
  // By its hash too, and where there is no token of it yet.
  const std::string hashed =
      service.Ask(service.InputFor({{.type = "",
                                     .format = IdentityFormat::kSha1,
                                     .value = HashOfSubject(IdentityFormat::kSha1, kAnna)}}));
  const std::string nobody_hold = service.Hold("subject-nobody");
  const std::string nobody = service.Ask("subject-nobody");
  service.Run();
  EXPECT_EQ(service.Get(hashed).state, ErasureState::kDenied);
  EXPECT_EQ(service.Get(nobody).hold_id, nobody_hold);
  ASSERT_THAT(service->ReleaseHold("t", hold), IsOk());
  const std::string again = service.Ask(kAnna);
  service.Run();
  EXPECT_EQ(service.Get(again).state, ErasureState::kCompleted);
  EXPECT_EQ(service.Get(id).state, ErasureState::kDenied) << "what was denied stays denied";
}

// The hold comes while the request is between two memories.
TEST(HoldTest, AHoldStopsARequestThatHasBegun) {
  ErasureHarness service;
  const std::string id = service.Ask(kAnna);
  // The second memory's erasure fails once; the request waits.
  int erasures = 0;
  service.hooks().before = [&](const std::string& operation) {
    return operation == "EraseTokens" && ++erasures == 2 ? absl::UnavailableError("not now")
                                                         : absl::OkStatus();
  };
  service.Run();
  service.hooks().before = nullptr;
  ASSERT_EQ(service.Get(id).state, ErasureState::kInProgress);
  ASSERT_EQ(service.Get(id).counts.erased, 2u);
  EXPECT_EQ(service.Get(id).attempts, 1u);
  const std::string hold = service.Hold(kAnna);
  service.Pass(absl::Minutes(1));
  service.Run();
  const ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kDenied) << "a part is not completed";
  EXPECT_EQ(info.hold_id, hold);
  EXPECT_EQ(info.counts, (ErasureCounts{.matched = 4, .erased = 2, .held = 2}));
  EXPECT_EQ(Tokens(service, "m2"), 7u);
  service.ExpectProven(id, {kAnna});
}

// It comes while the lock is given up between two memories, and is on an identity of which the next
// memory has no token.
TEST(HoldTest, AHoldThatComesBetweenTwoMemoriesStopsTheOtherIdentitiesToo) {
  ErasureHarness service;
  ASSERT_THAT(service->Forget(ForgetSubjectOf("m2", kBert), {}), IsOk());
  service.Insert("m3", {TokenOf("k1", 0.5, kBert)});
  ASSERT_THAT(service->Forget(ForgetSubjectOf("m1", kBert), {}), IsOk());
  const std::string id = service.Ask(service.InputFor({service.Raw(kAnna), service.Raw(kBert)}));
  service.Stop();
  {
    const auto keys = SigningKeys::Open(service.data() + "/keys", false, {});
    ASSERT_THAT(keys, IsOk());
    TenantOptions options = service.options().tenant;
    options.vault = service.data() + "/vault";
    const auto tenant = Tenant::Open(service.data() + "/tenants/t", keys->get(), options);
    ASSERT_THAT(tenant, IsOk());
    // What a memory's work ends with is that it is written down; the next question whether it is
    // still wanted is asked without the lock.
    int written = 0;
    service.hooks().after = [&](const std::string& operation, const absl::Status& status) {
      if (operation == "UpdateCase") ++written;
      return status;
    };
    bool placed = false;
    const CallOptions call{.still_wanted = [&] {
      if (written == 2 && !placed) {  // that it has begun, and the first memory
        placed = true;
        EXPECT_THAT((*tenant)->PlaceHold({.tenant = "t", .subject = kBert, .reason = ""}, {}),
                    IsOk());
      }
      return absl::OkStatus();
    }};
    ASSERT_THAT((*tenant)->WorkOnErasure(1, call), IsOk());
    EXPECT_TRUE(placed);
    service.hooks().after = nullptr;
  }
  service.Restart();
  const ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kDenied);
  EXPECT_EQ(info.counts, (ErasureCounts{.matched = 5, .erased = 2, .held = 3}));
  EXPECT_EQ(Tokens(service, "m2"), 5u) << "nothing of the first goes any more, either";
  EXPECT_EQ(Tokens(service, "m3"), 4u);
}

// A crash comes between the release and the end of its key.
TEST(HoldTest, TheKeyOfAReleasedHoldIsDestroyedByTheWorker) {
  ErasureHarness service;
  const std::string hold = service.Hold(kAnna);
  StolenRows stolen(service);
  EXPECT_TRUE(stolen.CaseIsReadable(hold));
  service.hooks().before = [](const std::string& operation) {
    return operation == "DestroyEndedKeys" ? absl::UnavailableError("killed") : absl::OkStatus();
  };
  EXPECT_THAT(service->ReleaseHold("t", hold), HasCode(absl::StatusCode::kUnavailable));
  service.Restart();
  service.Run();
  service.hooks().before = nullptr;
  EXPECT_TRUE(stolen.CaseIsReadable(hold));
  service.Pass(absl::Minutes(10));
  service.Run();
  EXPECT_FALSE(stolen.CaseIsReadable(hold));
  EXPECT_THAT(service->ListHolds("t", false, {})->items, IsEmpty());
}

TEST(HoldTest, HoldsAreListedAndGoneWithTheirReason) {
  ErasureHarness service;
  const auto placed = service->PlaceHold(
      {.tenant = "t", .subject = kAnna, .reason = "case 4", .idempotency_key = "h-1"}, {});
  ASSERT_THAT(placed, IsOk());
  EXPECT_TRUE(placed->in_force);
  EXPECT_EQ(placed->place_time, "2027-01-15T08:00:00.000000Z");
  const auto again = service->PlaceHold(
      {.tenant = "t", .subject = kAnna, .reason = "case 4", .idempotency_key = "h-1"}, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->id, placed->id);
  EXPECT_TRUE(again->replayed);
  EXPECT_THAT(service->PlaceHold(
                  {.tenant = "t", .subject = kBert, .reason = "", .idempotency_key = "h-1"}, {}),
              Fails(kExists, "idempotency_key"));
  const std::string other = service.Hold(kBert);
  service.Restart();
  auto page = service->ListHolds("t", false, {.size = 1, .token = ""});
  ASSERT_THAT(page, IsOk());
  ASSERT_THAT(page->items, SizeIs(1));
  EXPECT_EQ(page->items[0].subject, kAnna);
  EXPECT_EQ(page->items[0].reason, "case 4");
  page = service->ListHolds("t", false, {.size = 1, .token = page->next_page_token});
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->items.at(0).id, other);
  EXPECT_EQ(page->next_page_token, "");
  service.Pass(absl::Hours(1));
  const auto released = service->ReleaseHold("t", placed->id);
  ASSERT_THAT(released, IsOk());
  EXPECT_FALSE(released->in_force);
  EXPECT_EQ(released->release_time, "2027-01-15T09:00:00.000000Z");
  EXPECT_EQ(released->subject, "");
  EXPECT_EQ(released->reason, "");
  EXPECT_THAT(service->ReleaseHold("t", placed->id), IsOk());
  EXPECT_THAT(service->ListHolds("t", false, {})->items, SizeIs(1));
  EXPECT_THAT(service->ListHolds("t", true, {})->items, SizeIs(2));
  EXPECT_THAT(service->ReleaseHold("t", std::string(32, '0')), Fails(kNotFound, "id"));
  EXPECT_THAT(service->ReleaseHold("t", "x"), Fails(kInvalid, "id"));
  EXPECT_THAT(service->PlaceHold({.tenant = "t", .subject = "", .reason = ""}, {}),
              Fails(kInvalid, "subject"));
  EXPECT_THAT(
      service->PlaceHold({.tenant = "t", .subject = kAnna, .reason = std::string(1025, 'a')}, {}),
      Fails(kInvalid, "reason"));
  // An erasure request's id is no hold's.
  const std::string request = service.Ask("somebody");
  EXPECT_THAT(service->ReleaseHold("t", request), Fails(kNotFound, "id"));
  EXPECT_THAT(service->GetErasureRequest("t", other), Fails(kNotFound, "id"));
}

// What came after a backup is lost with it, and the restore says so; what was in it is in force.
TEST(HoldTest, ARestoreSaysWhatIsLost) {
  ErasureHarness service;
  const std::string kept = service.Hold(kAnna);
  ErasureRequestInput later = service.InputFor({service.Raw(kBert)});
  later.start_time = service.now() + absl::Hours(1);
  const std::string waits = service.Ask(later);
  const BackupCopy copy = TakeBackup(service);
  service.Hold(kBert);
  const std::string lost = service.Ask("somebody");
  const auto restored = PutBack(service, copy, /*replace=*/true);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->requests_lost, 1u);
  EXPECT_EQ(restored->holds_lost, 1u);
  EXPECT_EQ(restored->requests_ended, 0u);
  EXPECT_EQ(restored->holds_released, 0u);
  EXPECT_EQ(service->ErasureCounts().pending, 1u);
  EXPECT_THAT(service->GetErasureRequest("t", lost), Fails(kNotFound, "id"));
  EXPECT_EQ(service->ListHolds("t", false, {})->items.at(0).id, kept);
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m1", kAnna), {})->held, 2u);
  // The hold that is lost kept whom this request names: there is a day to place it again.
  service.Pass(absl::Hours(23));
  service.Restart();
  service.Run();
  EXPECT_EQ(service.Get(waits).state, ErasureState::kPending);
  EXPECT_EQ(Tokens(service, "m1"), 7u);
  service.Hold(kBert);
  service.Pass(absl::Hours(1));
  service.Run();
  EXPECT_EQ(service.Get(waits).state, ErasureState::kDenied);
  EXPECT_EQ(Tokens(service, "m1"), 7u);
}

TEST(HoldTest, WhereNobodyPlacesThemAgainTheRequestsGoOnAfterADay) {
  ErasureHarness service;
  ErasureRequestInput later = service.InputFor({service.Raw(kBert)});
  later.start_time = service.now() + absl::Hours(1);
  const std::string waits = service.Ask(later);
  const BackupCopy copy = TakeBackup(service);
  service.Hold(kBert);
  ASSERT_THAT(PutBack(service, copy, /*replace=*/true), IsOk());
  service.Pass(absl::Hours(24));
  service.Run();
  EXPECT_EQ(service.Get(waits).state, ErasureState::kCompleted);
}

// The second one has nothing to count, and must not let the requests go all the same.
TEST(HoldTest, ARestoreThatIsRepeatedHoldsTheRequestsBackToo) {
  ErasureHarness service;
  ErasureRequestInput later = service.InputFor({service.Raw(kBert)});
  later.start_time = service.now() + absl::Hours(1);
  const std::string waits = service.Ask(later);
  const BackupCopy copy = TakeBackup(service);
  service.Hold(kBert);
  ASSERT_THAT(PutBack(service, copy, /*replace=*/true), IsOk());
  const auto again = PutBack(service, copy, /*replace=*/true);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->holds_lost, 0u);
  service.Pass(absl::Hours(23));
  service.Run();
  EXPECT_EQ(service.Get(waits).state, ErasureState::kPending);
  EXPECT_EQ(Tokens(service, "m1"), 7u);
}

// Ended after the backup, with a key that callbacks or receipts still need: they end as they did.
TEST(HoldTest, ARestoreBringsBackNoRequestThatHasEnded) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.callback_urls = {"https://a.example/"};
  input.start_time = service.now() + absl::Hours(1);
  const std::string completed = service.Ask(input);
  input.identities = {service.Raw(kBert)};
  const std::string cancelled = service.Ask(input);
  const std::string denied = service.Ask(input);
  const BackupCopy copy = TakeBackup(service);
  ASSERT_THAT(service->CancelErasureRequest("t", cancelled), IsOk());
  service.Hold(kBert);
  service.Pass(absl::Hours(1));
  service.Run();
  ASSERT_EQ(service.Get(completed).state, ErasureState::kCompleted);
  ASSERT_EQ(service.Get(denied).state, ErasureState::kDenied);
  const ErasureRequestInfo before = service.Get(completed);

  const auto restored = PutBack(service, copy, /*replace=*/true);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->requests_ended, 3u);
  EXPECT_EQ(restored->holds_lost, 1u);
  service.Pass(absl::Hours(25));
  service.Run();
  EXPECT_EQ(service.Get(completed).state, ErasureState::kCompleted);
  EXPECT_EQ(service.Get(completed).counts, before.counts);
  EXPECT_EQ(service.Get(completed).certificates, before.certificates);
  service.ExpectProven(completed, {kAnna});
  EXPECT_EQ(service.Get(cancelled).state, ErasureState::kCancelled);
  EXPECT_EQ(service.Get(denied).state, ErasureState::kDenied);
  EXPECT_EQ(Tokens(service, "m1"), 5u) << "nothing of whom the hold kept is gone";
  EXPECT_THAT(service->DueCallbacks(10), SizeIs(3)) << "and whoever asked is still told";
  service.Pass(absl::Hours(72));
  service.Run();
  EXPECT_FALSE(service.Get(cancelled).personal);
}

}  // namespace
}  // namespace lethe::service
