#include "client/cli/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/token_source.h"

namespace lethe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Rows = std::vector<std::vector<std::string>>;

struct Parsed {
  Rows rows;
  std::vector<uint64_t> lines;
  std::vector<std::string> errors;
};

Parsed Parse(const std::string& text, char delimiter = ',') {
  std::istringstream stream(text);
  CsvReader reader(stream, delimiter);
  Parsed parsed;
  CsvRecord record;
  for (;;) {
    switch (reader.Next(record)) {
      case CsvReader::Result::kEnd:
        EXPECT_EQ(reader.bytes().consumed(), text.size());
        return parsed;
      case CsvReader::Result::kError:
        parsed.errors.push_back(reader.error());
        break;
      case CsvReader::Result::kRecord:
        parsed.rows.push_back(record.fields);
        parsed.lines.push_back(record.line);
        break;
    }
  }
}

TEST(CsvTest, PlainRecords) {
  EXPECT_EQ(Parse("a,b\n1,2\n").rows, (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(Parse("a,b\r\n1,2\r\n").rows, (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(Parse("a,b\n1,2").rows, (Rows{{"a", "b"}, {"1", "2"}})) << "no last line break";
  EXPECT_EQ(Parse("a,\n,\n").rows, (Rows{{"a", ""}, {"", ""}}));
  EXPECT_EQ(Parse("a,").rows, (Rows{{"a", ""}}));
  EXPECT_EQ(Parse("").rows, Rows{});
  EXPECT_EQ(Parse("a b\tc\n", '\t').rows, (Rows{{"a b", "c"}}));
}

TEST(CsvTest, Quotes) {
  EXPECT_EQ(Parse("\"a,b\",\"c\"\"d\",\"\"\n").rows, (Rows{{"a,b", "c\"d", ""}}));
  const Parsed parsed = Parse("h\n\"two\nlines\r\nthree\",x\nlast\n");
  EXPECT_EQ(parsed.rows, (Rows{{"h"}, {"two\nlines\r\nthree", "x"}, {"last"}}));
  EXPECT_THAT(parsed.lines, ElementsAre(1, 2, 5));
  EXPECT_EQ(Parse("\"\"\n").rows, (Rows{{""}})) << "a quoted empty field is a record";
}

TEST(CsvTest, BlankLinesAndByteOrderMark) {
  EXPECT_EQ(Parse("\n\r\na,b\n\n\n1,2\n\n").rows, (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(Parse("\xEF\xBB\xBF"
                  "a,b\n1,2\n")
                .rows,
            (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(Parse("\xEF\xBB\xBF\"a\"\n").rows, (Rows{{"a"}}));
  EXPECT_EQ(Parse("a\n\xEF\xBB\xBF\n").rows, (Rows{{"a"}, {"\xEF\xBB\xBF"}}))
      << "only at the front";
}

TEST(CsvTest, ErrorsNameThePlaceAndTheNextLineIsReadAgain) {
  struct Case {
    const char* text;
    const char* error;
  };
  for (const Case& c : {
           Case{"a,b\"c\nx,y\n", "line 1, column 4: a quote inside an unquoted field"},
           Case{"\"a\"b,c\nx,y\n", "line 1, column 4: text after a closing quote"},
           Case{"a\rb,c\nx,y\n", "line 1, column 2: a carriage return without a line feed"},
           Case{"\"a\"\rb\nx,y\n", "line 1, column 4: text after a closing quote"},
       }) {
    const Parsed parsed = Parse(c.text);
    EXPECT_THAT(parsed.errors, ElementsAre(c.error)) << c.text;
    EXPECT_EQ(parsed.rows, (Rows{{"x", "y"}})) << c.text;
  }
  EXPECT_THAT(Parse("h\nx,\"abc\ndef\n").errors,
              ElementsAre("line 2, column 3: a quote that is never closed"));
}

TEST(CsvTest, SizesAreBounded) {
  const std::string long_field(CsvReader::kMaxFieldBytes, 'x');
  EXPECT_EQ(Parse(long_field + ",1\n").rows, (Rows{{long_field, "1"}}));
  for (const std::string& text : {long_field + "x,1\na,b\n", "\"" + long_field + "x\",1\na,b\n"}) {
    const Parsed parsed = Parse(text);
    ASSERT_EQ(parsed.errors.size(), 1u);
    EXPECT_THAT(parsed.errors[0], HasSubstr("a field that is too long"));
    EXPECT_EQ(parsed.rows, (Rows{{"a", "b"}}));
  }
  const Parsed wide = Parse(std::string(CsvReader::kMaxFields, ',') + "\n");
  ASSERT_EQ(wide.errors.size(), 1u);
  EXPECT_THAT(wide.errors[0], HasSubstr("too many fields"));
}

std::string Write(const Rows& rows, std::mt19937_64& random, bool last_break) {
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t f = 0; f < rows[r].size(); ++f) {
      if (f > 0) text += ',';
      const std::string& field = rows[r][f];
      const bool needs_quotes = field.find_first_of(",\"\r\n") != std::string::npos ||
                                (field.empty() && rows[r].size() == 1) ||
                                field.rfind("\xEF\xBB\xBF", 0) == 0;
      if (!needs_quotes && random() % 3 != 0) {
        text += field;
        continue;
      }
      text += '"';
      for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
      text += '"';
    }
    if (r + 1 < rows.size() || last_break) text += random() % 2 == 0 ? "\n" : "\r\n";
  }
  return text;
}

TEST(CsvTest, RandomTablesRoundTrip) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string alphabet =
      "ab,\"\r\n \t;\xEF\xBB\xBF\xC3\xA9"
      "0";
  for (int trial = 0; trial < 3000; ++trial) {
    const size_t width = 1 + random() % 4;
    Rows rows(1 + random() % 5, std::vector<std::string>(width));
    for (auto& row : rows) {
      for (std::string& field : row) {
        for (size_t n = random() % 6; n > 0; --n) field += alphabet[random() % alphabet.size()];
      }
    }
    const std::string text = Write(rows, random, random() % 2 == 0);
    const Parsed parsed = Parse(text);
    ASSERT_THAT(parsed.errors, ElementsAre()) << text;
    ASSERT_EQ(parsed.rows, rows) << text;
  }
}

TEST(CsvTest, FieldsAcrossBufferBoundaries) {
  // Every place of a field with a quote, a CRLF and a multi-byte character around byte 65,536.
  for (size_t shift = 65536 - 16; shift <= 65536; ++shift) {
    const std::string filler(shift, 'x');
    const Rows rows = {{filler, "q\"\r\n\xC3\xA9", "z"}, {"1", "2", "3"}};
    std::mt19937_64 random(shift);
    ASSERT_EQ(Parse(Write(rows, random, true)).rows, rows) << shift;
  }
}

TEST(CsvTest, RandomBytesNeverCrashAndAlwaysEnd) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string alphabet = "a,\"\r\n";
  for (int trial = 0; trial < 5000; ++trial) {
    std::string text;
    for (size_t n = random() % 30; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const Parsed parsed = Parse(text);
    ASSERT_LE(parsed.rows.size() + parsed.errors.size(), text.size());
  }
}

class CsvSourceTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::string& text) {
    stream_ = std::istringstream(text);
    return OpenCsv(stream_, mapping_);
  }

  std::istringstream stream_;
  CsvMapping mapping_ = {.id_columns = {"record", "hour"},
                         .key_columns = {"hr", "map"},
                         .value_columns = {"urine"},
                         .subject_column = "record",
                         .label_columns = {"ward"}};
};

TEST_F(CsvSourceTest, MapsColumnsByName) {
  const auto source = Open(
      "hour, ward ,record,urine,map,hr\n"
      "0,north,p1,1.5,-2e1,77\n"
      "1,,p1, 2 ,0,+1\n");
  ASSERT_TRUE(source.ok()) << source.status();
  TokenSource::Item item = (*source)->Next();
  ASSERT_EQ(item.kind, TokenSource::Kind::kToken);
  EXPECT_EQ(item.line, 2u);
  EXPECT_EQ(item.token, (client::Token{.id = "p1:0",
                                       .key = {77, -20},
                                       .value = {1.5},
                                       .subject = "p1",
                                       .labels = {{"ward", "north"}}}));
  item = (*source)->Next();
  EXPECT_EQ(item.token,
            (client::Token{.id = "p1:1", .key = {1, 0}, .value = {2}, .subject = "p1"}));
  EXPECT_EQ((*source)->Next().kind, TokenSource::Kind::kEnd);
}

TEST_F(CsvSourceTest, HeaderProblemsNameTheColumn) {
  EXPECT_THAT(std::string(Open("record,hour,hr,map,ward\n").status().message()),
              HasSubstr("no column \"urine\""));
  EXPECT_THAT(std::string(Open("record,hour,hr,map,ward,urine,hr\n").status().message()),
              HasSubstr("column \"hr\" is there twice"));
  EXPECT_THAT(std::string(Open("").status().message()), HasSubstr("no header"));
  EXPECT_THAT(std::string(Open("a\"b\n").status().message()), HasSubstr("line 1, column 2"));
}

TEST_F(CsvSourceTest, BadLinesNameThePlaceAndNeverTheData) {
  const auto source = Open(
      "record,hour,hr,map,urine,ward\n"
      "p1,0,1,2,3\n"            // 2: too few
      "p1,1,secret,2,3,w\n"     // 3: no number
      "p1,2,1,,3,w\n"           // 4: missing
      "p1,3,NA,secret,3,w\n"    // 5: bad outranks missing
      "p1,4,1e999,2,3,w\n"      // 6: range
      "p1,5,inf,2,3,w\n"        // 7: not finite
      "p1,6,1,2,3\"secret,w\n"  // 8: quote
      ",,1,2,3,w\n"             // 9: no id
      "p1,7,--1,2,3,w\n"        // 10
      "p1,8,0x1p3,2,3,w\n"      // 11: hex floats are not CSV
      "p1,9,1,2,3,w\n");
  ASSERT_TRUE(source.ok());
  using Kind = TokenSource::Kind;
  const std::vector<std::tuple<Kind, uint64_t, std::string>> expected = {
      {Kind::kBadLine, 2, "line 2: 5 fields, the header has 6"},
      {Kind::kBadLine, 3, "line 3, column \"hr\": not a number"},
      {Kind::kMissing, 4, "line 4, column \"map\": the number is missing"},
      {Kind::kBadLine, 5, "line 5, column \"map\": not a number"},
      {Kind::kBadLine, 6, "line 6, column \"hr\": out of range"},
      {Kind::kBadLine, 7, "line 7, column \"hr\": not finite"},
      {Kind::kBadLine, 8, "line 8, column 11: a quote inside an unquoted field"},
      {Kind::kBadLine, 9, "line 9, column \"record\": the id is empty"},
      {Kind::kBadLine, 10, "line 10, column \"hr\": not a number"},
      {Kind::kBadLine, 11, "line 11, column \"hr\": not a number"},
      {Kind::kToken, 12, ""},
  };
  for (const auto& [kind, line, message] : expected) {
    const TokenSource::Item item = (*source)->Next();
    EXPECT_EQ(item.kind, kind) << message;
    EXPECT_EQ(item.line, line);
    EXPECT_EQ(item.message, message);
    EXPECT_THAT(item.message, Not(HasSubstr("secret")));
  }
}

TEST(FormatOfTest, ByExtension) {
  EXPECT_EQ(*FormatOf("a/b.csv"), FileFormat::kCsv);
  EXPECT_EQ(*FormatOf("b.tsv"), FileFormat::kCsv);
  EXPECT_EQ(*FormatOf("b.ndjson"), FileFormat::kNdjson);
  EXPECT_EQ(*FormatOf("b.jsonl"), FileFormat::kNdjson);
  EXPECT_FALSE(FormatOf("-").ok());
  EXPECT_FALSE(FormatOf("b.txt").ok());
}

}  // namespace
}  // namespace lethe::cli
