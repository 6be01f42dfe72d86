// lethed as those see it who run it: metrics, and dashboards and alerts and documents that name
// what there is; health, reload, an orderly stop and its limits.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files.h"
#include "lethe/v1/erasure_service.grpc.pb.h"
#include "tests/server/callback_testing.h"
#include "tests/server/http_testing.h"
#include "tests/server/lethed_testing.h"

namespace lethe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

class LethedOperationTest : public LethedTest {
 protected:
  std::vector<std::string> With(std::vector<std::string> more) const {
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // A call that says where it got to.
  static grpc::StatusCode Health(const std::shared_ptr<grpc::Channel>& channel, bool* serving) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    // HealthCheckRequest with nothing set; HealthCheckResponse{1: SERVING}.
    grpc::ByteBuffer request;
    const grpc::Slice empty("");
    request = grpc::ByteBuffer(&empty, 1);
    const auto call =
        stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    int tag = 0;
    call->Finish(&response, &status, &tag);
    void* done = nullptr;
    bool ok = false;
    queue.Next(&done, &ok);
    std::vector<grpc::Slice> slices;
    std::string bytes;
    if (status.ok() && response.Dump(&slices).ok()) {
      for (const grpc::Slice& slice : slices) {
        bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
    }
    *serving = bytes == "\x08\x01";
    return status.error_code();
  }
  static uint16_t MetricsPort(const Daemon& daemon) {
    const auto lines = daemon.WaitForLines("serving_metrics", 1);
    return lines.empty() ? uint16_t{0} : lines[0]["port"].get<uint16_t>();
  }
};

// What a scrape has: name -> (type, names of labels).
struct Metric {
  std::string type;
  std::set<std::string> labels;
};
std::map<std::string, Metric> Parse(const std::string& text) {
  std::map<std::string, Metric> metrics;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    if (words[0] == "#") {
      if (words[1] == "TYPE") metrics[words[2]].type = words[3];
      continue;
    }
    std::string name(line.substr(0, line.find_first_of("{ ")));
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      const std::string whole(absl::StripSuffix(name, suffix));
      if (metrics.contains(whole) && metrics[whole].type == "histogram") name = whole;
    }
    static const std::regex label("([a-z_]+)=\"");
    const std::string rest(line);
    for (std::sregex_iterator next(rest.begin(), rest.end(), label), end; next != end; ++next) {
      if ((*next)[1] != "le") metrics[name].labels.insert((*next)[1]);
    }
  }
  return metrics;
}

// The names of metrics in a text: of ours and of the process.
std::set<std::string> NamesIn(const std::string& text) {
  static const std::regex name("\\b(lethe|process)_[a-z_]+[a-z]\\b");
  std::set<std::string> names;
  for (std::sregex_iterator next(text.begin(), text.end(), name), end; next != end; ++next) {
    std::string found = (*next)[0];
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      found = std::string(absl::StripSuffix(found, suffix));
    }
    names.insert(found);
  }
  return names;
}

