// Erasure requests: what is promised, and kept, from the asking to the end of the personal part.
#include <atomic>
#include <thread>

#include "server/service/erasure_records.h"
#include "tests/server/erasure_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

TEST(ErasureRequestTest, GoesThroughEveryMemoryAndProvesIt) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.source = "opendsr";
  input.regulation = "gdpr";
  input.controller_id = "controller-1";
  const std::string id = service.Ask(input);
  ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kPending);
  EXPECT_EQ(info.received_time, "2027-01-15T08:00:00.000000Z");
  EXPECT_EQ(info.due_time, "2027-02-14T08:00:00.000000Z");
  EXPECT_EQ(info.controller_id, "controller-1");
  EXPECT_EQ(Tokens(service, "m1"), 7u);
  service.Pass(absl::Seconds(2));
  service.Run();

  info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kCompleted);
  EXPECT_EQ(info.counts, (ErasureCounts{.matched = 4, .erased = 4}));
  EXPECT_EQ(info.begin_time, "2027-01-15T08:00:02.000000Z");
  EXPECT_EQ(info.end_time, "2027-01-15T08:00:02.000000Z");
  EXPECT_EQ(info.source, "opendsr");
  EXPECT_EQ(info.regulation, "gdpr");
  ASSERT_THAT(info.certificates, SizeIs(2));
  EXPECT_EQ(info.certificates[0].memory, "m1");
  EXPECT_EQ(info.certificates[1].memory, "m2");
  EXPECT_THAT(info.stores,
              ::testing::Contains(::testing::Field(&StoreLevel::level, "key-destroyed")));
  EXPECT_EQ(Tokens(service, "m1"), 5u);
  EXPECT_EQ(Tokens(service, "m2"), 5u);
  EXPECT_EQ(Tokens(service, "m3"), 3u);
  service.ExpectProven(id, {kAnna});
  EXPECT_THAT(ErasureLog(service), SizeIs(2));
  EXPECT_EQ(service->ErasureCounts().pending + service->ErasureCounts().in_progress, 0u);
}

TEST(ErasureRequestTest, NobodyThereIsCompletedAndKeepsNothing) {
  ErasureHarness service;
  const std::string id = service.Ask("subject-nobody-canary");
  service.Run();
  const ErasureRequestInfo info = service.Get(id);
  EXPECT_EQ(info.state, ErasureState::kCompleted);
  EXPECT_EQ(info.counts, (ErasureCounts{.not_found = 1}));
  EXPECT_THAT(info.certificates, IsEmpty());
  EXPECT_FALSE(info.personal);
  EXPECT_FALSE(info.receipts);
  EXPECT_THAT(*service->TakeErasureReceipts("t", id, false), IsEmpty());
}

TEST(ErasureRequestTest, HashedIdentitiesNameTheSubject) {
  // By sha256sum, sha1sum and md5sum.
  EXPECT_EQ(HashOfSubject(IdentityFormat::kSha256, "subject-17"),
            audit::Hex(audit::Sha256("subject-17")));
  EXPECT_EQ(HashOfSubject(IdentityFormat::kSha1, "abc"),
            "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(HashOfSubject(IdentityFormat::kMd5, "abc"), "900150983cd24fb0d6963f7d28e17f72");
  for (const IdentityFormat format :
       {IdentityFormat::kSha256, IdentityFormat::kSha1, IdentityFormat::kMd5}) {
    SCOPED_TRACE(static_cast<int>(format));
    ErasureHarness service;
    const Identity anna{.type = "", .format = format, .value = HashOfSubject(format, kAnna)};
    const Identity nobody{.type = "", .format = format, .value = HashOfSubject(format, "nobody")};
    const auto found = service->Discover("t", {anna, nobody, service.Raw(kBert)}, {});
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->tokens, 8u);
    EXPECT_EQ(found->not_found, 1u);
    const std::string id = service.Ask(service.InputFor({anna, nobody}));
    service.Run();
    const ErasureRequestInfo info = service.Get(id);
    EXPECT_EQ(info.state, ErasureState::kCompleted);
    EXPECT_EQ(info.counts, (ErasureCounts{.matched = 4, .erased = 4, .not_found = 1}));
    service.ExpectProven(id, {kAnna, ""});
    EXPECT_EQ(Tokens(service, "m1"), 5u);
  }
}

