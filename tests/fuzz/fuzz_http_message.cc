// A request over HTTP, from its first byte to its answer: the head, the target, who calls, the
// route, and what the route does.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/access/file_policy.h"
#include "server/access/methods.h"
#include "server/http/call_routes.h"
#include "server/http/erasure_http.h"
#include "server/http/erasure_routes.h"
#include "server/http/http_call.h"
#include "server/http/log_routes.h"
#include "server/http/openapi.h"
#include "server/http/opendsr_routes.h"
#include "server/http/request_head.h"
#include "server/http/sombra_token.h"
#include "server/http/webhook_routes.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/world.h"
#include "tests/server/access_testing.h"
#include "tests/server/http_testing.h"

namespace lethe::fuzz {
namespace {

using http::HttpRequest;
using http::HttpResponse;
using nlohmann::json;

constexpr uint32_t kMostHeadBytes = 16 << 10;
constexpr uint64_t kMostBodyBytes = 64 << 10;
constexpr char kIssuer[] = "https://issuer.example";
constexpr char kAudience[] = "lethe";
constexpr int64_t kNow = 1770000000;
constexpr int64_t kLifetime = 3600;
constexpr int64_t kSkew = 30;

bool HasControl(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string EncodePercent(absl::string_view text, bool slashes_too) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || (c == '/' && !slashes_too)) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

class Requests {
 public:
  Requests() : key_(access::TestKey::P256()), transcend_key_(access::TestKey::P384()) {
    const http::TestCertificate certificate("lethe.example");
    certificate.WriteKey(ScratchFolder() + "/dsr.key");
    certificate.WriteCertificate(ScratchFolder() + "/dsr.pem");
    auto dsr = http::DsrKey::Load("lethe.example", ScratchFolder() + "/dsr.key",
                                  ScratchFolder() + "/dsr.pem");
    RequireOk(dsr.status(), "a signer can be made");
    dsr_ = *std::move(dsr);
    auto transcend =
        http::SombraKey::Load(ScratchFile("transcend.pem", transcend_key_.PublicPem()));
    RequireOk(transcend.status(), "a key can be read");
    transcend_ = *std::move(transcend);
    access::Issuer issuer;
    issuer.name = "issuer";
    issuer.issuer = kIssuer;
    issuer.audience = kAudience;
    issuer.algorithms = {access::Algorithm::kEs256};
    issuer.grants = {{std::string(access::kEveryTenant), access::Role::kApp}};
    RequireOk(issuer.keys.AddPem(key_.PublicPem()), "a key can be added");
    RequireOk(policy_.AddIssuer(std::move(issuer)), "an issuer can be added");
  }

  void Run(absl::string_view input) {
    changed_ = false;
    const std::string bytes = Fill(input);
    http::RequestParser parser;
    parser.header_limit(kMostHeadBytes);
    parser.body_limit(kMostBodyBytes);
    parser.eager(true);
    boost::system::error_code error;
    size_t read = parser.put(boost::asio::buffer(bytes), error);
    if (!parser.is_header_done()) return;
    while (!error && !parser.is_done() && read < bytes.size()) {
      const size_t more =
          parser.put(boost::asio::buffer(bytes.data() + read, bytes.size() - read), error);
      if (more == 0) break;
      read += more;
    }
    absl::StatusOr<HttpRequest> request = http::RequestOf(parser);
    if (!request.ok()) return Refused(request.status());
    CheckTarget(*request);
    CheckCaller(*request);
    if (!error && parser.is_done()) request->body = parser.get().body();
    Dispatch(*request);
    world_.EndInput(changed_);
  }

 private:
  // The first "<word>HEADER|CLAIMS@": a token of those, signed by the key.
  static void FillToken(const std::string& word,
                        absl::string_view algorithm,
                        const access::TestKey& key,
                        std::string& text) {
    const size_t begin = text.find(word);
    if (begin == std::string::npos) return;
    const size_t from = begin + word.size();
    const size_t bar = text.find('|', from);
    if (bar == std::string::npos) return;
    const size_t end = text.find('@', bar);
    if (end == std::string::npos) return;
    text.replace(begin, end + 1 - begin,
                 access::JwtOfText(text.substr(from, bar - from),
                                   text.substr(bar + 1, end - bar - 1), algorithm, key));
  }

