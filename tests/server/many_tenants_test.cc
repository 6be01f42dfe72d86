// Many tenants in one server: opened on demand, unloaded beyond the limits, the same afterwards.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "audit/export.h"
#include "audit/export_sinks.h"
#include "audit/verify_export.h"
#include "tests/server/log_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
constexpr absl::StatusCode kExhausted = absl::StatusCode::kResourceExhausted;

// A harness without tenants whose log can be read, and whose stores know their tenant's name.
struct ManyTenants {
  explicit ManyTenants(RegistryLimits limits) : service(/*with_tenant=*/false) {
    log_fd = ::open(log_path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log = std::make_unique<EventLog>(log_fd, LogLevel::kDebug);
    service.options().tenant.log = log.get();
    service.options().limits = limits;
    service.Restart();
  }
  ~ManyTenants() {
    service.Stop();
    ::close(log_fd);
  }
  std::string log_path() const { return log_folder.path() + "/log"; }

  void Make(const std::string& tenant, int tokens = 12) {
    ASSERT_THAT(service->CreateTenant(tenant, {}), IsOk());
    ASSERT_THAT(service->CreateMemory(tenant, "m", SmallConfig(), {}), IsOk());
    if (tokens > 0) {
      ASSERT_THAT(service->Insert(tenant, "m", Spiral(tokens, tenant + "-"), {}), IsOk());
    }
  }

  // "event tenant [reason]" for each line of these events.
  std::vector<std::string> Lines(const std::set<std::string>& events) {
    std::ifstream file(log_path());
    std::vector<std::string> lines;
    for (std::string text; std::getline(file, text);) {
      const nlohmann::json line = nlohmann::json::parse(text);
      if (!events.contains(line["event"])) continue;
      std::string shown = absl::StrCat(line["event"].get<std::string>(), " ",
                                       line.value("tenant", std::string("-")));
      if (line.contains("reason")) absl::StrAppend(&shown, " ", line["reason"].get<std::string>());
      lines.push_back(std::move(shown));
    }
    return lines;
  }
  std::vector<double> Numbers(const std::string& event, const std::string& field) {
    std::ifstream file(log_path());
    std::vector<double> numbers;
    for (std::string text; std::getline(file, text);) {
      const nlohmann::json line = nlohmann::json::parse(text);
      if (line["event"] == event) numbers.push_back(line.at(field).get<double>());
    }
    return numbers;
  }
  std::vector<std::string> Unloaded() { return Lines({"tenant_unloaded"}); }
  std::vector<std::string> Opened() { return Lines({"tenant_opened"}); }

  absl::StatusOr<QueryReply> Ask(const std::string& tenant, const CallOptions& call = {}) {
    return service->Query({.tenant = tenant,
                           .memory = "m",
                           .queries = {{0.1, 0.2}, {-0.5, 1.0}, {3.0, 3.0}},
                           .top_tokens = 4},
                          call);
  }
  std::string DigestOf(const std::string& tenant) {
    const auto reply = service->Describe(tenant, "m", false, {});
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? reply->state_digest : "";
  }
  // An answer in every bit.
  static std::string Bits(const QueryReply& reply) {
    std::string text;
    for (const QueryItem& item : reply.results) {
      for (const double number : item.readout) absl::StrAppendFormat(&text, "%a ", number);
      absl::StrAppendFormat(&text, "%a %a;", item.log_denominator, item.decision.value_or(-7));
      for (const QueryToken& token : item.tokens) {
        absl::StrAppendFormat(&text, "%s %a %a,", token.id, token.weight, token.share);
      }
    }
    return text;
  }
  // Changes what is done when a store of this tenant is opened.
  void WhenOpened(std::function<void(const std::string& tenant)> call) {
    service.options().tenant.wrap_store =
        [call = std::move(call)](std::unique_ptr<store::TenantStore> inner) {
          call(inner->GetTenant()->name);
          return inner;
        };
  }

  // Before the harness: the service writes its last lines while it stops.
  TempDir log_folder;
  int log_fd = -1;
  std::unique_ptr<EventLog> log;
  Harness service;
};

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

void WaitFor(const std::function<bool()>& done, int line = __builtin_LINE()) {
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (!done() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(2));
  EXPECT_TRUE(done()) << "waited for at line " << line;
}

TEST(ManyTenantsTest, NothingIsOpenedBeforeItsFirstCall) {
  ManyTenants many({});
  for (const char* name : {"a", "b", "c"}) many.Make(name);
  ASSERT_THAT(many.service->Forget({.tenant = "b",
                                    .memory = "m",
                                    .target = ForgetIds{{"b-1"}},
                                    .dry_run = false,
                                    .request_id = ""},
                                   {}),
              IsOk());
  const Page<TenantInfo> before = *many.service->ListTenants({});
  const std::string digest = many.DigestOf("b");
  const std::string answer = ManyTenants::Bits(*many.Ask("b"));
  const size_t opened = many.Opened().size();
  std::vector<std::string> stores;
  many.WhenOpened([&stores](const std::string& tenant) { stores.push_back(tenant); });
  many.service.Restart();

  const Page<TenantInfo> after = *many.service->ListTenants({});
  ASSERT_EQ(after.items.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    for (const TenantInfo& info :
         {after.items[i], *many.service->GetTenant(before.items[i].name)}) {
      EXPECT_EQ(info.name, before.items[i].name);
      EXPECT_EQ(info.create_time, before.items[i].create_time);
      EXPECT_EQ(info.log_origin, before.items[i].log_origin);
      EXPECT_EQ(info.verification_key, before.items[i].verification_key);
      EXPECT_EQ(info.certificate_count, i == 1 ? 2u : 0u);  // an erasure and its keys
      EXPECT_EQ(info.memory_count, 1u);
    }
  }
  EXPECT_THAT(stores, IsEmpty());
  EXPECT_EQ(many.service->OpenTenantCounts().open, 0u);

  EXPECT_EQ(many.DigestOf("b"), digest);
  EXPECT_EQ(ManyTenants::Bits(*many.Ask("b")), answer);
  EXPECT_THAT(stores, ElementsAre("b"));
  EXPECT_EQ(many.Opened().size(), opened + 1);
  EXPECT_EQ(many.service->OpenTenantCounts().open, 1u);
  EXPECT_THAT(many.service->GetMemory("nobody", "m"), HasCode(kNotFound));
}

TEST(ManyTenantsTest, TheOneUsedLongestAgoIsUnloadedAndComesBackTheSame) {
  ManyTenants many({.max_open = 2, .slow_unloading = absl::Hours(1)});
  for (const char* name : {"a", "b", "c"}) many.Make(name);
  EXPECT_THAT(many.Unloaded(), ElementsAre("tenant_unloaded a max-open-tenants"));
  const std::string b = many.DigestOf("b");
  const std::string answer = ManyTenants::Bits(*many.Ask("b"));
  // c was used before b.
  const std::string a = many.DigestOf("a");
  many.DigestOf("b");
  many.DigestOf("c");
  EXPECT_THAT(many.Unloaded(), ElementsAre("tenant_unloaded a max-open-tenants",
                                           "tenant_unloaded c max-open-tenants",
                                           "tenant_unloaded a max-open-tenants"));
  many.DigestOf("a");
  EXPECT_EQ(many.Unloaded().back(), "tenant_unloaded b max-open-tenants");
  EXPECT_EQ(many.service->OpenTenantCounts().open, 2u);
  EXPECT_EQ(many.DigestOf("b"), b);
  EXPECT_EQ(ManyTenants::Bits(*many.Ask("b")), answer);
  EXPECT_EQ(many.DigestOf("a"), a);
  // Listing what is not open says how it was closed, and opens nothing.
  const size_t opened = many.Opened().size();
  ASSERT_THAT(many.service->CreateMemory("c", "n", SmallConfig(), {}), IsOk());
  many.DigestOf("a");
  many.DigestOf("b");
  EXPECT_EQ(many.service->GetTenant("c")->memory_count, 2u);
  EXPECT_EQ(many.service->ListTenants({})->items[2].memory_count, 2u);
  EXPECT_EQ(many.Opened().size(), opened + 2);
}

// What is acknowledged survives any number of unloadings under way, and nothing is answered from a
// state that is not one of the memory's.
TEST(ManyTenantsTest, ReadersAndWritersMeetTenantsThatComeAndGo) {
  ManyTenants many({.max_open = 3, .patience = absl::Seconds(60)});
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f"};
  for (const std::string& name : names) many.Make(name, 4);
  constexpr int kThreads = 4;
  constexpr int kRounds = 60;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::vector<std::map<std::string, std::vector<std::string>>> kept(kThreads);
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done) {
      EXPECT_LE(many.service->OpenTenantCounts().open, 3u);
      EXPECT_EQ(many.service->ListTenants({})->items.size(), names.size());
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      auto& mine = kept[static_cast<size_t>(t)];
      for (int round = 0; round < kRounds; ++round) {
        const std::string& name = names[random() % names.size()];
        std::vector<std::string>& ids = mine[name];
        switch (random() % 4) {
          case 0: {
            const std::string id = absl::StrCat("t", t, "-", round);
            EXPECT_THAT(many.service->Insert(name, "m", {RandomToken(random, id)}, {}), IsOk());
            ids.push_back(id);
            break;
          }
          case 1: {
            if (ids.empty()) break;
            const auto reply = many.service->Forget({.tenant = name,
                                                     .memory = "m",
                                                     .target = ForgetIds{{ids.back()}},
                                                     .dry_run = false,
                                                     .request_id = ""},
                                                    {});
            EXPECT_THAT(reply, IsOk());
            EXPECT_EQ(reply.ok() ? reply->erased : 0, 1u);
            ids.pop_back();
            break;
          }
          default: {
            const auto reply = many.Ask(name);
            EXPECT_THAT(reply, IsOk());
            EXPECT_EQ(reply.ok() ? reply->phase : svdd::Phase::kEmpty, svdd::Phase::kActive);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  watcher.join();
  EXPECT_GT(many.Unloaded().size(), 20u);
  std::map<std::string, std::string> digests;
  for (const std::string& name : names) {
    digests[name] = many.DigestOf(name);
    uint64_t tokens = 4;
    for (const auto& mine : kept) {
      if (mine.contains(name)) tokens += mine.at(name).size();
    }
    EXPECT_EQ(Total(many.service->GetMemory(name, "m")->partition), tokens) << name;
    const auto verified = many.service->Verify(name, "m", {});
    ASSERT_THAT(verified, IsOk());
    EXPECT_TRUE(verified->bits_equal);
    // The log is one log, over all openings.
    TempDir folder;
    auto sink = audit::CreateFolderSink(folder.path() + "/out");
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT(many.service->Export(name, {}, **sink), IsOk());
    ASSERT_THAT((*sink)->Finish(), IsOk());
    audit::ExportExpectations expectations;
    expectations.keys.push_back(
        *audit::VerificationKey::Parse(many.service->GetTenant(name)->verification_key));
    const audit::ExportResult result = audit::VerifyExport(folder.path() + "/out", expectations);
    EXPECT_TRUE(result.ok()) << result.finding.message;
  }
  many.service.options().limits = {};
  many.service.Restart();
  for (const std::string& name : names) EXPECT_EQ(many.DigestOf(name), digests[name]);
}

TEST(ManyTenantsTest, ATenantInUseStays) {
  ManyTenants many(
      {.max_open = 2, .patience = absl::Milliseconds(500), .slow_unloading = absl::Hours(1)});
  for (const char* name : {"a", "b", "c"}) many.Make(name);
  {
    auto log_of_a = many.service->OpenLog("a");
    ASSERT_THAT(log_of_a, IsOk());
    for (int round = 0; round < 3; ++round) {
      EXPECT_THAT(many.Ask("b"), IsOk());
      EXPECT_THAT(many.Ask("c"), IsOk());
    }
    for (const std::string& line : many.Unloaded()) {
      if (line == "tenant_unloaded a max-open-tenants") continue;  // while the others were made
      EXPECT_THAT(line, testing::AnyOf("tenant_unloaded b max-open-tenants",
                                       "tenant_unloaded c max-open-tenants"));
    }
    const size_t opened = many.Opened().size();
    EXPECT_THAT(many.Ask("a"), IsOk());
    EXPECT_EQ(many.Opened().size(), opened) << "a was open all the while";
    {
      auto log_of_c = many.service->OpenLog("c");
      ASSERT_THAT(log_of_c, IsOk());
      // Both places are taken by what is in use: a clear refusal, and nothing is harmed.
      EXPECT_THAT(many.Ask("b"), Fails(kExhausted, "tenant"));
      EXPECT_THAT(many.service->CreateTenant("d", {}), HasCode(kExhausted));
      EXPECT_THAT(many.service->CreateTenant("d", {}), HasCode(kExhausted)) << "it was not made";
    }
    EXPECT_THAT(many.Ask("b"), IsOk());
  }
  // b was answered before the log of a was let go.
  EXPECT_THAT(many.Ask("c"), IsOk());
  EXPECT_EQ(many.Unloaded().back(), "tenant_unloaded b max-open-tenants");
  EXPECT_THAT(many.service->CreateTenant("d", {}), IsOk());
  EXPECT_EQ(many.Unloaded().back(), "tenant_unloaded a max-open-tenants");
}

TEST(ManyTenantsTest, ASlowOpeningDelaysNobodyElseAndIsShared) {
  ManyTenants many({.max_waiting_for_one = 4});
  for (const char* name : {"quick", "slow"}) many.Make(name);
  Door door;
  std::atomic<int> openings{0};
  many.WhenOpened([&](const std::string& tenant) {
    if (tenant != "slow") return;
    ++openings;
    door.WaitHere();
  });
  many.service.Restart();
  std::vector<std::thread> callers;
  std::atomic<int> answered{0};
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      EXPECT_THAT(many.Ask("slow"), IsOk());
      ++answered;
    });
  }
  door.WaitUntilSomebodyWaits();
  WaitFor([&] { return many.service->OpenTenantCounts().waiting == 3; });
  // Every line here would hang if it waited for the slow one.
  EXPECT_THAT(many.Ask("quick"), IsOk());
  EXPECT_THAT(many.service->Insert("quick", "m", Spiral(2, "x"), {}), IsOk());
  EXPECT_THAT(many.service->CreateTenant("new", {}), IsOk());
  EXPECT_THAT(many.service->DeleteTenant("new", {}), IsOk());
  EXPECT_THAT(many.service->GetTenant("slow"), IsOk());
  EXPECT_EQ(many.service->ListTenants({})->items.size(), 2u);
  // A caller that is gone stops waiting, a write as well; a deletion holds up no other.
  std::atomic<bool> gone{false};
  CallOptions call;
  call.still_wanted = [&] { return gone ? absl::CancelledError("gone") : absl::OkStatus(); };
  std::thread impatient([&] {
    EXPECT_THAT(many.service->DeleteTenant("slow", call), HasCode(absl::StatusCode::kCancelled));
  });
  WaitFor([&] { return many.service->OpenTenantCounts().waiting == 4; });
  EXPECT_THAT(many.Ask("slow"), Fails(kExhausted, "tenant")) << "four may wait for one";
  EXPECT_THAT(many.service->CreateTenant("new", {}), IsOk());
  gone = true;
  impatient.join();
  EXPECT_EQ(answered, 0);
  EXPECT_EQ(openings, 1);
  door.Open();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(openings, 1);
  EXPECT_EQ(many.service->OpenTenantCounts().waiting, 0u);
}

TEST(ManyTenantsTest, ASlowUnloadingDelaysOnlyItsOwnTenant) {
  ManyTenants many({.max_open = 3, .slow_unloading = absl::Milliseconds(20)});
  for (const char* name : {"a", "b", "c", "d"}) many.Make(name);
  Door door;
  many.service.options().tenant.wrap_store =
      [&](std::unique_ptr<store::TenantStore> inner) -> std::unique_ptr<store::TenantStore> {
    if (inner->GetTenant()->name != "a") return inner;
    auto hooks = std::make_shared<StoreHooks>();
    // The first one is made when it is opened.
    hooks->before = [&door, calls = 0](const std::string& operation) mutable {
      if (operation == "Checkpoint" && ++calls == 2) door.WaitHere();
      return absl::OkStatus();
    };
    return Hooked(std::move(inner), hooks);
  };
  many.service.Restart();
  const std::string digest = many.DigestOf("a");
  for (const char* name : {"b", "c", "d"}) EXPECT_THAT(many.Ask(name), IsOk());
  door.WaitUntilSomebodyWaits();
  EXPECT_THAT(many.Ask("b"), IsOk());
  EXPECT_THAT(many.Ask("c"), IsOk());
  EXPECT_LE(many.service->OpenTenantCounts().open, 3u);
  // Its own reload waits for the file.
  std::atomic<bool> answered{false};
  std::thread reload([&] {
    EXPECT_EQ(many.DigestOf("a"), digest);
    answered = true;
  });
  WaitFor([&] { return many.service->OpenTenantCounts().waiting == 1; });
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(answered);
  door.Open();
  reload.join();
}

TEST(ManyTenantsTest, QuarantineEndsWhenTheTenantIsWholeAgain) {
  ManyTenants many({.first_retry = absl::Hours(1)});
  for (const char* name : {"bad", "good"}) many.Make(name);
  many.service.Stop();
  const std::string file = many.service.data() + "/tenants/bad/tenant.db";
  const std::string kept = many.service.data() + "/kept.db";
  std::filesystem::copy_file(file, kept);
  // Not to be seen without opening it: the rows of tokens.
  Raw(many.service, "UPDATE tokens SET body = zeroblob(length(body))", "bad");
  many.service.Restart();
  EXPECT_THAT(many.Lines({"tenant_quarantined"}), IsEmpty());
  EXPECT_THAT(many.Ask("bad"), Fails(kUnavailable, "tenant"));
  EXPECT_THAT(many.Ask("bad"), Fails(kUnavailable, "tenant"));
  EXPECT_THAT(many.service->GetTenant("bad"), Fails(kUnavailable, "tenant"));
  EXPECT_THAT(many.service->DeleteTenant("bad", {}), Fails(kUnavailable, "tenant"));
  EXPECT_THAT(many.service->CreateTenant("bad", {}), Fails(kExists, "name"));
  EXPECT_THAT(many.Ask("good"), IsOk());
  EXPECT_EQ(many.service->ListTenants({})->items[0].name, "bad");
  EXPECT_EQ(many.service->ListTenants({})->items[0].log_origin, "");
  EXPECT_EQ(many.Lines({"tenant_quarantined"}).size(), 1u) << "tried once within the pause";

  many.service.options().limits = {.first_retry = absl::Milliseconds(20),
                                   .longest_retry = absl::Milliseconds(50)};
  many.service.Restart();
  std::vector<double> pauses;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THAT(many.Ask("bad"), Fails(kUnavailable, "tenant"));
    pauses.push_back(many.Numbers("tenant_quarantined", "retry_seconds").back());
    absl::SleepFor(absl::Milliseconds(60));
  }
  EXPECT_THAT(pauses, ElementsAre(0.02, 0.04, 0.05));
  std::filesystem::copy_file(kept, file, std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(many.Ask("bad"), IsOk());
  EXPECT_THAT(many.service->GetTenant("bad"), IsOk());
  EXPECT_EQ(many.Lines({"tenant_quarantined"}).size(), 4u);
  EXPECT_EQ(many.service->OpenTenantCounts().open, 1u);
}

TEST(ManyTenantsTest, AnOpeningThatThrowsLeavesNothingHalfOpen) {
  ManyTenants many({.first_retry = absl::Milliseconds(1)});
  many.Make("a");
  bool armed = true;
  many.WhenOpened([&armed](const std::string&) {
    if (std::exchange(armed, false)) throw std::bad_alloc();
  });
  many.service.Restart();
  EXPECT_THAT(many.Ask("a"), HasCode(kUnavailable));
  EXPECT_EQ(many.service->OpenTenantCounts().open, 0u);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_THAT(many.Ask("a"), IsOk());
}

TEST(ManyTenantsTest, DescriptorsAreBounded) {
  ManyTenants many({.max_open = 16, .slow_unloading = absl::Hours(1)});
  std::vector<std::string> names;
  std::vector<std::string> digests;
  for (int i = 0; i < 80; ++i) {
    names.push_back(absl::StrCat("n", i));
    many.Make(names.back());
    digests.push_back(many.DigestOf(names.back()));
  }
  many.service.Restart();
  const size_t unloaded = many.Unloaded().size();
  const size_t before = OpenDescriptors();
  EXPECT_EQ(many.service->OpenTenantCounts().open, 0u);
  size_t most = 0;
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done) most = std::max(most, OpenDescriptors());
  });
  std::vector<std::thread> callers;
  for (size_t t = 0; t < 2; ++t) {
    callers.emplace_back([&, t] {
      for (size_t i = t; i < names.size(); i += 2) EXPECT_EQ(many.DigestOf(names[i]), digests[i]);
    });
  }
  for (std::thread& caller : callers) caller.join();
  done = true;
  watcher.join();
  // The watcher has one of its own, and each of the two callers one more while it opens a tenant.
  EXPECT_LE(most, before + 16 * kDescriptorsPerTenant + 3);
  EXPECT_GT(most, before + 15);
  WaitFor([&] { return many.service->OpenTenantCounts().open <= 16; });
  EXPECT_EQ(many.Unloaded().size() - unloaded, 80u - 16u);
  many.service.Stop();
  EXPECT_LE(OpenDescriptors(), before) << "a stop closes every file";
}

