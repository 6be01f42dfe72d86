// Readers and writers at once. Runs under ThreadSanitizer: no gRPC here.
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/service/service.h"
#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

TEST(ConcurrencyTest, ReadersDoNotWaitForAWriterInsideItsCommit) {
  for (const std::string operation : {"InsertTokens", "EraseTokens"}) {
    SCOPED_TRACE(operation);
    Harness service;
    service.MakeMemory("m");
    service.Insert("m", Spiral(10));
    const std::string before = service.Digest("m");
    Door door;
    service.hooks().before = [&](const std::string& called) {
      if (called == operation) door.WaitHere();
      return absl::OkStatus();
    };
    std::thread writer([&] {
      if (operation == "InsertTokens") {
        EXPECT_THAT(service->Insert("t", "m", Spiral(3, "b"), {}), IsOk());
      } else {
        EXPECT_THAT(service->Forget(ForgetOf("m", {"a1"}), {}), IsOk());
      }
    });
    door.WaitUntilSomebodyWaits();
    // The writer cannot go on before the door opens, so that every line below would hang if it
    // waited for the writer.
    const QueryInput query{.tenant = "t", .memory = "m", .queries = {{0, 0}}, .top_tokens = 1};
    EXPECT_THAT(service->Query(query, {}), IsOk());
    EXPECT_EQ(service.Digest("m"), before);  // what is not durable is not seen
    EXPECT_THAT(service->GetMemory("t", "m"), IsOk());
    EXPECT_THAT(service->ListMemories("t", {}), IsOk());
    EXPECT_THAT(service->GetTenant("t"), IsOk());
    EXPECT_THAT(service->ListTenants({}), IsOk());
    door.Open();
    writer.join();
    EXPECT_NE(service.Digest("m"), before);  // what was acknowledged is seen
  }
}

TEST(ConcurrencyTest, NobodyWaitsForATenantThatIsBeingClosed) {
  Harness service;
  ASSERT_THAT(service->CreateTenant("other", {}), IsOk());
  service.MakeMemory("m");
  service.Insert("m", Spiral(4));
  Door door;
  service.hooks().before = [&](const std::string& called) {
    if (called == "BeginClose") door.WaitHere();
    return absl::OkStatus();
  };
  std::thread closer([&] { EXPECT_THAT(service->DeleteTenant("t", {}), IsOk()); });
  door.WaitUntilSomebodyWaits();
  // These would hang if they waited for the store of "t".
  EXPECT_THAT(service->ListTenants({}), IsOk());
  EXPECT_THAT(service->GetTenant("t"), IsOk());
  EXPECT_THAT(service->GetMemory("t", "m"), IsOk());
  EXPECT_THAT(service->GetTenant("other"), IsOk());
  door.Open();
  closer.join();
}

TEST(ConcurrencyTest, WaitingWritersAreBounded) {
  Harness service;
  service.options().max_waiting_writes = 2;
  service.Restart();
  service.MakeMemory("m");
  Door door;
  service.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  std::vector<std::thread> writers;
  std::atomic<int> refused{0};
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const auto reply = service->Insert("t", "m", Spiral(1, absl::StrCat("w", i)), {});
      if (reply.ok()) {
        ++done;
      } else {
        EXPECT_THAT(reply, HasCode(absl::StatusCode::kResourceExhausted));
        ++refused;
      }
    });
  }
  // Two hold tickets, one of them at the door; the others come back at once.
  while (refused.load() < 2) std::this_thread::yield();
  door.Open();
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(refused.load(), 2);
  EXPECT_EQ(done.load(), 2);
}

// One tenant's writer is slow, and everything that waits for it comes from its callers.
TEST(ConcurrencyTest, ATenantThatIsSlowKeepsNobodyElsesErasuresOut) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(3));
  ASSERT_THAT(service->CreateTenant("b", {}), IsOk());
  ASSERT_THAT(service->CreateMemory("b", "m", SmallConfig(), {}), IsOk());
  ASSERT_THAT(service->Insert("b", "m", Spiral(3), {}), IsOk());
  Door door;
  std::atomic<bool> first{true};
  service.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens" && first.exchange(false)) door.WaitHere();
    return absl::OkStatus();
  };
  constexpr int kCalls = 256;
  std::atomic<int> refused{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < kCalls; ++i) {
    writers.emplace_back([&, i] {
      const auto reply = service->Insert("t", "m", {MakeToken(absl::StrCat("w", i), i, 0.5)}, {});
      if (reply.ok()) return;
      EXPECT_THAT(reply, HasCode(absl::StatusCode::kResourceExhausted));
      ++refused;
    });
  }
  while (refused + service->Stats(0).writes < kCalls) std::this_thread::yield();
  EXPECT_EQ(refused, kCalls - 64);
  std::atomic<bool> own_done{false};
  std::thread own([&] {
    EXPECT_THAT(service->Forget(ForgetOf("m", {"a0"}), {}), IsOk())
        << "the tenant's own erasures have places too";
    own_done = true;
  });
  ForgetInput forget = ForgetOf("m", {"a0"});
  forget.tenant = std::string("b");
  EXPECT_THAT(service->Forget(forget, {}), IsOk());
  EXPECT_THAT(service->ListCertificates("b", "", {}), IsOk());
  const auto asked = service->CreateErasureRequest(
      {.tenant = "b", .identities = {{.type = "", .value = "somebody"}}}, {});
  ASSERT_THAT(asked, IsOk());
  service->RunDueErasures();
  EXPECT_EQ(service->GetErasureRequest("b", asked->id)->state, ErasureState::kCompleted);
  EXPECT_FALSE(own_done);
  door.Open();
  own.join();
  for (std::thread& writer : writers) writer.join();
}

