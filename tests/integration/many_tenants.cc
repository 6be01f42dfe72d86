// many_tenants FOLDER [TENANTS [TOKENS [DIMENSION [MAX_OPEN]]]]: figures of a server with many
// tenants, run by hand (docs/adr/0033). Makes TENANTS (2,000) of TOKENS (300) each in FOLDER where
// they are missing, then starts a service over them and prints the time to start, the first query
// of each tenant in random order, queries of random tenants under the limit MAX_OPEN (200), what
// the process takes and what the estimate says. A process a part, so that each begins empty.
#include <malloc.h>
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
#include "store/schema.h"
#include "store/sqlite.h"

namespace lethe::service {
namespace {

constexpr size_t kSeeds = 8;  // different tenants; the others are copies of them
constexpr size_t kThreads = 4;

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

std::string FolderOf(const Plan& plan, size_t tenant) {
  return absl::StrCat(plan.folder, "/tenants/", NameOf(tenant));
}

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
  EventLog log_{-1, LogLevel::kError};
  std::unique_ptr<Service> service_;
};

std::vector<double> RandomKey(std::mt19937_64& random, uint32_t dimension) {
  std::normal_distribution<double> normal;
  std::vector<double> key(dimension);
  for (double& number : key) number = normal(random);
  return key;
}

void Make(const Plan& plan) {
  {
    Server server(plan, {});
    for (size_t seed = 0; seed < kSeeds; ++seed) {
      std::mt19937_64 random(seed);
      Must(server->CreateTenant(NameOf(seed), {}));
      MemoryConfig config;
      config.kernel = kernel::Kernel{kernel::KernelKind::kRbf, 0.5 / plan.dimension};
      config.capacity = std::max(2.0, static_cast<double>(plan.tokens) / 20);
      config.key_dimension = plan.dimension;
      config.value_dimension = 8;
      Must(server->CreateMemory(NameOf(seed), "m", config, {}));
      std::vector<TokenInput> tokens(plan.tokens);
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i].id = absl::StrCat("token-", i);
        tokens[i].subject = absl::StrCat("subject-", i % 50);
        tokens[i].key = RandomKey(random, plan.dimension);
        tokens[i].value = RandomKey(random, 8);
      }
      for (size_t at = 0; at < tokens.size(); at += 10000) {
        const auto begin = tokens.begin() + static_cast<ptrdiff_t>(at);
        const auto end =
            tokens.begin() + static_cast<ptrdiff_t>(std::min(tokens.size(), at + 10000));
        Must(server->Insert(NameOf(seed), "m", std::vector<TokenInput>(begin, end), {}));
      }
      ForgetInput forget;
      forget.tenant = NameOf(seed);
      forget.memory = "m";
      forget.target = ForgetSubject{"subject-7"};
      Must(server->Forget(forget, {}));
    }
  }
  for (size_t tenant = kSeeds; tenant < plan.tenants; ++tenant) {
    const std::string copy = FolderOf(plan, tenant);
    std::filesystem::copy(FolderOf(plan, tenant % kSeeds), copy);
    const auto database = Must(store::Database::Open(
        absl::StrCat(copy, "/tenant.db"), store::Database::Mode::kOpen, store::kTenantIdentity));
    Must(database->Execute(absl::StrCat("UPDATE tenant SET name = '", NameOf(tenant), "'")));
  }
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
  std::printf("%-34s p50 %8.3f ms   p99 %8.3f ms   max %8.3f ms\n", what.c_str(), at(0.5), at(0.99),
              at(1.0));
}

void PrintSizes(Server& server) {
  const TenantRegistry::Counts counts = server->OpenTenantCounts();
  std::printf("%-34s %zu open, resident %.0f MiB, in use by malloc %.0f MiB, estimated %.0f MiB\n",
              "", counts.open, MiB(Resident()), MiB(mallinfo2().uordblks), MiB(counts.bytes));
}

void All(const Plan& plan) {
  const absl::Time begin = absl::Now();
  Server server(plan, {.max_open = plan.tenants, .max_bytes = uint64_t{64} << 30});
  std::printf("%-34s %.3f s for %zu tenants, resident %.0f MiB\n", "start",
              absl::ToDoubleSeconds(absl::Now() - begin), plan.tenants, MiB(Resident()));
  std::vector<size_t> order(plan.tenants);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  Print("first query of each tenant", AskAll(server, plan, order));
  PrintSizes(server);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
  Print("second query, all open", AskAll(server, plan, order));
}

void Limited(const Plan& plan) {
  Server server(plan, {.max_open = plan.max_open});
  std::vector<size_t> order(plan.tenants);
  std::mt19937_64 random(3);
  for (size_t& tenant : order) tenant = random() % plan.tenants;
  Print(absl::StrCat("random tenants, ", plan.max_open, " open at most"),
        AskAll(server, plan, order));
  PrintSizes(server);
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
