// NDJSON, numbers and tables of the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "client/cli/token_source.h"

namespace lethe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = TokenSource::Kind;

TEST(NdjsonTest, ReadsTokens) {
  std::istringstream stream(
      "\xEF\xBB\xBF{\"id\":\"a\",\"key\":[1,-2.5e3],\"value\":[0.1],\"subject\":\"s\","
      "\"labels\":{\"l\":\"v\"},\"payload\":\"p\"}\r\n"
      "\n"
      "{\"key\":[3]}");
  const auto source = OpenNdjson(stream);
  TokenSource::Item item = source->Next();
  ASSERT_EQ(item.kind, Kind::kToken) << item.message;
  EXPECT_EQ(item.token, (client::Token{.id = "a",
                                       .key = {1, -2500},
                                       .value = {0.1},
                                       .subject = "s",
                                       .payload = "p",
                                       .labels = {{"l", "v"}}}));
  item = source->Next();
  EXPECT_EQ(item.line, 3u);
  EXPECT_EQ(item.token, (client::Token{.key = {3}}));
  EXPECT_EQ(source->Next().kind, Kind::kEnd);
}

TEST(NdjsonTest, ZeroKeepsItsSign) {
  std::istringstream stream(R"({"key":[-0,-0.0,0,-0e0],"value":[-1]})");
  const auto source = OpenNdjson(stream);
  const TokenSource::Item item = source->Next();
  ASSERT_EQ(item.kind, TokenSource::Kind::kToken) << item.message;
  ASSERT_EQ(item.token.key.size(), 4u);
  EXPECT_TRUE(std::signbit(item.token.key[0]));
  EXPECT_TRUE(std::signbit(item.token.key[1]));
  EXPECT_FALSE(std::signbit(item.token.key[2]));
  EXPECT_TRUE(std::signbit(item.token.key[3]));
  EXPECT_EQ(item.token.value, std::vector<double>{-1});
}

TEST(NdjsonTest, ErrorsNameThePlaceAndNeverTheData) {
  struct Case {
    std::string line;
    std::string message;
    Kind kind = Kind::kBadLine;
  };
  const std::vector<Case> cases = {
      {"{\"key\":[1,", "line 1, column 11: not JSON"},
      {"{\"key\":[1],secret}", "line 1, column 12: not JSON"},
      {"[1,2]", "line 1: must be a JSON object"},
      {"{}", "line 1, key: is missing"},
      {"{\"key\":\"secret\"}", "line 1, key: must be an array"},
      {"{\"key\":[1,\"secret\"]}", "line 1, key[1]: not a number"},
      {"{\"key\":[1],\"value\":[1,true]}", "line 1, value[1]: not a number"},
      {"{\"key\":[1,null]}", "line 1, key[1]: the number is missing", Kind::kMissing},
      {"{\"key\":[null],\"id\":7}", "line 1, id: must be a string"},
      {"{\"key\":[null],\"id\":\"\"}", "line 1, id: is empty"},
      {"{\"key\":[1e999]}", "line 1: a number is out of range"},
      {"{\"key\":[1],\"labels\":[]}", "line 1, labels: must be an object"},
      {"{\"key\":[1],\"labels\":{\"secret\":1}}", "line 1, labels: must be a string"},
      {"{\"key\":[1],\"secret\":1}",
       "line 1: an unknown member; known are id, key, value, subject, payload, labels"},
      {"{\"key\":[1],\"id\":\"\xFF\"}", "line 1, column 18: not JSON"},
      {"{\"key\":[1],\"payload\":\"" + std::string(5 << 20, 'x') + "\"}",
       "line 1: the line is longer than 4 MiB"},
  };
  for (const Case& c : cases) {
    std::istringstream stream(c.line + "\n{\"key\":[5]}\n");
    const auto source = OpenNdjson(stream);
    const TokenSource::Item item = source->Next();
    EXPECT_EQ(item.kind, c.kind) << c.message;
    EXPECT_EQ(item.message, c.message);
    EXPECT_THAT(item.message, Not(HasSubstr("secret")));
    const TokenSource::Item next = source->Next();
    EXPECT_EQ(next.kind, Kind::kToken) << "the next line is good";
    EXPECT_EQ(next.line, 2u);
  }
}

TEST(NdjsonTest, DeepNestingIsAnErrorAndNotACrash) {
  std::istringstream stream("{\"key\":" + std::string(1000000, '[') + "\n{\"key\":[5]}\n");
  const auto source = OpenNdjson(stream);
  EXPECT_EQ(source->Next().kind, Kind::kBadLine);
  EXPECT_EQ(source->Next().kind, Kind::kToken);
}

TEST(NumbersTest, DecimalsAgreeWithTheLibrary) {
  for (const char* text : {"0", "-0", "1", "+1.5", "1e308", "4.9e-324", "0.1", "123456789.125",
                           " 7 ", "1E5", ".5", "5."}) {
    const auto value = ParseDecimal(text);
    ASSERT_TRUE(value.ok()) << text;
    EXPECT_EQ(*value, std::strtod(text, nullptr)) << text;
    EXPECT_EQ(std::signbit(*value), std::signbit(std::strtod(text, nullptr)));
  }
  for (const char* text : {"", " ", "-", "+", "+-1", "--1", "1x", "1,5", "0x10", "one", "1 2"}) {
    EXPECT_EQ(ParseDecimal(text).status().message(), "not a number") << text;
  }
  EXPECT_EQ(ParseDecimal("1e400").status().message(), "out of range");
  EXPECT_EQ(ParseDecimal("nan").status().message(), "not finite");
  EXPECT_EQ(ParseDecimal("-inf").status().message(), "not finite");
}

