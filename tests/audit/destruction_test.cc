// Certificates that say what became of keys and of copies: `shredded` and `restored`.
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/certificate.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/key_ledger.h"
#include "audit/report.h"
#include "audit/statement.h"
#include "audit/stores.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::ClosedBody;
using testing::EditBody;
using testing::EvictBody;
using testing::ForgetBody;
using testing::HandoverBody;
using testing::ReadAll;
using testing::RestoredBody;
using testing::ShreddedBody;
using testing::VectorSigner;

const std::string kGolden = LETHE_SOURCE_DIR "/tests/audit/golden/";

CertificateBody At(CertificateBody body, uint64_t sequence) {
  body.sequence = sequence;
  if (sequence > 0) body.previous_leaf_hash = Sha256("leaf");
  return body;
}

// All that a destruction can say.
CertificateBody FullShredded() {
  CertificateBody body = At(ShreddedBody(SequenceSpan{3, 8}), 9);
  body.destruction->epochs = {0, 2, kMaxJsonInteger};
  return body;
}

TEST(Destruction, BytesAreGoldenAndTheDocumentShowsThem) {
  const Signer signer = VectorSigner();
  const SignedCertificate forget = BuildCertificate(ForgetBody(), signer).value();
  CertificateBody body = ShreddedBody(SequenceSpan{0, 0});
  body.sequence = 1;
  body.previous_leaf_hash = forget.leaf_hash;
  body.time = "2026-01-31T12:00:01Z";
  const SignedCertificate shredded = BuildCertificate(body, signer).value();
  body = RestoredBody(0, 2, 4);
  body.sequence = 2;
  body.previous_leaf_hash = shredded.leaf_hash;
  body.time = "2026-01-31T12:00:02Z";
  const SignedCertificate restored = BuildCertificate(body, signer).value();
  const std::string document = ReadAll(LETHE_SOURCE_DIR "/docs/certificate_format.md");
  for (const auto& [name, certificate] :
       {std::make_pair("shredded", &shredded), std::make_pair("restored", &restored)}) {
    SCOPED_TRACE(name);
    const std::string statement = SerializeStatement(certificate->body).value();
    EXPECT_EQ(statement, ReadAll(absl::StrCat(kGolden, name, ".statement.json")));
    EXPECT_EQ(certificate->envelope, ReadAll(absl::StrCat(kGolden, name, ".envelope.json")));
    EXPECT_EQ(certificate->leaf, ReadAll(absl::StrCat(kGolden, name, ".leaf.json")));
    EXPECT_TRUE(absl::StrContains(document, absl::StrCat("\n", statement, "\n")));
    EXPECT_TRUE(absl::StrContains(document, certificate->id));
    EXPECT_TRUE(absl::StrContains(document, Hex(certificate->leaf_hash)));
  }
}

TEST(Destruction, StatementsRoundTrip) {
  CertificateBody many = FullShredded();
  many.destruction->epochs.clear();
  for (uint64_t i = 0; i < kMaxEpochs; ++i) many.destruction->epochs.push_back(7 * i);
  CertificateBody none = FullShredded();
  none.destruction->epochs.clear();
  none.destruction->keys = 0;
  const CertificateBody nothing_back = At(RestoredBody(kMaxJsonInteger - 1, 1, 0), kMaxJsonInteger);
  const CertificateBody nothing_after = At(RestoredBody(12, 0, 0), 12);
  const CertificateBody empty = At(RestoredBody(0, 0, 0), 0);
  for (const CertificateBody& body : {FullShredded(), ShreddedBody(), many, none,
                                      At(RestoredBody(), 12), nothing_back, nothing_after, empty}) {
    const absl::StatusOr<std::string> text = SerializeStatement(body);
    ASSERT_TRUE(text.ok()) << text.status();
    const absl::StatusOr<CertificateBody> parsed = ParseStatement(*text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, body);
    EXPECT_EQ(SerializeStatement(*parsed).value(), *text);
  }
}

using Spoil = std::function<void(CertificateBody&)>;

