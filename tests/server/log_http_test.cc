// The logs over HTTP, read with a socket of our own: what is served leads to the signed root.
#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/tiles.h"
#include "server/http/http_listener.h"
#include "server/http/log_routes.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using service::Harness;
using service::IsOk;
using testing::HasSubstr;

struct Page {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

int Connect(uint16_t port) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr generic{};
  static_assert(sizeof generic == sizeof address);
  memcpy(&generic, &address, sizeof address);
  EXPECT_EQ(connect(socket_fd, &generic, sizeof generic), 0);
  return socket_fd;
}

// The connection may still be waiting in the kernel's queue.
int ConnectWithoutWaiting(uint16_t port) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr generic{};
  memcpy(&generic, &address, sizeof address);
  connect(socket_fd, &generic, sizeof generic);
  return socket_fd;
}

// `over`: says that nothing more comes.
std::string Exchange(uint16_t port, const std::string& request, bool over) {
  const int socket_fd = Connect(port);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t n = send(socket_fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  if (over) shutdown(socket_fd, SHUT_WR);
  std::string answer;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = recv(socket_fd, buffer, sizeof buffer, 0)) > 0) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(socket_fd);
  return answer;
}

Page Get(uint16_t port, const std::string& path, const std::string& method = "GET") {
  const std::string answer = Exchange(
      port,
      absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                   "Content-Length: 0\r\n\r\n"),
      false);
  Page page;
  const size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return page;
  const std::vector<std::string> lines = absl::StrSplit(answer.substr(0, end), "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  EXPECT_TRUE(first.size() > 1 && absl::SimpleAtoi(first[1], &page.status)) << lines[0];
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> header = absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
    if (header.size() == 2) page.headers[absl::AsciiStrToLower(header[0])] = header[1];
  }
  page.body = answer.substr(end + 4);
  return page;
}

class LogHttpTest : public testing::Test {
 protected:
  void SetUp() override {
    service_.MakeMemory("m");
    Serve();
  }
  void Serve(const HttpOptions& options = {.host = "127.0.0.1",
                                           .timeout = std::chrono::seconds(1)}) {
    server_ = std::make_unique<HttpListener>(options);
    MountLogRoutes(&*service_, *server_);
    ASSERT_THAT(server_->Start(), IsOk());
  }
  void ForgetSome(int count) {
    service_.Insert("m", service::Spiral(count));
    for (int i = 0; i < count; ++i) service_.Forget("m", {absl::StrCat("a", i)});
  }
  Page Log(const std::string& rest) { return Get(server_->port(), "/v1/tenants/t/log/" + rest); }

  Harness service_;
  std::unique_ptr<HttpListener> server_;
};

