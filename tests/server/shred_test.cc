// How erasures end: their keys are destroyed before anything is answered, a certificate says so,
// and what a fault or a crash leaves undone is done later, once.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/stores.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
using audit::CertificateKind;

std::vector<CertificateKind> KindsOf(const std::vector<audit::CertificateBody>& log) {
  std::vector<CertificateKind> kinds;
  for (const audit::CertificateBody& body : log) kinds.push_back(body.kind);
  return kinds;
}

std::map<std::string, std::string> LevelsOf(const std::vector<StoreLevel>& stores) {
  std::map<std::string, std::string> levels;
  for (const StoreLevel& store : stores) levels[store.store] = store.level;
  return levels;
}

const std::map<std::string, std::string>& Destroyed() {
  static const auto* levels = new std::map<std::string, std::string>{
      {"tokens", "rows-deleted"},       {"keys", "key-destroyed"},
      {"write-ahead-log", "truncated"}, {"backups", "unreadable-without-key"},
      {"exports", "no-token-content"},  {"memory", "not-claimed"}};
  return *levels;
}

// An erasure empties the log itself and then tries it once more: one fault would be used up.
void FailOrLieAtBothCheckpoints(Harness& service, bool lies) {
  service.hooks().before = [left = lies ? 1 : 2](const std::string& called) mutable {
    return called == "Checkpoint" && left-- > 0 ? absl::UnavailableError("not now")
                                                : absl::OkStatus();
  };
  if (lies) LieOnce(service, "Checkpoint");
}

void FailOrLieOnce(Harness& service, const std::string& step, bool lies) {
  if (lies) {
    LieOnce(service, step);
  } else {
    FailOnce(service, step, absl::UnavailableError("not now"));
  }
}

// Tokens of two subjects and some of none.
std::vector<TokenInput> Ward() {
  std::vector<TokenInput> tokens = Spiral(12);
  for (int i = 0; i < 4; ++i) tokens[static_cast<size_t>(i)].subject = "anna";
  for (int i = 4; i < 7; ++i) tokens[static_cast<size_t>(i)].subject = "ben";
  for (TokenInput& token : tokens) token.payload = "canary-71f3";
  return tokens;
}

TEST(ShredTest, EveryErasureIsFollowedByACertificateAboutItsKeys) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Ward());
  const auto by_subject = service->Forget(ForgetSubjectOf("m", "anna"), {});
  ASSERT_THAT(by_subject, IsOk());
  const ForgetReply by_id = service.Forget("m", {"a4", "a8", "a9"});
  const auto evicted = service->Evict(EvictOf("m", 3), {});
  ASSERT_THAT(evicted, IsOk());
  ASSERT_GT(evicted->reserve + evicted->surplus, 0u);
  const auto edited = service->Edit(EditOf("m", {MakeToken("a11", 3, 3)}), {});
  ASSERT_THAT(edited, IsOk());
  const auto deleted = service->DeleteMemory("t", "m", {});
  ASSERT_THAT(deleted, IsOk());

  const std::vector<audit::CertificateBody> log = VerifiedLog(service);
  EXPECT_EQ(KindsOf(log), (std::vector{CertificateKind::kForget, CertificateKind::kShredded,
                                       CertificateKind::kForget, CertificateKind::kShredded,
                                       CertificateKind::kEvict, CertificateKind::kShredded,
                                       CertificateKind::kEdit, CertificateKind::kShredded,
                                       CertificateKind::kForget, CertificateKind::kShredded}));
  // One key for all of a subject; a subject of which a part goes loses its key too.
  const std::vector<uint64_t> keys = {1, 3, 0, 1, 0};
  for (size_t i = 0; i < log.size(); i += 2) {
    SCOPED_TRACE(i);
    const audit::CertificateBody& shredded = log[i + 1];
    ASSERT_TRUE(shredded.destruction.has_value());
    ASSERT_TRUE(shredded.destruction->erasures.has_value());
    EXPECT_EQ(shredded.destruction->erasures->first, i);
    EXPECT_EQ(shredded.destruction->erasures->last, i);
    if (keys[i / 2] != 0) {
      EXPECT_EQ(shredded.destruction->keys, keys[i / 2]);
    }
    EXPECT_GT(shredded.destruction->keys, 0u);
    // Before its keys are destroyed an erasure says that they are not.
    std::map<std::string, std::string> before;
    for (const audit::StoreErasure& store : log[i].stores) before[store.store] = store.level;
    EXPECT_EQ(before.at("keys"), audit::kLevelKeyPending);
  }
  const auto page = service->ListCertificates("t", "", {});
  ASSERT_THAT(page, IsOk());
  const std::vector<std::optional<Destruction>> answers = {
      by_subject->destruction, by_id.destruction, evicted->destruction, edited->destruction,
      deleted->destruction};
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(answers[i].has_value());
    EXPECT_EQ(answers[i]->certificate_id, page->items[2 * i + 1].id);
    EXPECT_EQ(LevelsOf(answers[i]->stores), Destroyed());
  }
}