TEST_F(LethedOperationTest, DashboardAlertsAndDocumentNameTheMetricsThatThereAre) {
  Daemon daemon(folder_.path(),
                With({"--metrics-listen", "127.0.0.1:0", "--metrics-tenants", "5"}));
  const auto channel = daemon.Connect();
  MakeMemory(channel);
  ASSERT_TRUE(Insert(*v1::MemoryService::NewStub(channel), 0));
  const http::Page page = http::Fetch(MetricsPort(daemon), "GET", "/metrics");
  ASSERT_EQ(page.status, 200) << page.body;
  EXPECT_EQ(page.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(page.body,
              HasSubstr("lethe_rpc_calls_total{code=\"OK\",method=\"lethe.v1.MemoryService/"
                        "Insert\"} 1\n"));
  EXPECT_THAT(page.body, HasSubstr("lethe_tenant_tokens{tenant=\"t\"} 1\n"));
  EXPECT_THAT(page.body, Not(HasSubstr("a0"))) << "a token's id";
  const std::map<std::string, Metric> metrics = Parse(page.body);
  EXPECT_GT(metrics.size(), 40u);

  // The document has a row each: | `name` | type | labels | meaning |
  std::map<std::string, Metric> documented;
  const std::string document = ReadFile(LETHE_SOURCE_DIR "/docs/monitoring.md");
  for (const absl::string_view line : absl::StrSplit(document, '\n')) {
    if (!absl::StartsWith(line, "| `lethe_") && !absl::StartsWith(line, "| `process_")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    ASSERT_GE(cells.size(), 4u) << std::string(line);
    Metric& row = documented[cells[0].substr(3, cells[0].rfind('`') - 3)];
    row.type = cells[1];
    for (const absl::string_view label : absl::StrSplit(cells[2], ", ", absl::SkipWhitespace())) {
      row.labels.emplace(absl::StripPrefix(absl::StripSuffix(label, "`"), "`"));
    }
  }
  for (const auto& [name, metric] : metrics) {
    ASSERT_THAT(documented, Contains(Key(name)));
    EXPECT_EQ(documented[name].type, metric.type) << name;
    EXPECT_EQ(documented[name].labels, metric.labels) << name;
  }
  for (const auto& [name, row] : documented) EXPECT_THAT(metrics, Contains(Key(name)));

  const std::string dashboard_text = ReadFile(LETHE_SOURCE_DIR "/deploy/dashboards/lethe.json");
  const auto dashboard = nlohmann::json::parse(dashboard_text, nullptr, false);
  ASSERT_TRUE(dashboard.is_object());
  size_t expressions = 0;
  for (const auto& panel : dashboard["panels"]) {
    if (!panel.contains("targets")) continue;
    for (const auto& target : panel["targets"]) {
      ++expressions;
      const std::set<std::string> names = NamesIn(target["expr"]);
      EXPECT_FALSE(names.empty()) << target["expr"];
      for (const std::string& name : names) EXPECT_THAT(metrics, Contains(Key(name)));
    }
  }
  EXPECT_GT(expressions, 15u);

  const std::string rules = ReadFile(LETHE_SOURCE_DIR "/deploy/alerts/lethe.rules.yml");
  const std::set<std::string> named = NamesIn(rules);
  EXPECT_GT(named.size(), 8u);
  for (const std::string& name : named) {
    // Those of workers are held against docs/jobs.md (tests/deploy), and that against a worker.
    if (absl::StartsWith(name, "lethe_worker_")) continue;
    EXPECT_THAT(metrics, Contains(Key(name)));
  }
}

TEST_F(LethedOperationTest, NothingElseIsServedWhereMetricsAre) {
  Daemon daemon(folder_.path(), With({"--metrics-listen", "127.0.0.1:0"}));
  MakeMemory(daemon.Connect());
  const uint16_t port = MetricsPort(daemon);
  EXPECT_EQ(http::Fetch(port, "GET", "/metrics").status, 200);
  EXPECT_EQ(http::Fetch(port, "GET", "/").status, 404);
  EXPECT_EQ(http::Fetch(port, "GET", "/v1/tenants/t/log/checkpoint").status, 404);
  EXPECT_EQ(http::Fetch(port, "POST", "/metrics").status, 405);
}

TEST_F(LethedOperationTest, HealthFollowsWhetherFilesCanBeWritten) {
  Daemon daemon(folder_.path(), With({"--metrics-listen", "127.0.0.1:0"}));
  const auto channel = daemon.Connect();
  bool serving = false;
  Health(channel, &serving);
  EXPECT_TRUE(serving);
  const std::string data = folder_.path() + "/data";
  std::filesystem::rename(data, data + ".away");
  ASSERT_EQ(daemon.WaitForLines("folders_failed", 1).size(), 1u);
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (serving && absl::Now() < deadline) Health(channel, &serving);
  EXPECT_FALSE(serving);
  const http::Page page = http::Fetch(MetricsPort(daemon), "GET", "/metrics");
  EXPECT_THAT(page.body, HasSubstr("lethe_folders_writable 0\n"));
  EXPECT_THAT(page.body, HasSubstr("lethe_serving 0\n"));
  std::filesystem::rename(data + ".away", data);
}

TEST_F(LethedOperationTest, AStopIsAnnouncedBeforeItBegins) {
  Daemon daemon(folder_.path(), With({"--drain-delay", "1500ms"}));
  const auto channel = daemon.Connect();
  MakeMemory(channel);
  bool serving = false;
  EXPECT_EQ(Health(channel, &serving), grpc::StatusCode::OK);
  EXPECT_TRUE(serving);
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.WaitForLines("stopping", 1).size(), 1u);
  const absl::Time deadline = absl::Now() + absl::Milliseconds(1000);
  while (serving && absl::Now() < deadline) Health(channel, &serving);
  EXPECT_FALSE(serving);
  // Whoever has not looked yet is still served.
  EXPECT_TRUE(Insert(*v1::MemoryService::NewStub(channel), 0));
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_EQ(daemon.Lines("stopped").size(), 1u);
}

TEST_F(LethedOperationTest, ASecondSignalEndsTheWaitAtOnce) {
  Daemon daemon(folder_.path(), With({"--drain-delay", "1h"}));
  daemon.Connect();
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.WaitForLines("stopping", 1).size(), 1u);
  daemon.Signal(SIGHUP);  // nothing to reload any more
  daemon.Signal(SIGTERM);
  EXPECT_TRUE(daemon.EndsWithin(absl::Seconds(5)));
  EXPECT_EQ(daemon.Wait(), 128 + SIGTERM);
}