// From keys, checkpoint and tiles alone, as a monitor would.
TEST_F(LogHttpTest, TilesLeadToTheSignedRoot) {
  constexpr int kCertificates = 260;  // a full tile, a partial one, and one a level up
  ForgetSome(kCertificates / 2);      // each is followed by the certificate about its keys
  const Page keys = Log("keys");
  EXPECT_EQ(keys.status, 200);
  const std::vector<std::string> words = absl::StrSplit(absl::StripSuffix(keys.body, "\n"), ' ');
  ASSERT_EQ(words.size(), 2u) << keys.body;
  EXPECT_EQ(words[0], "0");
  const auto key = audit::VerificationKey::Parse(words[1]);
  ASSERT_THAT(key, IsOk());

  const Page note = Log("checkpoint");
  EXPECT_EQ(note.headers.at("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(note.headers.at("cache-control"), "no-cache");
  const audit::CheckpointResult checkpoint = audit::VerifyCheckpoint(note.body, *key);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message;
  ASSERT_EQ(checkpoint.checkpoint.size, uint64_t{kCertificates});

  std::vector<audit::Digest> leaves;
  for (const auto& [tile, entries] :
       {std::pair("tile/0/000", "tile/entries/000"), {"tile/0/001.p/4", "tile/entries/001.p/4"}}) {
    const Page hashes = Log(tile);
    EXPECT_EQ(hashes.status, 200) << tile;
    EXPECT_EQ(hashes.headers.at("content-type"), "application/octet-stream");
    const bool full = hashes.body.size() == 256 * sizeof(audit::Digest);
    EXPECT_EQ(hashes.headers.at("cache-control"),
              full ? "public, max-age=31536000, immutable" : "no-cache");
    const Page bundle = Log(entries);
    EXPECT_EQ(bundle.status, 200) << entries;
    size_t at = 0;
    for (size_t i = 0; i < hashes.body.size(); i += sizeof(audit::Digest)) {
      ASSERT_LE(at + 2, bundle.body.size());
      const size_t length = static_cast<size_t>(static_cast<uint8_t>(bundle.body[at])) << 8 |
                            static_cast<uint8_t>(bundle.body[at + 1]);
      ASSERT_LE(at + 2 + length, bundle.body.size());
      leaves.push_back(audit::LeafHash(bundle.body.substr(at + 2, length)));
      EXPECT_EQ(std::string(audit::AsBytes(leaves.back())),
                hashes.body.substr(i, sizeof(audit::Digest)));
      at += 2 + length;
    }
    EXPECT_EQ(at, bundle.body.size());
  }
  ASSERT_EQ(leaves.size(), size_t{kCertificates});
  EXPECT_EQ(audit::MerkleRoot(leaves), checkpoint.checkpoint.root);
  const audit::Digest first = audit::MerkleRoot(std::span(leaves).first(256));
  EXPECT_EQ(Log("tile/1/000.p/1").body, std::string(audit::AsBytes(first)));

  for (const char* absent :
       {"tile/0/001", "tile/0/001.p/5", "tile/0/002.p/1", "tile/1/000", "tile/1/000.p/2",
        "tile/2/000.p/1", "tile/63/000", "tile/entries/001", "tile/0/x999/x999/x999/999"}) {
    const Page page = Log(absent);
    EXPECT_EQ(page.status, 404) << absent;
    EXPECT_EQ(page.body, "the log has no such tile\n");
  }
}

TEST_F(LogHttpTest, BadRequestsAreRefusedAndTheServerStays) {
  ForgetSome(1);
  EXPECT_EQ(Get(server_->port(), "/v1/tenants/nobody/log/checkpoint").status, 404);
  EXPECT_EQ(Get(server_->port(), "/v1/tenants/No%20Name/log/checkpoint").status, 400);
  EXPECT_EQ(Get(server_->port(), "/").status, 404);
  EXPECT_EQ(Get(server_->port(), "/v1/tenants/t/log/checkpoint/").status, 404);
  EXPECT_EQ(Get(server_->port(), "/v1/tenants/t/log/checkpoint", "HEAD").status, 200);
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
    const Page page = Get(server_->port(), "/v1/tenants/t/log/checkpoint", method);
    EXPECT_EQ(page.status, 405) << method;
    EXPECT_EQ(page.headers.at("allow"), "GET, HEAD");
  }
  for (const char* path :
       {"tile/0/0", "tile/0/x000/001", "tile/00/000", "tile/0/000.p/0", "tile/0/000.p/256",
        "tile/64/000", "tile/x/000", "tile/0/../../keys", "tile/0/000.p/01"}) {
    EXPECT_EQ(Log(path).status, 400) << path;
  }
  for (const std::string& garbage :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string(100, '\0'),
        std::string(1 << 20, 'A'), "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX: " + std::string(1 << 20, 'a') + "\r\n\r\n"}) {
    EXPECT_THAT(Exchange(server_->port(), garbage, true), testing::Not(HasSubstr(" 200 ")));
  }
  EXPECT_EQ(Log("checkpoint").status, 200);
}

