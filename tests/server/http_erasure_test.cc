// Erasure requests over HTTP: the resource, OpenDSR from request to signed callback, Ketch,
// Transcend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/encoding.h"
#include "audit/verify.h"
#include "server/calls/convert_erasure.h"
#include "server/http/http_server.h"
#include "tests/server/callback_testing.h"
#include "tests/server/erasure_testing.h"
#include "tests/server/http_testing.h"

namespace lethe::http {
namespace {

using nlohmann::json;
using service::IsOk;
using service::kAnna;
using service::kBert;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kDomain[] = "lethe.example";
constexpr char kUuid[] = "a7551968-d5d6-44b2-9831-815ac9017798";

// Base64 of a signature over the SHA-256 of the text, by the key of a certificate in PEM.
bool Verifies(const std::string& certificate_pem,
              const std::string& text,
              const std::string& signature) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> pem(
      BIO_new_mem_buf(certificate_pem.data(), static_cast<int>(certificate_pem.size())), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr), X509_free);
  const auto bytes = audit::DecodeBase64(signature);
  if (certificate == nullptr || !bytes.ok()) return false;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr,
                              X509_get0_pubkey(certificate.get())) == 1 &&
         EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(bytes->data()),
                          bytes->size(), reinterpret_cast<const unsigned char*>(text.data()),
                          text.size()) == 1;
}

class HttpErasureTest : public testing::Test {
 protected:
  void SetUp() override {
    key_.WriteKey(folder_.path() + "/key.pem");
    key_.WriteCertificate(folder_.path() + "/certificate.pem");
    settings_ = {.public_url = "https://lethe.example",
                 .dsr_domain = kDomain,
                 .dsr_key = folder_.path() + "/key.pem",
                 .dsr_certificate = folder_.path() + "/certificate.pem",
                 .callbacks = {.hosts = {receiver_.host()}, .loopback = true}};
    service_.options().tenant.erasures.check_callback =
        [allowed = settings_.callbacks](const std::string& url) {
          return allowed.Check(url).status();
        };
    service_.Restart();
    Serve();
  }
  void Serve() {
    End();
    auto channel = ErasureChannel::Open(settings_);
    ASSERT_THAT(channel, IsOk());
    channel_ = *std::move(channel);
    auto server = HttpServer::Start(&*service_, {.host = "127.0.0.1"}, *channel_, {}, nullptr);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_->Start(&*service_, nullptr);
  }
  void End() {
    server_.reset();
    channel_.reset();
  }
  Page Call(const std::string& method,
            const std::string& path,
            const std::string& body = "",
            std::vector<std::string> headers = {}) {
    if (!body.empty()) headers.emplace_back("Content-Type: application/json");
    return Fetch(server_->port(), method, path, headers, body);
  }
  json Get(const std::string& path) {
    const Page page = Call("GET", path);
    EXPECT_EQ(page.status, 200) << path << " " << page.body;
    return json::parse(page.body, nullptr, false);
  }
  json Asked(const std::string& subject) {
    return {{"regulation", "gdpr"},
            {"subject_request_id", kUuid},
            {"subject_request_type", "erasure"},
            {"submitted_time", absl::FormatTime(absl::RFC3339_sec, service_.now() - absl::Hours(1),
                                                absl::UTCTimeZone())},
            {"subject_identities", json::array({{{"identity_type", "controller_customer_id"},
                                                 {"identity_value", subject},
                                                 {"identity_format", "raw"}}})},
            {"api_version", "1.0"},
            {"status_callback_urls", json::array({receiver_.url()})},
            {"extensions", {{kDomain, {{"tenant", "t"}}}, {"other.example", {{"a", nullptr}}}}}};
  }

