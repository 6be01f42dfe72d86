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
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using ::testing::AllOf;
using testing::ForgetBody;
using ::testing::HasSubstr;
using testing::MakeChain;
using ::testing::Not;
using testing::ReadAll;
using testing::TempFolder;
using testing::VectorSigner;
using testing::WriteAll;

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

std::string JsonLine(const SignedCertificate& certificate) {
  return absl::StrCat("{\"sequence\":", certificate.body.sequence, ",\"envelope\":\"",
                      Base64(certificate.envelope), "\",\"leaf\":\"", Base64(certificate.leaf),
                      "\"}\n");
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
  void WriteLog(const std::string& name, const std::vector<size_t>& order) const {
    std::string lines;
    for (const size_t i : order) lines += JsonLine(chain_[i]);
    Write(name, lines);
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
  EXPECT_EQ(Verify("chain c.json --head zz").code, 1);
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

TEST_F(CliTest, ChecksWholeLogs) {
  WriteLog("log.jsonl", {0, 1, 2, 3});
  const Outcome good = Verify("chain log.jsonl");
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_THAT(good.out, AllOf(HasSubstr("VERIFIED  4 certificates"),
                              HasSubstr(Hex(chain_[3].leaf_hash)), HasSubstr("--count")));
  EXPECT_THAT(good.out, ::testing::ContainsRegex("ok +2 +2026-01-31T12:00:00Z +evict +erased 12"));
  EXPECT_THAT(good.out, ::testing::ContainsRegex("ok +3 +2026-01-31T12:00:00Z +edit +erased 4"));
  ExpectEightyColumns(good.out);
  const Outcome anchored =
      Verify(absl::StrCat("chain - --count 4 --head ", Hex(chain_[3].leaf_hash), " < log.jsonl"));
  EXPECT_EQ(anchored.code, 0) << anchored.out;
  EXPECT_THAT(anchored.out, Not(HasSubstr("Without --count")));

  const std::pair<std::vector<size_t>, const char*> broken[] = {
      {{1, 2, 3}, "missing-head"},
      {{0, 2, 3}, "sequence-gap"},
      {{0, 1, 2, 3, 3}, "sequence-repeated"},
      {{0, 2, 1, 3}, "sequence-gap"},
      {{0, 1, 2}, "truncated"},
      {{}, "empty-chain"}};
  for (const auto& [order, word] : broken) {
    WriteLog("broken.jsonl", order);
    // Five: the repeated entry must be refused by its number, not by the count.
    const Outcome outcome =
        Verify(absl::StrCat("chain broken.jsonl --count ", std::max<size_t>(4, order.size())));
    EXPECT_EQ(outcome.code, 5) << word;
    EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("REFUSED   ", word)));
    EXPECT_THAT(Verify("chain broken.jsonl -o json --count 9").out, HasSubstr("\"failure\":"));
  }
  const Outcome json = Verify("chain log.jsonl -o json");
  WriteLog("broken.jsonl", {0, 1, 3});
  ExpectEightyColumns(Verify("chain broken.jsonl").out);
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"entries\":4"), HasSubstr("\"failure\":\"verified\"")));
}

TEST_F(CliTest, ReadsLinesInAnyFormAndRefusesOtherContent) {
  const std::string line = JsonLine(chain_[0]);
  Write("spaced.jsonl", absl::StrReplaceAll(line, {{",", " ,\t"}, {":", " : "}}));
  EXPECT_EQ(Verify("chain spaced.jsonl").code, 0);
  Write("unended.jsonl", line.substr(0, line.size() - 1));
  EXPECT_EQ(Verify("chain unended.jsonl").code, 0);
  for (const std::string& bad :
       {line + "\n", "[" + line, absl::StrReplaceAll(line, {{"leaf", "leef"}}),
        absl::StrReplaceAll(line, {{"\"sequence\":0,", ""}}),
        absl::StrReplaceAll(line, {{"\"sequence\":0", "\"sequence\":\"0\""}}),
        absl::StrReplaceAll(line, {{"\"leaf\":\"", "\"leaf\":\"-"}}),
        std::string(size_t{3} << 20, ' ')}) {
    Write("bad.jsonl", bad);
    const Outcome outcome = Verify("chain bad.jsonl");
    EXPECT_EQ(outcome.code, 3) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("lethe-verify: line "));
  }
  EXPECT_EQ(Verify("chain absent.jsonl").code, 2);
}

TEST_F(CliTest, ReadsAFolder) {
  const auto write_entry = [&](size_t name, size_t content) {
    Write(absl::StrCat("000", name, ".envelope.json"), chain_[content].envelope);
    Write(absl::StrCat("000", name, ".leaf.json"), chain_[content].leaf);
  };
  const Outcome nothing = Verify("chain .");
  EXPECT_EQ(nothing.code, 3);
  EXPECT_THAT(nothing.out, AllOf(HasSubstr("chain.jsonl"), HasSubstr("N.envelope.json")));
  for (size_t i = 0; i < 4; ++i) write_entry(i, i);
  Write("README", "not an entry");
  EXPECT_EQ(Verify("chain . --count 4").code, 0);
  write_entry(2, 3);
  EXPECT_THAT(Verify("chain .").out, HasSubstr("sequence-mismatch"));
  write_entry(2, 2);
  std::filesystem::remove(folder_ / "0001.leaf.json");
  EXPECT_EQ(Verify("chain .").code, 3);
  Write("0001.leaf.json", chain_[1].leaf);
  Write("1.leaf.json", chain_[1].leaf);
  EXPECT_EQ(Verify("chain .").code, 3);
}

TEST_F(CliTest, ReadsTheFolderOfAnExport) {
  std::filesystem::create_directory(folder_ / "out");
  WriteLog("out/chain.jsonl", {0, 1, 2, 3});
  Write("out/0-01234567.json", chain_[0].envelope);
  const Outcome whole = Verify("chain out --count 4");
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, HasSubstr("VERIFIED  4 certificates"));
  WriteLog("out/chain.jsonl", {0, 1, 3});
  EXPECT_EQ(Verify("chain out").code, 5);
  // The file counts, whatever lies beside it and even when it cannot be read.
  Write("out/0.envelope.json", chain_[0].envelope);
  Write("out/0.leaf.json", chain_[0].leaf);
  EXPECT_EQ(Verify("chain out").code, 5);
  std::filesystem::remove(folder_ / "out/chain.jsonl");
  EXPECT_EQ(Verify("chain out").code, 0);
  std::filesystem::create_symlink("absent", folder_ / "out/chain.jsonl");
  EXPECT_EQ(Verify("chain out").code, 2);
}

TEST_F(CliTest, AnEmptyLogHasNoPlace) {
  WriteLog("empty.jsonl", {});
  EXPECT_EQ(Verify("chain empty.jsonl").out,
            "REFUSED   empty-chain\n              There is no certificate to verify.\n");
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
  for (const char* arguments : {"--help", "certificate --help", "chain --help"}) {
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
