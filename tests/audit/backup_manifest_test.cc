#include "audit/backup_manifest.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::kOrigin;
using ::testing::StartsWith;
using testing::VectorSigner;

BackupManifest Sample() {
  BackupManifest manifest;
  manifest.origin = kOrigin;
  manifest.tenant = "clinic";
  manifest.uid = "000102030405060708090a0b0c0d0e0f";
  manifest.time = "2026-01-31T12:00:00.000001Z";
  manifest.log_size = 700;
  manifest.log_root = Sha256("root");
  manifest.file_bytes = 3;
  manifest.file_sha256 = Sha256("abc");
  return manifest;
}

// The bytes of docs/certificate_format.md, section 15. The signature is openssl's:
//   openssl pkeyutl -sign -rawin -inkey <the key of section 7> -in text
constexpr char kGolden[] =
    "lethe-backup/v1\n"
    "origin svmem.example/erasure-log/t-7f3a\n"
    "tenant clinic\n"
    "uid 000102030405060708090a0b0c0d0e0f\n"
    "time 2026-01-31T12:00:00.000001Z\n"
    "log-size 700\n"
    "log-root SBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I=\n"
    "file-bytes 3\n"
    "file-sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
    "\n"
    "\xE2\x80\x94 svmem.example/erasure-log/t-7f3a "
    "bvKuOTOizjsurR8ZbMVjx7mNN8ncCPqJGGP6gvK+U6A1ySIHp9ZV6y42pEcynAACRjYy9WgXu2RP8g8twWXpCM+CMQ8="
    "\n";

TEST(BackupManifestTest, HasTheGoldenBytes) {
  const Signer signer = VectorSigner();
  const absl::StatusOr<std::string> note = SignBackupManifest(Sample(), signer);
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(*note, kGolden);
  const absl::StatusOr<BackupManifest> read =
      VerifyBackupManifest(kGolden, signer.verification_key());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Sample());
}

TEST(BackupManifestTest, EveryFlippedBitIsRefused) {
  const VerificationKey key = VectorSigner().verification_key();
  const std::string note = kGolden;
  for (size_t i = 0; i < note.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = note;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      EXPECT_FALSE(VerifyBackupManifest(other, key).ok()) << i << " bit " << bit;
    }
    EXPECT_FALSE(VerifyBackupManifest(note.substr(0, i), key).ok()) << i;
    EXPECT_FALSE(VerifyBackupManifest(note.substr(0, i) + note.substr(i + 1), key).ok()) << i;
    EXPECT_FALSE(VerifyBackupManifest(note.substr(0, i) + "1" + note.substr(i), key).ok()) << i;
  }
}

// Each line by itself, well signed all the same: the parser is as strict as the writer.
TEST(BackupManifestTest, EveryDeviationIsRefusedAndItsLineNamed) {
  const std::string text = BackupManifestText(Sample());
  ASSERT_TRUE(ParseBackupManifestText(text).ok());
  const auto refuses = [&](const std::string& from, const std::string& to,
                           const std::string& named) {
    ASSERT_EQ(absl::StrContains(text, from), true) << from;
    const absl::StatusOr<BackupManifest> parsed =
        ParseBackupManifestText(absl::StrReplaceAll(text, {{from, to}}));
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << to;
    EXPECT_THAT(std::string(parsed.status().message()),
                StartsWith(absl::StrCat("manifest: ", named)))
        << to;
  };
  refuses("lethe-backup/v1", "lethe-backup/v2", "line 1");
  refuses("lethe-backup/v1\n", "", "line 1");
  refuses("lethe-backup/v1\n", "\nlethe-backup/v1\n", "line 1");
  refuses("origin svmem", "origin  svmem", "line 2 (origin)");
  refuses("origin svmem.example/erasure-log/t-7f3a", "origin ", "line 2 (origin)");
  refuses("origin svmem", "origins vmem", "line 2 (origin)");
  refuses("tenant clinic", "tenant Clinic", "line 3 (tenant)");
  refuses("tenant clinic", "tenant ", "line 3 (tenant)");
  refuses("tenant clinic", "tenant -clinic", "line 3 (tenant)");
  refuses("tenant clinic", "tenant clinic-", "line 3 (tenant)");
  refuses("tenant clinic", "tenant ../clinic", "line 3 (tenant)");
  refuses("tenant clinic", absl::StrCat("tenant ", std::string(64, 'a')), "line 3 (tenant)");
  refuses("0d0e0f", "0d0e0F", "line 4 (uid)");
  refuses("0d0e0f", "0d0e", "line 4 (uid)");
  refuses("0d0e0f", "0d0e0f00", "line 4 (uid)");
  refuses("12:00:00.000001Z", "12:00:00Z", "line 5 (time)");
  refuses("12:00:00.000001Z", "12:00:00.0000010Z", "line 5 (time)");
  refuses("2026-01-31", "2026-02-31", "line 5 (time)");
  refuses("log-size 700", "log-size 0700", "line 6 (log-size)");
  refuses("log-size 700", "log-size +700", "line 6 (log-size)");
  refuses("log-size 700", "log-size ", "line 6 (log-size)");
  refuses("log-size 700", "log-size 9223372036854775808", "line 6 (log-size)");
  refuses("log-size 700", "log-size 0", "line 7 (log-root)");
  refuses("log-root ", "log-root A", "line 7 (log-root)");
  refuses("file-bytes 3", "file-bytes 0", "line 8 (file-bytes)");
  refuses("file-bytes 3", "file-bytes 03", "line 8 (file-bytes)");
  refuses("file-bytes 3", "file-bytes -3", "line 8 (file-bytes)");
  refuses("file-bytes 3", "file-bytes 9223372036854775808", "line 8 (file-bytes)");
  refuses("file-sha256 ba", "file-sha256 BA", "line 9 (file-sha256)");
  refuses("file-sha256 ba", "file-sha256 ", "line 9 (file-sha256)");
  refuses("file-sha256 ba", "note x\nfile-sha256 ba", "not exactly 9 lines");
  refuses("uid 000102030405060708090a0b0c0d0e0f\n", "", "not exactly 9 lines");
  refuses("15ad\n", "15ad", "not exactly 9 lines");
  refuses("15ad\n", "15ad\n\n", "not exactly 9 lines");
}

