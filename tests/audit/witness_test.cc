#include "audit/witness.h"

#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using testing::kOrigin;
using testing::ReadAll;
using testing::TempFolder;
using testing::VectorSigner;
using testing::WriteAll;

WitnessSigner Witness(const std::string& name, char seed) {
  return WitnessSigner::FromSeed(name, std::string(32, seed)).value();
}

class WitnessTest : public ::testing::Test {
 protected:
  const std::string text_ =
      absl::StrCat(kOrigin, "\n700\nGQA5KTUskuqT1ezWOCV2aTq0S9OoU3Tgrfe3dDIVVsE=\n");
  const WitnessSigner witness_ = Witness("witness.example/w1", 0x57);
};

// The message is written and signed by the openssl command line; only the parts meet here.
TEST_F(WitnessTest, MatchesTheCommandLine) {
  const TempFolder folder;
  // PKCS#8 of an Ed25519 seed (RFC 8410).
  WriteAll(folder / "key.der",
           absl::StrCat(absl::string_view("\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22"
                                          "\x04\x20",
                                          16),
                        std::string(32, 0x57)));
  WriteAll(folder / "checkpoint", text_);
  const std::string command = absl::StrCat(
      "cd '", folder.path(),
      "' && { printf 'cosignature/v1\\ntime 1679315147\\n'; cat checkpoint; } > message"
      " && openssl pkeyutl -sign -inkey key.der -keyform DER -rawin -in message -out signature"
      " && openssl pkey -in key.der -inform DER -pubout -outform DER | tail -c 32 > public"
      " && { printf 'witness.example/w1\\n\\004'; cat public; } | openssl dgst -sha256 -binary"
      " | head -c 4 > keyid"
      " && { cat keyid; printf '\\000\\000\\000\\000\\144\\030\\120\\313'; cat signature; }"
      " | openssl base64 -A > line");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadAll(folder / "public"), witness_.key().raw());
  EXPECT_EQ(ReadAll(folder / "keyid"), witness_.key().key_id());

  const NoteSignature line = witness_.Cosign(text_, 1679315147).value();
  EXPECT_EQ(SerializeSignatureLine(line),
            absl::StrCat("\xE2\x80\x94 witness.example/w1 ", ReadAll(folder / "line"), "\n"));
  int64_t time = 0;
  EXPECT_TRUE(witness_.key().Verify(text_, line, &time));
  EXPECT_EQ(time, 1679315147);
  EXPECT_EQ(witness_.key().vkey(),
            absl::StrCat("witness.example/w1+", Hex(ReadAll(folder / "keyid")), "+",
                         Base64(absl::StrCat("\x04", ReadAll(folder / "public")))));
}

TEST_F(WitnessTest, KeysOfLogsAndOfWitnessesAreNotTakenForEachOther) {
  const WitnessKey& key = witness_.key();
  const WitnessKey parsed = WitnessKey::Parse(key.vkey()).value();
  EXPECT_EQ(parsed.name(), key.name());
  EXPECT_EQ(parsed.raw(), key.raw());
  EXPECT_EQ(parsed.key_id(), key.key_id());
  const Signer log = VectorSigner("witness.example/w1", 0x57);
  EXPECT_NE(log.verification_key().key_id(), key.key_id());
  EXPECT_FALSE(WitnessKey::Parse(log.verification_key().vkey()).ok());
  EXPECT_FALSE(VerificationKey::Parse(key.vkey()).ok());
  for (const std::string& bad :
       {std::string(), key.name(), key.vkey() + "A",
        absl::StrReplaceAll(key.vkey(), {{"w1", "w2"}}),
        absl::StrReplaceAll(key.vkey(), {{"w1+", "w1 +"}}), "+" + key.vkey()}) {
    EXPECT_FALSE(WitnessKey::Parse(bad).ok()) << bad;
  }
  // A log's signature under the witness's name and key id is no cosignature.
  const NoteSignature line{key.name(), key.key_id(), log.Sign(text_).value()};
  EXPECT_TRUE(key.Owns(line));
  EXPECT_FALSE(key.Verify(text_, line));
}

