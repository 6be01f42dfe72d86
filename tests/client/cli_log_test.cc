// lethe log, lethe key and lethe verify.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "audit/verify.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class LogCommandTest : public CliTest {
 protected:
  LogCommandTest() {
    Fill({"a", "b", "c", "d", "e", "f"});
    for (const char* id : {"a", "b", "c", "d", "e"}) {
      EXPECT_EQ(RunIn({"forget", "--id", id, "-y"}).status, kExitOk);
    }
  }
  audit::VerificationKey key() { return *audit::VerificationKey::Parse(server_->vkey()); }
};

TEST_F(LogCommandTest, ACheckpointIsPrintedAsTheNoteItIs) {
  const CliResult result = Run({"log", "checkpoint", "t"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  const audit::CheckpointResult checkpoint = audit::VerifyCheckpoint(result.out, key());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.message;
  EXPECT_EQ(checkpoint.checkpoint.size, 5u);
  const Json json = Json::parse(Run({"log", "checkpoint", "-t", "t", "-o", "json"}).out);
  EXPECT_EQ(json["note"], result.out);
  EXPECT_EQ(json["size"], 5);
  EXPECT_EQ(json["root"], audit::Hex(checkpoint.checkpoint.root));
  EXPECT_EQ(Run({"log", "checkpoint"}).status, kExitUsage);
}

TEST_F(LogCommandTest, AProofStandsOnItsOwn) {
  const CliResult result = Run({"log", "prove", "3", "-t", "t"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  const auto proof = audit::ParseTlogProof(result.out);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(proof->index, 3u);
  const audit::CheckpointResult checkpoint = audit::VerifyCheckpoint(proof->checkpoint_note, key());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_TRUE(audit::VerifyInclusion(3, 5, audit::LeafHash(server_->log[3].leaf), proof->proof,
                                     checkpoint.checkpoint.root)
                  .ok());
  EXPECT_EQ(Run({"log", "prove", server_->log[3].id, "-t", "t"}).out, result.out);
  const std::string file = folder_ + "/proof";
  EXPECT_EQ(Run({"log", "prove", "3", "-t", "t", "--out", file}).status, kExitOk);
  EXPECT_EQ(ReadFile(file), result.out);

  const Json old =
      Json::parse(Run({"log", "prove", "0", "-t", "t", "--size", "4", "-o", "json"}).out);
  EXPECT_EQ(old["size"], 4);
  EXPECT_EQ(old["hashes"].size(), 2u);
  EXPECT_EQ(old["tlog_proof"], "");
  EXPECT_EQ(Run({"log", "prove", "0", "-t", "t", "--size", "4", "--out", file}).status, kExitUsage);
  EXPECT_EQ(Run({"log", "prove", "abc", "-t", "t"}).status, kExitUsage);
  EXPECT_EQ(Run({"log", "prove", "5", "-t", "t"}).status, kExitRpcBase + 3);
}

TEST_F(LogCommandTest, ConsistencyIsCheckedBeforeItIsPrinted) {
  const CliResult result = Run({"log", "consistency", "3", "-t", "t"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("old size  3\n"));
  EXPECT_THAT(result.out, HasSubstr("new size  5\n"));
  const Json json = Json::parse(Run({"log", "consistency", "2", "4", "-t", "t", "-o", "json"}).out);
  EXPECT_EQ(json["new_size"], 4);
  EXPECT_EQ(json["hashes"].size(), 1u);
  const std::string file = folder_ + "/proof";
  EXPECT_EQ(Run({"log", "consistency", "2", "4", "-t", "t", "--out", file}).status, kExitOk);
  const std::string hash = *audit::DecodeBase64(ReadFile(file).substr(0, 44));
  EXPECT_EQ(json["hashes"][0], audit::Hex(hash));
  EXPECT_EQ(ReadFile(file).substr(44), "\n");
  EXPECT_GE(Run({"log", "consistency", "0", "-t", "t"}).status, kExitRpcBase);
  EXPECT_EQ(Run({"log", "consistency", "-t", "t"}).status, kExitUsage);
}

// Each answer verifies in itself and is not what was asked for.
TEST_F(LogCommandTest, AnAnswerToAnotherQuestionIsRefused) {
  const std::string file = folder_ + "/proof";
  const client::InclusionProof of_two = *server_->GetInclusionProof({.tenant = "t", .sequence = 2});
  const client::InclusionProof older =
      *server_->GetInclusionProof({.tenant = "t", .sequence = 3, .size = 4});
  const std::vector<std::function<void(client::InclusionProof&)>> lies = {
      [&](client::InclusionProof& proof) { proof = of_two; },
      [&](client::InclusionProof& proof) { proof.tlog_proof = of_two.tlog_proof; },
      [&](client::InclusionProof& proof) { proof.tlog_proof = "no proof"; },
      [&](client::InclusionProof& proof) { proof.hashes.pop_back(); },
      // The numbers of an older tree beside the text of the present one.
      [&](client::InclusionProof& proof) {
        const std::string text = proof.tlog_proof;
        proof = older;
        proof.tlog_proof = text;
      },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    server_->bend_inclusion = lies[i];
    const CliResult result = Run({"log", "prove", "3", "-t", "t", "--out", file});
    EXPECT_EQ(result.status, kExitNotVerified) << i << result.err;
    EXPECT_THAT(result.err, HasSubstr("the server's proof is wrong"));
    EXPECT_FALSE(std::filesystem::exists(file)) << i;
  }
  server_->bend_inclusion = [&](client::InclusionProof& proof) { proof = older; };
  EXPECT_EQ(Run({"log", "prove", "3", "-t", "t", "--size", "5"}).status, kExitNotVerified);

  server_->bend_consistency = [](client::ConsistencyProof& proof) {
    proof.old_size = proof.new_size;
    proof.old_root = proof.new_root;
    proof.hashes.clear();
  };
  EXPECT_EQ(Run({"log", "consistency", "3", "-t", "t"}).status, kExitNotVerified);
  EXPECT_EQ(Run({"log", "consistency", "3", "4", "-t", "t"}).status, kExitNotVerified);
}

TEST_F(LogCommandTest, KeysAreListedWithWhatTheySign) {
  const CliResult result = Run({"log", "key", "-t", "t"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.out, HasSubstr("   0  " + server_->vkey() + "\n"));
  EXPECT_EQ(Json::parse(Run({"log", "key", "t", "-o", "json"}).out)[0]["vkey"], server_->vkey());
}

TEST_F(LogCommandTest, ARewrapNeedsConsentAndGoesOnWithTheOthers) {
  server_->tenants["u"];
  server_->tenants["v"];
  const CliResult refused = Run({"key", "rewrap"});
  EXPECT_EQ(refused.status, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr("3 tenant(s)"));
  EXPECT_THAT(refused.err, HasSubstr("worthless"));
  EXPECT_THAT(server_->calls, Not(Contains("RewrapKeys")));
  const CliResult one = Run({"key", "rewrap", "t", "-y", "-o", "json"});
  EXPECT_EQ(one.status, kExitOk);
  ASSERT_EQ(Json::parse(one.out).size(), 1u);
  EXPECT_EQ(Json::parse(one.out)[0]["epoch"], 2);
  EXPECT_EQ(
      Json::parse(Run({"key", "rewrap", "--tenant", "u", "-y", "-o", "json"}).out)[0]["tenant"],
      "u");
  EXPECT_EQ(Run({"key", "rewrap", "nobody", "-y"}).status, kExitRpcBase + 5);
  server_->pending = {"u"};
  const CliResult all = Run({"key", "rewrap", "-y", "-o", "json"});
  EXPECT_EQ(all.status, kExitRpcBase + 14);
  EXPECT_THAT(all.err, HasSubstr("u: not done"));
  ASSERT_EQ(Json::parse(all.out).size(), 2u);
  EXPECT_EQ(Json::parse(all.out)[1]["tenant"], "v");
}

TEST_F(LogCommandTest, ARotationNeedsConsentAndSaysWhatIsLeft) {
  const CliResult refused = Run({"key", "rotate"});
  EXPECT_EQ(refused.status, kExitUsage);
  EXPECT_THAT(server_->calls, Not(Contains("RotateKey")));
  const CliResult done = Run({"key", "rotate", "-y"});
  EXPECT_EQ(done.status, kExitOk);
  EXPECT_THAT(done.out, HasSubstr("complete     yes, the old key is destroyed\n"));
  server_->pending = {"broken"};
  const CliResult pending = Run({"key", "rotate", "-y"});
  EXPECT_EQ(pending.status, kExitOk);
  EXPECT_THAT(pending.out, HasSubstr("complete     no, the old key is kept\n"));
  EXPECT_THAT(pending.out, HasSubstr("pending      broken\n"));
  EXPECT_THAT(pending.err, HasSubstr("goes on"));
  EXPECT_EQ(Json::parse(Run({"key", "rotate", "-y", "-o", "json"}).out)["pending"][0], "broken");
}

TEST_F(LogCommandTest, VerifySaysWhetherTheBitsAreEqual) {
  const CliResult equal = Run({"verify", "t", "m"});
  EXPECT_EQ(equal.status, kExitOk) << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("verdict       bit-identical\n"));
  EXPECT_EQ(RunIn({"verify"}).out, equal.out);
  server_->refit_differs = true;
  const CliResult differs = Run({"verify", "t", "m", "-o", "json"});
  EXPECT_EQ(differs.status, kExitNotVerified);
  EXPECT_EQ(Json::parse(differs.out)["bits_equal"], false);
  EXPECT_THAT(differs.err, HasSubstr("differed from a cold refit"));
  EXPECT_EQ(Run({"verify", "t"}).status, kExitUsage);
  EXPECT_EQ(Run({"verify", "t", "none"}).status, kExitRpcBase + 5);
}

}  // namespace
}  // namespace lethe::cli
