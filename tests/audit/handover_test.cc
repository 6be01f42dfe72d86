// Certificates that hand the log over to the next key, and chains that contain them.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/certificate.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/report.h"
#include "audit/verify.h"
#include "audit/witness.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"
#include "tests/audit/sample_log.h"

namespace lethe::audit {
namespace {

using testing::HandoverBody;
using testing::kOrigin;
using testing::ShreddedBody;
using testing::VectorSigner;

class HandoverTest : public ::testing::Test {
 protected:
  // Key 0 signs 0 and 1 (a hand-over), key 1 signs 2 and 3 (a hand-over), key 2 signs 4 and 5.
  HandoverTest() {
    for (const char seed : {'\x42', '\x51', '\x52'})
      signers_.push_back(VectorSigner(kOrigin, seed));
    Append(ShreddedBody(), 0);
    Append(HandoverBody(Vkey(1)), 0);
    Append(ShreddedBody(), 1);
    Append(HandoverBody(Vkey(2)), 1);
    Append(ShreddedBody(), 2);
    Append(ShreddedBody(), 2);
  }

  std::string Vkey(size_t i) const { return signers_[i].verification_key().vkey(); }
  const VerificationKey& Key(size_t i) const { return signers_[i].verification_key(); }

  CertificateBody Next(CertificateBody body) const {
    body.sequence = chain_.size();
    body.previous_leaf_hash.reset();
    if (!chain_.empty()) body.previous_leaf_hash = chain_.back().leaf_hash;
    return body;
  }
  void Append(const CertificateBody& body, size_t signer) {
    absl::StatusOr<SignedCertificate> made = BuildCertificate(Next(body), signers_[signer]);
    ASSERT_TRUE(made.ok()) << made.status();
    chain_.push_back(*std::move(made));
  }
  static ChainResult Verify(const std::vector<SignedCertificate>& chain,
                            const VerificationKey& key) {
    std::vector<ChainEntry> entries;
    for (const SignedCertificate& certificate : chain) {
      entries.push_back({certificate.envelope, certificate.leaf, certificate.body.sequence});
    }
    return VerifyChain(entries, key);
  }

  std::vector<Signer> signers_;
  std::vector<SignedCertificate> chain_;
};

TEST_F(HandoverTest, StatementSaysTheNextKeyAndNothingElse) {
  const std::string text = SerializeStatement(HandoverBody(Vkey(1))).value();
  EXPECT_EQ(text,
            absl::StrCat(
                R"({"_type":"https://in-toto.io/Statement/v1","predicate":{"build":"lethe 0.1.0",)"
                R"("counts":{"alreadyErased":0,"erased":0,"held":0,"matched":0,"notFound":0},)"
                R"("exceptions":[],"handover":{"next":")",
                Vkey(1), R"("},"kind":"key-handover","origin":")", kOrigin, R"(","request":")",
                Hex(HandoverBody(Vkey(1)).request_commitment),
                R"(","sequence":0,"stores":[],"time":"2026-01-31T12:00:00Z"},)"
                R"("predicateType":"urn:lethe:memory-state-change:v1",)"
                R"("subject":[{"digest":{"sha256":")",
                Hex(EmptyRoot()), R"("},"name":"log:)", kOrigin, R"("}]})"));
  EXPECT_EQ(ParseStatement(text).value(), HandoverBody(Vkey(1)));
}

TEST_F(HandoverTest, RulesOfTheBody) {
  ASSERT_TRUE(ValidateBody(HandoverBody(Vkey(1))).ok());
  const std::string elsewhere = VectorSigner("another.example/log", 0x51).verification_key().vkey();
  using Change = void (*)(CertificateBody&);
  const std::vector<std::pair<std::string, Change>> cases = {
      {"handover: missing", [](CertificateBody& b) { b.handover.reset(); }},
      {"handover: not allowed", [](CertificateBody& b) { b.kind = CertificateKind::kShredded; }},
      {"handover.next", [](CertificateBody& b) { b.handover->next.clear(); }},
      {"handover.next", [](CertificateBody& b) { b.handover->next += "A"; }},
      {"handover.next", [](CertificateBody& b) { b.handover->next.back() = '\0'; }},
      {"subject", [](CertificateBody& b) { b.subject_commitment = Sha256("s"); }},
      {"counts", [](CertificateBody& b) { b.counts.not_found = 1; }},
      {"stores",
       [](CertificateBody& b) {
         b.stores = {{"keys", "key-destroyed", ""}};
       }},
      {"change: not allowed", [](CertificateBody& b) { b.change.emplace(); }},
  };
  for (const auto& [field, change] : cases) {
    CertificateBody body = HandoverBody(Vkey(1));
    change(body);
    const absl::Status status = ValidateBody(body);
    EXPECT_FALSE(status.ok()) << field;
    EXPECT_EQ(status.message().substr(0, field.size()), field) << status;
  }
  CertificateBody body = HandoverBody(elsewhere);
  EXPECT_EQ(ValidateBody(body).message(), "handover.next: its name must be the origin");
  // A witness's key signs no log.
  body = HandoverBody(WitnessKey::FromRaw(kOrigin, Key(1).raw())->vkey());
  EXPECT_EQ(ValidateBody(body).message(),
            "handover.next: verification key: not an Ed25519 key (01 and 32 bytes)");
  for (const CertificateKind kind : {CertificateKind::kForget, CertificateKind::kTenantClosed}) {
    body = kind == CertificateKind::kForget ? testing::ForgetBody() : testing::ClosedBody();
    ASSERT_TRUE(ValidateBody(body).ok());
    body.handover = KeyHandover{Vkey(1)};
    EXPECT_EQ(ValidateBody(body).message(), "handover: not allowed for this kind");
  }
}

