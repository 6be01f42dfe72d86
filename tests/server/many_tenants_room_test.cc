// Many tenants in one server: who waits for room, who makes it, and who is never held up.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/server/many_tenants_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kExhausted = absl::StatusCode::kResourceExhausted;

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
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

TEST(ManyTenantsTest, AnUnloadingThatThrowsUnloads) {
  ManyTenants many({.max_open = 1});
  many.Make("a");
  many.Make("b");
  auto hooks = std::make_shared<StoreHooks>();
  many.service.options().tenant.wrap_store = [&](std::unique_ptr<store::TenantStore> inner) {
    return inner->GetTenant()->name == "a" ? Hooked(std::move(inner), hooks) : std::move(inner);
  };
  many.service.Restart();
  const std::string digest = many.DigestOf("a");
  hooks->before = [](const std::string& operation) -> absl::Status {
    if (operation == "Checkpoint") throw std::bad_alloc();
    return absl::OkStatus();
  };
  many.DigestOf("b");
  EXPECT_EQ(many.Numbers("tenant_unloaded", "log_emptied").back(), 0);
  hooks->before = {};
  EXPECT_EQ(many.DigestOf("a"), digest);
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
    // In use it stays, and locks nobody out: others come in over the limit, one at a time.
    auto held = many.service->OpenLog("c");
    for (const char* name : {"a", "b", "a"}) EXPECT_THAT(many.Ask(name), IsOk());
    WaitFor([&] { return many.service->OpenTenantCounts().open == 2; });
    const size_t before = many.Opened().size();
    for (int i = 0; i < 3; ++i) EXPECT_THAT(many.Ask("a"), IsOk());
    EXPECT_EQ(many.Opened().size(), before) << "nothing else needs the room";
    EXPECT_THAT(many.service->CreateTenant("d", {}), IsOk());
  }
  WaitFor([&] { return many.service->OpenTenantCounts().open == 1; });
  // Nor is it solved again at each call while somebody else is in use.
  auto held = many.service->OpenLog("b");
  many.DigestOf("c");
  const size_t before = many.Opened().size();
  for (int i = 0; i < 3; ++i) many.DigestOf("c");
  EXPECT_EQ(many.Opened().size(), before);
}

// "All in use" is said only where it is so: not while room is being made, and not by a call that
// has waited for something else.
TEST(ManyTenantsTest, RoomThatIsBeingMadeIsWaitedFor) {
  ManyTenants many(
      {.max_open = 2, .patience = absl::Milliseconds(100), .slow_unloading = absl::Hours(1)});
  for (const char* name : {"a", "b", "c"}) many.Make(name);
  Door door;
  many.service.options().tenant.wrap_store =
      [&](std::unique_ptr<store::TenantStore> inner) -> std::unique_ptr<store::TenantStore> {
    if (inner->GetTenant()->name != "a") return inner;
    auto hooks = std::make_shared<StoreHooks>();
    hooks->before = [&door, calls = 0](const std::string& operation) mutable {
      if (operation == "Checkpoint" && ++calls == 2) door.WaitHere();
      return absl::OkStatus();
    };
    return Hooked(std::move(inner), hooks);
  };
  many.service.Restart();
  many.DigestOf("a");
  many.DigestOf("b");
  std::thread other([&] { EXPECT_THAT(many.Ask("c"), IsOk()); });
  door.WaitUntilSomebodyWaits();  // a is being unloaded for c
  std::thread own([&] { EXPECT_THAT(many.Ask("a"), IsOk()); });
  WaitFor([&] { return many.service->OpenTenantCounts().waiting == 2; });
  absl::SleepFor(absl::Milliseconds(250));
  door.Open();
  other.join();
  own.join();
  EXPECT_EQ(many.service->OpenTenantCounts().waiting, 0u);
}

