// Who a caller is: the access file, static tokens, signed tokens and what is tried with them,
// certificates. What the calls make of it: access_matrix_test.cc.
#include "server/access/access.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "audit/bearer_token.h"
#include "audit/encoding.h"
#include "server/access/gate.h"
#include "server/access/guarded_file.h"
#include "server/access/jwt.h"
#include "tests/server/access_testing.h"
#include "tests/server/service_testing.h"

namespace lethe::access {
namespace {

using nlohmann::json;
using service::HasCode;
using service::IsOk;
using testing::HasSubstr;
using testing::Not;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnauthenticated = absl::StatusCode::kUnauthenticated;

MATCHER_P(Says, text, "") {
  const std::string message(service::StatusOf(arg).message());
  *result_listener << service::Describe(service::StatusOf(arg));
  return !service::StatusOf(arg).ok() && message.find(text) != std::string::npos;
}

Credentials Bearer(const std::string& token) { return {.authorization = {"Bearer " + token}}; }

std::string HexOf(const std::string& token) { return audit::Hex(audit::DigestOfToken(token)); }

class AccessTest : public testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/access.toml"; }
  absl::StatusOr<std::shared_ptr<const Policy>> Load(const std::string& text) {
    WriteFile(path(), text);
    return LoadAccess(path());
  }
  std::shared_ptr<const Policy> MustLoad(const std::string& text) {
    const auto policy = Load(text);
    EXPECT_THAT(policy, IsOk());
    return *policy;
  }

