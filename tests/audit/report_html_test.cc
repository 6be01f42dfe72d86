// report.html: what it says, that no text of a certificate becomes mark-up, that it stays small,
// that its own command works, and the accumulators against brute force and against the C library's
// calendar.
#include "audit/report_html.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "audit/encoding.h"
#include "audit/export_sinks.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_style.h"
#include "audit/witness.h"
#include "gtest/gtest.h"
#include "tests/audit/sample_log.h"

namespace lethe::audit::testing {
namespace {

constexpr int64_t kNow = 1796080000;  // 2026-11-30 23:06:40

ReportFacts FactsOf(uint64_t count, const Signer& signer = VectorSigner()) {
  ReportFacts facts;
  facts.checkpoint.origin = signer.verification_key().name();
  facts.checkpoint.size = count;
  facts.checkpoint.root = count == 0 ? EmptyRoot() : Sha256("root");
  facts.note = *ParseNote(*SignCheckpoint(facts.checkpoint, signer));
  facts.keys.emplace_back(0, signer.verification_key());
  facts.count = count;
  facts.created_unix = kNow;
  return facts;
}

std::string PageOf(std::vector<CertificateBody> bodies, const ReportFacts& facts) {
  HtmlReport report(facts);
  for (size_t i = 0; i < bodies.size(); ++i) {
    bodies[i].sequence = facts.first + i;
    report.Add({.body = bodies[i], .id = Hex(Sha256("id")), .keyid = "k", .leaf_hash = {}});
  }
  return report.Html();
}

std::string PageOf(const std::vector<CertificateBody>& bodies) {
  return PageOf(bodies, FactsOf(bodies.size()));
}

size_t CountOf(absl::string_view text, absl::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != absl::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// Reads the page as strict mark-up: every tag is closed by its own, every attribute is quoted,
// every text is free of "<" and every "&" begins one of the five escapes. A text that broke out of
// its place would break one of these, or would bring an element that the page does not use.
void ExpectWellFormed(const std::string& page) {
  const std::set<std::string> kKnown = {
      "html",   "head",    "title", "style", "body", "main", "header", "section", "footer",
      "h1",     "h2",      "h3",    "p",     "a",    "dl",   "dt",     "dd",      "div",
      "table",  "caption", "thead", "tbody", "tr",   "th",   "td",     "figure",  "figcaption",
      "ul",     "ol",      "li",    "i",     "b",    "bdi",  "code",   "pre",     "span",
      "strong", "sup",     "svg",   "g",     "text", "meta", "br",     "wbr",     "line",
      "rect",   "circle",  "tspan", "desc"};
  std::vector<std::string> open;
  size_t at = page.find("<html");
  ASSERT_EQ(at, std::string("<!DOCTYPE html>\n").size());
  while (at < page.size()) {
    if (page[at] == '&') {
      bool known = false;
      for (const char* escape : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
        known |= page.compare(at, std::string(escape).size(), escape) == 0;
      }
      // The style sheet has no "&".
      ASSERT_TRUE(known) << page.substr(at, 40);
    }
    if (page[at] != '<') {
      ++at;
      continue;
    }
    const bool closes = page[at + 1] == '/';
    size_t end = at + (closes ? 2 : 1);
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(page[end])) != 0) name += page[end++];
    ASSERT_FALSE(name.empty()) << page.substr(at, 40);
    if (closes) {
      ASSERT_EQ(page[end], '>');
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), name) << page.substr(at > 200 ? at - 200 : 0, 240);
      open.pop_back();
      at = end + 1;
      continue;
    }
    ASSERT_TRUE(kKnown.count(name) > 0) << name;
    while (page[end] == ' ') {
      ++end;
      while (page[end] != '=') {
        ASSERT_TRUE(std::isalnum(static_cast<unsigned char>(page[end])) != 0 || page[end] == '-')
            << page.substr(at, 120);
        ++end;
      }
      ASSERT_EQ(page[end + 1], '"') << page.substr(at, 120);
      const size_t quote = page.find('"', end + 2);
      ASSERT_EQ(page.substr(end + 2, quote - end - 2).find('<'), std::string::npos);
      end = quote + 1;
    }
    const bool empty = page[end] == '/' || name == "meta" || name == "br" || name == "wbr";
    if (page[end] == '/') ++end;
    ASSERT_EQ(page[end], '>') << page.substr(at, 120);
    if (!empty) open.push_back(name);
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
}

