// Sealing: published vectors, the openssl program as judge, every bit and every field of a place,
// sizes, the count of uses.
#include "store/vault/sealing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <random>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/vault/key_slot.h"
#include "tests/store/vault/vault_testing.h"

namespace lethe::store {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Vector {
  std::string key, nonce, context, plaintext, ciphertext, tag;  // hex
};

// McGrew and Viega, The Galois/Counter Mode of Operation, appendix B: the test cases for AES-256
// with nonces of 96 bits and a plaintext (14, 15, 16).
std::vector<Vector> McGrewVectors() {
  const std::string key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
  const std::string nonce = "cafebabefacedbaddecaf888";
  const std::string text =
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
      "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
  const std::string sealed =
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
      "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662";
  return {
      {std::string(64, '0'), std::string(24, '0'), "", std::string(32, '0'),
       "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
      {key, nonce, "", text + "1aafd255", sealed + "898015ad", "b094dac5d93471bdec1a502270e3cc6c"},
      {key, nonce, "feedfacedeadbeeffeedfacedeadbeefabaddad2", text, sealed,
       "76fc6ece0f4e1768cddf8853bb2d551b"}};
}

// The openssl program on hex in and out.
std::string OpenSslEnc(const std::string& arguments, const std::string& hex) {
  const TempFolder folder;
  const std::string input = folder.path() + "/input";
  WriteFile(input, FromHex(hex));
  return absl::BytesToHexString(
      RunCommand(absl::StrCat("openssl enc ", arguments, " -nopad -in '", input, "'")));
}

using Block = std::array<uint8_t, 16>;

// The product in GF(2^128) of SP 800-38D, 6.3, bit by bit.
Block Multiply(const Block& x, Block v) {
  Block z{};
  for (int i = 0; i < 128; ++i) {
    if ((x[static_cast<size_t>(i / 8)] >> (7 - i % 8)) & 1) {
      for (size_t j = 0; j < 16; ++j) z[j] = static_cast<uint8_t>(z[j] ^ v[j]);
    }
    const bool odd = (v[15] & 1) != 0;
    for (size_t j = 15; j > 0; --j) v[j] = static_cast<uint8_t>(v[j] >> 1 | (v[j - 1] & 1) << 7);
    v[0] = static_cast<uint8_t>(v[0] >> 1 ^ (odd ? 0xe1 : 0));
  }
  return z;
}

// SP 800-38D, 7.1, from AES of the openssl program alone.
void JudgeByOpenSsl(const Vector& vector) {
  EXPECT_EQ(
      OpenSslEnc(absl::StrCat("-aes-256-ctr -K ", vector.key, " -iv ", vector.nonce, "00000002"),
                 vector.plaintext),
      vector.ciphertext);
  auto encrypt_block = [&](const std::string& block) {
    return FromHex(OpenSslEnc(absl::StrCat("-aes-256-ecb -K ", vector.key), block));
  };
  Block h{};
  const std::string h_bytes = encrypt_block(std::string(32, '0'));
  ASSERT_EQ(h_bytes.size(), 16u);
  std::copy(h_bytes.begin(), h_bytes.end(), h.begin());
  std::string input;
  std::string lengths;
  for (const std::string& part : {FromHex(vector.context), FromHex(vector.ciphertext)}) {
    input += part;
    input.resize((input.size() + 15) / 16 * 16, '\0');
    for (int shift = 56; shift >= 0; shift -= 8) {
      lengths.push_back(static_cast<char>(part.size() * 8 >> shift));
    }
  }
  input += lengths;
  Block y{};
  for (size_t at = 0; at < input.size(); at += 16) {
    for (size_t j = 0; j < 16; ++j) {
      y[j] = static_cast<uint8_t>(y[j] ^ static_cast<uint8_t>(input[at + j]));
    }
    y = Multiply(y, h);
  }
  std::string tag = encrypt_block(absl::StrCat(vector.nonce, "00000001"));
  ASSERT_EQ(tag.size(), 16u);
  for (size_t j = 0; j < 16; ++j) tag[j] = static_cast<char>(tag[j] ^ static_cast<char>(y[j]));
  EXPECT_EQ(absl::BytesToHexString(tag), vector.tag);
}

void ExpectSealsAndOpens(const Vector& vector) {
  const SecretBytes key = SecretOf(FromHex(vector.key));
  const std::string nonce = FromHex(vector.nonce);
  const std::string context = FromHex(vector.context);
  const std::string text = FromHex(vector.plaintext);
  std::string sealed = "before";
  ASSERT_OK(AesGcmSeal(key, nonce, context, text, sealed));
  EXPECT_EQ(absl::BytesToHexString(sealed.substr(6)), vector.ciphertext + vector.tag);
  EXPECT_EQ(sealed.substr(0, 6), "before");
  std::string opened(text.size(), 'x');
  ASSERT_OK(AesGcmOpen(key, nonce, context, sealed.substr(6),
                       reinterpret_cast<unsigned char*>(opened.data())));
  EXPECT_EQ(opened, text);
}

TEST(AesGcm, PublishedVectors) {
  for (const Vector& vector : McGrewVectors()) {
    ExpectSealsAndOpens(vector);
    JudgeByOpenSsl(vector);
  }
}

TEST(AesGcm, RandomTextsAgreeWithTheOpenSslProgram) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  auto bytes = [&](size_t size) {
    std::string out;
    for (size_t i = 0; i < size; ++i) out.push_back(static_cast<char>(random()));
    return out;
  };
  for (int round = 0; round < 8; ++round) {
    const std::string key = bytes(32);
    const std::string nonce = bytes(12);
    const std::string context = bytes(random() % 70);
    const std::string text = bytes(1 + random() % 200);
    std::string sealed;
    ASSERT_OK(AesGcmSeal(SecretOf(key), nonce, context, text, sealed));
    const auto hex = [](const std::string& part) { return absl::BytesToHexString(part); };
    const Vector vector{hex(key),
                        hex(nonce),
                        hex(context),
                        hex(text),
                        hex(sealed.substr(0, text.size())),
                        hex(sealed.substr(text.size()))};
    JudgeByOpenSsl(vector);
    ExpectSealsAndOpens(vector);
  }
}

TEST(AesGcm, WrongSizesAreRefused) {
  const SecretBytes key = SecretBytes::Random(32);
  const std::string nonce(12, 'n');
  std::string out = "before";
  EXPECT_CODE(AesGcmSeal(key, nonce, "", "", out), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(AesGcmSeal(key, nonce + "n", "", "text", out), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(AesGcmSeal(key, nonce.substr(1), "", "text", out),
              absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(AesGcmSeal(SecretBytes::Random(31), nonce, "", "text", out),
              absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(AesGcmSeal(SecretBytes(), nonce, "", "text", out),
              absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(AesGcmSeal(key, nonce, "", std::string(kMaxPlaintextBytes + 1, 'x'), out),
              absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(out, "before");

  std::string sealed;
  ASSERT_OK(AesGcmSeal(key, nonce, "", "x", sealed));
  unsigned char text[64];
  // A tag that is cut from either side, nothing but a tag, nothing at all.
  for (size_t size = 0; size <= kTagBytes; ++size) {
    EXPECT_CODE(AesGcmOpen(key, nonce, "", sealed.substr(0, size), text),
                absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(AesGcmOpen(key, nonce, "", sealed + "x", text), NotAuthentic());
}

TEST(AesGcm, NothingOfAForgedTextIsLeft) {
  const SecretBytes key = SecretBytes::Random(32);
  const std::string nonce(12, 'n');
  std::string sealed;
  ASSERT_OK(AesGcmSeal(key, nonce, "", "a text that must not appear", sealed));
  sealed.back() = static_cast<char>(sealed.back() ^ 1);
  std::string out(27, 'x');
  EXPECT_EQ(AesGcmOpen(key, nonce, "", sealed, reinterpret_cast<unsigned char*>(out.data())),
            NotAuthentic());
  EXPECT_EQ(out, std::string(27, '\0'));
}

TEST(SealingKey, NoncesDifferAndTextsComeBack) {
  SealingKey key(SecretBytes::Random(32));
  std::set<std::string> nonces;
  for (int i = 0; i < 1000; ++i) {
    const auto sealed = key.Seal("context", "text");
    ASSERT_OK(sealed);
    EXPECT_EQ(sealed->size(), 4 + kSealOverhead);
    nonces.insert(sealed->substr(0, kNonceBytes));
    EXPECT_EQ(*key.Open("context", *sealed), "text");
  }
  EXPECT_EQ(nonces.size(), 1000u);
  EXPECT_EQ(key.seals(), 1000u);
}

TEST(SealingKey, AUsedUpKeyRefusesAndStillOpens) {
  SealingKey key(SecretBytes::Random(32), kMaxSealsPerKey - 2);
  const auto sealed = key.Seal("", "text");
  ASSERT_OK(sealed);
  EXPECT_CODE(key.Seal("", ""), absl::StatusCode::kInvalidArgument);  // counts
  EXPECT_CODE(key.Seal("", "text"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(*key.Open("", *sealed), "text");
  // Nobody gets more than 2^32, whatever is asked for.
  SealingKey greedy(SecretBytes::Random(32), kMaxSealsPerKey, kMaxSealsPerKey * 2);
  EXPECT_CODE(greedy.Seal("", "text"), absl::StatusCode::kResourceExhausted);
  SealingKey counted(SecretBytes::Random(32));
  counted.CountAtLeast(kMaxSealsPerKey - 1);
  counted.CountAtLeast(5);  // never downwards
  EXPECT_OK(counted.Seal("", "text"));
  EXPECT_CODE(counted.Seal("", "text"), absl::StatusCode::kResourceExhausted);
}

TEST(SealingKey, SecretsAreSealedAsTexts) {
  SealingKey key(SecretBytes::Random(32));
  const SecretBytes secret = SecretBytes::Random(32);
  const auto sealed = key.SealSecret("c", secret);
  ASSERT_OK(sealed);
  EXPECT_TRUE(key.OpenSecret("c", *sealed)->Equals(secret));
  EXPECT_EQ(key.OpenSecret("d", *sealed).status(), NotAuthentic());
  EXPECT_EQ(*key.Open("c", *sealed), BytesOf(secret));
  EXPECT_CODE(key.OpenSecret("c", ""), absl::StatusCode::kDataLoss);
  EXPECT_CODE(key.OpenSecret("c", *key.Seal("c", std::string(65, 'x'))),
              absl::StatusCode::kDataLoss);
}

const RowPlace kPlace = {.tenant_uid = Uid(1),
                         .memory_uid = Uid(2),
                         .handle = 3,
                         .slot = 4,
                         .schema_version = 5};

class SealedRow : public ::testing::Test {
 protected:
  SealingKey key_{SecretOf(std::string(32, 'k'))};
};

TEST_F(SealedRow, HasTheDocumentedBytes) {
  const std::string text = "the text of a row";
  const auto row = SealRow(key_, kPlace, text);
  ASSERT_OK(row);
  ASSERT_EQ(row->size(), text.size() + kSealedRowOverhead);
  EXPECT_EQ(kSealedRowOverhead, 37u);
  EXPECT_EQ(row->substr(0, 9), FromHex("010400000000000000"));
  EXPECT_EQ(*SlotOfRow(*row), 4u);
  EXPECT_EQ(*OpenRow(key_, kPlace, *row), text);
  // The same by hand.
  const std::string context = absl::StrCat("lethe-sealed-row", FromHex("0100"), Uid(1), Uid(2),
                                           FromHex("0300000000000000"
                                                   "0400000000000000"
                                                   "05000000"));
  EXPECT_EQ(context.size(), 102u);
  std::string opened(text.size(), '\0');
  ASSERT_OK(AesGcmOpen(SecretOf(std::string(32, 'k')), row->substr(9, 12), context, row->substr(21),
                       reinterpret_cast<unsigned char*>(opened.data())));
  EXPECT_EQ(opened, text);
  EXPECT_THAT(*row, Not(HasSubstr("text")));
}

TEST_F(SealedRow, EveryFlippedBitIsRefused) {
  const auto row = SealRow(key_, kPlace, "a short one");
  ASSERT_OK(row);
  for (size_t bit = 0; bit < 8 * row->size(); ++bit) {
    std::string damaged = *row;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = OpenRow(key_, kPlace, damaged).status();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss) << bit;
    if (bit >= 8) {
      EXPECT_EQ(status, NotAuthentic()) << bit;  // one error, whatever is wrong
    }
  }
}

TEST_F(SealedRow, EveryOtherLengthIsRefused) {
  const auto row = SealRow(key_, kPlace, "a short one");
  ASSERT_OK(row);
  for (size_t size = 0; size < row->size(); ++size) {
    EXPECT_CODE(OpenRow(key_, kPlace, row->substr(0, size)), absl::StatusCode::kDataLoss) << size;
    EXPECT_CODE(OpenRow(key_, kPlace, row->substr(row->size() - size)), absl::StatusCode::kDataLoss)
        << size;
  }
  EXPECT_CODE(OpenRow(key_, kPlace, *row + '\0'), absl::StatusCode::kDataLoss);
  EXPECT_CODE(SlotOfRow(row->substr(0, kSealedRowOverhead)), absl::StatusCode::kDataLoss);
  EXPECT_CODE(SealRow(key_, kPlace, ""), absl::StatusCode::kInvalidArgument);
}

TEST_F(SealedRow, EveryFieldOfThePlaceCounts) {
  const auto row = SealRow(key_, kPlace, "text");
  ASSERT_OK(row);
  std::vector<RowPlace> others(6, kPlace);
  others[0].tenant_uid = Uid(9);
  others[1].memory_uid = Uid(9);
  others[2].handle = 9;
  others[3].slot = 9;
  others[4].schema_version = 9;
  std::swap(others[5].tenant_uid, others[5].memory_uid);
  for (const RowPlace& other : others) {
    EXPECT_EQ(OpenRow(key_, other, *row).status(), NotAuthentic());
    EXPECT_OK(OpenRow(key_, other, *SealRow(key_, other, "text")));
  }
  // The slot in the row and in the context, both moved.
  std::string moved = *row;
  moved[1] = 9;
  EXPECT_EQ(OpenRow(key_, others[3], moved).status(), NotAuthentic());
  SealingKey other_key(SecretBytes::Random(32));
  EXPECT_EQ(OpenRow(other_key, kPlace, *row).status(), NotAuthentic());
  EXPECT_OK(OpenRow(key_, kPlace, *row));

  RowPlace bad = kPlace;
  bad.memory_uid = "short";
  EXPECT_CODE(SealRow(key_, bad, "text"), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(OpenRow(key_, bad, *row), absl::StatusCode::kInvalidArgument);
}

TEST(KeySlotFormat, HasTheDocumentedBytes) {
  const std::string wrapped(kWrappedKeyBytes, 'w');
  const std::string body = EncodeSlot(Uid(7), {.slot = 0x0102, .epoch = 3, .wrapped = wrapped});
  ASSERT_EQ(body.size(), 96u);
  const std::string front = absl::StrCat("LtK1", FromHex("03000000"), FromHex("0201000000000000"),
                                         wrapped, FromHex("00000000"));
  EXPECT_EQ(body.substr(0, 80), front);
  const Bytes32 digest =
      OpenSslSha256(absl::StrCat("lethe-key-slot", FromHex("0001"), Uid(7), front));
  EXPECT_EQ(body.substr(80), std::string(digest.begin(), digest.begin() + 16));
  EXPECT_EQ(WrapContext(Uid(7), 0x0102, 3),
            absl::StrCat("lethe-key-wrap", FromHex("0001"), Uid(7), FromHex("0201000000000000"),
                         FromHex("03000000")));
  const auto decoded = DecodeSlot(Uid(7), 0x0102, body);
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->slot, 0x0102u);
  EXPECT_EQ(decoded->epoch, 3u);
  EXPECT_EQ(decoded->wrapped, wrapped);
  EXPECT_FALSE(IsDestroyed(body));
  EXPECT_TRUE(IsDestroyed(std::string(96, '\0')));
  EXPECT_FALSE(IsDestroyed(std::string(95, '\0')));
}

TEST(KeySlotFormat, EveryFlippedBitAndEveryOtherPlaceIsRefused) {
  const std::string body =
      EncodeSlot(Uid(7), {.slot = 12, .epoch = 3, .wrapped = std::string(kWrappedKeyBytes, 'w')});
  for (size_t bit = 0; bit < 8 * body.size(); ++bit) {
    std::string damaged = body;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_CODE(DecodeSlot(Uid(7), 12, damaged), absl::StatusCode::kDataLoss) << bit;
  }
  EXPECT_CODE(DecodeSlot(Uid(8), 12, body), absl::StatusCode::kDataLoss);
  EXPECT_CODE(DecodeSlot(Uid(7), 13, body), absl::StatusCode::kDataLoss);
  EXPECT_CODE(DecodeSlot(Uid(7), 12, body + '\0'), absl::StatusCode::kDataLoss);
  EXPECT_CODE(DecodeSlot(Uid(7), 12, body.substr(1)), absl::StatusCode::kDataLoss);
  EXPECT_CODE(DecodeSlot(Uid(7), 12, std::string(96, '\0')), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace lethe::store