void ExpectRefused(const CertificateBody& good,
                   const std::vector<std::pair<std::string, Spoil>>& cases) {
  ASSERT_TRUE(ValidateBody(good).ok()) << ValidateBody(good);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [message, spoil] = cases[i];
    SCOPED_TRACE(absl::StrCat("case ", i, " ", message));
    CertificateBody body = good;
    spoil(body);
    const absl::Status status = ValidateBody(body);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StartsWith(status.message(), message)) << status;
    EXPECT_FALSE(BuildCertificate(body, VectorSigner()).ok());
    // And a verifier that is handed such a text refuses it.
    const absl::StatusOr<std::string> text = SerializeJson(StatementToJson(body));
    if (text.ok()) {
      EXPECT_FALSE(ParseStatement(*text).ok());
    }
  }
}

TEST(Destruction, ContradictionsAreRefusedAndTheFieldIsNamed) {
  using Body = CertificateBody;
  ExpectRefused(
      FullShredded(),
      {{"destruction: missing", [](Body& b) { b.destruction.reset(); }},
       {"destruction: neither",
        [](Body& b) {
          b.destruction->erasures.reset();
          b.destruction->epochs.clear();
        }},
       {"destruction.keys: must be 0", [](Body& b) { b.destruction->erasures.reset(); }},
       {"destruction.keys", [](Body& b) { b.destruction->keys = kMaxJsonInteger + 1; }},
       {"destruction.erasures.last: is below", [](Body& b) { b.destruction->erasures->last = 2; }},
       {"destruction.erasures.last: is not",
        [](Body& b) { b.destruction->erasures->last = b.sequence; }},
       {"destruction.erasures.last: is not",
        [](Body& b) {
          *b.destruction->erasures = {~uint64_t{0}, ~uint64_t{0}};
        }},
       {"destruction.erasures.last: is not", [](Body& b) { b.sequence = 8; }},
       {"destruction.epochs: must increase",
        [](Body& b) {
          b.destruction->epochs = {1, 1};
        }},
       {"destruction.epochs: must increase",
        [](Body& b) {
          b.destruction->epochs = {1, 3, 2};
        }},
       {"destruction.epochs", [](Body& b) { b.destruction->epochs = {kMaxJsonInteger + 1}; }},
       {"destruction.epochs: too many",
        [](Body& b) {
          b.destruction->epochs.clear();
          for (uint64_t i = 0; i <= kMaxEpochs; ++i) b.destruction->epochs.push_back(i);
        }},
       {"subject", [](Body& b) { b.subject_commitment = Sha256("s"); }},
       {"counts: all 0", [](Body& b) { b.counts = {.matched = 1, .erased = 1}; }},
       {"counts: all 0", [](Body& b) { b.counts.not_found = 1; }},
       {"change: not allowed", [](Body& b) { b.change = ForgetBody().change; }},
       {"handover: not allowed", [](Body& b) { b.handover = KeyHandover{"k"}; }},
       {"restoration: not allowed", [](Body& b) { b.restoration = Restoration{}; }}});
  ExpectRefused(
      At(RestoredBody(), 12),
      {{"restoration: missing", [](Body& b) { b.restoration.reset(); }},
       {"restoration: size plus", [](Body& b) { b.sequence = 11; }},
       {"restoration: size plus", [](Body& b) { b.sequence = 13; }},
       {"restoration: size plus", [](Body& b) { b.restoration->reapplied = 4; }},
       {"restoration: size plus", [](Body& b) { b.restoration->reapplied = 2; }},
       {"restoration: size plus", [](Body& b) { b.restoration->size = 8; }},
       {"restoration.removed: must be 0",
        [](Body& b) { *b.restoration = {.size = 12, .reapplied = 0, .removed = 5}; }},
       {"restoration: size plus", [](Body& b) { b.restoration->size = kMaxJsonInteger; }},
       {"restoration", [](Body& b) { b.restoration->size = ~uint64_t{0}; }},
       {"restoration", [](Body& b) { b.restoration->removed = kMaxJsonInteger + 1; }},
       {"counts: matched and erased", [](Body& b) { b.restoration->removed = 4; }},
       {"counts: matched and erased", [](Body& b) { b.counts = {}; }},
       {"counts: matched and erased", [](Body& b) { b.counts.already_erased = 1; }},
       {"counts: matched and erased",
        [](Body& b) {
          b.counts.matched = 6;
          b.counts.held = 1;
        }},
       {"subject", [](Body& b) { b.subject_commitment = Sha256("s"); }},
       {"change: not allowed", [](Body& b) { b.change = ForgetBody().change; }},
       {"handover: not allowed", [](Body& b) { b.handover = KeyHandover{"k"}; }},
       {"destruction: not allowed", [](Body& b) { b.destruction = ShreddedBody().destruction; }}});
}

