// What lethe-bench prints and writes, the rules it compares with, and the judge it trusts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/model/equal_state.h"
#include "tests/bench/baselines.h"
#include "tests/bench/data.h"
#include "tests/bench/icu.h"
#include "tests/bench/judge.h"
#include "tests/bench/regimes.h"
#include "tests/bench/report.h"
#include "tests/bench/training.h"

namespace lethe::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

struct Ran {
  int status = -1;
  std::string out;  // with standard error
};

Ran Bench(const std::string& words) {
  Ran ran;
  std::FILE* const pipe =
      popen(absl::StrCat(LETHE_BINARY_DIR, "/lethe-bench ", words, " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Temporary(const std::string& name) { return absl::StrCat(testing::TempDir(), name); }

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

// Every element closed in order, no bare & or <.
void ExpectWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      const std::string entity = xml.substr(at, 6);
      EXPECT_TRUE(absl::StartsWith(entity, "&lt;") || absl::StartsWith(entity, "&gt;") ||
                  absl::StartsWith(entity, "&amp;") || absl::StartsWith(entity, "&quot;"))
          << entity;
    }
    if (xml[at] != '<') continue;
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    ASSERT_FALSE(tag.empty());
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(tag.substr(1), open.back());
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
    at = end;
  }
  EXPECT_THAT(open, testing::IsEmpty());
}

Report Example() {
  Report report;
  report.name = "example";
  report.summary = "shows <everything> & \"more\"";
  report.machine = ThisMachine();
  Table wide{"A wide table", {{"row", ""}}, {}};
  std::vector<Cell> cells = {std::string("first")};
  for (int c = 0; c < 12; ++c) {
    wide.columns.push_back({absl::StrCat("a long column ", c), "ms"});
    cells.push_back(c == 3 ? Cell(std::nan("")) : c == 4 ? Cell(int64_t{77}) : Cell(c + 0.123456));
  }
  wide.rows.push_back(cells);
  report.result.tables.push_back(wide);
  report.result.claims = {{"what holds", "1 of 1", "all", true},
                          {"what does not", "0", "1", false}};
  report.result.notes = {std::string(60, 'n') + " " + std::string(60, 'm')};
  report.result.seeds = {1, 2, 3, 9};
  return report;
}

TEST(ReportTest, TextFitsAndSaysEverything) {
  const std::string text = AsText(Example());
  EXPECT_LE(LongestLine(text), 80U) << text;
  EXPECT_THAT(text, HasSubstr("ok what holds: 1 of 1 (bar all)\n"));
  EXPECT_THAT(text, HasSubstr("short what does not: 0 (bar 1)\n"));
  EXPECT_THAT(text, HasSubstr("seeds 1 .. 3 9"));
  for (int c = 0; c < 12; ++c) {
    if (c == 3 || c == 4) continue;
    EXPECT_THAT(text, HasSubstr(Short(c + 0.123456, 3))) << c;
  }
}

TEST(ReportTest, JsonHasAllDigitsAndNullForNothing) {
  const Json json = Json::parse(AsJson(Example()));
  const Json& row = json["tables"][0]["rows"][0];
  EXPECT_EQ(row["a long column 0"], 0.123456);
  EXPECT_TRUE(row["a long column 3"].is_null());
  EXPECT_EQ(row["a long column 4"], 77);
  EXPECT_EQ(json["claims"][0],
            Json({{"claim", "what holds"}, {"figure", "1 of 1"}, {"bar", "all"}, {"ok", true}}));
  EXPECT_EQ(json["seeds"], Json({1, 2, 3, 9}));
  EXPECT_FALSE(json["machine"]["cpu"].get<std::string>().empty());
}

