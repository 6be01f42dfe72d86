#include "audit/verify.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::EditBody;
using testing::EvictBody;
using testing::ForgetBody;
using testing::MakeChain;
using testing::VectorSigner;

std::vector<ChainEntry> Entries(const std::vector<SignedCertificate>& chain) {
  std::vector<ChainEntry> entries;
  for (const SignedCertificate& certificate : chain) {
    entries.push_back({certificate.envelope, certificate.leaf, certificate.body.sequence});
  }
  return entries;
}

class VerifyTest : public ::testing::Test {
 protected:
  Failure Certificate(absl::string_view envelope,
                      std::optional<absl::string_view> leaf = std::nullopt) const {
    return VerifyCertificate(envelope, leaf, key_).failure;
  }
  // Signs any payload with the right key: what a hostile owner of the key could do.
  std::string SignAnything(absl::string_view payload,
                           absl::string_view type = kInTotoPayloadType) const {
    return SerializeEnvelope(SignEnvelope(type, payload, signer_).value()).value();
  }
  Failure Chain(const std::vector<ChainEntry>& entries,
                const ChainExpectations& expectations = {}) const {
    return VerifyChain(entries, key_, expectations).failure;
  }

  const Signer signer_ = VectorSigner();
  const VerificationKey& key_ = signer_.verification_key();
  const std::vector<SignedCertificate> chain_ = MakeChain(4, signer_);
};

TEST_F(VerifyTest, AcceptsWhatWasBuilt) {
  const CertificateResult result =
      VerifyCertificate(chain_[0].envelope, chain_[0].leaf, key_, testing::kOrigin);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.body, chain_[0].body);
  EXPECT_EQ(result.id, chain_[0].id);
  EXPECT_EQ(result.leaf_hash, chain_[0].leaf_hash);
  EXPECT_EQ(Certificate(chain_[1].envelope), Failure::kNone);

  ChainExpectations expectations;
  expectations.origin = testing::kOrigin;
  expectations.size = 4;
  expectations.last_leaf_hash = chain_[3].leaf_hash;
  const ChainResult chain = VerifyChain(Entries(chain_), key_, expectations);
  EXPECT_TRUE(chain.ok());
  EXPECT_EQ(chain.verified, 4u);
  EXPECT_EQ(chain.last_leaf_hash, chain_[3].leaf_hash);
  const std::vector<Digest> leaves = {chain_[0].leaf_hash, chain_[1].leaf_hash, chain_[2].leaf_hash,
                                      chain_[3].leaf_hash};
  EXPECT_EQ(chain.root, MerkleRoot(leaves));
}

// Whoever holds the key can sign anything; what contradicts the rules is refused all the same.
TEST_F(VerifyTest, RefusesSignedEvictionsAndEditsThatContradictThemselves) {
  const std::string evict = SerializeStatement(EvictBody()).value();
  ASSERT_EQ(Certificate(SignAnything(evict)), Failure::kNone);
  const std::string edit = SerializeStatement(EditBody()).value();
  ASSERT_EQ(Certificate(SignAnything(edit)), Failure::kNone);
  const std::pair<const char*, const char*> changes[] = {
      // A token at the box gone; more of the margin gone than the surplus; more than was asked for.
      {R"({"error":3,"margin":10,"reserve":75})", R"({"error":2,"margin":10,"reserve":76})"},
      {R"({"error":3,"margin":10,"reserve":75})", R"({"error":3,"margin":9,"reserve":76})"},
      {R"("budget":60)", R"("budget":90)"},
      {R"("surplus":2)", R"("surplus":1)"},
      {"weighted-groups-and-readouts-unchanged", "nothing-will-ever-change"},
      {R"("verdict":"proven")", R"("verdict":"bounded")"},
  };
  for (const auto& [from, to] : changes) {
    const std::string changed = absl::StrReplaceAll(evict, {{from, to}});
    ASSERT_NE(changed, evict) << from;
    EXPECT_EQ(Certificate(SignAnything(changed)), Failure::kBadStatement) << to;
  }
  EXPECT_EQ(Certificate(
                SignAnything(absl::StrReplaceAll(edit, {{R"("reserve":84)", R"("reserve":83)"}}))),
            Failure::kBadStatement);
  // Without the key every byte of the new members is bound by the signature.
  const std::string envelope = SignAnything(evict);
  std::string tampered = envelope;
  const size_t payload = tampered.find("\"payload\":\"") + 11;
  const std::string swapped =
      Base64(absl::StrReplaceAll(evict, {{R"("budget":60)", R"("budget":61)"}}));
  tampered.replace(payload, Base64(evict).size(), swapped);
  ASSERT_NE(tampered, envelope);
  EXPECT_EQ(Certificate(tampered), Failure::kBadSignature);
}

