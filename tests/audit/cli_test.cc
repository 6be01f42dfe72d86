// lethe-verify as a program, and the document's walk with openssl and coreutils.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/certificate.h"
#include "audit/checkpoint.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/witness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/forge.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using ::testing::AllOf;
using testing::Files;
using testing::Forge;
using testing::ForgetBody;
using ::testing::HasSubstr;
using testing::MakeChain;
using ::testing::Not;
using testing::ReadAll;
using testing::SampleLog;
using testing::TarOf;
using testing::TempFolder;
using testing::VectorSigner;
using testing::WriteAll;
using testing::WriteFolder;

struct Outcome {
  int code = -1;
  std::string out;  // stdout and stderr together
};

Outcome Shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = ::popen(absl::StrCat("{ ", command, "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    outcome.out.append(buffer.data(), count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

void ExpectEightyColumns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

class CliTest : public ::testing::Test {
 protected:
  Outcome Verify(const std::string& arguments, bool with_key = true) const {
    return Shell(absl::StrCat("cd '", folder_.path(), "' && '", LETHE_BINARY_DIR, "/lethe-verify' ",
                              arguments, with_key ? absl::StrCat(" --key '", key_, "'") : ""));
  }
  void Write(const std::string& name, const std::string& bytes) const {
    WriteAll(folder_ / name, bytes);
  }
  // Exports this log as a folder and as a .tar.
  void Export(SampleLog& log, const std::string& name) const {
    const Files files = Forge(log, log.signers().back());
    WriteFolder(folder_ / name, files);
    Write(name + ".tar", TarOf(files));
  }

  const Signer signer_ = VectorSigner();
  const std::string key_ = signer_.verification_key().vkey();
  const std::vector<SignedCertificate> chain_ = MakeChain(4, signer_);
  const TempFolder folder_;
};

TEST_F(CliTest, ShowsWhatACertificateSays) {
  Write("c.json", chain_[0].envelope);
  Write("c.leaf.json", chain_[0].leaf);
  const Outcome text =
      Verify(absl::StrCat("certificate c.json --leaf c.leaf.json --origin ", testing::kOrigin));
  EXPECT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out, HasSubstr(absl::StrCat("VERIFIED  ", chain_[0].id)));
  for (const char* words :
       {"forget", "before", "after", "proven", "matched 4, erased 4, not found 1", "rows-deleted",
        "outside the claim", "2026-01-31T12:00:00Z", "000102030405060708090a0b0c0d0e0f"}) {
    EXPECT_THAT(text.out, HasSubstr(words));
  }
  EXPECT_THAT(text.out, ::testing::ContainsRegex("margin +12 +11 +-1"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("error +3 +3 +0"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("all +100 +96 +-4"));
  EXPECT_THAT(text.out, Not(HasSubstr("not given")));
  ExpectEightyColumns(text.out);

  const Outcome json = Verify("certificate c.json -o json");
  EXPECT_EQ(json.code, 0);
  const Json report =
      ParseJson(json.out.substr(0, json.out.size() - 1), JsonForm::kCanonical).value();
  EXPECT_EQ(*report.Find("failure")->as_string(), "verified");
  EXPECT_EQ(*report.Find("id")->as_string(), chain_[0].id);
  EXPECT_EQ(SerializeJson(*report.Find("statement")).value(),
            SerializeStatement(chain_[0].body).value());

  const Outcome stdin_input = Verify("certificate - -q < c.json");
  EXPECT_EQ(stdin_input.code, 0) << stdin_input.out;
  EXPECT_EQ(stdin_input.out, absl::StrCat("VERIFIED  ", chain_[0].id, "\n"));
}

TEST_F(CliTest, SaysHowFarAnEvictionsPromiseGoes) {
  Write("c.json", chain_[2].envelope);
  const Outcome text = Verify("certificate c.json");
  EXPECT_EQ(text.code, 0) << text.out;
  for (const char* words :
       {"evict", "budget 60: 10 taken from the reserve, 2 surplus copies; 88 retained",
        "as the rest", "no readout and no label of a group", "against the tokens retained",
        "gap at most 8.67e-19", "readout within 4.44e-16"}) {
    std::string one_line = absl::StrReplaceAll(text.out, {{"\n", " "}});
    while (absl::StrReplaceAll({{"  ", " "}}, &one_line) > 0) {
    }
    EXPECT_THAT(one_line, HasSubstr(words));
  }
  EXPECT_THAT(text.out, ::testing::ContainsRegex("error +3 +3 +0"));
  ExpectEightyColumns(text.out);
  Write("edit.json", chain_[3].envelope);
  const Outcome edit = Verify("certificate edit.json");
  EXPECT_EQ(edit.code, 0) << edit.out;
  EXPECT_THAT(edit.out, AllOf(HasSubstr("edit"), Not(HasSubstr("scope"))));
}

TEST_F(CliTest, ExitCodesTellTheClass) {
  Write("c.json", chain_[0].envelope);
  Write("other.leaf.json", chain_[1].leaf);
  Write("newline.json", chain_[0].envelope + "\n");
  Write("long.json", std::string((size_t{1} << 20) + 1, ' '));
  std::string flipped = chain_[0].envelope;
  const size_t at = flipped.find("\"sig\":\"") + 7;
  flipped[at] = flipped[at] == 'A' ? 'B' : 'A';
  Write("flipped.json", flipped);
  const std::string other_key = VectorSigner("x", 1).verification_key().vkey();

  EXPECT_EQ(Verify("certificate c.json", false).code, 1);
  EXPECT_EQ(Verify("certificate c.json --key nonsense", false).code, 1);
  EXPECT_EQ(Verify("certificate").code, 1);
  EXPECT_EQ(Verify("certificate c.json --nonsense").code, 1);
  EXPECT_EQ(Verify("certificate c.json -o yaml").code, 1);
  EXPECT_EQ(Verify("", false).code, 1);
  EXPECT_EQ(Verify("chain c.json").code, 1);
  EXPECT_EQ(Verify("certificate absent.json").code, 2);
  EXPECT_EQ(Verify("certificate c.json --leaf absent.json").code, 2);
  EXPECT_EQ(Verify("certificate .").code, 2);
  EXPECT_EQ(Verify("certificate newline.json").code, 3);
  EXPECT_EQ(Verify("certificate long.json").code, 3);
  EXPECT_EQ(Verify("certificate flipped.json").code, 4);
  EXPECT_EQ(Verify(absl::StrCat("certificate c.json --key '", other_key, "'"), false).code, 4);
  EXPECT_EQ(Verify("certificate c.json --leaf other.leaf.json").code, 5);
  EXPECT_EQ(Verify("certificate c.json --origin another.example/log").code, 5);

  const Outcome refused = Verify("certificate flipped.json");
  EXPECT_THAT(refused.out, ::testing::ContainsRegex("FAILED +signature"));
  EXPECT_THAT(refused.out, ::testing::ContainsRegex("ok +key"));
  EXPECT_THAT(refused.out, ::testing::ContainsRegex("- +statement"));
  EXPECT_THAT(refused.out, AllOf(HasSubstr("REFUSED   bad-signature"), Not(HasSubstr("VERIFIED"))));
  EXPECT_THAT(refused.out, Not(HasSubstr("erased 4")));
  ExpectEightyColumns(refused.out);
}

TEST_F(CliTest, ChecksExports) {
  SampleLog log(5, {2});
  Export(log, "out");
  for (const char* path : {"out", "out.tar"}) {
    const Outcome good = Verify(absl::StrCat("export ", path));
    EXPECT_EQ(good.code, 0) << good.out;
    EXPECT_THAT(good.out, AllOf(HasSubstr("VERIFIED  5 certificates, the whole log"),
                                HasSubstr(Hex(log.certificates()[4].leaf_hash)),
                                HasSubstr("from certificate 3 on")));
    ExpectEightyColumns(good.out);
    EXPECT_EQ(Verify(absl::StrCat("export ", path, " -q")).out,
              "VERIFIED  5 certificates, the whole log\n");
  }
  const Outcome json = Verify("export out.tar -o json");
  const Json report =
      ParseJson(json.out.substr(0, json.out.size() - 1), JsonForm::kCanonical).value();
  EXPECT_EQ(*report.Find("failure")->as_string(), "verified");
  EXPECT_EQ(*report.Find("certificates")->as_integer(), 5u);
  EXPECT_EQ(report.Find("keys")->as_array()->size(), 2u);
  EXPECT_EQ(*report.Find("checkpoint")->Find("size")->as_integer(), 5u);
  // Certificate 1 destroys the keys of 0, and 4 those of 3.
  EXPECT_THAT(Verify("export out").out, HasSubstr("erasures    2, the keys of 2 destroyed\n"));
  EXPECT_EQ(*report.Find("erasures")->as_integer(), 2u);
  EXPECT_EQ(*report.Find("keysPending")->as_integer(), 0u);
  EXPECT_EQ(report.Find("firstPending"), nullptr);

  Write("out/certificates/000/000001.tlog-proof", "c2sp.org/tlog-proof@v1\nindex 1\n");
  const Outcome malformed = Verify("export out");
  EXPECT_EQ(malformed.code, 3);
  EXPECT_THAT(malformed.out, AllOf(HasSubstr("REFUSED   malformed-proof at certificate 1"),
                                   HasSubstr("in certificates/000/000001.tlog-proof"),
                                   Not(HasSubstr("VERIFIED"))));
  ExpectEightyColumns(malformed.out);
  EXPECT_THAT(Verify("export out -o json").out,
              AllOf(HasSubstr("\"failure\":\"malformed-proof\""), HasSubstr("\"sequence\":1"),
                    HasSubstr("\"file\":\"certificates/000/000001.tlog-proof\"")));
  std::filesystem::remove(folder_ / "out/certificates/000/000001.tlog-proof");
  EXPECT_EQ(Verify("export out").code, 5);
  EXPECT_EQ(Verify("export absent").code, 2);
  EXPECT_EQ(Verify("export out.tar --first 9").code, 5);
  EXPECT_EQ(Verify("export out.tar --threads 0").code, 1);
  const std::string other = VectorSigner(testing::kOrigin, 1).verification_key().vkey();
  const std::string elsewhere = VectorSigner("x", 1).verification_key().vkey();
  EXPECT_EQ(Verify(absl::StrCat("export out.tar --key '", other, "'"), false).code, 4);
  EXPECT_EQ(Verify(absl::StrCat("export out.tar --key '", other, "'")).code, 4);
  EXPECT_EQ(Verify(absl::StrCat("export out.tar --key '", elsewhere, "'")).code, 1);
  EXPECT_EQ(Verify("export out.tar", false).code, 1);
  EXPECT_EQ(Verify("export out.tar > /dev/full").code, 2);
}

TEST_F(CliTest, SaysWhichKeysArePending) {
  SampleLog log(4);
  Export(log, "out");
  const Outcome text = Verify("export out");
  EXPECT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("erasures    3, the keys of 1 destroyed\n"),
                    HasSubstr("pending     the keys of 2, the first of certificate 2\n")));
  ExpectEightyColumns(text.out);
  const Outcome json = Verify("export out -o json");
  const Json report =
      ParseJson(json.out.substr(0, json.out.size() - 1), JsonForm::kCanonical).value();
  EXPECT_EQ(*report.Find("erasures")->as_integer(), 3u);
  EXPECT_EQ(*report.Find("keysPending")->as_integer(), 2u);
  EXPECT_EQ(*report.Find("firstPending")->as_integer(), 2u);

  WriteFolder(folder_ / "range", log.Export({.first = 0, .last = 2}).files());
  const Outcome range = Verify("export range --first 0 --last 2");
  EXPECT_EQ(range.code, 0) << range.out;
  EXPECT_THAT(range.out, AllOf(HasSubstr("erasures    2; the range ends too early"),
                               Not(HasSubstr("pending"))));
  ExpectEightyColumns(range.out);
  EXPECT_THAT(Verify("export range --first 0 --last 2 -o json").out,
              AllOf(HasSubstr("\"erasures\":2"), Not(HasSubstr("keysPending"))));
}

TEST_F(CliTest, ProofsCheckpointsAndWitnesses) {
  SampleLog log(5);
  const WitnessSigner witness =
      WitnessSigner::FromSeed("witness.example/w", std::string(32, 'w')).value();
  Note note = ParseNote(log.checkpoint()).value();
  note.signatures.push_back(witness.Cosign(note.text, 1770000001).value());
  log.set_checkpoint(SerializeNote(note));
  Export(log, "out");
  Write("policy", absl::StrCat("log ", key_, "\nwitness w ", witness.key().vkey(), "\nquorum w\n"));
  Write("strict", absl::StrCat("witness w ", VectorSigner("x", 3).verification_key().vkey(), "\n"));
  const std::string c = "certificate out/certificates/000/000003.envelope.json --proof ";
  for (const char* proof :
       {"out/certificates/000/000003.tlog-proof", "out/certificates/000/000003.sigstore.json"}) {
    const Outcome good = Verify(c + proof);
    EXPECT_EQ(good.code, 0) << good.out;
    EXPECT_THAT(good.out, ::testing::ContainsRegex("ok +proof"));
    EXPECT_THAT(good.out, ::testing::ContainsRegex("size +5"));
  }
  const Outcome other = Verify(c + "out/certificates/000/000002.tlog-proof");
  EXPECT_EQ(other.code, 5);
  EXPECT_THAT(other.out, AllOf(HasSubstr("proof-mismatch"), Not(HasSubstr("VERIFIED"))));
  EXPECT_THAT(other.out, ::testing::ContainsRegex("FAILED +proof"));
  EXPECT_EQ(Verify(c + "out/certificates/000/000002.sigstore.json").code, 5);
  EXPECT_EQ(Verify(c + "out/keys.txt").code, 3);
  EXPECT_EQ(Verify(c + "absent").code, 2);
  // Cosignatures are in the tlog-proof; a bundle has none.
  EXPECT_EQ(Verify(c + "out/certificates/000/000003.tlog-proof --policy policy", false).code, 0);
  EXPECT_EQ(Verify(c + "out/certificates/000/000003.sigstore.json --policy policy").code, 4);

  for (const char* path : {"out", "out.tar", "out/checkpoint"}) {
    const Outcome good = Verify(absl::StrCat("checkpoint ", path, " --policy policy"), false);
    EXPECT_EQ(good.code, 0) << good.out;
    EXPECT_THAT(good.out, HasSubstr("by w at 1770000001"));
  }
  EXPECT_EQ(Verify("export out --policy policy", false).code, 0);
  EXPECT_EQ(Verify("checkpoint out/keys.txt").code, 3);
  EXPECT_EQ(Verify("checkpoint out --policy absent").code, 2);
  EXPECT_EQ(Verify("checkpoint out --policy strict").code, 1);
  EXPECT_EQ(Verify("checkpoint out --origin other").code, 5);
}

TEST_F(CliTest, ShowsForksAndShrunkLogs) {
  SampleLog log(6);
  SampleLog shorter(4);
  SampleLog forked(3);
  for (int i = 0; i < 3; ++i) forked.Append(testing::ShreddedBody());
  forked.SignAgain();
  Export(log, "new");
  Export(shorter, "old");
  Export(forked, "fork");
  Write("fork4", forked.CheckpointAt(4, signer_));
  Write("zero", SignCheckpoint({testing::kOrigin, 0, EmptyRoot()}, signer_).value());
  const auto node = [&log](int level, uint64_t index) { return log.Node(level, index); };
  std::string proof;
  const std::vector<Digest> hashes = ConsistencyProof(4, 6, node).value();
  for (const Digest& hash : hashes) {
    proof += Base64(hash) + "\n";
  }
  Write("proof", proof);
  const auto code = [&](const std::string& arguments) {
    return Verify("consistency " + arguments).code;
  };
  for (const char* old : {"old", "old.tar", "old/checkpoint", "new", "new/checkpoint"}) {
    EXPECT_EQ(code(absl::StrCat(old, " new")), 0) << old;
    EXPECT_EQ(code(absl::StrCat(old, " new.tar")), 0) << old;
  }
  EXPECT_EQ(code("new old"), 6);
  EXPECT_EQ(code("new/checkpoint old/checkpoint"), 6);
  EXPECT_EQ(code("fork new"), 6);
  EXPECT_EQ(code("fork/checkpoint new/checkpoint"), 6);
  EXPECT_EQ(code("fork4 new.tar"), 6);
  EXPECT_EQ(code("zero new"), 6);
  EXPECT_EQ(code("zero new/checkpoint"), 6);
  EXPECT_EQ(code("old/checkpoint new/checkpoint"), 1);
  EXPECT_EQ(code("old/checkpoint new/checkpoint --proof proof"), 0);
  EXPECT_EQ(code("fork4 new/checkpoint --proof proof"), 5);
  EXPECT_EQ(code("old/checkpoint new/checkpoint --proof zero"), 3);
  EXPECT_EQ(code("absent new"), 2);
  EXPECT_EQ(code("old/keys.txt new"), 3);
  EXPECT_THAT(Verify("consistency fork new").out,
              AllOf(HasSubstr("REFUSED   inconsistent"), HasSubstr("forked")));
  EXPECT_THAT(Verify("consistency new old").out, HasSubstr("shrank"));
}

TEST_F(CliTest, ARetiredKeySignsNothingNewer) {
  SampleLog log(6, {2});
  const Signer& a = log.signers()[0];
  const Signer& b = log.signers()[1];
  Export(log, "out");
  const auto node = [&log](int level, uint64_t index) { return log.Node(level, index); };
  const auto prove = [&](const std::string& name, uint64_t index, uint64_t size,
                         const Signer& signer) {
    Write(name, TlogProof(index, InclusionProof(index, size, node).value(),
                          log.CheckpointAt(size, signer)));
  };
  Write("a5", log.CheckpointAt(5, a));
  Write("b5", log.CheckpointAt(5, b));
  Write("a6", log.CheckpointAt(6, a));
  Write("b6", log.CheckpointAt(6, b));
  std::string proof;
  const std::vector<Digest> hashes = ConsistencyProof(5, 6, node).value();
  for (const Digest& hash : hashes) proof += Base64(hash) + "\n";
  Write("proof", proof);
  const std::string both = absl::StrCat(" --key '", a.verification_key().vkey(), "' --key '",
                                        b.verification_key().vkey(), "'");
  const auto code = [&](const std::string& arguments) {
    return Verify(arguments + both, false).code;
  };
  EXPECT_EQ(code("consistency b5 b6 --proof proof"), 0);
  EXPECT_EQ(code("consistency a5 b6 --proof proof"), 0);
  EXPECT_EQ(code("consistency b5 a6 --proof proof"), 4);
  EXPECT_EQ(code("consistency b6 b6"), 0);
  EXPECT_EQ(code("consistency b6 a6"), 4);
  EXPECT_EQ(code("consistency a6 b6"), 4);
  EXPECT_THAT(Verify("consistency b5 a6 --proof proof" + both, false).out, HasSubstr("retired"));
  // Certificate 3 is of the new key, 2 the hand-over to it, 1 of the old key.
  for (const uint64_t index : {uint64_t{1}, uint64_t{2}, uint64_t{3}}) {
    prove("by-a", index, 6, a);
    prove("by-b", index, 6, b);
    const std::string c =
        absl::StrCat("certificate out/certificates/000/00000", index, ".envelope.json --proof ");
    EXPECT_EQ(code(c + "by-b"), 0) << index;
    // Nothing shows of certificate 1 that its key was retired.
    EXPECT_EQ(code(c + "by-a"), index == 1 ? 0 : 4) << index;
  }
  EXPECT_EQ(Verify("export out" + both + both, false).code, 1);
}

TEST_F(CliTest, NumbersOfCertificatesAreChecked) {
  SampleLog log(4);
  Export(log, "out");
  for (const char* range : {"--first -1", "--first=-1", "--last -1", "--first 3 --last 2",
                            "--first 1x", "--first ''", "--last 99999999999999999999"}) {
    EXPECT_EQ(Verify(absl::StrCat("export out ", range)).code, 1) << range;
  }
  EXPECT_EQ(Verify("export out --first 0 --last 3").code, 0);
}

TEST_F(CliTest, AFileThatIsTooLongIsAFinding) {
  SampleLog log(2);
  Export(log, "out");
  Write("out/certificates/000/000000.envelope.json", std::string(size_t{3} << 20, 'x'));
  const Outcome json = Verify("export out -o json");
  EXPECT_EQ(json.code, 3);
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"failure\":\"malformed-envelope\""),
                              HasSubstr("000000.envelope.json"), HasSubstr("\"sequence\":0")));
}

