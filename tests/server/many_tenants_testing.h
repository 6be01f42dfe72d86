// What the tests of many tenants in one server share.
#ifndef LETHE_TESTS_SERVER_MANY_TENANTS_TESTING_H_
#define LETHE_TESTS_SERVER_MANY_TENANTS_TESTING_H_

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/server/service_testing.h"

namespace lethe::service {

// A harness without tenants whose log can be read, and whose stores know their tenant's name.
struct ManyTenants {
  explicit ManyTenants(RegistryLimits limits) : service(/*with_tenant=*/false) {
    log_fd = ::open(log_path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log = std::make_unique<program::EventLog>(log_fd, program::LogLevel::kDebug);
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
  std::unique_ptr<program::EventLog> log;
  Harness service;
};

inline void WaitFor(const std::function<bool()>& done, int line = __builtin_LINE()) {
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (!done() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(2));
  EXPECT_TRUE(done()) << "waited for at line " << line;
}

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_MANY_TENANTS_TESTING_H_
