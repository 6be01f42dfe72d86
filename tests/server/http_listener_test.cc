// The listener against what comes over a socket: what it serves, what it refuses, what it bounds.
#include "server/http/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/http_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using service::IsOk;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

// A row of the table of access that is open to everybody.
constexpr char kOpenRow[] = "GET /openapi.json";
constexpr size_t kMostOfBody = size_t{64} << 10;
constexpr size_t kMuch = size_t{1} << 20;

class HttpListenerTest : public testing::Test {
 protected:
  void SetUp() override { Serve({.timeout = milliseconds(1000)}); }
  void Serve(HttpOptions options) {
    options.host = "127.0.0.1";
    listener_ = std::make_unique<HttpListener>(options);
    const auto add = [this](const std::string& method, const std::string& pattern, size_t body,
                            const Handler& handler, const std::string& row = kOpenRow) {
      listener_->routes().Add({.method = method,
                               .pattern = pattern,
                               .operation = row,
                               .max_body_bytes = body,
                               .handler = [this, handler](const auto& request, auto& call) {
                                 ++handled_;
                                 return handler(request, call);
                               }});
    };
    add("GET", "/here", 0, [](const HttpRequest&, HttpCall&) {
      return HttpResponse{.type = kPlainText, .body = "here\n"};
    });
    add("POST", "/echo", kMostOfBody, [](const HttpRequest& request, HttpCall&) {
      return HttpResponse{.body = request.body,
                          .headers = {{"X-Id", std::string(request.Header("x-id"))}}};
    });
    add("POST", "/much", kMuch, [](const HttpRequest& request, HttpCall&) {
      return HttpResponse{.body = absl::StrCat(request.body.size())};
    });
    add("GET", "/large", 0, [](const HttpRequest&, HttpCall&) {
      return HttpResponse{.body = std::string(size_t{64} << 20, 'x')};
    });
    add("GET", "/wait", 0,
        [this](const HttpRequest&, HttpCall& call) -> absl::StatusOr<HttpResponse> {
          door_.WaitHere();
          if (absl::Status wanted = call.options().still_wanted(); !wanted.ok()) return wanted;
          return HttpResponse();
        });
    add("GET", "/throws", 0, [](const HttpRequest&, HttpCall&) -> absl::StatusOr<HttpResponse> {
      throw std::runtime_error("a secret");
    });
    add(
        "GET", "/rowless", 0, [](const HttpRequest&, HttpCall&) { return HttpResponse(); },
        "GET /no such row");
    ASSERT_THAT(listener_->Start(), IsOk());
  }
  uint16_t port() const { return listener_->port(); }
  Page Get(const std::string& path) { return Fetch(port(), "GET", path); }
  // The first answer to these bytes, after which the server must close the connection.
  Page Last(const std::string& bytes) {
    Wire wire(port());
    wire.Send(bytes);
    const Page page = wire.ReceivePage();
    EXPECT_EQ(wire.ReceiveAll(), "");
    EXPECT_TRUE(wire.ended());
    return page;
  }

  service::Door door_;
  std::atomic<int> handled_{0};
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersAndKeepsTheConnection) {
  Wire wire(port());
  for (int i = 0; i < 3; ++i) {
    wire.Send(RequestText("GET", "/here"));
    const Page page = wire.ReceivePage();
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.body, "here\n");
    EXPECT_EQ(page.headers.at("content-type"), kPlainText);
    EXPECT_EQ(page.headers.at("cache-control"), "no-store");
    EXPECT_EQ(page.headers.at("x-content-type-options"), "nosniff");
    EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("default-src 'none'"));
    EXPECT_EQ(page.headers.count("access-control-allow-origin"), 0u);
    EXPECT_EQ(page.headers.count("server"), 0u);
    EXPECT_EQ(page.headers.count("strict-transport-security"), 0u);
    EXPECT_THAT(page.headers.at("date"), HasSubstr(" GMT"));
  }
  // Two requests in one piece: two answers, in order.
  wire.Send(RequestText("POST", "/echo", {"Content-Type: application/json"}, "1") +
            RequestText("POST", "/echo", {"Content-Type: application/json; charset=utf-8"}, "2"));
  EXPECT_EQ(wire.ReceivePage().body, "1");
  EXPECT_EQ(wire.ReceivePage().body, "2");
  wire.Send(RequestText("HEAD", "/here", {"Connection: close"}));
  const std::string head = wire.ReceiveAll();
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  EXPECT_EQ(ParsePage(head).headers.at("connection"), "close");
  EXPECT_TRUE(wire.ended());
}

