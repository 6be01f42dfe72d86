#include "core/program/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"

namespace lethe::program {
namespace {

std::vector<nlohmann::json> Lines(int fd) {
  std::string text;
  char buffer[65536];
  ssize_t size = 0;
  while ((size = read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<size_t>(size));
  }
  std::vector<nlohmann::json> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(line.begin(), line.end()));
  }
  return lines;
}

TEST(EventLogTest, WritesOneObjectALine) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EventLog log(ends[1], LogLevel::kInfo);
  log.Write(LogLevel::kDebug, "hidden");
  log.Write(LogLevel::kInfo, "first", {{"text", std::string("a\"b\n")}, {"n", int64_t{-7}}});
  log.Write(LogLevel::kError, "second", {{"bytes", std::string("\xff")}, {"seconds", 0.5}});
  close(ends[1]);
  const std::vector<nlohmann::json> lines = Lines(ends[0]);
  close(ends[0]);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["event"], "first");
  EXPECT_EQ(lines[0]["level"], "info");
  EXPECT_EQ(lines[0]["text"], "a\"b\n");
  EXPECT_EQ(lines[0]["n"], -7);
  EXPECT_THAT(lines[0]["time"].get<std::string>(),
              testing::MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9][0-9][0-9]Z"));
  EXPECT_EQ(lines[1]["level"], "error");
  EXPECT_EQ(lines[1]["seconds"], 0.5);
}

TEST(EventLogTest, LinesOfThreadsNeverMix) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EventLog log(ends[1], LogLevel::kInfo);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int64_t i = 0; i < 50; ++i) log.Write(LogLevel::kInfo, "line", {{"i", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  close(ends[1]);
  EXPECT_EQ(Lines(ends[0]).size(), 200u);
  close(ends[0]);
}

TEST(EventLogTest, Levels) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    EXPECT_EQ(*ParseLogLevel(LogLevelName(level)), level);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseLogLevel("loud").status()));
}

}  // namespace
}  // namespace lethe::program
