// Where the settings of lethed come from: flags, environment, file; and that documents and sample
// say what the table of options says.
#include "server/command_line.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "audit/witness.h"
#include "server/options.h"
#include "tests/server/service_testing.h"

namespace lethe::server {
namespace {

using service::Fails;
using service::HasCode;
using service::IsOk;
using service::kInvalid;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

class CommandLineTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"LETHE_CONFIG", "LETHE_LISEN", "LETHE_PORT", "LETHE_TENANT"}) {
      unsetenv(name);
    }
    for (const Option& option : Options()) unsetenv(option.Environment().c_str());
    // Without TLS and access control there is no server but this one.
    setenv("LETHE_INSECURE_LOOPBACK", "true", 1);
  }
  void TearDown() override { SetUp(); }

  std::string File(const std::string& text) const {
    std::ofstream(path()) << text;
    return path();
  }
  std::string path() const { return folder_.path() + "/lethed.toml"; }
  std::string Line(int line) const { return absl::StrCat(path(), ":", line); }

  absl::StatusOr<CommandLine> ParseFile(const std::string& text,
                                        std::vector<std::string> arguments = {}) const {
    arguments.push_back("--config=" + File(text));
    return ParseCommandLine(arguments);
  }

  service::TempDir folder_;
};

TEST_F(CommandLineTest, AFlagWinsOverTheEnvironmentOverTheFileOverTheDefault) {
  const std::string text = "origin = \"file.example\"\nport-file = \"/file\"\nballast = \"1GiB\"\n";
  setenv("LETHE_ORIGIN", "env.example", 1);
  setenv("LETHE_PORT_FILE", "/env", 1);
  const auto parsed = ParseFile(text, {"--origin", "flag.example"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->config.origin, "flag.example");
  EXPECT_EQ(parsed->config.port_file, "/env");
  EXPECT_EQ(parsed->config.ballast, uint64_t{1} << 30);
  EXPECT_EQ(parsed->config.listen, Config{}.listen);
  EXPECT_EQ(parsed->origins.at("origin"), "--origin");
  EXPECT_EQ(parsed->origins.at("port-file"), "LETHE_PORT_FILE");
  EXPECT_EQ(parsed->origins.at("ballast"), Line(3) + ": ballast");
  EXPECT_EQ(parsed->origins.at("listen"), "default");
}

TEST_F(CommandLineTest, TheFileIsNamedByFlagOrEnvironmentAndAnEmptyVariableIsNone) {
  setenv("LETHE_CONFIG", File("origin = \"file.example\"").c_str(), 1);
  EXPECT_EQ(ParseCommandLine({})->config.origin, "file.example");
  const std::string other = folder_.path() + "/other.toml";
  std::ofstream(other) << "origin = \"other.example\"";
  EXPECT_EQ(ParseCommandLine({"--config", other})->config.origin, "other.example");
  setenv("LETHE_ORIGIN", "", 1);
  EXPECT_EQ(ParseCommandLine({})->config.origin, "file.example");
  setenv("LETHE_CONFIG", "", 1);
  EXPECT_EQ(ParseCommandLine({})->config.origin, Config{}.origin);
}

TEST_F(CommandLineTest, EachKindOfOptionCanStandInTheFile) {
  const std::string one = audit::WitnessSigner::Generate("w.example/1")->key().vkey();
  const std::string two = audit::WitnessSigner::Generate("w.example/2")->key().vkey();
  const auto parsed = ParseFile(absl::StrCat(
      "# a remark\nlisten = '[::1]:0'\nverify-forget = \"always\"\nmax-open-tenants = 7\n",
      "memory-limit = 134_217_728\nballast = \"32MiB\"\nlog-level = \"warning\"\n",
      "witness = [\n  \"", one, "\",\n  \"", two, "\",\n]\n"));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->config.listen, "[::1]:0");
  EXPECT_TRUE(parsed->config.refit_on_forget);
  EXPECT_EQ(parsed->config.max_open_tenants, 7u);
  EXPECT_EQ(parsed->config.memory_limit, uint64_t{128} << 20);
  EXPECT_EQ(parsed->config.ballast, uint64_t{32} << 20);
  EXPECT_EQ(parsed->config.log_level, program::LogLevel::kWarning);
  ASSERT_EQ(parsed->config.witnesses.size(), 2u);
  EXPECT_EQ(parsed->config.witnesses[1].vkey(), two);
  // A flag takes the place of the whole list, and an empty list is a list.
  EXPECT_EQ(ParseFile("witness = []", {"--witness", one})->config.witnesses.size(), 1u);
}

