// What every call has beside its answer: a request id, a trace context, details of an error, a line
// in the log, a count.
#include <fcntl.h>
#include <grpc/support/log.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lethe/internal/error_details.pb.h"
#include "server/rpc/call.h"
#include "server/rpc/library_log.h"
#include "server/rpc/status.h"
#include "server/service/retry_delay.h"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using calls::IsTraceParent;
using calls::LineLimit;
using service::HasCode;
using testing::HasSubstr;
using testing::Not;

constexpr char kTrace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Counts by "service/method", and by that and the code.
class CountingObserver final : public service::CallObserver {
 public:
  struct Method final : service::MethodObserver {
    Method(CountingObserver* all, std::string method_name)
        : owner(all), name(std::move(method_name)) {}
    void Started() override {
      std::lock_guard<std::mutex> lock(owner->mutex);
      ++owner->counts[name];
    }
    void Ended(absl::StatusCode code, absl::Duration duration) override {
      std::lock_guard<std::mutex> lock(owner->mutex);
      ++owner->counts[absl::StrCat(name, " ", absl::StatusCodeToString(code))];
      EXPECT_GE(duration, absl::ZeroDuration());
    }
    CountingObserver* owner;
    std::string name;
  };
  service::MethodObserver* ForMethod(absl::string_view service_name,
                                     absl::string_view method,
                                     bool /*stream*/) override {
    methods.push_back(std::make_unique<Method>(this, absl::StrCat(service_name, "/", method)));
    return methods.back().get();
  }
  int Count(const std::string& what) {
    std::lock_guard<std::mutex> lock(mutex);
    return counts[what];
  }

  std::mutex mutex;
  std::map<std::string, int> counts;
  std::vector<std::unique_ptr<Method>> methods;
};

class RpcCallTest : public RpcTest {
 protected:
  RpcCallTest() {
    const std::string path = folder_.path() + "/log";
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    log_ = std::make_unique<program::EventLog>(fd_, program::LogLevel::kDebug);
    Serve(absl::Seconds(1000));
  }
  ~RpcCallTest() override {
    server_.reset();
    close(fd_);
  }
  void Serve(absl::Duration slow) {
    slow_ = absl::ToInt64Milliseconds(slow);
    ServerOptions options;
    options.hooks = {
        .observer = &observer_, .log = log_.get(), .lines = &lines_, .slow_milliseconds = &slow_};
    StartServer(options);
  }
  std::vector<nlohmann::json> Lines(const std::string& event) {
    std::ifstream in(folder_.path() + "/log");
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(in, line);) {
      nlohmann::json object = nlohmann::json::parse(line);
      if (object["event"] == event) found.push_back(std::move(object));
    }
    return found;
  }
  // The answer's metadata with this name; a call that failed without an answer has it among the
  // trailing ones for some libraries.
  static std::string Metadata(const grpc::ClientContext& context, const std::string& key) {
    for (const auto* all :
         {&context.GetServerInitialMetadata(), &context.GetServerTrailingMetadata()}) {
      const auto found = all->find(key);
      if (found != all->end()) return {found->second.data(), found->second.size()};
    }
    return "";
  }
  grpc::Status GetMemory(grpc::ClientContext* context, const std::string& name) {
    v1::GetMemoryRequest request;
    request.set_tenant("t");
    request.set_name(name);
    v1::Memory memory;
    return memories_->GetMemory(context, request, &memory);
  }
  template <typename Detail>
  static bool DetailOf(const grpc::Status& status, const std::string& name, Detail* detail) {
    internal::Status details;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
    EXPECT_EQ(details.message(), status.error_message());
    for (const google::protobuf::Any& any : details.details()) {
      if (any.type_url() == "type.googleapis.com/google.rpc." + name) {
        return detail->ParseFromString(any.value());
      }
    }
    return false;
  }

  service::TempDir folder_;
  int fd_ = -1;
  std::unique_ptr<program::EventLog> log_;
  LineLimit lines_;
  std::atomic<int64_t> slow_{0};
  CountingObserver observer_;
};