CertificateBody Clean(CertificateBody body) {
  body.exceptions.clear();
  return body;
}

std::vector<CertificateBody> Mixed(size_t count) {
  std::vector<CertificateBody> bodies;
  for (size_t i = 0; i < count; ++i) bodies.push_back(MixedBody(i));
  return bodies;
}

TEST(ReportHtml, CasesComeFirstAndTheGravestFirst) {
  std::vector<CertificateBody> bodies(6, Clean(ForgetBody()));
  bodies[1].counts = {.matched = 7, .erased = 4, .held = 3};
  bodies[2].change->verdict = VerdictClass::kBounded;
  bodies[3].change->verdict = VerdictClass::kUncertified;
  bodies[4].change->verdict = VerdictClass::kBounded;
  bodies[4].change->refit = RefitComparison{2e-9, false};
  bodies[5].exceptions = {"the tape in the safe"};
  bodies.push_back(ShreddedBody(SequenceSpan{0, 5}));
  const std::string page = PageOf(bodies);
  ExpectWellFormed(page);
  const size_t attention = page.find("id=\"attention\"");
  for (const char* later : {"chain", "erasures", "partition", "residuals", "stores", "certificates",
                            "verify", "words"}) {
    EXPECT_LT(attention, page.find(absl::StrCat("<section id=\"", later, "\"")));
  }
  const std::string section = page.substr(attention, page.find("</section>") - attention);
  EXPECT_TRUE(absl::StrContains(section, "<strong>5 certificates</strong> of 7 need attention."));
  // Uncertified #3, not identical #4, held #1, bounded #2; the exception in its own words.
  size_t last = 0;
  for (const char* number : {">#3<", ">#4<", ">#1<", ">#2<", "the tape in the safe", ">#5<"}) {
    const size_t at = section.find(number, last);
    EXPECT_NE(at, std::string::npos) << number;
    last = at;
  }
  EXPECT_TRUE(absl::StrContains(section, "3 of 7 matching tokens held"));
  EXPECT_FALSE(absl::StrContains(section, ">#0<"));
}

TEST(ReportHtml, WithoutCasesItSaysSo) {
  const std::string page = PageOf({Clean(ForgetBody()), ShreddedBody(SequenceSpan{0, 0})});
  EXPECT_TRUE(absl::StrContains(page, "<strong>Nothing.</strong> None of the 2 certificates is"));
  ExpectWellFormed(PageOf(std::vector<CertificateBody>{}));
  EXPECT_TRUE(absl::StrContains(PageOf(std::vector<CertificateBody>{}), "The log is empty."));
}

TEST(ReportHtml, EveryUncommonShapeIsWellFormed) {
  for (const size_t count : {1u, 2u, 3u, 30u, 300u}) ExpectWellFormed(PageOf(Mixed(count)));
  ExpectWellFormed(PageOf(std::vector<CertificateBody>(5, ShreddedBody())));
  std::vector<CertificateBody> bodies(3, Clean(ForgetBody()));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bodies[0].change->residuals = {.kkt_residual = kInfinity,
                                 .duality_gap = kInfinity,
                                 .slack = -kInfinity,
                                 .weight_bound = kInfinity,
                                 .decision_bound = kInfinity,
                                 .condition = kInfinity};
  bodies[1].change->residuals = {};
  bodies[2].change->residuals.kkt_residual = 5e-324;
  bodies[2].change->residuals.slack = 1.7e308;
  const std::string page = PageOf(bodies);
  ExpectWellFormed(page);
  for (const char* bad : {">nan", "\"nan", "-nan", ">inf", "\"inf"}) {
    EXPECT_FALSE(absl::StrContains(page, bad)) << bad;
  }
  EXPECT_EQ(CountOf(page, "role=\"img\""), 4u);
  bodies.resize(1);
  ExpectWellFormed(PageOf(bodies));
}

