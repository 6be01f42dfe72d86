#include "audit/note.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/vkey.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::kOrigin;
using testing::VectorSigner;

constexpr char kDash[] = "\xE2\x80\x94 ";

// "0123" || "signature"
constexpr char kSignatureLine[] = "\xE2\x80\x94 key.example MDEyM3NpZ25hdHVyZQ==\n";

TEST(NoteTest, ReadsAndWritesOneText) {
  for (const std::string text : {"a\n", "a\n\nb\n", "\n", "a\n\n", "\n\n\n", "è subito sera.\n",
                                 "a\n\n\xE2\x80\x94 not a signature\n\nb\n"}) {
    const std::string note = absl::StrCat(text, "\n", kSignatureLine);
    const absl::StatusOr<Note> parsed = ParseNote(note);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->text, text);
    ASSERT_EQ(parsed->signatures.size(), 1u);
    EXPECT_EQ(parsed->signatures[0].name, "key.example");
    EXPECT_EQ(parsed->signatures[0].key_id, "0123");
    EXPECT_EQ(parsed->signatures[0].signature, "signature");
    EXPECT_EQ(SerializeNote(*parsed), note);
  }
}

// The example of the specification.
TEST(NoteTest, ReadsTheSpecificationsExample) {
  const absl::StatusOr<Note> note = ParseNote(
      "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\n\xC3\xA8 subito "
      "sera.\n\n\xE2\x80\x94 quasimodo.example/salvatore "
      "NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc="
      "\n");
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(note->text,
            "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\n"
            "\xC3\xA8 subito sera.\n");
  EXPECT_EQ(note->signatures[0].signature.size(), kSignatureBytes);
}

TEST(NoteTest, KeepsDuplicatesAndUnknownKeysInOrder) {
  const std::string other = absl::StrCat(kDash, "sch\xC3\xB6n.example/b ", Base64("abcd!"), "\n");
  const std::string note = absl::StrCat("a\n\n", kSignatureLine, other, kSignatureLine);
  const Note parsed = ParseNote(note).value();
  ASSERT_EQ(parsed.signatures.size(), 3u);
  EXPECT_EQ(parsed.signatures[0], parsed.signatures[2]);
  EXPECT_EQ(parsed.signatures[1].signature, "!");
  EXPECT_EQ(SerializeNote(parsed), note);
}

