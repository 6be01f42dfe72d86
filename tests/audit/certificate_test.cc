#include "audit/certificate.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/merkle.h"
#include "audit/statement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::EditBody;
using testing::EvictBody;
using testing::ForgetBody;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ShreddedBody;
using ::testing::StartsWith;
using testing::VectorSigner;

const std::string kGolden = LETHE_SOURCE_DIR "/tests/audit/golden/";

TEST(DsseTest, PreAuthenticationEncodingMatchesTheSpecification) {
  // The example of the DSSE protocol document.
  EXPECT_EQ(PreAuthenticationEncoding("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(PreAuthenticationEncoding("", ""), "DSSEv1 0  0 ");
}

TEST(DsseTest, EnvelopesRoundTripAndTheSignatureCoversTypeAndPayload) {
  const Signer signer = VectorSigner();
  const Envelope envelope = SignEnvelope("a/b", "payload", signer).value();
  EXPECT_TRUE(VerifyEnvelopeSignature(envelope, signer.verification_key()));
  const std::string text = SerializeEnvelope(envelope).value();
  EXPECT_EQ(SerializeEnvelope(ParseEnvelope(text).value()).value(), text);
  Envelope other = envelope;
  other.payload_type = "a/c";
  EXPECT_FALSE(VerifyEnvelopeSignature(other, signer.verification_key()));
  // The lengths in the encoding keep type and payload apart.
  other = envelope;
  other.payload_type = "a/b ";
  EXPECT_FALSE(VerifyEnvelopeSignature(other, signer.verification_key()));
  EXPECT_FALSE(VerifyEnvelopeSignature(envelope, VectorSigner("x", 1).verification_key()));
}

TEST(DsseTest, RefusesEveryOtherShape) {
  const std::string sig = Base64(std::string(64, 's'));
  const std::string one = absl::StrCat(R"({"keyid":"k","sig":")", sig, R"("})");
  const auto envelope = [](const std::string& signatures) {
    return absl::StrCat(R"({"payload":"","payloadType":"t","signatures":[)", signatures, "]}");
  };
  ASSERT_TRUE(ParseEnvelope(envelope(one)).ok());
  for (const std::string& bad :
       {envelope(""), envelope(one + "," + one), envelope(R"({"keyid":"k","sig":""})"),
        envelope(R"({"keyid":"k","sig":"AAAA"})"),
        envelope(absl::StrCat(R"({"sig":")", sig, "\"}")),
        envelope(absl::StrCat(R"({"cert":"c","keyid":"k","sig":")", sig, "\"}")), envelope("1"),
        envelope(one) + "\n", " " + envelope(one),
        absl::StrReplaceAll(envelope(one), {{R"("payload":"")", R"("payload":"Zh==")"}}),
        absl::StrReplaceAll(envelope(one), {{R"("payload":"")", R"("payload":1)"}}),
        absl::StrReplaceAll(envelope(one), {{"signatures", "signaturez"}}), std::string("[]"),
        std::string("{}"), std::string()}) {
    EXPECT_EQ(ParseEnvelope(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  Envelope huge;
  huge.payload = std::string(kMaxEnvelopeBytes, 'x');
  EXPECT_FALSE(SerializeEnvelope(huge).ok());
}

TEST(CertificateTest, BytesAreGolden) {
  const SignedCertificate certificate = BuildCertificate(ForgetBody(), VectorSigner()).value();
  EXPECT_EQ(certificate.envelope, testing::ReadAll(kGolden + "forget.envelope.json"));
  EXPECT_EQ(certificate.leaf, testing::ReadAll(kGolden + "forget.leaf.json"));
  EXPECT_EQ(SerializeStatement(ForgetBody()).value(),
            testing::ReadAll(kGolden + "forget.statement.json"));
  EXPECT_EQ(certificate.id, Hex(Sha256(certificate.envelope)));
  EXPECT_EQ(certificate.leaf_hash, LeafHash(certificate.leaf));
  EXPECT_LT(certificate.leaf.size(), 500u);

  const SignedCertificate evict = BuildCertificate(EvictBody(), VectorSigner()).value();
  EXPECT_EQ(SerializeStatement(EvictBody()).value(),
            testing::ReadAll(kGolden + "evict.statement.json"));
  EXPECT_EQ(evict.envelope, testing::ReadAll(kGolden + "evict.envelope.json"));
  EXPECT_EQ(evict.leaf, testing::ReadAll(kGolden + "evict.leaf.json"));
}

TEST(CertificateTest, StatementsRoundTrip) {
  CertificateBody edit = EditBody();
  edit.sequence = 7;
  edit.previous_leaf_hash = Sha256("leaf");
  edit.time = "2024-02-29T23:59:59.123456789Z";
  edit.change->residuals.readout_bound = 1e-9;
  edit.change->residuals.condition = std::numeric_limits<double>::infinity();
  edit.change->residuals.slack = -0.0;
  edit.exceptions = {"quote\" \\ \xc2\xa0 \xc3\xa9"};
  CertificateBody check = ForgetBody();
  check.kind = CertificateKind::kRetrainCheck;
  check.counts = {};
  check.change->partition_after = check.change->partition_before;
  check.change->root_after = check.change->root_before;
  check.change->verdict = VerdictClass::kBitIdentical;
  check.change->refit = {.deviation = 0.0, .bits_equal = true};
  CertificateBody failed_check = check;
  failed_check.change->verdict = VerdictClass::kUncertified;
  failed_check.change->refit = {.deviation = 0x1p-60, .bits_equal = false};
  CertificateBody closed = testing::ClosedBody();
  closed.sequence = kMaxJsonInteger;
  closed.previous_leaf_hash = Sha256("leaf");
  CertificateBody bounded = ForgetBody();
  bounded.change->verdict = VerdictClass::kBounded;
  bounded.change->residuals.gap_bound = std::numeric_limits<double>::infinity();
  bounded.change->residuals.readout_bound = std::numeric_limits<double>::infinity();
  CertificateBody compared = EvictBody();
  compared.change->verdict = VerdictClass::kBitIdentical;
  compared.change->refit = {.deviation = 0.0, .bits_equal = true};
  CertificateBody filled = EvictBody();  // the surplus was in reserve
  filled.change->partition_after = {.margin = 12, .error = 3, .reserve = 73};
  CertificateBody reached = EvictBody();
  reached.change->selection->budget = 88;
  for (const CertificateBody& body :
       {ForgetBody(), ShreddedBody(), edit, check, failed_check, closed, EvictBody(), EditBody(),
        bounded, compared, filled, reached}) {
    const absl::StatusOr<std::string> text = SerializeStatement(body);
    ASSERT_TRUE(text.ok()) << Name(body.kind) << ": " << text.status();
    const absl::StatusOr<CertificateBody> parsed = ParseStatement(*text);
    ASSERT_TRUE(parsed.ok()) << Name(body.kind) << ": " << parsed.status();
    EXPECT_EQ(*parsed, body) << Name(body.kind);
    EXPECT_EQ(SerializeStatement(*parsed).value(), *text);
  }
}

struct BadBody {
  const char* field;
  std::function<void(CertificateBody&)> spoil;
};

void ExpectRefused(const CertificateBody& good, const std::vector<BadBody>& cases) {
  const Signer signer = VectorSigner();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("case ", i, " ", cases[i].field));
    CertificateBody body = good;
    ASSERT_TRUE(ValidateBody(body).ok());
    cases[i].spoil(body);
    const absl::Status status = ValidateBody(body);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith(absl::StrCat(cases[i].field, ":")));
    EXPECT_FALSE(SerializeStatement(body).ok());
    EXPECT_FALSE(BuildCertificate(body, signer).ok());
    // And a verifier that is handed such a text refuses it.
    const absl::StatusOr<std::string> text = SerializeJson(StatementToJson(body));
    if (text.ok()) {
      EXPECT_FALSE(ParseStatement(*text).ok());
    }
  }
}

