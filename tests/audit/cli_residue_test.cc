// `lethe-verify residue` as a program.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;
using testing::WriteAll;

constexpr char kSecret[] = "patient-000123";

struct Outcome {
  int code = -1;
  std::string out;  // stdout and stderr together
};

class ResidueTest : public ::testing::Test {
 protected:
  ResidueTest() {
    std::filesystem::create_directories(folder_ / "data");
    const std::vector<double> key = {0.1, -2.5, 1.0 / 3, 7};
    std::string bytes(key.size() * sizeof(double), '\0');
    std::memcpy(bytes.data(), key.data(), bytes.size());
    WriteAll(folder_ / "data/log", absl::StrCat("forgot ", kSecret, "\n"));
    WriteAll(folder_ / "data/table", absl::StrCat("xyz", bytes, "xyz"));
    WriteAll(folder_ / "texts", absl::StrCat("somebody else\r\n", kSecret, "\n"));
    WriteAll(folder_ / "vectors", "[0.1, -2.5, 0.3333333333333333, 7]\n9.5,8.5\n");
    WriteAll(folder_ / "tokens.ndjson",
             absl::StrCat("{\"id\":\"", kSecret,
                          "\",\"key\":[0.1,-2.5,0.3333333333333333,7],\"value\":[1],"
                          "\"payload\":\"free text of hers\"}\n"));
  }

