#include "audit/encoding.h"

#include <random>
#include <string>

#include "audit/hash.h"
#include "audit/random.h"
#include "gtest/gtest.h"

namespace lethe::audit {
namespace {

TEST(Sha256Test, MatchesPublishedVectors) {
  // FIPS 180-4 examples.
  EXPECT_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(Sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, IncrementalEqualsOneShotAndTheHasherStartsAfresh) {
  Sha256Hasher hasher;
  for (int round = 0; round < 2; ++round) {
    hasher.Update("ab").UpdateByte('c');
    EXPECT_EQ(hasher.Finish(), Sha256("abc"));
  }
  const std::string numbers("\x01\x02\x03\x04\x00\x00\x00\x00\x00\x00\x00\x05\xbf\xf8\0\0\0\0\0\0",
                            20);
  EXPECT_EQ(hasher.UpdateU32(0x01020304).UpdateU64(5).UpdateDouble(-1.5).Finish(), Sha256(numbers));
}

TEST(HmacTest, MatchesRfc4231) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(HashTest, ConstantTimeComparison) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abcd"));
}

TEST(HexTest, IsLowerCaseAndStrict) {
  const std::string bytes("\x00\x7f\x80\xff", 4);
  EXPECT_EQ(Hex(bytes), "007f80ff");
  EXPECT_EQ(DecodeHex("007f80ff").value(), bytes);
  EXPECT_EQ(DecodeHex("").value(), "");
  for (const char* bad : {"0", "0G", "G0", "FF", "0x", " 0", "0 "}) {
    EXPECT_FALSE(DecodeHex(bad).ok()) << bad;
  }
  EXPECT_EQ(DecodeHex("00zz").status().message(), "hex: offset 2: not a lower-case hex digit");
  EXPECT_FALSE(DecodeDigest(std::string(62, '0')).ok());
  EXPECT_FALSE(DecodeDigest(std::string(66, '0')).ok());
  EXPECT_EQ(DecodeDigest(Hex(Sha256("x"))).value(), Sha256("x"));
}

TEST(Base64Test, MatchesRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(Base64(bytes), text);
    EXPECT_EQ(DecodeBase64(text).value(), bytes);
  }
}

TEST(Base64Test, RefusesEveryOtherSpelling) {
  // Set padding bits, no padding, too much, padding inside, other alphabet, white space.
  for (const char* bad : {"Zh==", "Zm9=", "Zg", "Zg=", "Zg===", "====", "Z===", "Zg==Zg==", "Zm-v",
                          "Zm_v", "Zm9v\n", " Zm9v", "Zm 9", "Zm=v", "=m9v"}) {
    EXPECT_FALSE(DecodeBase64(bad).ok()) << bad;
  }
}

TEST(Base64Test, WhateverDecodesEncodesBackToTheSameText) {
  const uint64_t seed = 20260131;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string alphabet = "AQgwZz09+/=-\n";
  int decoded = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t size = random() % 9;
    for (size_t i = 0; i < size; ++i) text.push_back(alphabet[random() % alphabet.size()]);
    const absl::StatusOr<std::string> bytes = DecodeBase64(text);
    if (!bytes.ok()) continue;
    ++decoded;
    EXPECT_EQ(Base64(*bytes), text);
  }
  EXPECT_GT(decoded, 500);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes(random() % 50, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_EQ(DecodeBase64(Base64(bytes)).value(), bytes);
    EXPECT_EQ(DecodeHex(Hex(bytes)).value(), bytes);
  }
}

TEST(Base64Test, ADigestHas32Bytes) {
  const Digest digest = Sha256("x");
  EXPECT_EQ(DecodeBase64Digest(Base64(digest)).value(), digest);
  for (const std::string& bad :
       {std::string(), Base64(std::string(31, 'x')), Base64(std::string(33, 'x')), Hex(digest),
        Base64(digest) + "\n"}) {
    EXPECT_FALSE(DecodeBase64Digest(bad).ok()) << bad;
  }
}

TEST(NumbersTest, AreBigEndian) {
  std::string out;
  AppendU32(out, 0x01020304);
  AppendU64(out, 0x05060708090a0b0c);
  AppendDouble(out, 1.0);
  EXPECT_EQ(Hex(out), "0102030405060708090a0b0c3ff0000000000000");
}

TEST(RandomTest, GivesFreshBytesOfTheRightSize) {
  EXPECT_EQ(RandomBytes(0).size(), 0u);
  EXPECT_EQ(RandomBytes(1000).size(), 1000u);
  EXPECT_NE(RandomSalt(), RandomSalt());
  const std::string uid = RandomUid();
  EXPECT_EQ(uid.size(), 32u);
  EXPECT_TRUE(DecodeHex(uid).ok());
  EXPECT_NE(uid, RandomUid());
}

}  // namespace
}  // namespace lethe::audit