TEST_F(RpcCallTest, TheRequestIdAndTheTraceComeBackAndStandInTheLog) {
  for (const char* name : {"m", "absent"}) {
    Context context;
    context.AddMetadata("x-request-id", "order-17:a.b_C");
    context.AddMetadata("traceparent", kTrace);
    GetMemory(&context, name);
    EXPECT_EQ(Metadata(context, "x-request-id"), "order-17:a.b_C") << name;
    EXPECT_EQ(Metadata(context, "traceparent"), kTrace) << name;
  }
  const auto lines = Lines("call");
  ASSERT_EQ(lines.size(), 2u);
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line["request_id"], "order-17:a.b_C");
    EXPECT_EQ(line["traceparent"], kTrace);
    EXPECT_EQ(line["method"], "lethe.v1.MemoryService/GetMemory");
    EXPECT_EQ(line["tenant"], "t");
    EXPECT_GE(line["milliseconds"].get<double>(), 0.0);
  }
  EXPECT_EQ(lines[0]["code"], "OK");
  EXPECT_EQ(lines[0]["memory"], "m");
  EXPECT_EQ(lines[1]["code"], "NOT_FOUND");
}

TEST_F(RpcCallTest, AMalformedIdIsReplacedAndAMalformedTraceDropped) {
  std::set<std::string> made;
  for (const std::string& id : {std::string("a person@example"), std::string("two words"),
                                std::string(65, 'a'), std::string("a\"b")}) {
    Context context;
    context.AddMetadata("x-request-id", id);
    context.AddMetadata("traceparent", "00-" + std::string(32, '0') + "-b7ad6b7169203331-01");
    EXPECT_THAT(GetMemory(&context, "m"), RpcOk());
    const std::string back = Metadata(context, "x-request-id");
    EXPECT_EQ(back.size(), 32u);
    EXPECT_TRUE(made.insert(back).second) << "each call has its own";
    EXPECT_EQ(Metadata(context, "traceparent"), "");
  }
  Context twice;
  twice.AddMetadata("x-request-id", "first");
  twice.AddMetadata("x-request-id", "second");
  EXPECT_THAT(GetMemory(&twice, "m"), RpcOk());
  EXPECT_EQ(Metadata(twice, "x-request-id").size(), 32u);
}

TEST(TraceParent, FollowsTheRecommendation) {
  EXPECT_TRUE(IsTraceParent(kTrace));
  EXPECT_TRUE(IsTraceParent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
  for (const char* bad : {"", "00", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                          "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-a b"}) {
    EXPECT_FALSE(IsTraceParent(bad)) << bad;
  }
}

TEST_F(RpcCallTest, ErrorsHaveDetailsInTheWayOfGoogleRpc) {
  v1::InsertRequest request = InsertOf(1);
  request.set_tenant("No Tenant");
  Context context;
  context.AddMetadata("x-request-id", "id-1");
  v1::InsertResponse response;
  const grpc::Status status = memories_->Insert(&context, request, &response);
  ASSERT_THAT(status, RpcFails(grpc::StatusCode::INVALID_ARGUMENT, "tenant"));
  internal::BadRequest bad;
  ASSERT_TRUE(DetailOf(status, "BadRequest", &bad));
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "tenant");
  EXPECT_EQ("tenant: " + bad.field_violations(0).description(), status.error_message());
  internal::RequestInfo info;
  ASSERT_TRUE(DetailOf(status, "RequestInfo", &info));
  EXPECT_EQ(info.request_id(), "id-1");
  internal::RetryInfo retry;
  EXPECT_FALSE(DetailOf(status, "RetryInfo", &retry));
}

TEST(ToGrpcTest, ADelayBecomesRetryInfo) {
  const grpc::Status status =
      ToGrpc(service::WithRetryDelay(absl::ResourceExhaustedError("too many"),
                                     absl::Microseconds(1500100)),
             "");
  internal::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  internal::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(details.details(0).value()));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 501000000) << "rounded up";
  EXPECT_EQ(ToGrpc(absl::InternalError("x"), "").error_details(), "");
  EXPECT_TRUE(ToGrpc(absl::OkStatus(), "id").ok());
}