TEST_F(LethedOperationTest, ItGoesOnListeningWhenThereWereNoDescriptors) {
  Daemon daemon(folder_.path(), Arguments());
  MakeMemory(daemon.Connect());
  const int port = daemon.Port();
  const rlim_t before = daemon.LimitFiles(static_cast<rlim_t>(daemon.OpenFiles() + 5));
  std::vector<FileDescriptor> connections;
  for (int i = 0; i < 40; ++i) {
    connections.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(
        connect(connections.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
  }
  ASSERT_EQ(daemon.WaitForLines("accept_failed", 1).size(), 1u);
  connections.clear();
  daemon.LimitFiles(before);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                                 grpc::InsecureChannelCredentials(), arguments);
  bool serving = false;
  EXPECT_EQ(Health(channel, &serving), grpc::StatusCode::OK);
  EXPECT_TRUE(Insert(*v1::MemoryService::NewStub(channel), 0));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
}

// The bytes of a query that nobody reads, and a stop that does not wait for them beyond its time.
TEST_F(LethedOperationTest, AStopEndsInItsTimeWhateverRuns) {
  Daemon daemon(folder_.path(), With({"--drain-timeout", "2s"}));
  const auto channel = daemon.Connect();
  MakeMemory(channel);
  const auto stub = v1::MemoryService::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->QueryStream(&context);
  v1::QueryRequest query;
  query.set_tenant("t");
  query.set_memory("m");
  query.add_queries()->mutable_values()->Add(0.0);
  query.mutable_queries(0)->mutable_values()->Add(0.0);
  ASSERT_TRUE(stream->Write(query));
  v1::QueryResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  daemon.Signal(SIGTERM);
  const absl::Time begin = absl::Now();
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(4));
}

// A client over HTTP that takes nothing of its answers, and one over gRPC that does not go on: the
// time is for both of them together.
TEST_F(LethedOperationTest, NobodyMakesAStopWaitForOneAfterTheOther) {
  Daemon daemon(folder_.path(), With({"--drain-timeout", "5s", "--http-listen", "127.0.0.1:0",
                                      "--log-level", "debug"}));
  const auto channel = daemon.Connect();
  MakeMemory(channel);
  const auto serving = daemon.WaitForLines("serving_http", 1);
  ASSERT_EQ(serving.size(), 1u);
  http::Wire reader(serving[0]["port"].get<uint16_t>());
  // 80 MiB of answers, more than sockets buffer.
  for (int i = 0; i < 800; ++i) {
    ASSERT_TRUE(reader.Send(http::RequestText("GET", "/openapi.json")));
  }
  // Until no answer more can be written.
  size_t answered = 0;
  const absl::Time end = absl::Now() + absl::Seconds(20);
  do {
    answered = daemon.Lines("call").size();
    absl::SleepFor(absl::Milliseconds(300));
  } while ((answered == 0 || answered < daemon.Lines("call").size()) && absl::Now() < end);
  ASSERT_LT(answered, 800u);
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/lethe.v1.MemoryService/Query", &queue);
  int tag = 0;
  call->StartCall(&tag);  // and no message
  void* done = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&done, &ok) && ok);
  daemon.Signal(SIGTERM);
  const absl::Time begin = absl::Now();
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(6));
  EXPECT_EQ(daemon.Lines("stopped").size(), 1u);
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, &tag);
  queue.Next(&done, &ok);
}