TEST(ManyTenantsTest, WhoWaitsForTheDirectoryHoldsNoTenant) {
  ManyTenants many({.max_open = 1, .patience = absl::Milliseconds(300)});
  for (const char* name : {"a", "b"}) many.Make(name);
  Door door;
  many.service.options().rotation_fault = [&door](absl::string_view step) {
    if (step == "begun") door.WaitHere();
    return absl::OkStatus();
  };
  many.service.Restart();
  std::thread rotation([&] {
    const auto reply = many.service->RotateKey({});
    EXPECT_THAT(reply, IsOk());
    EXPECT_TRUE(reply.ok() && reply->complete);
  });
  door.WaitUntilSomebodyWaits();
  std::thread deletion([&] { EXPECT_THAT(many.service->DeleteTenant("a", {}), IsOk()); });
  WaitFor([&] { return many.Opened().size() == 1; });
  absl::SleepFor(absl::Milliseconds(50));
  door.Open();
  rotation.join();
  deletion.join();
}

TEST(ManyTenantsTest, ARotationWaitsForRoomOnceAndForNobody) {
  ManyTenants many({.max_open = 1, .patience = absl::Seconds(1)});
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f"};
  for (const std::string& name : names) many.Make(name, 2);
  {
    auto held = many.service->OpenLog("c");
    ASSERT_THAT(held, IsOk());
    const absl::Time begin = absl::Now();
    CallOptions call;
    call.still_wanted = [begin] {
      return absl::Now() - begin > absl::Milliseconds(100) ? absl::CancelledError("gone")
                                                           : absl::OkStatus();
    };
    EXPECT_THAT(many.service->RotateKey(call), HasCode(absl::StatusCode::kCancelled));
    EXPECT_LT(absl::Now() - begin, absl::Milliseconds(900));
    const absl::Time again = absl::Now();
    const auto reply = many.service->RotateKey({});
    ASSERT_THAT(reply, IsOk());
    EXPECT_THAT(reply->pending, ElementsAre("a", "b", "d", "e", "f"));
    EXPECT_EQ(reply->handed_over, 1u) << "what is open needs no room";
    EXPECT_LT(absl::Now() - again, absl::Seconds(3)) << "one wait, not five";
  }
  const auto reply = many.service->RotateKey({});
  ASSERT_THAT(reply, IsOk());
  EXPECT_TRUE(reply->complete);
  EXPECT_EQ(reply->handed_over, 5u);
}

TEST(ManyTenantsTest, WhoNeedsTheMemoriesGoesBeforeThoseWhoReadTheLog) {
  constexpr auto kLog = TenantRegistry::Depth::kLog;
  ManyTenants many({});
  many.Make("a");
  const std::string digest = many.DigestOf("a");
  many.service.Restart();
  std::atomic<bool> answered{false};
  std::thread asking;
  {
    auto log = many.service->OpenLog("a", kLog);
    ASSERT_THAT(log, IsOk());
    EXPECT_THAT(many.service->OpenLog("a", kLog), IsOk());  // beside one another
    asking = std::thread([&] {
      EXPECT_EQ(many.DigestOf("a"), digest);
      answered = true;
    });
    WaitFor([&] { return many.service->OpenTenantCounts().waiting == 1; });
    absl::SleepFor(absl::Milliseconds(50));
    EXPECT_FALSE(answered);
    EXPECT_EQ(many.service->GetTenant("a")->memory_count, 1u);
    EXPECT_EQ(many.service->ListTenants({})->items[0].memory_count, 1u);
  }
  asking.join();
  EXPECT_THAT(many.service->OpenLog("a", kLog), IsOk());
  EXPECT_EQ(many.DigestOf("a"), digest);
  EXPECT_EQ(many.Unloaded(), std::vector<std::string>{"tenant_unloaded a memories-wanted"});
  EXPECT_EQ(many.Lines({"tenant_log_opened"}).size(), 1u);
  EXPECT_EQ(many.service->OpenTenantCounts().open, 1u);
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
