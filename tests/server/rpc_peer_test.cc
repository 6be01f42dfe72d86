// Peers that send nothing, take nothing, or send what is meant to become large; connections; and a
// stop in the middle of calls.
#include <arpa/inet.h>
#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "lethe/v1/backup_service.grpc.pb.h"
#include "server/rpc/parse.h"
#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;
using service::Fails;
using service::IsOk;
using testing::HasSubstr;

// Calls of this method that never send their request, or never take the answer to this one, on
// connections of their own; cancelled when it goes.
class HalfOpenCalls {
 public:
  HalfOpenCalls(uint16_t port,
                const std::string& method,
                int connections,
                int calls_each,
                const google::protobuf::Message* request = nullptr) {
    for (int c = 0; c < connections; ++c) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      // What is not taken waits at the server, not in the 4 MiB that a client offers by itself.
      arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 10'000);
      arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
      const auto channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                                     grpc::InsecureChannelCredentials(), arguments);
      stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
      for (int i = 0; i < calls_each; ++i) {
        contexts_.push_back(std::make_unique<grpc::ClientContext>());
        calls_.push_back(stubs_.back()->PrepareCall(contexts_.back().get(), method, &queue_));
        calls_.back()->StartCall(nullptr);
      }
    }
    for (size_t i = 0; i < calls_.size(); ++i) Wait();
    if (request == nullptr) return;
    const grpc::ByteBuffer bytes = SerializeMessage(*request);
    for (const auto& call : calls_) call->Write(bytes, nullptr), Wait();
  }
  ~HalfOpenCalls() {
    for (const auto& context : contexts_) context->TryCancel();
    for (const auto& call : calls_) call->Finish(&status_, nullptr), Wait();
    queue_.Shutdown();
  }
  // How the first of them ends; of an answer that waited there may be a part.
  grpc::Status FirstEnds() {
    grpc::Status status;
    grpc::ByteBuffer part;
    calls_.front()->Read(&part, nullptr);
    Wait();
    calls_.front()->Finish(&status, nullptr);
    Wait();
    calls_.erase(calls_.begin());
    return status;
  }

 private:
  void Wait() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }

  grpc::CompletionQueue queue_;
  grpc::Status status_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls_;
};

// Lets every call in, and one wait on its way in.
class DoorPolicy final : public access::Policy {
 public:
  // The call that is let wait, counted from 1; each call asks at its beginning and, since what it
  // is told never lasts, for each of its messages.
  explicit DoorPolicy(int waits) : waits_(waits) {}
  absl::StatusOr<std::shared_ptr<const access::Identity>> Authenticate(const access::Credentials&,
                                                                       absl::Time) const override {
    if (++asked_ == waits_) door.WaitHere();
    access::Identity identity{.name = "caller", .expires = absl::InfinitePast()};
    for (const access::Role role : access::kRoles) identity.grants.push_back({"*", role});
    return std::make_shared<const access::Identity>(identity);
  }
  mutable service::Door door;

 private:
  const int waits_;
  mutable std::atomic<int> asked_{0};
};