TEST(ReportTest, DrawingsAreWellFormedAndInsideThePage) {
  Report report = Example();
  for (const bool lines : {false, true}) {
    for (const bool logarithmic : {false, true}) {
      Plot plot{"a < b & \"c\"", "x", "y"};
      if (lines) {
        plot.x = {1, 10, 100};
      } else {
        plot.categories = {"one", "two & two", "three"};
      }
      plot.log_x = plot.log_y = logarithmic;
      plot.series = {{"ours", {0.0, 1e-7, 3.0}}, {"published", {2.0, std::nullopt, 5.0}, true}};
      report.result.plot = plot;
      const std::string svg = AsSvg(report);
      ExpectWellFormed(svg);
      EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
      EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
      EXPECT_THAT(svg, testing::Not(HasSubstr("inf")));
    }
  }
}

TEST(ReportTest, ShortNumbers) {
  EXPECT_EQ(Short(0.0, 3), "0");
  EXPECT_EQ(Short(1234.5, 3), "1234");
  EXPECT_EQ(Short(0.012345, 3), "0.0123");
  EXPECT_EQ(Short(1.1e-11, 2), "1.1e-11");
  EXPECT_EQ(Short(-2.5, 2), "-2.5");
}

TEST(BaselineTest, TopKeepsTheLargestAndTheEarlierOfEquals) {
  const Vector scores = {1, 5, 3, 5, 3};
  EXPECT_THAT(Top(scores, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(Top(scores, 9), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Recent(5, 2), ElementsAre(3, 4));
  EXPECT_THAT(DecayedByAge(4, 1), ElementsAre(0.01, 0.01, 0.01, 1.0));
}

TEST(BaselineTest, StreamingH2OKeepsHeavyHittersAndTheRecent) {
  // The first key is seen again and again. Evicted: at 4 its first repetition, which shares its
  // scores; at 5 the earlier of the two seen once; at 6 the second repetition.
  const std::vector<Vector> keys = {{0.0}, {50.0}, {0.0}, {60.0}, {0.0}, {70.0}, {80.0}};
  EXPECT_THAT(StreamingH2O(keys, 4, 1.0), ElementsAre(0, 3, 5, 6));
  EXPECT_THAT(StreamingH2O(keys, 7, 1.0), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(BaselineTest, RandomSubsetsAreUniform) {
  Random random(5);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) {
    for (const size_t index : AtRandom(6, 2, random)) ++seen[index];
  }
  for (const int count : seen) EXPECT_NEAR(count, 2000, 200);  // five deviations
}

long double Long(double x) { return static_cast<long double>(x); }

// The judge's answer satisfies the conditions of optimality as evaluated here, in long double.
TEST(JudgeTest, AnswersAreOptimal) {
  const Regimes regimes = *Regimes::Make("", 1);
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TokenSource source(regimes, kRegimes[seed % kRegimes.size()], seed);
    std::vector<Token> tokens = source.Take(16);
    if (seed % 3 == 0) tokens[5].key = tokens[2].key;
    const bool integer = seed % 2 == 0;
    const svdd::Capacity capacity = *svdd::Capacity::FromCapacity(integer ? 6.0 : 6.4);
    const Judge judge(tokens, kRegimeGamma, capacity);
    const double box = capacity.weight_at_box();
    double sum = 0;
    std::vector<long double> slope(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      sum += judge.alpha()[i];
      for (size_t j = 0; j < tokens.size(); ++j) {
        long double distance = 0;
        for (size_t k = 0; k < kRegimeDimension; ++k) {
          const long double step = Long(tokens[i].key[k]) - Long(tokens[j].key[k]);
          distance += step * step;
        }
        slope[i] += 2 * std::exp(-Long(kRegimeGamma) * distance) * Long(judge.alpha()[j]);
      }
    }
    EXPECT_NEAR(sum, 1.0, 1e-14);
    // Whoever can give has at most the slope of whoever can take.
    for (size_t give = 0; give < tokens.size(); ++give) {
      const char from = judge.partition()[give];
      EXPECT_EQ(judge.alpha()[give] == 0.0, from == 'R');
      EXPECT_EQ(judge.alpha()[give] == box, from == 'E');
      for (size_t take = 0; take < tokens.size(); ++take) {
        if (from == 'R' || judge.partition()[take] == 'E') continue;
        EXPECT_LE(slope[give], slope[take] + 1e-14L) << give << " to " << take;
      }
    }
  }
}

TEST(IcuTest, FillsForwardFromTheMeanAndLabelsEvents) {
  const std::string path = Temporary("stays.csv");
  std::ofstream(path) << "record_id,hour,Temp,HR,SysABP,DiasABP,RespRate,SaO2,Other\n"
                         "a,0,,100,120,60,20,97,x\n"
                         "a,2,39,,,,,,\n"
                         "b,0,36,80,120,60,20,,\n"
                         "b,1,,,,,,,\n"
                         "b,2,,,,,,,\n"
                         "c,0,36,90,120,60,20,97,\n";
  const std::vector<Stay> stays = *ReadStays(path, 3);
  ASSERT_EQ(stays.size(), 2U);  // c is too short
  EXPECT_THAT(stays[0].raw[0], ElementsAre(100, 120, 60, 20, 97, 37.5));
  EXPECT_EQ(stays[0].raw[1], stays[0].raw[0]);  // no row
  EXPECT_THAT(stays[0].raw[2], ElementsAre(100, 120, 60, 20, 97, 39));
  EXPECT_THAT(stays[0].event, ElementsAre(false, false, true));
  EXPECT_THAT(stays[1].raw[2], ElementsAre(80, 120, 60, 20, 97, 36));
  double sum = 0;
  double squares = 0;
  for (const Stay& stay : stays) {
    for (const Vector& key : stay.keys) {
      sum += key[0];
      squares += key[0] * key[0];
    }
  }
  EXPECT_NEAR(sum, 0.0, 1e-12);
  EXPECT_NEAR(squares / 6, 1.0, 1e-12);
}

TEST(IcuTest, NamesWhatIsWrong) {
  EXPECT_TRUE(absl::IsNotFound(ReadStays(Temporary("none.csv"), 3).status()));
  const std::string header = "record_id,hour,HR,SysABP,DiasABP,RespRate,SaO2,Temp\n";
  const std::map<std::string, std::string> faults = {
      {"", "no column record_id"},
      {"record_id,HR\n", "no column hour"},
      {"record_id,hour,HR\n", "no column SysABP"},
      {header + "a,0,1,2\n", "line 2 is not a row"},
      {header + "a,0,,,,,,\na,-1,,,,,,\n", "line 3 is not a row"},
      {header + "a,1,,,,,,\na,0,,,,,,\n", "line 3 goes back in time"},
      {header + "a,0,,,,,high,\n", "line 2, SaO2: not a number"},
  };
  for (const auto& [text, message] : faults) {
    const std::string path = Temporary("faulty.csv");
    std::ofstream(path) << text;
    const absl::Status status = ReadStays(path, 1).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(ProgramTest, RefusesWhatItDoesNotKnow) {
  const std::map<std::string, std::string> faults = {
      {"", "which bench?"},
      {"nosuch", "no bench \"nosuch\""},
      {"list more", "no arguments"},
      {"latency --nosuch", "no flag --nosuch for latency"},
      {"latency --icu x", "no flag --icu for latency"},
      {"latency --json", "--json needs a value"},
      {"latency --seed=-1", "--seed: not a whole number"},
      {"latency --refits 0", "--refits: not a whole number above 0"},
      {"latency --quick=yes", "--quick takes no value"},
      {"sequences --icu /nonexistent", "cannot read /nonexistent"},
  };
  for (const auto& [words, message] : faults) {
    const Ran ran = Bench(words);
    EXPECT_EQ(ran.status, words == "sequences --icu /nonexistent" ? 1 : 2) << words;
    EXPECT_THAT(ran.out, HasSubstr(message)) << words;
  }
}

TEST(ProgramTest, HelpFitsAndListsEveryBench) {
  const Ran help = Bench("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_LE(LongestLine(help.out), 80U);
  const Ran list = Bench("list");
  EXPECT_EQ(list.status, 0);
  size_t benches = 0;
  for (const absl::string_view line : absl::StrSplit(list.out, '\n', absl::SkipEmpty())) {
    const std::string name(
        absl::StripAsciiWhitespace(line).substr(0, absl::StripAsciiWhitespace(line).find(' ')));
    EXPECT_THAT(help.out, HasSubstr("\n  " + name + " "));
    const Ran own = Bench(name + " --help");
    EXPECT_EQ(own.status, 0);
    EXPECT_LE(LongestLine(own.out), 80U) << own.out;
    ++benches;
  }
  EXPECT_GE(benches, 5U);
}

void ExpectReport(const std::string& name, const Ran& ran, size_t claims) {
  EXPECT_EQ(ran.status, 0) << ran.out;
  const Json json = Json::parse(ran.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.out;
  EXPECT_EQ(json["bench"], name);
  EXPECT_EQ(json["claims"].size(), claims);
  for (const Json& claim : json["claims"]) {
    for (const char* const key : {"claim", "figure", "bar"}) {
      EXPECT_TRUE(claim[key].is_string() && !claim[key].get<std::string>().empty()) << claim;
    }
    EXPECT_EQ(claim["ok"], true) << claim;
  }
  for (const Json& table : json["tables"]) {
    EXPECT_GT(table["rows"].size(), 0U);
    for (const Json& row : table["rows"]) EXPECT_EQ(row.size(), table["columns"].size());
  }
  for (const char* const key : {"cpu", "compiler", "flags", "threads"}) {
    EXPECT_TRUE(json["machine"].contains(key)) << key;
  }
}

TEST(ProgramTest, PublishedExperimentsHoldInTheirQuickForm) {
  const std::map<std::string, size_t> claims = {
      {"unlearning-audit", 9},  {"sequences", 2},
      {"latency", 2},           {"rare-recall", 2},
      {"batched-solutions", 8}, {"rare-recall-encoder", 2},
      {"selective-copy", 1},    {"char-lm", 2}};
  for (const auto& [name, count] : claims) {
    SCOPED_TRACE(name);
    const Ran ran = Bench(name + " --quick --json -");
    ExpectReport(name, ran, count);
    EXPECT_FALSE(Json::parse(ran.out)["seeds"].empty());
  }
}

// Ratios of times are not what a test can hold; all else is.
TEST(ProgramTest, StepsOfTrainingAreTimedForEveryKind) {
  const Json json = Json::parse(Bench("train-step --quick --json -").out, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  ASSERT_EQ(json["tables"].size(), 2U);
  for (const Json& table : json["tables"]) {
    EXPECT_EQ(table["rows"].size(), 5U);
    for (const Json& row : table["rows"]) {
      EXPECT_GT(row["tokens"].get<double>(), 0.0);
      EXPECT_GE(row["most"].get<double>(), row["times full"].get<double>());
      EXPECT_LE(row["least"].get<double>(), row["times full"].get<double>());
      const bool gated = absl::EndsWith(row["shape, attention"].get<std::string>(), "hybrid");
      EXPECT_EQ(row["kept"].is_null(), !gated);
    }
    EXPECT_EQ(table["rows"][0]["times full"], 1.0);
  }
  ASSERT_EQ(json["claims"].size(), 3U);
  EXPECT_EQ(json["claims"][2]["ok"], true);
}

TEST(ProgramTest, TrainingTakesAnyText) {
  const std::string path = Temporary("text");
  std::ofstream(path, std::ios::binary) << std::string(5000, '\xff');
  const Ran ran = Bench("char-lm --quick --json - --text " + path);
  ExpectReport("char-lm", ran, 2);
  // 8 bits before training; one character, over and over, is soon expected.
  EXPECT_LT(Json::parse(ran.out)["tables"][0]["rows"][0]["bits"].get<double>(), 7.0);
  std::ofstream(path, std::ios::binary) << "short";
  EXPECT_THAT(Bench("char-lm --quick --text " + path).out, HasSubstr("has 5 bytes"));
  EXPECT_THAT(Bench("train-step --quick --text /nonexistent").out,
              HasSubstr("cannot read /nonexistent"));
}

TEST(TrainingTest, BaselinesKeepAtLeastAsManyBytes) {
  model::MixerOptions hybrid;
  hybrid.width = 64;
  hybrid.heads = 4;
  hybrid.chunk = 16;
  const double bytes = model::StateBytes(hybrid, 64, 10.0, sizeof(float));
  const auto state = [&](model::AttentionKind kind) {
    return model::StateBytes(AtEqualState(hybrid, kind, bytes), 64, 0.0, sizeof(float));
  };
  for (const auto kind : {model::AttentionKind::kWindow, model::AttentionKind::kDeltaNet,
                          model::AttentionKind::kLinear, model::AttentionKind::kFull}) {
    EXPECT_GE(state(kind), bytes) << model::AttentionKindName(kind);
  }
  EXPECT_LT(state(model::AttentionKind::kWindow), bytes + 4 * 128);
  // No more heads would do, and where none does it is the most.
  EXPECT_EQ(AtEqualState(hybrid, model::AttentionKind::kDeltaNet, 4 * 1024).heads, 4U);
  EXPECT_EQ(AtEqualState(hybrid, model::AttentionKind::kDeltaNet, 4 * 1025).heads, 2U);
  EXPECT_EQ(AtEqualState(hybrid, model::AttentionKind::kDeltaNet, 1e9).heads, 1U);
}

TEST(TrainingTest, MadeUpTextIsItsSeeds) {
  const std::string text = MadeUpText(5000, 3);
  EXPECT_GE(text.size(), 5000U);
  EXPECT_EQ(text, MadeUpText(5000, 3));
  EXPECT_NE(text, MadeUpText(5000, 4));
  EXPECT_THAT(text, testing::MatchesRegex("[a-z. \n]*"));
}

TEST(ProgramTest, WithoutHoursOfIntensiveCareNothingIsClaimed) {
  ExpectReport("icu-selection", Bench("icu-selection --quick --json -"), 0);
  ExpectReport("icu-selection", Bench("icu-selection --icu /nonexistent --json -"), 0);
}

TEST(ProgramTest, SelectsHoursOfAFileAndDrawsThem) {
  const std::string csv = Temporary("hours.csv");
  {
    Random random(3);
    std::ofstream file(csv);
    file << "stay_id,hour,HR,SysABP,DiasABP,RespRate,SaO2,Temp\n";
    for (const Stay& stay : SyntheticStays(30, 48, random)) {
      for (size_t h = 0; h < stay.raw.size(); ++h) {
        file << stay.id << "," << h;
        for (const double vital : stay.raw[h]) file << "," << vital;
        file << "\n";
      }
    }
  }
  const std::string json = Temporary("icu.json");
  const std::string svg = Temporary("icu.svg");
  const std::string claims = Temporary("icu.claims");
  const Ran ran = Bench(absl::StrCat("icu-selection --icu ", csv, " --json ", json, " --svg ", svg,
                                     " --claims ", claims));
  EXPECT_LE(LongestLine(ran.out), 80U);
  ExpectReport("icu-selection", {ran.status, Slurp(json)}, 1);
  ExpectWellFormed(Slurp(svg));
  EXPECT_THAT(Slurp(claims),
              testing::MatchesRegex("ok ICU selection: .* \\(bar above every baseline; .*\\)\n"));
}

TEST(ProgramTest, TheSameSeedGivesTheSameFigures) {
  const auto tables = [](const std::string& seed) {
    return Json::parse(Bench("sequences --quick --json - --seed " + seed).out)["tables"];
  };
  EXPECT_EQ(tables("7"), tables("7"));
  const auto recall = [](const std::string& seed) {
    return Json::parse(Bench("rare-recall --runs 1 --json - --seed " + seed).out)["tables"];
  };
  EXPECT_NE(recall("7"), recall("8"));
}

}  // namespace
}  // namespace lethe::bench
