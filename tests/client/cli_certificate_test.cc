// The certificate verbs on certificates that a real key signed; the openssl command line is the
// judge of ids.
#include <gmock/gmock.h>

#include <regex>

#include "audit/encoding.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CertificateTest : public CliTest {
 protected:
  CertificateTest() {
    Fill({"a", "b", "c", "d", "e"});
    for (const char* id : {"a", "b", "c"}) {
      EXPECT_EQ(RunIn({"forget", "--id", id, "-y"}).status, kExitOk);
    }
  }

  std::string id(size_t i) { return server_->log.at(i).id; }
  CliResult Verify(const std::string& which, const std::string& key) {
    return Run({"certificate", "verify", which, "--key", key, "-t", "t"});
  }
  // Exports into a folder of its own and returns it.
  std::string Export() {
    const std::string out = folder_ + "/out";
    const CliResult result = Run({"export", "t", "--to", out});
    EXPECT_EQ(result.status, kExitOk) << result.err;
    return out;
  }
};

TEST_F(CertificateTest, ListAndShow) {
  const CliResult list = Run({"certificate", "list", "-t", "t"});
  EXPECT_THAT(list.out, StartsWith("SEQUENCE  KIND    MEMORY  CREATED               ID\n"
                                   "       0  forget  m       2026-01-31T12:00:00Z  " +
                                   id(0).substr(0, 16) + "\n"));
  EXPECT_EQ(Run({"certificate", "list", "-t", "t", "-m", "other"}).out, "");
  const CliResult show = Run({"certificate", "show", id(1), "-t", "t"});
  EXPECT_EQ(show.status, kExitOk) << show.err;
  EXPECT_THAT(show.out, HasSubstr("certificate  " + id(1) + "\n"));
  EXPECT_THAT(show.out, HasSubstr("verdict  proven\n"));
  EXPECT_THAT(show.out, HasSubstr("before  4 margin, 0 error, 0 reserve\n"));
  EXPECT_THAT(show.out, HasSubstr("slack           0.25\n")) << "f64 bits are shown as a number";
  std::istringstream lines(show.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(Run({"certificate", "show", id(1).substr(0, 8), "-t", "t"}).out, show.out);
  EXPECT_EQ(Run({"certificate", "show", "1", "-t", "t"}).out, show.out);
  const Json json = Json::parse(Run({"certificate", "show", "1", "-t", "t", "-o", "json"}).out);
  EXPECT_EQ(json["statement"]["predicate"]["counts"]["erased"], 1);
  EXPECT_EQ(json["statement"]["predicate"]["change"]["residuals"]["slack"], 0.25);
  for (const char* bad : {"3", "ffffffffff", "abc", "x"}) {
    EXPECT_GE(Run({"certificate", "show", bad, "-t", "t"}).status, kExitRpcBase) << bad;
  }
}

TEST_F(CertificateTest, EvictionsAndEditsAreListedShownAndVerified) {
  EXPECT_EQ(RunIn({"edit", "-f", "-", "--format", "ndjson", "-y"},
                  "{\"id\":\"d\",\"key\":[7,8],\"value\":[9]}\n")
                .status,
            kExitOk);
  Fill({"f", "g", "h"});
  EXPECT_EQ(RunIn({"evict", "--budget", "3", "-y"}).status, kExitOk);
  const CliResult list = Run({"certificate", "list", "-t", "t"});
  EXPECT_THAT(list.out, HasSubstr("       3  edit    m       "));
  EXPECT_THAT(list.out, HasSubstr("       4  evict   m       "));

  const CliResult show = Run({"certificate", "show", "4", "-t", "t"});
  EXPECT_EQ(show.status, kExitOk) << show.err;
  for (const char* words :
       {"selection\n", "budget    3\n", "retained  3\n", "surplus   2\n", "scope\n",
        "now    weighted-groups-and-readouts-unchanged\n",
        "later  measured-against-retained-tokens\n", "gap bound       8.67362e-19\n"}) {
    EXPECT_THAT(show.out, HasSubstr(words));
  }
  std::istringstream lines(show.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(Run({"certificate", "show", "3", "-t", "t"}).out, Not(HasSubstr("selection")));

  const CliResult verified = Verify(id(4), server_->vkey());
  EXPECT_EQ(verified.status, kExitOk) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("taken out    0 from reserve, 2 surplus copies\n"));
  EXPECT_THAT(verified.out, HasSubstr("retained     3, the budget was 3\n"));
  EXPECT_THAT(verified.out, HasSubstr("measured against the tokens retained\n"));
  std::istringstream verified_lines(verified.out);
  for (std::string line; std::getline(verified_lines, line);) EXPECT_LE(line.size(), 80u) << line;
  const Json json = Json::parse(
      Run({"certificate", "verify", id(4), "--key", server_->vkey(), "-t", "t", "-o", "json"}).out);
  EXPECT_EQ(json["selection"]["scope"]["later"], "measured-against-retained-tokens");
}

TEST_F(CertificateTest, ExportedFilesVerifyOfflineWithTheRightKeyOnly) {
  const std::string file = Export() + "/certificates/000/000001.envelope.json";
  EXPECT_EQ(ReadFile(file), server_->log[1].envelope);
  server_ = nullptr;  // a call would crash: offline means offline
  const std::string key = client::FakeConnection().vkey();
  const CliResult lone = Verify(file, key);
  EXPECT_EQ(lone.status, kExitOk) << lone.err;
  EXPECT_THAT(lone.out, StartsWith("verified     yes: signature and statement; leaf not given\n"));
  EXPECT_THAT(lone.out, Not(HasSubstr("log entry")));
  const std::string key_file = WriteFile("key", key + "\n");
  EXPECT_EQ(Run({"certificate", "verify", file, "--key-file", key_file}).status, kExitOk);
  const audit::Signer other = *audit::Signer::FromSeed("lethe.test/log/1", std::string(32, 'x'));
  const CliResult result = Verify(file, other.verification_key().vkey());
  EXPECT_EQ(result.status, kExitNotVerified);
  EXPECT_EQ(result.out, "");
}

TEST_F(CertificateTest, IdsAreTheHashesThatOpensslComputes) {
  const std::string file = Export() + "/certificates/000/000002.envelope.json";
  const std::string sum = folder_ + "/sum";
  ASSERT_EQ(std::system(("openssl dgst -sha256 -r '" + file + "' > '" + sum + "'").c_str()), 0);
  EXPECT_EQ(ReadFile(sum).substr(0, 64), id(2));
}

TEST_F(CertificateTest, VerifyByIdAsksTheServer) {
  const CliResult first = Verify(id(0), server_->vkey());
  EXPECT_EQ(first.status, kExitOk);
  EXPECT_THAT(first.out, HasSubstr("yes: signature, statement and log entry\n"));
  EXPECT_EQ(Verify("2", server_->vkey()).status, kExitOk);
  EXPECT_EQ(Verify(std::string(64, '0'), server_->vkey()).status,
            kExitRpcBase + static_cast<int>(absl::StatusCode::kNotFound));
  // A server that answers with a good certificate, but another one.
  std::swap(server_->log[0].envelope, server_->log[1].envelope);
  std::swap(server_->log[0].leaf, server_->log[1].leaf);
  const CliResult swapped = Verify(id(0), server_->vkey());
  EXPECT_EQ(swapped.status, kExitNotVerified);
  EXPECT_THAT(swapped.err, HasSubstr("another certificate"));
}

TEST_F(CertificateTest, EveryFlippedBitOfAnEnvelopeIsRefused) {
  const std::string envelope = server_->log[0].envelope;
  for (size_t byte = 0; byte < envelope.size(); byte += 7) {
    std::string bad = envelope;
    bad[byte] = static_cast<char>(bad[byte] ^ 0x04);
    EXPECT_EQ(Verify(WriteFile("bad.json", bad), server_->vkey()).status, kExitNotVerified) << byte;
  }
}

TEST_F(CertificateTest, FileProblemsExitWithTwo) {
  EXPECT_EQ(Verify(folder_ + "/none.json", server_->vkey()).status, kExitFile);
  EXPECT_EQ(Verify(folder_, server_->vkey()).status, kExitFile);
  EXPECT_EQ(Run({"certificate", "verify", "0", "--key-file", folder_ + "/none"}).status, kExitFile);
}

}  // namespace
}  // namespace lethe::cli