TEST(CertificateTest, AnEvictionThatClaimsMoreThanItMayIsRefused) {
  const double nan = std::nan("");
  const std::vector<BadBody> cases = {
      {"change.selection", [](auto& b) { b.change->selection.reset(); }},
      {"change.selection", [](auto& b) { b.kind = CertificateKind::kForget; }},
      {"change.selection", [](auto& b) { b.change->selection->reserve = 11; }},
      {"change.selection", [](auto& b) { b.change->selection->surplus = 1; }},
      {"change.selection", [](auto& b) { b.change->selection->budget = kMaxJsonInteger + 1; }},
      {"change.selection.budget", [](auto& b) { b.change->selection->budget = 0; }},
      {"change.selection.retained", [](auto& b) { b.change->selection->retained = 87; }},
      {"change.selection.retained", [](auto& b) { b.change->selection->budget = 89; }},
      // Tokens at the box, or more of the margin than the surplus, or less.
      {"change.partition",
       [](auto& b) { b.change->partition_after = {.margin = 10, .error = 2, .reserve = 76}; }},
      {"change.partition",
       [](auto& b) { b.change->partition_after = {.margin = 10, .error = 4, .reserve = 74}; }},
      {"change.partition",
       [](auto& b) { b.change->partition_after = {.margin = 9, .error = 3, .reserve = 76}; }},
      {"change.partition",
       [](auto& b) { b.change->partition_after = {.margin = 11, .error = 3, .reserve = 74}; }},
      {"change.partition",
       [](auto& b) { b.change->partition_after = {.margin = 13, .error = 3, .reserve = 72}; }},
      {"change.partition",
       [](auto& b) {
         b.change->partition_before = {.margin = 2, .error = 3, .reserve = 95};
         b.change->partition_after = {.margin = 0, .error = 3, .reserve = 85};
       }},
      {"change.verdict", [](auto& b) { b.change->verdict = VerdictClass::kBounded; }},
      {"change.verdict", [](auto& b) { b.change->verdict = VerdictClass::kUncertified; }},
      {"change.root", [](auto& b) { b.change->root_after = b.change->root_before; }},
      {"counts.erased",
       [](auto& b) {
         b.counts = {};
         b.change->selection->reserve = b.change->selection->surplus = 0;
         b.change->selection->retained = 100;
         b.change->partition_after = b.change->partition_before;
         b.change->root_after = b.change->root_before;
       }},
      {"change.residuals.gapBound",
       [](auto& b) {
         b.change->residuals.gap_bound.reset();
         b.change->residuals.readout_bound.reset();
       }},
      {"change.residuals.gapBound", [](auto& b) { b.change->residuals.gap_bound.reset(); }},
      {"change.residuals.gapBound", [](auto& b) { b.change->residuals.readout_bound.reset(); }},
      {"change.residuals.gapBound", [&](auto& b) { b.change->residuals.gap_bound = nan; }},
      {"change.residuals.gapBound", [](auto& b) { b.change->residuals.gap_bound = -1e-300; }},
      {"change.residuals.readoutBound", [](auto& b) { b.change->residuals.readout_bound = -1.0; }},
  };
  ExpectRefused(EvictBody(), cases);
}

