// lethe witness sign: which of the pinned keys may sign what.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "audit/checkpoint.h"
#include "client/cli/exit_codes.h"
#include "tests/audit/sample.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::HasSubstr;

class WitnessCommandTest : public CliTest {
 protected:
  WitnessCommandTest() {
    Fill({"a", "b"});
    EXPECT_EQ(RunIn({"forget", "--id", "a", "-y"}).status, kExitOk);
    EXPECT_EQ(Run({"witness", "key", "w.example/1", "--out", folder_ + "/w.pem"}).status, kExitOk);
  }
  CliResult Sign(const std::vector<std::string>& keys, bool first) {
    std::vector<std::string> arguments = {
        "witness", "sign",        "t",       "--witness-key",   folder_ + "/w.pem",
        "--name",  "w.example/1", "--state", folder_ + "/state"};
    for (const std::string& key : keys) arguments.insert(arguments.end(), {"--key", key});
    if (first) arguments.push_back("--first");
    return Run(arguments);
  }
};

TEST_F(WitnessCommandTest, AnOlderKeyThanThatOfTheStateSignsNothing) {
  const std::string present = server_->vkey();
  const std::string origin = audit::VerificationKey::Parse(present)->name();
  const audit::Signer other = audit::testing::VectorSigner(origin, 0x66);
  ASSERT_EQ(Sign({present}, true).status, kExitOk);
  // The state becomes one that another key signed: the same log, the same size.
  const std::string note = ReadFile(folder_ + "/state");
  const audit::CheckpointResult read =
      audit::VerifyCheckpoint(note, *audit::VerificationKey::Parse(present));
  ASSERT_TRUE(read.ok());
  WriteFile("state", *audit::SignCheckpoint(read.checkpoint, other));
  ASSERT_EQ(RunIn({"forget", "--id", "b", "-y"}).status, kExitOk);
  const std::string another = other.verification_key().vkey();
  // The other key is the newer one: the server's was retired before.
  const std::string state = ReadFile(folder_ + "/state");
  const CliResult refused = Sign({present, another}, false);
  EXPECT_EQ(refused.status, kExitNotVerified) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("retired"));
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(ReadFile(folder_ + "/state"), state);
  // It is the older one: the key was changed since.
  const CliResult signed_now = Sign({another, present}, false);
  EXPECT_EQ(signed_now.status, kExitOk) << signed_now.err;
}

}  // namespace
}  // namespace lethe::cli
