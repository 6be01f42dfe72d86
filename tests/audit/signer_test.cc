#include "audit/signer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;
using testing::VectorSigner;

absl::StatusCode LoadCode(const std::string& path) {
  return Signer::LoadFile("log", path).status().code();
}

TEST(SignerTest, MatchesRfc8032) {
  // Section 7.1, test 2.
  const std::string seed =
      DecodeHex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb").value();
  const Signer signer = Signer::FromSeed("log", seed).value();
  EXPECT_EQ(Hex(signer.verification_key().raw()),
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  EXPECT_EQ(
      Hex(signer.Sign("\x72").value()),
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
      "1d8c387b2eaeb4302aeeb00d291612bb0c00");
}

TEST(SignerTest, VerifiesOnlyWhatItSigned) {
  const Signer signer = Signer::Generate("log").value();
  const VerificationKey& key = signer.verification_key();
  const std::string message = "a message";
  const std::string signature = signer.Sign(message).value();
  EXPECT_TRUE(key.Verify(message, signature));
  EXPECT_FALSE(key.Verify("a massage", signature));
  EXPECT_FALSE(key.Verify(message, signature.substr(1)));
  EXPECT_FALSE(key.Verify(message, signature + "x"));
  EXPECT_FALSE(key.Verify(message, ""));
  for (size_t i = 0; i < signature.size(); ++i) {
    std::string other = signature;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(key.Verify(message, other)) << i;
  }
  EXPECT_FALSE(Signer::Generate("log").value().verification_key().Verify(message, signature));
}

// The same signature with s + L instead of s: must not pass as a second signature.
TEST(SignerTest, RefusesMalleatedSignatures) {
  const Signer signer = VectorSigner();
  std::string signature = signer.Sign("m").value();
  const std::string order =
      DecodeHex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").value();
  unsigned carry = 0;
  for (size_t i = 0; i < 32; ++i) {
    const unsigned sum = static_cast<uint8_t>(signature[32 + i]) +
                         static_cast<unsigned>(static_cast<uint8_t>(order[i])) + carry;
    signature[32 + i] = static_cast<char>(sum & 0xFF);
    carry = sum >> 8;
  }
  ASSERT_EQ(carry, 0u);
  EXPECT_FALSE(signer.verification_key().Verify("m", signature));
}

TEST(VerificationKeyTest, VkeyRoundTripsAndMatchesTheVector) {
  const Signer signer = VectorSigner();
  const VerificationKey& key = signer.verification_key();
  EXPECT_EQ(Hex(key.key_id()), "6ef2ae39");
  EXPECT_EQ(key.short_name(), absl::StrCat(testing::kOrigin, "+6ef2ae39"));
  EXPECT_EQ(key.vkey(),
            absl::StrCat(key.short_name(), "+", Base64(absl::StrCat("\x01", key.raw()))));
  const VerificationKey parsed = VerificationKey::Parse(key.vkey()).value();
  EXPECT_EQ(parsed.raw(), key.raw());
  EXPECT_EQ(parsed.name(), key.name());
  EXPECT_EQ(parsed.vkey(), key.vkey());
  EXPECT_EQ(Hex(key.SpkiDer()), absl::StrCat("302a300506032b6570032100", Hex(key.raw())));
}

TEST(VerificationKeyTest, ParsesKeysWhoseBase64ContainsPlus) {
  int with_plus = 0;
  for (char seed = 0; seed < 40; ++seed) {
    const Signer signer = VectorSigner("log", seed);
    const std::string vkey = signer.verification_key().vkey();
    with_plus += vkey.find('+', 13) != std::string::npos ? 1 : 0;
    EXPECT_TRUE(VerificationKey::Parse(vkey).ok()) << vkey;
  }
  EXPECT_GT(with_plus, 0);
}

TEST(VerificationKeyTest, AnyChangedByteOfAVkeyIsRefused) {
  const std::string vkey = VectorSigner().verification_key().vkey();
  for (size_t i = 0; i < vkey.size(); ++i) {
    for (const char c : {'A', 'b', '0', '+', '=', ' '}) {
      if (vkey[i] == c) continue;
      std::string other = vkey;
      other[i] = c;
      EXPECT_FALSE(VerificationKey::Parse(other).ok()) << other;
    }
    EXPECT_FALSE(VerificationKey::Parse(vkey.substr(0, i)).ok());
  }
  EXPECT_FALSE(VerificationKey::Parse(vkey + "\n").ok());
  // A witness key (type 04) is not a log key.
  const std::string raw = VectorSigner().verification_key().raw();
  Sha256Hasher hasher;
  const Digest id = hasher.Update("log\n\x04").Update(raw).Finish();
  EXPECT_FALSE(VerificationKey::Parse(absl::StrCat("log+", Hex(AsBytes(id).substr(0, 4)), "+",
                                                   Base64(absl::StrCat("\x04", raw))))
                   .ok());
}

TEST(KeyNameTest, RefusesWhatWouldBreakAFormat) {
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a+b"), std::string("a\nb"),
        std::string("\xc3\xa9"), std::string("a\"b"), std::string("a\\b"), std::string(256, 'a')}) {
    EXPECT_FALSE(ValidateKeyName(bad).ok()) << bad;
    EXPECT_FALSE(Signer::Generate(bad).ok()) << bad;
  }
  EXPECT_TRUE(ValidateKeyName(std::string(255, 'a')).ok());
}

