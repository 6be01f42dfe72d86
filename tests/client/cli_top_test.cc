// `lethe top`: what it shows, how it draws, and that a terminal is as it was afterwards.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <deque>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/exit_codes.h"
#include "client/cli/table.h"
#include "client/cli/top.h"
#include "nlohmann/json.hpp"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Plays a list of events, then quits; keeps what was drawn.
class FakeTerminal : public Terminal {
 public:
  void Enter() override { entered = true; }
  void Leave() override { left = true; }
  void Draw(absl::string_view frame) override { frames.emplace_back(frame); }
  Event Wait(absl::Duration limit) override {
    if (until && !until()) {
      absl::SleepFor(std::min(limit, absl::Milliseconds(1)));
      return Event::kTimeout;
    }
    if (events.empty()) return Event::kQuit;
    const Event event = events.front();
    events.pop_front();
    return event;
  }
  size_t columns() const override { return width; }
  size_t rows() const override { return height; }

  std::deque<Event> events;
  std::function<bool()> until;
  std::vector<std::string> frames;
  size_t width = 80;
  size_t height = 24;
  bool entered = false;
  bool left = false;
};

class TopTest : public CliTest {
 protected:
  // With a terminal.
  CliResult Top(std::vector<std::string> arguments) {
    std::istringstream in;
    std::ostringstream out, err;
    Io io{.in = in,
          .out = out,
          .err = err,
          .in_is_terminal = true,
          .err_is_terminal = true,
          .terminal = &screen_};
    arguments.insert(arguments.begin(), "top");
    const int status = RunCli(arguments, io, [this](client::Options options) {
      connected_ = options;
      return server_;
    });
    return {status, out.str(), err.str()};
  }

  FakeTerminal screen_;
};