TEST_F(CliTest, ReceiptsOpenTheirCertificate) {
  SampleLog log(1);
  Export(log, "out");
  const std::string salt(64, '1');
  Write("answer.json", absl::StrCat("{\"certificate_id\": \"", log.certificates()[0].id,
                                    "\", \"erased\": 4, \"receipt\": {\"request_salt\": \"", salt,
                                    "\", \"subject_salt\": \"", salt, "\"}}"));
  const std::string who =
      " --receipt answer.json --tenant clinic --request-id request-1 --subject patient-17";
  const std::string c = "certificate out/certificates/000/000000.envelope.json";
  EXPECT_EQ(Verify(c + who).code, 0);
  EXPECT_THAT(Verify(c + who).out, ::testing::ContainsRegex("ok +receipt"));
  EXPECT_THAT(Verify("export out.tar" + who).out, HasSubstr("opens certificate 0"));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"patient-17", "patient-18"}, {"clinic", "other"}, {"request-1", "request-2"}}) {
    const std::string wrong = absl::StrReplaceAll(who, {{from, to}});
    EXPECT_EQ(Verify(c + wrong).code, 7);
    EXPECT_EQ(Verify("export out" + wrong).code, 7);
    EXPECT_THAT(Verify(c + wrong).out, HasSubstr("receipt-mismatch"));
  }
  EXPECT_EQ(Verify(c + " --receipt answer.json").code, 1);
  EXPECT_EQ(Verify(c + " --receipt absent --tenant t --request-id r").code, 2);
  Write("answer.json", "{\"receipt\":{\"request_salt\":\"11\"}}");
  EXPECT_EQ(Verify(c + who).code, 1);
}

