// lethe job.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using client::Job;
using client::JobState;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CliJobTest : public CliTest {
 protected:
  CliJobTest() { Fill({"a"}); }
  static Job At(uint64_t step, JobState state = JobState::kRunning) {
    Job job{.tenant = "t", .id = "j1", .memory = "m", .kind = client::JobKind::kTrainLm};
    job.state = state;
    job.progress = {
        .step = step, .steps = 40, .loss = 2.5, .tokens_per_second = 8100.4, .seconds_left = 75};
    return job;
  }
  std::string Read(const std::string& path) {
    std::stringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }
};

TEST_F(CliJobTest, EveryFieldOfAKindIsAFlag) {
  CliResult result = RunIn({"job", "submit", "train-encoder", "--steps", "7", "--unit-length",
                            "true", "--kernel", "laplacian", "--memory-tokens", "32", "--box",
                            "0.25", "--request-id", "r1", "-o", "json"});
  ASSERT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(server_->submitted.request_id, "r1");
  EXPECT_EQ(server_->submitted.memory, "m");
  EXPECT_EQ(server_->submitted.config,
            client::JobConfig(client::TrainEncoderConfig{.unit_length = true,
                                                         .kernel = jobs::JobKernel::kLaplacian,
                                                         .box = 0.25,
                                                         .memory_tokens = 32,
                                                         .steps = 7}));
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["kind"], "train_encoder");
  EXPECT_EQ(json["config"]["kernel"], "laplacian");
  EXPECT_EQ(json["config"]["steps"], 7);
  ASSERT_EQ(RunIn({"job", "submit", "calibrate", "--boxes", "0.1,0.5"}).status, kExitOk);
  EXPECT_EQ(server_->submitted.config,
            client::JobConfig(client::CalibrateConfig{.boxes = {0.1, 0.5}}));
  EXPECT_FALSE(server_->submitted.request_id.empty()) << "so that it can be repeated";

  const CliResult help = Run({"job", "submit", "train-lm", "--help"});
  for (const auto& [name, text] : jobs::FieldTexts(client::TrainLmConfig())) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    EXPECT_THAT(help.out, HasSubstr(flag + " "));
  }
  EXPECT_THAT(help.out, HasSubstr("full|window|hybrid|delta_net|linear|linear_decay"));
}

TEST_F(CliJobTest, WhatIsWrongIsNamedBeforeTheServerIsAsked) {
  for (const auto& [arguments, wanted] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"train-lm", "--steps", "many"}, "train_lm.steps: must be a whole number"},
           {{"train-lm", "--box", "2"}, "train_lm.box: must be 1e-06 to 1"},
           {{"train-lm", "--attention", "some"}, "must be full, window"},
           {{"calibrate", "--boxes", "0.1,x"}, "calibrate.boxes: must be a number"},
           {{"train-encoder", "--colour", "1"}, "--colour"}}) {
    std::vector<std::string> all = {"job", "submit"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const CliResult result = RunIn(all);
    EXPECT_EQ(result.status, kExitUsage);
    EXPECT_THAT(result.err, HasSubstr(wanted));
  }
  EXPECT_THAT(server_->calls, IsEmpty());
  const CliResult result = RunIn({"job", "list", "--state", "busy"});
  EXPECT_EQ(result.status, kExitUsage);
  EXPECT_THAT(result.err, HasSubstr("--state: must be queued, leased"));
  server_->failures["SubmitJob"] = absl::UnavailableError("connection reset");
  EXPECT_THAT(RunIn({"job", "submit", "train-lm", "--request-id", "r9"}).err,
              HasSubstr("repeat it with --request-id r9"));
}