TEST_F(WitnessTest, BindsTextTimeNameAndKey) {
  const NoteSignature line = witness_.Cosign(text_, 5).value();
  EXPECT_TRUE(witness_.key().Verify(text_, line));
  EXPECT_FALSE(witness_.key().Verify(text_ + "extension\n", line));
  EXPECT_FALSE(witness_.key().Verify(absl::StrReplaceAll(text_, {{"700", "701"}}), line));
  EXPECT_FALSE(Witness("witness.example/w1", 0x58).key().Verify(text_, line));
  EXPECT_FALSE(Witness("witness.example/w2", 0x57).key().Verify(text_, line));
  NoteSignature renamed = line;
  renamed.name = "witness.example/w2";
  EXPECT_FALSE(witness_.key().Verify(text_, renamed));
  for (size_t i = 0; i < line.signature.size(); ++i) {
    NoteSignature bad = line;
    bad.signature[i] = static_cast<char>(bad.signature[i] ^ 1);
    int64_t time = -7;
    EXPECT_FALSE(witness_.key().Verify(text_, bad, &time)) << i;
    EXPECT_EQ(time, -7);
    bad = line;
    bad.signature.resize(i);
    EXPECT_FALSE(witness_.key().Verify(text_, bad)) << i;
  }
  NoteSignature longer = line;
  longer.signature.push_back('\0');
  EXPECT_FALSE(witness_.key().Verify(text_, longer));
}

