// The summaries, read by a CSV parser of our own (RFC 4180) and by nlohmann's JSON parser.
#include "audit/summary.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit::testing {
namespace {

// One record; insists on CR LF at its end and on quotes where they are needed.
std::vector<std::string> ParseCsvLine(const std::string& line) {
  std::vector<std::string> fields(1);
  EXPECT_EQ(line.substr(line.size() - 2), "\r\n");
  bool quoted = false;
  for (size_t i = 0; i + 2 < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      EXPECT_TRUE(quoted || fields.back().empty()) << "a quote inside a bare field";
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      EXPECT_TRUE(quoted || (c != '\r' && c != '\n'));
      fields.back() += c;
    }
  }
  EXPECT_FALSE(quoted);
  return fields;
}

std::map<std::string, std::string> CsvFields(const SummaryEntry& entry) {
  const std::vector<std::string> names = SummaryColumns();
  const std::vector<std::string> values = ParseCsvLine(SummaryCsvLine(entry));
  EXPECT_EQ(names.size(), values.size());
  std::map<std::string, std::string> fields;
  for (size_t i = 0; i < names.size(); ++i) fields[names[i]] = values.at(i);
  return fields;
}

SummaryEntry EntryOf(const CertificateBody& body) {
  return {.body = body, .id = Hex(Sha256("id")), .keyid = "k+1", .leaf_hash = Sha256("leaf")};
}

