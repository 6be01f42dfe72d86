// server_load LETHED FOLDER [SECONDS [CLIENTS [SEED]]]: what a server of its own does under a load
// of queries, inserts and erasures; run by hand (tests/show/server.sh).
//
// CLIENTS (64) clients, each with a connection and a thread of its own, work SECONDS (60) on eight
// memories of two tenants: of ten calls about six are queries, three insert a batch of ten tokens
// of a new subject, one forgets the oldest subject that the client still has, so that the number of
// tokens settles. Nothing is retried: every call that is not OK counts as an error. Then everything
// that was acknowledged is looked for: what was inserted and not forgotten is there, token by
// token; what was forgotten is not; the memories' counts are the sum. The server's resident memory
// is read once a second.
//
// Before that, one client asks the idle server in turn for its health and for one query, so that
// both feel the same machine.
//
// Prints one `name=value` line a figure; exits 0 when it measured, 1 when something could not be
// done.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/client.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/integration/measure.h"
#include "tests/integration/server_process.h"

namespace lethe::tests {
namespace {

using client::Client;
using client::MemoryName;
using client::Token;

constexpr uint32_t kDimension = 16;
constexpr size_t kMemories = 8;
constexpr size_t kStanding = 2000;    // tokens of a memory that nobody forgets
constexpr size_t kBatch = 10;         // tokens of an insert
constexpr size_t kSubjectsKept = 20;  // of a client; then it forgets before it inserts
constexpr size_t kLatencyCalls = 5000;

MemoryName Memory(size_t index) {
  return {absl::StrCat("load-", index % 2), absl::StrCat("m", index)};
}

std::vector<Token> Batch(std::mt19937_64& random,
                         const std::string& subject,
                         size_t count,
                         size_t first) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < count; ++i) {
    tokens.push_back({.id = absl::StrCat(subject, "-", first + i),
                      .key = NormalNumbers(random, kDimension),
                      .value = NormalNumbers(random, kDimension),
                      .subject = subject});
  }
  return tokens;
}

// --- Latency

// An empty call to the health service, through a channel as the client makes it.
class HealthCaller {
 public:
  explicit HealthCaller(const std::string& address)
      : stub_(client::MakeChannel({.address = address}, status_)) {}

  bool Check() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const grpc::Slice empty("");
    const grpc::ByteBuffer request(&empty, 1);
    const auto call =
        stub_.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok && status.ok();
  }

 private:
  absl::Status status_;
  grpc::GenericStub stub_;
};

void MeasureLatency(const ServerProcess& server, uint64_t seed) {
  Client client = server.Connect({.max_attempts = 1});
  HealthCaller health(server.address());
  std::mt19937_64 random(seed);
  std::vector<double> of_health;
  std::vector<double> of_query;
  for (size_t i = 0; i < kLatencyCalls + kLatencyCalls / 10; ++i) {
    absl::Time begin = absl::Now();
    if (!health.Check()) Must(absl::UnavailableError("refused"), "health");
    const double health_us = absl::ToDoubleMicroseconds(absl::Now() - begin);
    const std::vector<double> query = NormalNumbers(random, kDimension);
    begin = absl::Now();
    Must(client.Query(Memory(0), query), "query");
    const double query_us = absl::ToDoubleMicroseconds(absl::Now() - begin);
    if (i < kLatencyCalls / 10) continue;  // connections and caches are new
    of_health.push_back(health_us);
    of_query.push_back(query_us);
  }
  const double health_p50 = Quantile(of_health, 0.5);
  const double query_p50 = Quantile(of_query, 0.5);
  std::printf("latency_calls=%zu\nhealth_p50_us=%.0f\nquery_p50_us=%.0f\np50_ratio=%.2f\n",
              of_query.size(), health_p50, query_p50, query_p50 / health_p50);
  std::printf("health_p99_us=%.0f\nquery_p99_us=%.0f\n", Quantile(of_health, 0.99),
              Quantile(of_query, 0.99));
}

// --- Load