TEST(KeyFileTest, CreatesOnceAndLoadsTheSameKey) {
  const TempFolder folder;
  const std::string path = folder / "key.pem";
  const mode_t mask = ::umask(0);
  const absl::StatusOr<Signer> created = Signer::CreateFile("log", path);
  ::umask(mask);
  ASSERT_TRUE(created.ok()) << created.status();

  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0400u);
  EXPECT_EQ(status.st_nlink, 1u);
  const std::string pem = testing::ReadAll(path);
  EXPECT_THAT(pem, HasSubstr("-----BEGIN PRIVATE KEY-----"));

  const absl::StatusOr<Signer> loaded = Signer::LoadFile("log", path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->verification_key().vkey(), created->verification_key().vkey());
  EXPECT_EQ(loaded->Sign("m").value(), created->Sign("m").value());

  EXPECT_EQ(Signer::CreateFile("log", path).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(testing::ReadAll(path), pem);
  // Nothing but the key: no draft is left.
  size_t files = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    files += item.exists() ? 1u : 0u;
  }
  EXPECT_EQ(files, 1u);
}

TEST(KeyFileTest, AHostileUmaskDoesNotMakeTheKeyUnreadable) {
  const TempFolder folder;
  const mode_t mask = ::umask(0777);
  const absl::Status created = Signer::CreateFile("log", folder / "key.pem").status();
  ::umask(mask);
  ASSERT_TRUE(created.ok()) << created;
  struct stat status = {};
  ASSERT_EQ(::stat((folder / "key.pem").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0400u);
}

TEST(KeyFileTest, RefusesFilesThatOthersCouldHaveTouched) {
  const TempFolder folder;
  const std::string path = folder / "key.pem";
  ASSERT_TRUE(Signer::CreateFile("log", path).ok());
  for (const mode_t mode : {0440u, 0404u, 0420u, 0402u, 0410u, 0644u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(LoadCode(path), absl::StatusCode::kFailedPrecondition) << mode;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(LoadCode(path), absl::StatusCode::kOk);
  std::filesystem::create_symlink(path, folder / "link");
  EXPECT_EQ(LoadCode(folder / "link"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LoadCode(folder.path()), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0400), 0);
  EXPECT_EQ(LoadCode(folder / "fifo"), absl::StatusCode::kFailedPrecondition);
}

TEST(KeyFileTest, RefusesOtherContentWithoutRepeatingIt) {
  const TempFolder folder;
  EXPECT_EQ(LoadCode(folder / "absent"), absl::StatusCode::kNotFound);
  EXPECT_EQ(Signer::CreateFile("log", folder / "no/such/folder").status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string& content :
       {std::string(), std::string("secret words"), std::string(100000, 'x'),
        std::string("-----BEGIN PRIVATE KEY-----\nAAAA\n"
                    "-----END PRIVATE KEY-----\n")}) {
    const std::string path = folder / "bad.pem";
    std::filesystem::remove(path);
    testing::WriteAll(path, content);
    ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
    const absl::Status status = Signer::LoadFile("log", path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

// OpenSSL's command line as the judge of the file format, and as the source of keys we must refuse.
TEST(KeyFileTest, TheOpensslCommandReadsOurKeysAndItsOtherKeysAreRefused) {
  ASSERT_EQ(std::system("openssl version >/dev/null"), 0) << "no openssl command";
  const TempFolder folder;
  const Signer signer = Signer::CreateFile("log", folder / "key.pem").value();
  const auto run = [&](const std::string& arguments) {
    return std::system(
        absl::StrCat("cd '", folder.path(), "' && openssl ", arguments, " 2>/dev/null").c_str());
  };
  ASSERT_EQ(run("pkey -in key.pem -pubout -outform DER -out pub.der"), 0);
  EXPECT_EQ(testing::ReadAll(folder / "pub.der"), signer.verification_key().SpkiDer());

  ASSERT_EQ(run("genpkey -algorithm ed25519 -out theirs.pem"), 0);
  ASSERT_EQ(run("genpkey -algorithm x25519 -out x25519.pem"), 0);
  ASSERT_EQ(run("genpkey -algorithm ed25519 -aes256 -pass pass:p -out encrypted.pem"), 0);
  for (const char* name : {"theirs.pem", "x25519.pem", "encrypted.pem", "pub.der"}) {
    ASSERT_EQ(::chmod((folder / name).c_str(), 0400), 0);
  }
  EXPECT_EQ(LoadCode(folder / "theirs.pem"), absl::StatusCode::kOk);
  EXPECT_EQ(LoadCode(folder / "x25519.pem"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadCode(folder / "encrypted.pem"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadCode(folder / "pub.der"), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lethe::audit