TEST(CertificateTest, AnEditKeepsTheNumberOfTokensAndHasAnEffect) {
  ExpectRefused(
      EditBody(),
      {{"change.partition", [](auto& b) { ++b.change->partition_after.reserve; }},
       {"change.selection", [](auto& b) { b.change->selection = EvictBody().change->selection; }},
       {"change.root", [](auto& b) { b.change->root_after = b.change->root_before; }},
       {"counts.erased",
        [](auto& b) {
          b.counts = {};
          b.change->root_after = b.change->root_before;
        }},
       {"change.residuals.gapBound", [](auto& b) {
          b.change->residuals.gap_bound.reset();
          b.change->residuals.readout_bound.reset();
        }}});
}

TEST(CertificateTest, RefusesBodiesThatContradictThemselvesAndNamesTheField) {
  const std::string long_text(1025, 'x');
  const double nan = std::nan("");
  const std::vector<BadBody> cases = {
      {"origin", [](auto& b) { b.origin = ""; }},
      {"origin", [](auto& b) { b.origin = "a b"; }},
      {"sequence", [](auto& b) { b.sequence = kMaxJsonInteger + 1; }},
      {"previousLeafHash", [](auto& b) { b.previous_leaf_hash = Sha256("x"); }},
      {"previousLeafHash", [](auto& b) { b.sequence = 1; }},
      {"build", [](auto& b) { b.build = ""; }},
      {"build", [](auto& b) { b.build = "a\n"; }},
      {"build", [](auto& b) { b.build = std::string(257, 'x'); }},
      {"time", [](auto& b) { b.time = ""; }},
      {"time", [](auto& b) { b.time = "2026-01-31T12:00:00+00:00"; }},
      {"time", [](auto& b) { b.time = "2026-01-31 12:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-02-29T12:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2100-02-29T12:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-13-01T12:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-04-31T12:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-00T12:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-31T24:00:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-31T12:60:00Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-31T12:00:60Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-31T12:00:00.Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-31T12:00:00.1234567890Z"; }},
      {"time", [](auto& b) { b.time = "2026-01-31T12:00:00.1aZ"; }},
      {"counts.matched", [](auto& b) { b.counts.matched = 5; }},
      {"counts.matched", [](auto& b) { b.counts.held = 1; }},
      {"counts", [](auto& b) { b.counts.not_found = kMaxJsonInteger + 1; }},
      {"change", [](auto& b) { b.change.reset(); }},
      {"change", [](auto& b) { b.kind = CertificateKind::kShredded; }},
      {"change", [](auto& b) { b.kind = CertificateKind::kTenantClosed; }},
      {"change.memory", [](auto& b) { b.change->memory_uid = "vitals"; }},
      {"change.memory", [](auto& b) { b.change->memory_uid[3] = 'G'; }},
      {"change.partition", [](auto& b) { b.change->partition_after.reserve = 83; }},
      {"change.partition", [](auto& b) { b.change->partition_after.reserve = 200; }},
      {"change.partition.before",
       [](auto& b) { b.change->partition_before.error = kMaxJsonInteger; }},
      {"counts.erased", [](auto& b) { b.kind = CertificateKind::kRetrainCheck; }},
      {"change.root", [](auto& b) { b.change->root_after = b.change->root_before; }},
      {"change.root",
       [](auto& b) {
         b.counts = {};
         b.change->partition_after = b.change->partition_before;
       }},
      {"change.refit",
       [](auto& b) {
         b.kind = CertificateKind::kRetrainCheck;
         b.counts = {};
         b.change->partition_after = b.change->partition_before;
         b.change->root_after = b.change->root_before;
       }},
      {"change.verdict", [](auto& b) { b.change->verdict = VerdictClass::kBitIdentical; }},
      {"change.verdict", [](auto& b) { b.change->refit = {.deviation = 0.0, .bits_equal = true}; }},
      {"change.verdict",
       [](auto& b) { b.change->refit = {.deviation = 1.0, .bits_equal = false}; }},
      {"change.refit.deviation",
       [](auto& b) {
         b.change->verdict = VerdictClass::kBitIdentical;
         b.change->refit = {.deviation = 1e-300, .bits_equal = true};
       }},
      {"change.residuals.kktResidual", [&](auto& b) { b.change->residuals.kkt_residual = nan; }},
      {"change.residuals.dualityGap", [](auto& b) { b.change->residuals.duality_gap = -1e-300; }},
      {"change.residuals.weightBound", [&](auto& b) { b.change->residuals.weight_bound = nan; }},
      {"change.residuals.decisionBound",
       [&](auto& b) { b.change->residuals.decision_bound = nan; }},
      {"change.residuals.gapBound", [](auto& b) { b.change->residuals.readout_bound = 1.0; }},
      {"change.residuals.condition", [&](auto& b) { b.change->residuals.condition = nan; }},
      {"change.residuals.slack", [&](auto& b) { b.change->residuals.slack = nan; }},
      {"change.residuals.precisionBits",
       [](auto& b) { b.change->residuals.precision_bits = 65537; }},
      {"stores",
       [](auto& b) {
         b.stores.resize(65, {"s", "l", ""});
       }},
      {"stores[1]", [](auto& b) { b.stores[1].store = b.stores[0].store; }},
      {"stores[0]", [](auto& b) { b.stores[0].store = "Tokens"; }},
      {"stores[0]", [](auto& b) { b.stores[0].level = ""; }},
      {"stores[0]", [](auto& b) { b.stores[0].evidence = "\xff"; }},
      {"stores[0]", [&](auto& b) { b.stores[0].evidence = long_text; }},
      {"stores[0]", [](auto& b) { b.stores[0].evidence = "a\nb"; }},
      {"stores[0]", [](auto& b) { b.stores[0].evidence = "\x7f"; }},
      {"exceptions[0]", [](auto& b) { b.exceptions = {"\x1b[2J"}; }},
      {"exceptions[0]", [](auto& b) { b.exceptions = {"\xc2\x9b"}; }},
      {"exceptions", [](auto& b) { b.exceptions.resize(65, "x"); }},
      {"exceptions[0]", [](auto& b) { b.exceptions = {""}; }},
      {"exceptions[1]", [&](auto& b) { b.exceptions.push_back(long_text); }},
  };
  ExpectRefused(ForgetBody(), cases);
}