TEST_F(CommandLineTest, AnUnknownKeyIsRefusedWithItsLineAndTheNearestName) {
  const auto refused = ParseFile("origin = \"a.example\"\n\nmax-open-tenant = 3\n");
  EXPECT_EQ(refused.status(),
            absl::InvalidArgumentError(
                Line(3) + ": max-open-tenant: unknown; did you mean max-open-tenants?"));
  // The first of several, in the order of the file.
  EXPECT_THAT(ParseFile("zzzzzzzzzz = 1\naaa = 2"), Fails(kInvalid, Line(1) + ": zzzzzzzzzz"));
  EXPECT_THAT(ParseFile("[tenant]\nx = 1"), Fails(kInvalid, Line(1) + ": tenant"));
  // Names are case-sensitive, and those of flags and variables are none.
  EXPECT_THAT(ParseFile("Origin = \"a\""), HasCode(kInvalid));
  EXPECT_THAT(ParseFile("LETHE_ORIGIN = \"a\""), HasCode(kInvalid));
  EXPECT_THAT(ParseFile("config = \"a\""), HasCode(kInvalid));
  EXPECT_EQ(ParseCommandLine({"--balast", "1"}).status(),
            absl::InvalidArgumentError("--balast: unknown; did you mean --ballast?"));
  EXPECT_THAT(ParseCommandLine({"--balast=1"}), Fails(kInvalid, "--balast"));
}

MATCHER_P(Says, text, "") { return absl::StrContains(arg.status().message(), text); }

TEST_F(CommandLineTest, WrongTypesNameTheLineTheKeyAndWhatItIs) {
  for (const auto& [text, key] : std::vector<std::pair<std::string, std::string>>{
           {"listen = 7421", "listen: must be a string, and is a number"},
           {"data = [\"a\"]", "data: must be a string, and is a list"},
           {"verify-forget = true", "verify-forget: must be a string, and is true or false"},
           {"max-open-tenants = \"many\"",
            "max-open-tenants: must be a whole number, and is a string"},
           {"max-open-tenants = 1.5", "max-open-tenants: must be a whole number"},
           {"max-open-tenants = -1", "max-open-tenants: must be a number, at least 1"},
           {"ballast = 1979-05-27", "ballast: must be a string such as"},
           {"ballast = -5", "ballast: must be a number of bytes"},
           {"witness = \"x\"", "witness: must be a list of strings, and is a string"},
           {"witness = [1]", "witness: must be a list of strings alone"},
           {"[listen]\nhost = \"a\"", "listen: must be a string, and is a table"},
       }) {
    const auto refused = ParseFile(text);
    EXPECT_THAT(refused, HasCode(kInvalid)) << text;
    EXPECT_THAT(refused, Says(absl::StrCat(Line(1), ": ", key))) << text << "\n"
                                                                 << refused.status();
  }
  for (const Option& option : Options()) {
    if (option.kind == Option::Kind::kSwitch) {
      EXPECT_THAT(ParseFile(option.name + " = \"true\""), Says("must be true or false"));
    }
  }
}

TEST_F(CommandLineTest, ABadValueIsFoundWhereItStands) {
  EXPECT_THAT(ParseFile("\nlog-level = \"loud\""), Fails(kInvalid, Line(2) + ": log-level"));
  setenv("LETHE_LOG_LEVEL", "loud", 1);
  EXPECT_THAT(ParseCommandLine({}), Fails(kInvalid, "LETHE_LOG_LEVEL"));
  EXPECT_THAT(ParseCommandLine({"--log-level", "info"}), Fails(kInvalid, "LETHE_LOG_LEVEL"))
      << "also where another wins over it";
  unsetenv("LETHE_LOG_LEVEL");
  // What only all of them together say.
  unsetenv("LETHE_INSECURE_LOOPBACK");
  const auto refused = ParseFile("# open\nlisten = \"0.0.0.0:1\"\n");
  EXPECT_THAT(refused, Fails(kInvalid, Line(2) + ": listen"));
  setenv("LETHE_LISTEN", "0.0.0.0:2", 1);
  EXPECT_THAT(ParseCommandLine({}), Fails(kInvalid, "LETHE_LISTEN"));
}