TEST(Summary, TheHeaderNamesTheColumnsOnce) {
  const std::vector<std::string> names = SummaryColumns();
  EXPECT_EQ(ParseCsvLine(SummaryCsvHeader()), names);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(Summary, BothFormsHoldTheNumbersOfTheCertificate) {
  CertificateBody body = EvictBody();
  body.sequence = 7;
  body.previous_leaf_hash = Sha256("previous");
  body.change->refit = RefitComparison{0.0, true};
  body.change->verdict = VerdictClass::kBitIdentical;
  ASSERT_TRUE(ValidateBody(body).ok());
  const SummaryEntry entry = EntryOf(body);
  const auto csv = CsvFields(entry);
  const nlohmann::json json = nlohmann::json::parse(SummaryJsonLine(entry));
  EXPECT_EQ(csv.at("sequence"), "7");
  EXPECT_EQ(csv.at("kind"), "evict");
  EXPECT_EQ(csv.at("verdict"), "bit-identical");
  EXPECT_EQ(csv.at("erased"), "12");
  EXPECT_EQ(csv.at("reserve_before"), "85");
  EXPECT_EQ(csv.at("reserve_after"), "75");
  EXPECT_EQ(csv.at("refit_equal"), "true");
  EXPECT_EQ(csv.at("retained"), "88");
  EXPECT_EQ(csv.at("attention"), "excepted");
  EXPECT_EQ(csv.at("subject"), "");
  EXPECT_EQ(csv.at("leaf_hash"), Hex(Sha256("leaf")));
  EXPECT_EQ(json.at("erased"), 12);
  EXPECT_EQ(json.at("slack"), 0.001);
  EXPECT_EQ(json.at("refit_equal"), true);
  EXPECT_EQ(json.count("subject"), 0u);
  EXPECT_EQ(json.at("stores").at(0).at("level"), "rows-deleted");
  EXPECT_EQ(json.at("exceptions").at(0), body.exceptions[0]);
  // What is absent in one form is absent in the other.
  for (const auto& [name, value] : csv) {
    if (name == "stores" || name == "exceptions") continue;
    EXPECT_EQ(json.count(name) == 0, value.empty()) << name;
  }
}

TEST(Summary, WithoutAChangeItsColumnsAreEmpty) {
  const CertificateBody body = ShreddedBody();
  const auto csv = CsvFields(EntryOf(body));
  const nlohmann::json json = nlohmann::json::parse(SummaryJsonLine(EntryOf(body)));
  for (const std::string name :
       {"verdict", "margin_before", "slack", "memory", "root_after", "budget"}) {
    EXPECT_EQ(csv.at(name), "") << name;
    EXPECT_EQ(json.count(name), 0u) << name;
  }
}

TEST(Summary, DestructionAndRestorationHaveTheirColumns) {
  CertificateBody body = ShreddedBody(SequenceSpan{3, 8});
  body.destruction->epochs = {2, 5};
  auto csv = CsvFields(EntryOf(body));
  nlohmann::json json = nlohmann::json::parse(SummaryJsonLine(EntryOf(body)));
  EXPECT_EQ(csv.at("kind"), "shredded");
  EXPECT_EQ(csv.at("destroyed_first"), "3");
  EXPECT_EQ(csv.at("destroyed_last"), "8");
  EXPECT_EQ(csv.at("destroyed_keys"), "4");
  EXPECT_EQ(csv.at("destroyed_epochs"), "2 5");
  EXPECT_EQ(json.at("destroyed_first"), 3);
  EXPECT_EQ(json.at("destroyed_last"), 8);
  EXPECT_EQ(json.at("destroyed_keys"), 4);
  EXPECT_EQ(json.at("destroyed_epochs"), (std::vector<uint64_t>{2, 5}));
  const auto absent = [&](const CertificateBody& of, const std::vector<std::string>& names) {
    csv = CsvFields(EntryOf(of));
    json = nlohmann::json::parse(SummaryJsonLine(EntryOf(of)));
    for (const std::string& name : names) {
      EXPECT_EQ(csv.at(name), "") << name;
      EXPECT_EQ(json.count(name), 0u) << name;
    }
  };
  absent(body, {"restored_size", "restored_reapplied", "restored_removed"});
  body.destruction->epochs.clear();
  absent(body, {"destroyed_epochs"});
  absent(ShreddedBody(), {"destroyed_first", "destroyed_last"});
  EXPECT_EQ(csv.at("destroyed_keys"), "0");
  absent(RestoredBody(),
         {"destroyed_first", "destroyed_last", "destroyed_keys", "destroyed_epochs", "verdict"});
  EXPECT_EQ(csv.at("restored_size"), "9");
  EXPECT_EQ(csv.at("restored_reapplied"), "3");
  EXPECT_EQ(csv.at("restored_removed"), "5");
  EXPECT_EQ(csv.at("erased"), "5");
  EXPECT_EQ(json.at("restored_size"), 9);
  EXPECT_EQ(json.at("restored_reapplied"), 3);
  EXPECT_EQ(json.at("restored_removed"), 5);
}

TEST(Summary, DoublesReadBackBitForBit) {
  const uint64_t seed = 41;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  CertificateBody body = ForgetBody();
  for (int i = 0; i < 2000; ++i) {
    double value = 0.0;
    uint64_t bits = random();
    if (i == 0) bits = 1;                   // the smallest denormal
    if (i == 1) bits = 0x7FEFFFFFFFFFFFFF;  // the largest
    if (i == 2) bits = 0x8000000000000000;  // -0
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value) || std::isinf(value)) continue;
    body.change->residuals.slack = value;
    const std::string text = CsvFields(EntryOf(body)).at("slack");
    const double back = std::strtod(text.c_str(), nullptr);
    EXPECT_EQ(std::memcmp(&back, &value, sizeof(value)), 0) << text;
    const double json = nlohmann::json::parse(SummaryJsonLine(EntryOf(body))).at("slack");
    EXPECT_EQ(std::memcmp(&json, &value, sizeof(value)), 0) << text;
  }
  body.change->residuals.slack = -std::numeric_limits<double>::infinity();
  body.change->residuals.weight_bound = std::numeric_limits<double>::infinity();
  EXPECT_EQ(CsvFields(EntryOf(body)).at("slack"), "-inf");
  EXPECT_EQ(CsvFields(EntryOf(body)).at("weight_bound"), "inf");
  EXPECT_EQ(nlohmann::json::parse(SummaryJsonLine(EntryOf(body))).at("weight_bound"), "inf");
}