// Requests come by gRPC too: their callbacks are sent whether or not HTTP is served.
TEST_F(LethedOperationTest, CallbacksAreSentWithoutHttp) {
  http::Receiver receiver;
  Daemon daemon(folder_.path(),
                With({"--callback-host", receiver.host(), "--callback-insecure-loopback",
                      "--public-url", "https://lethe.example"}));
  const auto channel = daemon.Connect();
  MakeMemory(channel);
  const auto stub = v1::ErasureService::NewStub(channel);
  const auto ask = [&](const std::string& url) {
    v1::CreateErasureRequestRequest request;
    request.set_tenant("t");
    request.add_identities()->set_value("subject-17");
    request.add_callback_urls(url);
    v1::ErasureRequest made;
    grpc::ClientContext context;
    return stub->CreateErasureRequest(&context, request, &made);
  };
  EXPECT_TRUE(ask(receiver.url()).ok());
  const auto received = receiver.Take(2);
  ASSERT_EQ(received.size(), 2u) << daemon.Log();
  EXPECT_THAT(received[1].body, HasSubstr("\"completed\""));
  // Where nobody will be called nobody is promised it.
  const grpc::Status refused = ask("https://elsewhere.example/");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("callback_urls[0]: "));
}

// The certificate of one adapter is no reason to serve nobody at all.
TEST_F(LethedOperationTest, AnExpiredCertificateOfOpenDsrIsSaidAndServedWithout) {
  const std::vector<std::string> options = {
      "--http-listen",     "127.0.0.1:0",
      "--dsr-domain",      "lethe.example",
      "--dsr-key",         folder_.path() + "/key.pem",
      "--dsr-certificate", folder_.path() + "/certificate.pem"};
  const auto write = [&](int days) {
    const http::TestCertificate made("lethe.example", nullptr, days);
    made.WriteKey(options[5]);
    made.WriteCertificate(options[7]);
  };
  write(-1);
  {
    std::vector<std::string> check = With(options);
    check.emplace_back("--check-config");
    Daemon checked(folder_.path(), check);
    EXPECT_EQ(checked.Wait(), 0);
    EXPECT_THAT(checked.Log(), HasSubstr("warning: --dsr-certificate: is not valid now"));
  }
  Daemon daemon(folder_.path(), With(options));
  daemon.Connect();
  EXPECT_EQ(daemon.WaitForLines("dsr_key_unusable", 1).size(), 1u);
  const auto serving = daemon.WaitForLines("serving_http", 1);
  ASSERT_EQ(serving.size(), 1u);
  const uint16_t port = serving[0]["port"].get<uint16_t>();
  EXPECT_EQ(http::Fetch(port, "GET", "/v1/discovery/certificate.pem").status, 503);
  write(30);
  EXPECT_EQ(daemon.WaitForLines("dsr_key_reloaded", 1).size(), 1u);
  EXPECT_EQ(http::Fetch(port, "GET", "/v1/discovery/certificate.pem").status, 200);
}

TEST_F(LethedOperationTest, ReloadTakesWhatItCanAndRefusesAWrongFileWhole) {
  const std::string file = folder_.path() + "/lethed.toml";
  const auto write = [&](const std::string& text) { std::ofstream(file, std::ios::trunc) << text; };
  write("quota = [\"*:tokens=2\"]\n");
  Daemon daemon(folder_.path(), With({"--config", file, "--metrics-listen", "127.0.0.1:0"}));
  const auto channel = daemon.Connect();
  MakeMemory(channel);
  const auto stub = v1::MemoryService::NewStub(channel);
  EXPECT_TRUE(Insert(*stub, 0));
  EXPECT_TRUE(Insert(*stub, 1));
  EXPECT_FALSE(Insert(*stub, 2));

  write("quota = [\"*:tokens=4\"]\nlog-level = \"debug\"\norigin = \"other.example\"\n");
  daemon.Signal(SIGHUP);
  const auto reloaded = daemon.WaitForLines("reloaded", 1);
  ASSERT_EQ(reloaded.size(), 1u) << daemon.Log();
  EXPECT_EQ(reloaded[0]["need_restart"], "origin");
  EXPECT_TRUE(Insert(*stub, 2));
  EXPECT_FALSE(daemon.Lines("call").empty()) << "debug lines are written now";

  write("quota = [\"*:tokens=100\"]\nlog-levle = \"info\"\n");
  daemon.Signal(SIGHUP);
  const auto refused = daemon.WaitForLines("reload_refused", 1);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[0]["message"].get<std::string>(), HasSubstr("lethed.toml:2"));
  EXPECT_TRUE(Insert(*stub, 3));
  EXPECT_FALSE(Insert(*stub, 4)) << "the settings before hold";
  const http::Page page = http::Fetch(MetricsPort(daemon), "GET", "/metrics");
  EXPECT_THAT(page.body, HasSubstr("lethe_reload_succeeded 0\n"));
  EXPECT_THAT(page.body, HasSubstr("lethe_quota_refusals_total{quota=\"tokens\"} 2\n"));
}

}  // namespace
}  // namespace lethe