TEST_F(RpcCallTest, LinesHoldNothingOfTheRequestButNames) {
  v1::InsertRequest request = InsertOf(1, "token-id-");
  request.mutable_tokens(0)->set_subject("subject-17");
  request.mutable_tokens(0)->set_payload("a payload");
  v1::InsertResponse response;
  EXPECT_THAT(Call(*memories_, &v1::MemoryService::Stub::Insert, request, &response), RpcOk());
  // Whoever confuses the fields.
  request.set_tenant("subject 17 at home");
  EXPECT_FALSE(Call(*memories_, &v1::MemoryService::Stub::Insert, request, &response).ok());
  std::ifstream in(folder_.path() + "/log");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(Lines("call").size(), 2u);
  for (const char* secret : {"token-id", "subject", "payload"}) {
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  }
}

TEST_F(RpcCallTest, FailuresOfTheServerAreWarningsAtABoundedRate) {
  log_->SetLevel(program::LogLevel::kWarning);
  Context absent;
  EXPECT_FALSE(GetMemory(&absent, "absent").ok());
  EXPECT_TRUE(Lines("call_failed").empty()) << "an answer is no failure of the server";
  harness_.hooks().before = [](const std::string&) { return absl::UnavailableError("no disk"); };
  constexpr int kCalls = 200;
  for (int i = 0; i < kCalls; ++i) {
    v1::InsertResponse response;
    EXPECT_FALSE(Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(1), &response).ok());
  }
  const auto lines = Lines("call_failed");
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0]["code"], "UNAVAILABLE");
  EXPECT_EQ(lines[0]["level"], "warning");
  // How many seconds that took is up to the machine; each has 20 lines, and tells what it left out.
  int64_t told = static_cast<int64_t>(lines.size());
  std::map<std::string, int> by_second;
  for (const nlohmann::json& line : lines) {
    ++by_second[line["time"].get<std::string>().substr(0, 19)];
  }
  for (const auto& [second, count] : by_second) EXPECT_LE(count, 21) << second;
  for (const nlohmann::json& line : Lines("calls_not_logged")) told += line["calls"].get<int>();
  EXPECT_LE(told, kCalls);
}

TEST(LineLimitTest, CountsWhatItLeavesOut) {
  LineLimit limit;
  int64_t left_out = 0;
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += limit.Take(7, &left_out) ? 1 : 0;
  EXPECT_EQ(taken, 20);
  EXPECT_EQ(left_out, 0);
  EXPECT_TRUE(limit.Take(8, &left_out));
  EXPECT_EQ(left_out, 80);
  EXPECT_TRUE(limit.Take(8, &left_out));
  EXPECT_EQ(left_out, 0);
}

// What anybody can make gRPC say fills no disk.
TEST_F(RpcCallTest, LinesOfTheLibraryAreBoundedAndCounted) {
  LogGrpcTo(log_.get());
  const int64_t begin = absl::ToUnixSeconds(absl::Now());
  for (int i = 0; i < 5000; ++i) gpr_log(GPR_ERROR, "a handshake failed");
  int64_t second = absl::ToUnixSeconds(absl::Now());
  const int64_t seconds = second - begin + 1;
  while (absl::ToUnixSeconds(absl::Now()) == second) absl::SleepFor(absl::Milliseconds(10));
  gpr_log(GPR_ERROR, "one more");
  gpr_set_log_function(nullptr);
  size_t errors = 0;
  for (const nlohmann::json& line : Lines("grpc"))
    errors += line["level"] == "warning" ? size_t{1} : 0;
  EXPECT_GE(errors, 21u);
  EXPECT_LE(errors, static_cast<size_t>(20 * seconds + 1));
  size_t left_out = 0;
  for (const nlohmann::json& line : Lines("grpc_not_logged")) {
    left_out += line["messages"].get<size_t>();
  }
  EXPECT_EQ(errors + left_out, 5001u);
}

TEST_F(RpcCallTest, SlowCallsAreWarnings) {
  log_->SetLevel(program::LogLevel::kWarning);
  Serve(absl::ZeroDuration());
  Context context;
  EXPECT_THAT(GetMemory(&context, "m"), RpcOk());
  ASSERT_EQ(Lines("call_slow").size(), 1u);
  EXPECT_EQ(Lines("call_slow")[0]["code"], "OK");
}