TEST(CertificateTest, AtTheLimitsEverythingStillFits) {
  CertificateBody body = ForgetBody();
  body.stores.clear();
  for (size_t i = 0; i < kMaxStores; ++i) {
    body.stores.push_back(
        {absl::StrCat("store-", i), std::string(64, 'l'), std::string(1024, '"')});
  }
  body.exceptions.assign(kMaxExceptions, std::string(1024, '\\'));
  EXPECT_TRUE(BuildCertificate(body, VectorSigner()).ok());
}

TEST(CertificateTest, RefusesAnotherLogsKey) {
  const absl::Status status = BuildCertificate(ForgetBody(), VectorSigner("other")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("origin:"));
}

// Whatever text is accepted is the text of the body that was read from it.
TEST(CertificateTest, MutatedStatementsAreRefusedOrSayWhatTheySay) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string bases[] = {SerializeStatement(ForgetBody()).value(),
                               SerializeStatement(EvictBody()).value()};
  const std::string bytes = "{}[]\",:0123456789abcdefnrtuZ-. ";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = bases[round % 2];
    const size_t at = random() % text.size();
    const char byte = bytes[random() % bytes.size()];
    switch (random() % 3) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.erase(at, 1);
        break;
      default:
        text.insert(at, 1, byte);
    }
    const absl::StatusOr<CertificateBody> body = ParseStatement(text);
    if (!body.ok()) continue;
    ++accepted;
    ASSERT_EQ(SerializeStatement(*body).value(), text);
  }
  EXPECT_GT(accepted, 100);
}