TEST_F(TopTest, OneTurnAsTableAndAsJson) {
  Fill({"a", "b", "c"});
  const CliResult table = Run({"top", "--once"});
  EXPECT_EQ(table.status, kExitOk) << table.err;
  EXPECT_THAT(table.out, HasSubstr("1 of 1 tenants, 1 memories, 3 tokens"));
  EXPECT_THAT(table.out, HasSubstr("TENANT  MEMORY  TOKENS  +/-  MARGIN  ERROR  RESERVE"));
  EXPECT_THAT(table.out, ::testing::ContainsRegex("t +m +3 +- +3 +0 +0 +active"));
  const CliResult lines = Run({"top", "-o", "jsonl", "--count", "2", "--interval", "0.1"});
  EXPECT_EQ(lines.status, kExitOk);
  const std::vector<std::string> turns = absl::StrSplit(lines.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(turns.size(), 2u);
  const auto first = nlohmann::json::parse(turns[0]);
  const auto second = nlohmann::json::parse(turns[1]);
  EXPECT_EQ(first["tokens"], 3);
  EXPECT_EQ(first["memories"][0]["margin"], 3);
  EXPECT_FALSE(first["memories"][0].contains("change")) << "nothing before it";
  EXPECT_EQ(second["memories"][0]["change"], 0);
}

TEST_F(TopTest, ChangesAreSinceTheTurnBefore) {
  Fill({"a", "b"});
  TopWatcher watcher(client::Client(server_), "", 20);
  EXPECT_EQ(watcher.Look()->rows[0].change, std::nullopt);
  Fill({"a", "b", "c", "d"});
  EXPECT_EQ(watcher.Look()->rows[0].change, 2);
  server_->tenants["t"]["m"].tokens.clear();
  EXPECT_EQ(watcher.Look()->rows[0].change, -4);
  server_->tenants["t"]["new"] = server_->tenants["t"]["m"];
  const absl::StatusOr<TopLook> look = watcher.Look();
  ASSERT_EQ(look->rows.size(), 2u);
  EXPECT_EQ(look->rows[1].change, std::nullopt) << "a memory that was not there";
  // One that goes away and comes back starts anew.
  server_->tenants["t"].erase("new");
  ASSERT_EQ(watcher.Look()->rows.size(), 1u);
  server_->tenants["t"]["new"] = server_->tenants["t"]["m"];
  EXPECT_EQ(watcher.Look()->rows[1].change, std::nullopt);
}

TEST_F(TopTest, LooksAtSoManyTenantsAndOpensNoOther) {
  for (int i = 0; i < 30; ++i) server_->tenants[absl::StrCat("t", 10 + i)]["m"];
  TopWatcher watcher(client::Client(server_), "", 5);
  const absl::StatusOr<TopLook> look = watcher.Look();
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_EQ(look->tenants, 30u);
  EXPECT_EQ(look->looked_at, 5u);
  EXPECT_EQ(std::count(server_->calls.begin(), server_->calls.end(), "ListMemories"), 5);
  TopWatcher one(client::Client(server_), "t39", 5);
  EXPECT_EQ(one.Look()->rows[0].memory.name.tenant, "t39");
  server_->failures["ListMemories"] = absl::NotFoundError("no such tenant");
  EXPECT_EQ(watcher.Look()->looked_at, 0u) << "deleted between two calls";
  // One that is quarantined does not hide the others.
  server_->failures["ListMemories"] = absl::UnavailableError("quarantined: its file is damaged");
  const absl::StatusOr<TopLook> troubled = watcher.Look();
  ASSERT_TRUE(troubled.ok()) << troubled.status();
  ASSERT_EQ(troubled->troubles.size(), 5u);
  EXPECT_EQ(troubled->looked_at, 0u);
  EXPECT_EQ(troubled->troubles[0].tenant, "t10");
  EXPECT_THAT(TopLines(*troubled, "a:1", absl::Seconds(2), "", 80, 24),
              testing::Contains("t10: quarantined: its file is damaged"));
  EXPECT_TRUE(absl::IsUnavailable(one.Look().status())) << "it alone was asked for";
  server_->failures.clear();
  watcher.Stop();
  EXPECT_TRUE(absl::IsCancelled(watcher.Look().status()));
  server_->failures["ListMemories"] = absl::NotFoundError("no such tenant");
  TopWatcher none(client::Client(server_), "absent", 5);
  EXPECT_TRUE(absl::IsNotFound(none.Look().status()));
}

TEST_F(TopTest, LinesFitTheWindow) {
  TopLook look;
  for (int i = 0; i < 40; ++i) {
    TopRow row;
    row.memory.name = {absl::StrCat("a-tenant-with-a-very-long-name-", std::string(30, 'x'), i),
                       absl::StrCat("a-memory-with-a-long-name-too-", i)};
    row.memory.partition = {.margin = 123'456'789, .error = 987'654'321, .reserve = 1'000'000'000};
    row.memory.phase = client::MemoryPhase::kWarming;
    row.verdict = client::Verdict::kBitIdentical;
    row.change = -1234567;
    look.rows.push_back(row);
  }
  for (const size_t columns : {80u, 132u, 20u}) {
    for (const size_t rows : {24u, 3u, 1u, 100u}) {
      const std::vector<std::string> lines =
          TopLines(look, "127.0.0.1:7421", absl::Seconds(2), "", columns, rows);
      EXPECT_LE(lines.size(), rows);
      for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), columns) << line;
    }
  }
  EXPECT_THAT(TopLines(look, "a:1", absl::Seconds(2), "", 80, 24).back(), HasSubstr("and 21 more"));
}

TEST_F(TopTest, DrawsOverWhatIsThereAndNeverClearsFirst) {
  const std::string frame = TopFrame({"one", "two"});
  EXPECT_EQ(frame, "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J");
  EXPECT_THAT(frame, Not(HasSubstr("\x1b[2J")));
}

TEST_F(TopTest, RunsUntilItIsToldToEnd) {
  Fill({"a"});
  screen_.until = [this] {
    return !screen_.frames.empty() && absl::StrContains(screen_.frames.back(), "1 tokens");
  };
  screen_.events = {Terminal::Event::kResized};
  const CliResult result = Top({});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_TRUE(screen_.entered);
  EXPECT_TRUE(screen_.left);
  EXPECT_EQ(result.out, "") << "nothing beside the screen";
  EXPECT_LE(connected_->deadline, absl::Seconds(5)) << "so that the end is near";
  EXPECT_THAT(screen_.frames.front(), HasSubstr("asking"));
  EXPECT_GE(screen_.frames.size(), 3u) << "one more after the window changed";
}

