// The JSON twins of the RPCs over a socket, and who may call them.
#include "server/http/call_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/access/access.h"
#include "server/calls/unary_calls.h"
#include "server/http/http_listener.h"
#include "server/http/http_server.h"
#include "server/http/json.h"
#include "server/http/log_routes.h"
#include "server/http/openapi.h"
#include "tests/server/http_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using nlohmann::json;
using service::Harness;
using service::IsOk;
using testing::HasSubstr;
using testing::Not;

constexpr char kMemory[] = "/v1/tenants/t/memories/m";

// Knows callers by their tokens.
class FakePolicy final : public access::Policy {
 public:
  absl::StatusOr<std::shared_ptr<const access::Identity>> Authenticate(
      const access::Credentials& credentials,
      absl::Time) const override {
    const auto known = credentials.authorization.size() == 1
                           ? callers_.find(credentials.authorization.front())
                           : callers_.end();
    if (known == callers_.end()) return absl::UnauthenticatedError("not known");
    return std::make_shared<const access::Identity>(
        access::Identity{.name = "caller", .grants = {known->second}});
  }

 private:
  const std::map<std::string, access::Grant> callers_ = {
      {"Bearer app", {"t", access::Role::kApp}},
      {"Bearer eraser", {"t", access::Role::kEraser}},
      {"Bearer other", {"other", access::Role::kApp}},
      {"Bearer admin", {"*", access::Role::kAdmin}}};
};

class HttpCallsTest : public testing::Test {
 protected:
  void SetUp() override { Serve(nullptr); }
  void Serve(const access::Gate* gate) {
    listener_ =
        std::make_unique<HttpListener>(HttpOptions{.host = "127.0.0.1", .hooks = {.gate = gate}});
    AddLogRoutes(&*service_, /*open=*/true, listener_->routes());
    AddCallRoutes(&*service_, listener_->routes());
    AddOpenApiRoute(listener_->routes());
    ASSERT_THAT(listener_->Start(), IsOk());
  }
  Page Call(const std::string& method,
            const std::string& path,
            const std::string& body = "",
            std::vector<std::string> headers = {}) {
    if (!body.empty()) headers.emplace_back("Content-Type: application/json");
    return Fetch(listener_->port(), method, path, headers, body);
  }
  json Done(const std::string& method, const std::string& path, const std::string& body = "") {
    const Page page = Call(method, path, body);
    EXPECT_EQ(page.status, 200) << method << " " << path << ": " << page.body;
    EXPECT_EQ(page.headers.at("content-type"), "application/json");
    return json::parse(page.body);
  }
  // The message of an error, whose code and line agree.
  std::string Failed(int status,
                     const std::string& method,
                     const std::string& path,
                     const std::string& body = "") {
    const Page page = Call(method, path, body);
    EXPECT_EQ(page.status, status) << method << " " << path << ": " << page.body;
    const json error = json::parse(page.body)["error"];
    EXPECT_EQ(error["code"], status);
    return error["message"];
  }
  void MakeMemory() {
    Done("POST", "/v1/tenants/t/memories",
         R"({"name":"m","config":{"kernel":{"rbf":{"gamma":0.7}},"box":0.5,"keyDimension":2,)"
         R"("valueDimension":1}})");
  }