TEST(ManyTenantsTest, MemoryIsBoundedAsFarAsTenantsAreIdle) {
  ManyTenants probe({});
  probe.Make("a", 40);
  const uint64_t one = probe.service->OpenTenantCounts().bytes;

  ManyTenants many({.max_bytes = 2 * one + one / 2,
                    .patience = absl::Seconds(1),
                    .slow_unloading = absl::Hours(1)});
  for (const char* name : {"a", "b", "c"}) many.Make(name, 40);
  WaitFor([&] { return many.service->OpenTenantCounts().open == 2; });
  EXPECT_EQ(many.Unloaded().front(), "tenant_unloaded a memory-limit");
  EXPECT_LE(many.service->OpenTenantCounts().bytes, 2 * one + one / 2);
  // A tenant that grows makes others go, at last all; it stays itself.
  many.DigestOf("b");
  for (int i = 0; many.service->OpenTenantCounts().bytes < 4 * one && i < 100; ++i) {
    ASSERT_THAT(many.service->Insert("c", "m", Spiral(200, absl::StrCat("round", i, "-")), {}),
                IsOk());
  }
  WaitFor([&] { return many.service->OpenTenantCounts().open == 1; });
  const size_t opened = many.Opened().size();
  many.DigestOf("c");
  EXPECT_EQ(many.Opened().size(), opened);
  // Larger than the limit, it is let in alone and leaves when somebody else comes.
  many.DigestOf("b");
  many.DigestOf("c");
  EXPECT_EQ(many.service->OpenTenantCounts().open, 1u);
  {
    auto held = many.service->OpenLog("c");
    EXPECT_THAT(many.Ask("b"), Fails(kExhausted, "tenant"));
  }
  EXPECT_THAT(many.Ask("b"), IsOk());
}

