// Profiles, completion, and what the exit status says.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/exit_codes.h"
#include "client/cli/program.h"
#include "server/command_line.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ProfileTest : public CliTest {
 protected:
  void Profiles(const std::string& text) {
    std::filesystem::create_directories(folder_ + "/lethe");
    WriteFile("lethe/config.toml", text);
    ASSERT_EQ(chmod(path().c_str(), 0600), 0);
  }
  std::string path() const { return folder_ + "/lethe/config.toml"; }
};

TEST_F(ProfileTest, AProfileSetsWhatNeitherFlagNorVariableDoes) {
  Profiles(
      "default = \"local\"\n"
      "[profile.local]\n"
      "tenant = \"t\"\n"
      "[profile.far]\n"
      "address = \"far.example:1\"\n"
      "tenant = \"t\"\n"
      "memory = \"m\"\n"
      "output = \"jsonl\"\n"
      "timeout = \"5s\"\n");
  Fill({"a"});
  EXPECT_EQ(Run({"memory", "list"}).status, kExitOk) << "the default names the tenant";
  EXPECT_EQ(connected_->address, "127.0.0.1:7421");

  const CliResult far = Run({"memory", "get", "--profile", "far"});
  EXPECT_EQ(far.status, kExitOk) << far.err;
  EXPECT_EQ(far.out.substr(0, 1), "{");
  EXPECT_EQ(connected_->address, "far.example:1");
  EXPECT_EQ(connected_->deadline, absl::Seconds(5));

  setenv("LETHE_PROFILE", "far", 1);
  setenv("LETHE_ADDRESS", "variable.example:2", 1);
  EXPECT_EQ(Run({"memory", "get", "-o", "table"}).out.substr(0, 6), "memory") << "a flag wins";
  EXPECT_EQ(connected_->address, "variable.example:2") << "and a variable";
  EXPECT_EQ(Run({"memory", "list", "--address", "flag.example:3", "--profile", "local"}).status,
            kExitOk);
  EXPECT_EQ(connected_->address, "flag.example:3");
}

TEST_F(ProfileTest, ATokenOfTheEnvironmentWinsOverTheFileOfAProfile) {
  WriteFile("lethe-token", "of-the-profile");
  Profiles("default = \"a\"\n[profile.a]\ntoken-file = \"" + folder_ + "/lethe-token\"\n");
  ASSERT_EQ(Run({"tenant", "list"}).status, kExitOk);
  EXPECT_EQ(connected_->token_file, folder_ + "/lethe-token");
  setenv("LETHE_TOKEN", "of-the-environment", 1);
  ASSERT_EQ(Run({"tenant", "list"}).status, kExitOk);
  EXPECT_EQ(connected_->token, "of-the-environment");
  EXPECT_EQ(connected_->token_file, "");
  // Where a flag names a file, that is what is meant.
  ASSERT_EQ(Run({"tenant", "list", "--token-file", folder_ + "/lethe-token"}).status, kExitOk);
  EXPECT_EQ(connected_->token_file, folder_ + "/lethe-token");
  unsetenv("LETHE_TOKEN");
}

TEST_F(ProfileTest, WithoutAFileThereIsNoProfile) {
  Fill({"a"});
  EXPECT_EQ(Run({"tenant", "list"}).status, kExitOk);
  const CliResult named = Run({"tenant", "list", "--profile", "far"});
  EXPECT_EQ(named.status, kExitUsage);
  EXPECT_THAT(named.err, HasSubstr("profile far: unknown"));
  setenv("XDG_CONFIG_HOME", "relative", 1);  // to be ignored
  setenv("HOME", folder_.c_str(), 1);
  std::filesystem::create_directories(folder_ + "/.config/lethe");
  WriteFile(".config/lethe/config.toml", "[profile.home]\naddress = \"home.example:4\"\n");
  EXPECT_EQ(Run({"tenant", "list", "--profile", "home"}).status, kExitOk);
  EXPECT_EQ(connected_->address, "home.example:4");
}