// Hashing every subject can take longer than somebody waits.
TEST(ErasureRequestTest, ASearchByHashEndsWithItsCaller) {
  ErasureHarness service;
  std::vector<TokenInput> tokens;
  for (int i = 0; i < 5000; ++i) {
    tokens.push_back(TokenOf(absl::StrCat("s", i), 0.25, absl::StrCat("subject-", i)));
  }
  service.Insert("m3", tokens);
  int asked = 0;
  const CallOptions call{.still_wanted = [&asked] {
    return ++asked > 3 ? absl::CancelledError("the caller is gone") : absl::OkStatus();
  }};
  const Identity hashed{.type = "",
                        .format = IdentityFormat::kMd5,
                        .value = HashOfSubject(IdentityFormat::kMd5, "subject-4999")};
  // Once before each of the three memories, and on the way through the last.
  EXPECT_THAT(service->Discover("t", {hashed}, call), HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(service->Discover("t", {hashed}, {})->tokens, 1u);
}

TEST(ErasureRequestTest, TwoIdentitiesOfOnePersonCountOnce) {
  ErasureHarness service;
  const Identity hashed{.type = "",
                        .format = IdentityFormat::kSha256,
                        .value = HashOfSubject(IdentityFormat::kSha256, kAnna)};
  const auto found = service->Discover("t", {service.Raw(kAnna), hashed}, {});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->tokens, 4u);
  ASSERT_THAT(found->memories, SizeIs(2));
  EXPECT_EQ(found->memories[0].memory, "m1");
  EXPECT_EQ(found->memories[0].tokens, 2u);
  EXPECT_EQ(found->not_found, 0u);
  const std::string id = service.Ask(service.InputFor({service.Raw(kAnna), hashed}));
  service.Run();
  EXPECT_EQ(service.Get(id).counts.erased, 4u);
}

TEST(ErasureRequestTest, BadInputNamesItsField) {
  ErasureHarness service;
  const auto create = [&](const std::function<void(ErasureRequestInput&)>& change) {
    ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
    change(input);
    return service->CreateErasureRequest(input, {});
  };
  using Input = ErasureRequestInput;
  EXPECT_THAT(create([](Input& i) { i.tenant = std::string("T"); }), Fails(kInvalid, "tenant"));
  EXPECT_THAT(create([](Input& i) { i.tenant = std::string("other"); }), HasCode(kNotFound));
  EXPECT_THAT(create([](Input& i) { i.identities.clear(); }), Fails(kInvalid, "identities"));
  EXPECT_THAT(create([](Input& i) { i.identities.resize(33, i.identities[0]); }),
              Fails(kInvalid, "identities"));
  EXPECT_THAT(create([](Input& i) { i.identities.push_back(i.identities[0]); }),
              Fails(kInvalid, "identities[1]"));
  EXPECT_THAT(create([](Input& i) { i.identities[0].value = std::string(""); }),
              Fails(kInvalid, "identities[0].value"));
  EXPECT_THAT(create([](Input& i) { i.identities[0].value = std::string(257, 'a'); }),
              Fails(kInvalid, "identities[0].value"));
  EXPECT_THAT(create([](Input& i) { i.identities[0].value = std::string("\xff"); }),
              Fails(kInvalid, "identities[0].value"));
  EXPECT_THAT(create([](Input& i) { i.identities[0].type = std::string(65, 'a'); }),
              Fails(kInvalid, "identities[0].type"));
  EXPECT_THAT(create([](Input& i) { i.identities[0].format = IdentityFormat::kSha1; }),
              Fails(kInvalid, "identities[0].value"));
  EXPECT_THAT(create([](Input& i) {
                i.identities[0] = {
                    .type = "", .format = IdentityFormat::kMd5, .value = std::string(32, 'A')};
              }),
              Fails(kInvalid, "identities[0].value"));
  EXPECT_THAT(create([](Input& i) { i.identities[0].format = static_cast<IdentityFormat>(9); }),
              Fails(kInvalid, "identities[0].format"));
  EXPECT_THAT(create([](Input& i) { i.idempotency_key = std::string(129, 'a'); }),
              Fails(kInvalid, "idempotency_key"));
  EXPECT_THAT(create([](Input& i) { i.source = std::string("Some One"); }),
              Fails(kInvalid, "source"));
  EXPECT_THAT(create([](Input& i) { i.regulation = std::string(65, 'a'); }),
              Fails(kInvalid, "regulation"));
  EXPECT_THAT(create([](Input& i) { i.callback_urls.assign(5, "https://example.org/"); }),
              Fails(kInvalid, "callback_urls"));
  EXPECT_THAT(create([](Input& i) { i.callback_urls = {"ftp://example.org/"}; }),
              Fails(kInvalid, "callback_urls[0]"));
  EXPECT_THAT(create([](Input& i) { i.callback_urls = {"https://example.org/a b"}; }),
              Fails(kInvalid, "callback_urls[0]"));
  EXPECT_THAT(create([](Input& i) { i.controller_id = std::string(129, 'a'); }),
              Fails(kInvalid, "controller_id"));
  EXPECT_THAT(create([&](Input& i) { i.received_time = service.now() + absl::Minutes(6); }),
              Fails(kInvalid, "received_time"));
  EXPECT_THAT(create([&](Input& i) { i.received_time = service.now() - absl::Hours(24 * 367); }),
              Fails(kInvalid, "received_time"));
  EXPECT_THAT(create([&](Input& i) { i.start_time = service.now() + absl::Hours(24 * 31); }),
              Fails(kInvalid, "start_time"));
  EXPECT_THAT(service->GetErasureRequest("t", "x"), Fails(kInvalid, "id"));
  EXPECT_THAT(service->GetErasureRequest("t", std::string(32, '0')), HasCode(kNotFound));
  EXPECT_EQ(service->ErasureCounts().pending, 0u);
}

