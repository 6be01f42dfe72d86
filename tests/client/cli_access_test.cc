// `lethe access`, and the options that say who calls.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/bearer_token.h"
#include "audit/encoding.h"
#include "client/cli/exit_codes.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(CliTest, ANewTokenIsShownOnceWithItsEntry) {
  const CliResult first = Run(
      {"access", "new-token", "--name", "app-1", "--grant", "clinic:app", "--grant", "*:auditor"});
  ASSERT_EQ(first.status, kExitOk) << first.err;
  const std::vector<std::string> lines = absl::StrSplit(first.out, '\n');
  ASSERT_TRUE(absl::StartsWith(lines[0], "token: "));
  const std::string token = lines[0].substr(7);
  EXPECT_TRUE(audit::IsBearerToken(token)) << token;
  EXPECT_THAT(first.out, HasSubstr("[[token]]\nname = \"app-1\"\nsha256 = \"" +
                                   audit::Hex(audit::DigestOfToken(token)) +
                                   "\"\ngrants = [\"clinic:app\", \"*:auditor\"]\n"));
  const CliResult second =
      Run({"-o", "json", "access", "new-token", "--name", "app-1", "--grant", "clinic:app"});
  ASSERT_EQ(second.status, kExitOk);
  const auto json = nlohmann::json::parse(second.out);
  EXPECT_NE(json["token"], token);
  EXPECT_EQ(json["sha256"], audit::Hex(audit::DigestOfToken(json["token"].get<std::string>())));
}

TEST_F(CliTest, ANewTokenCanGoToAFileOfItsOwn) {
  const std::string path = folder_ + "/token";
  const std::vector<std::string> arguments = {"access",  "new-token", "--name", "app-1",
                                              "--grant", "t:app",     "--out",  path};
  const CliResult result = Run(arguments);
  ASSERT_EQ(result.status, kExitOk) << result.err;
  std::ifstream in(path);
  std::string token;
  std::getline(in, token);
  EXPECT_TRUE(audit::IsBearerToken(token));
  struct stat status = {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THAT(result.out, Not(HasSubstr(token)));
  EXPECT_TRUE(absl::StartsWith(result.out, "[[token]]\n")) << result.out;
  EXPECT_EQ(Run(arguments).status, kExitFile) << "a token is never written over";
}

TEST_F(CliTest, NamesAndGrantsThatWouldBreakTheFileAreRefused) {
  for (const char* name : {"", "a b", "a\"", "a\n", "a#"}) {
    EXPECT_EQ(Run({"access", "new-token", "--name", name, "--grant", "t:app"}).status, kExitUsage)
        << name;
  }
  for (const char* grant : {"", "t", "t:app\"]", "t app", "t:app\n"}) {
    EXPECT_EQ(Run({"access", "new-token", "--name", "a", "--grant", grant}).status, kExitUsage)
        << grant;
  }
  EXPECT_EQ(Run({"access", "new-token", "--name", "a"}).status, kExitUsage);
}

TEST_F(CliTest, OptionsOfTlsAndTokensReachTheConnection) {
  ASSERT_EQ(Run({"tenant", "list"}).status, kExitOk);
  EXPECT_FALSE(connected_->tls.has_value());
  EXPECT_EQ(connected_->token + connected_->token_file, "");
  ASSERT_EQ(Run({"--tls", "on", "tenant", "list"}).status, kExitOk);
  ASSERT_TRUE(connected_->tls.has_value());
  EXPECT_EQ(connected_->tls->ca_file, "");
  const std::string ca = WriteFile("a.pem", "a");
  const std::string certificate = WriteFile("c.pem", "c");
  const std::string key = WriteFile("k.pem", "k");
  const std::string token = WriteFile("t", "t");
  ASSERT_EQ(Run({"--ca", ca, "--client-certificate", certificate, "--client-key", key,
                 "--server-name", "n", "--token-file", token, "tenant", "list"})
                .status,
            kExitOk);
  ASSERT_TRUE(connected_->tls.has_value());
  EXPECT_EQ(connected_->tls->ca_file, ca);
  EXPECT_EQ(connected_->tls->certificate_file, certificate);
  EXPECT_EQ(connected_->tls->key_file, key);
  EXPECT_EQ(connected_->tls->server_name, "n");
  EXPECT_EQ(connected_->token_file, token);
  setenv("LETHE_TOKEN", "from-the-environment", 1);
  setenv("LETHE_CA", ca.c_str(), 1);
  ASSERT_EQ(Run({"tenant", "list"}).status, kExitOk);
  EXPECT_EQ(connected_->token, "from-the-environment");
  EXPECT_EQ(connected_->tls->ca_file, ca);
  unsetenv("LETHE_TOKEN");
  unsetenv("LETHE_CA");
  EXPECT_EQ(Run({"--tls", "maybe", "tenant", "list"}).status, kExitUsage);
}

// Nothing was asked of a server, so that the exit status is not one of its answers.
TEST_F(CliTest, FilesThatCannotBeReadAndOptionsThatDoNotFitAreOurOwnFaults) {
  const std::string absent = WriteFile("there", "") + ".not";
  for (const char* option : {"--ca", "--client-certificate", "--client-key", "--token-file"}) {
    const CliResult result = Run({option, absent, "tenant", "list"});
    EXPECT_EQ(result.status, kExitFile) << option;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat(option, ": cannot read ", absent)));
  }
  const std::string key = WriteFile("k.pem", "k");
  EXPECT_EQ(Run({"--client-key", key, "tenant", "list"}).status, kExitUsage);
  EXPECT_FALSE(connected_.has_value());
  EXPECT_EQ(Run({"--ca", absent, "version"}).status, kExitOk) << "which asks no server";
}

}  // namespace
}  // namespace lethe::cli
