#include "audit/json.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "audit/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lethe::audit {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(absl::string_view text, JsonForm form = JsonForm::kCanonical) {
  const absl::StatusOr<Json> json = ParseJson(text, form);
  return json.ok() ? "accepted" : std::string(json.status().message());
}

std::string Round(absl::string_view text, JsonForm form = JsonForm::kCanonical) {
  const absl::StatusOr<Json> json = ParseJson(text, form);
  if (!json.ok()) return std::string(json.status().message());
  return SerializeJson(*json).value();
}

TEST(JsonTest, WritesEveryKindCanonically) {
  Json object = Json::MakeObject();
  object.Set("z", Json::Bool(true));
  object.Set("a", Json::Integer(kMaxJsonInteger));
  object.Set("B", Json::Double(1.0));
  object.Set("text", Json::String("\"\\\b\f\n\r\t\x01\x1f/\x7f \xc3\xa9"));
  object.Set("list", Json::MakeArray({Json::Integer(0), Json::MakeArray(), Json::MakeObject()}));
  EXPECT_EQ(SerializeJson(object).value(),
            R"({"B":{"f64":"3ff0000000000000"},"a":9007199254740991,"list":[0,[],{}],)"
            "\"text\":\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f/\x7f \xc3\xa9\",\"z\":true}");
}

TEST(JsonTest, RefusesToWriteWhatHasNoText) {
  EXPECT_FALSE(SerializeJson(Json::Double(std::nan(""))).ok());
  EXPECT_FALSE(SerializeJson(Json::Integer(kMaxJsonInteger + 1)).ok());
  EXPECT_FALSE(SerializeJson(Json::String("\xff")).ok());
  for (const char* key : {"", "\xc3\xa9", "a\"", "a\\", "a\n", "f64"}) {
    Json object = Json::MakeObject();
    object.Set(key, Json::Bool(true));
    EXPECT_FALSE(SerializeJson(object).ok()) << key;
  }
  Json deep = Json::Bool(true);
  for (int i = 0; i < 33; ++i) deep = Json::MakeArray({deep});
  EXPECT_FALSE(SerializeJson(deep).ok());
}

TEST(JsonTest, WhatIsWrittenAtTheDepthLimitCanBeRead) {
  for (const Json& leaf : {Json::Bool(true), Json::Double(2.0), Json::MakeObject()}) {
    Json value = leaf;
    int accepted = 0;
    for (int depth = 1; depth < 40; ++depth) {
      value = Json::MakeArray({value});
      const absl::StatusOr<std::string> text = SerializeJson(value);
      if (!text.ok()) continue;
      EXPECT_TRUE(ParseJson(*text, JsonForm::kCanonical).ok()) << depth;
      ++accepted;
    }
    EXPECT_GE(accepted, 31);
    EXPECT_LE(accepted, 32);
  }
}

TEST(JsonTest, CanonicalTextsReadBackToThemselves) {
  for (const char* text : {"true", "false", "0", "9007199254740991", "\"\"", "[]", "{}",
                           "[1,2,[3]]", R"({"a":1,"b":{"c":"d"}})", R"({"f64":"7ff0000000000000"})",
                           R"({"f64":"8000000000000000"})", R"("\u0000\u001f\b\"\\")",
                           "\"\xf0\x9f\x8c\x8d\xef\xbf\xbf\""}) {
    EXPECT_EQ(Round(text), text);
    EXPECT_EQ(Round(text, JsonForm::kAnyForm), text);
  }
}

TEST(JsonTest, RefusesInBothForms) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "offset 0: the text ends"},
      {"null", "offset 0: null"},
      {"[1,null]", "offset 3: null"},
      {"-1", "offset 0: negative"},
      {"1.5", "offset 1: fractions"},
      {"1e3", "offset 1: fractions"},
      {"1E3", "offset 1: fractions"},
      {"01", "offset 0: a leading zero"},
      {"9007199254740992", "offset 0: an integer above"},
      {"99999999999999999999999999", "offset 0: an integer above"},
      {"NaN", "offset 0: no value"},
      {"Infinity", "offset 0: no value"},
      {"tru", "offset 0: no value"},
      {"truex", "offset 4: bytes after"},
      {"1 2", "offset"},
      {"[1", "offset 2: expected"},
      {"[1,]", "offset 3: no value"},
      {"[,1]", "offset 1: no value"},
      {R"({"a":1,})", "offset 7: expected a key"},
      {R"({"a"})", "offset 4: expected ':'"},
      {R"({a:1})", "offset 1: expected a key"},
      {R"({"a":1,"a":2})", "a key occurs twice"},
      {R"({"":1})", "offset 1: a key must be"},
      {"{\"\xc3\xa9\":1}", "offset 1: a key must be"},
      {"\"a", "offset 2: the text ends inside a string"},
      {"\"\n\"", "offset 1: a raw control"},
      {"\"\xff\"", "offset 1: not UTF-8"},
      {"\"\xc0\x80\"", "offset 1: not UTF-8"},
      {"\"\xed\xa0\x80\"", "offset 1: not UTF-8"},      // a surrogate as three bytes
      {"\"\xf4\x90\x80\x80\"", "offset 1: not UTF-8"},  // above U+10FFFF
      {"\"\xe2\x82\"", "offset 1: not UTF-8"},
      {R"("\ud800")", "offset 1: a lone surrogate"},
      {R"("\udc00")", "offset 1: a lone surrogate"},
      {R"("\ud800\u0041")", "offset 1: a lone surrogate"},
      {R"("\x41")", "offset 2: an unknown escape"},
      {R"("\u00g0")", "offset 5: not a hex digit"},
      {R"("\u00)", "offset 5: the text ends"},
      {R"({"f64":"7ff8000000000000"})", "offset 0: NaN"},
      {R"({"f64":"fff0000000000001"})", "offset 0: NaN"},
      {R"({"f64":"3FF0000000000000"})", "offset 0: a double has 16 lower-case"},
      {R"({"f64":"3ff"})", "offset 0: a double is"},
      {R"({"f64":1})", "offset 0: a double is"},
      {R"({"a":1,"f64":"3ff0000000000000"})", "offset 0: a double is"},
      {R"({"f64":"3ff0000000000000","g":1})", "offset 0: a double is"},
  };
  for (const auto& [text, message] : cases) {
    for (const JsonForm form : {JsonForm::kCanonical, JsonForm::kAnyForm}) {
      EXPECT_THAT(Error(text, form), HasSubstr(message)) << text;
      EXPECT_THAT(Error(text, form), StartsWith("offset ")) << text;
    }
  }
}

