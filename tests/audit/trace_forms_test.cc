// The forms of texts and vectors against what other programs write.
#include "audit/trace_forms.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using testing::TempFolder;
using testing::WriteAll;

// What a shell command makes of a file with these bytes.
std::string Filter(const std::string& command, const std::string& bytes) {
  const TempFolder folder;
  WriteAll(folder / "in", bytes);
  const std::string line = absl::StrCat("cd '", folder.path(), "' && { ", command, " ; } <in >out");
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  return ReadAll(folder / "out");
}

bool Holds(const std::vector<TraceForm>& forms, absl::string_view name, absl::string_view text) {
  for (const TraceForm& form : forms) {
    if (form.name() == name && text.find(form.bytes()) != absl::string_view::npos) return true;
  }
  return false;
}

std::vector<TraceForm> Text(const std::string& text, const TraceRules& rules = {}) {
  absl::StatusOr<std::vector<TraceForm>> forms = TextForms(text, rules);
  EXPECT_TRUE(forms.ok()) << forms.status();
  return *std::move(forms);
}

TEST(TraceForms, TextsAsOtherProgramsWriteThem) {
  const std::string text = "Zo\xc3\xab \"Q\" <\xe6\xb2\xb3/\xf0\x9f\x98\x80>\t?";
  const std::vector<TraceForm> forms = Text(text);
  EXPECT_TRUE(Holds(forms, "utf-8", absl::StrCat("x", text, "y")));
  EXPECT_TRUE(Holds(forms, "utf-16le", Filter("iconv -f UTF-8 -t UTF-16LE", text)));
  EXPECT_TRUE(Holds(forms, "utf-16be", Filter("iconv -f UTF-8 -t UTF-16BE", text)));
  EXPECT_TRUE(Holds(forms, "hex", Filter("od -An -v -tx1 | tr -d ' \\n'", text)));
  EXPECT_TRUE(
      Holds(forms, "hex upper", Filter("od -An -v -tx1 | tr -d ' \\n' | tr a-f A-F", text)));
  // Whatever stands before and behind.
  for (const char* before : {"", "a", "\xff\xff", "\xff\xff\xff", "zzzz", "\x80\x7f\xe1\x02\x03"}) {
    for (const char* behind : {"", "b", "\xff\xff", "\xff\xff\xff"}) {
      const std::string all = absl::StrCat(before, text, behind);
      EXPECT_TRUE(Holds(forms, "base64", Filter("base64 -w0", all)));
      const std::string url = Filter("base64 -w0 | tr '+/' '-_'", all);
      EXPECT_TRUE(Holds(forms, "base64url", url) || Holds(forms, "base64", url));
    }
  }
  // Written by Python's json.dumps, Go's encoding/json, protobuf's JSON and text printers, and
  // ECMAScript's encodeURIComponent.
  for (const char* json : {"Zo\\u00eb \\\"Q\\\" <\\u6cb3/\\ud83d\\ude00>\\t?",
                           "Zo\xc3\xab \\\"Q\\\" \\u003c\xe6\xb2\xb3/\xf0\x9f\x98\x80\\u003e\\t?",
                           "Zo\\u00EB \\\"Q\\\" <\\u6CB3\\/\\uD83D\\uDE00>\\u0009?",
                           "Zo\xc3\xab \\\"Q\\\" <\xe6\xb2\xb3/\xf0\x9f\x98\x80>\\t?"}) {
    EXPECT_TRUE(Holds(forms, "json", json)) << json;
  }
  EXPECT_TRUE(Holds(forms, "c escapes",
                    "Zo\\303\\253 \\\"Q\\\" <\\346\\262\\263/\\360\\237\\230\\200>\\t?"));
  for (const char* percent : {"Zo%C3%AB%20%22Q%22%20%3C%E6%B2%B3%2F%F0%9F%98%80%3E%09%3F",
                              "Zo%c3%ab%20%22Q%22%20%3c%e6%b2%b3%2f%f0%9f%98%80%3e%09%3f",
                              "Zo%C3%AB+%22Q%22+%3C%E6%B2%B3%2F%F0%9F%98%80%3E%09%3F",
                              "Zo%C3%AB%20%22Q%22%20%3C%E6%B2%B3/%F0%9F%98%80%3E%09?"}) {
    EXPECT_TRUE(Holds(forms, "percent", percent)) << percent;
  }
}