TEST(WriteTicketTest, PlacesAreKeptForErasuresAndTheServerItself) {
  using Use = WriteTickets::Use;
  WriteTickets tickets(16, 8);
  std::vector<WriteTicket> taken;
  const auto take = [&](Use use, const std::string& tenant) {
    auto ticket = tickets.Take(use, tenant);
    if (!ticket.ok()) return false;
    taken.push_back(*std::move(ticket));
    return true;
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(take(Use::kCall, "a"));
  EXPECT_FALSE(take(Use::kCall, "a")) << "of one tenant";
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(take(Use::kCall, absl::StrCat("b", i)));
  EXPECT_FALSE(take(Use::kCall, "c")) << "the rest is for erasures";
  EXPECT_TRUE(take(Use::kErasure, "a"));
  EXPECT_TRUE(take(Use::kErasure, "c"));
  EXPECT_FALSE(take(Use::kErasure, "c"));
  EXPECT_TRUE(take(Use::kOwn, "c"));
  EXPECT_EQ(tickets.taken(), 17);
  taken.clear();
  EXPECT_EQ(tickets.taken(), 0);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(take(Use::kErasure, "a"));
  EXPECT_FALSE(take(Use::kErasure, "a"));
  EXPECT_FALSE(take(Use::kCall, "a"));
}

TEST(ConcurrencyTest, EveryReaderSeesOneWholeState) {
  Harness service;
  service.MakeMemory("m", 4);
  service.Insert("m", Spiral(10));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&] {
      const QueryInput query{
          .tenant = "t", .memory = "m", .queries = {{0, 0}, {0, 0}, {1, 1}}, .top_tokens = 1000};
      while (!stop.load()) {
        const auto reply = service->Query(query, {});
        ASSERT_THAT(reply, IsOk());
        // One state answers all queries of a request, and its weights sum to one.
        EXPECT_EQ(reply->results[0].readout, reply->results[1].readout);
        double weight = 0.0;
        for (const QueryToken& token : reply->results[0].tokens) weight += token.weight;
        EXPECT_NEAR(weight, 1.0, 1e-12);
        EXPECT_EQ(reply->results[0].tokens.size(),
                  reply->partition.margin + reply->partition.error);
        ASSERT_THAT(service->Describe("t", "m", false, {}), IsOk());
        ASSERT_THAT(service->ListMemories("t", {}), IsOk());
      }
    });
  }
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < 15; ++i) {
        const std::string prefix = absl::StrCat("w", w, "x", i, "y");
        ASSERT_THAT(service->Insert("t", "m", Spiral(2, prefix), {}), IsOk());
        // Read your own write.
        const auto seen = service->Forget(ForgetOf("m", {prefix + "0"}), {});
        ASSERT_THAT(seen, IsOk());
        EXPECT_EQ(seen->erased, 1u);
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 8; ++i) {
      const std::string name = absl::StrCat("other", i);
      ASSERT_THAT(service->CreateMemory("t", name, SmallConfig(), {}), IsOk());
      ASSERT_THAT(service->Insert("t", name, Spiral(3), {}), IsOk());
      ASSERT_THAT(service->DeleteMemory("t", name, {}), IsOk());
      ASSERT_THAT(service->Describe("t", "m", true, {}), IsOk());
    }
  });
  for (size_t i = 3; i < threads.size(); ++i) threads[i].join();
  stop.store(true);
  for (size_t i = 0; i < 3; ++i) threads[i].join();
  const auto partition = service->GetMemory("t", "m")->partition;
  EXPECT_EQ(partition.margin + partition.error + partition.reserve, 10u + 30u);
  EXPECT_EQ(ErasureLog(service).size(), 30u + 8u);
  const std::string digest = service.Digest("m");
  service.Restart();
  EXPECT_EQ(service.Digest("m"), digest);
}

TEST(ConcurrencyTest, ClosingATenantWhileItIsUsed) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(10));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      const QueryInput query{.tenant = "t", .memory = "m", .queries = {{0, 0}}, .top_tokens = 0};
      for (int i = 0; !stop.load(); ++i) {
        const absl::Status status =
            r == 0 ? service->Insert("t", "m", Spiral(1, absl::StrCat("n", i)), {}).status()
                   : service->Query(query, {}).status();
        if (!status.ok()) {
          EXPECT_THAT(status, HasCode(kNotFound));
        }
      }
    });
  }
  EXPECT_THAT(service->DeleteTenant("t", {}), IsOk());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(service->GetTenant("t"), HasCode(kNotFound));
}

}  // namespace
}  // namespace lethe::service
