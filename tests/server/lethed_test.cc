// The program itself: start, port file, signals, kill -9, second servers, exit codes.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "tests/server/lethed_testing.h"

namespace lethe {
namespace {

using testing::HasSubstr;

TEST_F(LethedTest, StopsOrderlyOnEitherSignalAndKeepsEverything) {
  std::string digest;
  for (const int signal : {SIGTERM, SIGINT}) {
    Daemon daemon(folder_.path(), Arguments());
    const auto channel = daemon.Connect();
    if (digest.empty()) {
      MakeMemory(channel);
      const auto stub = v1::MemoryService::NewStub(channel);
      for (int i = 0; i < 10; ++i) ASSERT_TRUE(Insert(*stub, i));
      digest = Describe(channel).state_digest();
    }
    EXPECT_EQ(Describe(channel).state_digest(), digest);
    daemon.Signal(signal);
    const absl::Time begin = absl::Now();
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
    EXPECT_LT(absl::Now() - begin, absl::Seconds(4));  // although a client is connected
    // Every line of the log is a JSON object, and none tells of tokens.
    std::vector<std::string> events;
    nlohmann::json fields = nlohmann::json::array();
    for (const absl::string_view line : absl::StrSplit(daemon.Log(), '\n', absl::SkipEmpty())) {
      const auto object = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
      ASSERT_TRUE(object.is_object()) << std::string(line);
      events.push_back(object["event"]);
      fields += object;
      fields.back().erase("request_id");  // random
    }
    EXPECT_THAT(events, testing::IsSupersetOf({"serving", "stopping", "stopped"}));
    EXPECT_THAT(fields.dump(), testing::Not(HasSubstr("a3")));
  }
}

// The first start on a folder makes a key and says so; here its log is a pipe that is full, so that
// it waits there, in the middle of opening the service.
void SignalDuringStartUp(int signal, Daemon::As as) {
  const service::TempDir folder;
  const std::string log = folder.path() + "/log";
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  const int pipe = open(log.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  const std::string page(4096, '\n');
  while (write(pipe, page.data(), page.size()) > 0) {
  }
  Daemon daemon(
      folder.path(),
      {"--data", folder.path() + "/data", "--listen", "127.0.0.1:0", "--insecure-loopback"}, as);
  const std::string key = folder.path() + "/data/keys/signing.pem";
  for (int tries = 0; tries < 1000 && access(key.c_str(), F_OK) != 0; ++tries) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_EQ(access(key.c_str(), F_OK), 0);
  absl::SleepFor(absl::Milliseconds(50));
#ifndef __SANITIZE_THREAD__  // which has a thread of its own
  // Signals are blocked only after this, which is right while there is one thread.
  EXPECT_EQ(daemon.Threads(), 1);
#endif
  // What has no handler is ignored by process 1.
  EXPECT_TRUE(daemon.Catches(signal));
  daemon.Signal(signal);
  EXPECT_TRUE(daemon.EndsWithin(absl::Seconds(5)));
  if (!testing::Test::HasFailure()) {
    EXPECT_EQ(daemon.Wait(), 128 + signal);
  }
  close(pipe);
}

TEST_F(LethedTest, ASignalDuringStartUpEndsItAtOnce) {
  for (const int signal : {SIGTERM, SIGINT}) SignalDuringStartUp(signal, Daemon::As::kAnyProcess);
}

// As a shell without job control starts what it puts into the background.
TEST_F(LethedTest, AnInterruptThatIsIgnoredStaysSo) {
  Daemon daemon(folder_.path(), Arguments(), Daemon::As::kIgnoresInterrupts);
  const auto channel = daemon.Connect();
  daemon.Signal(SIGINT);
  MakeMemory(channel);
  EXPECT_TRUE(daemon.Lines("stopping").empty()) << daemon.Log();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_EQ(daemon.Lines("stopping").size(), 1u);
}

TEST_F(LethedTest, AsProcessOneOfAContainerItIsEndedBySignalsToo) {
  if (!ForksProcessOne()) return;
  for (const int signal : {SIGTERM, SIGINT}) SignalDuringStartUp(signal, Daemon::As::kProcessOne);
  // In order once it serves, and at once by a second one.
  {
    Daemon daemon(folder_.path(), Arguments(), Daemon::As::kProcessOne);
    MakeMemory(daemon.Connect());
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  }
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--drain-delay", "1h"});
  Daemon daemon(folder_.path(), arguments, Daemon::As::kProcessOne);
  daemon.Connect();
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.WaitForLines("stopping", 1).size(), 1u);
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(daemon.EndsWithin(absl::Seconds(5)));
  EXPECT_EQ(daemon.Wait(), 128 + SIGTERM);
}

TEST_F(LethedTest, KillNineLosesNothingAcknowledged) {
  int acknowledged = 0;
  for (int round = 0; round < 4; ++round) {
    Daemon daemon(folder_.path(), Arguments());
    const auto channel = daemon.Connect();
    if (round == 0) MakeMemory(channel);
    const auto stub = v1::MemoryService::NewStub(channel);
    // What was acknowledged is there; at most the one in flight may be there as well.
    for (int i = 0; i < acknowledged; ++i) {
      bool inserted = true;
      ASSERT_TRUE(Insert(*stub, i, &inserted));
      EXPECT_FALSE(inserted) << "token " << i << " was lost in round " << round;
    }
    // However slow the machine is: from when one insert of this round was acknowledged.
    ASSERT_TRUE(Insert(*stub, acknowledged));
    ++acknowledged;
    std::thread killer([&daemon, round] {
      absl::SleepFor(absl::Milliseconds(30 + 25 * round));
      daemon.Signal(SIGKILL);
    });
    while (Insert(*stub, acknowledged)) ++acknowledged;
    killer.join();
    EXPECT_EQ(daemon.Wait(), 128 + SIGKILL);
  }
  EXPECT_GE(acknowledged, 4);
}

TEST_F(LethedTest, ASecondServerOnTheSameFolderIsRefused) {
  Daemon first(folder_.path(), Arguments());
  ASSERT_NE(first.Port(), 0);
  const service::TempDir elsewhere;
  Daemon second(elsewhere.path(), Arguments());
  EXPECT_EQ(second.Port(), 0);
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("\"failed\""));
}

TEST_F(LethedTest, BadFlagsExitWithUsage) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--listen", "0.0.0.0:0"}, {"--log-level", "loud"}, {"--what"}}) {
    Daemon daemon(folder_.path(), arguments);
    EXPECT_EQ(daemon.Wait(), 64);
    EXPECT_THAT(daemon.Log(), HasSubstr("lethed: "));
  }
}