  const TestCertificate key_{kDomain};
  service::TempDir folder_;
  service::ErasureHarness service_;
  Receiver receiver_;
  ErasureSettings settings_;
  std::unique_ptr<ErasureChannel> channel_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpErasureTest, OpenDsrFromRequestToSignedCallback) {
  // As a controller does: what is supported, and the key that answers are signed with.
  const json discovery = Get("/v1/discovery");
  EXPECT_THAT(discovery["supported_subject_request_types"], ElementsAre("erasure"));
  const std::string link = discovery["processor_certificate"];
  EXPECT_EQ(link, "https://lethe.example/v1/discovery/certificate.pem");
  const std::string certificate = Call("GET", "/v1/discovery/certificate.pem").body;

  const std::string request = Asked(kAnna).dump();
  const Page created = Call("POST", "/v1/opendsr_requests", request);
  ASSERT_EQ(created.status, 201) << created.body;
  EXPECT_EQ(created.headers.at("x-opendsr-processor-domain"), kDomain);
  EXPECT_TRUE(Verifies(certificate, created.body, created.headers.at("x-opendsr-signature")));
  EXPECT_FALSE(
      Verifies(certificate, created.body + " ", created.headers.at("x-opendsr-signature")));
  const json answer = json::parse(created.body);
  EXPECT_EQ(*audit::DecodeBase64(answer["encoded_request"].get<std::string>()), request);
  EXPECT_EQ(answer["subject_request_id"], kUuid);
  EXPECT_EQ(answer["controller_id"], "t");
  // 30 days after the person asked.
  EXPECT_EQ(answer["expected_completion_time"].get<std::string>().substr(0, 10), "2027-02-14");
  // The same request again is the same request.
  EXPECT_EQ(json::parse(Call("POST", "/v1/opendsr_requests", request).body)["extensions"],
            answer["extensions"]);

  service_.Run();
  const std::vector<HttpRequest> callbacks = receiver_.Take(2);
  std::vector<std::string> states;
  for (const HttpRequest& callback : callbacks) {
    EXPECT_EQ(callback.Header("x-opendsr-processor-domain"), kDomain);
    EXPECT_TRUE(
        Verifies(certificate, callback.body, std::string(callback.Header("x-opendsr-signature"))));
    const json body = json::parse(callback.body);
    EXPECT_EQ(body["status_callback_url"], receiver_.url());
    EXPECT_EQ(body["subject_request_id"], kUuid);
    EXPECT_THAT(callback.body, Not(HasSubstr(kAnna)));
    states.push_back(body["request_status"]);
  }
  EXPECT_THAT(states, ElementsAre("in_progress", "completed"));
  const json last = json::parse(callbacks.back().body);
  EXPECT_EQ(last["results_count"], 4);

  const Page status = Call("GET", absl::StrCat("/v1/opendsr_requests/", kUuid, "?tenant=t"));
  EXPECT_EQ(status.status, 200);
  EXPECT_TRUE(Verifies(certificate, status.body, status.headers.at("x-opendsr-signature")));
  EXPECT_EQ(json::parse(status.body)["request_status"], "completed");
  // The certificates that the results lead to verify under the log's key, and are the ones named.
  const std::string results = last["results_url"];
  const json certificates =
      Get(absl::StrReplaceAll(results, {{"https://lethe.example", ""}}))["certificates"];
  ASSERT_EQ(certificates.size(), 4u);  // two memories, each with the erasure and its keys
  const auto log = service_->GetCheckpoint("t");
  ASSERT_THAT(log, IsOk());
  const auto log_key = audit::VerificationKey::Parse(log->keys.front().vkey);
  ASSERT_THAT(log_key, IsOk());
  for (const json& made : certificates) {
    const auto envelope = audit::DecodeBase64(made["envelope"].get<std::string>());
    ASSERT_THAT(envelope, IsOk());
    const auto verified = audit::VerifyCertificate(*envelope, std::nullopt, *log_key);
    EXPECT_TRUE(verified.ok()) << verified.message;
    EXPECT_EQ(verified.id, made["id"]);
  }
}

// A platform that did not hear our answer asks again; that the list has changed since is no reason
// to tell it that there is no such request.
TEST_F(HttpErasureTest, ARepetitionIsAnsweredWhateverTheListSaysNow) {
  const std::string body = Asked(service::kAnna).dump();
  ASSERT_EQ(Call("POST", "/v1/opendsr_requests", body).status, 201);
  End();
  settings_.callbacks.hosts = {"other.example"};
  service_.options().tenant.erasures.check_callback =
      [allowed = settings_.callbacks](const std::string& url) {
        return allowed.Check(url).status();
      };
  service_.Restart();
  Serve();
  EXPECT_EQ(Call("POST", "/v1/opendsr_requests", body).status, 201);
}