TEST(NoteTest, RefusesEverythingElse) {
  const std::string line = kSignatureLine;
  const std::string good = absl::StrCat("a\n\n", line);
  ASSERT_TRUE(ParseNote(good).ok());
  const std::vector<std::string> bad = {
      "",
      "\n",
      "a",
      "a\n",
      "a\n\n",                                                        // no signature
      absl::StrCat("a\n", line),                                      // no blank line
      absl::StrCat("\n", line),                                       // no text
      line,                                                           // the same without blank line
      good.substr(0, good.size() - 1),                                // no last newline
      absl::StrCat(good, "\n"),                                       // a blank line behind
      absl::StrCat(good, "b\n"),                                      // something behind
      absl::StrReplaceAll(good, {{"\n", "\r\n"}}),                    // CRLF
      absl::StrReplaceAll(good, {{"==\n", "==\r\n"}}),                // CRLF in the last line
      absl::StrReplaceAll(good, {{"a\n", "a\t\n"}}),                  // a tab
      absl::StrReplaceAll(good, {{"a\n", "a\x01\n"}}),                // a control character
      absl::StrCat(absl::string_view("a\0\n\n", 4), line),            // a zero byte
      absl::StrReplaceAll(good, {{"a\n", "\xC3\n"}}),                 // not UTF-8
      absl::StrReplaceAll(good, {{"a\n", "\xED\xA0\x80\n"}}),         // a surrogate
      absl::StrReplaceAll(good, {{"\xE2\x80\x94", "-"}}),             // a hyphen
      absl::StrReplaceAll(good, {{"\xE2\x80\x94", "\xE2\x80\x93"}}),  // an en dash
      absl::StrReplaceAll(good, {{kDash, "\xE2\x80\x94"}}),           // no space after the dash
      absl::StrReplaceAll(good, {{kDash, "\xE2\x80\x94  "}}),         // two
      absl::StrReplaceAll(good, {{"key.example", ""}}),               // no name
      absl::StrReplaceAll(good, {{"key.example", "key+example"}}),
      absl::StrReplaceAll(good, {{"key.example",
                                  "key\xC2\xA0"
                                  "example"}}),
      absl::StrReplaceAll(good, {{"key.example",
                                  "key\xE2\x80\xA8"
                                  "example"}}),
      absl::StrReplaceAll(good, {{"key.example", "key\xE3\x80\x80"}}),
      absl::StrReplaceAll(good, {{"key.example", std::string(256, 'k')}}),
      absl::StrReplaceAll(good, {{" MDEy", ""}}),               // no signature in the line
      absl::StrReplaceAll(good, {{"==", ""}}),                  // no padding
      absl::StrReplaceAll(good, {{"==", "=="}, {"ZQ", "ZR"}}),  // padding bits
      absl::StrReplaceAll(good, {{"MDEy", "M-Ey"}}),            // another alphabet
      absl::StrReplaceAll(good, {{"==\n", "== \n"}}),           // a space behind
      absl::StrCat("a\n\n", kDash, "key.example ", Base64("0123"), "\n"),  // a key id alone
      absl::StrCat("a\n\n", kDash, "key.example \n"),
      absl::StrCat(std::string(kMaxNoteBytes, 'a'), "\n\n", line),
  };
  for (const std::string& note : bad) {
    EXPECT_FALSE(ParseNote(note).ok()) << note.substr(0, 200);
  }
  std::string many = "a\n\n";
  for (size_t i = 0; i < kMaxNoteSignatures; ++i) many += line;
  EXPECT_TRUE(ParseNote(many).ok());
  EXPECT_FALSE(ParseNote(many + line).ok());
}

TEST(NoteTest, ALineAloneReadsAsInTheNote) {
  const absl::StatusOr<NoteSignature> line = ParseSignatureLine(kSignatureLine);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(*line, ParseNote(absl::StrCat("a\n\n", kSignatureLine))->signatures[0]);
  EXPECT_EQ(SerializeSignatureLine(*line), kSignatureLine);
  const std::string text = kSignatureLine;
  for (const std::string& bad :
       {std::string(), std::string("\n"), text.substr(0, text.size() - 1), text + text, text + "\n",
        "\n" + text, " " + text, absl::StrReplaceAll(text, {{"\n", "\r\n"}}),
        absl::StrReplaceAll(text, {{"key", "\xFF"}})}) {
    EXPECT_FALSE(ParseSignatureLine(bad).ok()) << bad;
  }
}

class CheckpointTest : public ::testing::Test {
 protected:
  static Checkpoint At(uint64_t size) {
    std::vector<Digest> leaves;
    for (uint64_t i = 0; i < size; ++i) {
      leaves.push_back(LeafHash(absl::StrCat("{\"cert\":", i, "}")));
    }
    return {kOrigin, size, MerkleRoot(leaves)};
  }
  Failure Verify(absl::string_view note) const { return VerifyCheckpoint(note, key_).failure; }

  const Signer signer_ = VectorSigner();
  const VerificationKey& key_ = signer_.verification_key();
  const std::string note_ = SignCheckpoint(At(700), signer_).value();
};

