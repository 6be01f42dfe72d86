#include <gmock/gmock.h>

#include <cmath>

#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/cli/solve/vector_file.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::HasSubstr;

class SolveTest : public CliTest {
 protected:
  CliResult Solve(const std::string& text, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"solve", "--vectors", WriteFile("v.json", text)});
    return Run(more);
  }
  static std::string Case(const std::string& members) {
    return "{\"cases\":[{\"name\":\"one\"," + members + "}]}";
  }
};

constexpr char kPair[] =
    "\"kernel\":\"rbf\",\"params\":{\"gamma\":\"0x1p-1\"},\"C\":\"0x1p+0\","
    "\"keys\":[[\"0x0p+0\"],[\"0x1p+1\"],[\"0x1p+0\"]]";

// Two keys at distance 2 and one between them: with C = 1 the middle one is inside the ball of the
// other two, which share the weight.
TEST_F(SolveTest, AProblemThatCanBeSolvedByHand) {
  const CliResult result = Solve(
      Case(std::string(kPair) + ",\"queries\":[[1]],\"values\":[[1],[2],[30]]"), {"--summary"});
  ASSERT_EQ(result.status, kExitOk) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["name"], "one");
  EXPECT_EQ(json["full"]["partition"], "SSR");
  EXPECT_EQ(json["full"]["alpha"], Json({"0x1p-1", "0x1p-1", "0x0p+0"}));
  EXPECT_NEAR(json["full"]["decision"][0].get<double>(), std::exp(-0.5), 1e-15);
  EXPECT_NEAR(json["full"]["readout"][0][0].get<double>(), 1.5, 1e-15);
  EXPECT_GE(json["full"]["precision_bits"].get<int>(), 106);
  ASSERT_EQ(json["after_deleting"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Json& deletion = json["after_deleting"][i];
    EXPECT_EQ(deletion["deleted"], i);
    EXPECT_EQ(deletion["partition"], "SS");
    EXPECT_EQ(deletion["alpha"], Json({"0x1p-1", "0x1p-1"}));
    EXPECT_EQ(deletion["equal_bits_to_refit"], true);
    EXPECT_TRUE(deletion["method"] == "walk" || deletion["method"] == "fallback");
  }
  EXPECT_THAT(result.err, HasSubstr("deletions       3\n"));
  EXPECT_THAT(result.err, HasSubstr("3 of 3 deletions, 1 of 1 inserts\n"));
}