// Each library has characters of its own that it keeps out of pages.
TEST(TraceForms, TextsAsJsonLibrariesEscapeThem) {
  // Python and ECMAScript; protobuf; Go; PHP with HEX_TAG, HEX_AMP and HEX_APOS; .NET.
  const std::vector<TraceForm> forms = Text("O'Brien & Sons <x>");
  for (const char* json :
       {"O'Brien & Sons <x>", "O'Brien & Sons \\u003cx\\u003e",
        "O'Brien \\u0026 Sons \\u003cx\\u003e", "O\\u0027Brien \\u0026 Sons \\u003Cx\\u003E",
        "O\\u0027Brien \\u0026 Sons \\u003cx\\u003e"}) {
    EXPECT_TRUE(Holds(forms, "json", json) || Holds(forms, "utf-8", json)) << json;
  }
  // With quotes: the same, then PHP with HEX_QUOT too, .NET, and Go with a plus.
  const std::vector<TraceForm> quoted = Text("\"A+B\" & 'C'");
  for (const char* json :
       {"\\\"A+B\\\" & 'C'", "\\\"A+B\\\" \\u0026 'C'", "\\\"A+B\\\" \\u0026 \\u0027C\\u0027",
        "\\u0022A+B\\u0022 \\u0026 \\u0027C\\u0027",
        "\\u0022A\\u002BB\\u0022 \\u0026 \\u0027C\\u0027"}) {
    EXPECT_TRUE(Holds(quoted, "json", json)) << json;
  }
  // One of a pair is enough to need a form of its own.
  EXPECT_TRUE(Holds(Text("a < b, c"), "json", "a \\u003c b, c"));
  EXPECT_TRUE(Holds(Text("it is `x`"), "json", "it is \\u0060x\\u0060"));
}

TEST(TraceForms, BytesThatAreNoUtf8HaveTheOtherForms) {
  const std::vector<TraceForm> forms = Text("ab\xff\xfe\x80 z");
  EXPECT_TRUE(Holds(forms, "utf-8", "ab\xff\xfe\x80 z"));
  EXPECT_TRUE(Holds(forms, "hex", "6162fffe80207a"));
  for (const TraceForm& form : forms) {
    EXPECT_THAT(form.name(), Not(HasSubstr("utf-16")));
    EXPECT_THAT(form.name(), Not(HasSubstr("json")));
  }
}

TEST(TraceForms, ShortTextsAreRefused) {
  EXPECT_THAT(TextForms("p-123", {}).status().message(), HasSubstr("shorter than 6 bytes"));
  EXPECT_THAT(TextForms("p-123", {}).status().message(), Not(HasSubstr("p-123")));
  EXPECT_TRUE(TextForms("p-1234", {}).ok());
  EXPECT_FALSE(TextForms("", {.allow_short = true}).ok());
  EXPECT_TRUE(TextForms("p-3", {.allow_short = true}).ok());
  // Of a short text no part of a form is shorter than that.
  const std::vector<TraceForm> forms = Text("p-1234");
  for (const TraceForm& form : forms) EXPECT_GE(form.bytes().size(), kLeastTraceBytes);
}

