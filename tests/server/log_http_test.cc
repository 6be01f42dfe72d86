// The logs over HTTP, read with a socket of our own: what is served leads to the signed root.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/tiles.h"
#include "server/http/http_listener.h"
#include "server/http/log_routes.h"
#include "tests/server/http_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using service::Harness;
using service::IsOk;
using testing::HasSubstr;

class LogHttpTest : public testing::Test {
 protected:
  void SetUp() override {
    service_.MakeMemory("m");
    Serve();
  }
  void Serve(bool open = true) {
    server_ = std::make_unique<HttpListener>(HttpOptions{.host = "127.0.0.1"});
    AddLogRoutes(&*service_, open, server_->routes());
    ASSERT_THAT(server_->Start(), IsOk());
  }
  void ForgetSome(int count) {
    service_.Insert("m", service::Spiral(count));
    for (int i = 0; i < count; ++i) service_.Forget("m", {absl::StrCat("a", i)});
  }
  Page Get(const std::string& path, const std::string& method = "GET") {
    return Fetch(server_->port(), method, path);
  }
  Page Log(const std::string& rest) { return Get("/v1/tenants/t/log/" + rest); }

  Harness service_;
  std::unique_ptr<HttpListener> server_;
};

// What took credentials to get must not be given to others by a proxy in between.
TEST_F(LogHttpTest, ATileThatIsNotForEverybodyIsKeptByItsCallerAlone) {
  ForgetSome(128);
  EXPECT_EQ(Log("tile/0/000").headers.at("cache-control"), "public, max-age=31536000, immutable");
  Serve(/*open=*/false);
  EXPECT_EQ(Log("tile/0/000").headers.at("cache-control"), "private, max-age=31536000, immutable");
  EXPECT_EQ(Log("checkpoint").headers.at("cache-control"), "no-cache");
}

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
    EXPECT_THAT(page.body, HasSubstr("the log has no such tile"));
  }
}

TEST_F(LogHttpTest, BadRequestsAreRefusedAndTheServerStays) {
  ForgetSome(1);
  EXPECT_EQ(Get("/v1/tenants/nobody/log/checkpoint").status, 404);
  EXPECT_EQ(Get("/v1/tenants/No%20Name/log/checkpoint").status, 400);
  EXPECT_EQ(Get("/").status, 404);
  EXPECT_EQ(Get("/v1/tenants/t/log/checkpoint/").status, 404);
  EXPECT_EQ(Get("/v1/tenants/t/log/checkpoint", "HEAD").status, 200);
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
    const Page page = Get("/v1/tenants/t/log/checkpoint", method);
    EXPECT_EQ(page.status, 405) << method;
    EXPECT_EQ(page.headers.at("allow"), "GET, HEAD");
  }
  for (const char* path :
       {"tile/0/0", "tile/0/x000/001", "tile/00/000", "tile/0/000.p/0", "tile/0/000.p/256",
        "tile/64/000", "tile/x/000", "tile/0/../../keys", "tile/0/000.p/01"}) {
    EXPECT_EQ(Log(path).status, 400) << path;
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

}  // namespace
}  // namespace lethe::http