// What two foreign verifiers have accepted, byte for byte.
TEST_F(CheckpointTest, IsTheVector) {
  EXPECT_EQ(Hex(key_.key_id()), "6ef2ae39");
  EXPECT_EQ(CheckpointText(At(300)),
            absl::StrCat(kOrigin, "\n300\n", "4MyAGtfp3FrlN7qkNIccsolYOLWDiplGT9ZTtATVjFM=\n"));
  EXPECT_EQ(
      note_,
      "svmem.example/erasure-log/t-7f3a\n700\nGQA5KTUskuqT1ezWOCV2aTq0S9OoU3Tgrfe3dDIVVsE=\n\n"
      "\xE2\x80\x94 svmem.example/erasure-log/t-7f3a bvKuOd7ll8jr8IBrCASvXAIOp1yHuqDryot5dK3Z35"
      "FU76c+7ACQ4+PXLytS2KrVdR1GqxSj6IyIc4mijpEfdL7e1wk=\n");
  const CheckpointResult result = VerifyCheckpoint(note_, key_);
  EXPECT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(result.checkpoint, At(700));
  EXPECT_EQ(SerializeNote(result.note), note_);
  const std::string document = testing::ReadAll(LETHE_SOURCE_DIR "/docs/certificate_format.md");
  EXPECT_NE(document.find(absl::StrCat("```text\n", note_, "```\n")), std::string::npos);
}

TEST_F(CheckpointTest, TextsThatItWouldNotWriteAreRefused) {
  const std::string root = "GQA5KTUskuqT1ezWOCV2aTq0S9OoU3Tgrfe3dDIVVsE=";
  const std::string good = absl::StrCat("a.example/log\n700\n", root, "\n");
  ASSERT_TRUE(ParseCheckpointText(good).ok());
  EXPECT_EQ(CheckpointText(*ParseCheckpointText(good)), good);
  const auto with_size = [&](absl::string_view size) {
    return absl::StrCat("a.example/log\n", size, "\n", root, "\n");
  };
  EXPECT_TRUE(ParseCheckpointText(with_size("9223372036854775807")).ok());
  for (const absl::string_view size :
       {"", "0700", "+700", "-1", " 700", "700 ", "7e2", "0x1", "9223372036854775808",
        "18446744073709551616", "99999999999999999999999", "seven"}) {
    EXPECT_FALSE(ParseCheckpointText(with_size(size)).ok()) << size;
  }
  const std::vector<std::string> bad = {
      "",
      "\n",
      "\n\n\n",
      good.substr(0, good.size() - 1),
      absl::StrCat(good, "\n"),
      absl::StrCat(good, "an extension line\n"),
      absl::StrCat("\n", good),
      absl::StrReplaceAll(good, {{"a.example/log", ""}}),
      absl::StrReplaceAll(good, {{"a.example/log", "a example"}}),
      absl::StrReplaceAll(good, {{"a.example/log", "a+b"}}),
      absl::StrReplaceAll(good, {{"\n", "\r\n"}}),
      absl::StrReplaceAll(good, {{"=\n", "\n"}}),
      absl::StrReplaceAll(good, {{"VVsE=", "VVsF="}}),  // padding bits
      absl::StrReplaceAll(good, {{root, Base64("31 bytes are too few for a hash")}}),
      absl::StrReplaceAll(good, {{root, Hex(Sha256(""))}}),
      with_size("0"),  // an empty log with a root
  };
  for (const std::string& text : bad) EXPECT_FALSE(ParseCheckpointText(text).ok()) << text;
  const Checkpoint empty{"a.example/log", 0, EmptyRoot()};
  EXPECT_EQ(ParseCheckpointText(CheckpointText(empty)).value(), empty);
}

TEST_F(CheckpointTest, SignsOnlyItsOwnLogsCheckpoints) {
  Checkpoint checkpoint = At(3);
  checkpoint.origin = "another.example/log";
  EXPECT_EQ(SignCheckpoint(checkpoint, signer_).status().code(),
            absl::StatusCode::kInvalidArgument);
  checkpoint.origin = kOrigin;
  checkpoint.size = kMaxLogSize + 1;
  EXPECT_FALSE(SignCheckpoint(checkpoint, signer_).ok());
  checkpoint.size = 0;
  EXPECT_FALSE(SignCheckpoint(checkpoint, signer_).ok());
}