TEST_F(ProfileTest, MistakesInTheFileNameTheirLine) {
  Fill({"a"});
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"[profile.a]\naddres = \"x:1\"", ":2: addres: unknown; did you mean address?"},
           {"[profile.a]\nprofile = \"x\"", ":2: profile: unknown"},
           {"[profile.a]\nquiet = \"true\"", ":2: quiet: unknown"},
           {"[profile.a]\ntimeout = 5", ":2: timeout: must be a string, and is a number"},
           {"default = \"fa\"\n[profile.far]", ":1: default: fa: unknown; did you mean far?"},
           {"profile = 1", ":1: profile: must be tables"},
           {"[profile]\na = 1", ":2: a: must be a table"},
           {"[profiles.a]", ":1: profiles: unknown; did you mean profile?"},
           {"[profile.a]\n[profile.a]", ":2: "},
           {"default = \"a\"\n[profile.a]\noutput = \"xml\"",
            ":3: output: must be table, json or jsonl"},
       }) {
    Profiles(text);
    const CliResult result = Run({"tenant", "list"});
    EXPECT_EQ(result.status, kExitFile) << text;
    EXPECT_THAT(result.err, HasSubstr(path() + error)) << text;
    EXPECT_THAT(server_->calls, ::testing::IsEmpty());
  }
  // What asks no server does not look at it, so that a shell starts.
  EXPECT_EQ(Run({"completion", "bash"}).status, kExitOk);
  EXPECT_EQ(Run({"version"}).status, kExitOk);
  const std::string problem = WriteFile("absent", "") + ".json";
  for (const std::vector<std::string>& offline : std::vector<std::vector<std::string>>{
           {"solve", problem},
           {"backup", "verify", problem, "--key", "k"},
           {"witness", "key", "w.example", "--out", folder_ + "/w.key"}}) {
    EXPECT_THAT(Run(offline).err, ::testing::Not(HasSubstr(path()))) << offline[0];
  }
  EXPECT_EQ(Run({"profile", "list"}).status, kExitOk) << "each key is a good one";
  Profiles("[profile.far]\n[profile.near]\n");
  EXPECT_THAT(Run({"tenant", "list", "--profile", "fra"}).err, HasSubstr("did you mean far?"));
}

TEST_F(ProfileTest, ListAndShow) {
  Profiles(
      "default = \"b\"\n[profile.b]\ntenant = \"t\"\n[profile.a]\naddress = \"a.example:1\"\n");
  const CliResult list = Run({"profile", "list"});
  EXPECT_EQ(list.status, kExitOk) << list.err;
  EXPECT_THAT(list.out, HasSubstr("a        a.example:1  -"));
  EXPECT_THAT(list.out, ::testing::ContainsRegex("b +- +t +yes"));
  EXPECT_THAT(Run({"profile", "show", "a", "-o", "jsonl"}).out,
              HasSubstr("{\"name\":\"a\",\"default\":false,\"address\":\"a.example:1\"}"));
  EXPECT_THAT(Run({"profile", "show"}).out, HasSubstr("tenant   t"));
  EXPECT_THAT(Run({"profile", "show", "--profile", "a"}).out, HasSubstr("a.example:1"));
  EXPECT_EQ(Run({"profile", "show", "c"}).status, kExitUsage);
  Profiles("");
  EXPECT_EQ(Run({"profile", "show"}).status, kExitUsage);
  EXPECT_THAT(Run({"profile", "list"}).err, HasSubstr("no profiles in " + path()));
}

// ---- Completion, as bash does it. ------------------------------------------------------------

class CompletionTest : public CliTest {
 protected:
  void SetUp() override { WriteFile("lethe.bash", Run({"completion", "bash"}).out); }

  // What bash proposes for the last of these words.
  std::vector<std::string> Complete(const std::vector<std::string>& words) {
    std::string script = absl::StrCat("cd '", folder_, "' && . ./lethe.bash && COMP_WORDS=(");
    for (const std::string& word : words) absl::StrAppend(&script, " '", word, "'");
    absl::StrAppend(&script, ") COMP_CWORD=", words.size() - 1,
                    " && _lethe && printf '%s\\n' \"${COMPREPLY[@]}\"");
    WriteFile("script", script);
    std::string output;
    FILE* bash = popen(absl::StrCat("bash '", folder_, "/script' 2>&1").c_str(), "r");
    for (int c = std::fgetc(bash); c != EOF; c = std::fgetc(bash)) {
      output.push_back(static_cast<char>(c));
    }
    EXPECT_EQ(pclose(bash), 0) << output;
    return absl::StrSplit(output, '\n', absl::SkipEmpty());
  }
};

TEST_F(CompletionTest, BashTakesTheScriptAndZshToo) {
  const std::string bash = absl::StrCat("bash -n '", folder_, "/lethe.bash'");
  EXPECT_EQ(std::system(bash.c_str()), 0);
  WriteFile("_lethe", Run({"completion", "zsh"}).out);
  EXPECT_THAT(ReadFile(folder_ + "/_lethe"), ::testing::StartsWith("#compdef lethe\n"));
  if (std::system("command -v zsh >/dev/null") == 0) {
    EXPECT_EQ(std::system(absl::StrCat("zsh -n '", folder_, "/_lethe'").c_str()), 0);
  }
  EXPECT_EQ(Run({"completion", "fish"}).status, kExitUsage);
}