TEST(TraceForms, VectorsAsOtherProgramsWriteThem) {
  const std::vector<double> vector = {0.1, -2.5, 1e20, 3, 1.0 / 3};
  const std::vector<TraceForm> forms = VectorForms(vector, {}).value();
  std::string little(sizeof(double) * vector.size(), '\0');
  std::memcpy(little.data(), vector.data(), little.size());
  std::string big;
  std::string little32;
  for (size_t i = 0; i < vector.size(); ++i) {
    big += std::string(little.rbegin() + static_cast<ptrdiff_t>(8 * (vector.size() - 1 - i)),
                       little.rbegin() + static_cast<ptrdiff_t>(8 * (vector.size() - i)));
    const auto narrow = static_cast<float>(vector[i]);
    little32.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  EXPECT_TRUE(Holds(forms, "f64le", little));
  EXPECT_TRUE(Holds(forms, "f64be", big));
  EXPECT_TRUE(Holds(forms, "f32le", little32));
  EXPECT_TRUE(Holds(forms, "f64be hex", Filter("od -An -v -tx1 | tr -d ' \\n'", big)));
  for (const char* before : {"", "a", "ab", "\xff\xff\xff\xff"}) {
    EXPECT_TRUE(Holds(forms, "f64le base64", Filter("base64 -w0", before + little + "\xff")));
    EXPECT_TRUE(Holds(forms, "f64be base64", Filter("base64 -w0", before + big + "\xff")));
    EXPECT_TRUE(Holds(forms, "f32le base64", Filter("base64 -w0", before + little32 + "\xff")));
  }
  // %.17g, protobuf, Python's json and print, ECMAScript, std::to_chars.
  for (const char* text :
       {"0.10000000000000001,-2.5,1e+20,3,0.33333333333333331",
        "0.1,-2.5,1e+20,3,0.33333333333333331", "0.1, -2.5, 1e+20, 3.0, 0.3333333333333333",
        "0.1\n-2.5\n1e+20\n3.0\n0.3333333333333333",
        "0.1,-2.5,100000000000000000000,3,0.3333333333333333",
        "0.1\t-2.5\t1e+20\t3\t0.3333333333333333"}) {
    EXPECT_TRUE(Holds(forms, "decimal", text)) << text;
  }
}

// What "%.17g", "%.15g" where it reads back (else "%.17g"), std::to_chars, Python's repr and
// ECMAScript's String write, as python3 and node printed it; the third by the rule of C++17. An
// exponent has no ".0" in any of them.
struct Written {
  double number;
  const char* printf17;
  const char* printf15or17;
  const char* to_chars;
  const char* python;
  const char* ecmascript;
};
constexpr Written kWritten[] = {
    {0.0, "0", "0", "0", "0.0", "0"},
    {3.0, "3", "3", "3", "3.0", "3"},
    {-2.5, "-2.5", "-2.5", "-2.5", "-2.5", "-2.5"},
    {0.1, "0.10000000000000001", "0.1", "0.1", "0.1", "0.1"},
    {1.0 / 3, "0.33333333333333331", "0.33333333333333331", "0.3333333333333333",
     "0.3333333333333333", "0.3333333333333333"},
    {4.35, "4.3499999999999996", "4.35", "4.35", "4.35", "4.35"},
    {0.0005, "0.00050000000000000001", "0.0005", "5e-04", "0.0005", "0.0005"},
    {0.0001, "0.0001", "0.0001", "1e-04", "0.0001", "0.0001"},
    {0.000123, "0.00012300000000000001", "0.000123", "0.000123", "0.000123", "0.000123"},
    {0.00001, "1.0000000000000001e-05", "1e-05", "1e-05", "1e-05", "0.00001"},
    {-0.00001, "-1.0000000000000001e-05", "-1e-05", "-1e-05", "-1e-05", "-0.00001"},
    {0.000001, "9.9999999999999995e-07", "1e-06", "1e-06", "1e-06", "0.000001"},
    {0.0000001, "9.9999999999999995e-08", "1e-07", "1e-07", "1e-07", "1e-7"},
    {-2.5e-10, "-2.5000000000000002e-10", "-2.5e-10", "-2.5e-10", "-2.5e-10", "-2.5e-10"},
    {5e-324, "4.9406564584124654e-324", "4.94065645841247e-324", "5e-324", "5e-324", "5e-324"},
    {100.0, "100", "100", "100", "100.0", "100"},
    {200000.0, "200000", "200000", "2e+05", "200000.0", "200000"},
    {1234567.0, "1234567", "1234567", "1234567", "1234567.0", "1234567"},
    {1e15, "1000000000000000", "1e+15", "1e+15", "1000000000000000.0", "1000000000000000"},
    {1e16, "10000000000000000", "1e+16", "1e+16", "1e+16", "10000000000000000"},
    {9007199254740992.0, "9007199254740992", "9007199254740992", "9007199254740992",
     "9007199254740992.0", "9007199254740992"},
    {123456789012345680.0, "1.2345678901234568e+17", "1.2345678901234568e+17", "123456789012345680",
     "1.2345678901234568e+17", "123456789012345680"},
    {0x1p63, "9.2233720368547758e+18", "9.2233720368547758e+18", "9223372036854775808",
     "9.223372036854776e+18", "9223372036854776000"},
    {1e20, "1e+20", "1e+20", "1e+20", "1e+20", "100000000000000000000"},
    {1e21, "1e+21", "1e+21", "1e+21", "1e+21", "1e+21"},
    {1.7976931348623157e308, "1.7976931348623157e+308", "1.7976931348623157e+308",
     "1.7976931348623157e+308", "1.7976931348623157e+308", "1.7976931348623157e+308"},
};

TEST(TraceForms, NumbersAsOtherProgramsPrintThem) {
  for (const Written& row : kWritten) {
    const std::vector<TraceForm> forms =
        VectorForms(std::vector<double>{0.75, row.number, -0.75}, {}).value();
    std::set<std::string> expected = {row.printf17, row.printf15or17};
    for (const char* text : {row.to_chars, row.python, row.ecmascript}) {
      // With and without ".0".
      const std::string plain(absl::StripSuffix(text, ".0"));
      expected.insert(plain);
      if (plain.find_first_of(".e") == std::string::npos) expected.insert(plain + ".0");
    }
    std::set<std::string> found;
    for (const TraceForm& form : forms) {
      if (form.name() != "decimal" || !absl::StrContains(form.bytes(), ", ")) continue;
      const std::vector<std::string> parts = absl::StrSplit(form.bytes(), ", ");
      ASSERT_EQ(parts.size(), 3u);
      EXPECT_EQ(parts[0], "0.75");
      EXPECT_EQ(parts[2], "-0.75");
      found.insert(parts[1]);
    }
    EXPECT_EQ(found, expected) << row.python;
  }
}

TEST(TraceForms, UnitsOfBase64AreWhatTheCharactersHold) {
  // Two vectors that agree in numbers 2 to 5 and in no other: exactly the characters from Begin(2)
  // to End(5) must agree, whatever the offset.
  std::vector<double> one;
  std::vector<double> other;
  for (int i = 0; i < 9; ++i) {
    one.push_back(std::sqrt(2.0 + i));
    other.push_back(i >= 2 && i <= 5 ? one.back() : -std::sqrt(3.5 + i) * 1e9);
  }
  // Where the alphabets agree there is no form in the other one.
  const auto in_one_alphabet = [](const std::vector<double>& vector) {
    std::vector<TraceForm> forms = VectorForms(vector, {}).value();
    std::erase_if(forms, [](const TraceForm& form) { return form.name().ends_with("url"); });
    return forms;
  };
  const std::vector<TraceForm> a = in_one_alphabet(one);
  const std::vector<TraceForm> b = in_one_alphabet(other);
  ASSERT_EQ(a.size(), b.size());
  size_t compared = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].name(), b[i].name());
    if (a[i].name() == "decimal") continue;
    const size_t begin = a[i].Begin(2);
    const size_t end = a[i].End(5);
    ASSERT_EQ(begin, b[i].Begin(2));
    ASSERT_GE(end - begin, 16u);
    EXPECT_EQ(a[i].bytes().substr(begin, end - begin), b[i].bytes().substr(begin, end - begin))
        << a[i].name();
    EXPECT_NE(a[i].bytes().substr(begin, a[i].End(6) - begin),
              b[i].bytes().substr(begin, a[i].End(6) - begin));
    EXPECT_EQ(a[i].End(8), a[i].bytes().size());
    ++compared;
  }
  EXPECT_GE(compared, 24u);
}