TEST(ShredTest, WhatErasesNothingDestroysNothing) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Ward());
  ForgetInput dry = ForgetSubjectOf("m", "anna");
  dry.dry_run = true;
  EXPECT_FALSE(service->Forget(dry, {})->destruction.has_value());
  EXPECT_FALSE(service.Forget("m", {"nobody"}).destruction.has_value());
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
  service.MakeMemory("empty");
  EXPECT_FALSE(service->DeleteMemory("t", "empty", {})->destruction.has_value());
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
}

// At each step after the commit, failing and lying: not OK, and the repetition is answered as the
// first call would have been; with a restart between them or without; by an id or without.
TEST(ShredTest, AnErasureThatCouldNotFinishIsFinishedBeforeItIsAnswered) {
  for (const std::string step :
       {"Checkpoint", "PendingErasures", "DestroyPendingKeys", "AppendShredded"}) {
    for (const bool lies : {false, true}) {
      for (const bool restart : {false, true}) {
        SCOPED_TRACE(absl::StrCat(step, lies ? " lies" : " fails", restart ? ", restart" : ""));
        Harness service;
        service.MakeMemory("m");
        service.Insert("m", Ward());
        if (step == "Checkpoint") {
          FailOrLieAtBothCheckpoints(service, lies);
        } else {
          FailOrLieOnce(service, step, lies);
        }
        ForgetInput forget = ForgetSubjectOf("m", "anna");
        forget.request_id = "r";
        const auto first = service->Forget(forget, {});
        ASSERT_THAT(first, HasCode(kUnavailable));
        EXPECT_NE(first.status().message().find("repeat the request"), absl::string_view::npos);
        if (restart) service.Restart();
        const auto again = service->Forget(forget, {});
        ASSERT_THAT(again, IsOk());
        EXPECT_TRUE(again->replayed);
        EXPECT_EQ(again->erased, 4u);
        ASSERT_TRUE(again->destruction.has_value());
        EXPECT_EQ(LevelsOf(again->destruction->stores), Destroyed());
        EXPECT_EQ(service->Forget(ForgetSubjectOf("m", "anna"), {})->matched, 0u);
        const std::vector<audit::CertificateBody> log = VerifiedLog(service);
        ASSERT_EQ(KindsOf(log),
                  (std::vector{CertificateKind::kForget, CertificateKind::kShredded}));
        // The certificate counts the keys that lived until its own run.
        const bool gone_before = step == (lies ? "DestroyPendingKeys" : "AppendShredded");
        EXPECT_EQ(log[1].destruction->keys, gone_before ? 0u : 1u);
        EXPECT_EQ(again->state_digest, service.Digest("m"));
      }
    }
  }
}

TEST(ShredTest, ErasuresThatWaitedAreFinishedTogetherByTheNext) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Ward());
  bool broken = true;
  service.hooks().before = [&broken](const std::string& called) -> absl::Status {
    if (broken && called == "DestroyPendingKeys") return absl::UnavailableError("no key service");
    return absl::OkStatus();
  };
  ForgetInput anna = ForgetSubjectOf("m", "anna");
  anna.request_id = "anna";
  EXPECT_THAT(service->Forget(anna, {}), HasCode(kUnavailable));
  EXPECT_THAT(service->Forget(ForgetSubjectOf("m", "ben"), {}), HasCode(kUnavailable));
  // Nothing is left to erase, and yet this is not said before the keys are gone.
  EXPECT_THAT(service->Forget(ForgetSubjectOf("m", "ben"), {}), HasCode(kUnavailable));
  // The rest of the memory is served and written to meanwhile.
  EXPECT_EQ(Tokens(service, "m"), 5u);
  EXPECT_EQ(service.Insert("m", Spiral(3, "b")).inserted, 3u);
  broken = false;
  EXPECT_EQ(service->Forget(ForgetSubjectOf("m", "ben"), {})->matched, 0u);
  const std::vector<audit::CertificateBody> log = VerifiedLog(service);
  ASSERT_EQ(KindsOf(log), (std::vector{CertificateKind::kForget, CertificateKind::kForget,
                                       CertificateKind::kShredded}));
  EXPECT_EQ(log[2].destruction->erasures->first, 0u);
  EXPECT_EQ(log[2].destruction->erasures->last, 1u);
  EXPECT_EQ(log[2].destruction->keys, 2u);
  const auto again = service->Forget(anna, {});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->destruction->certificate_id,
            service->ListCertificates("t", "", {})->items[2].id);
}