TEST(ManyTenantsTest, AnInterruptedDeletionIsFinishedAtStartAndNobodyIsOpened) {
  ManyTenants many({});
  for (const char* name : {"a", "gone", "z"}) many.Make(name);
  many.service.Stop();
  const std::string uid = RawText(many.service, "SELECT uid FROM tenant", "gone");
  const std::string obstacle = absl::StrCat(many.service.data(), "/closed/gone-", uid);
  std::filesystem::create_directory(obstacle);
  many.service.Restart();
  ASSERT_THAT(many.service->DeleteTenant("gone", {}), IsOk());
  EXPECT_THAT(many.Ask("gone"), HasCode(kNotFound));
  EXPECT_THAT(many.service->GetTenant("gone"), HasCode(kNotFound));
  std::filesystem::remove(obstacle);
  std::vector<std::string> stores;
  many.WhenOpened([&stores](const std::string& tenant) { stores.push_back(tenant); });
  many.service.Restart();
  EXPECT_THAT(stores, ElementsAre("gone"));
  EXPECT_TRUE(std::filesystem::exists(obstacle + "/tenant.db"));
  EXPECT_EQ(many.service->ListTenants({})->items.size(), 2u);
  EXPECT_EQ(many.service->OpenTenantCounts().open, 0u);
  EXPECT_THAT(many.service->CreateTenant("gone", {}), IsOk());
}