TEST(ReportHtml, NothingIsLoadedOrRun) {
  const std::string page = PageOf(Mixed(40));
  for (const char* part : {"<script", "javascript:", "onload", "src=", "url(", "@import", "http://",
                           "https://", "<link", "<img", "<iframe"}) {
    EXPECT_FALSE(absl::StrContains(page, part)) << part;
  }
  EXPECT_TRUE(absl::StrContains(page, "default-src 'none'"));
  // Links lead into the page or to files of the export.
  for (size_t at = page.find("href=\""); at != std::string::npos;
       at = page.find("href=\"", at + 1)) {
    const std::string target = page.substr(at + 6, 13);
    EXPECT_TRUE(target[0] == '#' || absl::StartsWith(target, "certificates/") ||
                absl::StartsWith(target, "summary."))
        << target;
  }
}

TEST(ReportHtml, TextOfCertificatesStaysText) {
  const std::string attack =
      "</bdi></td><script>alert(1)</script><img src=x onerror=\"a()\">&amp;'\"`<!--\xE2\x80\xAE"
      "gpj.exe\xE2\x81\xA9 ]]> \xC3\xBC";
  CertificateBody body = ForgetBody();
  body.exceptions = {attack};
  body.stores[0].evidence = attack;
  body.build = "</footer><script>'\"&";
  const std::string page = PageOf({body});
  ExpectWellFormed(page);
  EXPECT_FALSE(absl::StrContains(page, "<script"));
  EXPECT_FALSE(absl::StrContains(page, "\xE2\x80\xAE"));
  EXPECT_FALSE(absl::StrContains(page, "\xE2\x81\xA9"));
  EXPECT_TRUE(absl::StrContains(page, "&lt;/bdi&gt;&lt;/td&gt;&lt;script&gt;alert(1)"));
  EXPECT_TRUE(absl::StrContains(page, "gpj.exe\xEF\xBF\xBD ]]&gt; \xC3\xBC"));

  const uint64_t seed = 77;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces = {"<",
                                           ">",
                                           "\"",
                                           "'",
                                           "&",
                                           "/",
                                           "=",
                                           "<b",
                                           "</pre>",
                                           "<!--",
                                           "&#60;",
                                           "\xC2\xAB",
                                           "\xF0\x9F\x92\xA5",
                                           "x",
                                           " ",
                                           "-->"};
  for (int i = 0; i < 100; ++i) {
    std::string text;
    while (text.size() < 60) text += pieces[random() % pieces.size()];
    body.exceptions = {text};
    body.stores[1].evidence = text;
    ExpectWellFormed(PageOf({body}));
  }
}