TEST(ShredTest, AStartFinishesWhatACrashLeft) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Ward());
  FailOnce(service, "DestroyPendingKeys", absl::UnavailableError("no key service"));
  EXPECT_THAT(service->Forget(ForgetSubjectOf("m", "anna"), {}), HasCode(kUnavailable));
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 1u);
  service.Restart();
  EXPECT_EQ(KindsOf(VerifiedLog(service)),
            (std::vector{CertificateKind::kForget, CertificateKind::kShredded}));
  EXPECT_EQ(Tokens(service, "m"), 8u);
}

TEST(ShredTest, AClosedTenantEndsWithItsCertificateAndNoKey) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Ward());
  service.Forget("m", {"a0"});
  ASSERT_FALSE(std::filesystem::is_empty(service.data() + "/vault"));
  const auto closed = service->DeleteTenant("t", {});
  ASSERT_THAT(closed, IsOk());
  EXPECT_EQ(closed->erased_tokens, 11u);
  EXPECT_EQ(LevelsOf(closed->stores), Destroyed());
  EXPECT_TRUE(std::filesystem::is_empty(service.data() + "/vault"));
  EXPECT_FALSE(FilesHold(service, "canary-71f3"));
  // A namesake sees nothing of it.
  EXPECT_THAT(service->CreateTenant("t", {}), IsOk());
  EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
  service.MakeMemory("m");
  service.Insert("m", Ward());
  EXPECT_EQ(service.Forget("m", {"a0"}).erased, 1u);
}

// Wherever a deletion stops: callers see no such tenant, repeating or a start ends it, and its
// certificate counts what was erased though an earlier call erased it.
TEST(ShredTest, ADeletionIsTakenUpWhereverItStopped) {
  for (const std::string step : {"BeginClose", "DestroyAllKeys", "FinishClose"}) {
    for (const bool lies : {false, true}) {
      for (const bool restart : {false, true}) {
        SCOPED_TRACE(absl::StrCat(step, lies ? " lies" : " fails", restart ? ", restart" : ""));
        Harness service;
        service.MakeMemory("m");
        service.Insert("m", Ward());
        FailOrLieOnce(service, step, lies);
        EXPECT_THAT(service->DeleteTenant("t", {}), HasCode(kUnavailable));
        const bool began = lies || step != "BeginClose";
        if (began && step != "BeginClose") {
          EXPECT_THAT(service->GetMemory("t", "m"), HasCode(kNotFound));
          EXPECT_THAT(service->Insert("t", "m", Spiral(1, "z"), {}), HasCode(kNotFound));
          EXPECT_EQ(service->ListTenants({})->items.size(), 0u);
        }
        if (restart) service.Restart();
        const auto again = service->DeleteTenant("t", {});
        // The start, or the first call, had ended it.
        const bool ended = began && (restart || (lies && step == "FinishClose"));
        if (ended) {
          EXPECT_THAT(again, HasCode(kNotFound));
        } else {
          ASSERT_THAT(again, IsOk());
          EXPECT_EQ(again->erased_tokens, 12u);
          EXPECT_EQ(LevelsOf(again->stores), Destroyed());
        }
        EXPECT_FALSE(std::filesystem::exists(service.data() + "/tenants/t"));
        EXPECT_TRUE(std::filesystem::is_empty(service.data() + "/vault"));
        EXPECT_THAT(service->CreateTenant("t", {}), IsOk());
      }
    }
  }
}

}  // namespace
}  // namespace lethe::service