TEST_F(LethedTest, TheSettingsFileIsReadAndCheckedWithoutTouchingData) {
  const std::string file = folder_.path() + "/lethed.toml";
  std::ofstream(file) << "data = \"" << folder_.path() << "/data\"\nlisten = \"127.0.0.1:0\"\n"
                      << "log-level = \"warning\"\ninsecure-loopback = true\n";
  for (const char* check : {"--check-config", "--print-config"}) {
    Daemon daemon(folder_.path(), {"--config", file, check});
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/data")) << check;
  }
  // So are the files that the settings name.
  const auto made = [this](const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), 0644);
    return path;
  };
  const std::string wrong = made("wrong", "what is this?");
  const std::string missing = folder_.path() + "/none/file";
  for (const auto& [option, path] : std::vector<std::pair<std::string, std::string>>{
           {"--operations-log", missing},
           {"--operations-log", folder_.path()},
           {"--operations-log", wrong},  // others can read it
           {"--callback-ca", missing},
           {"--callback-ca", wrong},
           {"--access", missing},
           {"--access", made("access.toml", "[[tokn]]\n")},
           {"--transcend-key", wrong}}) {
    Daemon refused(folder_.path(), {"--config", file, "--check-config", "--http-listen",
                                    "127.0.0.1:0", option, path});
    EXPECT_EQ(refused.Wait(), 64) << option << " " << path;
    EXPECT_THAT(refused.Log(), HasSubstr(option)) << path;
    EXPECT_THAT(refused.Log(), testing::Not(HasSubstr("what is this")));
  }
  // What this machine cannot keep is found too, at its line.
  std::ofstream(file, std::ios::app) << "memory-limit = \"4096TiB\"\n";
  Daemon refused(folder_.path(), {"--config", file, "--check-config"});
  EXPECT_EQ(refused.Wait(), 64);
  EXPECT_THAT(refused.Log(), HasSubstr(file + ":5: memory-limit: this machine"));
  setenv("LETHE_LISEN", "x", 1);
  Daemon daemon(folder_.path(), {"--config", file, "--memory-limit", "128MiB"});
  EXPECT_NE(daemon.Port(), 0) << daemon.Log();
  unsetenv("LETHE_LISEN");
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/data"));
  EXPECT_THAT(daemon.Log(), HasSubstr("LETHE_LISEN: unknown; did you mean LETHE_LISTEN?"));
  EXPECT_THAT(daemon.Log(), testing::Not(HasSubstr("\"serving\""))) << "log-level";
}

}  // namespace
}  // namespace lethe