TEST(ReportHtml, EscapeLeavesNothingThatIsNotText) {
  EXPECT_EQ(Escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(Escape(std::string("\0\n\x7F", 3)), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Escape("\xC2\x85"), "\xEF\xBF\xBD");
  EXPECT_EQ(Escape("\xD8\x9C\xE2\x80\x8F\xE2\x80\xAA\xE2\x81\xA6"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  // Malformed UTF-8, byte by byte.
  EXPECT_EQ(Escape("\xC3"), "\xEF\xBF\xBD");
  EXPECT_EQ(Escape("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Escape("\xE2\x80\x9E\xF0\x9F\x92\xA5"), "\xE2\x80\x9E\xF0\x9F\x92\xA5");
}

TEST(ReportHtml, HoweverManyAndHoweverLongThePageStaysSmallAndSaysWhatIsCut) {
  constexpr size_t kCount = 20000;
  ReportFacts facts = FactsOf(kCount);
  HtmlReport report(facts);
  CertificateBody body = ForgetBody();
  body.counts = {.matched = 5, .erased = 4, .held = 1};
  body.change->verdict = VerdictClass::kUncertified;
  for (size_t i = 0; i < kCount; ++i) {
    body.sequence = i;
    body.time = absl::StrFormat("%04d-%02d-01T00:%02d:00Z", i % 10000, i % 12 + 1, i % 60);
    body.change->memory_uid = absl::StrFormat("%032x", i);
    body.exceptions = {absl::StrCat(i, std::string(900, '<'))};
    body.stores = {{absl::StrCat("s", i), "rows-deleted", std::string(900, '&')}};
    report.Add({.body = body, .id = "", .keyid = "", .leaf_hash = {}});
  }
  const std::string page = report.Html();
  EXPECT_LT(page.size(), size_t{2} << 20);
  ExpectWellFormed(page);
  EXPECT_TRUE(absl::StrContains(page, "<strong>20,000 certificates</strong> of 20,000"));
  EXPECT_TRUE(absl::StrContains(page, "100 of 20,000, the others are in <a href=\"summary.csv\">"));
  EXPECT_TRUE(absl::StrContains(page, "<strong>Cut:</strong> the newest 250 of 20,000"));
  EXPECT_TRUE(absl::StrContains(page, "19,936 more claims"));
  EXPECT_TRUE(absl::StrContains(page, "19,950</td>"));
  EXPECT_TRUE(absl::StrContains(page, "10,000+"));
}

TEST(ReportHtml, KeysHandoversAndCosignaturesAreShown) {
  ReportFacts facts = FactsOf(3);
  const Signer next = VectorSigner(kOrigin, 0x43);
  facts.note = *ParseNote(*SignCheckpoint(facts.checkpoint, next));
  facts.keys.emplace_back(2, next.verification_key());
  absl::StatusOr<WitnessSigner> witness =
      WitnessSigner::FromSeed("witness.example/<w>", std::string(32, 'w'));
  ASSERT_TRUE(witness.ok());
  facts.note.signatures.push_back(*witness->Cosign(facts.note.text, 1790000000));
  const std::string page = PageOf(Mixed(3), facts);
  ExpectWellFormed(page);
  EXPECT_TRUE(absl::StrContains(page, "#2, handed over in #1"));
  EXPECT_TRUE(absl::StrContains(page, Escape(next.verification_key().vkey())));
  EXPECT_TRUE(absl::StrContains(page, "witness.example/&lt;w&gt;</bdi>"));
  EXPECT_TRUE(absl::StrContains(page, "21 September 2026, 14:13 UTC"));
  // The checkpoint as it is, line by line.
  EXPECT_TRUE(
      absl::StrContains(page, absl::StrCat(kOrigin, "\n3\n", Base64(Sha256("root")), "\n\n")));
}

TEST(ReportHtml, ARangeSaysThatItIsOneAndHowToVerifyIt) {
  ReportFacts facts = FactsOf(100);
  const Signer next = VectorSigner(kOrigin, 0x43);
  facts.keys.emplace_back(60, next.verification_key());
  facts.first = 7;
  facts.count = 3;
  const std::string page = PageOf(Mixed(3), facts);
  EXPECT_TRUE(absl::StrContains(page, "Certificates #7 to #9, of a log of 100."));
  EXPECT_TRUE(absl::StrContains(page, "--first 7 --last 9"));
  // The hand-over is not in the range, so its key has to be pinned too.
  EXPECT_EQ(CountOf(page, "--key &#39;"), 2u);
  EXPECT_FALSE(absl::StrContains(page, "tlog-tiles"));
}

TEST(ReportHtml, TheTimeOfThePageReadsBack) {
  const std::string page = PageOf(Mixed(3));
  const absl::StatusOr<int64_t> time = ReportTime(page);
  ASSERT_TRUE(time.ok());
  EXPECT_EQ(*time, kNow);
  EXPECT_TRUE(absl::StrContains(page, "Made 30 November 2026, 23:06 UTC"));
  const std::string mark = absl::StrCat("content=\"", kNow, "\"");
  for (const char* other :
       {"", "-1", "x", "1.5", "01", " 1", "253402300800", "99999999999999999999"}) {
    EXPECT_FALSE(
        ReportTime(absl::StrReplaceAll(page, {{mark, absl::StrCat("content=\"", other, "\"")}}))
            .ok())
        << other;
  }
  EXPECT_FALSE(ReportTime("").ok());
  EXPECT_FALSE(ReportTime(std::string(2000, ' ') + page).ok());
}

std::string Unescape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}});
}

// The page's own commands, with the openssl of this machine.
TEST(ReportHtml, TheOpensslCommandsWork) {
  for (const std::string& origin : {std::string(kOrigin), std::string("o'brien&<b>/log$HOME`")}) {
    SampleLog log(3, {}, origin);
    TempFolder temp;
    auto sink = CreateFolderSink(temp / "export");
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE(WriteExport(log, {.first = 1}, kNow, **sink).ok());
    ASSERT_TRUE((*sink)->Finish().ok());
    const std::string page = ReadAll(temp / "export/report.html");
    ExpectWellFormed(page);
    const std::string start = "<pre id=\"openssl\">";
    const size_t from = page.find(start) + start.size();
    WriteAll(temp / "run.sh", Unescape(page.substr(from, page.find("</pre>", from) - from)) + "\n");
    const std::string command = absl::StrCat("cd '", temp / "export", "' && TMPDIR='", temp.path(),
                                             "' sh ../run.sh > ../log 2>&1");
    EXPECT_EQ(std::system(command.c_str()), 0) << ReadAll(temp / "log");
    EXPECT_TRUE(absl::StrContains(ReadAll(temp / "log"), "Signature Verified Successfully"));
    // Another certificate's bytes in its place do not pass.
    std::string envelope = log.certificates()[1].envelope;
    const size_t payload = envelope.find("\"payload\":\"") + 200;
    envelope[payload] = envelope[payload] == 'A' ? 'B' : 'A';
    WriteAll(temp / "export/certificates/000/000001.envelope.json", envelope);
    EXPECT_NE(std::system(command.c_str()), 0);
  }
}

TEST(ReportHtml, TheCalendarIsTheCLibrarys) {
  const uint64_t seed = 5;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const int64_t seconds = static_cast<int64_t>(random() % 253402300800ULL) - 62135596800LL / 2;
    std::tm parts{};
    const std::time_t time = static_cast<std::time_t>(seconds);
    ASSERT_NE(gmtime_r(&time, &parts), nullptr);
    if (parts.tm_year + 1900 > 9999) continue;
    const std::string text =
        absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.5Z", parts.tm_year + 1900, parts.tm_mon + 1,
                        parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
    EXPECT_EQ(UnixSeconds(text), seconds) << text;
    const std::string label = TimeLabel(FloorTime(seconds, TimeStep::kYear), TimeStep::kYear);
    EXPECT_EQ(label, absl::StrCat(parts.tm_year + 1900));
    // The Monday at or before.
    const int64_t week = FloorTime(seconds, TimeStep::kWeek);
    const int64_t since_monday = (parts.tm_wday + 6) % 7;
    EXPECT_EQ(week, FloorTime(seconds, TimeStep::kDay) - since_monday * 86400);
    for (int step = 0; step <= static_cast<int>(TimeStep::kCentury); ++step) {
      const TimeStep kind = static_cast<TimeStep>(step);
      const int64_t start = FloorTime(seconds, kind);
      EXPECT_LE(start, seconds);
      EXPECT_GT(NextTime(start, kind), seconds) << step;
      EXPECT_EQ(FloorTime(start, kind), start);
      EXPECT_EQ(FloorTime(NextTime(start, kind), kind), NextTime(start, kind)) << step;
    }
  }
}