class PeerTest : public RpcTest {
 protected:
  static v1::QueryRequest Query() {
    v1::QueryRequest query;
    query.set_tenant("t");
    query.set_memory("m");
    query.add_queries()->mutable_values()->Resize(2, 0.0);
    return query;
  }
  grpc::Status GetTenant() {
    v1::GetTenantRequest request;
    request.set_name("t");
    v1::Tenant tenant;
    Context context;
    return tenants_->GetTenant(&context, request, &tenant);
  }
  // Waits until a call of this kind is served again.
  template <typename Open>
  static grpc::Status SoonOk(const Open& open) {
    grpc::Status status;
    for (const absl::Time end = absl::Now() + absl::Seconds(10); absl::Now() < end;) {
      status = open();
      if (status.ok()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return status;
  }
  grpc::Status EmptyInsertStream() {
    Context context;
    const auto stream = memories_->InsertStream(&context);
    stream->WritesDone();
    return stream->Finish();
  }
  grpc::Status EmptyQueryStream() {
    Context context;
    const auto stream = memories_->QueryStream(&context);
    stream->WritesDone();
    return stream->Finish();
  }
  // A server whose nth question about a caller waits.
  void StartWithDoor(int waits) {
    policy_ = std::make_shared<DoorPolicy>(waits);
    access_ = std::make_unique<access::Access>(policy_);
    gate_ = std::make_unique<access::Gate>(access_.get(), nullptr, nullptr);
    ServerOptions options;
    options.hooks.gate = gate_.get();
    StartServer(options);
  }
  ~PeerTest() override { server_.reset(); }

  std::shared_ptr<DoorPolicy> policy_;
  std::unique_ptr<access::Access> access_;
  std::unique_ptr<access::Gate> gate_;
};

constexpr char kQueryMethod[] = "/lethe.v1.MemoryService/Query";

TEST_F(PeerTest, CallsWithoutARequestKeepNobodyOut) {
  const HalfOpenCalls calls(server_->port(), kQueryMethod, 6, 100);
  const absl::Time begin = absl::Now();
  // Refused with a delay at most until those before have waited for a second.
  EXPECT_THAT(SoonOk([this] { return GetTenant(); }), RpcOk());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
}

TEST_F(PeerTest, CallsWithoutARequestHoldNoThread) {
  // Enough for one who asks after the other: a thread is back a little later than its answer.
  StartServer({.max_threads = std::thread::hardware_concurrency() + 8});
  const HalfOpenCalls calls(server_->port(), kQueryMethod, 2, 100);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(GetTenant(), RpcOk());
}

TEST_F(PeerTest, CallsBeyondTheThreadsAreRefusedWithADelay) {
  StartServer({.max_threads = 3});  // whatever the number of processors
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  // One holds the writer, one waits for it; a thread is left to say so to others.
  std::vector<std::thread> inserts;
  for (const char* prefix : {"a", "b"}) {
    inserts.emplace_back([&, prefix] {
      v1::InsertResponse response;
      EXPECT_THAT(
          Call(*memories_, &v1::MemoryService::Stub::Insert, InsertOf(2, prefix), &response),
          RpcOk());
    });
  }
  door.WaitUntilSomebodyWaits();
  grpc::Status status;
  for (const absl::Time end = absl::Now() + absl::Seconds(10); absl::Now() < end;) {
    status = GetTenant();
    if (!status.ok()) break;  // both are running
  }
  EXPECT_THAT(status, RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_THAT(status.error_message(), HasSubstr("too many calls are running"));
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  door.Open();
  for (std::thread& insert : inserts) insert.join();
  EXPECT_THAT(GetTenant(), RpcOk());
}

TEST_F(PeerTest, ARequestThatDoesNotArriveEndsItsCall) {
  StartServer({.peers = {.patience = absl::Milliseconds(200)}});
  HalfOpenCalls calls(server_->port(), kQueryMethod, 1, 1);
  const grpc::Status status = calls.FirstEnds();
  EXPECT_THAT(status, RpcCode(StatusCode::DEADLINE_EXCEEDED));
  EXPECT_THAT(status.error_message(), HasSubstr("200ms"));
  HalfOpenCalls exports(server_->port(), "/lethe.v1.CertificateService/Export", 1, 1);
  EXPECT_THAT(exports.FirstEnds(), RpcCode(StatusCode::UNAVAILABLE));
}

TEST_F(PeerTest, PlacesAreRefusedWhileAllAreFresh) {
  StartServer({.peers = {.patience = absl::Minutes(1), .max_requests = 1}});
  HalfOpenCalls first(server_->port(), kQueryMethod, 1, 1);
  grpc::Status status;
  while ((status = GetTenant()).ok()) {  // until the first one has its place
  }
  EXPECT_THAT(status, RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  EXPECT_THAT(SoonOk([this] { return GetTenant(); }), RpcOk()) << "its place is given away";
  EXPECT_THAT(first.FirstEnds(), RpcCode(StatusCode::RESOURCE_EXHAUSTED));
}

TEST_F(PeerTest, AnswersThatAreNotTakenAreBounded) {
  harness_.Insert("m", service::Spiral(300));
  StartServer({.peers = {.patience = absl::Minutes(1), .max_answer_bytes = 100'000}});
  v1::QueryRequest large = Query();
  for (int i = 1; i < 10000; ++i) *large.add_queries() = large.queries(0);
  HalfOpenCalls first(server_->port(), kQueryMethod, 1, 1, &large);
  grpc::Status status;
  for (const absl::Time end = absl::Now() + absl::Seconds(10); absl::Now() < end;) {
    status = GetTenant();
    if (!status.ok()) break;  // the answer is there, and waits
  }
  EXPECT_THAT(status, RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_THAT(status.error_message(), HasSubstr("answers are not taken"));
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  EXPECT_THAT(SoonOk([this] { return GetTenant(); }), RpcOk()) << "it is ended for others";
  EXPECT_FALSE(first.FirstEnds().ok());
}

// Whatever a look at a finished call may throw, it is answered, and the others are served.
TEST_F(PeerTest, ACallThatCannotBeCountedIsAnswered) {
  class Observer final : public service::CallObserver, public service::MethodObserver {
   public:
    service::MethodObserver* ForMethod(absl::string_view, absl::string_view, bool) override {
      return this;
    }
    void Started() override {}
    void Ended(absl::StatusCode, absl::Duration) override {
      if (throws) throw std::bad_alloc();
    }
    std::atomic<bool> throws{true};
  };
  Observer observer;
  ServerOptions options;
  options.hooks.observer = &observer;
  StartServer(options);
  EXPECT_THAT(GetTenant(), RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  v1::GetTenantRequest absent;
  absent.set_name("absent");
  v1::Tenant tenant;
  EXPECT_THAT(Call(*tenants_, &v1::TenantService::Stub::GetTenant, absent, &tenant),
              RpcCode(StatusCode::NOT_FOUND));
  observer.throws = false;
  EXPECT_THAT(GetTenant(), RpcOk());
  server_.reset();
}

TEST_F(PeerTest, ASilentStreamLosesItsPlace) {
  ServerOptions options;
  options.max_open_streams = 1;
  options.peers.patience = absl::Milliseconds(300);
  StartServer(options);
  Context insert_context;
  const auto inserts = memories_->InsertStream(&insert_context);
  Context query_context;
  const auto queries = memories_->QueryStream(&query_context);
  EXPECT_THAT(inserts->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  EXPECT_THAT(queries->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  EXPECT_THAT(SoonOk([this] { return EmptyInsertStream(); }), RpcOk());
  EXPECT_THAT(SoonOk([this] { return EmptyQueryStream(); }), RpcOk());
}

TEST_F(PeerTest, AStreamMayBeIdleBetweenMessagesForLonger) {
  ServerOptions options;
  options.peers.idle = absl::Milliseconds(400);
  StartServer(options);
  Context insert_context;
  const auto inserts = memories_->InsertStream(&insert_context);
  v1::InsertStreamRequest message;
  message.set_tenant("t");
  message.set_memory("m");
  message.set_sequence(1);
  Fill(service::Spiral(2), message.mutable_tokens());
  ASSERT_TRUE(inserts->Write(message));
  v1::InsertStreamResponse acknowledgement;
  ASSERT_TRUE(inserts->Read(&acknowledgement));
  Context query_context;
  const auto queries = memories_->QueryStream(&query_context);
  ASSERT_TRUE(queries->Write(Query()));
  v1::QueryResponse answer;
  ASSERT_TRUE(queries->Read(&answer));
  EXPECT_FALSE(inserts->Read(&acknowledgement));
  const grpc::Status status = inserts->Finish();
  EXPECT_THAT(status, RpcCode(StatusCode::UNAVAILABLE));
  EXPECT_THAT(status.error_message(), HasSubstr("400ms"));
  EXPECT_FALSE(queries->Read(&answer));
  EXPECT_THAT(queries->Finish(), RpcCode(StatusCode::UNAVAILABLE));
}

TEST_F(PeerTest, AStreamThatTakesNothingLosesItsPlace) {
  harness_.Insert("m", service::Spiral(300));
  ServerOptions options;
  options.max_open_streams = 1;
  options.peers.patience = absl::Milliseconds(500);
  StartServer(options);
  // More than what flow control lets go to somebody who does not read.
  const absl::Time begin = absl::Now();
  std::vector<std::thread> writers;
  Context insert_context;
  const auto inserts = memories_->InsertStream(&insert_context);
  writers.emplace_back([&] {
    v1::InsertStreamRequest message;
    message.set_tenant("t");
    message.set_memory("m");
    for (int i = 0; i < 5000; ++i) {  // each is rejected, by its id
      message.add_tokens()->set_id(absl::StrCat(std::string(200, 'x'), i));
    }
    for (uint64_t sequence = 1; sequence <= 60; ++sequence) {
      message.set_sequence(sequence);
      if (!inserts->Write(message)) return;
    }
    ADD_FAILURE() << "all of it was taken";
  });
  Context query_context;
  const auto queries = memories_->QueryStream(&query_context);
  writers.emplace_back([&] {
    v1::QueryRequest query = Query();
    for (int i = 1; i < 1000; ++i) *query.add_queries() = query.queries(0);
    query.set_top_tokens(1000);
    for (int i = 0; i < 300; ++i) {
      if (!queries->Write(query)) return;
    }
    ADD_FAILURE() << "all of it was taken";
  });
  for (std::thread& writer : writers) writer.join();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20)) << "ended by the deadline of the caller";
  EXPECT_THAT(SoonOk([this] { return EmptyInsertStream(); }), RpcOk());
  EXPECT_THAT(SoonOk([this] { return EmptyQueryStream(); }), RpcOk());
}

TEST_F(PeerTest, ACallWithoutAThreadIsRefusedAndForgotten) {
  ServerOptions options;
  options.max_open_streams = 1;
  std::atomic<int> left{1};  // that can be had
  options.start_thread = [&left](std::function<void()> run) {
    if (left-- <= 0) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    return std::thread(std::move(run));
  };
  StartServer(options);
  for (int i = 0; i < 3; ++i) {
    const grpc::Status refused = EmptyInsertStream();
    EXPECT_THAT(refused, RpcCode(StatusCode::RESOURCE_EXHAUSTED));
    EXPECT_THAT(refused.error_message(), HasSubstr("thread"));
    EXPECT_THAT(GetTenant(), RpcCode(StatusCode::RESOURCE_EXHAUSTED))
        << "nobody would wait for other calls";
  }
  left = 100;
  EXPECT_THAT(EmptyInsertStream(), RpcOk()) << "the place is free";
  EXPECT_THAT(GetTenant(), RpcOk());
  server_->Drain(absl::Seconds(5));  // nothing is told to stop that is gone
  left = 0;
  options.listen = "127.0.0.1:0";
  EXPECT_EQ(RpcServer::Start(&*harness_, options).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// --- Messages that are small on the wire

// What this process used at most since the last call, in bytes.
size_t PeakMemory() {
  size_t peak = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> peak;
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  return peak << 10;
}

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Repeated(const std::string& piece, size_t bytes) {
  std::string all;
  all.reserve(bytes + piece.size());
  while (all.size() < bytes) all += piece;
  return all;
}

TEST(ParseTest, CountsBeforeItMakesAnything) {
  constexpr size_t kBytes = (size_t{16} << 20) - 64;
  const auto growth = [](const std::string& text, google::protobuf::Message* message,
                         const char* field) {
    const grpc::ByteBuffer bytes = BytesOf(text);
    PeakMemory();
    const size_t before = PeakMemory();
    EXPECT_THAT(ParseMessage(bytes, message), Fails(service::kInvalid, field));
    EXPECT_LT(PeakMemory(), before + (size_t{64} << 20)) << field;
  };
  v1::InsertStreamRequest stream;
  growth(Repeated(std::string("\x22\x00", 2), kBytes), &stream, "tokens");
  v1::QueryRequest query;
  growth(Repeated(std::string("\x1a\x00", 2), kBytes), &query, "queries");
  v1::InsertRequest insert;
  growth(Repeated(std::string("\x1a\x00", 2), kBytes), &insert, "tokens");
  // The labels of one token.
  std::string labels = Repeated(std::string("\x32\x00", 2), kBytes - 16);
  std::string text = "\x1a";
  {
    google::protobuf::io::StringOutputStream out(&text);
    google::protobuf::io::CodedOutputStream(&out).WriteVarint32(
        static_cast<uint32_t>(labels.size()));
  }
  growth(absl::StrCat(text, labels), &insert, "tokens[0].labels");
  // 10,000 tokens with 800 labels each: no field has too many, but all of them do.
  const std::string token = absl::StrCat("\x1a", std::string("\x80\x0c", 2),  // 1,536 bytes
                                         Repeated(std::string("\x32\x00", 2), 1536));
  growth(Repeated(token, kBytes), &insert, "request");
  // Fields that are not known, and known ones in another form, are kept one by one.
  growth(Repeated(std::string("\xfa\x7f\x00", 3), kBytes), &insert, "request");
  growth(Repeated(std::string("\x08\x00", 2), kBytes), &insert, "request");
  // The same inside of a group, and groups in groups.
  growth(absl::StrCat("\xfb\x7f", Repeated(std::string("\x08\x00", 2), kBytes)), &insert,
         "request");
  growth(Repeated("\xfb\x7f", 64), &insert, "request");
}

TEST(ParseTest, TheLargestThatIsAllowed) {
  v1::InsertRequest request;
  request.set_tenant("t");
  for (int i = 0; i < 10000; ++i) {
    v1::Token* token = request.add_tokens();
    token->set_id(absl::StrCat("a", i));
    token->add_key(i);
    for (int label = 0; label < 16; ++label) {
      (*token->mutable_labels())[absl::StrCat("l", label)] = std::string(1, 'v');
    }
  }
  v1::InsertRequest read;
  EXPECT_THAT(ParseMessage(SerializeMessage(request), &read), IsOk());
  EXPECT_EQ(read.SerializeAsString().size(), request.SerializeAsString().size());
  request.add_tokens();
  EXPECT_THAT(ParseMessage(SerializeMessage(request), &read), Fails(service::kInvalid, "tokens"));
}

// --- Connections

// Connected, and silent.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~RawConnection() { close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

 private:
  const int socket_;
};

TEST_F(PeerTest, ConnectionsAboveTheBoundWaitForOneToEnd) {
  ServerOptions options;
  options.max_connections = 3;
  StartServer(options);
  std::vector<std::unique_ptr<RawConnection>> raw;
  for (int i = 0; i < 3; ++i) raw.push_back(std::make_unique<RawConnection>(server_->port()));
  const auto query = [this](absl::Duration limit) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
    v1::QueryResponse response;
    return memories_->Query(&context, Query(), &response);
  };
  EXPECT_THAT(query(absl::Milliseconds(500)), RpcCode(StatusCode::DEADLINE_EXCEEDED));
  raw.pop_back();
  EXPECT_THAT(query(absl::Seconds(20)), RpcOk());
  // Many that come and go do not use it up.
  for (int i = 0; i < 20; ++i) {
    const RawConnection more(server_->port());
  }
  EXPECT_THAT(query(absl::Seconds(20)), RpcOk());
}

TEST_F(PeerTest, AnAddressIsListenedOnByOne) {
  ServerOptions options;
  options.listen = absl::StrCat("localhost:", server_->port());
  const auto second = RpcServer::Start(&*harness_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another server"));
  options.listen = "no-such-host.invalid:0";
  EXPECT_FALSE(RpcServer::Start(&*harness_, options).ok());
  options.listen = "localhost:0";
  const auto other = RpcServer::Start(&*harness_, options);
  ASSERT_TRUE(other.ok()) << other.status();
  const auto channel = grpc::CreateChannel(absl::StrCat("localhost:", (*other)->port()),
                                           grpc::InsecureChannelCredentials());
  Context context;
  v1::QueryResponse response;
  EXPECT_THAT(v1::MemoryService::NewStub(channel)->Query(&context, Query(), &response), RpcOk());
}

// --- A stop in the middle

TEST_F(PeerTest, AStopLetsAQueryStreamAnswerWhatItHasRead) {
  StartWithDoor(2);
  Context context;
  const auto stream = memories_->QueryStream(&context);
  ASSERT_TRUE(stream->Write(Query()));
  policy_->door.WaitUntilSomebodyWaits();
  server_->BeginDrain();
  policy_->door.Open();
  v1::QueryResponse answer;
  EXPECT_TRUE(stream->Read(&answer)) << "of the query that had been read";
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_THAT(stream->Finish(), RpcCode(StatusCode::UNAVAILABLE));
}

TEST_F(PeerTest, AStopLetsAnExportEnd) {
  StartWithDoor(2);
  Context context;
  v1::ExportRequest request;
  request.set_tenant("t");
  const auto reader = certificates_->Export(&context, request);
  policy_->door.WaitUntilSomebodyWaits();
  server_->BeginDrain();
  policy_->door.Open();
  bool done = false;
  for (v1::ExportPiece piece; reader->Read(&piece);) done = piece.done();
  EXPECT_THAT(reader->Finish(), RpcOk());
  EXPECT_TRUE(done);
}

TEST_F(PeerTest, WhatWaitsForItsPeerIsCancelledWhenTheTimeIsOver) {
  StartWithDoor(1);
  const auto backups = v1::BackupService::NewStub(channel_);
  Context context;
  v1::RestoreBackupResponse response;
  const auto restore = backups->RestoreBackup(&context, &response);
  policy_->door.WaitUntilSomebodyWaits();  // it has its place
  policy_->door.Open();
  const absl::Time begin = absl::Now();
  server_->Drain(absl::Seconds(1));
  EXPECT_GE(absl::Now() - begin, absl::Seconds(1));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(6));
  EXPECT_FALSE(restore->Finish().ok());
}

}  // namespace
}  // namespace lethe::rpc
