#include "server/config.h"

#include <stdlib.h>

#include <string>
#include <vector>

#include "audit/signer.h"
#include "audit/witness.h"
#include "server/command_line.h"
#include "server/options.h"
#include "tests/server/service_testing.h"

namespace lethe::server {
namespace {

using service::Fails;
using service::HasCode;
using service::IsOk;
using service::kInvalid;

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("LETHE_CONFIG");
    for (const Option& option : Options()) unsetenv(option.Environment().c_str());
    // Without TLS and access control there is no server but this one.
    setenv("LETHE_INSECURE_LOOPBACK", "true", 1);
  }
  void TearDown() override { SetUp(); }

  static Config Parse(const std::vector<std::string>& arguments) {
    const absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments);
    EXPECT_THAT(parsed, IsOk());
    return parsed->config;
  }
};

TEST_F(ConfigTest, Defaults) {
  const Config config = Parse({});
  EXPECT_EQ(config.data, "./var/lethe");
  EXPECT_EQ(config.listen, "127.0.0.1:7421");
  EXPECT_EQ(config.access, "");
  EXPECT_EQ(config.http_listen, "");
  EXPECT_EQ(config.port_file, "");
  EXPECT_EQ(config.origin, "lethe.local");
  EXPECT_FALSE(config.refit_on_forget);
  EXPECT_EQ(config.log_level, program::LogLevel::kInfo);
}

TEST_F(ConfigTest, FlagsWinOverTheEnvironmentWhichWinsOverDefaults) {
  setenv("LETHE_DATA", "/env", 1);
  setenv("LETHE_ORIGIN", "env.example", 1);
  setenv("LETHE_VERIFY_FORGET", "always", 1);
  setenv("LETHE_LOG_LEVEL", "debug", 1);
  setenv("LETHE_PORT_FILE", "/p", 1);
  setenv("LETHE_LISTEN", "[::1]:0", 1);
  const Config config = Parse({"--data", "/flag"});
  EXPECT_EQ(config.data, "/flag");
  EXPECT_EQ(config.origin, "env.example");
  EXPECT_TRUE(config.refit_on_forget);
  EXPECT_EQ(config.log_level, program::LogLevel::kDebug);
  EXPECT_EQ(config.port_file, "/p");
  EXPECT_EQ(config.listen, "[::1]:0");
}

TEST_F(ConfigTest, WhoIsServedWithoutTlsAndAccessControl) {
  unsetenv("LETHE_INSECURE_LOOPBACK");
  const std::vector<std::string> tls = {"--tls-certificate=c", "--tls-key=k"};
  const std::vector<std::string> guarded = {"--tls-certificate=c", "--tls-key=k", "--access=a"};
  const auto with = [](std::vector<std::string> arguments, const std::string& more) {
    arguments.push_back(more);
    return arguments;
  };
  for (const std::string loopback :
       {"127.0.0.1:1", "127.9.9.9:0", "localhost:7421", "[::1]:65535"}) {
    const std::string listen = "--listen=" + loopback;
    EXPECT_EQ(Parse({listen, "--insecure-loopback"}).listen, loopback);
    EXPECT_EQ(Parse(with(guarded, listen)).listen, loopback);
    EXPECT_EQ(Parse(with(with(tls, "--insecure-loopback"), listen)).listen, loopback);
    EXPECT_EQ(Parse({"--access=a", "--insecure-loopback", listen}).listen, loopback);
    for (const auto& arguments : {std::vector<std::string>{listen}, with(tls, listen),
                                  std::vector<std::string>{"--access=a", listen}}) {
      const auto refused = ParseCommandLine(arguments);
      EXPECT_THAT(refused, Fails(kInvalid, "--listen"));
      EXPECT_NE(std::string(refused.status().message()).find("--insecure-loopback"),
                std::string::npos);
    }
  }
  for (const std::string open :
       {"0.0.0.0:7421", "10.0.0.1:7421", "[::]:7421", "example.org:1", "127.0.0.1.example.org:1"}) {
    const std::string listen = "--listen=" + open;
    EXPECT_EQ(Parse(with(guarded, listen)).listen, open);
    EXPECT_THAT(ParseCommandLine({listen}), Fails(kInvalid, "--listen")) << open;
    EXPECT_THAT(ParseCommandLine(with(tls, listen)), Fails(kInvalid, "--listen")) << open;
    EXPECT_THAT(ParseCommandLine({"--access=a", listen}), Fails(kInvalid, "--listen")) << open;
    EXPECT_THAT(ParseCommandLine({"--insecure-loopback", listen}),
                Fails(kInvalid, "--insecure-loopback"))
        << open;
    EXPECT_THAT(ParseCommandLine(with(with(guarded, "--insecure-loopback"), listen)),
                Fails(kInvalid, "--insecure-loopback"));
    EXPECT_EQ(Parse(with(guarded, "--http-listen=" + open)).http_listen, open);
    EXPECT_THAT(ParseCommandLine({"--insecure-loopback", "--http-listen=" + open}),
                Fails(kInvalid, "--insecure-loopback"));
  }
  setenv("LETHE_INSECURE_LOOPBACK", "true", 1);
  EXPECT_TRUE(Parse({}).insecure_loopback);
}

