// Callbacks about erasure requests: where they may go, that they come from this server and reach
// nobody else, and that nobody keeps the others' from them.
#include "server/http/callback_sender.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/http/erasure_channel.h"
#include "tests/server/callback_testing.h"
#include "tests/server/erasure_testing.h"
#include "tests/server/http_testing.h"

namespace lethe::http {
namespace {

using service::Fails;
using service::HasCode;
using service::IsOk;
using service::kInvalid;
using testing::SizeIs;

// Listens on 127.0.0.1 and says nothing of itself.
class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr generic{};
    socklen_t size = sizeof generic;
    memcpy(&generic, &address, sizeof address);
    EXPECT_EQ(bind(fd_, &generic, size), 0);
    EXPECT_EQ(listen(fd_, 100), 0);
    EXPECT_EQ(getsockname(fd_, &generic, &size), 0);
    memcpy(&address, &generic, sizeof address);
    port_ = ntohs(address.sin_port);
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  uint16_t port() const { return port_; }
  int fd() const { return fd_; }
  // Whether anybody has connected.
  bool Reached() const {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) > 0;
  }
  // What accept waits for comes no more.
  void End() const { shutdown(fd_, SHUT_RDWR); }

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
};

class CallbackTest : public testing::Test {
 protected:
  CallbackTest() {
    options_ = {.policy = &policy_,
                .public_url = "https://lethe.example",
                .timeout = absl::Seconds(1),
                .pause = absl::Milliseconds(5),
                .log = nullptr};
  }
  std::unique_ptr<CallbackSender> Sender() {
    return std::make_unique<CallbackSender>(&*service_, options_);
  }
  // A request that was cancelled, which its address has not been told of.
  std::string Owe(const std::string& url,
                  const std::string& tenant = "t",
                  const std::string& source = "") {
    service::ErasureRequestInput input =
        service::ErasureHarness::InputFor({service::ErasureHarness::Raw("subject-99")});
    input.tenant = tenant;
    input.source = source;
    input.callback_urls = {url};
    const auto made = service_->CreateErasureRequest(input, {});
    EXPECT_THAT(made, IsOk());
    EXPECT_THAT(service_->CancelErasureRequest(tenant, made->id, {}), IsOk());
    return made->id;
  }
  uint64_t Owed() { return service_->ErasureCounts().callbacks; }

  service::ErasureHarness service_;
  CallbackPolicy policy_{.loopback = true};
  CallbackOptions options_;
};

TEST_F(CallbackTest, ASilentHostKeepsNobodyFromTheirs) {
  const Socket silent;
  Receiver receiver;
  policy_.hosts = {absl::StrCat("127.0.0.1:", silent.port()), receiver.host()};
  // More than are looked at at once, and all of them due before the other's.
  for (int i = 0; i < 70; ++i) Owe(absl::StrCat("http://127.0.0.1:", silent.port(), "/"));
  service_.Pass(absl::Seconds(1));
  Owe(receiver.url());
  service_.Pass(absl::Seconds(1));
  const auto sender = Sender();
  const absl::Time begin = absl::Now();
  sender->Start();
  EXPECT_THAT(receiver.Take(1), SizeIs(1));
  EXPECT_LT(absl::Now() - begin, 4 * options_.timeout);
  // It has come; that it has is written down a little later.
  while (Owed() > 70 && absl::Now() - begin < absl::Seconds(20)) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  sender->Stop();
  EXPECT_EQ(Owed(), 70u);
}

TEST_F(CallbackTest, AHostThatCannotIsLeftAloneAndOneThatRefusesIsAskedForTheNext) {
  Receiver receiver;
  policy_.hosts = {receiver.host()};
  for (int i = 0; i < 3; ++i) Owe(receiver.url());
  receiver.Answer(503);
  const auto sender = Sender();
  sender->SendDue();
  EXPECT_THAT(receiver.Take(1), SizeIs(1));
  sender->SendDue();  // the host rests
  EXPECT_THAT(receiver.Take(1), SizeIs(1));
  receiver.Answer(404);
  Sender()->SendDue();  // this one knows nothing of that
  // The first of them has its time later; the others wait as long as the host did.
  service_.Pass(absl::Minutes(2));
  Sender()->SendDue();
  EXPECT_THAT(receiver.Take(4), SizeIs(4));
  EXPECT_EQ(Owed(), 3u);
}