TEST(ErasureRequestTest, AnIdempotencyKeyIsAnsweredOnce) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.idempotency_key = "key-1";
  const std::string id = service.Ask(input);
  const auto check_replay = [&] {
    const auto again = service->CreateErasureRequest(input, {});
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->id, id);
    EXPECT_TRUE(again->replayed);
  };
  check_replay();
  ErasureRequestInput other = input;
  other.identities = {service.Raw(kBert)};
  EXPECT_THAT(service->CreateErasureRequest(other, {}), Fails(kExists, "idempotency_key"));
  service.Restart();
  check_replay();
  service.Run();
  check_replay();  // also when nothing personal is left to compare with
  EXPECT_THAT(service->CreateErasureRequest(other, {}), Fails(kExists, "idempotency_key"));
  EXPECT_EQ(service->FindErasureRequest("t", "key-1")->id, id);
  EXPECT_THAT(service->FindErasureRequest("t", "key-2"), Fails(kNotFound, "idempotency_key"));
  // A Forget's request id of the same text is another one.
  ForgetInput forget = ForgetSubjectOf("m1", kBert);
  forget.request_id = "key-1";
  EXPECT_THAT(service->Forget(forget, {}), IsOk());
  EXPECT_THAT(service->ListErasureRequests("t", {}, {})->items, SizeIs(1));
}

TEST(ErasureRequestTest, OnlyAPendingRequestIsCancelled) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.start_time = service.now() + absl::Hours(24);
  const std::string id = service.Ask(input);
  service.Run();
  EXPECT_EQ(service.Get(id).state, ErasureState::kPending) << "its time has not come";
  const auto cancelled = service->CancelErasureRequest("t", id);
  ASSERT_THAT(cancelled, IsOk());
  EXPECT_EQ(cancelled->state, ErasureState::kCancelled);
  EXPECT_FALSE(cancelled->personal);
  EXPECT_THAT(service->CancelErasureRequest("t", id), IsOk());
  service.Pass(absl::Hours(48));
  service.Run();
  EXPECT_EQ(service.Get(id).state, ErasureState::kCancelled);
  EXPECT_EQ(Tokens(service, "m1"), 7u);

  const std::string done = service.Ask(kBert);
  service.Run();
  EXPECT_THAT(service->CancelErasureRequest("t", done), Fails(kFailedPrecondition, "id"));
  EXPECT_THAT(service->ExtendErasureRequest("t", done, service.now(), "late"),
              Fails(kFailedPrecondition, "id"));
}

// Whoever comes first: a cancelled request erases nothing, and one that is not cancelled all.
TEST(ErasureRequestTest, CancellingRacesWithTheWorker) {
  for (int round = 0; round < 6; ++round) {
    ErasureHarness service;
    service->StartErasures();
    const std::string id = service.Ask(kAnna);
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    const auto cancelled = service->CancelErasureRequest("t", id);
    service->StopErasures();
    service.Restart();
    service.Run();
    const ErasureRequestInfo info = service.Get(id);
    if (cancelled.ok()) {
      EXPECT_EQ(info.state, ErasureState::kCancelled);
      EXPECT_EQ(Tokens(service, "m1"), 7u);
    } else {
      EXPECT_THAT(cancelled, Fails(kFailedPrecondition, "id"));
      EXPECT_EQ(info.state, ErasureState::kCompleted);
      EXPECT_EQ(Tokens(service, "m1"), 5u);
    }
  }
}