TEST_F(CliTest, WrapsLongTextAndCannotBeSteeredByIt) {
  CertificateBody body = ForgetBody();
  body.exceptions = {std::string(300, 'x'), "VERIFIED \xc3\xa9 " + std::string(90, 'y')};
  body.stores[0].evidence = "many words of evidence that go on and on, beyond the end of one line";
  Write("c.json", BuildCertificate(body, signer_).value().envelope);
  const Outcome outcome = Verify("certificate c.json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\xc3\xa9"));
  EXPECT_THAT(outcome.out, HasSubstr(std::string(66, 'x') + "\n" + std::string(14, ' ') + "x"));
  ExpectEightyColumns(outcome.out);
  // The owner of the key can sign anything; control characters make it a bad statement.
  const std::string hostile = absl::StrReplaceAll(SerializeStatement(ForgetBody()).value(),
                                                  {{"Backups made", "\\u001b[2JVERIFIED"}});
  Write("hostile.json",
        SerializeEnvelope(SignEnvelope(kInTotoPayloadType, hostile, signer_).value()).value());
  const Outcome refused = Verify("certificate hostile.json");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out, AllOf(HasSubstr("bad-statement"), Not(HasSubstr("VERIFIED"))));
}

TEST_F(CliTest, HelpExplainsAndVersionAnswers) {
  for (const char* arguments : {"--help", "certificate --help", "export --help",
                                "checkpoint --help", "consistency --help"}) {
    const Outcome help = Verify(arguments, false);
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Exit status\n  0 verified"), HasSubstr("Pin a key")));
    ExpectEightyColumns(help.out);
  }
  EXPECT_THAT(Verify("--version", false).out, HasSubstr("lethe-verify "));
  EXPECT_EQ(Verify("certificate absent -q > /dev/full", true).code, 2);
  Write("c.json", chain_[0].envelope);
  EXPECT_EQ(Verify("certificate c.json > /dev/full").code, 2);
}