TEST_F(HttpListenerTest, ChunksAndContinueAreUnderstood) {
  Wire wire(port());
  wire.Send(RequestText("POST", "/echo",
                        {"Content-Type: application/json", "Transfer-Encoding: chunked"}) +
            "3\r\n[1,\r\n2;ext=1\r\n2]\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(wire.ReceivePage().body, "[1,2]");
  wire.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(wire.Receive(), "HTTP/1.1 100 Continue\r\n\r\n");
  wire.Send("true");
  EXPECT_EQ(wire.ReceivePage().body, "true");
  EXPECT_EQ(Last("GET /here HTTP/1.0\r\n\r\n").status, 200);
}

TEST_F(HttpListenerTest, WhatIsNotThereIsRefusedBeforeItsBody) {
  EXPECT_EQ(Get("/nowhere").status, 404);
  EXPECT_EQ(Get("/rowless").status, 404);
  EXPECT_EQ(Get("/here/").status, 404);
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FROBNICATE"}) {
    const Page page = Fetch(port(), method, "/here");
    EXPECT_EQ(page.status, 405) << method;
    EXPECT_EQ(page.headers.at("allow"), "GET, HEAD");
  }
  // None of these sends its body, and each is answered.
  const auto post = [](const std::string& path, const std::string& headers) {
    return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
  };
  EXPECT_EQ(Last(post("/nowhere", "Content-Length: 1000\r\n")).status, 404);
  EXPECT_EQ(Last(post("/echo", "Content-Length: 1000\r\n")).status, 415);
  EXPECT_EQ(Last(post("/echo", "Content-Length: 9\r\nContent-Type: text/plain\r\n")).status, 415);
  // A zip of zeros is refused by its header.
  for (const char* coding : {"gzip", "deflate", "br", "identity, gzip"}) {
    const Page zip = Last(post("/echo", absl::StrCat("Content-Length: 1000\r\nContent-Type: "
                                                     "application/json\r\nContent-Encoding: ",
                                                     coding, "\r\n")));
    EXPECT_EQ(zip.status, 415) << coding;
    EXPECT_THAT(zip.body, HasSubstr("content-encoding"));
  }
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(
      Last(post("/echo", absl::StrCat(json, "Content-Length: ", kMostOfBody + 1, "\r\n"))).status,
      413);
  EXPECT_EQ(Last(post("/echo", json + "Content-Length: 99999999999999999\r\n")).status, 413);
  EXPECT_EQ(Last(post("/echo", json + "Content-Length: 4\r\nExpect: a-miracle\r\n")).status, 417);
  EXPECT_EQ(Last("GET /here HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc").status,
            400);
  EXPECT_EQ(handled_, 0);
}

// Chunks have no length in advance: the limit is on what has come.
TEST_F(HttpListenerTest, AChunkedBodyIsBoundedToo) {
  Wire wire(port());
  wire.Send(RequestText("POST", "/echo",
                        {"Content-Type: application/json", "Transfer-Encoding: chunked"}));
  const std::string chunk = absl::StrCat("1000\r\n", std::string(0x1000, ' '), "\r\n");
  for (size_t i = 0; i <= kMostOfBody / 0x1000; ++i) wire.Send(chunk);
  EXPECT_EQ(wire.ReceivePage().status, 413);
  EXPECT_EQ(wire.ReceiveAll(), "");
  EXPECT_EQ(handled_, 0);
}

