#include "audit/merkle.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

std::vector<Digest> Leaves(size_t count) {
  std::vector<Digest> leaves;
  for (size_t i = 0; i < count; ++i) leaves.push_back(LeafHash(absl::StrCat("{\"cert\":", i, "}")));
  return leaves;
}

TEST(MerkleTest, MatchesRfc6962Vectors) {
  EXPECT_EQ(Hex(EmptyRoot()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(LeafHash("")), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
  EXPECT_EQ(Hex(LeafHash("L123456")),
            "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56");
  // The children of this published vector are raw strings, not hashes.
  Sha256Hasher hasher;
  EXPECT_EQ(
      hasher.UpdateByte(1).Update("N123").Update("N456").Finish(),
      DecodeDigest("aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb").value());
  const Digest left = Sha256("l");
  const Digest right = Sha256("r");
  EXPECT_EQ(NodeHash(left, right), Sha256(absl::StrCat("\x01", AsBytes(left), AsBytes(right))));
}

// Roots and signature that two foreign verifiers have accepted.
TEST(MerkleTest, MatchesTheLogVector) {
  const std::vector<Digest> leaves = Leaves(700);
  EXPECT_EQ(Base64(MerkleRoot(std::span(leaves).first(300))),
            "4MyAGtfp3FrlN7qkNIccsolYOLWDiplGT9ZTtATVjFM=");
  EXPECT_EQ(Base64(MerkleRoot(leaves)), "GQA5KTUskuqT1ezWOCV2aTq0S9OoU3Tgrfe3dDIVVsE=");

  const Signer signer = testing::VectorSigner();
  EXPECT_EQ(Hex(signer.verification_key().key_id()), "6ef2ae39");
  const std::string checkpoint =
      absl::StrCat(testing::kOrigin, "\n700\n", Base64(MerkleRoot(leaves)), "\n");
  EXPECT_EQ(
      Base64(absl::StrCat(signer.verification_key().key_id(), signer.Sign(checkpoint).value())),
      "bvKuOd7ll8jr8IBrCASvXAIOp1yHuqDryot5dK3Z35FU76c+7ACQ4+PXLytS2KrVdR1GqxSj6IyIc4mijpEfdL7e"
      "1wk=");
}

TEST(CompactRangeTest, EqualsTheDefinitionAtEverySizeAndAfterEveryRestore) {
  const std::vector<Digest> leaves = Leaves(130);
  CompactRange range;
  EXPECT_EQ(range.Root(), EmptyRoot());
  for (size_t size = 1; size <= leaves.size(); ++size) {
    range.Append(leaves[size - 1]);
    EXPECT_EQ(range.size(), size);
    EXPECT_EQ(range.Root(), MerkleRoot(std::span(leaves).first(size))) << size;
    const absl::StatusOr<CompactRange> restored = CompactRange::Restore(size, range.hashes());
    ASSERT_TRUE(restored.ok());
    EXPECT_EQ(restored->Root(), range.Root());
  }
}

TEST(CompactRangeTest, RestoreRefusesHashesThatDoNotFit) {
  const std::vector<Digest> leaves = Leaves(3);
  EXPECT_TRUE(CompactRange::Restore(0, {}).ok());
  EXPECT_FALSE(CompactRange::Restore(0, std::span(leaves).first(1)).ok());
  EXPECT_FALSE(CompactRange::Restore(3, std::span(leaves).first(1)).ok());
  EXPECT_FALSE(CompactRange::Restore(3, leaves).ok());
}

}  // namespace
}  // namespace lethe::audit