TEST_F(HttpErasureTest, OpenDsrUnderEachOfItsNames) {
  const std::vector<std::pair<std::string, std::string>> spellings = {
      {"opendsr", "x-opendsr-"},
      {"opengdpr", "x-opengdpr-"},
      {"opencompliance", "x-opencompliance-"}};
  char digit = '0';
  for (const auto& [name, header] : spellings) {
    json asked = Asked(kBert);
    asked.erase("extensions");  // the path names the tenant
    asked["subject_request_id"] = std::string(kUuid).replace(0, 1, 1, ++digit);
    if (name == "opengdpr") asked.erase("regulation");  // version 1 had none
    const std::string path = absl::StrCat("/tenants/t/v1/", name, "_requests");
    const Page created = Call("POST", path, asked.dump());
    EXPECT_EQ(created.status, 201) << created.body;
    EXPECT_EQ(created.headers.count(header + "signature"), 1u);
    const std::string own = absl::StrCat(path, "/", asked["subject_request_id"].get<std::string>());
    EXPECT_EQ(Get(own)["request_status"], "pending");
    const Page cancelled = Call("DELETE", own);
    EXPECT_EQ(cancelled.status, 202) << cancelled.body;
    EXPECT_EQ(cancelled.headers.at(header + "processor-domain"), kDomain);
    EXPECT_EQ(Get(own)["request_status"], "cancelled");
  }
  EXPECT_EQ(receiver_.Take(3).size(), 3u);  // each cancelling
  service_.Run();
  EXPECT_EQ(service_->Describe("t", "m1", false, {})->subjects, 2u);  // nothing was erased
}

TEST_F(HttpErasureTest, OpenDsrErrorsAreInItsFormAndTellNothing) {
  const auto refused = [&](const json& body, const std::string& path, int status) {
    const Page page = Call("POST", path, body.dump());
    EXPECT_EQ(page.status, status) << page.body;
    EXPECT_THAT(page.body, Not(HasSubstr("Secret")));
    EXPECT_EQ(page.headers.count("x-opendsr-signature"), 0u);
    const json error = json::parse(page.body)["error"];
    EXPECT_EQ(error["code"], status);
    EXPECT_EQ(error["errors"][0]["message"], error["message"]);
    return error["message"].get<std::string>();
  };
  const std::string path = "/v1/opendsr_requests";
  for (const auto& [field, value, message] :
       std::vector<std::tuple<std::string, json, std::string>>{
           {"/subject_request_id", "Secret", "subject_request_id: must be a UUID"},
           {"/subject_request_id", nullptr, "subject_request_id: is missing"},
           {"/subject_request_id", 7, "subject_request_id: must be a text"},
           {"/subject_request_type", "access", "subject_request_type: only erasure"},
           {"/submitted_time", "yesterday", "submitted_time: "},
           {"/regulation", "Secret Law", "regulation: "},
           {"/subject_identities", json::array(), "identities: "},
           {"/subject_identities", "Secret", "subject_identities: must be a list"},
           {"/subject_identities/0", "Secret", "subject_identities[0]: must be an object"},
           {"/subject_identities/0/identity_format", "rot13",
            "subject_identities[0].identity_format: must be raw"},
           {"/subject_identities/0/identity_value", "", "identities[0].value: "},
           {"/status_callback_urls/0", "https://Secret.example/",
            "status_callback_urls[0]: its host is not on the server's list"},
           {"/status_callback_urls/0", "ftp://Secret.example/",
            "status_callback_urls[0]: must be an address that begins with https://"},
           {"/extensions/lethe.example/memory", "m1", "extensions.lethe.example.memory: "},
           {"/extensions/lethe.example/tenant", 5, "extensions.lethe.example.tenant: "}}) {
    json asked = Asked("Secret");
    asked[json::json_pointer(field)] = value;
    EXPECT_THAT(refused(asked, path, 400), HasSubstr(message)) << field;
  }
  json nowhere = Asked("Secret");
  nowhere["extensions"][kDomain]["tenant"] = "absent";
  refused(nowhere, path, 404);
  nowhere.erase("extensions");
  refused(nowhere, path, 400);
  EXPECT_EQ(Call("POST", path, "{\"a\":1,\"a\":2}").status, 400);
  EXPECT_EQ(Call("POST", path, "[]").status, 400);
  // In its form too where the listener refuses it.
  const Page large = Call("POST", path, std::string((64 << 10) + 1, ' '));
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(json::parse(large.body)["error"]["errors"][0]["domain"], "Validation");
  EXPECT_EQ(json::parse(large.body)["error"]["code"], 413);
  const Page text = Fetch(server_->port(), "POST", path, {"Content-Type: text/plain"}, "{}");
  EXPECT_EQ(text.status, 415);
  EXPECT_EQ(json::parse(text.body)["error"]["errors"][0]["reason"], "INVALID_ARGUMENT");
  EXPECT_EQ(Call("GET", absl::StrCat(path, "/", kUuid, "?tenant=t")).status, 404);
  EXPECT_EQ(Call("GET", path + "/not-a-uuid?tenant=t").status, 404);
  // The same id for another person.
  EXPECT_EQ(Call("POST", path, Asked(kAnna).dump()).status, 201);
  EXPECT_EQ(Call("POST", path, Asked(kBert).dump()).status, 409);
  // Without a key there is no OpenDSR, since it must be signed.
  settings_.dsr_key = settings_.dsr_certificate = settings_.dsr_domain = "";
  Serve();
  EXPECT_EQ(Call("POST", path, Asked(kAnna).dump()).status, 404);
}