TEST(ReportHtml, TheTimelineLosesNothingAtAnySpan) {
  const uint64_t seed = 6;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const int64_t span :
       std::vector<int64_t>{1, 100, 7200, 86400, 2000000, 90000000, 3000000000, 200000000000}) {
    SCOPED_TRACE(::testing::Message() << "span " << span);
    Timeline timeline;
    uint64_t erased = 0;
    const size_t count = 20000;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t tokens = random() % 5;
      erased += tokens;
      timeline.Add(static_cast<int64_t>(random() % static_cast<uint64_t>(span)),
                   static_cast<CertificateKind>(random() % kReportKinds), tokens);
    }
    const Timeline::Bars bars = timeline.Draw();
    KindCounts all;
    for (size_t i = 0; i < bars.bars.size(); ++i) {
      all.Add(bars.bars[i].second);
      EXPECT_EQ(FloorTime(bars.bars[i].first, bars.step), bars.bars[i].first);
      if (i > 0) {
        EXPECT_EQ(bars.bars[i].first, NextTime(bars.bars[i - 1].first, bars.step));
      }
    }
    EXPECT_EQ(all.all_erased(), erased);
    EXPECT_EQ(all.all_certificates(), count);
    EXPECT_LE(bars.bars.size(), kReportBars);
    EXPECT_GE(bars.bars.size(), 7u);
  }
}