// Whoever reaches the port could otherwise make the server solve any tenant.
TEST_F(LogHttpTest, WhatIsNotOpenIsReadWithoutItsTokens) {
  ForgetSome(3);
  service_.Insert("m", service::Spiral(8, "b"));
  const std::string digest = service_.Digest("m");
  const Page before = Log("checkpoint");
  server_.reset();
  std::atomic<int> loads{0};
  service_.hooks().before = [&loads](const std::string& called) {
    if (called == "LoadTokens") ++loads;
    return absl::OkStatus();
  };
  service_.Restart();
  Serve();
  EXPECT_EQ(Log("checkpoint").body, before.body);
  EXPECT_EQ(Log("keys").status, 200);
  EXPECT_EQ(Log("tile/entries/000.p/6").status, 200);
  EXPECT_EQ(loads, 0);
  EXPECT_EQ(service_->OpenTenantCounts().open, 1u);
  EXPECT_EQ(service_->GetTenant("t")->memory_count, 1u);
  // Who needs the memories has them made, once, and the log is read beside them.
  EXPECT_EQ(service_.Digest("m"), digest);
  EXPECT_EQ(Log("checkpoint").body, before.body);
  EXPECT_EQ(service_.Digest("m"), digest);
  EXPECT_EQ(loads, 1);
}

// A call that waits for a tenant which somebody else opens does not hold the stop up.
TEST_F(LogHttpTest, AStopDoesNotWaitForTenants) {
  server_.reset();
  service::Door door;
  service_.hooks().before = [&door](const std::string& called) {
    if (called == "LoadTokens") door.WaitHere();
    return absl::OkStatus();
  };
  service_.Restart();
  Serve();
  std::thread opening([&] { EXPECT_FALSE(service_.Digest("m").empty()); });
  door.WaitUntilSomebodyWaits();
  std::atomic<int> status{0};
  std::thread reading([&] { status = Log("checkpoint").status; });
  while (service_->OpenTenantCounts().waiting < 2) absl::SleepFor(absl::Milliseconds(2));
  server_->Stop();
  reading.join();
  EXPECT_EQ(status, 503);
  door.Open();
  opening.join();
}

TEST_F(LogHttpTest, SilentConnectionsEndAndDoNotHoldTheStopUp) {
  std::vector<int> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(Connect(server_->port()));
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Log("checkpoint").status, 200);  // once their time is over
  server_->Stop();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(25));
  for (const int socket_fd : silent) close(socket_fd);
}

// Descriptors stay bounded however many connect: beyond the bound nothing is accepted, and what
// was is served in the end.
TEST_F(LogHttpTest, ConnectionsBeyondTheBoundWaitOutside) {
  server_.reset();
  Serve({.host = "127.0.0.1",
         .threads = 1,
         .max_connections = 3,
         .timeout = std::chrono::seconds(1)});
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  constexpr int kClients = 40;
  const auto before = descriptors();
  std::vector<int> silent;
  for (int i = 0; i < kClients; ++i) silent.push_back(ConnectWithoutWaiting(server_->port()));
  // Accepted at most: three that are served or wait, and one that waits for a place among them.
  const absl::Time end = absl::Now() + absl::Milliseconds(300);
  std::ptrdiff_t most = 0;
  while (absl::Now() < end) most = std::max(most, descriptors() - before - kClients);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 4);
  for (const int socket_fd : silent) close(socket_fd);
  EXPECT_EQ(Log("checkpoint").status, 200);
}

TEST_F(LogHttpTest, WhatAHandlerThrowsIsNotTold) {
  server_.reset();
  HttpListener listener({.host = "127.0.0.1"});
  listener.routes().Get("/throws", [](const httplib::Request&, httplib::Response&) {
    throw std::runtime_error("a secret");
  });
  ASSERT_THAT(listener.Start(), IsOk());
  const std::string answer = Exchange(
      listener.port(), "GET /throws HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false);
  EXPECT_THAT(answer, HasSubstr(" 500 "));
  EXPECT_THAT(answer, testing::Not(HasSubstr("secret")));
}

TEST_F(LogHttpTest, APortIsServedOnce) {
  HttpListener second({.host = "127.0.0.1", .port = server_->port()});
  const absl::Status started = second.Start();
  EXPECT_THAT(started, service::HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(started.message()), HasSubstr("another server"));
}

}  // namespace
}  // namespace lethe::http