  service::TempDir folder_;
};

TEST_F(AccessTest, GrantsAreATenantAndARole) {
  EXPECT_EQ(ParseGrant("clinic:app").value(), (Grant{"clinic", Role::kApp}));
  EXPECT_EQ(ParseGrant("*:auditor").value(), (Grant{"*", Role::kAuditor}));
  for (const char* bad :
       {"", ":", "clinic", "clinic:", ":app", "Clinic:app", "clinic:App", "**:app", "clinic:app ",
        "clinic:root", "clinic:app:admin", "clin*:app"}) {
    EXPECT_THAT(ParseGrant(bad), HasCode(kInvalid)) << bad;
  }
}

TEST_F(AccessTest, ATokenIsFoundByItsDigestAlone) {
  const std::string one = audit::NewBearerToken();
  const std::string two = audit::NewBearerToken();
  EXPECT_NE(one, two);
  EXPECT_EQ(one.size(), 49u);
  EXPECT_TRUE(audit::IsBearerToken(one));
  const auto policy = MustLoad(absl::StrCat(
      "[[token]]\nname = \"app-1\"\nsha256 = \"", HexOf(one),
      "\"\ngrants = [\"clinic:app\", \"lab:eraser\"]\n", "[[token]]\nname = \"app-1\"\nsha256 = \"",
      HexOf(two), "\"\ngrants = [\"*:admin\"]\nexpires = 2030-01-01T00:00:00Z\n"));
  const absl::Time now = absl::FromCivil(absl::CivilDay(2029, 12, 31), absl::UTCTimeZone());
  const auto first = policy->Authenticate(Bearer(one), now);
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ((*first)->name, "app-1");
  EXPECT_TRUE((*first)->Holds("clinic", {Role::kApp}));
  EXPECT_TRUE((*first)->Holds("lab", {Role::kApp, Role::kEraser}));
  EXPECT_FALSE((*first)->Holds("lab", {Role::kApp}));
  EXPECT_FALSE((*first)->Holds("other", {Role::kApp}));
  EXPECT_FALSE((*first)->HoldsEverywhere({Role::kApp}));
  EXPECT_TRUE((*first)->Knows("lab"));
  EXPECT_FALSE((*first)->Knows("other"));
  EXPECT_THAT(policy->Authenticate({.authorization = {"bearer " + one}}, now), IsOk());
  // The second one ends.
  ASSERT_THAT(policy->Authenticate(Bearer(two), now), IsOk());
  EXPECT_TRUE((*policy->Authenticate(Bearer(two), now))->HoldsEverywhere({Role::kAdmin}));
  EXPECT_THAT(policy->Authenticate(Bearer(two), now + absl::Hours(24)), Says("expired"));
  // Anything else is nobody.
  std::string other = one;
  other.back() = other.back() == 'A' ? 'B' : 'A';
  for (const Credentials& bad :
       {Bearer(other), Bearer(""), Bearer(one + "A"), Bearer(" " + one), Bearer(HexOf(one)),
        Bearer("lethe_"), Credentials{}, Credentials{.authorization = {one}},
        Credentials{.authorization = {"Basic " + one}},
        Credentials{.authorization = {"Bearer " + one, "Bearer " + one}}}) {
    EXPECT_THAT(policy->Authenticate(bad, now), HasCode(kUnauthenticated));
  }
}

TEST_F(AccessTest, AFileThatIsWrongIsRefusedWithItsLine) {
  const std::string digest = HexOf(audit::NewBearerToken());
  const std::string good = absl::StrCat("[[token]]\nname = \"app-1\"\nsha256 = \"", digest,
                                        "\"\ngrants = [\"t:app\"]\n");
  ASSERT_THAT(Load(good), IsOk());
  ASSERT_THAT(Load(""), IsOk());
  struct Case {
    std::string text;
    std::string line;
    std::string says;
  };
  const std::vector<Case> cases = {
      {good + "grant = 1\n", ":5:", "did you mean grants?"},
      {"[[tokens]]\n", ":1:", "did you mean token?"},
      {"[token]\nname = \"a\"\n", ":1:", "[[token]]"},
      {"token = [1]\n", ":1:", "[[token]]"},
      {absl::StrReplaceAll(good, {{"name = \"app-1\"\n", ""}}), ":1:", "name: is missing"},
      {absl::StrReplaceAll(good, {{"app-1", "app 1"}}), ":2:", "name: must be"},
      {absl::StrReplaceAll(good, {{"\"app-1\"", "1"}}), ":2:", "name: must be a text"},
      {absl::StrReplaceAll(good, {{digest, digest.substr(2)}}), ":3:", "sha256: must be"},
      {absl::StrReplaceAll(good, {{digest, audit::NewBearerToken()}}), ":3:", "sha256: must be"},
      {absl::StrReplaceAll(good, {{"t:app", "t:root"}}), ":4:", "grants: [0]: role"},
      {absl::StrReplaceAll(good, {{"\"t:app\"", ""}}), ":4:", "grants: must be a list"},
      {absl::StrReplaceAll(good, {{"[\"t:app\"]", "\"t:app\""}}), ":4:", "grants: must be a list"},
      {good + "expires = \"2030-01-01\"\n", ":5:", "expires: must be a date"},
      {good + "expires = 2030-01-01T00:00:00\n", ":5:", "expires: must be a date"},
      {good + good, ":7:", "another token"},
      {"[[certificate]]\nname = \"c\"\ngrants = [\"t:app\"]\n", ":1:", "either it or dns"},
      {"[[certificate]]\nname = \"c\"\ngrants = [\"t:app\"]\nuri = \"u\"\ndns = \"d\"\n",
       ":4:", "either it or dns"},
      {"[[issuer]]\nname = \"i\"\ngrants = [\"t:app\"]\nissuer = \"x\"\naudience = \"a\"\n"
       "algorithms = [\"none\"]\n",
       ":6:", "ES256"},
      {"[[issuer]]\nname = \"i\"\ngrants = [\"t:app\"]\nissuer = \"x\"\naudience = \"a\"\n"
       "algorithms = [\"HS256\"]\n",
       ":6:", "ES256"},
      {"[[issuer]]\nname = \"i\"\ngrants = [\"t:app\"]\nissuer = \"x\"\naudience = \"a\"\n"
       "algorithms = [\"ES256\"]\n",
       ":1:", "no key"},
      {"[[issuer]]\nname = \"i\"\ngrants = [\"t:app\"]\nissuer = \"x\"\naudience = \"a\"\n"
       "algorithms = [\"ES256\"]\nkeys = [\"absent.pem\"]\n",
       ":7:", "absent.pem"},
      {"[[issuer]]\nname = \"i\"\ngrants = [\"t:app\"]\nissuer = \"x\"\naudience = \"a\"\n"
       "algorithms = [\"ES256\"]\nmax-lifetime = \"1000h\"\n",
       ":7:", "max-lifetime"},
      {"a = \n", ":1:", ""},
  };
  for (const Case& wrong : cases) {
    const auto policy = Load(wrong.text);
    EXPECT_THAT(policy, HasCode(kInvalid)) << wrong.text;
    EXPECT_THAT(policy, Says(absl::StrCat(path(), wrong.line))) << wrong.text;
    EXPECT_THAT(policy, Says(wrong.says)) << wrong.text;
    EXPECT_THAT(policy, Not(Says(digest))) << "no values in messages";
  }
}

TEST_F(AccessTest, AFileThatOthersCouldHaveWrittenIsRefused) {
  for (const int mode : {0620, 0602, 0604, 0666, 0644}) {
    WriteFile(path(), "", mode);
    EXPECT_THAT(LoadAccess(path()), HasCode(absl::StatusCode::kFailedPrecondition)) << mode;
  }
  for (const int mode : {0600, 0400, 0640, 0440}) {
    WriteFile(path(), "", mode);
    EXPECT_THAT(LoadAccess(path()), IsOk()) << mode;
  }
  // Of another user, who could change it. Only root can make one; root's own are everybody's.
  WriteFile(path(), "");
  if (chown(path().c_str(), geteuid() + 12345, static_cast<gid_t>(-1)) == 0) {
    EXPECT_THAT(LoadAccess(path()), HasCode(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(LoadAccess(path()), Says("belongs to another user"));
    EXPECT_EQ(chown(path().c_str(), geteuid(), static_cast<gid_t>(-1)), 0);
    EXPECT_THAT(LoadAccess(path()), IsOk());
  }
  EXPECT_THAT(ReadGuardedFile("/etc/passwd", 1 << 20, Secrecy::kPublic), IsOk());
  EXPECT_THAT(LoadAccess(folder_.path()), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(LoadAccess(path() + ".absent"), HasCode(absl::StatusCode::kNotFound));
  WriteFile(path(), std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(LoadAccess(path()), HasCode(absl::StatusCode::kResourceExhausted));
}

TEST_F(AccessTest, ReloadTakesAGoodFileAndKeepsTheOldOneOtherwise) {
  const std::string one = audit::NewBearerToken();
  const std::string two = audit::NewBearerToken();
  const auto file_of = [](const std::string& token) {
    return absl::StrCat("[[token]]\nname = \"app-1\"\nsha256 = \"", HexOf(token),
                        "\"\ngrants = [\"t:app\"]\n");
  };
  WriteFile(path(), file_of(one));
  const auto access = Access::Open(path());
  ASSERT_THAT(access, IsOk());
  const auto before = (*access)->policy();
  WriteFile(path(), file_of(two) + "nonsense = 1\n");
  EXPECT_THAT((*access)->Reload(), HasCode(kInvalid));
  EXPECT_EQ((*access)->policy(), before);
  WriteFile(path(), file_of(two));
  ASSERT_THAT((*access)->Reload(), IsOk());
  EXPECT_THAT((*access)->policy()->Authenticate(Bearer(one), absl::Now()),
              HasCode(kUnauthenticated));
  EXPECT_THAT((*access)->policy()->Authenticate(Bearer(two), absl::Now()), IsOk());
}

TEST_F(AccessTest, ACertificateIsKnownByItsAlternativeNames) {
  const TestKey key = TestKey::P256();
  const auto policy = MustLoad(
      "[[certificate]]\nname = \"backup\"\nuri = \"spiffe://example.org/backup\"\n"
      "grants = [\"*:admin\"]\n"
      "[[certificate]]\nname = \"app\"\ndns = \"App.Example.org\"\ngrants = [\"t:app\"]\n");
  const auto who = [&](const CertificateSpec& spec, absl::Time now = absl::Now()) {
    return policy->Authenticate({.certificate = MakeCertificate(spec, key, "", key)}, now);
  };
  const CertificateSpec backup{.uris = {"spiffe://example.org/backup"}};
  ASSERT_THAT(who(backup), IsOk());
  EXPECT_EQ((*who(backup))->name, "backup");
  EXPECT_LT((*who(backup))->expires, absl::Now() + absl::Hours(24));
  EXPECT_EQ((*who({.dns = {"other.example.org", "aPP.example.org"}}))->name, "app");
  EXPECT_THAT(who(backup, absl::Now() + absl::Hours(48)), Says("expired"));
  EXPECT_THAT(who({.common_name = "app.example.org"}), Says("unknown name"));
  EXPECT_THAT(who({.uris = {"app.example.org"}}), Says("unknown name")) << "of another kind";
  EXPECT_THAT(who({.dns = {"app.example.org"}, .uris = {"spiffe://example.org/backup"}}),
              Says("more than one"));
  EXPECT_THAT(policy->Authenticate({.certificate = "no certificate"}, absl::Now()),
              Says("cannot be read"));
  // A bad token is not made good by a certificate.
  Credentials both{.authorization = {"Bearer " + audit::NewBearerToken()},
                   .certificate = MakeCertificate(backup, key, "", key)};
  EXPECT_THAT(policy->Authenticate(both, absl::Now()), Says("unknown"));
}

// An issuer with a key of each kind, and one beside it.
class JwtTest : public AccessTest {
 protected:
  JwtTest() {
    WriteFile(folder_.path() + "/ec.pem", ec_.PublicPem());
    WriteFile(folder_.path() + "/set.json",
              json{{"keys", {rsa_.Jwk("rsa-1"), ec2_.Jwk("ec-2")}}}.dump());
    WriteFile(folder_.path() + "/other.json",
              json{{"keys", json::array({other_.Jwk("other-1")})}}.dump());
    policy_ = MustLoad(
        "[[issuer]]\nname = \"login\"\nissuer = \"https://login.example.org/\"\n"
        "audience = \"lethe\"\nalgorithms = [\"ES256\", \"RS256\", \"PS256\"]\n"
        "keys = [\"ec.pem\"]\njwks = \"set.json\"\n"
        "grants = [\"clinic:app\", \"clinic:eraser\", \"*:auditor\"]\n"
        "[[issuer]]\nname = \"other\"\nissuer = \"https://other.example.org/\"\n"
        "audience = \"lethe\"\nalgorithms = [\"ES256\"]\njwks = \"other.json\"\n"
        "grants = [\"*:admin\"]\nclaim = \"roles\"\nmax-lifetime = \"10m\"\n"
        "clock-skew = \"0s\"\n");
  }

  json Claims() const {
    return {{"iss", "https://login.example.org/"},
            {"aud", "lethe"},
            {"sub", "account-17"},
            {"iat", absl::ToUnixSeconds(now_)},
            {"exp", absl::ToUnixSeconds(now_ + absl::Minutes(30))},
            {"lethe_grants", {"clinic:app", "lab:auditor"}}};
  }
  json With(const std::string& name, json value) const {
    json claims = Claims();
    claims[name] = std::move(value);
    return claims;
  }
  json Without(const std::string& name) const {
    json claims = Claims();
    claims.erase(name);
    return claims;
  }
  int64_t In(absl::Duration duration) const { return absl::ToUnixSeconds(now_ + duration); }
  absl::StatusOr<std::shared_ptr<const Identity>> Who(const std::string& token) const {
    return policy_->Authenticate(Bearer(token), now_);
  }
  absl::StatusOr<std::shared_ptr<const Identity>> WhoOf(const json& claims) const {
    return Who(Jwt({{"alg", "ES256"}}, claims, ec_));
  }

  const absl::Time now_ = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  const TestKey ec_ = TestKey::P256();
  const TestKey ec2_ = TestKey::P256();
  const TestKey rsa_ = TestKey::Rsa();
  const TestKey other_ = TestKey::P256();
  std::shared_ptr<const Policy> policy_;
};

TEST_F(JwtTest, TokensOfEveryAlgorithmAreTaken) {
  const std::vector<std::string> tokens = {
      Jwt({{"alg", "ES256"}}, Claims(), ec_),
      Jwt({{"alg", "ES256"}, {"kid", "anything"}}, Claims(), ec_),
      Jwt({{"alg", "ES256"}, {"kid", "ec-2"}, {"typ", "JWT"}}, Claims(), ec2_),
      Jwt({{"alg", "RS256"}, {"kid", "rsa-1"}, {"typ", "at+jwt"}}, Claims(), rsa_),
      Jwt({{"alg", "PS256"}}, Claims(), rsa_)};
  for (const std::string& token : tokens) {
    const auto who = Who(token);
    ASSERT_THAT(who, IsOk()) << token;
    EXPECT_THAT((*who)->name, testing::MatchesRegex("login#[0-9a-f]{12}"));
    EXPECT_THAT((*who)->name, Not(HasSubstr("account-17")));
    EXPECT_TRUE((*who)->Holds("clinic", {Role::kApp}));
    EXPECT_TRUE((*who)->Holds("lab", {Role::kAuditor}));
    EXPECT_FALSE((*who)->Holds("clinic", {Role::kAuditor, Role::kEraser, Role::kAdmin}));
    EXPECT_EQ((*who)->expires, now_ + absl::Minutes(30) + absl::Seconds(30));
  }
  json other = Claims();
  other["iss"] = "https://other.example.org/";
  other["exp"] = In(absl::Minutes(10));
  other["aud"] = {"elsewhere", "lethe"};
  other["roles"] = {"*:admin"};
  const auto admin = Who(Jwt({{"alg", "ES256"}, {"kid", "other-1"}}, other, other_));
  ASSERT_THAT(admin, IsOk());
  EXPECT_TRUE((*admin)->HoldsEverywhere({Role::kAdmin}));
}

TEST_F(JwtTest, NoneAndTheSymmetricOnesAreRefused) {
  const std::string header = Base64Url(json{{"alg", "none"}}.dump());
  const std::string claims = Base64Url(Claims().dump());
  for (const char* end : {".", ".AAAA"}) {
    EXPECT_THAT(Who(absl::StrCat(header, ".", claims, end)), Says("alg"));
  }
  for (const char* none : {"None", "NONE", "nOnE", ""}) {
    EXPECT_THAT(Who(absl::StrCat(Base64Url(json{{"alg", none}}.dump()), ".", claims, ".")),
                Says("alg"));
  }
  // A public key as the secret of an HMAC, with which anybody could sign.
  for (const TestKey* key : {&ec_, &rsa_}) {
    const std::string input = absl::StrCat(Base64Url(json{{"alg", "HS256"}}.dump()), ".", claims);
    const std::string mac(audit::AsBytes(audit::HmacSha256(key->PublicPem(), input)));
    EXPECT_THAT(Who(absl::StrCat(input, ".", Base64Url(mac))), Says("alg"));
  }
  EXPECT_THAT(Who(Jwt({{"alg", "ES384"}}, Claims(), TestKey::P384())), Says("alg"));
  EXPECT_THAT(Who(absl::StrCat(Base64Url(json{{"alg", 1}}.dump()), ".", claims, ".")), Says("alg"));
  EXPECT_THAT(Who(absl::StrCat(Base64Url("{}"), ".", claims, ".")), Says("alg"));
  // RS256 is none of the other issuer's, though its own key signed.
  json other = Claims();
  other["iss"] = "https://other.example.org/";
  EXPECT_THAT(Who(Jwt({{"alg", "RS256"}}, other, rsa_)), Says("none of its issuer's"));
}

TEST_F(JwtTest, ASignatureOfAnotherKeyIsRefused) {
  EXPECT_THAT(Who(Jwt({{"alg", "ES256"}}, Claims(), TestKey::P256())), Says("bad signature"));
  EXPECT_THAT(Who(Jwt({{"alg", "RS256"}, {"kid", "rsa-1"}}, Claims(), TestKey::Rsa())),
              Says("bad signature"));
  // The key of another issuer, under its own id and without one.
  EXPECT_THAT(Who(Jwt({{"alg", "ES256"}, {"kid", "other-1"}}, Claims(), other_)),
              Says("bad signature"));
  EXPECT_THAT(Who(Jwt({{"alg", "ES256"}}, Claims(), other_)), Says("bad signature"));
  // The right key under the id of another one of the set.
  EXPECT_THAT(Who(Jwt({{"alg", "ES256"}, {"kid", "rsa-1"}}, Claims(), ec2_)),
              Says("bad signature"));
  // A key that the token brings along.
  EXPECT_THAT(Who(Jwt({{"alg", "ES256"}, {"jwk", other_.Jwk("x")}}, Claims(), other_)),
              Says("bad signature"));
  // Every byte of header, claims and signature counts.
  const std::string token = Jwt({{"alg", "ES256"}}, Claims(), ec_);
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    // Not the last bits of a part, which may be of no byte.
    if (changed[i] == '.' || i + 1 == token.size() || token[i + 1] == '.') continue;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_THAT(Who(changed), HasCode(kUnauthenticated)) << i;
  }
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  EXPECT_THAT(Who(absl::StrCat(parts[0], ".", parts[1], ".")), Says("bad signature"));
  EXPECT_THAT(Who(absl::StrCat(parts[0], ".", parts[1], ".", Base64Url(std::string(64, '\0')))),
              Says("bad signature"));
  EXPECT_THAT(Who(absl::StrCat(token, "AAAA")), Says("bad signature"));
}

TEST_F(JwtTest, ClaimsAreHeldAgainstTheIssuer) {
  EXPECT_THAT(WhoOf(Claims()), IsOk());
  EXPECT_THAT(WhoOf(With("iss", "https://login.example.org")), Says("unknown issuer"));
  EXPECT_THAT(WhoOf(With("iss", {"https://login.example.org/"})), Says("unknown issuer"));
  EXPECT_THAT(WhoOf(Without("iss")), Says("unknown issuer"));
  EXPECT_THAT(WhoOf(With("aud", "lethe2")), Says("audience"));
  EXPECT_THAT(WhoOf(With("aud", json::array())), Says("audience"));
  EXPECT_THAT(WhoOf(With("aud", {{"lethe", 1}})), Says("audience"));
  EXPECT_THAT(WhoOf(Without("aud")), Says("audience"));
  EXPECT_THAT(WhoOf(Without("lethe_grants")), Says("no list"));
  EXPECT_THAT(WhoOf(With("lethe_grants", "clinic:app")), Says("no list"));
  EXPECT_THAT(WhoOf(With("lethe_grants", {1})), Says("no text"));
  EXPECT_THAT(WhoOf(With("lethe_grants", {"clinic:root"})), Says("cannot be read"));
  EXPECT_THAT(WhoOf(With("lethe_grants", {"clinic:app", "clinic:admin"})), Says("may not give"));
  EXPECT_THAT(WhoOf(With("lethe_grants", {"lab:app"})), Says("may not give"));
  EXPECT_THAT(WhoOf(With("lethe_grants", {"*:app"})), Says("may not give"));
  EXPECT_THAT(WhoOf(With("lethe_grants", {"*:auditor"})), IsOk());
  EXPECT_THAT(WhoOf(With("lethe_grants", std::vector<std::string>(65, "clinic:app"))),
              Says("too many"));
}

TEST_F(JwtTest, TimesAreBoundedBothWays) {
  EXPECT_THAT(WhoOf(Without("exp")), Says("no exp"));
  EXPECT_THAT(WhoOf(With("exp", In(absl::Seconds(-30)))), Says("expired"));
  EXPECT_THAT(WhoOf(With("iat", In(absl::Minutes(-5)))), IsOk());
  json late = With("exp", In(absl::Seconds(-29)));
  late["iat"] = In(absl::Minutes(-5));
  EXPECT_THAT(WhoOf(late), IsOk()) << "within the skew";
  EXPECT_THAT(WhoOf(With("nbf", In(absl::Seconds(30)))), IsOk());
  EXPECT_THAT(WhoOf(With("nbf", In(absl::Seconds(31)))), Says("not yet valid"));
  EXPECT_THAT(WhoOf(With("iat", In(absl::Seconds(31)))), Says("of the future"));
  EXPECT_THAT(WhoOf(With("exp", In(absl::Minutes(61)))), Says("max_lifetime"));
  json lived = With("iat", In(absl::Minutes(-31)));
  EXPECT_THAT(WhoOf(lived), Says("max_lifetime"));
  EXPECT_THAT(WhoOf(Without("iat")), IsOk());
  for (const json& bad : {json("soon"), json(nullptr), json(-1), json(1e300), json(true)}) {
    EXPECT_THAT(WhoOf(With("exp", bad)), Says("no time")) << bad;
  }
}

TEST_F(JwtTest, FormsThatAnotherReaderCouldReadDifferentlyAreRefused) {
  const std::string claims = Claims().dump();
  const std::string header = R"({"alg":"ES256"})";
  EXPECT_THAT(Who(JwtOfText(header, claims, "ES256", ec_)), IsOk());
  // Twice the same claim: one reader takes the first, one the last.
  std::string twice = claims;
  twice.insert(1, R"("lethe_grants":["*:admin"],)");
  EXPECT_THAT(Who(JwtOfText(header, twice, "ES256", ec_)), Says("twice"));
  EXPECT_THAT(Who(JwtOfText(R"({"alg":"none","alg":"ES256"})", claims, "ES256", ec_)),
              Says("twice"));
  EXPECT_THAT(Who(JwtOfText(R"({"alg":"ES256","crit":["b64"],"b64":false})", claims, "ES256", ec_)),
              Says("crit"));
  EXPECT_THAT(Who(JwtOfText(R"({"alg":"ES256","typ":"dpop+jwt"})", claims, "ES256", ec_)),
              Says("typ"));
  EXPECT_THAT(Who(JwtOfText(R"({"alg":"ES256","kid":7})", claims, "ES256", ec_)), Says("kid"));
  EXPECT_THAT(Who(JwtOfText("[]", claims, "ES256", ec_)), Says("no JSON object"));
  EXPECT_THAT(Who(JwtOfText(header, "[" + claims + "]", "ES256", ec_)), Says("no JSON object"));
  EXPECT_THAT(Who(JwtOfText(header, claims + "x", "ES256", ec_)), Says("no JSON object"));
  std::string deep = claims;
  deep.insert(1, "\"a\":" + std::string(200, '[') + std::string(200, ']') + ",");
  EXPECT_THAT(Who(JwtOfText(header, deep, "ES256", ec_)), Says("too deep"));
  // Characters that a lenient decoder would skip.
  const std::string token = JwtOfText(header, claims, "ES256", ec_);
  const size_t dot = token.find('.');
  for (const char* stray : {"=", " ", "\n", "+", "/", "\xc3\xa9", "*"}) {
    std::string changed = token;
    changed.insert(dot, stray);
    EXPECT_THAT(Who(changed), Says("base64url")) << stray;
  }
  EXPECT_THAT(Who(token + "."), Says("three parts"));
  EXPECT_THAT(Who("a.b"), Says("three parts"));
  EXPECT_THAT(Who("a"), Says("three parts"));
  EXPECT_THAT(Who(".."), HasCode(kUnauthenticated));
  std::string large = claims;
  large.insert(1, "\"a\":\"" + std::string(kMaxJwtBytes, 'a') + "\",");
  EXPECT_THAT(Who(JwtOfText(header, large, "ES256", ec_)), Says("too long"));
}

TEST_F(JwtTest, KeysOfOtherKindsAreRefusedWhenTheFileIsRead) {
  const auto issuer = [&](const std::string& lines) {
    return Load(
        "[[issuer]]\nname = \"i\"\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"ES256\"]\n"
        "grants = [\"t:app\"]\n" +
        lines);
  };
  const auto pem = [&](const std::string& text) {
    WriteFile(folder_.path() + "/key.pem", text);
    return issuer("keys = [\"key.pem\"]\n");
  };
  const auto set = [&](const json& keys) {
    WriteFile(folder_.path() + "/keys.json", json{{"keys", keys}}.dump());
    return issuer("jwks = \"keys.json\"\n");
  };
  EXPECT_THAT(pem(ec_.PublicPem()), IsOk());
  EXPECT_THAT(pem(MakeCertificate({}, ec_, "", ec_)), IsOk());
  EXPECT_THAT(pem(rsa_.PublicPem()), IsOk());
  EXPECT_THAT(pem(ec_.PrivatePem()), Says("no public key"));
  EXPECT_THAT(pem(TestKey::P384().PublicPem()), Says("no public key"));
  EXPECT_THAT(pem(TestKey::Rsa(1024).PublicPem()), Says("1024 bits"));
  EXPECT_THAT(pem("text"), Says("no public key"));
  EXPECT_THAT(set(json::array({ec_.Jwk("a")})), IsOk());
  json secret = {{"kty", "oct"}, {"k", "c2VjcmV0"}, {"kid", "s"}};
  EXPECT_THAT(set(json::array({secret})), Says("symmetric"));
  EXPECT_THAT(set(json::array({secret})), Not(Says("c2VjcmV0")));
  json with_private = ec_.Jwk("a");
  with_private["d"] = "AAAA";
  EXPECT_THAT(set(json::array({with_private})), Says("private"));
  json broken = ec_.Jwk("a");
  broken["y"] = broken["x"];
  EXPECT_THAT(set(json::array({broken})), Says("keys[0]"));
  json encryption = ec_.Jwk("a");
  encryption["use"] = "enc";
  EXPECT_THAT(set(json::array({encryption})), Says("no key"));
  EXPECT_THAT(set(json::array({TestKey::P384().Jwk("a")})), Says("keys[0]"));
  EXPECT_THAT(set(json::array()), Says("no key"));
}

TEST_F(AccessTest, WhatIsNotInTheTableIsRefusedWhoeverAsks) {
  const Gate open(nullptr, nullptr, nullptr);
  Call call(open, nullptr, "/lethe.v1.MemoryService/Unheard", "r", [] { return Credentials{}; });
  EXPECT_THAT(call.Enter(), HasCode(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(FindMethod("/lethe.v1.MemoryService/Unheard"), nullptr);
  EXPECT_EQ(FindMethod(""), nullptr);
}

TEST_F(AccessTest, ALongCallIsAskedAgainWhenThingsChanged) {
  const std::string token = audit::NewBearerToken();
  const auto file_of = [&](const std::string& grants, const std::string& more = "") {
    return absl::StrCat("[[token]]\nname = \"app-1\"\nsha256 = \"", HexOf(token),
                        "\"\ngrants = [\"", grants, "\"]\n", more);
  };
  WriteFile(path(), file_of("t:app"));
  const auto access = Access::Open(path());
  ASSERT_THAT(access, IsOk());
  const Gate gate(access->get(), nullptr, nullptr);
  const Method* insert = FindMethod("/lethe.v1.MemoryService/InsertStream");
  Call call(gate, insert, insert->name, "r", [&] { return Bearer(token); });
  ASSERT_THAT(call.Enter(), IsOk());
  EXPECT_THAT(call.Admit("t", "m"), IsOk());
  WriteFile(path(), file_of("t:auditor"));
  ASSERT_THAT((*access)->Reload(), IsOk());
  EXPECT_THAT(call.Admit("t", "m"), HasCode(absl::StatusCode::kPermissionDenied));
  WriteFile(path(), file_of("t:app"));
  ASSERT_THAT((*access)->Reload(), IsOk());
  EXPECT_THAT(call.Admit("t", "m"), IsOk());
  WriteFile(path(), file_of("t:app", "expires = 2020-01-01\n"));
  ASSERT_THAT((*access)->Reload(), IsOk());
  EXPECT_THAT(call.Admit("t", "m"), HasCode(kUnauthenticated));
  EXPECT_EQ(call.caller(), "");
}

}  // namespace
}  // namespace lethe::access