TEST(ReportHtml, PlotColumnsAreTheExtremesOfTheirCertificates) {
  const uint64_t seed = 8;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const uint64_t count : {1u, 2u, 119u, 120u, 121u, 1000u, 7777u}) {
    const uint64_t first = random() % 1000;
    SequencePlot plot(first, count);
    std::vector<double> values;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t pick = random() % 10;
      values.push_back(pick == 0   ? 0.0
                       : pick == 1 ? -1.0
                       : pick == 2 ? kInfinity
                                   : std::exp(-static_cast<double>(random() % 70)));
      plot.Add(first + i, values.back());
    }
    EXPECT_EQ(plot.largest()->value, *std::max_element(values.begin(), values.end()));
    EXPECT_EQ(plot.smallest()->value, *std::min_element(values.begin(), values.end()));
    uint64_t next = first;
    for (size_t column = 0; column < plot.columns().size(); ++column) {
      const auto [from, to] = plot.RangeOf(column);
      EXPECT_EQ(from, next);
      EXPECT_GE(to, from);
      next = to + 1;
      SequencePlot::Column expected;
      expected.low = kInfinity;
      for (uint64_t i = from; i <= to; ++i) {
        const double value = values[i - first];
        if (value <= 0.0) {
          ++expected.not_positive;
        } else if (std::isinf(value)) {
          ++expected.infinite;
        } else {
          ++expected.finite;
          expected.low = std::min(expected.low, value);
          expected.high = std::max(expected.high, value);
        }
      }
      const SequencePlot::Column& actual = plot.columns()[column];
      EXPECT_EQ(actual.finite, expected.finite);
      EXPECT_EQ(actual.not_positive, expected.not_positive);
      EXPECT_EQ(actual.infinite, expected.infinite);
      if (expected.finite > 0) {
        EXPECT_EQ(actual.low, expected.low);
        EXPECT_EQ(actual.high, expected.high);
      }
    }
    EXPECT_EQ(next, first + count);
  }
}

// WCAG 2: relative luminance and contrast.
double Luminance(const std::string& colour) {
  std::string hex = colour;
  if (hex.size() == 3) hex = {hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]};
  const auto part = [&](size_t at) {
    const double value = std::stoi(hex.substr(at, 2), nullptr, 16) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4);
}

TEST(ReportHtml, ColoursHaveContrastInLightDarkAndPrint) {
  const std::string style(ReportStyle());
  size_t themes = 0;
  for (size_t at = style.find("--paper:"); at != std::string::npos;
       at = style.find("--paper:", at + 1), ++themes) {
    const auto colour = [&](const std::string& name) {
      const size_t found = style.find("--" + name + ":#", at);
      const size_t start = found + name.size() + 4;
      return Luminance(style.substr(start, style.find_first_of(";}\n", start) - start));
    };
    const auto contrast = [&](const std::string& front, const std::string& back) {
      const double a = colour(front) + 0.05;
      const double b = colour(back) + 0.05;
      return std::max(a, b) / std::min(a, b);
    };
    for (const char* text : {"ink", "soft", "forget", "good", "bad"}) {
      EXPECT_GE(contrast(text, "paper"), 4.5) << text << " in theme " << themes;
    }
    EXPECT_GE(contrast("ink", "wash"), 4.5);
    EXPECT_GE(contrast("ink", "badwash"), 4.5);
    for (const char* mark : {"evict", "edit", "other"}) {
      EXPECT_GE(contrast(mark, "paper"), 3.0) << mark << " in theme " << themes;
    }
  }
  EXPECT_EQ(themes, 3u);
}

}  // namespace
}  // namespace lethe::audit::testing