TEST(Destruction, NoOtherKindMayHaveThem) {
  CertificateBody check = ForgetBody();
  check.kind = CertificateKind::kRetrainCheck;
  check.counts = {};
  check.change->partition_after = check.change->partition_before;
  check.change->root_after = check.change->root_before;
  check.change->refit = RefitComparison{1e-9, false};
  check.change->verdict = VerdictClass::kBounded;
  const std::string next = VectorSigner(testing::kOrigin, 0x51).verification_key().vkey();
  for (const CertificateBody& good :
       {ForgetBody(), EditBody(), EvictBody(), check, ClosedBody(), HandoverBody(next)}) {
    SCOPED_TRACE(Name(good.kind));
    ExpectRefused(good, {{"destruction: not allowed",
                          [](CertificateBody& b) { b.destruction = ShreddedBody().destruction; }},
                         {"restoration: not allowed",
                          [](CertificateBody& b) { b.restoration = Restoration{}; }}});
  }
}

void ExpectTextsRefused(const CertificateBody& body,
                        const std::vector<std::pair<const char*, const char*>>& cases) {
  const std::string base = SerializeStatement(body).value();
  for (const auto& [from, to] : cases) {
    const std::string text = absl::StrReplaceAll(base, {{from, to}});
    ASSERT_NE(text, base) << from;
    EXPECT_EQ(ParseStatement(text).status().code(), absl::StatusCode::kInvalidArgument) << to;
  }
}

TEST(Destruction, EveryMemberIsRequiredAndNoOtherIsAllowed) {
  CertificateBody shredded = At(ShreddedBody(SequenceSpan{3, 8}), 9);
  ExpectTextsRefused(
      shredded, {{R"("epochs":[2],)", ""},
                 {R"("epochs":[2])", R"("epochs":2)"},
                 {R"("epochs":[2])", R"("epochs":["2"])"},
                 {R"("epochs":[2])", R"("epochs":[2,2])"},
                 {R"("epochs":[2])", R"("epochs":[2,1])"},
                 {R"("epochs":[2])", R"("epochs":[{"f64":"4000000000000000"}])"},
                 {R"("epochs":[2])", R"("epoch":1,"epochs":[2])"},
                 {R"("first":3,)", ""},
                 {R"("first":3)", R"("first":9)"},
                 {R"("first":3)", R"("first":"3")"},
                 {R"("first":3,"last":8)", R"("first":3)"},
                 {R"("first":3,"last":8)", R"("first":3,"last":9)"},
                 {R"("first":3,"last":8)", R"("count":4,"first":3,"last":8)"},
                 {R"("erasures":{"first":3,"last":8})", R"("erasures":[3,8])"},
                 // Then the keys must be 0.
                 {R"("erasures":{"first":3,"last":8},)", ""},
                 {R"(,"keys":4)", ""},
                 {R"("keys":4)", R"("keys":{"f64":"4010000000000000"})"},
                 {R"("keys":4)", R"("keys":4,"kind":"a")"},
                 {R"("kind":"shredded")", R"("kind":"restored")"},
                 {R"("kind":"shredded")", R"("kind":"tenant-closed")"},
                 {R"("destruction":{"epochs":[2],"erasures":{"first":3,"last":8},"keys":4},)", ""},
                 {R"("destruction":{"epochs":[2],"erasures":{"first":3,"last":8},"keys":4},)",
                  R"("destruction":true,)"},
                 {R"("matched":0)", R"("matched":1)"}});
  ExpectTextsRefused(
      At(RestoredBody(), 12),
      {{R"("reapplied":3,)", ""},
       {R"("reapplied":3)", R"("reapplied":4)"},
       {R"("reapplied":3)", R"("reapplied":2)"},
       {R"("reapplied":3,"removed":5,"size":9)", R"("reapplied":0,"removed":5,"size":12)"},
       {R"("reapplied":3)", R"("reapplied":"3")"},
       {R"("removed":5,)", ""},
       {R"("removed":5)", R"("removed":4)"},
       {R"(,"size":9)", ""},
       {R"("size":9)", R"("size":10)"},
       {R"("size":9)", R"("size":9,"sizf":9)"},
       {R"("restoration":{"reapplied":3,"removed":5,"size":9},)", ""},
       {R"("restoration":{"reapplied":3,"removed":5,"size":9})", R"("restoration":{})"},
       {R"("erased":5)", R"("erased":4)"},
       {R"("kind":"restored")", R"("kind":"shredded")"},
       {R"("kind":"restored")", R"("kind":"retrain-check")"}});
}

