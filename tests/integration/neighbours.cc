// neighbours LETHED FOLDER [TOKENS [SEED]]: what the queries of one tenant feel while another one
// forgets, through a server of its own; run by hand (tests/show/erasure.sh).
//
// Tenant `busy` has memories of 3 TOKENS tokens (TOKENS: 10,000), of which one subject has every
// third. Tenant `calm` is asked, by one client without a pause, in turns of equal length: while
// nothing else happens, and while `busy` forgets that subject. Prints one `name=value` line a
// figure: queries counted in each part, p50 and p99 in microseconds over all turns, the ratio of
// the p99 (the median of those of the turns, least and largest beside it, since whatever else runs
// on the machine disturbs some), tokens forgotten and the seconds that took. Exits 0 when it
// measured, 1 when something failed.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "tests/integration/measure.h"
#include "tests/integration/server_process.h"

namespace lethe::tests {
namespace {

using client::Client;
using client::MemoryName;
using client::Token;

constexpr size_t kTurns = 15;
constexpr uint32_t kDimension = 16;
constexpr size_t kCalmTokens = 3000;
constexpr size_t kBatch = 5000;

void Fill(Client& client, const MemoryName& name, size_t tokens, uint64_t seed) {
  Must(client.CreateMemory(name, {.kernel = client::Kernel::Rbf(0.5 / kDimension),
                                  .capacity = 60,
                                  .key_dimension = kDimension,
                                  .value_dimension = kDimension}),
       "create memory");
  std::mt19937_64 random(seed);
  std::vector<Token> batch;
  for (size_t i = 0; i < tokens; ++i) {
    batch.push_back({.id = absl::StrCat("t", i),
                     .key = NormalNumbers(random, kDimension),
                     .value = NormalNumbers(random, kDimension),
                     .subject = i % 3 == 1 ? "leaving" : absl::StrCat("s", i / 30)});
    if (batch.size() < kBatch && i + 1 < tokens) continue;
    Must(client.Insert(name, batch), "insert");
    batch.clear();
  }
}

// Asks until told to stop; microseconds of each query.
std::vector<double> Ask(Client& client,
                        const MemoryName& name,
                        std::mt19937_64& random,
                        const std::atomic<bool>& stop) {
  std::vector<double> microseconds;
  while (!stop.load()) {
    const std::vector<double> query = NormalNumbers(random, kDimension);
    const absl::Time begin = absl::Now();
    Must(client.Query(name, query), "query");
    microseconds.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
  }
  return microseconds;
}

int Run(const std::string& lethed, const std::string& folder, size_t tokens, uint64_t seed) {
  ServerProcess server(lethed, folder);
  Must(server.Start(), "start");
  Client client = server.Connect();
  for (const char* tenant : {"calm", "busy"}) Must(client.CreateTenant(tenant), "create tenant");
  const MemoryName calm{"calm", "visits"};
  Fill(client, calm, kCalmTokens, seed);
  for (size_t turn = 0; turn < kTurns; ++turn) {
    Fill(client, {"busy", absl::StrCat("m", turn)}, 3 * tokens, seed + 1 + turn);
  }

  std::mt19937_64 random(seed);
  std::vector<double> quiet;
  std::vector<double> busy;
  std::vector<double> ratios;
  double seconds = 0.0;
  uint64_t erased = 0;
  const auto add = [](std::vector<double>& all, const std::vector<double>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  const auto ask_while = [&](std::vector<double>& all, const auto& doing) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
      doing();
      stop.store(true);
    });
    add(all, Ask(client, calm, random, stop));
    other.join();
  };
  std::vector<double> first;  // connections and caches are new
  ask_while(first, [] { absl::SleepFor(absl::Seconds(1)); });
  for (size_t turn = 0; turn < kTurns; ++turn) {
    std::vector<double> with;
    std::vector<double> without;
    absl::Duration length;
    ask_while(with, [&] {
      Client eraser = server.Connect();
      const absl::Time begin = absl::Now();
      erased +=
          Must(eraser.Forget({.name = {"busy", absl::StrCat("m", turn)}, .subject = "leaving"}),
               "forget")
              .erased;
      length = absl::Now() - begin;
    });
    seconds += absl::ToDoubleSeconds(length);
    ask_while(without, [&] { absl::SleepFor(std::max(length, absl::Seconds(1))); });
    ratios.push_back(Quantile(with, 0.99) / Quantile(without, 0.99));
    add(busy, with);
    add(quiet, without);
  }
  Must(server.Stop(), "stop");

  std::printf("quiet_queries=%zu\nbusy_queries=%zu\n", quiet.size(), busy.size());
  std::printf("quiet_p50_us=%.0f\nbusy_p50_us=%.0f\n", Quantile(quiet, 0.5), Quantile(busy, 0.5));
  std::printf("quiet_p99_us=%.0f\nbusy_p99_us=%.0f\n", Quantile(quiet, 0.99), Quantile(busy, 0.99));
  std::printf("ratio_p99=%.2f\nleast_ratio=%.2f\nlargest_ratio=%.2f\n", Quantile(ratios, 0.5),
              Quantile(ratios, 0.0), Quantile(ratios, 1.0));
  std::printf("forgotten=%llu\nforget_seconds=%.2f\n", static_cast<unsigned long long>(erased),
              seconds);
  return 0;
}

}  // namespace
}  // namespace lethe::tests

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "neighbours LETHED FOLDER [TOKENS [SEED]]\n");
    return 2;
  }
  const size_t tokens = argc > 3 ? std::stoul(argv[3]) : 10000;
  return lethe::tests::Run(argv[1], argv[2], tokens, argc > 4 ? std::stoull(argv[4]) : 1);
}