TEST(NumbersTest, HexFloatsRoundTripAllKindsOfBits) {
  std::mt19937_64 random(20260101);
  for (int i = 0; i < 20000; ++i) {
    uint64_t bits = random();
    if (i % 4 == 0) bits &= 0x800fffffffffffffULL;  // subnormal
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const std::string text = FormatHex(value);
    const auto back = ParseHexOrDecimal(text);
    ASSERT_TRUE(back.ok()) << text;
    ASSERT_EQ(std::memcmp(&*back, &value, sizeof(value)), 0) << text;
    ASSERT_EQ(std::strtod(text.c_str(), nullptr), value);
  }
  EXPECT_EQ(*ParseHexOrDecimal("0x1.0000000000000p-2"), 0.25);
  EXPECT_EQ(*ParseHexOrDecimal("-0X1P+3"), -8.0);
  EXPECT_EQ(*ParseHexOrDecimal("0.25"), 0.25);
  EXPECT_EQ(FormatHex(0.1875), "0x1.8p-3");
  for (const char* text : {"0x", "-0x", "0x-1", "0x1.8p", "0x1.8q3", "x1", "0xg"}) {
    EXPECT_EQ(ParseHexOrDecimal(text).status().message(), "not a number") << text;
  }
  EXPECT_EQ(ParseHexOrDecimal("0x1p2000").status().message(), "out of range");
}

TEST(NumbersTest, VectorsNameThePlace) {
  EXPECT_EQ(*ParseVector("1,-2.5, 3"), (std::vector<double>{1, -2.5, 3}));
  EXPECT_EQ(ParseVector("1,,3").status().message(), "[1]: not a number");
  EXPECT_EQ(ParseVector("").status().message(), "[0]: not a number");
}

TEST(TableTest, AlignsAndShortens) {
  Table table({{.title = "NAME", .flexible = true}, {.title = "COUNT", .right = true}});
  table.AddRow({"a", "1"});
  table.AddRow({"", "12,345"});
  EXPECT_EQ(table.Render(),
            "NAME   COUNT\n"
            "a          1\n"
            "-     12,345\n");
  table.AddRow({std::string(100, 'n'), "2"});
  std::istringstream lines(table.Render());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u);
  EXPECT_THAT(table.Render(), HasSubstr("nnn...       2\n"));
}

TEST(TableTest, CountsCharactersAndHidesControls) {
  EXPECT_EQ(DisplayWidth("h\xC3\xA9llo"), 5u);
  EXPECT_EQ(Shorten("h\xC3\xA9llo w\xC3\xB6rld", 8), "h\xC3\xA9llo...");
  EXPECT_EQ(Shorten("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 5).size(), 10u);
  EXPECT_EQ(Shorten("abcdef", 2), "..");
  Table table({{.title = "ID"}});
  table.AddRow({"a\x1b[31mb\n"});
  EXPECT_EQ(table.Render(), "ID\na?[31mb?\n");
}

TEST(TableTest, Numbers) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(18446744073709551615ULL), "18,446,744,073,709,551,615");
  EXPECT_EQ(FormatNumber(0.1), "0.1");
  EXPECT_EQ(FormatNumber(1.0 / 3.0, 6), "0.333333");
  EXPECT_EQ(RenderFields({{"a", "1"}, {"long name", ""}}, 2), "  a          1\n  long name  -\n");
  EXPECT_EQ(RenderFields({{"a", "1"}, {"  far longer name", "2"}, {"  b", "3"}, {"bc", "4"}}),
            "a   1\n  far longer name  2\n  b                3\nbc  4\n");
}

TEST(ProgressTest, LineFitsAndNothingIsDrawnWithoutATerminal) {
  EXPECT_EQ(ProgressLine(0.5, 1234, 99.5),
            "[###############---------------]  50 %   1,234 tokens   99/s");
  EXPECT_EQ(ProgressLine(std::nullopt, 5, 0.0), "5 tokens   0/s");
  EXPECT_EQ(ProgressLine(std::nullopt, 5, 0.0, "bytes"), "5 bytes   0/s");
  EXPECT_LE(ProgressLine(1.7, 999'999'999, 9'999'999.0).size(), 80u);
  std::ostringstream quiet;
  {
    Progress progress(quiet, false, 10);
    progress.Update(5, 5);
  }
  EXPECT_EQ(quiet.str(), "");
  std::ostringstream drawn;
  {
    Progress progress(drawn, true, 10);
    progress.Update(5, 5);
  }
  EXPECT_THAT(drawn.str(), HasSubstr(" 50 %"));
  EXPECT_THAT(drawn.str(), testing::EndsWith("\r\033[K")) << "wiped at the end";
}

}  // namespace
}  // namespace lethe::cli
