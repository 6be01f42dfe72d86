#include "audit/sigstore_bundle.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/certificate.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/merkle.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "audit/witness.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::kOrigin;
using testing::ReadAll;
using testing::VectorSigner;

// A log of three certificates; the bundle is that of the second one.
class BundleTest : public ::testing::Test {
 protected:
  BundleTest() : chain_(testing::MakeChain(3, signer_)) {
    std::vector<Digest> leaves;
    for (const SignedCertificate& certificate : chain_) leaves.push_back(certificate.leaf_hash);
    root_ = MerkleRoot(leaves);
    proof_ = {leaves[0], leaves[2]};
    note_ = SignCheckpoint({kOrigin, 3, root_}, signer_).value();
  }
  absl::StatusOr<std::string> Make(absl::string_view note) const {
    return SigstoreBundle({chain_[1].envelope, chain_[1].leaf, 1, 3, root_, proof_, note, key_});
  }
  absl::Status Check(absl::string_view bundle) const {
    return CheckSigstoreBundle(
        bundle, {chain_[1].envelope, chain_[1].leaf, 1, 3, root_, proof_, note_, key_});
  }

  const Signer signer_ = VectorSigner();
  const VerificationKey& key_ = signer_.verification_key();
  const std::vector<SignedCertificate> chain_;
  Digest root_{};
  std::vector<Digest> proof_;
  std::string note_;
};

TEST_F(BundleTest, IsTheDocumentedText) {
  const std::string expected = absl::StrCat(
      R"({"dsseEnvelope":)", chain_[1].envelope,
      R"(,"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",)"
      R"("verificationMaterial":{"publicKey":{"hint":")",
      kOrigin, R"(+6ef2ae39"},"tlogEntries":[{"canonicalizedBody":")", Base64(chain_[1].leaf),
      R"(","inclusionProof":{"checkpoint":{"envelope":")",
      absl::StrReplaceAll(note_, {{"\n", "\\n"}}), R"("},"hashes":[")", Base64(proof_[0]), R"(",")",
      Base64(proof_[1]), R"("],"logIndex":"1","rootHash":")", Base64(root_),
      R"(","treeSize":"3"},"kindVersion":{"kind":"dsse","version":"0.0.2"},"logId":{"keyId":")",
      Base64(Sha256(absl::StrCat(kOrigin, "\n\x01", key_.raw()))), R"("},"logIndex":"1"}]}})");
  EXPECT_EQ(Make(note_).value(), expected);
  EXPECT_TRUE(Check(expected).ok());
  EXPECT_TRUE(ParseJson(expected, JsonForm::kCanonical).ok());
}

// Made by a Python script from the formats alone; @sigstore/verify 4.1.3 accepts this bundle.
TEST_F(BundleTest, GoldenFilesOfAnotherProgram) {
  const std::string folder = LETHE_SOURCE_DIR "/tests/audit/golden/";
  const std::string leaf = ReadAll(folder + "evict.leaf.json");
  const std::vector<Digest> leaves = {LeafHash(ReadAll(folder + "forget.leaf.json")),
                                      LeafHash(leaf), LeafHash("{}")};
  const Digest root = MerkleRoot(leaves);
  const std::vector<Digest> proof = {leaves[0], leaves[2]};
  const std::string note = SignCheckpoint({kOrigin, 3, root}, signer_).value();
  EXPECT_EQ(note, ReadAll(folder + "three.checkpoint"));
  EXPECT_EQ(TlogProof(1, proof, note), ReadAll(folder + "evict.tlog-proof"));
  EXPECT_TRUE(VerifyInclusion(1, 3, leaves[1], proof, root).ok());
  EXPECT_EQ(
      SigstoreBundle({ReadAll(folder + "evict.envelope.json"), leaf, 1, 3, root, proof, note, key_})
          .value(),
      ReadAll(folder + "evict.sigstore.json"));
}

TEST_F(BundleTest, OneLeafHasAnEmptyProof) {
  const std::string note = SignCheckpoint({kOrigin, 1, chain_[0].leaf_hash}, signer_).value();
  const std::string bundle =
      SigstoreBundle(
          {chain_[0].envelope, chain_[0].leaf, 0, 1, chain_[0].leaf_hash, {}, note, key_})
          .value();
  EXPECT_NE(bundle.find(R"("hashes":[],"logIndex":"0")"), std::string::npos);
}

TEST_F(BundleTest, HasTheLogsOwnSignatureOnly) {
  const WitnessSigner witness = WitnessSigner::FromSeed("w.example", std::string(32, 'w')).value();
  Note note = ParseNote(note_).value();
  note.signatures.insert(note.signatures.begin(), witness.Cosign(note.text, 7).value());
  note.signatures.push_back(note.signatures[1]);
  EXPECT_EQ(Make(SerializeNote(note)).value(), Make(note_).value());
  note.signatures = {note.signatures[0]};
  EXPECT_EQ(Make(SerializeNote(note)).status().code(), absl::StatusCode::kInvalidArgument);
}