// Shapes by which one server has been made to see one request where another sees two.
TEST_F(HttpListenerTest, WhatCouldMeanTwoThingsEndsTheConnection) {
  const std::string inner = "GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string post =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  for (const std::string& headers :
       std::vector<std::string>{"Content-Length: 4\r\nContent-Length: 5\r\n",
                                "Content-Length: 4\r\nContent-Length: 4\r\n",
                                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                                "Transfer-Encoding: gzip\r\n",
                                "Transfer-Encoding: gzip, chunked\r\n",
                                "Transfer-Encoding: chunked, gzip\r\n",
                                "Transfer-Encoding: identity\r\n",
                                "Transfer-Encoding: xchunked\r\n",
                                "Transfer-Encoding : chunked\r\n",
                                "Content-Length: +4\r\n",
                                "Content-Length: -1\r\n",
                                "Content-Length: 0x4\r\n",
                                "Content-Length: 4, 4\r\n",
                                "Content-Length: 18446744073709551617\r\n",
                                "Content-Length:\r\n",
                                "X: a\rY: b\r\n",
                                "X: a\nContent-Length: 4\n",
                                std::string("X: a\0b\r\n", 8),
                                "NoColon\r\n",
                                ": no name\r\n",
                                "Host: other\r\n",
                                "Content-Type: text/plain\r\n"}) {
    SCOPED_TRACE(headers);
    const Page page = Last(post + headers + "\r\n" + inner);
    EXPECT_EQ(page.status, 400);
    EXPECT_EQ(page.headers.at("connection"), "close");
  }
  for (const char* chunks :
       {"-2\r\nab\r\n0\r\n\r\n", "ffffffffffffffff\r\nab\r\n", "10000000000000002\r\nab\r\n",
        "0x2\r\nab\r\n0\r\n\r\n", " 2\r\nab\r\n0\r\n\r\n", "2\nab\n0\n\n", "2\r\nabc\r\n0\r\n\r\n",
        "\r\nab\r\n0\r\n\r\n", "z\r\n"}) {
    SCOPED_TRACE(chunks);
    const Page page = Last(post + "Transfer-Encoding: chunked\r\n\r\n" + chunks + inner);
    EXPECT_THAT(page.status, testing::AnyOf(400, 413));
  }
  EXPECT_EQ(Last("GET /here HTTP/1.1\r\n\r\n").status, 400);  // no Host
  for (const char* line :
       {"GET http://h/here HTTP/1.1", "GET here HTTP/1.1", "GET * HTTP/1.1", "GET /here#x HTTP/1.1",
        "GET /a\\b HTTP/1.1", "GET /here%00 HTTP/1.1", "GET /%0d%0aX:%20y HTTP/1.1",
        "GET /here/../here HTTP/1.1", "GET /here HTTP/2.0", "GET /here HTTP/0.9", "GET /here",
        "GET  /here HTTP/1.1", " GET /here HTTP/1.1", "G\tT /here HTTP/1.1", "PRI * HTTP/2.0"}) {
    EXPECT_EQ(Last(absl::StrCat(line, "\r\nHost: localhost\r\n\r\n")).status, 400) << line;
  }
  EXPECT_EQ(handled_, 0);
  EXPECT_EQ(Get("/here").status, 200);
}

TEST_F(HttpListenerTest, GarbageEndsItsConnectionOnly) {
  for (const std::string& garbage :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string(100, '\0'),
        std::string(1 << 20, 'A'), "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX: " + std::string(1 << 20, 'a') + "\r\n\r\n",
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)}) {
    Wire wire(port());
    wire.Send(garbage);
    wire.FinishSending();
    EXPECT_THAT(wire.ReceiveAll(), Not(HasSubstr(" 200 ")));
  }
  EXPECT_EQ(
      Last("GET /here HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n")
          .status,
      431);
  std::string many = "GET /here HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 5'000; ++i) absl::StrAppend(&many, "a:b\r\n");
  EXPECT_EQ(Last(many + "\r\n").status, 431);
  EXPECT_EQ(Get("/here").status, 200);
}