TEST_F(CompletionTest, VerbsFlagsWordsAndFiles) {
  WriteFile("data file.csv", "");
  std::filesystem::create_directory(folder_ + "/data folder");
  EXPECT_THAT(Complete({"lethe", "t"}), ElementsAre("tenant", "top"));
  EXPECT_THAT(Complete({"lethe", "tenant", ""}), ElementsAre("create", "get", "list", "delete"));
  EXPECT_THAT(Complete({"lethe", "memory", "create", "--ker"}), ElementsAre("--kernel"));
  EXPECT_THAT(Complete({"lethe", "memory", "create", "--kernel", ""}),
              ElementsAre("rbf", "laplacian", "exp_dot"));
  EXPECT_THAT(Complete({"lethe", "tenant", "list", "--ten"}), ElementsAre("--tenant"))
      << "global flags after a verb";
  EXPECT_THAT(Complete({"lethe", "--output", "=", "js"}), ElementsAre("json", "jsonl"));
  EXPECT_THAT(Complete({"lethe", "-o", ""}), ElementsAre("table", "json", "jsonl"));
  EXPECT_THAT(Complete({"lethe", "-t", "memory", "ver"}), ElementsAre("verify", "version"))
      << "a tenant called memory is no verb";
  EXPECT_THAT(Complete({"lethe", "insert", "--file", "da"}),
              ::testing::UnorderedElementsAre("data file.csv", "data folder"));
  EXPECT_THAT(Complete({"lethe", "backup", "verify", "da"}), ElementsAre("data folder"));
  EXPECT_THAT(Complete({"lethe", "-t", ""}), ElementsAre());
  EXPECT_THAT(Complete({"lethe", "no-such-verb", ""}), Not(ElementsAre()));
}

// Every verb of the tree is offered under its parent, in both shells.
TEST_F(CompletionTest, EveryVerbIsOffered) {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{.in = in, .out = out, .err = err};
  const Program program(io, nullptr);
  const std::string zsh = Run({"completion", "zsh"}).out;
  int verbs = 0;
  const std::function<void(const CLI::App&, std::vector<std::string>)> visit =
      [&](const CLI::App& app, std::vector<std::string> path) {
        for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
          std::vector<std::string> words = path;
          words.push_back(verb->get_name());
          EXPECT_THAT(Complete(words), ::testing::Contains(verb->get_name()));
          EXPECT_THAT(zsh, HasSubstr("_" + absl::StrJoin(words, "_") + "() {"));
          ++verbs;
          visit(*verb, words);
        }
      };
  visit(program.app(), {"lethe"});
  EXPECT_GT(verbs, 30);
}

// ---- Variables. ---------------------------------------------------------------------------------

// A person sets them in the shell that also starts a server, which must not warn of them.
TEST_F(CliTest, TheServerKnowsTheVariablesOfTheCommandLine) {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{.in = in, .out = out, .err = err};
  const Program program(io, nullptr);
  int variables = 0;
  for (const CLI::Option* option : program.app().get_options()) {
    const std::string name = option->get_envname();
    if (name.empty()) continue;
    ++variables;
    setenv(name.c_str(), "x", 1);
    const absl::StatusOr<server::CommandLine> parsed =
        server::ParseCommandLine({"--insecure-loopback"});
    unsetenv(name.c_str());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_THAT(parsed->warnings, Not(::testing::Contains(HasSubstr(name))));
  }
  EXPECT_GE(variables, 4);
}

// ---- Exit status. -----------------------------------------------------------------------------

TEST_F(CliTest, AnErrorOfTheServerIs64AndItsCode) {
  Fill({"a"});
  for (int code = 1; code <= 16; ++code) {
    server_->failures["GetTenant"] = absl::Status(static_cast<absl::StatusCode>(code), "why");
    const CliResult result = Run({"tenant", "get", "t"});
    EXPECT_EQ(result.status, 64 + code);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(code == 4 ? "no answer within" : "why"));
  }
}

TEST_F(CliTest, TheManualNamesTheSameExitStatus) {
  // lethe(1) is made by the build from this very tree.
  const std::string page = ReadFile(LETHE_MANUAL);
  for (const int status :
       {kExitOk, kExitUsage, kExitFile, kExitNotVerified, kExitUnsound, kExitJob}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat(".TP\n\\fB", status, "\\fR\n")));
  }
  EXPECT_THAT(page, HasSubstr(absl::StrCat("\\fB", kExitRpcBase, " + n\\fR")));
  for (int code = 3; code <= 16; ++code) {
    if (code == 11 || code == 12) continue;  // not used by this server
    EXPECT_THAT(page, HasSubstr(absl::StrCat(
                          kExitRpcBase + code, " ",
                          absl::StatusCodeToString(static_cast<absl::StatusCode>(code)))));
  }
}

}  // namespace
}  // namespace lethe::cli