// After a hand-over the certificate's key and the checkpoint's are two.
TEST_F(BundleTest, TheHintIsTheCertificatesKeyAndTheLogIdTheCheckpoints) {
  const Signer next = VectorSigner(kOrigin, 0x51);
  const std::string note = SignCheckpoint({kOrigin, 3, root_}, next).value();
  EXPECT_FALSE(Make(note).ok());
  const std::string bundle = SigstoreBundle({chain_[1].envelope, chain_[1].leaf, 1, 3, root_,
                                             proof_, note, next.verification_key()})
                                 .value();
  const Json json = ParseJson(bundle, JsonForm::kCanonical).value();
  const Json& material = *json.Find("verificationMaterial");
  EXPECT_EQ(*material.Find("publicKey")->Find("hint")->as_string(), key_.short_name());
  const Json& entry = (*material.Find("tlogEntries")->as_array())[0];
  const std::string id = DecodeBase64(*entry.Find("logId")->Find("keyId")->as_string()).value();
  EXPECT_EQ(id.substr(0, 4), next.verification_key().key_id());
}

TEST_F(BundleTest, RefusesWhatIsNoEnvelopeOrNote) {
  EXPECT_FALSE(Make("").ok());
  EXPECT_FALSE(Make(note_ + "\n").ok());
  EXPECT_FALSE(SigstoreBundle({"{}", chain_[1].leaf, 1, 3, root_, proof_, note_, key_}).ok());
}

TEST_F(BundleTest, NamesTheMemberThatDiffers) {
  const std::string good = Make(note_).value();
  const std::string hash = Base64(proof_[1]);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"verificationMaterial.tlogEntries[0].inclusionProof.hashes[1]",
       absl::StrReplaceAll(good, {{hash, Base64(proof_[0])}})},
      {"verificationMaterial.tlogEntries[0].inclusionProof.hashes",
       absl::StrReplaceAll(good, {{absl::StrCat(",\"", hash, "\""), ""}})},
      {"verificationMaterial.tlogEntries[0].inclusionProof.treeSize",
       absl::StrReplaceAll(good, {{R"("treeSize":"3")", R"("treeSize":"4")"}})},
      {"verificationMaterial.tlogEntries[0].inclusionProof.logIndex",
       absl::StrReplaceAll(good,
                           {{R"("logIndex":"1","rootHash")", R"("logIndex":"2","rootHash")"}})},
      {"verificationMaterial.tlogEntries[0].logIndex",
       absl::StrReplaceAll(good, {{R"("logIndex":"1"}])", R"("logIndex":"2"}])"}})},
      {"verificationMaterial.tlogEntries[0].logIndex",
       absl::StrReplaceAll(good, {{R"("logIndex":"1"}])", R"("logIndex":1}])"}})},
      {"verificationMaterial.tlogEntries[0].canonicalizedBody",
       absl::StrReplaceAll(good, {{Base64(chain_[1].leaf), Base64(chain_[2].leaf)}})},
      {"verificationMaterial.tlogEntries[0].kindVersion.version",
       absl::StrReplaceAll(good, {{R"("0.0.2")", R"("0.0.1")"}})},
      {"verificationMaterial.tlogEntries",
       absl::StrReplaceAll(good, {{R"("logIndex":"1"}]}})", R"("logIndex":"1"},{}]}})"}})},
      {"verificationMaterial.tlogEntries[0].logIndex",
       absl::StrReplaceAll(good, {{R"(,"logIndex":"1"}])", "}]"}})},
      {"verificationMaterial.publicKey.hint",
       absl::StrReplaceAll(good, {{R"(+6ef2ae39"},"tlog)", R"(+6ef2ae38"},"tlog)"}})},
      {"verificationMaterial.publicKey",
       absl::StrReplaceAll(good, {{R"("},"tlogEntries")", R"(","x":true},"tlogEntries")"}})},
      {"dsseEnvelope.payload",
       absl::StrReplaceAll(good, {{chain_[1].envelope, chain_[2].envelope}})},
  };
  for (const auto& [member, bundle] : cases) {
    ASSERT_NE(bundle, good) << member;
    const absl::Status status = Check(bundle);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(status.message(), absl::StrCat(member, ": of another certificate or log"));
  }
  // What is no bundle at all.
  for (const std::string& bundle :
       {std::string(), std::string("{}"), std::string("[]"), good + "\n", " " + good,
        good.substr(0, good.size() - 1), absl::StrReplaceAll(good, {{"v0.3", "v0.2"}}),
        absl::StrReplaceAll(good, {{R"("application/vnd.dev.sigstore.bundle.v0.3+json")", "true"}}),
        absl::StrReplaceAll(good, {{R"("logIndex":"1"}])", R"("logIndex":null}])"}})}) {
    EXPECT_EQ(Check(bundle).code(), absl::StatusCode::kInvalidArgument) << bundle.substr(0, 80);
  }
  EXPECT_EQ(
      CheckSigstoreBundle(good, {"{}", chain_[1].leaf, 1, 3, root_, proof_, note_, key_}).code(),
      absl::StatusCode::kInternal);
}

TEST_F(BundleTest, EveryFlippedByteIsSeen) {
  const std::string good = Make(note_).value();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    const absl::StatusCode code = Check(bad).code();
    ASSERT_TRUE(code == absl::StatusCode::kInvalidArgument ||
                code == absl::StatusCode::kFailedPrecondition)
        << i;
  }
}

}  // namespace
}  // namespace lethe::audit