// Whatever text is accepted is the text of the body that was read from it.
TEST(Destruction, MutatedStatementsAreRefusedOrSayWhatTheySay) {
  const uint64_t seed = 12;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string bases[] = {SerializeStatement(FullShredded()).value(),
                               SerializeStatement(At(RestoredBody(), 12)).value(),
                               SerializeStatement(ShreddedBody()).value()};
  const std::string bytes = "{}[]\",:0123456789abcdefnrtuZ-. ";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = bases[round % 3];
    // Half of the rounds where the members are that only these kinds have.
    size_t at = random() % text.size();
    if (round % 2 == 0) {
      const size_t start = text.find(round % 3 == 1 ? "\"restoration\"" : "\"destruction\"");
      ASSERT_NE(start, std::string::npos);
      at = start + random() % 80;
    }
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
    ASSERT_TRUE(ValidateBody(*body).ok());
    ASSERT_EQ(SerializeStatement(*body).value(), text);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Destruction, TheReportForPeopleSaysWhatWasDestroyedAndRestored) {
  CertificateBody body = FullShredded();
  body.destruction->epochs = {2, 5};
  const auto one_line = [](std::string text) {
    absl::StrReplaceAll({{"\n", " "}}, &text);
    while (absl::StrReplaceAll({{"  ", " "}}, &text) > 0) {
    }
    return text;
  };
  std::string text = one_line(DescribeBody(body));
  EXPECT_TRUE(absl::StrContains(text, "every erasure in certificates 3 to 8; 4 were live before"))
      << text;
  EXPECT_TRUE(absl::StrContains(text, "key-encryption keys destroyed: 2, 5;")) << text;
  text = one_line(DescribeBody(At(RestoredBody(), 12)));
  EXPECT_TRUE(absl::StrContains(text,
                                "from a copy whose log had 9 certificates; 3 later ones put back, "
                                "5 tokens taken out again"))
      << text;
}

// What a ledger must say, from the definition.
struct BruteForce {
  uint64_t first;
  std::vector<CertificateBody> log;

  bool Destroyed(size_t i) const {
    for (size_t j = i + 1; j < log.size(); ++j) {
      const CertificateBody& body = log[j];
      if (body.kind == CertificateKind::kTenantClosed &&
          body.stores.at(0) == StoreErasure{"keys", "key-destroyed", ""}) {
        return true;
      }
      if (body.kind != CertificateKind::kShredded || !body.destruction->erasures.has_value()) {
        continue;
      }
      const SequenceSpan& span = *body.destruction->erasures;
      if (span.first <= first + i && first + i <= span.last) return true;
    }
    return false;
  }
  // Of the last certificate.
  bool Contradicts() const {
    const CertificateBody& body = log.back();
    uint64_t from = 0;
    uint64_t to = 0;  // one past the last
    if (body.kind == CertificateKind::kShredded && body.destruction->erasures.has_value()) {
      from = body.destruction->erasures->first;
      to = body.destruction->erasures->last + 1;
    } else if (body.kind == CertificateKind::kRestored && body.restoration->removed > 0) {
      from = body.restoration->size;
      to = from + body.restoration->reapplied;
    } else {
      return false;
    }
    if (from < first) return false;
    for (uint64_t at = from; at < to; ++at) {
      const CertificateKind kind = log[at - first].kind;
      if (kind == CertificateKind::kForget || kind == CertificateKind::kEdit ||
          kind == CertificateKind::kEvict) {
        return false;
      }
    }
    return true;
  }
};