TEST_F(ConfigTest, HalfOfTlsIsRefused) {
  EXPECT_THAT(ParseCommandLine({"--tls-certificate=c"}), Fails(kInvalid, "--tls-certificate"));
  EXPECT_THAT(ParseCommandLine({"--tls-key=k"}), Fails(kInvalid, "--tls-key"));
  EXPECT_THAT(ParseCommandLine({"--tls-client-ca=c"}), Fails(kInvalid, "--tls-client-ca"));
  const Config config = Parse({"--tls-certificate=c", "--tls-key=k", "--tls-client-ca=a",
                               "--tls-client-certificates=optional"});
  EXPECT_FALSE(config.tls_client_certificates_required);
  EXPECT_TRUE(Parse({}).tls_client_certificates_required);
  EXPECT_THAT(ParseCommandLine({"--tls-client-certificates=never"}),
              Fails(kInvalid, "--tls-client-certificates"));
}

// Callbacks are sent without HTTP too.
TEST_F(ConfigTest, WhatIsForHttpWantsHttp) {
  for (const std::string option : {"--dsr-domain=d", "--dsr-key=k", "--dsr-certificate=c",
                                   "--transcend-key=k", "--public-logs"}) {
    const std::string flag = option.substr(0, option.find('='));
    EXPECT_THAT(ParseCommandLine({option}), Fails(kInvalid, flag));
    EXPECT_THAT(ParseCommandLine({option, "--http-listen=127.0.0.1:0"}), IsOk());
  }
  EXPECT_THAT(ParseCommandLine({"--callback-host=a.example", "--callback-ca=c",
                                "--public-url=https://lethe.example"}),
              IsOk());
}

TEST_F(ConfigTest, BadValuesNameTheirFlag) {
  for (const std::string listen : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                                   "127.0.0.1:-1", ":7421", "::1:7421", "[::1:7421"}) {
    EXPECT_THAT(ParseCommandLine({"--listen=" + listen}), HasCode(kInvalid)) << listen;
    EXPECT_FALSE(ParseHostPort("--listen", listen).ok()) << listen;
  }
  EXPECT_THAT(ParseCommandLine({"--http-listen", "here"}), Fails(kInvalid, "--http-listen"));
  EXPECT_THAT(ParseCommandLine({"--verify-forget", "maybe"}), Fails(kInvalid, "--verify-forget"));
  EXPECT_THAT(ParseCommandLine({"--log-level", "loud"}), Fails(kInvalid, "--log-level"));
  for (const std::string origin : {"a b", "a+b", "/a", "a/", "\xc3\xa9", "a\nb"}) {
    EXPECT_THAT(ParseCommandLine({"--origin", origin}), Fails(kInvalid, "--origin")) << origin;
  }
  EXPECT_THAT(ParseCommandLine({"--no-such-flag"}), HasCode(kInvalid));
  EXPECT_THAT(ParseCommandLine({"stray"}), HasCode(kInvalid));
}

