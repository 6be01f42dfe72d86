// Streams visits in, asks many questions without waiting for each, forgets a patient and checks
// that the answer changed. The address of the server is the only argument.
#include <cmath>
#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"

namespace {

using namespace lethe::client;

// Says what failed; the exit status.
int Report(const char* what, const absl::Status& status) {
  std::cerr << what << ": " << status << "\n";
  return 1;
}

int Run(const std::string& address) {
  // Reads that are slow are asked twice; what is forgotten can be repeated after a lost connection.
  const Options options = {
      .address = address, .hedge_after = absl::Milliseconds(200), .make_request_ids = true};
  Client client(MakeConnection(options));
  const MemoryName visits{"example", "visits"};

  const absl::StatusOr<Tenant> tenant = client.CreateTenant(visits.tenant);
  if (!tenant.ok() && !absl::IsAlreadyExists(tenant.status())) {
    return Report("tenant", tenant.status());
  }
  const MemoryConfig config{
      .kernel = Kernel::Rbf(0.5), .capacity = 10, .key_dimension = 2, .value_dimension = 1};
  if (const auto memory = client.CreateMemory(visits, config); !memory.ok()) {
    return Report("memory", memory.status());
  }

  // A stream with bounded memory. OK from Close means durable.
  const std::unique_ptr<InsertWriter> writer = client.WriteTokens(visits);
  for (int i = 0; i < 200; ++i) {
    const double x = 0.02 * i;
    const absl::Status written = writer->Write({.id = "visit-" + std::to_string(i),
                                                .key = {std::cos(x), std::sin(x)},
                                                .value = {x},
                                                .subject = "patient-" + std::to_string(i / 10)});
    if (!written.ok()) return Report("insert", written);
  }
  const absl::StatusOr<InsertSummary> inserted = writer->Close();
  if (!inserted.ok()) return Report("insert", inserted.status());
  std::cout << "inserted " << inserted->totals.inserted << "\n";

  // Two at a time, without waiting for either; with a limit of their own.
  const Client impatient = client.With({.deadline = absl::Seconds(5)});
  AsyncClient async(impatient, {.threads = 2});
  const auto ask = [&](double x) {
    return async.Run([&visits, x](Client& c) {
      return c.Query(visits, {std::cos(x), std::sin(x)});
    });
  };
  std::future<absl::StatusOr<QueryAnswer>> first = ask(0.1);
  std::future<absl::StatusOr<QueryAnswer>> second = ask(3.1);
  for (std::future<absl::StatusOr<QueryAnswer>>* answer : {&first, &second}) {
    const absl::StatusOr<QueryAnswer> said = answer->get();
    if (!said.ok()) return Report("query", said.status());
    std::cout << "answer " << said->readout[0] << "\n";
  }

  // Many in a stream, in order.
  int asked = 0;
  int answered = 0;
  const absl::Status streamed = client.QueryStreamed(
      [&]() -> std::optional<QueryRequest> {
        if (asked == 50) return std::nullopt;
        const double x = 0.08 * asked++;
        return QueryRequest{.name = visits, .queries = {{std::cos(x), std::sin(x)}}};
      },
      [&](const QueryResult& result) {
        answered += static_cast<int>(result.answers.size());
        return absl::OkStatus();
      });
  if (!streamed.ok()) return Report("query stream", streamed);
  std::cout << "streamed " << answered << "\n";

  const absl::StatusOr<ForgetResult> forgotten =
      client.Forget({.name = visits, .subject = "patient-7"});
  if (!forgotten.ok()) return Report("forget", forgotten.status());
  std::cout << "erased " << forgotten->erased << ", certificate " << forgotten->certificate_id
            << "\n";

  for (const absl::StatusOr<Memory>& memory : client.ListMemories(visits.tenant)) {
    if (!memory.ok()) return Report("list", memory.status());
    std::cout << "memory " << memory->name.memory << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Run(argc > 1 ? argv[1] : "127.0.0.1:7421"); }
