// Many tenants in one server: opened on demand, unloaded beyond the limits, the same afterwards.
#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/export.h"
#include "audit/export_sinks.h"
#include "audit/verify_export.h"
#include "tests/server/log_testing.h"
#include "tests/server/many_tenants_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

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

TEST(ManyTenantsTest, AMakingThatThrowsIsAQuarantineAndSaysNothing) {
  ManyTenants many({.first_retry = absl::Milliseconds(1)});
  bool armed = true;
  many.WhenOpened([&armed](const std::string&) {
    if (std::exchange(armed, false)) throw std::runtime_error("/a/path");
  });
  many.service.Restart();
  const auto made = many.service->CreateTenant("a", {});
  EXPECT_THAT(made, Fails(kUnavailable, "name"));
  EXPECT_EQ(std::string(made.status().message()).find("/a/path"), std::string::npos);
  EXPECT_EQ(many.Lines({"tenant_quarantined"}).size(), 1u);
  EXPECT_EQ(many.service->OpenTenantCounts().open, 0u);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_THAT(many.service->CreateMemory("a", "m", SmallConfig(), {}), IsOk());
}

// What a start can see of a vault without its keys: that it is not the tenant's, or that the data
// is not as new as it.
TEST(ManyTenantsTest, AWrongVaultOrAnOlderFileIsNamedAtStart) {
  namespace fs = std::filesystem;
  ManyTenants many({});
  for (const char* name : {"a", "b"}) many.Make(name);
  many.service.Stop();
  const std::string uid = RawText(many.service, "SELECT uid FROM tenant", "a");
  const std::string vault = many.service.data() + "/vault/" + uid;
  const std::string file = many.service.data() + "/tenants/a/tenant.db";
  const std::string kept = many.log_folder.path() + "/kept";
  const auto forget = [&](const char* id) {
    ForgetInput input = ForgetOf("m", {id});
    input.tenant = "a";
    ASSERT_THAT(many.service->Forget(input, {}), IsOk());
  };
  size_t lines = 0;
  const auto expect_named = [&](const char* what, const std::function<void()>& damage,
                                const std::function<void()>& mend) {
    SCOPED_TRACE(what);
    many.service.Stop();
    damage();
    many.service.Restart();
    ASSERT_EQ(many.Lines({"tenant_quarantined"}).size(), ++lines) << "at the start";
    EXPECT_EQ(many.Lines({"tenant_quarantined"}).back(), "tenant_quarantined a");
    EXPECT_THAT(many.Ask("b"), IsOk());
    many.service.Stop();
    mend();
    many.service.Restart();
    EXPECT_THAT(many.Ask("a"), IsOk());
    EXPECT_EQ(many.Lines({"tenant_quarantined"}).size(), lines);
  };
  const auto away = [&](const std::string& path) {
    return std::pair{[path, &kept] { fs::rename(path, kept); },
                     [path, &kept] {
                       fs::remove_all(path);
                       fs::rename(kept, path);
                     }};
  };
  for (const std::string& path : {vault, vault + "/anchor.db", vault + "/keys.db"}) {
    const auto [damage, mend] = away(path);
    expect_named(path.c_str(), damage, mend);
  }
  // Of the same length, with another last certificate; and one that is shorter.
  const std::string older = many.log_folder.path() + "/older";
  const std::string present = many.log_folder.path() + "/present";
  many.service.Stop();
  fs::copy_file(file, older);
  many.service.Restart();
  forget("a-1");
  many.service.Stop();
  fs::copy_file(file, present);
  const auto put = [&file](const std::string& from) {
    fs::copy_file(from, file, fs::copy_options::overwrite_existing);
  };
  expect_named(
      "older", [&] { put(older); }, [&] { put(present); });
  expect_named(
      "another's leaf",
      [&] {
        Raw(many.service,
            "UPDATE certificates SET leaf_hash = zeroblob(32)"
            " WHERE sequence = (SELECT max(sequence) FROM certificates)",
            "a");
      },
      [&] { put(present); });
  // Without any vault the server does not start, and makes none.
  many.service.Stop();
  const auto [damage, mend] = away(many.service.data() + "/vault");
  damage();
  const auto refused = Service::Open(many.service.options());
  EXPECT_THAT(refused, HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(fs::exists(many.service.data() + "/vault"));
  mend();
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

}  // namespace
}  // namespace lethe::service