TEST_F(ConfigTest, ABallastIsNoneOrLargeEnough) {
  EXPECT_EQ(Parse({}).job_file_limit, uint64_t{256} << 20);
  EXPECT_EQ(Parse({"--job-file-limit=2GiB"}).job_file_limit, uint64_t{2} << 30);
  EXPECT_EQ(Parse({"--job-lease=2m"}).job_lease, absl::Minutes(2));
  EXPECT_THAT(ParseCommandLine({"--job-file-limit=0"}), HasCode(kInvalid));
  EXPECT_THAT(ParseCommandLine({"--job-lease=1s"}), HasCode(kInvalid));
  EXPECT_EQ(Parse({}).ballast, uint64_t{64} << 20);
  EXPECT_EQ(Parse({"--ballast", "0"}).ballast, 0u);
  EXPECT_EQ(Parse({"--ballast", "16MiB"}).ballast, uint64_t{16} << 20);
  setenv("LETHE_BALLAST", "1GiB", 1);
  EXPECT_EQ(Parse({}).ballast, uint64_t{1} << 30);
  EXPECT_EQ(Parse({"--ballast", "32MiB"}).ballast, uint64_t{32} << 20);
  for (const std::string bad : {"1", "15MiB", "2TiB", "-1", "much", ""}) {
    EXPECT_THAT(ParseCommandLine({"--ballast=" + bad}), HasCode(kInvalid)) << bad;
  }
}

TEST_F(ConfigTest, WitnessesAreKeysOfTheirType) {
  EXPECT_TRUE(Parse({}).witnesses.empty());
  const std::string one = audit::WitnessSigner::Generate("w.example/1")->key().vkey();
  const std::string two = audit::WitnessSigner::Generate("w.example/2")->key().vkey();
  const Config both = Parse({"--witness", one, "--witness", two});
  ASSERT_EQ(both.witnesses.size(), 2u);
  EXPECT_EQ(both.witnesses[0].vkey(), one);
  EXPECT_EQ(both.witnesses[1].vkey(), two);
  setenv("LETHE_WITNESS", (one + " " + two).c_str(), 1);
  EXPECT_EQ(Parse({}).witnesses.size(), 2u);
  EXPECT_EQ(Parse({"--witness", two}).witnesses.size(), 1u) << "a flag wins";
  // A log's key is no witness's; a key given twice is a slip.
  const std::string log = audit::Signer::Generate("w.example/1")->verification_key().vkey();
  EXPECT_THAT(ParseCommandLine({"--witness", log}), Fails(kInvalid, "--witness"));
  EXPECT_THAT(ParseCommandLine({"--witness", "x"}), Fails(kInvalid, "--witness"));
  EXPECT_THAT(ParseCommandLine({"--witness", one, "--witness", one}), Fails(kInvalid, "--witness"));
}

TEST_F(ConfigTest, LimitsOnTenantsAreNumbers) {
  EXPECT_FALSE(Parse({}).max_open_tenants.has_value());
  EXPECT_FALSE(Parse({}).memory_limit.has_value());
  EXPECT_EQ(Parse({"--max-open-tenants", "16"}).max_open_tenants, 16u);
  EXPECT_EQ(Parse({"--memory-limit", "3GiB"}).memory_limit, uint64_t{3} << 30);
  setenv("LETHE_MAX_OPEN_TENANTS", "5", 1);
  setenv("LETHE_MEMORY_LIMIT", "100M", 1);
  EXPECT_EQ(Parse({}).max_open_tenants, 5u);
  EXPECT_EQ(Parse({"--max-open-tenants", "6"}).max_open_tenants, 6u) << "a flag wins";
  EXPECT_EQ(Parse({}).memory_limit, uint64_t{100} << 20);
  for (const std::string bad : {"0", "-1", "many", "1.5", "1k"}) {
    EXPECT_THAT(ParseCommandLine({"--max-open-tenants=" + bad}),
                Fails(kInvalid, "--max-open-tenants"))
        << bad;
  }
  for (const std::string bad : {"-1", "GiB", "1.5GiB", "1GB", "1 GiB", "99999999999TiB", "x"}) {
    EXPECT_THAT(ParseCommandLine({"--memory-limit=" + bad}), Fails(kInvalid, "--memory-limit"))
        << bad;
  }
}

}  // namespace
}  // namespace lethe::server
