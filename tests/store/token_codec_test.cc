// The bytes of a row against golden ones made by another program (Python's struct, hashlib, hmac).
#include "store/token_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "audit/hash.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

constexpr char kUid[] = "000102030405060708090a0b0c0d0e0f";

TokenRow GoldenRow() {
  TokenRow row;
  row.handle = 7;
  row.id = "tok-1";
  row.subject = "subj-é";
  row.key = {1.5, -0.0, 5e-324};
  row.value = {0.1};
  row.payload = std::string("pay\0load", 8);
  for (size_t i = 0; i < row.salt.size(); ++i) row.salt[i] = static_cast<uint8_t>(i);
  return row;
}

// struct.pack('<I', ...)
constexpr char kGolden[] =
    "0205000000746f6b2d31070000007375626a2dc3a903000000000000000000"
    "f83f00000000000000800100000000000000010000009a9999999999b93f08000000706179006c6f61640000000000"
    "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

TEST(TokenCodec, WritesTheGoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString(EncodeToken(GoldenRow())), kGolden);
}

TEST(TokenCodec, ReadsTheGoldenBytes) {
  auto row = DecodeToken(7, absl::HexStringToBytes(kGolden));
  ASSERT_OK(row);
  EXPECT_EQ(*row, GoldenRow());
  EXPECT_TRUE(std::signbit(row->key[1]));
}

TEST(TokenCodec, RandomRowsComeBack) {
  std::mt19937_64 random(20260101);
  for (int i = 0; i < 300; ++i) {
    const TokenRow row = RandomRow(random, 1 + random() % 1'000, "id");
    auto back = DecodeToken(row.handle, EncodeToken(row));
    ASSERT_OK(back);
    EXPECT_EQ(*back, row);
    EXPECT_EQ(EncodeToken(*back), EncodeToken(row));  // -0.0 and all
  }
}

TEST(TokenCodec, AnotherVersionIsRefused) {
  std::string bad = absl::HexStringToBytes(kGolden);
  for (char version : {'\0', '\1', '\3'}) {
    bad[0] = version;
    EXPECT_CODE(DecodeToken(7, bad), absl::StatusCode::kDataLoss);
  }
}

TEST(TokenCodec, EveryTruncationAndExtensionIsFound) {
  const std::string good = absl::HexStringToBytes(kGolden);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_CODE(DecodeToken(7, good.substr(0, size)), absl::StatusCode::kDataLoss);
  }
  EXPECT_CODE(DecodeToken(7, good + '\0'), absl::StatusCode::kDataLoss);
}

TEST(IndexKeys, AreTheDocumentedHmacCutToHalf) {
  SecretBytes secret(kIndexSecretBytes);
  std::fill_n(secret.data(), secret.size(), uint8_t{0x42});
  const IndexKeys keys(secret);
  EXPECT_EQ(absl::BytesToHexString(audit::AsBytes(keys.ForId(kUid, "tok-1"))),
            "53e676bd160d7a056d8a2b09ed3a4ef5");
  EXPECT_EQ(absl::BytesToHexString(audit::AsBytes(keys.ForSubject(kUid, "subj-é"))),
            "6de94c1954b53e52718c22b3f90f2ab9");
  // The same text is another key as id, as subject, in another memory.
  EXPECT_NE(keys.ForId(kUid, "x"), keys.ForSubject(kUid, "x"));
  EXPECT_NE(keys.ForId(kUid, "x"), keys.ForId(Uid(1), "x"));
}

}  // namespace
}  // namespace lethe::store