TEST_F(HttpErasureTest, TheResource) {
  const std::string body =
      absl::StrCat(R"({"tenant":"t","identities":[{"type":"email","value":")", kAnna,
                   R"("}],"callbackUrls":[")", receiver_.url(), R"("],"regulation":"gdpr"})");
  const std::vector<std::string> key = {"Idempotency-Key: key-1"};
  const Page created = Call("POST", "/v1/erasure-requests", body, key);
  ASSERT_EQ(created.status, 202) << created.body;
  const json received = json::parse(created.body);
  EXPECT_EQ(received["status"], "pending");
  EXPECT_EQ(received["status_url"], created.headers.at("location"));
  const std::string id = received["id"];
  const std::string path = "/v1/erasure-requests/" + id;
  EXPECT_EQ(received["status_url"], "https://lethe.example" + path);
  EXPECT_EQ(json::parse(Call("POST", "/v1/erasure-requests", body, key).body)["id"], id);
  EXPECT_EQ(
      Call("POST", "/v1/erasure-requests", absl::StrReplaceAll(body, {{kAnna, kBert}}), key).status,
      409);
  service_.Run();
  const json status = Get(path);
  EXPECT_EQ(status["status"], "completed");
  EXPECT_EQ(status["counts"], json::parse(R"({"matched":4,"erased":4,"not_found":0,)"
                                          R"("already_erased":0,"held":0})"));
  EXPECT_EQ(status["certificates"].size(), 2u);
  EXPECT_EQ(status["certificate_id"], status["certificates"][0]["id"]);
  EXPECT_FALSE(status["stores"].empty());
  EXPECT_EQ(Get(path + "/certificate")["certificates"].size(), 4u);
  // In pages: an erasure each, with the certificate that its keys are gone.
  const json first = Get(path + "/certificate?pageSize=1");
  EXPECT_EQ(first["certificates"].size(), 2u);
  const std::string token = first["nextPageToken"];
  const json rest = Get(path + "/certificate?pageSize=2&pageToken=" + token);
  EXPECT_EQ(rest["certificates"].size(), 2u);
  EXPECT_NE(rest["certificates"][0]["id"], first["certificates"][0]["id"]);
  EXPECT_EQ(rest.value("nextPageToken", ""), "");
  for (const char* bad : {"pageSize=1001", "pageSize=x", "pageToken=x", "page=1"}) {
    EXPECT_EQ(Call("GET", absl::StrCat(path, "/certificate?", bad)).status, 400) << bad;
  }
  EXPECT_EQ(Call("DELETE", path).status, 400);  // too late
  const std::vector<HttpRequest> callbacks = receiver_.Take(2);
  const json told = json::parse(callbacks.back().body);
  EXPECT_EQ(told["status"], "completed");
  EXPECT_EQ(told["sequence"], 2);
  EXPECT_EQ(callbacks.back().HeaderCount("x-lethe-signature"), 1u);

  // What a hold keeps is denied, and the hold is named.
  const std::string hold = service_.Hold(kBert);
  const Page held = Call("POST", "/v1/erasure-requests",
                         absl::StrReplaceAll(body, {{kAnna, kBert}}), {"Idempotency-Key: key-2"});
  service_.Run();
  const json denied =
      Get("/v1/erasure-requests/" + json::parse(held.body)["id"].get<std::string>());
  EXPECT_EQ(denied["status"], "denied");
  EXPECT_EQ(denied["hold_id"], hold);
  EXPECT_EQ(denied["counts"]["held"], 4);

  // Cancelled while it waits for its time.
  const std::string later =
      absl::FormatTime(absl::RFC3339_sec, service_.now() + absl::Hours(5), absl::UTCTimeZone());
  const Page waiting = Call("POST", "/v1/erasure-requests",
                            absl::StrCat(R"({"tenant":"t","startTime":")", later,
                                         R"(","identities":[{"value":"subject-19"}]})"));
  const std::string other =
      "/v1/erasure-requests/" + json::parse(waiting.body)["id"].get<std::string>();
  const Page cancelled = Call("DELETE", other);
  EXPECT_EQ(cancelled.status, 202);
  EXPECT_EQ(json::parse(cancelled.body)["status"], "cancelled");

  for (const auto& [bad, status_code, message] :
       std::vector<std::tuple<std::string, int, std::string>>{
           {R"({"tenant":"t","idempotencyKey":"x","identities":[{"value":"a"}]})", 400,
            "Idempotency-Key"},
           {R"({"tenant":"t","identities":[]})", 400, "identities: "},
           {R"({"tenant":"t","identities":[{"value":"a"}],"callbackUrls":["https://a.example"]})",
            400, "callback_urls[0]: "},
           {R"({"tenant":"t","identities":[{"value":"a"}],"callbackUrls":["https://a.example#b"]})",
            400, "callback_urls[0]: "},
           {R"({"tenant":"none","identities":[{"value":"a"}]})", 404, "tenant: "}}) {
    const Page page = Call("POST", "/v1/erasure-requests", bad);
    EXPECT_EQ(page.status, status_code) << bad;
    EXPECT_THAT(page.body, HasSubstr(message)) << bad;
  }
  EXPECT_EQ(Call("GET", "/v1/erasure-requests/t.00000000000000000000000000000000").status, 404);
  EXPECT_EQ(Call("GET", "/v1/erasure-requests/nonsense").status, 404);
}