  Harness service_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpCallsTest, ALifeInJson) {
  EXPECT_EQ(Done("POST", "/v1/tenants", R"({"name":"clinic"})")["name"], "clinic");
  EXPECT_EQ(Done("GET", "/v1/tenants?pageSize=1")["tenants"].size(), 1u);
  MakeMemory();
  EXPECT_EQ(Done("GET", kMemory)["phase"], "MEMORY_PHASE_EMPTY");
  std::string tokens;
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&tokens, i == 0 ? "" : ",", R"({"id":"a)", i, R"(","subject":"subject-)", i % 2,
                    R"(","key":[)", 0.3 * i, ",", 0.1 * i * i, R"(],"value":[)", i / 3.0, "]}");
  }
  const json inserted =
      Done("POST", absl::StrCat(kMemory, ":insert"), absl::StrCat(R"({"tokens":[)", tokens, "]}"));
  EXPECT_EQ(inserted["inserted"], "8");  // 64 bits are text
  EXPECT_EQ(inserted["results"][0]["outcome"], "INSERT_OUTCOME_INSERTED");

  // What JSON says is, bit for bit, what the service says.
  const json answer = Done("POST", absl::StrCat(kMemory, ":query"),
                           R"({"queries":[{"values":[0.1,0.2]}],"topTokens":2})");
  const auto direct =
      service_->Query({.tenant = "t", .memory = "m", .queries = {{0.1, 0.2}}, .top_tokens = 2}, {});
  ASSERT_THAT(direct, IsOk());
  EXPECT_EQ(answer["results"][0]["readout"][0].get<double>(), direct->results[0].readout[0]);
  EXPECT_EQ(answer["results"][0]["logDenominator"].get<double>(),
            direct->results[0].log_denominator);
  EXPECT_EQ(answer["results"][0]["tokens"].size(), 2u);

  const json forgotten = Done("POST", absl::StrCat(kMemory, ":forget"),
                              R"({"subject":"subject-1","requestId":"r-1"})");
  EXPECT_EQ(forgotten["erased"], "4");
  EXPECT_EQ(forgotten["stateDigest"], service_.Digest("m"));
  EXPECT_EQ(Done("POST", absl::StrCat(kMemory, ":describe"))["stateDigest"], service_.Digest("m"));
  const std::string certificate = forgotten["certificateId"];
  EXPECT_EQ(Done("GET", "/v1/tenants/t/certificates/" + certificate)["id"], certificate);
  EXPECT_EQ(Done("GET", "/v1/tenants/t/certificates?memory=m&page_size=1")["certificates"].size(),
            1u);
  EXPECT_EQ(Done("GET", "/v1/tenants/t/inclusion-proof?certificateId=" + certificate)["size"], "2");
  EXPECT_EQ(Done("POST", absl::StrCat(kMemory, ":verify"), "{}")["verdict"],
            "VERDICT_BIT_IDENTICAL");
  EXPECT_EQ(Done("DELETE", kMemory)["erasedTokens"], "4");
  EXPECT_THAT(Failed(404, "GET", kMemory), HasSubstr("memory"));
}

TEST_F(HttpCallsTest, BadJsonIsRefusedByNameAndNeverRepeated) {
  MakeMemory();
  const std::string insert = absl::StrCat(kMemory, ":insert");
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"tokenz":[]})", "tokenz: there is no such field"},
           {R"({"tokens":[{"key":[1,2],"keyx":1}]})", "tokens[0].keyx: there is no such field"},
           {R"({"tokens":[{"key":[1,"Secret"]}]})",
            "tokens[0].key[1]: is of another type than this field"},
           {R"({"tokens":[{"payload":"Secret***"}]})",
            "tokens[0].payload: is of another type than this field"},
           {R"({"tokens":[7]})", "tokens[0]: is of another type than this field"},
           {R"({"tokens":[{"Secret Name":1}]})", "body: has a field that there is not"},
           {R"({"tokens":[{"key":[1,null,2]}]})", "body: has a null; leave the field out instead"},
           {R"({"tokens":[],"tokens":[]})", "body: has a name twice in one object"},
           {R"({"tokens":[)", "body: is no JSON at byte 12"},
           {"{\"tenant\":\"\xff\"}", "body: is no JSON at byte 12"},
           {R"({"tenant":"\ud800"})", "body: is no JSON at byte 18"},
           {R"({'tokens':[]})", "body: is no JSON at byte 2"},
           {R"({"tokens":[],})", "body: is no JSON at byte 14"},
           {R"({"tokens":[{"key":[NaN]}]})", "body: is no JSON at byte 20"},
           {R"({"tokens":[{"key":[1e999,2]}]})", "body: is no JSON at byte 24"},
           {R"({} {})", "body: is no JSON at byte 4"},
           {"[]", "body: does not have the form of this call"},
           {"7", "body: does not have the form of this call"},
           {R"({"tenant":{"Secret":1}})", "body: does not have the form of this call"},
           {R"({"tenant":"other"})", "tenant: is another one than in the path"}}) {
    const Page page = Call("POST", insert, body);
    EXPECT_EQ(page.status, 400) << body;
    EXPECT_EQ(json::parse(page.body)["error"]["message"], message) << body;
    EXPECT_THAT(page.body, Not(HasSubstr("Secret")));
  }
  // What is JSON but no number is refused as by gRPC, and alone.
  const json results = Done("POST", insert, R"({"tokens":[{"key":["NaN",0],"value":[1]}]})");
  EXPECT_EQ(results["rejected"], "1");
  EXPECT_EQ(results["results"][0]["error"]["field"], "tokens[0].key[0]");
  // Deep, broad and long: answered, and the server stays.
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep = R"({"tokens":)";
    for (int i = 0; i < 200'000; ++i) deep += open;
    EXPECT_EQ(Failed(400, "POST", insert, deep), "body: is nested more than 16 deep");
  }
  // A few bytes each, and hundreds each in memory: counted before anything is made of them.
  std::string many = R"({"tokens":[{})";
  std::string names = R"({"tokens":[{"labels":{"":"")";
  for (int i = 0; i < 400'000; ++i) {
    many += ",{}";
    absl::StrAppend(&names, ",\"", i, "\":\"\"");
  }
  EXPECT_EQ(Failed(400, "POST", insert, absl::StrCat(many, "]}")),
            "body: has more than 300000 objects and texts");
  EXPECT_EQ(Failed(400, "POST", insert, absl::StrCat(names, "}}]}")),
            "body: has an object with more than 10000 names");
  EXPECT_THAT(Failed(400, "GET", "/v1/tenants?pageSize=1&pageSize=2"), HasSubstr("twice"));
  EXPECT_THAT(Failed(400, "GET", "/v1/tenants?pageSize=-1"), HasSubstr("page_size: "));
  EXPECT_THAT(Failed(400, "GET", "/v1/tenants?no=1"), HasSubstr("no: there is no such field"));
  EXPECT_THAT(Failed(400, "POST", "/v1/tenants?name=x"), HasSubstr("takes no query"));
  EXPECT_THAT(Failed(400, "GET", "/v1/tenants/No%20Name"), HasSubstr("name: "));
  EXPECT_THAT(Failed(400, "GET", "/v1/tenants/a%2Fb"), HasSubstr("name: "));
  EXPECT_THAT(Failed(404, "GET", "/v1/tenants/nobody"), HasSubstr("tenant: "));
  EXPECT_THAT(Failed(409, "POST", "/v1/tenants", R"({"name":"t"})"), HasSubstr("t"));
}