TEST_F(WitnessTest, TimesGoFrom0To63Bits) {
  for (const int64_t time : {int64_t{0}, int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    int64_t read = -1;
    ASSERT_TRUE(witness_.key().Verify(text_, witness_.Cosign(text_, time).value(), &read));
    EXPECT_EQ(read, time);
  }
  EXPECT_FALSE(witness_.Cosign(text_, -1).ok());
  // A time above 2^63 - 1 is refused even if someone signs it.
  const Signer raw = VectorSigner("witness.example/w1", 0x57);
  NoteSignature line{witness_.key().name(), witness_.key().key_id(), ""};
  AppendU64(line.signature, uint64_t{1} << 63);
  line.signature +=
      raw.Sign(absl::StrCat("cosignature/v1\ntime 9223372036854775808\n", text_)).value();
  EXPECT_FALSE(witness_.key().Verify(text_, line));
}

TEST_F(WitnessTest, CosignsCheckpointsOnly) {
  EXPECT_FALSE(witness_.Cosign("", 1).ok());
  EXPECT_FALSE(witness_.Cosign("any\ntext\n", 1).ok());
  EXPECT_FALSE(witness_.Cosign(text_ + "\n", 1).ok());
}

TEST_F(WitnessTest, KeyFilesAreThoseOfSigners) {
  const TempFolder folder;
  const std::string path = folder / "witness.pem";
  const WitnessSigner made = WitnessSigner::CreateFile("witness.example/w9", path).value();
  const WitnessSigner loaded = WitnessSigner::LoadFile("witness.example/w9", path).value();
  EXPECT_EQ(loaded.key().vkey(), made.key().vkey());
  EXPECT_EQ(loaded.Cosign(text_, 3).value(), made.Cosign(text_, 3).value());
  EXPECT_EQ(WitnessSigner::CreateFile("witness.example/w9", path).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(WitnessSigner::LoadFile("w", folder / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(WitnessSigner::Generate("a name").ok());
  EXPECT_FALSE(WitnessSigner::FromSeed("w", "short").ok());
}

class PolicyTest : public ::testing::Test {
 protected:
  PolicyTest() {
    for (int i = 0; i < 5; ++i) {
      witnesses_.push_back(
          Witness(absl::StrCat("witness.example/", i), static_cast<char>(0x60 + i)));
    }
    note_.text = absl::StrCat(kOrigin, "\n5\n", Base64(Sha256("root")), "\n");
    note_.signatures = {{kOrigin, "\x6e\xf2\xae\x39", std::string(64, 'x')}};
  }
  std::string Vkey(int i) const { return witnesses_[static_cast<size_t>(i)].key().vkey(); }
  std::string Line(int i) const { return absl::StrCat("witness W", i, " ", Vkey(i), "\n"); }
  // The note with cosignatures of these witnesses.
  Note Cosigned(const std::vector<int>& by, int64_t time = 100) const {
    Note note = note_;
    for (const int i : by) {
      note.signatures.push_back(
          witnesses_[static_cast<size_t>(i)].Cosign(note.text, time + i).value());
    }
    return note;
  }
  static std::string Error(absl::string_view text) {
    const absl::StatusOr<WitnessPolicy> policy = ParsePolicy(text);
    EXPECT_FALSE(policy.ok()) << text;
    EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(policy.status().message());
  }

  std::vector<WitnessSigner> witnesses_;
  Note note_;
};

TEST_F(PolicyTest, ReadsLogsWitnessesGroupsAndTheQuorum) {
  const std::string log = VectorSigner().verification_key().vkey();
  const std::string text = absl::StrCat(
      "# the logs\nlog ", log, "  https://logs.example/7f3a\n\n \t# indented\n", Line(0),
      "\twitness \tW1\t", Vkey(1), " \thttps://w1.example \n", "witness W\xC3\xA9 ", Vkey(2),
      "\ngroup both all W0 W1\n", "group top 1 both W\xC3\xA9\nquorum top\n");
  const absl::StatusOr<WitnessPolicy> policy = ParsePolicy(text);
  ASSERT_TRUE(policy.ok()) << policy.status();
  ASSERT_EQ(policy->logs.size(), 1u);
  EXPECT_EQ(policy->logs[0].vkey(), log);
  ASSERT_EQ(policy->entries.size(), 5u);
  EXPECT_EQ(policy->entries[1].name, "W1");
  EXPECT_EQ(policy->entries[1].witness->vkey(), Vkey(1));
  EXPECT_EQ(policy->entries[3].threshold, 2u);
  EXPECT_EQ(policy->entries[4].members, (std::vector<size_t>{3, 2}));
  EXPECT_EQ(policy->quorum, 4u);
}

TEST_F(PolicyTest, TheDocumentsExampleIsAPolicy) {
  const std::string document = ReadAll(LETHE_SOURCE_DIR "/docs/certificate_format.md");
  const size_t begin = document.find("# Two of three, and the log's key.\n");
  ASSERT_NE(begin, std::string::npos);
  std::string text = document.substr(begin, document.find("```", begin) - begin);
  for (int i = 0; i < 3; ++i) {
    const size_t at = text.find("VKEY");
    ASSERT_NE(at, std::string::npos);
    text.replace(at, 4, Vkey(i));
  }
  const WitnessPolicy policy = ParsePolicy(text).value();
  EXPECT_EQ(policy.logs[0].vkey(), VectorSigner().verification_key().vkey());
  EXPECT_FALSE(CheckQuorum(Cosigned({1}), policy).ok());
  EXPECT_TRUE(CheckQuorum(Cosigned({1, 2}), policy).ok());
}

TEST_F(PolicyTest, NamesLineAndFault) {
  const std::string log = VectorSigner().verification_key().vkey();
  const std::string two = absl::StrCat(Line(0), Line(1));
  EXPECT_EQ(Error(two), "policy: no quorum line");
  EXPECT_EQ(Error(""), "policy: does not end with a newline");
  EXPECT_EQ(Error("quorum none"), "policy: does not end with a newline");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"policy: line 1: begins with none of log, witness, group, quorum", "witnesses W\n"},
      {"policy: line 1: a control character", "quorum none\r\n"},
      {"policy: line 2: a control character", absl::StrCat("quorum none\n#", "\x01\n")},
      {"policy: line 1: a control character", "quorum none\x7f\n"},
      {"policy: line 1: expected log VKEY [URL]", "log\n"},
      {"policy: line 1: expected log VKEY [URL]", absl::StrCat("log ", log, " a b\n")},
      {"policy: line 2: the key of an earlier log", absl::StrCat("log ", log, "\nlog ", log, "\n")},
      {"policy: line 1: expected witness NAME VKEY [URL]", absl::StrCat("witness ", Vkey(0), "\n")},
      {"policy: line 1: verification key: not a witness key (04 and 32 bytes)",
       absl::StrCat("witness W ", log, "\n")},
      {"policy: line 1: verification key: not an Ed25519 key (01 and 32 bytes)",
       absl::StrCat("log ", Vkey(0), "\n")},
      {"policy: line 3: the key of an earlier witness",
       absl::StrCat(two, "witness X ", Vkey(0), "\n")},
      {"policy: line 3: a name that is taken", absl::StrCat(two, "witness W1 ", Vkey(2), "\n")},
      {"policy: line 1: a name that is taken", absl::StrCat("witness none ", Vkey(2), "\n")},
      {"policy: line 3: a name that is taken", absl::StrCat(two, "group W0 all W0 W1\n")},
      {"policy: line 3: expected group NAME all|any|N MEMBER...", absl::StrCat(two, "group G 1\n")},
      {"policy: line 3: a name that no earlier line defines",
       absl::StrCat(two, "group G any W0 W2\n")},
      {"policy: line 3: a name that no earlier line defines", absl::StrCat(two, "group G any G\n")},
      {"policy: line 3: a member that has been in a group already",
       absl::StrCat(two, "group G any W0 W0\n")},
      {"policy: line 4: a member that has been in a group already",
       absl::StrCat(two, "group G any W0\ngroup H all G W0\n")},
      {"policy: line 3: the threshold is not between 1 and the number of members",
       absl::StrCat(two, "group G 0 W0 W1\n")},
      {"policy: line 3: the threshold is not between 1 and the number of members",
       absl::StrCat(two, "group G 3 W0 W1\n")},
      {"policy: line 3: the threshold is neither all nor any nor a number",
       absl::StrCat(two, "group G 02 W0 W1\n")},
      {"policy: line 3: the threshold is neither all nor any nor a number",
       absl::StrCat(two, "group G -1 W0 W1\n")},
      {"policy: line 1: a name that no earlier line defines", "quorum W0\n"},
      {"policy: line 3: expected quorum NAME or quorum none", absl::StrCat(two, "quorum\n")},
      {"policy: line 4: a second quorum", absl::StrCat(two, "quorum W0\nquorum none\n")},
      {"policy: longer than 1 MiB", std::string(kMaxPolicyBytes, '#') + "\n"},
  };
  for (const auto& [error, text] : cases) EXPECT_EQ(Error(text), error);
  std::string many;
  for (size_t i = 0; i <= kMaxPolicyEntries; ++i) {
    const std::string seed = absl::StrCat(std::string(28, 's'), 1000 + i);
    absl::StrAppend(&many, "witness W", i, " ", WitnessSigner::FromSeed("w", seed)->key().vkey(),
                    "\n");
  }
  EXPECT_EQ(Error(many), "policy: line 257: too many logs, witnesses and groups");
}

TEST_F(PolicyTest, CountsEachWitnessOnce) {
  const WitnessPolicy policy =
      ParsePolicy(absl::StrCat(Line(0), Line(1), Line(2), "group G 2 W0 W1 W2\nquorum G\n"))
          .value();
  const auto failure = [&](const Note& note) { return CheckQuorum(note, policy).failure; };
  EXPECT_EQ(failure(Cosigned({})), Failure::kWitnessQuorum);
  EXPECT_EQ(failure(Cosigned({0})), Failure::kWitnessQuorum);
  EXPECT_EQ(failure(Cosigned({0, 0, 0})), Failure::kWitnessQuorum);
  EXPECT_EQ(failure(Cosigned({0, 3, 4})), Failure::kWitnessQuorum);  // unknown ones do not count
  EXPECT_EQ(failure(Cosigned({0, 2})), Failure::kNone);
  EXPECT_EQ(failure(Cosigned({2, 1, 4, 0})), Failure::kNone);
  const QuorumResult result = CheckQuorum(Cosigned({2, 0, 3}, 100), policy);
  ASSERT_EQ(result.cosignatures.size(), 2u);
  EXPECT_EQ(result.cosignatures[0].witness, "W0");
  EXPECT_EQ(result.cosignatures[0].unix_time, 100);
  EXPECT_EQ(result.cosignatures[1].witness, "W2");
  EXPECT_EQ(result.cosignatures[1].unix_time, 102);
  // The later of two times.
  Note twice = Cosigned({0, 1});
  twice.signatures.push_back(witnesses_[0].Cosign(twice.text, 900).value());
  twice.signatures.push_back(witnesses_[0].Cosign(twice.text, 50).value());
  EXPECT_EQ(CheckQuorum(twice, policy).cosignatures[0].unix_time, 900);
}

TEST_F(PolicyTest, ABadLineOfAKnownWitnessRejectsTheNote) {
  const WitnessPolicy policy =
      ParsePolicy(absl::StrCat(Line(0), Line(1), Line(2), "group G any W0 W1 W2\nquorum G\n"))
          .value();
  Note other = note_;
  other.text = absl::StrCat(kOrigin, "\n6\n", Base64(Sha256("root")), "\n");
  Note bad = Cosigned({0, 1});
  bad.signatures.push_back(witnesses_[2].Cosign(other.text, 5).value());
  const QuorumResult result = CheckQuorum(bad, policy);
  EXPECT_EQ(result.failure, Failure::kWitnessQuorum);
  EXPECT_EQ(result.message, "The cosignature of witness W2 does not verify.");
  // From a witness that the policy does not name it is ignored.
  bad.signatures.back() = witnesses_[3].Cosign(other.text, 5).value();
  EXPECT_TRUE(CheckQuorum(bad, policy).ok());
}

TEST_F(PolicyTest, GroupsOfGroupsAndNoQuorumAtAll) {
  const std::string all = absl::StrCat(Line(0), Line(1), Line(2), Line(3), Line(4));
  const WitnessPolicy nested =
      ParsePolicy(absl::StrCat(all,
                               "group X 2 W0 W1 W2\ngroup Y any W3 W4\ngroup Z all X Y\n"
                               "quorum Z\n"))
          .value();
  // Brute force over all subsets.
  for (int subset = 0; subset < 32; ++subset) {
    std::vector<int> by;
    for (int i = 0; i < 5; ++i) {
      if ((subset >> i & 1) != 0) by.push_back(i);
    }
    const int x = (subset & 1) + (subset >> 1 & 1) + (subset >> 2 & 1);
    const bool expected = x >= 2 && (subset >> 3) != 0;
    EXPECT_EQ(CheckQuorum(Cosigned(by), nested).ok(), expected) << subset;
  }
  const WitnessPolicy one = ParsePolicy(absl::StrCat(all, "quorum W3\n")).value();
  EXPECT_TRUE(CheckQuorum(Cosigned({3}), one).ok());
  EXPECT_FALSE(CheckQuorum(Cosigned({0, 1, 2, 4}), one).ok());
  EXPECT_TRUE(CheckQuorum(Cosigned({}), ParsePolicy("quorum none\n").value()).ok());
}

}  // namespace
}  // namespace lethe::audit
