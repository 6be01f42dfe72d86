// many_tenants FOLDER [TENANTS [TOKENS [DIMENSION [MAX_OPEN]]]]: figures of a server with many
// tenants, run by hand (docs/adr/0034, tests/show/erasure.sh). Makes TENANTS (2,000) of TOKENS
// (300) each in FOLDER unless it is there, then starts a service over them and prints, a
// `name=value` line a figure, the time to start, the first and second query of each tenant in
// random order with all of them open, queries of random tenants under the limit MAX_OPEN (200),
// what the process takes, what the estimate says, and whether digests are the same after unloading.
// A process a part, so that each begins empty.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/service/service.h"

namespace lethe::service {
namespace {

constexpr size_t kThreads = 4;
constexpr size_t kBatch = 10'000;

struct Plan {
  std::string folder;
  size_t tenants = 2000;
  size_t tokens = 300;
  uint32_t dimension = 16;
  size_t max_open = 200;
};

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "many_tenants: %s\n", result.status().ToString().c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (!status.ok()) Must(absl::StatusOr<int>(status));
}

std::string NameOf(size_t tenant) { return absl::StrCat("tenant-", tenant); }

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

uint64_t Resident() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

class Server {
 public:
  Server(const Plan& plan, const RegistryLimits& limits) {
    ServiceOptions options;
    options.data = plan.folder;
    options.origin = "many.test";
    options.tenant.log = &log_;
    options.limits = limits;
    service_ = Must(Service::Open(options));
  }
  Service* operator->() { return service_.get(); }

 private:
  program::EventLog log_{-1, program::LogLevel::kError};
  std::unique_ptr<Service> service_;
};

std::vector<double> RandomKey(std::mt19937_64& random, uint32_t dimension) {
  std::normal_distribution<double> normal;
  std::vector<double> key(dimension);
  for (double& number : key) number = normal(random);
  return key;
}

void MakeTenant(Server& server, const Plan& plan, size_t tenant) {
  const std::string name = NameOf(tenant);
  std::mt19937_64 random(tenant);
  Must(server->CreateTenant(name, {}));
  MemoryConfig config;
  config.kernel = kernel::Kernel{kernel::KernelKind::kRbf, 0.5 / plan.dimension};
  config.capacity = std::max(2.0, static_cast<double>(plan.tokens) / 20);
  config.key_dimension = plan.dimension;
  config.value_dimension = 8;
  Must(server->CreateMemory(name, "m", config, {}));
  for (size_t from = 0; from < plan.tokens; from += kBatch) {
    std::vector<TokenInput> batch(std::min(kBatch, plan.tokens - from));
    for (size_t i = 0; i < batch.size(); ++i) {
      batch[i].id = absl::StrCat("token-", from + i);
      batch[i].subject = absl::StrCat("subject-", (from + i) % 50);
      batch[i].key = RandomKey(random, plan.dimension);
      batch[i].value = RandomKey(random, 8);
    }
    Must(server->Insert(name, "m", std::move(batch), {}));
  }
  ForgetInput forget;
  forget.tenant = name;
  forget.memory = std::string("m");
  forget.target = ForgetSubject{"subject-7"};
  Must(server->Forget(forget, {}));
}

void Make(const Plan& plan) {
  const absl::Time begin = absl::Now();
  Server server(plan, {.max_open = plan.max_open});
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < plan.tenants; i += kThreads) MakeTenant(server, plan, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("made_in_seconds=%.1f\n", absl::ToDoubleSeconds(absl::Now() - begin));
  Must(server->Checkpoint());
}

// Asks the tenants in this order from several threads; milliseconds of each query.
std::vector<double> AskAll(Server& server, const Plan& plan, const std::vector<size_t>& order) {
  std::vector<double> milliseconds(order.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (size_t i = t; i < order.size(); i += kThreads) {
        QueryInput input;
        input.tenant = NameOf(order[i]);
        input.memory = std::string("m");
        input.queries = {RandomKey(random, plan.dimension)};
        const absl::Time begin = absl::Now();
        Must(server->Query(input, {}));
        milliseconds[i] = absl::ToDoubleMilliseconds(absl::Now() - begin);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return milliseconds;
}

void Print(const std::string& what, std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto at = [&](double share) {
    return milliseconds[static_cast<size_t>(share * static_cast<double>(milliseconds.size() - 1))];
  };
  std::printf("%s_p50_ms=%.3f\n%s_p99_ms=%.3f\n", what.c_str(), at(0.5), what.c_str(), at(0.99));
}

void PrintSizes(const std::string& what, Server& server) {
  const TenantRegistry::Counts counts = server->OpenTenantCounts();
  std::printf("%s_open=%zu\n%s_resident_mib=%.0f\n%s_estimated_mib=%.0f\n", what.c_str(),
              counts.open, what.c_str(), MiB(Resident()), what.c_str(), MiB(counts.bytes));
}

std::vector<std::string> Digests(Server& server, const std::vector<size_t>& tenants) {
  std::vector<std::string> digests;
  for (size_t tenant : tenants) {
    digests.push_back(Must(server->Describe(NameOf(tenant), "m", false, {})).state_digest);
  }
  return digests;
}

void All(const Plan& plan) {
  const absl::Time begin = absl::Now();
  Server server(plan, {.max_open = plan.tenants, .max_bytes = uint64_t{64} << 30});
  std::printf("start_seconds=%.3f\n", absl::ToDoubleSeconds(absl::Now() - begin));
  std::vector<size_t> order(plan.tenants);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  Print("first_query", AskAll(server, plan, order));
  PrintSizes("all", server);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
  Print("second_query", AskAll(server, plan, order));
}

// The first tenants' digests before and after others have taken their places.
void Limited(const Plan& plan) {
  Server server(plan, {.max_open = plan.max_open});
  std::vector<size_t> first(std::min<size_t>(plan.tenants, 20));
  for (size_t i = 0; i < first.size(); ++i) first[i] = i;
  const std::vector<std::string> before = Digests(server, first);
  std::vector<size_t> order(plan.tenants);
  std::mt19937_64 random(3);
  for (size_t& tenant : order) tenant = random() % plan.tenants;
  Print("limited_query", AskAll(server, plan, order));
  PrintSizes("limited", server);
  const std::vector<std::string> after = Digests(server, first);
  size_t equal = 0;
  for (size_t i = 0; i < first.size(); ++i) equal += static_cast<size_t>(before[i] == after[i]);
  std::printf("equal_digests=%zu/%zu\n", equal, first.size());
}

void InProcess(const std::function<void()>& part) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    part();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) std::exit(1);
}

}  // namespace
}  // namespace lethe::service

int main(int argc, char** argv) {
  using namespace lethe::service;
  if (argc < 2 || argc > 6) {
    std::fprintf(stderr, "many_tenants FOLDER [TENANTS [TOKENS [DIMENSION [MAX_OPEN]]]]\n");
    return 2;
  }
  Plan plan;
  plan.folder = argv[1];
  if (argc > 2) plan.tenants = std::stoul(argv[2]);
  if (argc > 3) plan.tokens = std::stoul(argv[3]);
  if (argc > 4) plan.dimension = static_cast<uint32_t>(std::stoul(argv[4]));
  if (argc > 5) plan.max_open = std::stoul(argv[5]);
  if (!std::filesystem::exists(plan.folder)) InProcess([&] { Make(plan); });
  InProcess([&] { All(plan); });
  InProcess([&] { Limited(plan); });
  return 0;
}
