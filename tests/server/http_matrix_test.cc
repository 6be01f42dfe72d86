// Every route of HTTP, by every role, for a tenant of its own, for one of others and for one that
// does not exist: what the table of methods says is what happens.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/bearer_token.h"
#include "server/access/file_policy.h"
#include "server/access/gate.h"
#include "server/access/methods.h"
#include "server/http/http_server.h"
#include "tests/server/http_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using access::Method;
using access::Role;
using access::Scope;

// How a call ended, without what is of this one call.
struct Ending {
  int status = 0;
  std::string type;
  std::string body;

  bool Refused() const { return status == 401 || status == 403; }
  friend bool operator==(const Ending&, const Ending&) = default;
};
std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  return out << ending.status << " " << ending.body;
}

class HttpMatrixTest : public testing::Test {
 protected:
  HttpMatrixTest() {
    for (const Role role : access::kRoles) {
      for (const char* tenant : {"t", "*"}) {
        const std::string grant = absl::StrCat(tenant, ":", std::string(access::RoleName(role)));
        tokens_[grant] = audit::NewBearerToken();
        EXPECT_TRUE(policy_
                        ->AddToken(audit::DigestOfToken(tokens_[grant]),
                                   {.name = grant, .grants = {*access::ParseGrant(grant)}})
                        .ok());
      }
    }
    tokens_["nobody"] = audit::NewBearerToken();  // that no file has
    const TestCertificate key("lethe.example");
    key.WriteKey(folder_.path() + "/key.pem");
    key.WriteCertificate(folder_.path() + "/certificate.pem");
  }
  void Serve(bool public_logs) {
    server_.reset();
    auto channel = ErasureChannel::Open({.dsr_domain = "lethe.example",
                                         .dsr_key = folder_.path() + "/key.pem",
                                         .dsr_certificate = folder_.path() + "/certificate.pem"});
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
    auto server = HttpServer::Start(&*service_, {.host = "127.0.0.1", .public_logs = public_logs},
                                    *channel_, {.gate = &gate_}, nullptr);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // What an earlier call may have deleted.
  void EnsureTenants() {
    for (const char* name : {"t", "foreign"}) {
      if (service_->GetTenant(name).ok()) continue;
      ASSERT_TRUE(service_->CreateTenant(name, {}).ok());
    }
    if (!service_->GetMemory("t", "m").ok()) service_.MakeMemory("m");
  }

  static std::string PathOf(const Route& route, const std::string& tenant) {
    const bool by_public_id = absl::StartsWith(route.pattern, "/v1/erasure-requests/");
    const bool dsr = absl::StrContains(route.pattern, "_requests/{id}");
    const std::string hex(32, '0');
    std::string path = absl::StrReplaceAll(
        route.pattern, {{"{tenant}", tenant},
                        {"{memory}", "m"},
                        {"{name}", absl::StrContains(route.pattern, "/memories/") ? "m" : tenant},
                        {"{tile...}", "0/000"},
                        {"{id}", dsr            ? "a7551968-d5d6-44b2-9831-815ac9017798"
                                 : by_public_id ? absl::StrCat(tenant, ".", hex)
                                                : hex}});
    for (const std::string& name : route.schemas.query) {
      if (name == "tenant") absl::StrAppend(&path, "?tenant=", tenant);
    }
    return path;
  }
  Ending Call(const Route& route, const std::string& tenant, const std::string& grant) {
    std::vector<std::string> headers;
    std::string body;
    if (!grant.empty()) headers.push_back("Authorization: Bearer " + tokens_.at(grant));
    if (route.max_body_bytes > 0) {
      headers.emplace_back("Content-Type: application/json");
      body = route.pattern == "/v1/erasure-requests" ? absl::StrCat(R"({"tenant":")", tenant, "\"}")
                                                     : "{}";
    }
    const Page page = Fetch(server_->port(), route.method, PathOf(route, tenant), headers, body);
    const auto type = page.headers.find("content-type");
    return {page.status, type == page.headers.end() ? "" : type->second, page.body};
  }
  void WalkEveryRoute() {
    int calls = 0;
    int admitted = 0;
    for (const Route& route : server_->routes().routes()) {
      SCOPED_TRACE(absl::StrCat(route.method, " ", route.pattern));
      const Method* method = access::FindMethod(route.operation);
      ASSERT_NE(method, nullptr);
      if (method->scope == Scope::kOpen) {
        for (const char* grant : {"", "nobody", "t:app"}) {
          EXPECT_FALSE(Call(route, "t", grant).Refused());
        }
        continue;
      }
      std::map<std::string, Ending> refusals;  // by grant
      std::map<std::string, Ending> absences;
      for (const std::string tenant : {"t", "foreign", "absent"}) {
        SCOPED_TRACE(tenant);
        for (const char* grant : {"", "nobody"}) {
          EXPECT_EQ(Call(route, tenant, grant).status, 401);
          ++calls;
        }
        for (const Role role : access::kRoles) {
          for (const bool everywhere : {false, true}) {
            const std::string grant =
                absl::StrCat(everywhere ? "*" : "t", ":", std::string(access::RoleName(role)));
            SCOPED_TRACE(grant);
            EnsureTenants();
            const Ending ending = Call(route, tenant, grant);
            ++calls;
            const bool knows = everywhere || tenant == "t";
            if (!method->roles.Has(role) || (method->scope == Scope::kServer && !everywhere)) {
              EXPECT_EQ(ending.status, 403) << ending;
              EXPECT_EQ(refusals.try_emplace(grant, ending).first->second, ending)
                  << "the same for every tenant, there or not";
            } else if (method->scope == Scope::kTenant && !knows) {
              // Byte for byte what is said of one that does not exist.
              EXPECT_EQ(ending.status, 404) << ending;
              EXPECT_EQ(absences.try_emplace(grant, ending).first->second, ending);
            } else {
              EXPECT_FALSE(ending.Refused()) << ending;
              ++admitted;
            }
          }
        }
      }
    }
    EXPECT_GT(calls, 1'000);
    EXPECT_GT(admitted, 150);
  }

  service::Harness service_;
  service::TempDir folder_;
  std::map<std::string, std::string> tokens_;  // by grant
  const std::shared_ptr<access::FilePolicy> policy_ = std::make_shared<access::FilePolicy>();
  const access::Access access_{policy_};
  const access::Gate gate_{&access_, nullptr, nullptr};
  std::unique_ptr<ErasureChannel> channel_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpMatrixTest, EveryRouteByEveryRole) {
  Serve(/*public_logs=*/false);
  WalkEveryRoute();
}

TEST_F(HttpMatrixTest, TheLogsAreForEverybodyOnlyWhereTheSettingsSaySo) {
  for (const bool open : {false, true}) {
    Serve(open);
    EnsureTenants();
    int logs = 0;
    for (const Route& route : server_->routes().routes()) {
      if (!absl::StrContains(route.pattern, "/log/")) continue;
      ++logs;
      EXPECT_EQ(Call(route, "t", "").status == 401, !open) << route.pattern;
      EXPECT_EQ(Call(route, "absent", "").status, open ? 404 : 401) << route.pattern;
      EXPECT_EQ(Call(route, "t", "t:app").status == 403, !open) << route.pattern;
      EXPECT_FALSE(Call(route, "t", "t:auditor").Refused()) << route.pattern;
    }
    EXPECT_EQ(logs, 3);
  }
}

}  // namespace
}  // namespace lethe::http
