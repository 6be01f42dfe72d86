// Erasure requests over HTTP: the resource, OpenDSR from request to signed callback, Ketch,
// Transcend; and where callbacks may go.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/encoding.h"
#include "audit/verify.h"
#include "server/http/http_server.h"
#include "tests/server/erasure_testing.h"
#include "tests/server/http_testing.h"

namespace lethe::http {
namespace {

using nlohmann::json;
using service::HasCode;
using service::IsOk;
using service::kAnna;
using service::kBert;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kDomain[] = "lethe.example";
constexpr char kUuid[] = "a7551968-d5d6-44b2-9831-815ac9017798";

// Somebody who wants to be told.
class Receiver {
 public:
  Receiver() : listener_({.host = "127.0.0.1"}) {
    listener_.routes().Add({.method = "POST",
                            .pattern = "/callbacks/{name}",
                            .operation = "GET /openapi.json",  // a row that is open
                            .max_body_bytes = 1 << 20,
                            .handler = [this](const HttpRequest& request, HttpCall&) {
                              std::lock_guard<std::mutex> lock(mutex_);
                              received_.push_back(request);
                              changed_.notify_all();
                              return HttpResponse{.status = status_};
                            }});
    EXPECT_THAT(listener_.Start(), IsOk());
  }
  std::string host() const { return absl::StrCat("127.0.0.1:", listener_.port()); }
  std::string url() const { return absl::StrCat("http://", host(), "/callbacks/a"); }
  void Answer(int status) {
    std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
  }
  // Waits until so many have come, and returns them all.
  std::vector<HttpRequest> Take(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return received_.size() >= count; });
    return received_;
  }

 private:
  HttpListener listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HttpRequest> received_;
  int status_ = 202;
};

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
    settings_ = {.host = "127.0.0.1",
                 .public_url = "https://lethe.example",
                 .dsr_domain = kDomain,
                 .dsr_key = folder_.path() + "/key.pem",
                 .dsr_certificate = folder_.path() + "/certificate.pem",
                 .callbacks = {.hosts = {receiver_.host()}, .loopback = true}};
    Serve();
  }
  void Serve() {
    server_.reset();
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::Start(&*service_, settings_, {}, nullptr);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
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
  HttpSettings settings_;
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
            "status_callback_urls[0]: must begin with https://"},
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
           {R"({"tenant":"none","identities":[{"value":"a"}]})", 404, "tenant: "}}) {
    const Page page = Call("POST", "/v1/erasure-requests", bad);
    EXPECT_EQ(page.status, status_code) << bad;
    EXPECT_THAT(page.body, HasSubstr(message)) << bad;
  }
  EXPECT_EQ(Call("GET", "/v1/erasure-requests/t.00000000000000000000000000000000").status, 404);
  EXPECT_EQ(Call("GET", "/v1/erasure-requests/nonsense").status, 404);
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
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-384"), EVP_PKEY_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> other(EVP_EC_gen("P-384"),
                                                                  EVP_PKEY_free);
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
  server_.reset();  // it reads the clock
  service_.Pass(absl::Minutes(2));
  Serve();
  // The first one again, and then the one that came after it.
  std::vector<std::string> states;
  for (const HttpRequest& callback : receiver_.Take(3)) {
    states.push_back(json::parse(callback.body)["request_status"]);
  }
  EXPECT_THAT(states, ElementsAre("in_progress", "in_progress", "completed"));
  // A host that is taken off the list is not called any more.
  server_->Stop();
  settings_.callbacks.hosts = {"elsewhere.example"};
  Serve();
  service::ErasureRequestInput input =
      service::ErasureHarness::InputFor({service::ErasureHarness::Raw(kBert)});
  input.callback_urls = {receiver_.url()};  // by gRPC, say, where nobody checked it
  service_.Ask(input);
  service_.Run();
  while (service_->ErasureCounts().callbacks > 0) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(receiver_.Take(3).size(), 3u);
}

TEST(CallbackPolicyTest, AddressesAreOnTheList) {
  const CallbackPolicy policy{.hosts = {"a.example", "b.example:8443", "[::1]", "::1:8080"}};
  EXPECT_THAT(policy.Check("https://a.example/x?y=z"), IsOk());
  EXPECT_THAT(policy.Check("https://A.EXAMPLE:443"), IsOk());
  EXPECT_EQ(policy.Check("https://b.example:8443/")->port, 8443);
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

TEST(HttpSettingsTest, WhatBelongsTogetherIsAskedFor) {
  EXPECT_THAT(CheckHttpSettings({}), IsOk());
  EXPECT_THAT(CheckHttpSettings({.dsr_domain = "a"}),
              service::Fails(service::kInvalid, "--dsr-key"));
  EXPECT_THAT(CheckHttpSettings({.callbacks = {.hosts = {"a"}}}),
              service::Fails(service::kInvalid, "--callback-host"));
  for (const char* url : {"lethe.example", "https://a/", "https://a b", "ftp://a", "https://a?b"}) {
    EXPECT_THAT(CheckHttpSettings({.public_url = url}),
                service::Fails(service::kInvalid, "--public-url"))
        << url;
  }
}

}  // namespace
}  // namespace lethe::http