// One client's work, and what the server told it.
class Worker {
 public:
  Worker(const ServerProcess& server, size_t index, uint64_t seed)
      : client_(server.Connect({.max_attempts = 1})),
        name_(Memory(index % kMemories)),
        prefix_(absl::StrCat("c", index, "-")),
        random_(seed + 1 + index) {}

  void Run(absl::Time end) {
    while (absl::Now() < end) {
      const uint64_t choice = random_() % 10;
      const absl::Time begin = absl::Now();
      if (choice < 6) {
        Query();
        query_us.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
      } else if (choice < 9 && subjects_.size() < kSubjectsKept) {
        Insert();
        insert_us.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
      } else if (!subjects_.empty()) {
        Forget();
        forget_us.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
      }
    }
  }

  // Acknowledged tokens that are not there, and forgotten ones that are.
  uint64_t CountWrong() {
    uint64_t wrong = 0;
    for (const std::string& subject : subjects_) {
      std::vector<std::string> ids;
      for (size_t i = 0; i < kBatch; ++i) ids.push_back(absl::StrCat(subject, "-", i));
      const auto found =
          Must(client_.Forget({.name = name_, .ids = ids, .dry_run = true}), "look for tokens");
      wrong += kBatch - found.matched;
    }
    for (const std::string& subject : forgotten_) {
      wrong += Must(client_.Forget({.name = name_, .subject = subject, .dry_run = true}),
                    "look for a forgotten subject")
                   .matched;
    }
    return wrong;
  }

  const MemoryName& name() const { return name_; }
  uint64_t tokens() const { return subjects_.size() * kBatch; }
  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t forgotten() const { return forgotten_.size(); }
  const std::map<std::string, uint64_t>& errors() const { return errors_; }

  std::vector<double> query_us;
  std::vector<double> insert_us;
  std::vector<double> forget_us;

 private:
  void Count(const absl::Status& status) { ++errors_[absl::StatusCodeToString(status.code())]; }

  void Query() {
    const auto answer = client_.Query(name_, NormalNumbers(random_, kDimension));
    if (!answer.ok()) Count(answer.status());
  }
  void Insert() {
    const std::string subject = absl::StrCat(prefix_, next_++);
    const auto result = client_.Insert(name_, Batch(random_, subject, kBatch, 0));
    if (!result.ok()) return Count(result.status());
    if (result->inserted != kBatch) return Count(absl::DataLossError(""));
    acknowledged_ += kBatch;
    subjects_.push_back(subject);
  }
  void Forget() {
    const std::string subject = subjects_.front();
    const auto result = client_.Forget({.name = name_, .subject = subject});
    if (!result.ok()) return Count(result.status());
    if (result->erased != kBatch) Count(absl::DataLossError(""));
    subjects_.pop_front();
    forgotten_.push_back(subject);
  }

  Client client_;
  const MemoryName name_;
  const std::string prefix_;
  std::mt19937_64 random_;
  uint64_t next_ = 0;
  uint64_t acknowledged_ = 0;
  std::deque<std::string> subjects_;
  std::vector<std::string> forgotten_;
  std::map<std::string, uint64_t> errors_;
};

double ResidentMib(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) / 1048576.0;
}

void PrintLatency(const char* name, const std::vector<double>& sample) {
  if (sample.empty()) return;
  std::printf("%s_calls=%zu\n%s_load_p50_us=%.0f\n%s_load_p99_us=%.0f\n", name, sample.size(), name,
              Quantile(sample, 0.5), name, Quantile(sample, 0.99));
}