TEST_F(CommandLineTest, AFileThatCannotBeReadOrIsNoTomlIsRefused) {
  EXPECT_THAT(ParseCommandLine({"--config", path()}), Fails(absl::StatusCode::kNotFound, path()));
  EXPECT_THAT(ParseCommandLine({"--config", folder_.path()}), Fails(kInvalid, folder_.path()));
  EXPECT_THAT(ParseFile("origin = \"a\"\norigin = \"b\""), Fails(kInvalid, Line(2)));
  EXPECT_THAT(ParseFile("origin = \"a"), Fails(kInvalid, Line(1)));
  EXPECT_THAT(ParseFile("origin"), Fails(kInvalid, Line(1)));
  EXPECT_THAT(ParseFile("\n\norigin = \"\xff\""), Fails(kInvalid, Line(3)));
  EXPECT_THAT(ParseFile(std::string((size_t{1} << 20) + 1, '#')), Fails(kInvalid, path()));
  EXPECT_THAT(ParseFile(absl::StrCat("a = ", std::string(5000, '['))), Fails(kInvalid, Line(1)));
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ParseCommandLine({"--config", pipe}), Fails(kInvalid, pipe)) << "and does not wait";
  ASSERT_THAT(ParseFile(""), IsOk());
}

TEST_F(CommandLineTest, UnknownVariablesAreToldOf) {
  EXPECT_THAT(ParseCommandLine({})->warnings, Not(testing::Contains(HasSubstr("LISEN"))));
  setenv("LETHE_LISEN", "x", 1);
  setenv("LETHE_PORT", "tcp://10.0.0.1:7421", 1);  // Kubernetes does that
  setenv("LETHE_TENANT", "t", 1);                  // the command line's
  const auto parsed = ParseCommandLine({});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->warnings,
              testing::Contains("LETHE_LISEN: unknown; did you mean LETHE_LISTEN?"));
  for (const std::string& warning : parsed->warnings) {
    EXPECT_THAT(warning, Not(testing::AnyOf(HasSubstr("LETHE_PORT:"), HasSubstr("LETHE_TENANT"))));
  }
}

TEST_F(CommandLineTest, CheckAndPrintAreActionsAndWhatIsPrintedSaysTheSameAgain) {
  EXPECT_EQ(ParseCommandLine({})->action, CommandLine::Action::kServe);
  const auto check = ParseCommandLine({"--check-config"});
  ASSERT_THAT(check, IsOk());
  EXPECT_EQ(check->action, CommandLine::Action::kCheck);
  EXPECT_EQ(check->text, "ok\n");

  const std::string key = audit::WitnessSigner::Generate("w.example/1")->key().vkey();
  setenv("LETHE_WITNESS", key.c_str(), 1);
  setenv("LETHE_DATA", "/with \"quotes\"\tand tab", 1);
  const auto first = ParseFile("memory-limit = \"96MiB\"\nmax-open-tenants = 5",
                               {"--print-config", "--ballast=0", "--verify-forget", "always"});
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->action, CommandLine::Action::kCheck);
  EXPECT_THAT(first->text, HasSubstr(absl::StrCat("memory-limit = \"96MiB\"  # ", Line(1), "\n")));
  EXPECT_THAT(first->text, HasSubstr("ballast = 0  # --ballast\n"));
  EXPECT_THAT(first->text, HasSubstr("log-level = \"info\"  # default\n"));
  EXPECT_THAT(first->text, HasSubstr("# vault: default, vault in the data folder\n"));
  SetUp();
  const auto again = ParseFile(first->text);
  ASSERT_THAT(again, IsOk());
  for (const Option& option : Options()) {
    EXPECT_EQ(option.show(again->config), option.show(first->config)) << option.name;
  }
}