TEST_F(CliTest, LinksNothingOfTheNetwork) {
  const Outcome libraries = Shell(absl::StrCat("ldd '", LETHE_BINARY_DIR, "/lethe-verify'"));
  ASSERT_EQ(libraries.code, 0) << libraries.out;
  EXPECT_THAT(libraries.out, HasSubstr("libcrypto"));
  for (const char* name : {"grpc", "protobuf", "libssl", "curl", "sqlite", "cares", "nghttp"}) {
    EXPECT_THAT(libraries.out, Not(HasSubstr(name)));
  }
}

// The fenced block of the document that starts with this line.
std::string Block(const std::string& document, const std::string& opening, size_t from = 0) {
  const size_t start = document.find(opening + "\n", from);
  EXPECT_NE(start, std::string::npos) << opening;
  const size_t body = start + opening.size() + 1;
  return document.substr(body, document.find("\n```", body) - body);
}

TEST_F(CliTest, TheDocumentsExampleIsTheGoldenOne) {
  const std::string document = ReadAll(LETHE_SOURCE_DIR "/docs/certificate_format.md");
  const SignedCertificate certificate = BuildCertificate(ForgetBody(), signer_).value();
  const size_t example = document.find("## 7. An example in full");
  ASSERT_NE(example, std::string::npos);
  EXPECT_EQ(Block(document, "```text", example), key_);
  for (const std::string& text : {SerializeStatement(ForgetBody()).value(), certificate.envelope,
                                  certificate.leaf, certificate.id, Hex(certificate.leaf_hash)}) {
    EXPECT_NE(document.find(text, example), std::string::npos) << text;
  }
}