TEST(ErasureRequestTest, ExtendsByTwoMonthsWithAReason) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.start_time = service.now() + absl::Hours(24);
  const std::string id = service.Ask(input);
  const absl::Time due = service.now() + absl::Hours(24 * 30);
  EXPECT_THAT(service->ExtendErasureRequest("t", id, due + absl::Hours(24), ""),
              Fails(kInvalid, "reason"));
  EXPECT_THAT(service->ExtendErasureRequest("t", id, due - absl::Hours(1), "why"),
              Fails(kInvalid, "due_time"));
  EXPECT_THAT(service->ExtendErasureRequest("t", id, due + absl::Hours(24 * 62), "why"),
              Fails(kInvalid, "due_time"));
  const auto extended =
      service->ExtendErasureRequest("t", id, due + absl::Hours(24 * 60), "many requests");
  ASSERT_THAT(extended, IsOk());
  EXPECT_TRUE(extended->extended);
  EXPECT_EQ(extended->due_time, "2027-04-15T08:00:00.000000Z");
  service.Restart();
  EXPECT_EQ(service.Get(id).extension_reason, "many requests");
  EXPECT_EQ(service.Get(id).due_time, "2027-04-15T08:00:00.000000Z");
}

TEST(ErasureRequestTest, ListsByStateAndPage) {
  ErasureHarness service;
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) {
    ErasureRequestInput input = service.InputFor({service.Raw(absl::StrCat("subject-", i))});
    if (i % 2 == 0) input.start_time = service.now() + absl::Hours(1);
    all.push_back(service.Ask(input));
  }
  service.Run();
  const auto list = [&](std::optional<ErasureState> state) {
    std::vector<std::string> ids;
    PageRequest page{.size = 2, .token = ""};
    do {
      const auto got = service->ListErasureRequests("t", state, page);
      EXPECT_THAT(got, IsOk());
      if (!got.ok()) break;
      for (const ErasureRequestInfo& info : got->items) ids.push_back(info.id);
      page.token = got->next_page_token;
    } while (!page.token.empty());
    return ids;
  };
  EXPECT_EQ(list({}), all);
  EXPECT_THAT(list(ErasureState::kPending), ElementsAre(all[0], all[2], all[4]));
  EXPECT_THAT(list(ErasureState::kCompleted), ElementsAre(all[1], all[3]));
  const std::string token =
      service->ListErasureRequests("t", {}, {.size = 2, .token = ""})->next_page_token;
  EXPECT_THAT(
      service->ListErasureRequests("t", ErasureState::kPending, {.size = 2, .token = token}),
      Fails(kInvalid, "page_token"));
  EXPECT_THAT(service->ListErasureRequests("t", {}, {.size = 1001, .token = ""}),
              Fails(kInvalid, "page_size"));
}

TEST(ErasureRequestTest, CountsWhatIsDueOverOpenAndClosedTenants) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.start_time = service.now() + absl::Hours(24 * 30);
  service.Ask(input);
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  input.tenant = "u";
  input.received_time = service.now() - absl::Hours(24 * 25);
  input.start_time = service.now() + absl::Hours(24);
  ASSERT_THAT(service->CreateErasureRequest(input, {}), IsOk());
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    const OpenErasureCounts counts = service->ErasureCounts();
    EXPECT_EQ(counts.pending, 2u);
    EXPECT_EQ(counts.in_progress, 0u);
    EXPECT_EQ(counts.due_soon, 1u);
    EXPECT_EQ(counts.overdue, 0u);
    if (restarted) break;
    ASSERT_THAT(service->Checkpoint(), IsOk());
    service.Restart();
    EXPECT_EQ(service->OpenTenantCounts().open, 0u) << "counted without opening a tenant";
  }
  service.Pass(absl::Hours(24 * 6));
  EXPECT_EQ(service->ErasureCounts().overdue, 1u);
  service.Run();
  const OpenErasureCounts counts = service->ErasureCounts();
  EXPECT_EQ(counts.pending, 1u);
  EXPECT_EQ(counts.overdue, 0u);
  // A tenant that goes takes its requests with it.
  ASSERT_THAT(service->DeleteTenant("t", {}), IsOk());
  EXPECT_EQ(service->ErasureCounts().pending, 0u);
}