// A folded line belongs to the value before it (RFC 9112, 5.2), and is no header of its own.
TEST_F(HttpListenerTest, AFoldedLineIsNoHeader) {
  Wire wire(port());
  wire.Send("GET /here HTTP/1.1\r\nHost: localhost\r\nX: a\r\n Content-Length: 4\r\n\r\n" +
            RequestText("GET", "/here"));
  EXPECT_EQ(wire.ReceivePage().body, "here\n");
  EXPECT_EQ(wire.ReceivePage().body, "here\n");
}

// What a client calls itself is no word of the server's.
TEST_F(HttpListenerTest, HeadersCannotBeMadeUp) {
  const Page page = Fetch(
      port(), "POST", "/echo",
      {"Content-Type: application/json", "X-Id: a%0d%0aSet-Cookie: b", "REMOTE_ADDR: 10.0.0.1"},
      "{}");
  EXPECT_EQ(page.headers.at("x-id"), "a%0d%0aSet-Cookie: b");  // as it came, on one line
  EXPECT_EQ(page.headers.count("set-cookie"), 0u);
}

TEST_F(HttpListenerTest, SilentAndSlowConnectionsEnd) {
  listener_.reset();
  Serve({.timeout = milliseconds(300), .body_timeout = milliseconds(300)});
  Wire silent(port());
  Wire head(port());
  head.Send("GET /here HTTP/1.1\r\nHost:");
  Wire body(port());
  body.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "100\r\n\r\n[");
  Wire idle(port());
  idle.Send(RequestText("GET", "/here"));
  EXPECT_EQ(idle.ReceivePage().status, 200);
  Wire reader(port());  // takes nothing of a large answer
  reader.Send(RequestText("GET", "/large"));
  // Bytes that keep coming do not extend the time for the whole.
  Wire dripping(port());
  const absl::Time begin = absl::Now();
  int sent = 0;
  while (absl::Now() - begin < absl::Seconds(5) && dripping.Send("G")) {
    ++sent;
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  EXPECT_GT(sent, 1);
  for (Wire* wire : {&silent, &head, &body, &idle}) {
    EXPECT_EQ(wire->ReceiveAll(), "");
    EXPECT_TRUE(wire->ended());
  }
  EXPECT_LT(reader.ReceiveAll().size(), size_t{64} << 20);
  EXPECT_TRUE(reader.ended());
  EXPECT_EQ(Get("/here").status, 200);
}

TEST_F(HttpListenerTest, CallsOfAConnectionAreBounded) {
  listener_.reset();
  Serve({.max_calls_a_connection = 3});
  Wire wire(port());
  for (int i = 0; i < 3; ++i) {
    wire.Send(RequestText("GET", "/here"));
    EXPECT_EQ(wire.ReceivePage().headers.count("connection"), i == 2 ? 1u : 0u);
  }
  EXPECT_EQ(wire.ReceiveAll(), "");
  EXPECT_TRUE(wire.ended());
}

// Connections that say nothing hold no thread: with one thread, others are served at once.
TEST_F(HttpListenerTest, SilentConnectionsHoldNobodyUp) {
  listener_.reset();
  Serve({.threads = 1});
  std::vector<std::unique_ptr<Wire>> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(std::make_unique<Wire>(port()));
    silent.back()->Send(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n[");
  }
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Get("/here").status, 200);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(3));
}

// Descriptors stay bounded however many connect: beyond the bound nothing is accepted, and those
// that wait are served in the end.
TEST_F(HttpListenerTest, ConnectionsBeyondTheBoundWaitOutside) {
  listener_.reset();
  Serve({.max_connections = 3, .timeout = milliseconds(300)});
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  constexpr int kClients = 20;
  const auto before = descriptors();
  std::vector<std::unique_ptr<Wire>> silent;
  for (int i = 0; i < kClients; ++i) silent.push_back(std::make_unique<Wire>(port()));
  const absl::Time end = absl::Now() + absl::Milliseconds(200);
  std::ptrdiff_t most = 0;
  while (absl::Now() < end) most = std::max(most, descriptors() - before - kClients);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 4);  // one of them is just coming
  EXPECT_EQ(Get("/here").status, 200);
}