TEST_F(VerifyTest, VerifiesALogOfMixedKinds) {
  const std::vector<SignedCertificate> chain = MakeChain(12, signer_);
  std::vector<CertificateKind> kinds;
  for (const SignedCertificate& certificate : chain) kinds.push_back(certificate.body.kind);
  for (const CertificateKind kind : {CertificateKind::kForget, CertificateKind::kShredded,
                                     CertificateKind::kEvict, CertificateKind::kEdit}) {
    EXPECT_NE(std::find(kinds.begin(), kinds.end(), kind), kinds.end()) << Name(kind);
  }
  ChainExpectations expectations;
  expectations.size = 12;
  EXPECT_EQ(Chain(Entries(chain), expectations), Failure::kNone);
  std::vector<ChainEntry> without = Entries(chain);
  without.erase(without.begin() + 2);
  EXPECT_EQ(Chain(without), Failure::kSequenceGap);
}

TEST_F(VerifyTest, NamesTheCheckThatFailed) {
  const std::string envelope = chain_[0].envelope;
  const std::string statement = SerializeStatement(ForgetBody()).value();
  EXPECT_EQ(Certificate(""), Failure::kMalformedEnvelope);
  EXPECT_EQ(Certificate(envelope + "\n"), Failure::kMalformedEnvelope);
  EXPECT_EQ(Certificate(SignAnything(statement, "application/json")), Failure::kWrongPayloadType);
  EXPECT_EQ(Certificate(SignAnything(" " + statement)), Failure::kNonCanonicalPayload);
  EXPECT_EQ(Certificate(SignAnything("")), Failure::kNonCanonicalPayload);
  EXPECT_EQ(Certificate(SignAnything("{}")), Failure::kBadStatement);
  const std::string lie = absl::StrReplaceAll(statement, {{R"("erased":4)", R"("erased":5)"}});
  EXPECT_EQ(Certificate(SignAnything(lie)), Failure::kBadStatement);
  CertificateBody foreign = ForgetBody();
  foreign.origin = "another.example/log";
  EXPECT_EQ(Certificate(SignAnything(SerializeStatement(foreign).value())),
            Failure::kOriginMismatch);
  EXPECT_EQ(VerifyCertificate(envelope, {}, key_, "another.example/log").failure,
            Failure::kOriginMismatch);
  EXPECT_EQ(Certificate(envelope, ""), Failure::kMalformedLeaf);
  EXPECT_EQ(Certificate(envelope, chain_[0].leaf + "\n"), Failure::kMalformedLeaf);
  EXPECT_EQ(Certificate(envelope, chain_[1].leaf), Failure::kLeafMismatch);
}

TEST_F(VerifyTest, EachFailureHasAWordAndAClassOfItsOwn) {
  std::set<absl::string_view> words;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(Failure::kDigestMismatch); ++i) {
    const Failure failure = static_cast<Failure>(i);
    const absl::string_view word = Name(failure);
    EXPECT_TRUE(words.insert(word).second) << word;
    EXPECT_EQ(word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), absl::string_view::npos);
    EXPECT_EQ(ClassOf(failure) == FailureClass::kNone, failure == Failure::kNone) << word;
    // What cannot be read is malformed, and nothing else is.
    const bool unreadable = word.substr(0, 10) == "malformed-" || word == "wrong-payload-type" ||
                            word == "non-canonical-payload" || word == "bad-statement";
    EXPECT_EQ(ClassOf(failure) == FailureClass::kMalformed, unreadable) << word;
  }
}