TEST_F(CallbackTest, ATenantWhoseStoreFailsKeepsNobodyFromTheirs) {
  ASSERT_THAT(service_->CreateTenant("u", {}), IsOk());
  Receiver receiver;
  policy_.hosts = {receiver.host()};
  Owe(receiver.url(), "t");
  service_.Pass(absl::Seconds(1));
  Owe(receiver.url(), "u");
  service_.Pass(absl::Seconds(1));
  FailOnce(service_, "UpdateCase", absl::InternalError("disk"));
  const auto sender = Sender();
  sender->SendDue();
  EXPECT_THAT(receiver.Take(2), SizeIs(2));
  EXPECT_EQ(Owed(), 1u);
  sender->SendDue();  // not again at once
  EXPECT_THAT(receiver.Take(2), SizeIs(2));
  service_.Pass(absl::Minutes(2));
  sender->SendDue();
  EXPECT_THAT(receiver.Take(3), SizeIs(3));
  EXPECT_EQ(Owed(), 0u);
}

// Its tenant is being opened, for minutes perhaps: neither the others nor a stop wait for that.
TEST_F(CallbackTest, ATenantThatIsBeingOpenedKeepsNobody) {
  ASSERT_THAT(service_->CreateTenant("u", {}), IsOk());
  Receiver receiver;
  policy_.hosts = {receiver.host()};
  Owe(receiver.url(), "t");
  service_.Pass(absl::Seconds(1));
  Owe(receiver.url(), "u");
  service::Door door;
  service_.hooks().before = [&door](const std::string& called) {
    if (called == "LoadTokens") door.WaitHere();
    return absl::OkStatus();
  };
  service_.Restart();
  std::thread opening([&] { EXPECT_FALSE(service_.Digest("m1").empty()); });
  door.WaitUntilSomebodyWaits();
  const auto sender = Sender();
  sender->SendDue();
  EXPECT_THAT(receiver.Take(1), SizeIs(1)) << "that of u";
  sender->Start();
  service_.Pass(absl::Minutes(1));
  sender->Stop();
  door.Open();
  opening.join();
  service_.hooks().before = {};
  service_.Pass(absl::Minutes(5));
  Sender()->SendDue();
  EXPECT_THAT(receiver.Take(2), SizeIs(2));
  EXPECT_EQ(Owed(), 0u);
}

TEST_F(CallbackTest, WhatMustBeSignedNeverGoesOutUnsigned) {
  Receiver receiver;
  policy_.hosts = {receiver.host()};
  const service::TempDir folder;
  const std::string key = folder.path() + "/key.pem";
  const std::string certificate = folder.path() + "/certificate.pem";
  const auto write = [&](int days) {
    const TestCertificate made("lethe.example", nullptr, days);
    made.WriteKey(key);
    made.WriteCertificate(certificate);
  };
  Owe(receiver.url(), "t", "opendsr");
  Sender()->SendDue();  // a server without a key
  EXPECT_EQ(Owed(), 1u);
  write(-1);
  const auto dsr = DsrKey::Load("lethe.example", key, certificate);
  ASSERT_THAT(dsr, IsOk());
  options_.dsr = dsr->get();
  Owe(receiver.url());  // not of OpenDSR; but there is a key, and it has expired
  service_.Pass(absl::Minutes(2));
  Sender()->SendDue();
  EXPECT_EQ(Owed(), 2u);
  write(30);
  EXPECT_TRUE((*dsr)->ReloadIfChanged().value_or(false));
  service_.Pass(absl::Minutes(5));
  Sender()->SendDue();
  const std::vector<HttpRequest> received = receiver.Take(2);
  ASSERT_THAT(received, SizeIs(2));
  EXPECT_EQ(received[0].HeaderCount("x-opendsr-signature") +
                received[1].HeaderCount("x-opendsr-signature"),
            1u);
  EXPECT_EQ(
      received[0].HeaderCount("x-lethe-signature") + received[1].HeaderCount("x-lethe-signature"),
      1u);
  EXPECT_EQ(Owed(), 0u);
}

