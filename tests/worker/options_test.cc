// The settings of lethe-worker, from flags, variables and a file.
#include "worker/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lethe::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class WorkerOptionsTest : public testing::Test {
 protected:
  WorkerOptionsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lethe-worker-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~WorkerOptionsTest() override {
    std::filesystem::remove_all(folder_);
    for (const char* name : {"LETHE_WORKER_BACKEND", "LETHE_WORKER_KINDS", "LETHE_WORKER_CONFIG",
                             "LETHE_WORKER_COLOUR", "LETHE_TOKEN"}) {
      unsetenv(name);
    }
  }
  std::string File(const std::string& content) {
    const std::string path = folder_ + "/worker.toml";
    std::ofstream(path) << content;
    return path;
  }
  static Options Parse(const std::vector<std::string>& arguments) {
    const absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? parsed->options : Options();
  }
  static std::string Fails(const std::vector<std::string>& arguments) {
    return std::string(ParseCommandLine(arguments).status().message());
  }
  std::string folder_;
};

TEST_F(WorkerOptionsTest, TheFlagWinsThenTheVariableThenTheFile) {
  const std::string file =
      File("backend = \"cuda\"\nthreads = 3\nkinds = \"calibrate\"\ntls = true\n");
  EXPECT_EQ(Parse({"--config", file}).backend, batched::BackendKind::kCuda);
  EXPECT_EQ(Parse({"--config", file}).threads, 3u);
  EXPECT_TRUE(Parse({"--config", file}).tls);
  setenv("LETHE_WORKER_CONFIG", file.c_str(), 1);
  setenv("LETHE_WORKER_BACKEND", "auto", 1);
  EXPECT_EQ(Parse({}).backend, batched::BackendKind::kAuto);
  EXPECT_THAT(Parse({}).kinds, ElementsAre(jobs::JobKind::kCalibrate));
  const Options options = Parse({"--backend=cpu", "--kinds", "train_lm,train_encoder",
                                 "--checkpoint-time", "1m30s", "--name", "w-1"});
  EXPECT_EQ(options.backend, batched::BackendKind::kCpu);
  EXPECT_THAT(options.kinds, ElementsAre(jobs::JobKind::kTrainLm, jobs::JobKind::kTrainEncoder));
  EXPECT_EQ(options.checkpoint_time, absl::Seconds(90));
  EXPECT_EQ(options.name, "w-1");
  unsetenv("LETHE_WORKER_CONFIG");
  EXPECT_THAT(Parse({}).name, HasSubstr(absl::StrCat(":", getpid())));
}

TEST_F(WorkerOptionsTest, WhatIsWrongIsNamedWhereItStands) {
  EXPECT_THAT(Fails({"--threads", "many"}), StartsWith("--threads: must be a whole number"));
  EXPECT_THAT(Fails({"--backend", "gpu"}), StartsWith("--backend: must be one of auto, cpu, cuda"));
  EXPECT_THAT(Fails({"--kinds", "train_lm,other"}), StartsWith("--kinds: must be some of"));
  EXPECT_THAT(Fails({"--name", "a b"}), StartsWith("--name: "));
  EXPECT_THAT(Fails({"--checkpoint-time", "0s"}), StartsWith("--checkpoint-time: "));
  EXPECT_THAT(Fails({"--metrics-listen", "0.0.0.0:9000"}),
              HasSubstr("needs --metrics-beyond-loopback"));
  EXPECT_EQ(Parse({"--metrics-listen", "0.0.0.0:9000", "--metrics-beyond-loopback"}).metrics_listen,
            "0.0.0.0:9000");
  EXPECT_THAT(Fails({"--bakend", "cpu"}), HasSubstr("did you mean --backend?"));
  EXPECT_THAT(Fails({"--config", File("bakend = \"cpu\"\n")}),
              AllOf(HasSubstr("worker.toml:1: "), HasSubstr("backend")));
  EXPECT_THAT(Fails({"--config", File("\nthreads = \"2\"\n")}),
              HasSubstr("worker.toml:2: threads: must be a whole number, and is a string"));
  setenv("LETHE_WORKER_KINDS", "none", 1);
  EXPECT_THAT(Fails({}), StartsWith("LETHE_WORKER_KINDS: "));
  unsetenv("LETHE_WORKER_KINDS");
  setenv("LETHE_WORKER_COLOUR", "red", 1);
  EXPECT_THAT(ParseCommandLine({})->warnings,
              ElementsAre(StartsWith("LETHE_WORKER_COLOUR: unknown")));
  // Tokens go over TLS or to this machine, as the client has it.
  setenv("LETHE_TOKEN", "secret", 1);
  EXPECT_THAT(Fails({"--server", "lethe.example:7421"}), HasSubstr("is sent over TLS"));
  EXPECT_EQ(ConnectionOptions(Parse({"--server", "lethe.example:7421", "--tls"})).token, "secret");
  EXPECT_FALSE(ConnectionOptions(Parse({})).tls.has_value());
}

TEST_F(WorkerOptionsTest, HelpFitsATerminalAndNamesEveryVariable) {
  const absl::StatusOr<CommandLine> help = ParseCommandLine({"--help"});
  ASSERT_TRUE(help.ok());
  EXPECT_TRUE(help->print);
  for (const absl::string_view line : absl::StrSplit(help->text, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(help->text, HasSubstr("LETHE_WORKER_CHECKPOINT_STEPS"));
  EXPECT_THAT(ParseCommandLine({"--version"})->text, StartsWith("lethe-worker "));
  EXPECT_THAT(ManualPage(), HasSubstr("SIGTERM"));
}

}  // namespace
}  // namespace lethe::worker