TEST_F(SolveTest, OneTokenOnlyAndNoExtras) {
  const CliResult result = Solve(
      Case("\"kernel\":\"exp_dot\",\"params\":{\"scale\":0.5},\"C\":0.5,\"keys\":[[1,\"2.5\"]]"));
  ASSERT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(result.out,
            "{\"name\":\"one\",\"full\":{\"partition\":\"E\",\"alpha\":[\"0x1p+0\"],"
            "\"precision_bits\":0},\"after_deleting\":[{\"deleted\":0,\"partition\":\"\","
            "\"alpha\":[],\"equal_bits_to_refit\":true,\"method\":\"walk\",\"precision_bits\":0}]}"
            "\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(SolveTest, TheExpectedAnswersOfAFileAreNotRead) {
  const std::string wrong =
      Case(std::string(kPair) + ",\"full\":{\"partition\":\"EEE\"},\"after_deleting\":7");
  EXPECT_EQ(Solve(wrong).out, Solve(Case(kPair)).out);
}

// The vectors come from 60-digit arithmetic that shares nothing with the solver.
TEST_F(SolveTest, GoldenVectors) {
  const std::string path = std::string(LETHE_SOURCE_DIR) + "/tests/golden/svdd.json";
  const CliResult result = Run({"solve", "--vectors", path});
  ASSERT_EQ(result.status, kExitOk) << result.err;
  const Json golden = Json::parse(ReadFile(path))["cases"];
  std::istringstream lines(result.out);
  size_t next = 0;
  const auto compare = [](const Json& got, const Json& expected) {
    EXPECT_EQ(got["partition"], expected["partition"]);
    ASSERT_EQ(got["alpha"].size(), expected["alpha"].size());
    for (size_t i = 0; i < got["alpha"].size(); ++i) {
      EXPECT_EQ(std::strtod(got["alpha"][i].get<std::string>().c_str(), nullptr),
                std::strtod(expected["alpha"][i].get<std::string>().c_str(), nullptr));
    }
    for (size_t q = 0; q < expected.value("decision", Json::array()).size(); ++q) {
      EXPECT_NEAR(got["decision"][q].get<double>(),
                  std::strtod(expected["decision"][q].get<std::string>().c_str(), nullptr), 1e-13);
    }
  };
  for (std::string line; std::getline(lines, line); ++next) {
    const Json solved = Json::parse(line);
    ASSERT_LT(next, golden.size());
    SCOPED_TRACE(solved["name"].get<std::string>());
    EXPECT_EQ(solved["name"], golden[next]["name"]);
    compare(solved["full"], golden[next]["full"]);
    const Json& deletions = golden[next]["after_deleting"];
    ASSERT_EQ(solved["after_deleting"].size(), deletions.size());
    for (size_t i = 0; i < deletions.size(); ++i) {
      EXPECT_EQ(solved["after_deleting"][i]["deleted"], deletions[i]["deleted"]);
      EXPECT_EQ(solved["after_deleting"][i]["equal_bits_to_refit"], true);
      compare(solved["after_deleting"][i], deletions[i]);
    }
  }
  EXPECT_EQ(next, golden.size());
}

TEST_F(SolveTest, BadFilesNameTheCaseAndTheField) {
  const std::string kernel = "\"kernel\":\"rbf\",\"params\":{\"gamma\":1},\"C\":0.5,";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "byte 1: not JSON"},
      {"{\"cases\":[1,]}", "byte 13: not JSON"},
      {"[]", "cases: must be an array"},
      {"{\"cases\":{}}", "cases: must be an array"},
      {"{\"cases\":[7]}", "cases[0]: must be an object"},
      {"{\"cases\":[{}]}", "cases[0]: name: must be a string"},
      {Case("\"x\":1"), "cases[0] \"one\": kernel: is missing"},
      {Case("\"kernel\":\"cosine\",\"params\":{}"), "\"one\": kernel: must be rbf, laplacian"},
      {Case("\"kernel\":\"rbf\",\"params\":{\"scale\":1}"), "params.gamma: is missing"},
      {Case("\"kernel\":\"rbf\",\"params\":[]"), "params: must be an object"},
      {Case("\"kernel\":\"rbf\",\"params\":{\"gamma\":\"0xz\"}"), "params.gamma: not a number"},
      {Case("\"kernel\":\"rbf\",\"params\":{\"gamma\":-1},\"C\":1,\"keys\":[[1]]"),
       "\"one\": kernel.gamma"},
      {Case("\"kernel\":\"rbf\",\"params\":{\"gamma\":1},\"C\":\"0x1p+1\",\"keys\":[[1]]"),
       "\"one\": C: "},
      {Case(kernel + "\"keys\":[]"), "keys: is empty"},
      {Case(kernel + "\"keys\":[[]]"), "keys[0]: is empty"},
      {Case(kernel + "\"keys\":[[1,2],[1]]"), "keys[1]: 1 numbers, not 2"},
      {Case(kernel + "\"keys\":[[1,2],[1,\"two\"]]"), "keys[1][1]: not a number"},
      {Case(kernel + "\"keys\":[[1,\"inf\"]]"), "keys[0][1]: not finite"},
      {Case(kernel + "\"keys\":[[1,\"0x1p+5000\"]]"), "keys[0][1]: out of range"},
      {Case(kernel + "\"keys\":[[1,null]]"), "keys[0][1]: must be a number"},
      {Case(kernel + "\"keys\":[[1],[2]],\"values\":[[1]]"), "values: 1 rows, keys has 2"},
      {Case(kernel + "\"keys\":[[1],[2]],\"queries\":[[1,2]]"), "queries[0]: 2 numbers, not 1"},
      {Case(kernel + "\"keys\":[[1]],\"duplicates\":\"any\""), "duplicates: must be shared"},
      {Case("\"kernel\":\"exp_dot\",\"params\":{\"scale\":1},\"C\":1,\"keys\":[[1],[1e9]]"),
       "case \"one\": token 1: key"},
  };
  for (const auto& [text, message] : cases) {
    const CliResult result = Solve(text);
    EXPECT_EQ(result.status, kExitFile) << text;
    EXPECT_EQ(result.out, "") << text;
    EXPECT_THAT(result.err, HasSubstr("v.json: "));
    EXPECT_THAT(result.err, HasSubstr(message)) << text;
  }
  EXPECT_EQ(Run({"solve", "--vectors", folder_ + "/none"}).status, kExitFile);
  EXPECT_EQ(Run({"solve", "--vectors", folder_}).status, kExitFile);
}

}  // namespace
}  // namespace lethe::cli