  // Lines may end in line feeds alone where no line of the input ends otherwise. "@length@" is the
  // length of what follows the head, "@jwt HEADER|CLAIMS@" those, signed by the issuer's key, and
  // "@sombra HEADER|CLAIMS@" by that of Transcend's gateway.
  std::string Fill(absl::string_view input) const {
    std::string text = world_.Fill(input);
    FillToken("@jwt ", "ES256", key_, text);
    FillToken("@sombra ", "ES384", transcend_key_, text);
    const bool lines = !absl::StrContains(text, '\r');
    const std::string between = lines ? "\n\n" : "\r\n\r\n";
    const size_t head = text.find(between);
    if (head == std::string::npos) {
      return lines ? absl::StrReplaceAll(text, {{"\n", "\r\n"}}) : text;
    }
    const std::string body = text.substr(head + between.size());
    std::string top =
        absl::StrReplaceAll(text.substr(0, head), {{"@length@", absl::StrCat(body.size())}});
    if (lines) top = absl::StrReplaceAll(top, {{"\n", "\r\n"}});
    return absl::StrCat(top, "\r\n\r\n", body);
  }

  // An error in the form of HTTP: JSON that says its code.
  static void Refused(const absl::Status& status) {
    World::CheckCode("HTTP", status);
    CheckAnswer(http::ErrorResponse(status));
  }

  static void CheckAnswer(const HttpResponse& response) {
    Say(absl::StrCat(response.status, " ", response.body.substr(0, 200)));
    Require(response.status >= 200 && response.status < 500 && response.status != 499,
            "a request is answered, or refused for a reason",
            absl::StrCat(response.status, " ", response.body));
    for (const auto& [name, value] : response.headers) {
      Require(!name.empty() && !HasControl(name) && !HasControl(value),
              "no header of an answer is more than one line", name);
    }
    Require(!HasControl(response.type), "a type is one line");
    if (response.type != http::kJson || response.body.empty()) return;
    Require(json::accept(response.body), "an answer in JSON is JSON", response.body);
  }

  static void CheckTarget(const HttpRequest& request) {
    Require(!request.path.empty() && request.path[0] == '/', "a path begins with a slash");
    Require(!HasControl(request.path), "a path is printable");
    for (const absl::string_view part : absl::StrSplit(request.path, '/')) {
      Require(part != "." && part != "..", "a path goes nowhere but down");
    }
    for (const auto& [name, value] : request.query) {
      Require(!HasControl(name) && !HasControl(value), "a query is printable");
    }
    // What is decoded can be encoded again, and is the same.
    HttpRequest again;
    std::string target = request.path + "?";
    for (const auto& [name, value] : request.query) {
      absl::StrAppend(&target, EncodePercent(name, true), "=", EncodePercent(value, true), "&");
    }
    RequireOk(http::ParseTarget(target, again), "a target can be made again");
    Require(again.path == request.path, "the path of a target is kept");
    // An item without a name and a value is nothing.
    Require(again.query == request.query, "the query of a target is kept", target);
  }

  // Who is let in has claims that let him in.
  void CheckCaller(const HttpRequest& request) const {
    access::Credentials credentials;
    for (const auto& [name, value] : request.headers) {
      if (name == "authorization") credentials.authorization.push_back(value);
    }
    const auto identity = policy_.Authenticate(credentials, absl::FromUnixSeconds(kNow));
    if (!identity.ok()) {
      Require(absl::IsUnauthenticated(identity.status()), "a stranger is UNAUTHENTICATED",
              identity.status().ToString());
      return CheckMessage("credentials", std::string(identity.status().message()));
    }
    Say(absl::StrCat("caller: ", (*identity)->name));
    Require(credentials.authorization.size() == 1, "one header says who calls");
    const std::vector<std::string> parts =
        absl::StrSplit(absl::string_view(credentials.authorization[0]).substr(7), '.');
    Require(parts.size() == 3, "a token has three parts");
    const json header = Decoded(parts[0]);
    const json claims = Decoded(parts[1]);
    Require(header.value("alg", "") == "ES256", "a token is signed as it may be");
    Require(claims.value("iss", "") == kIssuer, "a token is of a pinned issuer");
    const json& audience = claims["aud"];
    Require(audience == kAudience ||
                (audience.is_array() &&
                 std::find(audience.begin(), audience.end(), kAudience) != audience.end()),
            "a token is for this server");
    Require(claims["exp"].is_number(), "a token says when it ends");
    const double end = claims["exp"].get<double>();
    Require(end > static_cast<double>(kNow - kSkew - 1) &&
                end <= static_cast<double>(kNow + kLifetime + kSkew + 1),
            "a token is good now, and not for long");
    for (const access::Grant& grant : (*identity)->grants) {
      Require(grant.role == access::Role::kApp, "a token grants what its issuer may");
    }
  }
  static void CheckTranscend(const HttpRequest& request) {
    const std::vector<std::string> parts = absl::StrSplit(request.Header("x-sombra-token"), '.');
    Require(parts.size() == 3, "a webhook is signed");
    Require(Decoded(parts[0]).value("alg", "") == "ES384", "a webhook is signed as it may be");
    const json claims = Decoded(parts[1]);
    Require(claims.contains("exp") && claims["exp"].is_number_integer(),
            "a webhook says when it ends");
  }
  static json Decoded(absl::string_view part) {
    // As base64 with the other alphabet and without padding.
    std::string standard = absl::StrReplaceAll(part, {{"-", "+"}, {"_", "/"}});
    while (standard.size() % 4 != 0) standard += '=';
    std::string text;
    Require(absl::Base64Unescape(standard, &text), "a part of a token is base64url");
    json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
    Require(parsed.is_object(), "a part of a token is an object");
    return parsed;
  }