TEST(BackupManifestTest, AnEmptyLogHasItsRoot) {
  BackupManifest manifest = Sample();
  manifest.log_size = 0;
  manifest.log_root = EmptyRoot();
  const absl::StatusOr<BackupManifest> read = ParseBackupManifestText(BackupManifestText(manifest));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, manifest);
}

TEST(BackupManifestTest, OnlyThePinnedKeyCounts) {
  const VerificationKey key = VectorSigner().verification_key();
  const VerificationKey next = VectorSigner(kOrigin, 0x43).verification_key();
  const VerificationKey other_log = VectorSigner("other.example/log").verification_key();
  for (const VerificationKey& wrong : {next, other_log}) {
    const absl::Status status = VerifyBackupManifest(kGolden, wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), StartsWith("signature:"));
  }
  // A line of another key beside it changes nothing; one that claims to be the key's does.
  Note note = ParseNote(kGolden).value();
  NoteSignature line = note.signatures[0];
  line.key_id = "abcd";
  note.signatures.push_back(line);
  EXPECT_TRUE(VerifyBackupManifest(SerializeNote(note), key).ok());
  line = note.signatures[0];
  line.signature.back() = static_cast<char>(line.signature.back() ^ 1);
  note.signatures.push_back(line);
  EXPECT_EQ(VerifyBackupManifest(SerializeNote(note), key).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// A key signs checkpoints and manifests alike, so neither may be taken for the other.
TEST(BackupManifestTest, IsNoCheckpointAndNoCheckpointIsOne) {
  const Signer signer = VectorSigner();
  EXPECT_FALSE(VerifyCheckpoint(kGolden, signer.verification_key()).ok());
  const std::string checkpoint =
      SignCheckpoint({.origin = kOrigin, .size = 0, .root = EmptyRoot()}, signer).value();
  EXPECT_THAT(std::string(ReadBackupManifest(checkpoint).status().message()),
              StartsWith("manifest: line 1"));
}

TEST(BackupManifestTest, SignsNothingThatItWouldNotRead) {
  const Signer signer = VectorSigner();
  const auto refused = [&](const BackupManifest& manifest) {
    return SignBackupManifest(manifest, signer).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  BackupManifest manifest = Sample();
  manifest.origin = "other.example/log";
  EXPECT_TRUE(refused(manifest));
  manifest = Sample();
  manifest.tenant = "a\nuid b";
  EXPECT_TRUE(refused(manifest));
  manifest = Sample();
  manifest.file_bytes = 0;
  EXPECT_TRUE(refused(manifest));
  manifest = Sample();
  manifest.time = "now";
  EXPECT_TRUE(refused(manifest));
}

TEST(BackupManifestTest, AVeryLongNoteIsRefusedUnread) {
  const std::string note = absl::StrCat(kGolden, std::string(kMaxBackupManifestBytes, 'a'), "\n");
  EXPECT_THAT(std::string(ReadBackupManifest(note).status().message()),
              StartsWith("manifest: longer"));
}

}  // namespace
}  // namespace lethe::audit