TEST(JsonTest, OnlyTheCanonicalFormIsOneText) {
  const std::pair<const char*, const char*> cases[] = {
      {" 1", "1"},
      {"1\n", "1"},
      {"[1, 2]", "[1,2]"},
      {R"({"b":1,"a":2})", R"({"a":2,"b":1})"},
      {R"({"a" :1})", R"({"a":1})"},
      {R"("\/")", R"("/")"},
      {R"("\u0041")", R"("A")"},
      {R"("\u000a")", R"("\n")"},
      {R"("\u001F")", R"("\u001f")"},
      {R"("\u00e9")", "\"\xc3\xa9\""},
      {R"("\ud83c\udf0d")", "\"\xf0\x9f\x8c\x8d\""},
      {R"("\uffff")", "\"\xef\xbf\xbf\""},
      {R"({"\u0061":1})", R"({"a":1})"},
  };
  for (const auto& [text, canonical] : cases) {
    EXPECT_THAT(Error(text), StartsWith("offset ")) << text;
    EXPECT_EQ(Round(text, JsonForm::kAnyForm), canonical);
  }
}

TEST(JsonTest, HoldsItsLimits) {
  JsonLimits limits;
  limits.max_bytes = 4;
  limits.max_depth = 1;
  EXPECT_TRUE(ParseJson("[12]", JsonForm::kCanonical, limits).ok());
  EXPECT_EQ(ParseJson("[123]", JsonForm::kCanonical, limits).status().message(),
            "offset 4: text longer than allowed");
  EXPECT_EQ(ParseJson("[[]]", JsonForm::kCanonical, limits).ok(), true);
  EXPECT_FALSE(ParseJson("[[[", JsonForm::kCanonical, limits).ok());
  // Deep nesting must end in an error, not in a stack overflow.
  EXPECT_THAT(Error(std::string(1000000, '[')), HasSubstr("nested too deeply"));
}

// Any mutation of a canonical text is refused or is the canonical text of another value.
TEST(JsonTest, AcceptedMutationsReserialiseToTheSameBytes) {
  const uint64_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string base =
      R"({"a":[1,20,true],"b":{"f64":"3ff0000000000000"},"c":"x\n\u0001y","d":{"e":"\\"}})";
  ASSERT_EQ(Round(base), base);
  const std::string bytes = "{}[]\",:\\0129abefnutx \n\xc3\xa9";
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    std::string text = base;
    for (uint64_t edits = 1 + random() % 2; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          text.erase(at, 1);
          break;
        default:
          text.insert(at, 1, bytes[random() % bytes.size()]);
      }
    }
    const absl::StatusOr<Json> json = ParseJson(text, JsonForm::kCanonical);
    if (!json.ok()) continue;
    ++accepted;
    ASSERT_EQ(SerializeJson(*json).value(), text);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(JsonTest, FindsMembers) {
  const Json json = ParseJson(R"({"a":1,"b":"x"})", JsonForm::kCanonical).value();
  ASSERT_NE(json.Find("a"), nullptr);
  EXPECT_EQ(*json.Find("a")->as_integer(), 1u);
  EXPECT_EQ(json.Find("a")->as_string(), nullptr);
  EXPECT_EQ(json.Find("c"), nullptr);
  EXPECT_EQ(json.Find("a")->Find("a"), nullptr);
}

TEST(Utf8Test, AgreesWithTheDefinitionOnEveryCodePoint) {
  int valid = 0;
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(text, code);
    valid += Utf8SequenceLength(text) == text.size() ? 1 : 0;
    text.pop_back();
    ASSERT_TRUE(text.empty() || !IsValidUtf8(text)) << code;
  }
  EXPECT_EQ(valid, 0x110000 - 0x800);
}

}  // namespace
}  // namespace lethe::audit