// Whoever asks by the RPC or its twin is told of in the words of the RPC, whatever he calls
// himself.
TEST_F(HttpErasureTest, NobodyElseSpeaksForAnAdapter) {
  std::vector<std::string> sources(calls::kAdapterSources.begin(), calls::kAdapterSources.end());
  for (const std::string& source : sources) {
    const std::string body = absl::StrCat(R"({"tenant":"t","source":")", source,
                                          R"(","identities":[{"value":"subject-30"}]})");
    for (const char* path : {"/v1/erasure-requests", "/v1/tenants/t/erasure-requests"}) {
      const Page page = Call("POST", path, body);
      EXPECT_EQ(page.status, 400) << path << " " << source;
      EXPECT_THAT(page.body, HasSubstr("source: "));
    }
  }
  // These are all that there are.
  json ketch = {
      {"apiVersion", "dsr/v1"},
      {"kind", "DeleteRequest"},
      {"metadata", {{"uid", "uid-1"}, {"tenant", "axonic"}}},
      {"request",
       {{"identities",
         json::array({{{"identitySpace", "account_id"}, {"identityValue", "subject-31"}}})}}}};
  EXPECT_EQ(Call("POST", "/v1/ketch?tenant=t", ketch.dump()).status, 200);
  const json transcend = {
      {"type", "ERASURE"},
      {"extras", {{"profile", {{"identifier", "subject-32"}}}, {"request", {{"id", "r1"}}}}}};
  EXPECT_EQ(Call("POST", "/v1/transcend?tenant=t", transcend.dump()).status, 200);
  char digit = '0';
  for (const char* name : {"opendsr", "opengdpr", "opencompliance"}) {
    json asked = Asked("subject-33");
    asked["subject_request_id"] = std::string(kUuid).replace(0, 1, 1, ++digit);
    EXPECT_EQ(Call("POST", absl::StrCat("/v1/", name, "_requests"), asked.dump()).status, 201);
  }
  std::vector<std::string> made;
  const auto listed = service_->ListErasureRequests("t", std::nullopt, {});
  ASSERT_THAT(listed, IsOk());
  for (const service::ErasureRequestInfo& info : listed->items) made.push_back(info.source);
  EXPECT_THAT(made, testing::UnorderedElementsAreArray(sources));
}