TEST_F(TopTest, AServerThatFailsEndsItAtTheFirstTurnAndIsToldOfLater) {
  server_->failures["ListTenants"] = absl::UnavailableError("no server");
  screen_.until = [] { return false; };
  const CliResult refused = Top({});
  EXPECT_EQ(refused.status, kExitRpcBase + 14);
  EXPECT_THAT(refused.err, HasSubstr("no server"));
  EXPECT_TRUE(screen_.left) << "before the error is written";

  server_->failures.clear();
  Fill({"a"});
  screen_ = FakeTerminal();
  screen_.until = [this] {
    if (screen_.frames.empty()) return false;
    if (absl::StrContains(screen_.frames.back(), "1 tokens")) {
      server_->failures["ListTenants"] = absl::UnavailableError("gone");
    }
    return absl::StrContains(screen_.frames.back(), "no answer: gone");
  };
  EXPECT_EQ(Top({"--interval", "0.1"}).status, kExitOk);
  EXPECT_THAT(screen_.frames.back(), HasSubstr(" m ")) << "what was seen stays";
}

TEST_F(TopTest, WrongUsage) {
  Fill({"a"});
  EXPECT_EQ(Run({"top"}).status, kExitUsage) << "no terminal";
  EXPECT_EQ(Run({"top", "-o", "json"}).status, kExitUsage) << "endless JSON is none";
  EXPECT_EQ(Run({"top", "--once", "--interval", "0"}).status, kExitUsage);
  EXPECT_EQ(Run({"top", "--once", "--interval", "nan"}).status, kExitUsage);
  EXPECT_EQ(Run({"top", "--once", "--tenants", "0"}).status, kExitUsage);
  EXPECT_EQ(Run({"top", "--once", "-o", "json"}).status, kExitOk);
}

// The real program on a real terminal: no server answers on port 1, which ends it at once; with
// a stopped listener it waits until q or Ctrl-C.
class PtyTest : public testing::Test {
 protected:
  void Start(const std::string& address) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      execl(LETHE_BINARY_DIR "/lethe", "lethe", "top", "--address", address.c_str(), "--timeout",
            "0.2s", static_cast<char*>(nullptr));
      _exit(127);
    }
    ASSERT_EQ(tcgetattr(terminal_, &before_), 0);
  }
  void ReadUntil(const std::string& wanted) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!absl::StrContains(output_, wanted) && absl::Now() < deadline) {
      pollfd input{.fd = terminal_, .events = POLLIN, .revents = 0};
      if (poll(&input, 1, 1000) <= 0) continue;
      char buffer[4096];
      const ssize_t got = read(terminal_, buffer, sizeof buffer);
      if (got <= 0) break;
      output_.append(buffer, static_cast<size_t>(got));
    }
    EXPECT_THAT(output_, HasSubstr(wanted));
  }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return status;
  }
  void TearDown() override { close(terminal_); }

  pid_t pid_ = -1;
  int terminal_ = -1;
  termios before_{};
  std::string output_;
};

TEST_F(PtyTest, QCtrlCAndASignalEndItAndTheTerminalIsAsItWas) {
  // Accepts connections and never answers.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  socklen_t length = sizeof name;
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &length), 0);
  for (const std::string way : {"q", "\x03", "signal"}) {
    output_.clear();
    Start(absl::StrCat("127.0.0.1:", ntohs(name.sin_port)));
    ReadUntil("asking");
    EXPECT_THAT(output_, ::testing::StartsWith("\x1b[?1049h\x1b[?25l"));
    termios during{};
    ASSERT_EQ(tcgetattr(terminal_, &during), 0);
    EXPECT_EQ(during.c_lflag & static_cast<tcflag_t>(ICANON | ECHO), 0u);
    if (way == "signal") {
      kill(pid_, SIGTERM);
    } else {
      ASSERT_EQ(write(terminal_, way.data(), way.size()), 1);
    }
    ReadUntil("\x1b[?25h\x1b[?1049l");
    const int status = Wait();
    termios after{};
    ASSERT_EQ(tcgetattr(terminal_, &after), 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << way << " " << status;
    EXPECT_EQ(after.c_lflag, before_.c_lflag) << way;
    close(terminal_);
  }
  close(listener);
  terminal_ = -1;
}

}  // namespace
}  // namespace lethe::cli