TEST_F(RpcCallTest, StreamsOfATenantAreBoundedAndOthersHaveTheirOwn) {
  service::QuotaSettings quotas;
  quotas.defaults[service::Quota::kStreams] = 1;
  harness_->quotas().Set(quotas);
  v1::QueryRequest request;
  request.set_tenant("t");
  request.set_memory("m");
  request.add_queries()->mutable_values()->Add(0.0);
  request.mutable_queries(0)->mutable_values()->Add(0.0);
  v1::QueryResponse response;
  Context first_context;
  const auto first = memories_->QueryStream(&first_context);
  EXPECT_TRUE(first->Write(request));
  EXPECT_TRUE(first->Read(&response));
  EXPECT_TRUE(first->Write(request));
  EXPECT_TRUE(first->Read(&response)) << "a stream has one place, not one a message";
  {
    // Of another kind, and yet the same tenant's.
    Context context;
    const auto stream = memories_->InsertStream(&context);
    v1::InsertStreamRequest insert;
    insert.set_tenant("t");
    insert.set_memory("m");
    insert.set_sequence(1);
    Fill(service::Spiral(1), insert.mutable_tokens());
    stream->Write(insert);
    v1::InsertStreamResponse acknowledged;
    EXPECT_FALSE(stream->Read(&acknowledged));
    const grpc::Status refused = stream->Finish();
    EXPECT_THAT(refused, RpcFails(grpc::StatusCode::RESOURCE_EXHAUSTED, "quota streams"));
    internal::RetryInfo retry;
    EXPECT_TRUE(DetailOf(refused, "RetryInfo", &retry));
  }
  EXPECT_EQ(service::Tokens(harness_, "m"), 0u);
  EXPECT_THAT(harness_->CreateTenant("another", {}), service::IsOk());
  EXPECT_THAT(harness_->CreateMemory("another", "m", service::SmallConfig(), {}), service::IsOk());
  {
    Context context;
    const auto stream = memories_->QueryStream(&context);
    v1::QueryRequest other = request;
    other.set_tenant("another");
    EXPECT_TRUE(stream->Write(other));
    EXPECT_TRUE(stream->Read(&response));
    stream->WritesDone();
    EXPECT_THAT(stream->Finish(), RpcOk());
  }
  first->WritesDone();
  EXPECT_THAT(first->Finish(), RpcOk());
  // The place is free once the handler is through, which may be a moment behind the answer.
  grpc::Status status;
  for (int tries = 0; tries < 1000; ++tries) {
    Context context;
    const auto stream = memories_->QueryStream(&context);
    stream->Write(request);
    stream->WritesDone();
    while (stream->Read(&response)) {
    }
    status = stream->Finish();
    if (status.ok()) break;
  }
  EXPECT_THAT(status, RpcOk());
}

TEST_F(RpcCallTest, EveryCallIsCountedOnce) {
  Context fine;
  EXPECT_THAT(GetMemory(&fine, "m"), RpcOk());
  Context absent;
  EXPECT_FALSE(GetMemory(&absent, "absent").ok());
  {
    Context context;
    context.AddMetadata("x-request-id", "a-stream");
    const auto stream = memories_->InsertStream(&context);
    v1::InsertStreamRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    request.set_sequence(1);
    Fill(service::Spiral(3), request.mutable_tokens());
    EXPECT_TRUE(stream->Write(request));
    stream->WritesDone();
    v1::InsertStreamResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_THAT(stream->Finish(), RpcOk());
    EXPECT_EQ(Metadata(context, "x-request-id"), "a-stream");
  }
  {
    Context context;
    const auto stream = memories_->QueryStream(&context);
    v1::QueryRequest request;
    request.set_tenant("t");
    request.set_memory("m");
    EXPECT_TRUE(stream->Write(request));
    v1::QueryResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  server_.reset();  // every call is over then
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/GetMemory"), 2);
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/GetMemory OK"), 1);
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/GetMemory NOT_FOUND"), 1);
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/InsertStream"), 1);
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/InsertStream OK"), 1);
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/QueryStream"), 1);
  EXPECT_EQ(observer_.Count("lethe.v1.MemoryService/QueryStream INVALID_ARGUMENT"), 1);
  const auto lines = Lines("call");
  EXPECT_EQ(lines.size(), 4u);
  for (const nlohmann::json& line : lines) EXPECT_EQ(line["tenant"], "t") << line;
}

}  // namespace
}  // namespace lethe::rpc