TEST(TraceForms, CommonNumbersAreNoCanaries) {
  for (const std::vector<double>& vector : std::vector<std::vector<double>>{{0},
                                                                            {1},
                                                                            {-1},
                                                                            {7},
                                                                            {1000},
                                                                            {0, 0, 0, 0},
                                                                            {0, 1, 0, 1},
                                                                            {5, 5, 5, 5},
                                                                            {3, 0, 4, 0, 3}}) {
    EXPECT_THAT(VectorForms(vector, {}).status().message(), HasSubstr("common numbers"));
  }
  EXPECT_TRUE(VectorForms(std::vector<double>{0.5, 0, 0, 0}, {}).ok());
  EXPECT_TRUE(VectorForms(std::vector<double>{0.7318}, {}).ok());
  EXPECT_TRUE(VectorForms(std::vector<double>{12, 200, 31, 4}, {}).ok());
  EXPECT_FALSE(VectorForms(std::vector<double>{}, {}).ok());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(VectorForms(std::vector<double>{1, kInfinity}, {}).status().message(),
              HasSubstr("[1]: not finite"));
  // What rounds to a common number is not looked for in 32 bits, what is too large neither.
  for (const double number : {1 + 1e-12, 1e300}) {
    const std::vector<double> vector = {number};
    const std::vector<TraceForm> forms = VectorForms(vector, {}).value();
    for (const TraceForm& form : forms) {
      EXPECT_THAT(form.name(), Not(HasSubstr("f32")));
    }
  }
}

}  // namespace
}  // namespace lethe::audit