// Room is for what has come: many who announce much and send nothing keep nobody out.
TEST_F(HttpListenerTest, BodiesTakeRoomAsTheyArrive) {
  listener_.reset();
  Serve({.max_bodies_bytes = kMuch});
  const std::string head =
      absl::StrCat("POST /much HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                   "Content-Length: ", kMuch, "\r\n\r\n");
  const auto post = [&](size_t bytes) {
    return Fetch(port(), "POST", "/much", {"Content-Type: application/json"},
                 std::string(bytes, '1'));
  };
  std::vector<std::unique_ptr<Wire>> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<Wire>(port()));
    silent.back()->Send(head + "1");
  }
  EXPECT_EQ(post(600'000).body, "600000");
  EXPECT_EQ(post(kMuch).body, absl::StrCat(kMuch));
  // Now there is little left. The first has come that far when the others are refused.
  silent.front()->Send(std::string(900'000, '1'));
  Page page;
  const absl::Time end = absl::Now() + absl::Seconds(10);
  do page = post(300'000);
  while (page.status != 503 && absl::Now() < end);
  EXPECT_EQ(page.status, 503);
  EXPECT_EQ(page.headers.at("retry-after"), "1");
  // Small ones need none of it.
  EXPECT_EQ(post(60'000).body, "60000");
  silent.clear();
  do page = post(300'000);
  while (page.status == 503 && absl::Now() < end);
  EXPECT_EQ(page.body, "300000");
}

TEST_F(HttpListenerTest, CallsBeyondTheBoundAreRefused) {
  listener_.reset();
  Serve({.threads = 2, .max_calls = 1});
  std::thread waiting([&] { EXPECT_EQ(Get("/wait").status, 200); });
  door_.WaitUntilSomebodyWaits();
  const Page refused = Get("/here");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  door_.Open();
  waiting.join();
  EXPECT_EQ(Get("/here").status, 200);
}

TEST_F(HttpListenerTest, AStopLetsCallsAnswerAndWaitsForNobodyElse) {
  Wire silent(port());
  Wire idle(port());
  idle.Send(RequestText("GET", "/here"));
  EXPECT_EQ(idle.ReceivePage().status, 200);
  Page answer;
  std::thread waiting([&] { answer = Get("/wait"); });
  door_.WaitUntilSomebodyWaits();
  std::thread stopping([&] { listener_->Stop(); });
  EXPECT_EQ(idle.ReceiveAll(), "");  // the stop has begun
  EXPECT_TRUE(idle.ended());
  door_.Open();
  waiting.join();
  EXPECT_EQ(answer.status, 503);  // the call asked whether it is still wanted
  EXPECT_EQ(answer.headers.at("connection"), "close");
  stopping.join();
  listener_->Stop();
}

TEST_F(HttpListenerTest, AStopWaitsNoLongerThanItsGrace) {
  listener_.reset();
  Serve({.timeout = milliseconds(60'000)});
  Wire reader(port());  // takes nothing of a large answer
  reader.Send(RequestText("GET", "/large"));
  while (handled_ == 0) absl::SleepFor(absl::Milliseconds(1));
  const absl::Time begin = absl::Now();
  listener_->Stop(absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST_F(HttpListenerTest, WhatAHandlerThrowsIsNotTold) {
  const Page page = Get("/throws");
  EXPECT_EQ(page.status, 500);
  EXPECT_THAT(page.body, Not(HasSubstr("secret")));
  EXPECT_THAT(page.body, HasSubstr("\"INTERNAL\""));
}

TEST_F(HttpListenerTest, APortIsServedOnce) {
  HttpListener second({.host = "127.0.0.1", .port = port()});
  const absl::Status started = second.Start();
  EXPECT_THAT(started, service::HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(started.message()), HasSubstr("another server"));
  HttpListener nowhere({.host = "no such host."});
  EXPECT_THAT(nowhere.Start(), service::HasCode(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace lethe::http