TEST(CertificateTest, EveryMemberIsRequiredAndNoOtherIsAllowed) {
  const std::string base = SerializeStatement(ForgetBody()).value();
  const std::pair<const char*, const char*> cases[] = {
      {R"("held":0,)", ""},
      {R"("sequence":0)", R"("sequence":0,"sequencf":0)"},
      {R"("kind":"forget")", R"("kind":"forgive")"},
      {R"("verdict":"proven")", R"("verdict":"certain")"},
      {R"("margin":12)", R"("margin":"12")"},
      {R"(memory:000)", R"(memory:100)"},
      {R"(memory-state-change:v1)", R"(memory-state-change:v2)"},
      {R"(in-toto.io/Statement/v1)", R"(in-toto.io/Statement/v0.1)"},
      {R"("subject":[{)", R"("subject":[{"a":1},{)"},
      {R"("precisionBits":106)", R"("precisionBits":4294967297)"},
  };
  for (const auto& [from, to] : cases) {
    const std::string text = absl::StrReplaceAll(base, {{from, to}});
    ASSERT_NE(text, base) << from;
    EXPECT_EQ(ParseStatement(text).status().code(), absl::StatusCode::kInvalidArgument) << to;
  }
}

TEST(CertificateTest, EveryMemberOfTheSelectionIsRequiredAndTheScopeIsFixed) {
  const std::string base = SerializeStatement(EvictBody()).value();
  ASSERT_TRUE(ParseStatement(base).ok());
  const std::pair<const char*, const char*> cases[] = {
      {R"("budget":60,)", ""},
      {R"("budget":60)", R"("budget":60,"budgets":1)"},
      {R"("budget":60)", R"("budget":89)"},
      {R"(,"retained":88)", ""},
      {R"("retained":88)", R"("retained":87)"},
      {R"(,"surplus":2)", ""},
      {R"("surplus":2)", R"("surplus":3)"},
      {R"("reserve":10)", R"("reserve":9)"},
      {R"("later":"measured-against-retained-tokens",)", ""},
      {"measured-against-retained-tokens", "measured-against-all-tokens"},
      {R"(,"now":"weighted-groups-and-readouts-unchanged")", ""},
      {"weighted-groups-and-readouts-unchanged", "everything-unchanged"},
      {R"("gapBound":{"f64":"3c30000000000000"},)", ""},
      {R"("gapBound":{"f64":"3c30000000000000"})", R"("gapBound":{"f64":"bc30000000000000"})"},
      {R"("gapBound":{"f64":"3c30000000000000"})", R"("gapBound":1)"},
      {R"("kind":"evict")", R"("kind":"forget")"},
      {R"("kind":"evict")", R"("kind":"edit")"},
  };
  for (const auto& [from, to] : cases) {
    const std::string text = absl::StrReplaceAll(base, {{from, to}});
    ASSERT_NE(text, base) << from;
    EXPECT_EQ(ParseStatement(text).status().code(), absl::StatusCode::kInvalidArgument) << to;
  }
}

TEST(CertificateTest, MessagesNeverRepeatWhatTheInputSaid) {
  const std::string base = SerializeStatement(ForgetBody()).value();
  for (const auto& [from, to] :
       {std::pair{R"("kind":"forget")", R"("kind":"SECRET")"},
        std::pair{R"("build")", R"("bSECRET")"}, std::pair{"2026-01-31T", "SECRET"}}) {
    const absl::Status status = ParseStatement(absl::StrReplaceAll(base, {{from, to}})).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("SECRET")));
  }
}

}  // namespace
}  // namespace lethe::audit