TEST(ErasureRequestTest, ReceiptsAreGivenUntilTheyAreDiscarded) {
  ErasureHarness service;
  const std::string id = service.Ask(kAnna);
  EXPECT_THAT(service->TakeErasureReceipts("t", id, false), Fails(kFailedPrecondition, "id"));
  service.Run();
  EXPECT_TRUE(service.Get(id).receipts);
  const auto first = service->TakeErasureReceipts("t", id, false);
  service.Restart();
  const auto second = service->TakeErasureReceipts("t", id, true);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->at(1).receipt.subject_salt, second->at(1).receipt.subject_salt);
  EXPECT_FALSE(service.Get(id).receipts);
  EXPECT_FALSE(service.Get(id).personal);
  EXPECT_THAT(service->TakeErasureReceipts("t", id, false), Fails(kFailedPrecondition, "id"));

  // Nobody takes them: they end three days after the request.
  const std::string late = service.Ask(kBert);
  service.Run();
  service.Pass(absl::Hours(71));
  service.Run();
  EXPECT_TRUE(service.Get(late).personal);
  service.Pass(absl::Hours(2));
  service.Run();
  EXPECT_FALSE(service.Get(late).personal);
  EXPECT_THAT(service->TakeErasureReceipts("t", late, false), Fails(kFailedPrecondition, "id"));
  EXPECT_EQ(service.Get(late).certificates.size(), 2u);
}

TEST(ErasureRequestTest, CallbacksAreOwedForEveryChangeInOrder) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.callback_urls = {"https://a.example/done", "https://b.example/done"};
  input.controller_id = "controller-9";
  const std::string id = service.Ask(input);
  EXPECT_THAT(service->DueCallbacks(10), IsEmpty());
  service.Run();
  EXPECT_EQ(service->ErasureCounts().callbacks, 1u);
  service.Restart();
  auto due = service->DueCallbacks(10);
  ASSERT_THAT(due, SizeIs(2)) << "the older change of each address first";
  EXPECT_EQ(due[0].url, "https://a.example/done");
  EXPECT_EQ(due[0].state, ErasureState::kInProgress);
  EXPECT_EQ(due[0].request.id, id);
  EXPECT_EQ(due[0].request.state, ErasureState::kCompleted);
  EXPECT_EQ(due[0].request.controller_id, "controller-9");
  ASSERT_THAT(service->SettleCallback(due[0], CallbackOutcome::kDelivered), IsOk());
  ASSERT_THAT(service->SettleCallback(due[0], CallbackOutcome::kDelivered), IsOk());
  ASSERT_THAT(service->SettleCallback(due[1], CallbackOutcome::kFailed), IsOk());
  due = service->DueCallbacks(10);
  ASSERT_THAT(due, SizeIs(1));
  EXPECT_EQ(due[0].url_index, 0u);
  EXPECT_EQ(due[0].state, ErasureState::kCompleted);
  ASSERT_THAT(service->SettleCallback(due[0], CallbackOutcome::kDelivered), IsOk());
  EXPECT_THAT(service->DueCallbacks(10), IsEmpty());
  service.Pass(absl::Minutes(1));
  due = service->DueCallbacks(10);
  ASSERT_THAT(due, SizeIs(1));
  EXPECT_EQ(due[0].url_index, 1u);
  EXPECT_EQ(due[0].attempts, 1u);
  // The receipts are stored by now; the callback alone keeps the personal part.
  ASSERT_THAT(service->TakeErasureReceipts("t", id, true), IsOk());
  EXPECT_TRUE(service.Get(id).personal);
  ASSERT_THAT(service->SettleCallback(due[0], CallbackOutcome::kRefused), IsOk());
  due = service->DueCallbacks(10);
  ASSERT_THAT(due, SizeIs(1));
  ASSERT_THAT(service->SettleCallback(due[0], CallbackOutcome::kRefused), IsOk());
  EXPECT_FALSE(service.Get(id).personal);
  EXPECT_EQ(service->ErasureCounts().callbacks, 0u);
}

TEST(ErasureRequestTest, CallbacksAreGivenUpAfterThreeDays) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw("subject-nobody")});
  input.callback_urls = {"https://a.example/done"};
  const std::string id = service.Ask(input);
  service.Run();
  EXPECT_TRUE(service.Get(id).personal);
  service.Pass(absl::Hours(73));
  service.Run();
  EXPECT_FALSE(service.Get(id).personal);
  EXPECT_THAT(service->DueCallbacks(10), IsEmpty());
}