void MeasureLoad(const ServerProcess& server, size_t seconds, size_t clients, uint64_t seed) {
  std::deque<Worker> workers;
  for (size_t i = 0; i < clients; ++i) workers.emplace_back(server, i, seed);
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  std::vector<std::thread> threads;
  threads.reserve(clients);
  for (Worker& worker : workers) threads.emplace_back([&worker, end] { worker.Run(end); });
  std::vector<double> resident;
  while (absl::Now() < end) {
    absl::SleepFor(absl::Seconds(1));
    resident.push_back(ResidentMib(server.pid()));
  }
  for (std::thread& thread : threads) thread.join();

  std::map<std::string, uint64_t> errors;
  std::map<std::string, uint64_t> expected;  // tokens of each memory
  for (size_t i = 0; i < kMemories; ++i) expected[Memory(i).memory] = kStanding;
  std::vector<double> queries;
  std::vector<double> inserts;
  std::vector<double> forgets;
  uint64_t wrong = 0;
  uint64_t acknowledged = 0;
  uint64_t forgotten = 0;
  const auto add = [](std::vector<double>& all, const std::vector<double>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for (Worker& worker : workers) {
    for (const auto& [code, count] : worker.errors()) errors[code] += count;
    wrong += worker.CountWrong();
    expected[worker.name().memory] += worker.tokens();
    acknowledged += worker.acknowledged();
    forgotten += worker.forgotten();
    add(queries, worker.query_us);
    add(inserts, worker.insert_us);
    add(forgets, worker.forget_us);
  }
  Client client = server.Connect();
  uint64_t miscounted = 0;
  for (size_t i = 0; i < kMemories; ++i) {
    const client::Partition sets = Must(client.GetMemory(Memory(i)), "count").partition;
    if (sets.margin + sets.error + sets.reserve != expected[Memory(i).memory]) ++miscounted;
  }
  uint64_t failed = 0;
  for (const auto& [code, count] : errors) {
    failed += count;
    std::fprintf(stderr, "server_load: %s: %llu\n", code.c_str(),
                 static_cast<unsigned long long>(count));
  }
  std::printf("clients=%zu\nseconds=%zu\nerrors=%llu\n", clients, seconds,
              static_cast<unsigned long long>(failed));
  std::printf("acknowledged_tokens=%llu\nforgotten_subjects=%llu\nlost=%llu\n",
              static_cast<unsigned long long>(acknowledged),
              static_cast<unsigned long long>(forgotten), static_cast<unsigned long long>(wrong));
  std::printf("memories_miscounted=%llu\n", static_cast<unsigned long long>(miscounted));
  PrintLatency("query", queries);
  PrintLatency("insert", inserts);
  PrintLatency("forget", forgets);
  // Connections and caches fill in the first third; the last is held against the second.
  const size_t third = resident.size() / 3;
  const auto largest = [&](size_t from, size_t to) {
    return *std::max_element(resident.begin() + static_cast<ptrdiff_t>(from),
                             resident.begin() + static_cast<ptrdiff_t>(to));
  };
  if (third == 0) return;
  const double middle = largest(third, 2 * third);
  const double late = largest(2 * third, resident.size());
  std::printf("resident_middle_mib=%.1f\nresident_late_mib=%.1f\nresident_ratio=%.3f\n", middle,
              late, late / middle);
}

int Run(const std::string& lethed,
        const std::string& folder,
        size_t seconds,
        size_t clients,
        uint64_t seed) {
  ServerProcess server(lethed, folder);
  Must(server.Start(), "start");
  Client client = server.Connect();
  for (size_t i = 0; i < 2; ++i) {
    Must(client.CreateTenant(absl::StrCat("load-", i)), "create tenant");
  }
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < kMemories; ++i) {
    Must(client.CreateMemory(Memory(i), {.kernel = client::Kernel::Rbf(0.5 / kDimension),
                                         .capacity = 40,
                                         .key_dimension = kDimension,
                                         .value_dimension = kDimension}),
         "create memory");
    Must(client.Insert(Memory(i), Batch(random, "standing", kStanding, 0)), "insert");
  }
  std::printf("seed=%llu\n", static_cast<unsigned long long>(seed));
  MeasureLatency(server, seed);
  MeasureLoad(server, seconds, clients, seed);
  Must(server.Stop(), "stop");
  return 0;
}

}  // namespace
}  // namespace lethe::tests

int main(int argc, char** argv) {
  if (argc < 3 || argc > 6) {
    std::fprintf(stderr, "server_load LETHED FOLDER [SECONDS [CLIENTS [SEED]]]\n");
    return 2;
  }
  const size_t seconds = argc > 3 ? std::stoul(argv[3]) : 60;
  const size_t clients = argc > 4 ? std::stoul(argv[4]) : 64;
  return lethe::tests::Run(argv[1], argv[2], seconds, clients, argc > 5 ? std::stoull(argv[5]) : 1);
}