TEST(KeyLedger, SaysWhatTheDefinitionSays) {
  const uint64_t seed = 20261130;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int contradictions = 0;
  int restorations = 0;  // of them
  int left = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    BruteForce expected{.first = round % 3 == 0 ? 0 : random() % 500, .log = {}};
    KeyLedger ledger(expected.first);
    const size_t size = 1 + random() % 400;
    const uint64_t erasing = 1 + random() % 8;  // of ten
    for (size_t i = 0; i < size; ++i) {
      CertificateBody body;
      body.sequence = expected.first + i;
      const uint64_t pick = random() % 10;
      if (pick < erasing) {
        body.kind = std::vector{CertificateKind::kForget, CertificateKind::kEdit,
                                CertificateKind::kEvict}[random() % 3];
        body.counts.erased = random() % 4;
      } else if (pick == 9 && body.sequence > 0) {
        body.kind = CertificateKind::kShredded;
        body.destruction.emplace();
        const uint64_t last = body.sequence - 1 - std::min(body.sequence - 1, random() % 80);
        const uint64_t length = random() % 3 == 0 ? random() % 150 : random() % 3;
        if (random() % 20 != 0) {
          body.destruction->erasures = SequenceSpan{last - std::min(last, length), last};
        }
      } else if (random() % 150 == 0) {
        body.kind = CertificateKind::kTenantClosed;
        body.stores = {{"keys", random() % 2 == 0 ? "key-destroyed" : "not-claimed", ""}};
      } else {
        body.kind = CertificateKind::kRetrainCheck;
        if (random() % 2 == 0) {
          body.kind = CertificateKind::kRestored;
          const uint64_t reapplied =
              std::min(body.sequence, random() % (random() % 3 == 0 ? 90 : 4));
          body.restoration = Restoration{
              .size = body.sequence - reapplied, .reapplied = reapplied, .removed = random() % 2};
          body.counts.erased = body.restoration->removed;
        }
      }
      expected.log.push_back(body);
      const bool contradicts = expected.Contradicts();
      contradictions += contradicts ? 1 : 0;
      restorations += contradicts && body.restoration.has_value() ? 1 : 0;
      ASSERT_EQ(ledger.Add(body), !contradicts) << i;
      if (i % 37 != 0 && i + 1 != size) continue;
      std::vector<uint64_t> pending;
      uint64_t erasures = 0;
      for (size_t j = 0; j < expected.log.size(); ++j) {
        if (!IsErasure(expected.log[j].kind) || expected.log[j].counts.erased == 0) continue;
        ++erasures;
        if (!expected.Destroyed(j)) pending.push_back(expected.first + j);
      }
      ASSERT_EQ(ledger.erasures(), erasures);
      ASSERT_EQ(ledger.pending(), pending.size());
      std::vector<uint64_t> walked;
      for (std::optional<uint64_t> at = ledger.NextPending(0); at.has_value();
           at = ledger.NextPending(*at + 1)) {
        walked.push_back(*at);
      }
      ASSERT_EQ(walked, pending);
      left += pending.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(restorations, 20);
  EXPECT_GT(contradictions - restorations, 20);
  EXPECT_GT(left, 20);
}

TEST(KeyLedger, TheWordsOfTheServerAreWordsOfTheFormat) {
  CertificateBody body = ForgetBody();
  body.stores.clear();
  for (const absl::string_view store : {kStoreTokens, kStoreKeys, kStoreWriteAheadLog,
                                        kStoreBackups, kStoreMemory, kStoreExports}) {
    body.stores.push_back({std::string(store), std::string(kLevelNotClaimed), ""});
  }
  EXPECT_TRUE(ValidateBody(body).ok()) << ValidateBody(body);
  const std::string document = ReadAll(LETHE_SOURCE_DIR "/docs/certificate_format.md");
  for (const absl::string_view level :
       {kLevelRowsDeleted, kLevelKeyPending, kLevelKeyDestroyed, kLevelTruncated,
        kLevelUnreadableWithoutKey, kLevelNoTokenContent, kLevelNotClaimed}) {
    body.stores[0].level = std::string(level);
    EXPECT_TRUE(ValidateBody(body).ok()) << level;
    EXPECT_TRUE(absl::StrContains(document, absl::StrCat("`", level, "`"))) << level;
  }
  for (const StoreErasure& store : body.stores) {
    EXPECT_TRUE(absl::StrContains(document, absl::StrCat("\n| `", store.store, "` |")))
        << store.store;
  }
}

}  // namespace
}  // namespace lethe::audit