TEST(ManyTenantsTest, ADeletedTenantIsNotMistakenForItsNamesake) {
  ManyTenants many({.max_open = 1});
  many.Make("a");
  const std::string before = many.service->GetTenant("a")->log_origin;
  auto log = many.service->OpenLog("a");
  ASSERT_THAT(log, IsOk());
  ASSERT_THAT(many.service->DeleteTenant("a", {}), IsOk());
  EXPECT_THAT(many.service->DeleteTenant("a", {}), HasCode(kNotFound));
  // Its place is free though somebody still holds what was deleted.
  ASSERT_THAT(many.service->CreateTenant("a", {}), IsOk());
  EXPECT_NE(many.service->GetTenant("a")->log_origin, before);
  EXPECT_EQ(many.service->GetTenant("a")->memory_count, 0u);
  EXPECT_FALSE((*log)->Node(0, 0).ok());
  log = absl::UnknownError("");
  EXPECT_THAT(many.service->GetTenant("a"), IsOk());
  EXPECT_THAT(many.service->DeleteTenant("a", {}), IsOk());
}

TEST(ManyTenantsTest, ARotationReachesTenantsThatAreNotOpen) {
  for (const bool interrupted : {false, true}) {
    SCOPED_TRACE(interrupted);
    std::vector<std::string> stores;
    ManyTenants many({.max_open = 2});
    const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
    for (const std::string& name : names) many.Make(name);
    std::map<std::string, std::string> digests;
    for (const std::string& name : names) digests[name] = many.DigestOf(name);
    const size_t opened = many.Opened().size();
    if (interrupted) {
      many.service.options().rotation_fault = [left = 2](absl::string_view step) mutable {
        return step == "handed-over" && --left == 0 ? absl::AbortedError("a crash")
                                                    : absl::OkStatus();
      };
    }
    many.service.Restart();
    EXPECT_THAT(many.Ask("c"), IsOk());  // one is open
    const auto reply = many.service->RotateKey({});
    if (interrupted) {
      EXPECT_THAT(reply, HasCode(absl::StatusCode::kInternal));
      many.service.options().rotation_fault = {};
      many.WhenOpened([&stores](const std::string& tenant) { stores.push_back(tenant); });
      many.service.Restart();
      EXPECT_THAT(stores, ElementsAre("c", "d", "e")) << "two had it already";
      many.WhenOpened([](const std::string&) {});
    } else {
      ASSERT_THAT(reply, IsOk());
      EXPECT_TRUE(reply->complete);
      EXPECT_EQ(reply->handed_over, 5u);
    }
    EXPECT_EQ(many.Opened().size(), opened + 1) << "a hand-over solves nothing";
    EXPECT_FALSE(std::filesystem::exists(many.service.data() + "/keys/signing.next.pem"));
    for (const std::string& name : names) {
      const TenantInfo known = *many.service->GetTenant(name);
      EXPECT_EQ(known.certificate_count, 1u);
      EXPECT_EQ(known.memory_count, 1u);
      const auto checkpoint = many.service->GetCheckpoint(name);
      ASSERT_THAT(checkpoint, IsOk());
      ASSERT_EQ(checkpoint->keys.size(), 2u);
      EXPECT_EQ(checkpoint->keys[1].vkey, known.verification_key);
      EXPECT_EQ(many.DigestOf(name), digests[name]);
    }
  }
}

}  // namespace
}  // namespace lethe::service