  Outcome Residue(const std::string& arguments) const {
    Outcome outcome;
    const std::string line = absl::StrCat("{ cd '", folder_.path(), "' && '", LETHE_BINARY_DIR,
                                          "/lethe-verify' residue ", arguments, "\n} 2>&1");
    std::FILE* pipe = ::popen(line.c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> buffer;
    size_t count = 0;
    while ((count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
      outcome.out.append(buffer.data(), count);
    }
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
    std::istringstream lines(outcome.out);
    const bool json = arguments.find("--json") != std::string::npos;
    const bool report = outcome.code == 0 || outcome.code > 7;
    for (std::string one; report && !json && std::getline(lines, one);)
      EXPECT_LE(one.size(), 80u) << one;
    // Nothing that is searched for is ever printed.
    EXPECT_THAT(outcome.out, Not(HasSubstr("000123")));
    return outcome;
  }

  const TempFolder folder_;
};

TEST_F(ResidueTest, SaysWhatStandsWhere) {
  const Outcome found = Residue("data --texts-file texts --vectors-file vectors");
  EXPECT_EQ(found.code, 8);
  EXPECT_THAT(found.out, AllOf(HasSubstr("FOUND     2 places, 2 of 4 things, in 2 files"),
                               HasSubstr("data/log\n"), HasSubstr("data/table\n"),
                               HasSubstr("self-test   all of them found")));
  EXPECT_THAT(found.out, ::testing::ContainsRegex(" 7  text 2 +utf-8\n"));
  EXPECT_THAT(found.out, ::testing::ContainsRegex(" 3  vector 1 +f64le\n"));
  const Outcome json = Residue("data --json --texts-file texts --vectors-file vectors");
  EXPECT_EQ(json.code, 8);
  EXPECT_THAT(json.out,
              AllOf(HasSubstr("\"verdict\":\"found\""), HasSubstr("\"places\":2,"),
                    HasSubstr("{\"bytes\":14,\"file\":\"data/log\",\"form\":\"utf-8\","
                              "\"inName\":false,\"of\":14,\"offset\":7,\"thing\":\"text 2\"")));
  EXPECT_THAT(Residue("data --list 1 --texts-file texts --vectors-file vectors").out,
              AllOf(HasSubstr("listed: 1 of 2 places"), Not(HasSubstr("data/table"))));
  const Outcome clean = Residue("data --text 'somebody else' --vector=9.5,8.5");
  EXPECT_EQ(clean.code, 0);
  EXPECT_THAT(clean.out, HasSubstr("NOTHING FOUND  2 things in 2 files"));
}

TEST_F(ResidueTest, TokensAndControls) {
  const std::string tokens = " --tokens tokens.ndjson";
  const Outcome found = Residue("data" + tokens + " --control tokens.ndjson");
  EXPECT_EQ(found.code, 8);
  EXPECT_THAT(found.out, AllOf(HasSubstr("token 1 id"), HasSubstr("token 1 key"),
                               HasSubstr("holds all of them"), HasSubstr("token 1 value")));
  EXPECT_EQ(Residue("tokens.ndjson --expect-found -q" + tokens).code, 0);
  const Outcome missing = Residue("data --expect-found -q" + tokens);
  EXPECT_EQ(missing.code, 8);
  EXPECT_EQ(missing.out, "NOT FOUND  token 1 payload\n");
  std::filesystem::remove(folder_ / "data/log");
  std::filesystem::remove(folder_ / "data/table");
  WriteAll(folder_ / "data/other", "nothing");
  EXPECT_EQ(Residue("data --control tokens.ndjson" + tokens).code, 0);
  // A control without the things makes "nothing found" worthless.
  const Outcome worthless = Residue("data --control texts" + tokens);
  EXPECT_EQ(worthless.code, 8);
  EXPECT_THAT(worthless.out, HasSubstr("WORTHLESS  the control does not hold token 1 payload"));
}

TEST_F(ResidueTest, ExitCodesTellTheClass) {
  EXPECT_EQ(Residue("").code, 1);
  EXPECT_EQ(Residue("data").code, 1);
  EXPECT_EQ(Residue("data --text abcdefgh --run 0").code, 1);
  EXPECT_EQ(Residue("absent --text abcdefgh").code, 2);
  EXPECT_EQ(Residue("data --texts-file absent").code, 2);
  EXPECT_EQ(Residue("data --text abcdefgh --control absent").code, 2);
  EXPECT_EQ(Residue("data --text abcdefgh > /dev/full").code, 2);
  const Outcome brief = Residue("data --text abcde");
  EXPECT_EQ(brief.code, 3);
  EXPECT_THAT(brief.out, AllOf(HasSubstr("text 1 is shorter than 6"), Not(HasSubstr("abcde"))));
  EXPECT_EQ(Residue("data --text abcde --allow-short").code, 0);
  const Outcome common = Residue("data --vector 0");
  EXPECT_EQ(common.code, 3);
  EXPECT_THAT(common.out, HasSubstr("vector 1 holds common numbers only"));
  EXPECT_EQ(Residue("data --vector 1,x").code, 3);
  EXPECT_EQ(Residue("data --vector [1.5,2").code, 3);
  WriteAll(folder_ / "gap", "abcdefgh\n\nabcdefgi\n");
  EXPECT_THAT(Residue("data --texts-file gap").out, HasSubstr("line 2: is empty"));
  // Not everything could be read; there was nothing to read; a file is not what it was.
  EXPECT_EQ(Residue("/proc/self/mem --text abcdefgh").code, 9);
  std::filesystem::create_directories(folder_ / "void");
  EXPECT_EQ(Residue("void --text abcdefgh").code, 9);
  EXPECT_EQ(Residue("/proc/self/status --text abcdefgh").code, 9);
  EXPECT_EQ(Residue("/proc/self/status --text abcdefgh --live").code, 0);
}

TEST_F(ResidueTest, NamesAreSearchedAndNotRepeated) {
  WriteAll(folder_ / absl::StrCat("data/", kSecret, ".txt"), "");
  WriteAll(folder_ / "data/\x1b[2J", kSecret);
  const Outcome found = Residue("data --texts-file texts");
  EXPECT_EQ(found.code, 8);
  EXPECT_THAT(found.out, AllOf(HasSubstr("data/[text 2].txt\n        in the name  text 2"),
                               HasSubstr("data/\\x1b[2J"), Not(HasSubstr("\x1b"))));
}

TEST_F(ResidueTest, HelpExplains) {
  const Outcome help = Residue("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Exit status\n  0 nothing found"), HasSubstr("--control")));
  // Sealed rows are found neither before an erasure nor in copies: such a copy is no control.
  EXPECT_THAT(help.out, AllOf(HasSubstr("nothing is found before an erasure either"),
                              Not(HasSubstr("copy"))));
}

}  // namespace
}  // namespace lethe::audit
