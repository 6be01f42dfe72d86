// A change that nobody waits for any more when its turn comes is not begun.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

using Change = std::function<absl::Status(Service&, const CallOptions&)>;

const std::vector<std::pair<const char*, Change>>& Changes() {
  static const auto* changes = new std::vector<std::pair<const char*, Change>>{
      {"Insert",
       [](Service& service, const CallOptions& call) {
         return service.Insert("t", "m", Spiral(2, "late"), call).status();
       }},
      {"Forget",
       [](Service& service, const CallOptions& call) {
         return service.Forget(ForgetOf("m", {"a1"}), call).status();
       }},
      {"Evict",
       [](Service& service, const CallOptions& call) {
         return service.Evict(EvictOf("m", 1), call).status();
       }},
      {"Edit",
       [](Service& service, const CallOptions& call) {
         return service.Edit(EditOf("m", {MakeToken("a1", 0.5, 0.25)}), call).status();
       }},
      {"Verify", [](Service& service,
                    const CallOptions& call) { return service.Verify("t", "m", call).status(); }},
      {"Describe with a refit",
       [](Service& service, const CallOptions& call) {
         return service.Describe("t", "m", true, call).status();
       }},
      {"CreateMemory",
       [](Service& service, const CallOptions& call) {
         return service.CreateMemory("t", "late", SmallConfig(), call).status();
       }},
      {"DeleteMemory",
       [](Service& service, const CallOptions& call) {
         return service.DeleteMemory("t", "m", call).status();
       }},
      {"RewrapKeys",
       [](Service& service, const CallOptions& call) {
         return service.RewrapKeys("t", call).status();
       }},
      {"DeleteTenant",
       [](Service& service, const CallOptions& call) {
         return service.DeleteTenant("t", call).status();
       }},
  };
  return *changes;
}

TEST(DeadlineTest, AChangeWhoseCallerLeftWhileItWaitedIsNotBegun) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  for (const auto& entry : Changes()) {
    const auto& [name, change] = entry;
    SCOPED_TRACE(name);
    Door door;
    std::atomic<bool> first{true};
    service.hooks().before = [&](const std::string& operation) {
      if (operation == "InsertTokens" && first.exchange(false)) door.WaitHere();
      return absl::OkStatus();
    };
    const std::string id = std::string("w") + name[0] + name[1];
    std::thread writer([&] { service.Insert("m", {MakeToken(id, 3.0, 3.0)}); });
    door.WaitUntilSomebodyWaits();
    std::atomic<bool> left{false};
    const CallOptions call{.still_wanted = [&] {
      return left ? absl::CancelledError("the caller is gone") : absl::OkStatus();
    }};
    absl::Status status;
    std::thread waiting([&] { status = entry.second(*service, call); });
    while (service->Stats(0).writes < 2) absl::SleepFor(absl::Milliseconds(1));
    left = true;
    door.Open();
    writer.join();
    waiting.join();
    EXPECT_THAT(status, HasCode(absl::StatusCode::kCancelled));
    service.hooks().before = nullptr;
    EXPECT_EQ(service.Forget("m", {id}).erased, 1u) << "the change before it was made";
    EXPECT_EQ(Tokens(service, "m"), 8u);
    EXPECT_EQ(service->GetTenant("t")->memory_count, 1u);
  }
  // One certificate for each of our own erasures and one about its keys: nothing else was done.
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 2 * Changes().size());
}

// Solving can take longer than its caller waits: it is asked once more before anything is stored.
TEST(DeadlineTest, AChangeWhoseCallerLeftWhileItWasSolvedIsNotStored) {
  Harness service;
  bool solved = false;
  service.options().tenant.update_fault = [&solved] {
    solved = true;
    return absl::OkStatus();
  };
  service.Restart();
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  const std::string digest = service.Digest("m");
  const CallOptions call{.still_wanted = [&solved] {
    return solved ? absl::CancelledError("the caller is gone") : absl::OkStatus();
  }};
  for (const auto& [name, change] : Changes()) {
    const std::string what = name;
    if (what != "Insert" && what != "Forget" && what != "Evict" && what != "Edit" &&
        what != "DeleteMemory") {
      continue;
    }
    SCOPED_TRACE(name);
    ASSERT_EQ(service.Forget("m", {"nobody"}).erased, 0u);  // loads the state again
    solved = false;
    EXPECT_THAT(change(*service, call), HasCode(absl::StatusCode::kCancelled));
    EXPECT_TRUE(solved);
    EXPECT_EQ(service.Digest("m"), digest);
  }
  service.Restart();
  EXPECT_EQ(service.Digest("m"), digest);
  EXPECT_EQ(Tokens(service, "m"), 8u);
  EXPECT_EQ(service->GetTenant("t")->certificate_count, 0u);
}

// A batch is appended in parts, and its caller leaves after the first of them.
TEST(DeadlineTest, AnInsertThatTakesLongEndsBetweenItsParts) {
  Harness service;
  int parts = 0;
  service.options().tenant.update_fault = [&parts] {
    ++parts;
    return absl::OkStatus();
  };
  service.Restart();
  service.MakeMemory("m", 5);
  const CallOptions call{.still_wanted = [&parts] {
    return parts > 0 ? absl::CancelledError("the caller is gone") : absl::OkStatus();
  }};
  EXPECT_THAT(service->Insert("t", "m", Spiral(300), call).status(),
              HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(parts, 1);
  EXPECT_EQ(Tokens(service, "m"), 0u);
  parts = 0;
  service.Insert("m", Spiral(300));
  EXPECT_EQ(parts, 2);
  const std::string digest = service.Digest("m");
  service.Restart();
  EXPECT_EQ(service.Digest("m"), digest) << "the parts change no bit";
}

}  // namespace
}  // namespace lethe::service