TEST_F(CallbackTest, AHeaderCannotBeSmuggledIn) {
  Receiver receiver;
  policy_.hosts = {receiver.host()};
  service::ErasureRequestInput input =
      service::ErasureHarness::InputFor({service::ErasureHarness::Raw("subject-99")});
  // Base64 of "a\r\nX-Injected: b", as an earlier version hid it.
  input.callback_urls = {receiver.url() + "#YQ0KWC1JbmplY3RlZDogYg=="};
  EXPECT_THAT(service_->CreateErasureRequest(input, {}), Fails(kInvalid, "callback_urls[0]"));
  input.callback_urls = {receiver.url()};
  for (const std::string& bad :
       {std::string("a\r\nX-Injected: b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("a\x7f"), std::string(service::kMaxAuthorizationBytes + 1, 'a')}) {
    input.callback_authorizations = {bad};
    EXPECT_THAT(service_->CreateErasureRequest(input, {}),
                Fails(kInvalid, "callback_authorizations[0]"));
  }
  input.callback_authorizations = {"Bearer one", "Bearer two"};
  EXPECT_THAT(service_->CreateErasureRequest(input, {}),
              Fails(kInvalid, "callback_authorizations"));
  input.callback_authorizations = {"Bearer one"};
  service_.Ask(input);
  service_.Run();
  Sender()->SendDue();
  EXPECT_EQ(receiver.Take(1).front().Header("authorization"), "Bearer one");
  EXPECT_FALSE(FilesHold(service_, "Bearer one"));
}

// By a name that the settings list, too.
TEST_F(CallbackTest, NoConnectionIsMadeToThisMachine) {
  policy_.loopback = false;
  const Socket socket;
  policy_.hosts = {absl::StrCat("localhost:", socket.port()),
                   absl::StrCat("127.0.0.1:", socket.port())};
  Owe(absl::StrCat("https://localhost:", socket.port(), "/"));
  Owe(absl::StrCat("https://127.0.0.1:", socket.port(), "/"));
  Sender()->SendDue();
  EXPECT_FALSE(socket.Reached());
  EXPECT_EQ(Owed(), 2u);
  policy_.loopback = true;
  service_.Pass(absl::Minutes(2));
  Sender()->SendDue();
  EXPECT_TRUE(socket.Reached());
}

TEST_F(CallbackTest, ARedirectIsNotFollowedAndGoneEndsTheMatter) {
  Receiver receiver;
  Receiver other;
  policy_.hosts = {receiver.host(), other.host()};
  for (const int status : {301, 302, 307, 308}) {
    Owe(receiver.url());
    receiver.Answer(HttpResponse{.status = status, .headers = {{"Location", other.url()}}});
    Sender()->SendDue();
  }
  EXPECT_THAT(receiver.Take(4), SizeIs(4));
  EXPECT_THAT(other.Take(0), SizeIs(0));
  EXPECT_EQ(Owed(), 4u);
  receiver.Answer(410);
  service_.Pass(absl::Minutes(2));
  Sender()->SendDue();
  EXPECT_THAT(receiver.Take(8), SizeIs(8));
  EXPECT_EQ(Owed(), 0u);
}

TEST_F(CallbackTest, OnlyWhomTheAuthoritySignedIsTold) {
  const service::TempDir folder;
  const auto path = [&](const std::string& name) { return absl::StrCat(folder.path(), "/", name); };
  const TestCertificate authority("authority");
  const TestCertificate another("another");
  const TestCertificate own("localhost", &authority);
  const TestCertificate foreign("other.example", &authority);
  authority.WriteCertificate(path("authority.pem"));
  another.WriteCertificate(path("another.pem"));
  const auto serve = [&](const TestCertificate& shown) {
    shown.WriteCertificate(path("shown.pem"));
    shown.WriteKey(path("shown.key"));
    return *TlsContext::Load({.certificate = path("shown.pem"), .key = path("shown.key")});
  };
  const auto tls = serve(own);
  const auto foreign_tls = serve(foreign);
  Receiver receiver(tls.get());
  Receiver elsewhere(foreign_tls.get());
  policy_.hosts = {absl::StrCat("localhost:", receiver.port()),
                   absl::StrCat("localhost:", elsewhere.port())};
  // As a server does it, which reads the file.
  const auto told = [&](const std::string& authorities, Receiver& by) {
    const auto channel = ErasureChannel::Open({.public_url = "https://lethe.example",
                                               .callbacks = policy_,
                                               .callback_ca = path(authorities)});
    EXPECT_THAT(channel, IsOk());
    Owe(by.UrlAt("localhost"));
    const uint64_t tried = Owed();
    (*channel)->Start(&*service_, nullptr);
    const absl::Time end = absl::Now() + absl::Seconds(10);
    // Until it is delivered, or has a time of its own again.
    while (Owed() == tried && !service_->DueCallbacks(1).empty() && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    (*channel)->Stop();
    return Owed() < tried;
  };
  EXPECT_TRUE(told("authority.pem", receiver));
  EXPECT_FALSE(told("another.pem", receiver));
  EXPECT_FALSE(told("authority.pem", elsewhere));
  EXPECT_THAT(receiver.Take(1), SizeIs(1));
  EXPECT_THAT(elsewhere.Take(0), SizeIs(0));
  std::ofstream(path("none.pem")) << "nothing";
  for (const char* file : {"missing.pem", "none.pem"}) {
    const auto refused = ErasureChannel::Open({.callback_ca = path(file)});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.status().message()), testing::StartsWith("--callback-ca: "));
  }
}

// One that begins well and never ends is not read for ever.
TEST_F(CallbackTest, AnEndlessAnswerIsCutOff) {
  const Socket socket;
  std::atomic<size_t> sent = 0;
  std::thread endless([&] {
    const int connection = accept(socket.fd(), nullptr, nullptr);
    const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    ssize_t n = send(connection, head.data(), head.size(), MSG_NOSIGNAL);
    const std::string more(size_t{16} << 10, ' ');
    while (n > 0) {
      n = send(connection, more.data(), more.size(), MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<size_t>(n);
    }
    close(connection);
  });
  policy_.hosts = {absl::StrCat("127.0.0.1:", socket.port())};
  options_.timeout = absl::Seconds(20);
  Owe(absl::StrCat("http://127.0.0.1:", socket.port(), "/"));
  const absl::Time begin = absl::Now();
  Sender()->SendDue();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  socket.End();
  endless.join();
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, size_t{32} << 20);
  EXPECT_EQ(Owed(), 1u);
}

TEST(CallbackPolicyTest, AddressesAreOnTheList) {
  const CallbackPolicy policy{.hosts = {"a.example", "B.example:8443", "[2001:db8::1]:8443"}};
  EXPECT_THAT(policy.Check("https://a.example/x?y=z"), IsOk());
  EXPECT_THAT(policy.Check("https://A.EXAMPLE:443"), IsOk());
  EXPECT_EQ(policy.Check("https://b.example:8443/")->port, 8443);
  EXPECT_EQ(policy.Check("https://[2001:DB8::1]:8443/")->host, "2001:db8::1");
  for (const char* bad : {"",
                          "a.example",
                          "//a.example",
                          "http://a.example",
                          "HTTPS://a.example",
                          "https://",
                          "https:///x",
                          "https://a.example:8443/",
                          "https://b.example/",
                          "https://x.a.example/",
                          "https://a.example.evil.example/",
                          "https://a.example@evil.example/",
                          "https://evil.example#a.example",
                          "https://a.example:0443x/",
                          "https://a.example:/",
                          "https://a.example:65536/",
                          "https://a.example:-1/",
                          "https://a.example\\@evil.example/",
                          "https://a.example /",
                          "https://a.example\r\nX: y/",
                          "https://[::1",
                          "https://[a.example]/",
                          "https://a%2eexample/",
                          "https://\xc3\xa4.example/",
                          "file:///etc/passwd",
                          "gopher://a.example/"}) {
    EXPECT_THAT(policy.Check(bad), HasCode(absl::StatusCode::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(CallbackPolicy{}.Check("https://a.example/"),
              HasCode(absl::StatusCode::kInvalidArgument));
}

bool MayConnect(const CallbackPolicy& policy, const std::string& text) {
  sockaddr_storage storage{};
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = v4;
    memcpy(&storage, &address, sizeof address);
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &address.sin6_addr), 1) << text;
    memcpy(&storage, &address, sizeof address);
  }
  return policy.MayConnect(storage);
}

TEST(CallbackPolicyTest, ConnectionsStayOutside) {
  const CallbackPolicy outside;
  const CallbackPolicy inside{.private_networks = true};
  for (const char* open : {"93.184.216.34", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.0.1",
                           "192.169.0.1", "2606:2800:220:1::1", "64:ff9b::101:101"}) {
    EXPECT_TRUE(MayConnect(outside, open)) << open;
  }
  for (const char* inner :
       {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd00::1",
        "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1"}) {
    EXPECT_FALSE(MayConnect(outside, inner)) << inner;
    EXPECT_TRUE(MayConnect(inside, inner)) << inner;
  }
  for (const char* never : {"127.0.0.1",
                            "127.255.255.255",
                            "0.0.0.0",
                            "169.254.169.254",
                            "224.0.0.1",
                            "240.0.0.1",
                            "255.255.255.255",
                            "192.0.2.1",
                            "198.18.0.1",
                            "203.0.113.1",
                            "::1",
                            "::",
                            "fe80::1",
                            "ff02::1",
                            "2001:db8::1",
                            "2001::1",
                            "::ffff:127.0.0.1",
                            "::ffff:169.254.169.254",
                            "64:ff9b::7f00:1",
                            "2002:7f00:1::1"}) {
    EXPECT_FALSE(MayConnect(outside, never)) << never;
    EXPECT_FALSE(MayConnect(inside, never)) << never;
  }
  EXPECT_TRUE(MayConnect({.loopback = true}, "127.0.0.1"));
}

TEST(ErasureChannelTest, WhatBelongsTogetherIsAskedFor) {
  EXPECT_THAT(ErasureChannel::Open({}), IsOk());
  EXPECT_THAT(ErasureChannel::Open({.dsr_domain = "a"}), Fails(kInvalid, "--dsr-key"));
  EXPECT_THAT(ErasureChannel::Open({.callbacks = {.hosts = {"a"}}}),
              Fails(kInvalid, "--callback-host"));
  for (const char* host : {"a:b:c", ":99999", "a:0", "::1:80", "[::1", "a b", "https://a"}) {
    EXPECT_THAT(ErasureChannel::Open({.public_url = "https://a", .callbacks = {.hosts = {host}}}),
                Fails(kInvalid, "--callback-host"))
        << host;
  }
  EXPECT_THAT(ErasureChannel::Open({.public_url = "https://a",
                                    .callbacks = {.hosts = {"a", "a:1", "[::1]", "[::1]:1"}}}),
              IsOk());
  for (const char* url : {"lethe.example", "https://a/", "https://a b", "ftp://a", "https://a?b"}) {
    EXPECT_THAT(ErasureChannel::Open({.public_url = url}), Fails(kInvalid, "--public-url")) << url;
  }
}

}  // namespace
}  // namespace lethe::http