// Platforms name a person's identifiers by kind, and one value can be of two of them.
TEST_F(HttpErasureTest, AValueUnderTwoTypesIsOneIdentity) {
  json asked = Asked(kAnna);
  asked["subject_identities"].push_back(asked["subject_identities"][0]);
  asked["subject_identities"][1]["identity_type"] = "email";
  EXPECT_EQ(Call("POST", "/v1/opendsr_requests", asked.dump()).status, 201);
  // The same request under another of its names.
  EXPECT_EQ(Call("POST", "/v1/opengdpr_requests", asked.dump()).status, 201);
  EXPECT_EQ(service_->ListErasureRequests("t", std::nullopt, {})->items.size(), 1u);
  json ketch = {
      {"apiVersion", "dsr/v1"},
      {"kind", "DeleteRequest"},
      {"metadata", {{"uid", "uid-1"}, {"tenant", "axonic"}}},
      {"request",
       {{"identities", json::array({{{"identitySpace", "account_id"}, {"identityValue", kBert}},
                                    {{"identitySpace", "email"}, {"identityValue", kBert}}})},
        {"callbacks", json::array({{{"url", receiver_.url()},
                                    {"headers", {{"Authorization", "Bearer one"}}}}})}}}};
  EXPECT_EQ(Call("POST", "/v1/ketch?tenant=t", ketch.dump()).status, 200);
  // What it shows to be let in with a callback may have been replaced meanwhile.
  ketch["request"]["callbacks"][0]["headers"]["Authorization"] = "Bearer two";
  EXPECT_EQ(Call("POST", "/v1/ketch?tenant=t", ketch.dump()).status, 200);
  service_.Run();
  EXPECT_EQ(service_->Describe("t", "m1", false, {})->subjects, 0u);
}

TEST_F(HttpErasureTest, AnExpiredCertificateEndsOpenDsrAloneUntilThereIsAnotherOne) {
  const std::string path = "/v1/opendsr_requests";
  const TestCertificate expired(kDomain, nullptr, -1);
  expired.WriteKey(settings_.dsr_key);
  expired.WriteCertificate(settings_.dsr_certificate);
  Serve();
  EXPECT_THAT(channel_->Problem(), HasSubstr("--dsr-certificate"));
  const Page refused = Call("POST", path, Asked(kAnna).dump());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(json::parse(refused.body)["error"]["errors"][0]["domain"], "Service");
  EXPECT_EQ(service_->ListErasureRequests("t", std::nullopt, {})->items.size(), 0u);
  EXPECT_EQ(Call("GET", "/v1/discovery/certificate.pem").status, 503);
  EXPECT_EQ(Call("GET", "/v1/tenants/t").status, 200);
  key_.WriteKey(settings_.dsr_key);
  key_.WriteCertificate(settings_.dsr_certificate);
  program::EventLog log(-1, program::LogLevel::kError);
  channel_->Follow(log);
  EXPECT_EQ(channel_->Problem(), "");
  EXPECT_EQ(Call("POST", path, Asked(kAnna).dump()).status, 201);
  // A wrong file changes nothing.
  std::ofstream(settings_.dsr_certificate, std::ios::trunc) << "no certificate";
  channel_->Follow(log);
  EXPECT_EQ(Call("GET", absl::StrCat(path, "/", kUuid, "?tenant=t")).status, 200);
}