// What is sealed stays sealed, and what has ended is nowhere.
TEST(ErasureRequestTest, LeavesNoTraceOfWhoAsked) {
  ErasureHarness service;
  ErasureRequestInput input = service.InputFor({service.Raw(kAnna)});
  input.callback_urls = {"https://callback-canary.example/"};
  input.controller_id = "controller-canary";
  const std::string id = service.Ask(input);
  ASSERT_THAT(
      service->ExtendErasureRequest("t", id, service.now() + absl::Hours(24 * 31), "reason-canary"),
      IsOk());
  const std::string hold = service.Hold("subject-hold-canary");
  const auto nothing_in_clear = [&] {
    for (const char* canary : {"subject-17-canary", "callback-canary", "controller-canary",
                               "reason-canary", "subject-hold-canary"}) {
      EXPECT_FALSE(FilesHold(service, canary)) << canary;
    }
  };
  nothing_in_clear();
  StolenRows stolen(service);
  EXPECT_TRUE(stolen.CaseIsReadable(id)) << "with the vault, as long as its key is needed";
  EXPECT_TRUE(stolen.CaseIsReadable(hold));
  service.Run();
  nothing_in_clear();
  EXPECT_TRUE(stolen.CaseIsReadable(id)) << "a callback is owed";
  service.Pass(absl::Hours(73));
  service.Run();
  EXPECT_FALSE(stolen.CaseIsReadable(id));
  EXPECT_TRUE(stolen.CaseIsReadable(hold));
  ASSERT_THAT(service->ReleaseHold("t", hold), IsOk());
  EXPECT_FALSE(stolen.CaseIsReadable(hold));
  EXPECT_FALSE(service.Get(id).personal);
  EXPECT_EQ(service.Get(id).controller_id, "");
  nothing_in_clear();
  service.Restart();
  EXPECT_EQ(service.Get(id).state, ErasureState::kCompleted);
  EXPECT_EQ(service->ListHolds("t", true, {})->items.at(0).subject, "");
}

TEST(ErasureRequestTest, ATokenThatComesLaterIsNewData) {
  ErasureHarness service;
  const std::string id = service.Ask(kAnna);
  service.Run();
  service.Insert("m1", {TokenOf("k1", 0.25, kAnna)});
  service.Restart();
  service.Run();
  EXPECT_EQ(Tokens(service, "m1"), 6u);
  const std::string again = service.Ask(kAnna);
  service.Run();
  EXPECT_EQ(service.Get(again).counts.erased, 1u);
  EXPECT_EQ(service.Get(id).counts.erased, 4u);
}

TEST(ErasureRequestTest, TheThreadWorksAndStopsAndGoesOn) {
  ErasureHarness service;
  service->StartErasures();
  const std::string id = service.Ask(kAnna);
  while (service.Get(id).state != ErasureState::kCompleted) std::this_thread::yield();
  service->StopErasures();
  const std::string waits = service.Ask(kBert);
  service->RunDueErasures();
  EXPECT_EQ(service.Get(waits).state, ErasureState::kPending) << "it was stopped";
  service.Restart();
  service->StartErasures();
  while (service.Get(waits).state != ErasureState::kCompleted) std::this_thread::yield();
  EXPECT_EQ(Tokens(service, "m1"), 3u);
}

TEST(ErasureRequestTest, ATenantThatCannotBeOpenedHoldsNobodyUp) {
  ErasureHarness service;
  const std::string id = service.Ask(kAnna);
  ASSERT_THAT(service->CreateTenant("u", {}), IsOk());
  ErasureRequestInput input = service.InputFor({service.Raw("somebody")});
  input.tenant = "u";
  const auto other = service->CreateErasureRequest(input, {});
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT(service->Checkpoint(), IsOk());
  service.options().limits.first_retry = absl::Milliseconds(1);
  service.Restart();
  service.hooks().before = [](const std::string& operation) {
    return operation == "LoadTokens" ? absl::DataLossError("damaged") : absl::OkStatus();
  };
  service.Run();
  EXPECT_EQ(service->GetErasureRequest("u", other->id)->state, ErasureState::kCompleted);
  EXPECT_EQ(service->ErasureCounts().pending, 1u);
  service.hooks().before = nullptr;
  while (service->ErasureCounts().pending > 0) {
    service.Pass(absl::Seconds(5));
    service.Run();
  }
  EXPECT_EQ(service.Get(id).state, ErasureState::kCompleted);
}

}  // namespace
}  // namespace lethe::service