TEST_F(VerifyTest, OnlyThePinnedKeyCounts) {
  const Signer same_name = VectorSigner(testing::kOrigin, 0x43);
  const Signer same_key = VectorSigner("another.example/log");
  EXPECT_EQ(VerifyCertificate(chain_[0].envelope, {}, same_name.verification_key()).failure,
            Failure::kUnknownKey);
  EXPECT_EQ(VerifyCertificate(chain_[0].envelope, {}, same_key.verification_key()).failure,
            Failure::kUnknownKey);
  // Another key that claims the pinned one's id.
  Envelope forged =
      SignEnvelope(kInTotoPayloadType, SerializeStatement(ForgetBody()).value(), same_name).value();
  forged.keyid = key_.short_name();
  EXPECT_EQ(Certificate(SerializeEnvelope(forged).value()), Failure::kBadSignature);
  // The leaf brings its own public key; it must be the pinned one.
  const std::string leaf = LeafBytes(forged.payload, ParseEnvelope(chain_[0].envelope)->signature,
                                     same_name.verification_key());
  EXPECT_EQ(Certificate(chain_[0].envelope, leaf), Failure::kLeafMismatch);
}

TEST_F(VerifyTest, AFlippedBitInAnyByteIsRefused) {
  const std::vector<ChainEntry> good = Entries(chain_);
  ChainVerifier before(key_, {});  // has accepted everything before `index`
  for (size_t index = 0; index < chain_.size(); ++index) {
    for (const bool in_leaf : {false, true}) {
      const std::string& original = in_leaf ? chain_[index].leaf : chain_[index].envelope;
      for (size_t i = 0; i < original.size(); ++i) {
        std::string changed = original;
        changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
        ChainEntry entry = good[index];
        (in_leaf ? entry.leaf : entry.envelope) = changed;
        ChainVerifier verifier = before;
        ASSERT_FALSE(verifier.Add(entry).ok()) << index << " " << i;
        const ChainResult result = verifier.Finish();
        ASSERT_EQ(result.failed_index, index);
        ASSERT_EQ(result.verified, index);
        const FailureClass got = ClassOf(result.failure);
        ASSERT_TRUE(got == FailureClass::kMalformed || got == FailureClass::kSignature ||
                    (in_leaf && result.failure == Failure::kLeafMismatch))
            << Name(result.failure);
      }
    }
    ASSERT_TRUE(before.Add(good[index]).ok());
  }
}

TEST_F(VerifyTest, EveryTruncationAndExtensionOfACertificateIsRefused) {
  for (size_t i = 0; i < chain_[0].envelope.size(); ++i) {
    ASSERT_EQ(Certificate(absl::string_view(chain_[0].envelope).substr(0, i)),
              Failure::kMalformedEnvelope);
  }
  for (const char c : {' ', '\n', '}', '\0'}) {
    EXPECT_EQ(Certificate(chain_[0].envelope + c), Failure::kMalformedEnvelope);
    EXPECT_EQ(Certificate(c + chain_[0].envelope), Failure::kMalformedEnvelope);
  }
}

TEST_F(VerifyTest, ChainsWithPartsMissingMovedOrRepeatedAreRefusedWithTheirReason) {
  const std::vector<ChainEntry> good = Entries(chain_);
  const auto pick = [&](const std::vector<size_t>& order) {
    std::vector<ChainEntry> entries;
    for (const size_t i : order) entries.push_back(good[i]);
    return entries;
  };
  ChainExpectations four;
  four.size = 4;
  ChainExpectations to_the_last;
  to_the_last.last_leaf_hash = chain_[3].leaf_hash;

  EXPECT_EQ(Chain({}), Failure::kEmptyChain);
  EXPECT_EQ(Chain({}, four), Failure::kEmptyChain);
  EXPECT_EQ(Chain(pick({1, 2, 3})), Failure::kMissingHead);
  EXPECT_EQ(Chain(pick({0, 1, 3})), Failure::kSequenceGap);
  EXPECT_EQ(Chain(pick({0, 2, 3})), Failure::kSequenceGap);
  EXPECT_EQ(Chain(pick({0, 1, 2})), Failure::kNone);  // nothing inside shows a missing tail
  EXPECT_EQ(Chain(pick({0, 1, 2}), four), Failure::kTruncated);
  EXPECT_EQ(Chain(pick({0, 1, 2}), to_the_last), Failure::kTruncated);
  EXPECT_EQ(Chain(pick({0, 1, 2, 3, 3})), Failure::kSequenceRepeated);
  EXPECT_EQ(Chain(pick({0, 1, 2, 2})), Failure::kSequenceRepeated);
  EXPECT_EQ(Chain(pick({0, 0, 1, 2, 3})), Failure::kSequenceRepeated);
  EXPECT_EQ(Chain(pick({0, 2, 1, 3})), Failure::kSequenceGap);
  EXPECT_EQ(Chain(pick({1, 0, 2, 3})), Failure::kMissingHead);
  ChainExpectations three;
  three.size = 3;
  EXPECT_EQ(Chain(good, three), Failure::kUnexpectedTail);
  ChainExpectations to_the_third;
  to_the_third.last_leaf_hash = chain_[2].leaf_hash;
  EXPECT_EQ(Chain(good, to_the_third), Failure::kTruncated);

  std::vector<ChainEntry> swapped_bodies = good;
  std::swap(swapped_bodies[1].envelope, swapped_bodies[2].envelope);
  EXPECT_EQ(Chain(swapped_bodies), Failure::kLeafMismatch);
  std::vector<ChainEntry> swapped_leaves = good;
  std::swap(swapped_leaves[0].leaf, swapped_leaves[2].leaf);
  EXPECT_EQ(Chain(swapped_leaves), Failure::kLeafMismatch);
  std::vector<ChainEntry> renumbered = good;
  renumbered[2].sequence = 3;
  EXPECT_EQ(Chain(renumbered), Failure::kSequenceMismatch);
  std::vector<ChainEntry> unnumbered = good;
  for (ChainEntry& entry : unnumbered) entry.sequence.reset();
  EXPECT_EQ(Chain(unnumbered), Failure::kNone);
}