TEST_F(HttpErasureTest, KetchIsAnsweredAndTold) {
  json asked = {
      {"apiVersion", "dsr/v1"},
      {"kind", "DeleteRequest"},
      {"metadata", {{"uid", "22880925-aac5"}, {"tenant", "axonic"}}},
      {"request",
       {{"regulation", "GDPR EU"},
        {"identities", json::array({{{"identitySpace", "account_id"},
                                     {"identityFormat", "raw"},
                                     {"identityValue", kAnna}}})},
        {"callbacks", json::array({{{"url", receiver_.url()},
                                    {"headers", {{"Authorization", "Bearer of-ketch"}}}}})},
        {"subject", {{"email", nullptr}}},
        {"submittedTimestamp", absl::ToUnixSeconds(service_.now()) - 60}}}};
  const Page page = Call("POST", "/v1/ketch?tenant=t", asked.dump());
  ASSERT_EQ(page.status, 200) << page.body;
  const json answer = json::parse(page.body);
  EXPECT_EQ(answer["kind"], "DeleteResponse");
  EXPECT_EQ(answer["metadata"], asked["metadata"]);
  EXPECT_EQ(answer["response"]["status"], "pending");
  service_.Run();
  const std::vector<HttpRequest> events = receiver_.Take(2);
  EXPECT_EQ(events.back().Header("authorization"), "Bearer of-ketch");
  const json event = json::parse(events.back().body);
  EXPECT_EQ(event["kind"], "DeleteStatusEvent");
  EXPECT_EQ(event["metadata"], asked["metadata"]);
  EXPECT_EQ(event["event"]["status"], "completed");
  EXPECT_EQ(event["event"]["reason"], "executed");
  EXPECT_EQ(event["event"]["requestID"], answer["response"]["requestID"]);
  EXPECT_EQ(
      json::parse(Call("POST", "/tenants/t/v1/ketch", asked.dump()).body)["response"]["status"],
      "completed");
  json elsewhere = asked;
  elsewhere["metadata"]["uid"] = "another";
  elsewhere["request"]["callbacks"][0]["url"] = "https://other.example";
  EXPECT_THAT(Call("POST", "/v1/ketch?tenant=t", elsewhere.dump()).body,
              HasSubstr("request.callbacks[0]: its host is not on the server's list"));
  for (const auto& [field, value] : std::vector<std::pair<std::string, json>>{
           {"/kind", "AccessRequest"},
           {"/apiVersion", "dsr/v2"},
           {"/metadata/uid", "a b"},
           {"/request", 5},
           {"/request/identities", nullptr},
           {"/request/callbacks/0/url", "https://other.example"},
           {"/request/callbacks/0/headers/X-Other", "a"},
           {"/request/callbacks/0/headers/Authorization", "a\r\nb"}}) {
    json bad = asked;
    bad["metadata"]["uid"] = "another";
    bad[json::json_pointer(field)] = value;
    EXPECT_EQ(Call("POST", "/v1/ketch?tenant=t", bad.dump()).status, 400) << field;
  }
}

std::string Url64(const std::string& bytes) {
  std::string text;
  absl::WebSafeBase64Escape(bytes, &text);
  return text;
}

// As Transcend's gateway signs it.
std::string SombraToken(EVP_PKEY* key, const std::string& header, const std::string& claims) {
  const std::string text = absl::StrCat(Url64(header), ".", Url64(claims));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  EVP_DigestSignInit(context.get(), nullptr, EVP_sha384(), nullptr, key);
  std::string der(200, '\0');
  size_t size = der.size();
  EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(der.data()), &size,
                 reinterpret_cast<const unsigned char*>(text.data()), text.size());
  const auto* from = reinterpret_cast<const unsigned char*>(der.data());
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> numbers(
      d2i_ECDSA_SIG(nullptr, &from, static_cast<long>(size)), ECDSA_SIG_free);
  std::string raw(96, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(numbers.get()), out, 48);
  BN_bn2binpad(ECDSA_SIG_get0_s(numbers.get()), out + 48, 48);
  return absl::StrCat(text, ".", Url64(raw));
}