TEST_F(HandoverTest, AKeyIsALogsForOneStretch) {
  testing::SampleLog log(4, {2});
  log.Append(HandoverBody(log.signers()[0].verification_key().vkey()));
  ChainVerifier verifier(log.signers()[0].verification_key(), {});
  for (size_t i = 0; i < 4; ++i) {
    const SignedCertificate& one = log.certificates()[i];
    EXPECT_TRUE(verifier.Add({one.envelope, one.leaf, i}).ok()) << i;
  }
  const SignedCertificate& back = log.certificates()[4];
  EXPECT_EQ(verifier.Add({back.envelope, back.leaf, 4}).failure, Failure::kBadStatement);
}

TEST_F(HandoverTest, AKeyCannotHandOverToItself) {
  EXPECT_FALSE(BuildCertificate(HandoverBody(Vkey(0)), signers_[0]).ok());
  const std::string statement = SerializeStatement(HandoverBody(Vkey(0))).value();
  const std::string envelope =
      SerializeEnvelope(SignEnvelope(kInTotoPayloadType, statement, signers_[0]).value()).value();
  EXPECT_EQ(VerifyCertificate(envelope, {}, Key(0)).failure, Failure::kBadStatement);
}

TEST_F(HandoverTest, AChainIsFollowedFromTheFirstKey) {
  const ChainResult result = Verify(chain_, Key(0));
  EXPECT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(result.verified, 6u);
  ChainVerifier verifier(Key(0), {});
  ASSERT_EQ(verifier.keys().size(), 1u);
  for (const SignedCertificate& certificate : chain_) {
    ASSERT_TRUE(verifier.Add({certificate.envelope, certificate.leaf, {}}).ok());
  }
  ASSERT_EQ(verifier.keys().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(verifier.keys()[i].first_sequence, 2 * i);
    EXPECT_EQ(verifier.keys()[i].key.vkey(), Vkey(i));
  }
  EXPECT_EQ(verifier.key().vkey(), Vkey(2));
}

TEST_F(HandoverTest, OnlyTheFirstKeyOpensTheChain) {
  for (const size_t later : {1u, 2u}) {
    const ChainResult result = Verify(chain_, Key(later));
    EXPECT_EQ(result.failure, Failure::kUnknownKey);
    EXPECT_EQ(result.failed_index, 0u);
  }
}

TEST_F(HandoverTest, TheOldKeySignsNothingMore) {
  std::vector<SignedCertificate> forged(chain_.begin(), chain_.begin() + 2);
  CertificateBody body = ShreddedBody();
  body.sequence = 2;
  body.previous_leaf_hash = forged.back().leaf_hash;
  forged.push_back(BuildCertificate(body, signers_[0]).value());
  ChainResult result = Verify(forged, Key(0));
  EXPECT_EQ(result.failure, Failure::kUnknownKey);
  EXPECT_EQ(result.failed_index, 2u);
  // Nor a key that nobody was handed the log, nor the next one too early.
  forged[2] = BuildCertificate(body, signers_[2]).value();
  EXPECT_EQ(Verify(forged, Key(0)).failure, Failure::kUnknownKey);
  std::vector<SignedCertificate> early(chain_.begin(), chain_.begin() + 1);
  body.sequence = 1;
  body.previous_leaf_hash = early.back().leaf_hash;
  early.push_back(BuildCertificate(body, signers_[1]).value());
  EXPECT_EQ(Verify(early, Key(0)).failure, Failure::kUnknownKey);
}

TEST_F(HandoverTest, AHandoverThatWasRefusedChangesNoKey) {
  ChainVerifier verifier(Key(0), {});
  ASSERT_TRUE(verifier.Add({chain_[0].envelope, chain_[0].leaf, {}}).ok());
  // The hand-over with the leaf of another certificate.
  EXPECT_EQ(verifier.Add({chain_[1].envelope, chain_[0].leaf, {}}).failure, Failure::kLeafMismatch);
  EXPECT_EQ(verifier.keys().size(), 1u);
  // A hand-over without its place in the chain.
  ChainVerifier jumped(Key(0), {});
  EXPECT_EQ(jumped.Add({chain_[1].envelope, chain_[1].leaf, {}}).failure, Failure::kMissingHead);
  EXPECT_EQ(jumped.keys().size(), 1u);
}

TEST_F(HandoverTest, LeavingOutTheHandoverIsSeen) {
  std::vector<SignedCertificate> without = chain_;
  without.erase(without.begin() + 1);
  EXPECT_EQ(Verify(without, Key(0)).failure, Failure::kUnknownKey);
}

TEST_F(HandoverTest, TheReportNamesTheNextKey) {
  const std::string text = DescribeBody(chain_[1].body);
  EXPECT_NE(text.find("key-handover"), std::string::npos);
  const size_t at = text.find("  next key    ");
  ASSERT_NE(at, std::string::npos) << text;
  // Wrapped at 80 columns; without line breaks and indents the key is whole.
  std::string joined = absl::StrReplaceAll(text.substr(at + 14), {{"\n              ", ""}});
  EXPECT_EQ(joined.substr(0, Vkey(1).size()), Vkey(1));
  EXPECT_EQ(text.find("tokens"), std::string::npos);
  EXPECT_EQ(DescribeInOneLine(chain_[1].body),
            "     1  2026-01-31T12:00:00Z  key-handover  erased 0");
}

}  // namespace
}  // namespace lethe::audit