TEST_F(VerifyTest, ARelinkedOrForkedMiddleIsRefused) {
  // The owner of the key signs another certificate 1; the old 2 does not follow it.
  CertificateBody other = chain_[1].body;
  other.build = "rewritten";
  const SignedCertificate fork = BuildCertificate(other, signer_).value();
  std::vector<ChainEntry> entries = Entries(chain_);
  entries[1] = {fork.envelope, fork.leaf, 1};
  const ChainResult result = VerifyChain(entries, key_);
  EXPECT_EQ(result.failure, Failure::kPreviousLeafMismatch);
  EXPECT_EQ(result.failed_index, 2u);
  // Entry 2 taken out and entry 3 signed again as 2, but still pointing at the old 2.
  CertificateBody relinked = chain_[3].body;
  relinked.sequence = 2;
  const SignedCertificate moved = BuildCertificate(relinked, signer_).value();
  entries = Entries(chain_);
  entries.pop_back();
  entries[2] = {moved.envelope, moved.leaf, 2};
  EXPECT_EQ(Chain(entries), Failure::kPreviousLeafMismatch);
  // A whole rewritten tail is consistent in itself; only what was known before tells.
  relinked.previous_leaf_hash = chain_[1].leaf_hash;
  const SignedCertificate rewritten = BuildCertificate(relinked, signer_).value();
  entries[2] = {rewritten.envelope, rewritten.leaf, 2};
  EXPECT_EQ(Chain(entries), Failure::kNone);
  ChainExpectations known;
  known.last_leaf_hash = chain_[2].leaf_hash;
  EXPECT_EQ(Chain(entries, known), Failure::kTruncated);
}

TEST_F(VerifyTest, AnotherLogsEntryIsRefused) {
  const Signer foreign = VectorSigner("another.example/log", 0x43);
  const std::vector<SignedCertificate> other = MakeChain(4, foreign);
  std::vector<ChainEntry> entries = Entries(chain_);
  entries[2] = {other[2].envelope, other[2].leaf, 2};
  EXPECT_EQ(Chain(entries), Failure::kUnknownKey);
  ChainExpectations expectations;
  expectations.origin = "another.example/log";
  EXPECT_EQ(Chain(Entries(chain_), expectations), Failure::kOriginMismatch);
}

TEST_F(VerifyTest, AFailureIsFinal) {
  ChainVerifier verifier(key_, {});
  const std::vector<ChainEntry> good = Entries(chain_);
  EXPECT_EQ(verifier.Add(good[1]).failure, Failure::kMissingHead);
  EXPECT_EQ(verifier.Add(good[0]).failure, Failure::kMissingHead);
  const ChainResult result = verifier.Finish();
  EXPECT_EQ(result.failure, Failure::kMissingHead);
  EXPECT_EQ(result.verified, 0u);
  EXPECT_EQ(result.failed_index, 0u);
}

}  // namespace
}  // namespace lethe::audit