TEST_F(HttpCallsTest, CallsAreKnownByTheirId) {
  const Page given = Call("GET", "/v1/tenants", "",
                          {"X-Request-Id: req-1",
                           "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
  EXPECT_EQ(given.headers.at("x-request-id"), "req-1");
  EXPECT_EQ(given.headers.at("traceparent"),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  const Page made = Call("GET", "/v1/tenants", "", {"X-Request-Id: no good", "traceparent: x"});
  EXPECT_EQ(made.headers.at("x-request-id").size(), 32u);
  EXPECT_EQ(made.headers.count("traceparent"), 0u);
}

// A page of another site whose name leads here, and one that calls by the right name.
TEST_F(HttpCallsTest, ABrowserIsNoWayIn) {
  const auto status = [&](const std::string& host) {
    Wire wire(listener_->port());
    wire.Send(absl::StrCat("GET /v1/tenants HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    return wire.ReceivePage().status;
  };
  for (const char* host :
       {"localhost", "LOCALHOST:7422", "127.0.0.1:1", "127.9.9.9", "[::1]:7422"}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const char* host : {"example.com", "localhost.example.com", "10.0.0.1",
                           "127.0.0.1.example.com", "[::2]", "", "0x7f.1"}) {
    EXPECT_EQ(status(host), 421) << host;
  }
  EXPECT_EQ(Fetch(listener_->port(), "POST", "/v1/tenants", {"Content-Type: text/plain"},
                  R"({"name":"x"})")
                .status,
            415);
  EXPECT_EQ(Call("OPTIONS", "/v1/tenants").status, 405);
}

TEST_F(HttpCallsTest, TheGateIsAskedBeforeTheBodyAndForTheTenant) {
  service_.MakeMemory("m");
  access::Access access(std::make_shared<FakePolicy>());
  const access::Gate gate(&access, nullptr, nullptr);
  listener_.reset();
  Serve(&gate);
  const auto call = [&](const std::string& method, const std::string& path,
                        const std::string& token) {
    return Call(method, path, "", {"Authorization: Bearer " + token});
  };
  const Page nobody = Call("GET", "/v1/tenants");
  EXPECT_EQ(nobody.status, 401);
  EXPECT_EQ(nobody.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(call("GET", "/v1/tenants", "guess").status, 401);
  {
    // Without credentials a body is not waited for.
    Wire wire(listener_->port());
    wire.Send(absl::StrCat("POST ", kMemory,
                           ":insert HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                           "\r\nContent-Length: 1000\r\n\r\n"));
    EXPECT_EQ(wire.ReceivePage().status, 401);
  }
  EXPECT_EQ(call("POST", absl::StrCat(kMemory, ":describe"), "app").status, 200);
  EXPECT_EQ(call("POST", absl::StrCat(kMemory, ":forget"), "app").status, 403);
  EXPECT_EQ(call("POST", absl::StrCat(kMemory, ":forget"), "eraser").status, 400);  // no target
  EXPECT_EQ(call("POST", "/v1/tenants", "app").status, 403);
  // Another's tenant and one that there is not: the same bytes but for the id of the call.
  for (const char* path :
       {"/v1/tenants/t", "/v1/tenants/t/memories/m", "/v1/tenants/t/memories/none"}) {
    const Page foreign = call("GET", path, "other");
    const Page absent =
        call("GET", absl::StrReplaceAll(path, {{"/tenants/t", "/tenants/x"}}), "other");
    EXPECT_EQ(foreign.status, 404);
    EXPECT_EQ(foreign.body, absent.body) << path;
  }
  // So where he has none of the call's roles for any tenant, which is said before anything is read.
  const Page no_role = call("GET", "/v1/tenants/t/checkpoint", "other");
  EXPECT_EQ(no_role.status, 403);
  EXPECT_EQ(no_role.body, call("GET", "/v1/tenants/x/checkpoint", "other").body);
  EXPECT_EQ(json::parse(call("GET", "/v1/tenants", "other").body)["tenants"].size(), 0u);
  // The logs and the document are open.
  EXPECT_EQ(Call("GET", "/v1/tenants/t/log/checkpoint").status, 200);
  EXPECT_EQ(Call("GET", "/openapi.json").status, 200);
  // Two credentials in one request are none.
  EXPECT_EQ(
      Call("GET", "/v1/tenants", "", {"Authorization: Bearer other", "Authorization: Bearer admin"})
          .status,
      400);
}

TEST_F(HttpCallsTest, EveryUnaryRpcHasItsTwin) {
  std::set<std::string> served;
  for (const CallRoute& route : CallRoutes()) {
    EXPECT_TRUE(served.insert(std::string(route.operation)).second) << route.operation;
  }
  std::set<std::string> calls;
  for (const calls::UnaryCall& call : calls::AllUnaryCalls(&*service_)) {
    calls.insert(calls::NameOf(call.method));
  }
  EXPECT_EQ(served, calls);
}

TEST(JsonTest, ZeroKeepsItsSign) {
  v1::Token token;
  ASSERT_THAT(
      FromJson(R"({"id":"-0 \" -0","key":[-0,0,-0.0,-0e3,1e-0,10e-05, -0 ],"value":[-0]})", &token),
      IsOk());
  EXPECT_EQ(token.id(), "-0 \" -0");
  const std::vector<double> key = {-0.0, 0.0, -0.0, -0.0, 1.0, 1e-4, -0.0};
  ASSERT_EQ(token.key_size(), 7);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(token.key(i), key[static_cast<size_t>(i)]);
    EXPECT_EQ(std::signbit(token.key(i)), std::signbit(key[static_cast<size_t>(i)])) << i;
  }
  const auto printed = ToJson(token);
  ASSERT_THAT(printed, IsOk());
  // Also for readers that know whole numbers without a sign.
  EXPECT_THAT(*printed, HasSubstr(R"("value":[-0.0])"));
  v1::Token again;
  ASSERT_THAT(FromJson(*printed, &again), IsOk());
  EXPECT_EQ(again.SerializeAsString(), token.SerializeAsString());
  v1::ListTenantsRequest whole;
  ASSERT_THAT(FromJson(R"({"pageSize":-0})", &whole), IsOk());
  EXPECT_EQ(whole.page_size(), 0u);
}

// docs/openapi.json is what the server says of itself. After a change of routes or messages:
// LETHE_WRITE_OPENAPI=1 build/release/bin/http_test --gtest_filter=*OpenApi*
class OpenApiTest : public testing::Test {
 protected:
  void SetUp() override {
    const TestCertificate key("lethe.example");
    key.WriteKey(folder_.path() + "/key.pem");
    key.WriteCertificate(folder_.path() + "/certificate.pem");
    auto channel = ErasureChannel::Open({.dsr_domain = "lethe.example",
                                         .dsr_key = folder_.path() + "/key.pem",
                                         .dsr_certificate = folder_.path() + "/certificate.pem"});
    ASSERT_THAT(channel, IsOk());
    channel_ = *std::move(channel);
    auto server = HttpServer::Start(&*service_, {.host = "127.0.0.1"}, *channel_, {}, nullptr);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }
  Page Call(const std::string& method, const std::string& path) {
    return Fetch(server_->port(), method, path);
  }

  service::TempDir folder_;
  Harness service_;
  std::unique_ptr<ErasureChannel> channel_;
  std::unique_ptr<HttpServer> server_;
  const std::string path_ = std::string(LETHE_SOURCE_DIR) + "/docs/openapi.json";
};

TEST_F(OpenApiTest, TheDocumentIsCommitted) {
  const std::string served = Call("GET", "/openapi.json").body;
  if (std::getenv("LETHE_WRITE_OPENAPI") != nullptr) std::ofstream(path_) << served;
  std::stringstream committed;
  committed << std::ifstream(path_).rdbuf();
  EXPECT_TRUE(served == committed.str()) << "docs/openapi.json is not what is served";
}

TEST_F(OpenApiTest, WhatItSaysIsRoutedAndWhatIsRoutedItSays) {
  const json document = json::parse(std::ifstream(path_));
  size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].items()) {
    std::string target = path;
    for (size_t open = target.find('{'); open != std::string::npos; open = target.find('{')) {
      target.replace(open, target.find('}') - open + 1, "absent");
    }
    for (const auto& [method, operation] : methods.items()) {
      ++operations;
      const Page page = Call(absl::AsciiStrToUpper(method), target);
      EXPECT_NE(page.status, 405) << method << " " << path;
      EXPECT_THAT(page.body, Not(HasSubstr("no such page"))) << method << " " << path;
      EXPECT_FALSE(operation["summary"].get<std::string>().empty()) << path;
    }
  }
  EXPECT_EQ(operations, server_->routes().routes().size());
  // Every reference leads somewhere.
  const std::string text = document.dump();
  const std::string prefix = "#/components/schemas/";
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    const size_t begin = at + prefix.size();
    const std::string name = text.substr(begin, text.find('"', begin) - begin);
    EXPECT_TRUE(document["components"]["schemas"].contains(name)) << name;
  }
}

// Each message, printed with something in every field: the schema has every name, and no other.
TEST_F(OpenApiTest, SchemasAreTheMessages) {
  const json document = json::parse(std::ifstream(path_));
  for (const calls::UnaryCall& call : calls::AllUnaryCalls(&*service_)) {
    for (const google::protobuf::Message* type : {call.request, call.response}) {
      const std::unique_ptr<google::protobuf::Message> message(type->New());
      std::set<std::string> names;
      // One field at a time, since some exclude each other.
      for (int i = 0; i < type->GetDescriptor()->field_count(); ++i) {
        message->Clear();
        const google::protobuf::FieldDescriptor* field = type->GetDescriptor()->field(i);
        if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
          if (field->is_repeated()) {
            message->GetReflection()->AddMessage(message.get(), field);
          } else {
            message->GetReflection()->MutableMessage(message.get(), field);
          }
        } else if (field->has_presence() &&
                   field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
          message->GetReflection()->SetString(message.get(), field, "x");
        } else if (field->has_presence() &&
                   field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
          message->GetReflection()->SetBool(message.get(), field, true);
        } else if (field->has_presence() &&
                   field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
          message->GetReflection()->SetUInt64(message.get(), field, 1);
        } else if (field->has_presence() &&
                   field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) {
          message->GetReflection()->SetDouble(message.get(), field, 1);
        }
        const absl::StatusOr<std::string> text = ToJson(*message);
        ASSERT_THAT(text, IsOk());
        const json printed = json::parse(*text);
        for (const auto& [name, value] : printed.items()) names.insert(name);
      }
      const std::string schema =
          std::string(absl::StripPrefix(type->GetDescriptor()->full_name(), "lethe.v1."));
      if (!document["components"]["schemas"].contains(schema)) {
        EXPECT_EQ(type, call.request) << schema;  // of a call without a body
        continue;
      }
      std::set<std::string> properties;
      for (const auto& [name, value] :
           document["components"]["schemas"][schema]["properties"].items()) {
        properties.insert(name);
      }
      EXPECT_EQ(properties, names) << schema;
    }
  }
}

}  // namespace
}  // namespace lethe::http