TEST_F(CheckpointTest, OnlyThePinnedKeyCounts) {
  const Signer same_name = VectorSigner(kOrigin, 0x43);
  const Signer same_key = VectorSigner("another.example/log");
  EXPECT_EQ(VerifyCheckpoint(note_, same_name.verification_key()).failure,
            Failure::kCheckpointSignature);
  EXPECT_EQ(VerifyCheckpoint(note_, same_key.verification_key()).failure,
            Failure::kCheckpointSignature);
  // The pinned key under another origin.
  Note foreign;
  foreign.text = absl::StrReplaceAll(CheckpointText(At(5)), {{kOrigin, "another.example/log"}});
  foreign.signatures = {{key_.name(), key_.key_id(), signer_.Sign(foreign.text).value()}};
  EXPECT_EQ(Verify(SerializeNote(foreign)), Failure::kCheckpointMismatch);
}

TEST_F(CheckpointTest, ForeignLinesAreIgnoredAndBadLinesOfTheKeyRejectTheNote) {
  const Note good = ParseNote(note_).value();
  const std::string signature = good.signatures[0].signature;
  const NoteSignature own = good.signatures[0];
  const std::vector<NoteSignature> foreign = {
      {"another.example/key", key_.key_id(), std::string(64, 'x')},  // same id, other name
      {key_.name(), "abcd", std::string(64, 'x')},                   // same name, other id
      {key_.name(), KeyId(key_.name(), KeyType::kCosignature, key_.raw()), std::string(72, 'x')},
      {"ecdsa.example", "\x01\x02\x03\x04", std::string(71, 'e')},
      {"pq.example", "\x06\x06\x06\x06", std::string(2428, 'p')},
  };
  for (const NoteSignature& line : foreign) {
    Note before = good;
    before.signatures.insert(before.signatures.begin(), line);
    EXPECT_EQ(Verify(SerializeNote(before)), Failure::kNone) << line.name;
    Note after = good;
    after.signatures.push_back(line);
    EXPECT_EQ(Verify(SerializeNote(after)), Failure::kNone) << line.name;
    Note alone = good;
    alone.signatures = {line};
    EXPECT_EQ(Verify(SerializeNote(alone)), Failure::kCheckpointSignature) << line.name;
  }
  Note twice = good;
  twice.signatures.push_back(own);
  EXPECT_EQ(Verify(SerializeNote(twice)), Failure::kNone);
  const std::vector<std::string> bad_signatures = {
      std::string(64, 'x'), signature.substr(0, 63), signature + "x",
      signature.substr(0, 63) + static_cast<char>(signature[63] ^ 1)};
  for (const std::string& bad : bad_signatures) {
    NoteSignature line = own;
    line.signature = bad;
    Note changed = good;
    changed.signatures = {line};
    EXPECT_EQ(Verify(SerializeNote(changed)), Failure::kCheckpointSignature);
    changed.signatures = {own, line};
    EXPECT_EQ(Verify(SerializeNote(changed)), Failure::kCheckpointSignature);
    changed.signatures = {line, own};
    EXPECT_EQ(Verify(SerializeNote(changed)), Failure::kCheckpointSignature);
  }
}

TEST_F(CheckpointTest, AnyChangeOfAnyByteIsRefused) {
  for (size_t i = 0; i < note_.size(); ++i) {
    for (const int bit : {0, 5, 7}) {
      std::string bad = note_;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const Failure failure = Verify(bad);
      ASSERT_TRUE(failure == Failure::kMalformedCheckpoint ||
                  failure == Failure::kCheckpointSignature)
          << "offset " << i << " bit " << bit << ": " << Name(failure);
    }
    EXPECT_FALSE(VerifyCheckpoint(note_.substr(0, i), key_).ok()) << i;
  }
  // A blank line inside makes another text of it.
  EXPECT_EQ(Verify(absl::StrReplaceAll(note_, {{"\n700\n", "\n\n700\n"}})),
            Failure::kMalformedCheckpoint);
}

}  // namespace
}  // namespace lethe::audit