  // The routes of a server that has all of them.
  const http::Router& Routes() {
    if (routes_ != nullptr && routes_of_ == world_.generation()) return *routes_;
    routes_of_ = world_.generation();
    routes_ = std::make_unique<http::Router>();
    service::Service* service = world_.service();
    const http::ErasureHttp erasure = {
        .service = service, .dsr = dsr_.get(), .transcend = transcend_.get(), .public_url = ""};
    http::AddLogRoutes(service, /*open=*/true, *routes_);
    http::AddCallRoutes(service, *routes_);
    http::AddErasureRoutes(erasure, *routes_);
    http::AddOpenDsrRoutes(erasure, *routes_);
    http::AddWebhookRoutes(erasure, *routes_);
    http::AddOpenApiRoute(*routes_);
    return *routes_;
  }
  const calls::MethodCalls& CallsOf(const std::string& operation) {
    return methods_.try_emplace(operation, calls::CallHooks{.gate = &gate_}, operation)
        .first->second;
  }

  void Dispatch(HttpRequest& request) {
    const absl::StatusOr<http::Router::Match> match = Routes().Find(request);
    if (!match.ok()) return Refused(match.status());
    for (size_t i = 0; i < match->allowed.size(); ++i) {
      Require(!match->allowed[i].empty() && !HasControl(match->allowed[i]) &&
                  (i == 0 || match->allowed[i - 1] < match->allowed[i]),
              "the methods that are allowed are a list");
    }
    if (match->route == nullptr) return;
    Require(match->allowed.empty(), "a route that is found needs no list");
    const http::Route& route = *match->route;
    Require(access::FindMethod(route.operation) != nullptr, "a route is in the table of access",
            route.operation);
    CheckAgain(route, request);
    if (!request.body.empty() && route.max_body_bytes == 0) return;
    const absl::StatusOr<HttpResponse> response = Answer(route, request);
    if (absl::StrContains(route.pattern, "transcend")) {
      if (response.ok()) CheckTranscend(request);
      if (absl::IsUnauthenticated(response.status())) {
        CheckMessage(route.pattern, std::string(response.status().message()));
        return CheckAnswer(route.error(response.status(), 0));
      }
    }
    if (response.ok()) return CheckAnswer(*response);
    World::CheckCode(route.operation, response.status());
    CheckAnswer(route.error(response.status(), 0));
  }

  // The pattern with its variables put in leads to the same route and the same variables.
  void CheckAgain(const http::Route& route, const HttpRequest& request) {
    HttpRequest again;
    again.method = request.method;
    std::string path = route.pattern;
    for (const auto& [name, value] : request.variables) {
      Require(!value.empty() && !HasControl(value), "a variable is there", name);
      const std::string rest = absl::StrCat("{", name, "...}");
      const bool whole = !absl::StrContains(path, rest);
      path = absl::StrReplaceAll(
          path, {{whole ? absl::StrCat("{", name, "}") : rest, EncodePercent(value, whole)}});
    }
    again.path = path;
    const absl::StatusOr<http::Router::Match> match = Routes().Find(again);
    RequireOk(match.status(), "a path can be made again");
    Require(match->route == &route, "a path leads to its route", path);
    Require(again.variables == request.variables, "with its variables", path);
  }

  absl::StatusOr<HttpResponse> Answer(const http::Route& route, const HttpRequest& request) {
    http::HttpCall call(&CallsOf(route.operation), request, [] { return absl::OkStatus(); });
    absl::Status entered = call.Enter();
    if (!entered.ok()) return entered;
    if (route.method != "GET") changed_ = true;
    absl::StatusOr<HttpResponse> response = route.handler(request, call);
    call.Finish(response.status());
    if (changed_) world_.service()->RunDueErasures();
    return response;
  }

  World world_{"http"};
  const access::TestKey key_;
  const access::TestKey transcend_key_;
  access::FilePolicy policy_;
  const access::Gate gate_{nullptr, nullptr, nullptr};
  std::unique_ptr<http::DsrKey> dsr_;
  std::unique_ptr<http::SombraKey> transcend_;
  std::unique_ptr<http::Router> routes_;
  uint64_t routes_of_ = 0;
  std::map<std::string, calls::MethodCalls> methods_;
  bool changed_ = false;
};

}  // namespace

void FuzzHttpMessage(absl::string_view input) {
  static Requests* const requests = new Requests;
  requests->Run(input);
}

}  // namespace lethe::fuzz