TEST(Summary, DoublesAreWrittenAsTheDocumentSays) {
  std::ifstream document(std::string(LETHE_SOURCE_DIR) + "/docs/certificate_format.md");
  std::string line;
  while (std::getline(document, line) && line != "| double | text |") continue;
  std::getline(document, line);  // the rule below the header
  CertificateBody body = ForgetBody();
  int rows = 0;
  while (std::getline(document, line) && !line.empty()) {
    const size_t tick = line.find('`');
    ASSERT_NE(tick, std::string::npos) << line;
    body.change->residuals.slack = std::strtod(line.c_str() + 2, nullptr);
    const std::string text = line.substr(tick + 1, line.rfind('`') - tick - 1);
    EXPECT_EQ(CsvFields(EntryOf(body)).at("slack"), text) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 15);
}

TEST(Summary, TheBlanksBeforeAFormulaAreThoseOfTheDocument) {
  for (const std::string blank : {" ", "\t", "\r", "\n", "\xC2\xA0"}) {
    EXPECT_EQ(CsvText(blank + "=1"), absl::StrCat("\"'", blank, "=1\"")) << blank;
  }
  // Not among them: a vertical tab, an em space.
  for (const std::string other : {"\v", "\xE2\x80\x83"}) {
    EXPECT_EQ(CsvText(other + "=1"), absl::StrCat("\"", other, "=1\""));
  }
}

TEST(Summary, HostileTextIsNoFormulaAndStaysInItsField) {
  for (const std::string& text :
       {std::string("=1+1"), std::string("+1"), std::string("-1"), std::string("@SUM(A1)"),
        std::string("=cmd|' /C calc'!A0"), std::string("\"=1+1"), std::string("a\",=1+1,\""),
        std::string("a\r\n=1+1"), std::string(" =1+1"), std::string("\t=1"),
        std::string("\xC2\xA0=1"),
        std::string("\xEF\xBC\x9D"
                    "1"),
        std::string("\xEF\xBC\x8B"
                    "1"),
        std::string("\xEF\xBC\xA0"
                    "x"),
        std::string("\xEF\xBC\x8D"
                    "1")}) {
    CertificateBody body = ForgetBody();
    body.exceptions = {text};
    const std::string field = CsvFields(EntryOf(body)).at("exceptions");
    const bool starts_with_quote = text[0] == '"' || text[0] == 'a';
    EXPECT_EQ(field, starts_with_quote ? text : "'" + text);
    EXPECT_EQ(nlohmann::json::parse(SummaryJsonLine(EntryOf(body))).at("exceptions").at(0), text);
  }
  EXPECT_EQ(CsvText("plain"), "\"plain\"");
  EXPECT_EQ(CsvText(""), "\"\"");
}

TEST(Summary, ConcernsAreNamedGravestFirst) {
  CertificateBody body = ForgetBody();
  EXPECT_EQ(ConcernsOf(body), std::vector<Concern>{Concern::kExcepted});
  body.counts.held = 2;
  body.counts.matched = 6;
  body.change->verdict = VerdictClass::kUncertified;
  body.change->refit = RefitComparison{1e-9, false};
  EXPECT_EQ(CsvFields(EntryOf(body)).at("attention"), "uncertified not-identical held excepted");
  body.change->verdict = VerdictClass::kBounded;
  body.exceptions.clear();
  EXPECT_EQ(CsvFields(EntryOf(body)).at("attention"), "not-identical held bounded");
  body = ShreddedBody();
  EXPECT_TRUE(ConcernsOf(body).empty());
  EXPECT_EQ(CsvFields(EntryOf(body)).at("attention"), "");
}

}  // namespace
}  // namespace lethe::audit::testing