TEST_F(CommandLineTest, HelpFitsEightyColumnsAndNamesEveryFlagVariableAndDefault) {
  const auto parsed = ParseCommandLine({"--help"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->action, CommandLine::Action::kPrint);
  for (const absl::string_view line : absl::StrSplit(parsed->text, '\n')) {
    EXPECT_LE(line.size(), 80u) << std::string(line);
  }
  const std::vector<std::string> words =
      absl::StrSplit(parsed->text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const std::string text = absl::StrJoin(words, " ");
  for (const Option& option : Options()) {
    EXPECT_THAT(text, HasSubstr(option.Flag()));
    EXPECT_THAT(text,
                HasSubstr(absl::StrCat(
                    option.default_text.empty() ? "" : absl::StrCat(option.default_text, ". "), "[",
                    option.Environment(), "]")));
  }
  for (const char* flag : {"--config", "--check-config", "--print-config", "--version"}) {
    EXPECT_THAT(text, HasSubstr(flag));
  }
  EXPECT_EQ(ParseCommandLine({"--version"})->text, "lethed " LETHE_VERSION "\n");
}

TEST_F(CommandLineTest, TheTableIsWellFormed) {
  std::vector<std::string> names;
  for (const Option& option : Options()) {
    EXPECT_EQ(option.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              std::string::npos)
        << option.name;
    EXPECT_EQ(option.placeholder.empty(), option.kind == Option::Kind::kSwitch) << option.name;
    EXPECT_TRUE(absl::EndsWith(option.help, ".")) << option.name;
    EXPECT_EQ(std::count(names.begin(), names.end(), option.name), 0) << option.name;
    names.push_back(option.name);
    // What an option shows, it takes.
    const std::string shown = option.show(Config{});
    if (!shown.empty()) {
      EXPECT_THAT(ParseFile(absl::StrCat(option.name, " = ", shown)), IsOk()) << option.name;
    }
  }
}

// Every line of the sample is commented out, so that a copy changes nothing until somebody does.
TEST_F(CommandLineTest, TheSampleNamesEveryOptionWithItsDefault) {
  const std::string sample = ReadFile(LETHE_SOURCE_DIR "/docs/lethed.toml");
  const auto unchanged = ParseFile(sample);
  ASSERT_THAT(unchanged, IsOk());
  for (const auto& [name, origin] : unchanged->origins) {
    // The one that the fixture sets, so that there is a server at all.
    const bool of_fixture = name == "insecure-loopback";
    EXPECT_EQ(origin, of_fixture ? "LETHE_INSECURE_LOOPBACK" : "default") << name;
  }
  unsetenv("LETHE_INSECURE_LOOPBACK");

  std::vector<std::string> lines = absl::StrSplit(sample, '\n');
  std::vector<std::string> keys;
  for (std::string& line : lines) {
    if (line.rfind("#", 0) == 0 && line.rfind("# ", 0) != 0 && line != "#") {
      line.erase(0, 1);
      keys.push_back(line.substr(0, line.find(' ')));
    }
  }
  std::vector<std::string> names;
  for (const Option& option : Options()) names.push_back(option.name);
  EXPECT_EQ(keys, names) << "docs/lethed.toml";
  const auto set = ParseFile(absl::StrJoin(lines, "\n"));
  ASSERT_THAT(set, IsOk());
  for (const Option& option : Options()) {
    EXPECT_NE(set->origins.at(option.name), "default") << option.name;
    if (!option.show(Config{}).empty()) {
      EXPECT_EQ(option.show(set->config), option.show(Config{})) << option.name;
    }
  }
}

TEST_F(CommandLineTest, TheDocumentHasARowForEveryOption) {
  const std::string document = ReadFile(LETHE_SOURCE_DIR "/docs/configuration.md");
  std::vector<std::string> rows, wanted;
  for (const absl::string_view line : absl::StrSplit(document, '\n')) {
    if (!absl::StartsWith(line, "| `--")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    ASSERT_EQ(cells.size(), 6u) << std::string(line);
    EXPECT_GT(cells[4].size(), 20u) << "no meaning: " << std::string(line);
    rows.push_back(absl::StrCat("|", cells[1], "|", cells[2], "|", cells[3], "|"));
  }
  for (const Option& option : Options()) {
    const std::string shown = option.show(Config{});
    std::string standard = option.default_text;
    if (option.kind == Option::Kind::kSwitch) standard = "off";
    if (standard.empty()) standard = "none";
    if (!shown.empty() && option.kind != Option::Kind::kSwitch) {
      standard = absl::StrCat("`", standard, "`");
    }
    wanted.push_back(absl::StrCat("| `", option.Flag(), option.placeholder.empty() ? "" : " ",
                                  option.placeholder, "` | `", option.Environment(), "` | ",
                                  standard, " |"));
  }
  EXPECT_EQ(rows, wanted) << "docs/configuration.md";
}

}  // namespace
}  // namespace lethe::server