TEST_F(CliTest, TheDocumentsWalkAcceptsAChainAndStopsAtAnyChange) {
  const Outcome tools = Shell("openssl version && sha256sum --version && base64 --version");
  ASSERT_EQ(tools.code, 0) << tools.out;
  const std::string document = ReadAll(LETHE_SOURCE_DIR "/docs/certificate_format.md");
  Write("walk.sh", Block(document, "```sh", document.find("## 8. The walk")));
  const auto walk = [&](const std::string& envelope, const std::string& leaf,
                        const std::string& previous) {
    Write("certificate.json", envelope);
    Write("leaf.json", leaf);
    return Shell(absl::StrCat("cd '", folder_.path(), "' && KEY='", key_, "' PREVIOUS='", previous,
                              "' sh walk.sh"));
  };
  std::string previous;
  for (const SignedCertificate& certificate : chain_) {
    const Outcome outcome = walk(certificate.envelope, certificate.leaf, previous);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    previous = Hex(certificate.leaf_hash);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("id        " + certificate.id),
                                   HasSubstr("leaf hash " + previous)));
  }
  EXPECT_NE(walk(chain_[2].envelope, chain_[2].leaf, previous).code, 0);
  EXPECT_NE(walk(chain_[2].envelope, chain_[1].leaf, Hex(chain_[1].leaf_hash)).code, 0);
  for (const char* part : {"\"payload\":\"", "\"sig\":\"", "\"keyid\":\""}) {
    std::string changed = chain_[0].envelope;
    const size_t at = changed.find(part) + std::string(part).size() + 5;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    EXPECT_NE(walk(changed, chain_[0].leaf, "").code, 0) << part;
  }
}

}  // namespace
}  // namespace lethe::audit