TEST_F(CliJobTest, WatchDrawsOnATerminalAndWritesLinesElsewhere) {
  Job done = At(40, JobState::kSucceeded);
  done.artefact = client::JobArtefact{.bytes = 12, .sha256 = "ab", .manifest = R"({"a":1})"};
  server_->watched = {At(0), At(1), At(2), At(19), At(20), At(40), done};
  CliResult result = RunIn({"job", "watch", "j1"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.out, AllOf(HasSubstr("state     succeeded"), HasSubstr("12 bytes")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("running [----------"),
                                HasSubstr(" 19/40 loss 2.5 8,100/s 1m15s left"),
                                HasSubstr("succeeded [####"), Not(HasSubstr("\r"))));
  EXPECT_THAT(result.err, Not(HasSubstr(" 1/40"))) << "a line a tenth";
  EXPECT_THAT(RunIn({"job", "watch", "j1", "-q"}).err, IsEmpty());

  terminal_ = true;
  result = RunIn({"job", "watch", "j1"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("\r\033[Krunning [##########----------]  50 % 20/40"),
                                testing::EndsWith("\r\033[K")));
  terminal_ = false;

  result = RunIn({"job", "watch", "j1", "-o", "jsonl"});
  std::istringstream lines(result.out);
  std::string line;
  std::vector<Json> seen;
  while (std::getline(lines, line)) seen.push_back(Json::parse(line));
  ASSERT_EQ(seen.size(), 7u);
  EXPECT_EQ(seen[3]["progress"]["step"], 19);
  EXPECT_EQ(seen[6]["artefact"]["manifest"]["a"], 1);

  Job failed = At(5, JobState::kFailed);
  failed.failure = client::JobFailure::kBadInput;
  failed.failure_message = "tokens: 3 are too few";
  server_->watched = {failed};
  result = RunIn({"job", "watch", "j1"});
  EXPECT_EQ(result.status, kExitJob);
  EXPECT_THAT(result.out, AllOf(HasSubstr("bad-input"), HasSubstr("tokens: 3 are too few")));
  server_->watched = {At(5)};
  EXPECT_EQ(RunIn({"job", "watch", "j1"}).status,
            kExitRpcBase + static_cast<int>(absl::StatusCode::kDataLoss))
      << "the watch ended before the job";
  server_->watched = {At(5), failed};
  EXPECT_EQ(RunIn({"job", "submit", "train-lm", "--watch"}).status, kExitJob);
}

TEST_F(CliJobTest, AnArtefactTakesItsNameOnlyWhenItIsWhole) {
  const std::string out = folder_ + "/model";
  const std::string manifest = folder_ + "/manifest.json";
  ASSERT_EQ(RunIn({"job", "artefact", "j1", "--out", out, "--manifest", manifest}).status, kExitOk);
  EXPECT_EQ(Read(out), "artefact");
  EXPECT_EQ(Read(manifest), "{}\n");
  EXPECT_EQ(RunIn({"job", "artefact", "j1", "--out", out}).status, kExitFile) << "it exists";
  server_->job.artefact =
      client::JobArtefact{.bytes = 8, .sha256 = std::string(64, '0'), .manifest = "{}"};
  CliResult result = RunIn({"job", "artefact", "j1", "--out", out + "2"});
  EXPECT_EQ(result.status, kExitRpcBase + static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_THAT(result.err, HasSubstr("SHA-256 differs"));
  server_->artefact_pieces = {"arte"};
  result = RunIn({"job", "artefact", "j1", "--out", out + "2"});
  EXPECT_THAT(result.err, HasSubstr("lost a part"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2)
      << "nothing is left of what failed";
}

TEST_F(CliJobTest, DeletingWantsConsent) {
  EXPECT_EQ(RunIn({"job", "delete", "j1"}).status, kExitUsage);
  EXPECT_THAT(server_->calls, IsEmpty());
  EXPECT_EQ(RunIn({"job", "delete", "j1", "--yes"}).status, kExitOk);
  EXPECT_THAT(server_->calls, testing::ElementsAre("DeleteJob"));
}

}  // namespace
}  // namespace lethe::cli