TEST_F(HttpErasureTest, TranscendIsKnownByItsSignature) {
  char curve[] = "P-384";  // the library takes it as text that it might change
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen(curve), EVP_PKEY_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> other(EVP_EC_gen(curve), EVP_PKEY_free);
  settings_.transcend_key = folder_.path() + "/transcend.pem";
  FILE* file = fopen(settings_.transcend_key.c_str(), "w");
  PEM_write_PUBKEY(file, key.get());
  fclose(file);
  Serve();
  const std::string head = R"({"alg":"ES384","typ":"JWT"})";
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  const std::string claims = absl::StrCat(R"({"exp":)", now + 60, "}");
  const std::string good = SombraToken(key.get(), head, claims);
  const json asked = {{"type", "ERASURE"},
                      {"coreIdentifier", {{"value", kAnna}}},
                      {"extras",
                       {{"profile", {{"identifier", kAnna}, {"type", "email"}}},
                        {"request", {{"id", "request-1"}, {"link", nullptr}}}}}};
  const auto status = [&](const std::string& token, const json& body) {
    return Call("POST", "/v1/transcend?tenant=t", body.dump(), {"x-sombra-token: " + token}).status;
  };
  for (const std::string& bad :
       {std::string("x"), std::string("a.b.c"), good + "A", good.substr(0, good.size() - 1),
        SombraToken(other.get(), head, claims), SombraToken(key.get(), R"({"alg":"none"})", claims),
        SombraToken(key.get(), R"({"alg":"HS384"})", claims),
        SombraToken(key.get(), R"({"alg":"ES384","alg":"ES384"})", claims),
        SombraToken(key.get(), head, "{}"),
        SombraToken(key.get(), head, absl::StrCat(R"({"exp":)", now - 60, "}")),
        SombraToken(key.get(), head,
                    absl::StrCat(R"({"exp":)", now + 60, R"(,"nbf":)", now + 50, "}"))}) {
    EXPECT_EQ(status(bad, asked), 401) << bad;
  }
  EXPECT_EQ(Call("POST", "/v1/transcend?tenant=t", asked.dump()).status, 401);
  EXPECT_EQ(status(good, asked), 200);
  json second = asked;  // the same request comes for another identifier of the person
  second["extras"]["profile"]["identifier"] = "subject-20";
  EXPECT_EQ(status(good, second), 200);
  json access = asked;
  access["type"] = "ACCESS";
  EXPECT_EQ(status(good, access), 400);
  service_.Run();
  EXPECT_EQ(service_->ListErasureRequests("t", service::ErasureState::kCompleted, {})->items.size(),
            2u);
}

TEST_F(HttpErasureTest, ACallbackThatFailsComesAgainAndIsSettledForGood) {
  receiver_.Answer(500);
  Call("POST", "/v1/opendsr_requests", Asked(kAnna).dump());
  service_.Run();
  EXPECT_EQ(receiver_.Take(1).size(), 1u);
  receiver_.Answer(202);
  End();  // what sends reads the clock
  service_.Pass(absl::Minutes(2));
  Serve();
  // The first one again, and then the one that came after it.
  std::vector<std::string> states;
  for (const HttpRequest& callback : receiver_.Take(3)) {
    states.push_back(json::parse(callback.body)["request_status"]);
  }
  EXPECT_THAT(states, ElementsAre("in_progress", "in_progress", "completed"));
  // A host that is taken off the list is not called any more.
  End();
  settings_.callbacks.hosts = {"elsewhere.example"};
  Serve();
  service::ErasureRequestInput input =
      service::ErasureHarness::InputFor({service::ErasureHarness::Raw(kBert)});
  input.callback_urls = {receiver_.url()};  // it was on the list when it was asked for
  service_.Ask(input);
  service_.Run();
  while (service_->ErasureCounts().callbacks > 0) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(receiver_.Take(3).size(), 3u);
}

// None of these calls holds a stop up while somebody else opens the tenant that it is about.
TEST_F(HttpErasureTest, AStopDoesNotWaitForTenants) {
  End();
  service::Door door;
  service_.hooks().before = [&door](const std::string& called) {
    if (called == "LoadTokens") door.WaitHere();
    return absl::OkStatus();
  };
  service_.Restart();
  Serve();
  std::thread opening([&] { EXPECT_FALSE(service_.Digest("m1").empty()); });
  door.WaitUntilSomebodyWaits();
  const std::string resource = "/v1/erasure-requests/t." + std::string(32, '0');
  const std::string dsr = absl::StrCat("/v1/opendsr_requests/", kUuid, "?tenant=t");
  std::vector<std::thread> calls;
  std::atomic<int> refused{0};
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"GET", resource},
                                                        {"DELETE", resource},
                                                        {"GET", resource + "/certificate"},
                                                        {"GET", dsr},
                                                        {"DELETE", dsr}}) {
    calls.emplace_back([this, &refused, method = method, path = path] {
      if (Call(method, path).status == 503) ++refused;
    });
  }
  while (service_->OpenTenantCounts().waiting < calls.size() + 1) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  server_->Stop(absl::InfiniteDuration());
  for (std::thread& call : calls) call.join();
  EXPECT_EQ(refused, 5);
  door.Open();
  opening.join();
}

}  // namespace
}  // namespace lethe::http
