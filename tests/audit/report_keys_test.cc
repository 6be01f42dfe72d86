// What report.html says of keys that were destroyed, of those that are pending, and of
// restorations.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/report_html.h"
#include "gtest/gtest.h"
#include "tests/audit/sample_log.h"

namespace lethe::audit::testing {
namespace {

// Certificates `first` to the last of these, of a log of `size`.
std::string PageOf(std::vector<CertificateBody> bodies, uint64_t first, uint64_t size) {
  const Signer signer = VectorSigner();
  ReportFacts facts;
  facts.checkpoint = {.origin = kOrigin, .size = size, .root = Sha256("root")};
  facts.note = *ParseNote(*SignCheckpoint(facts.checkpoint, signer));
  facts.keys.emplace_back(0, signer.verification_key());
  facts.first = first;
  facts.count = bodies.size();
  facts.created_unix = 1796080000;
  HtmlReport report(facts);
  for (size_t i = 0; i < bodies.size(); ++i) {
    bodies[i].sequence = first + i;
    bodies[i].exceptions.clear();
    bodies[i].time = absl::StrCat("2026-01-31T12:00:", 10 + i % 50, "Z");
    report.Add({.body = bodies[i], .id = "id", .keyid = "k", .leaf_hash = {}});
  }
  return report.Html();
}

std::string PageOf(const std::vector<CertificateBody>& bodies) {
  return PageOf(bodies, 0, bodies.size());
}

std::string Section(const std::string& page, const std::string& id) {
  const size_t start = page.find(absl::StrCat("<section id=\"", id, "\""));
  EXPECT_NE(start, std::string::npos) << id;
  return page.substr(start, page.find("</section>", start) - start);
}

// The row of a certificate in a table.
std::string Row(const std::string& section, uint64_t sequence) {
  const size_t number = section.find(absl::StrCat("class=\"n\"><a href=\"certificates/000/00000",
                                                  sequence, ".envelope.json\">#", sequence, "<"));
  EXPECT_NE(number, std::string::npos) << sequence;
  return section.substr(number, section.find("</tr>", number) - number);
}

bool Says(const std::string& text, absl::string_view part) { return absl::StrContains(text, part); }

TEST(ReportKeys, ARowSaysByWhichCertificateAndWhen) {
  const std::string page = PageOf({ForgetBody(), EvictBody(), ShreddedBody(SequenceSpan{0, 0}),
                                   ShreddedBody(SequenceSpan{0, 1}), EditBody()});
  const std::string table = Section(page, "certificates");
  EXPECT_TRUE(Says(Row(table, 0),
                   "in <a href=\"certificates/000/000002.envelope.json\">#2</a>, "
                   "2026-01-31 12:00<span class=\"sec\">:12</span>"));
  EXPECT_TRUE(Says(Row(table, 1), ">#3</a>, 2026-01-31 12:00<span class=\"sec\">:13</span>"));
  EXPECT_FALSE(Says(Row(table, 1), "pending-keys"));
  EXPECT_TRUE(Says(Row(table, 4), "pending-keys"));
  EXPECT_FALSE(Says(Row(table, 4), "Keys destroyed"));
  // What erases nothing has no keys.
  EXPECT_FALSE(Says(Row(table, 2), "pending-keys"));
  EXPECT_FALSE(Says(Row(table, 2), "Keys destroyed"));
}

TEST(ReportKeys, PendingOnesAreTheFirstCases) {
  std::vector<CertificateBody> bodies = {ForgetBody(), ForgetBody(), EditBody(),
                                         ShreddedBody(SequenceSpan{1, 1})};
  bodies[1].change->verdict = VerdictClass::kUncertified;
  const std::string page = PageOf(bodies);
  EXPECT_TRUE(Says(page, "<dt>Keys pending</dt><dd class=\"bad\">2</dd>"));
  const std::string section = Section(page, "attention");
  EXPECT_TRUE(Says(section,
                   "The keys of <strong>2 erasures</strong> are pending. <strong>1 "
                   "certificate</strong> of 4 needs attention for another reason."));
  size_t last = 0;
  for (const char* part : {">pending-keys</th>", ">uncertified</th>", ">#0<", ">#2<", ">#1<"}) {
    const size_t at = section.find(part, last);
    EXPECT_NE(at, std::string::npos) << part;
    last = at;
  }
  EXPECT_TRUE(Says(Row(section, 0), "4 tokens erased; no later certificate says"));
  EXPECT_TRUE(Says(Row(section, 0), "pending-keys"));
}

TEST(ReportKeys, NothingPendingIsSaid) {
  for (const CertificateBody& last : {ShreddedBody(SequenceSpan{0, 1}), ClosedBody()}) {
    const std::string page = PageOf({ForgetBody(), EditBody(), last});
    EXPECT_TRUE(Says(page, "<dt>Keys pending</dt><dd class=\"good\">0</dd>"));
    const std::string section = Section(page, "attention");
    EXPECT_TRUE(Says(section, "<strong>Nothing.</strong>"));
    EXPECT_TRUE(Says(section, "and the keys of every erasure are destroyed."));
    EXPECT_FALSE(Says(section, "pending-keys"));
    EXPECT_TRUE(Says(Row(Section(page, "certificates"), 0), ">#2</a>"));
  }
}

TEST(ReportKeys, ARangeThatEndsBeforeTheLogDoesNotJudge) {
  const std::vector<CertificateBody> bodies = {ShreddedBody(SequenceSpan{2, 4}), ForgetBody(),
                                               EditBody(), ShreddedBody(SequenceSpan{6, 6})};
  std::string page = PageOf(bodies, 5, 10);
  EXPECT_FALSE(Says(page, "pending-keys"));
  EXPECT_FALSE(Says(page, "Keys pending"));
  EXPECT_TRUE(Says(Section(page, "attention"),
                   "Of 1 erasure no certificate here says that the keys are destroyed"));
  EXPECT_TRUE(Says(Row(Section(page, "certificates"), 6), ">#8</a>"));
  page = PageOf(bodies, 5, 9);
  EXPECT_TRUE(Says(Row(Section(page, "attention"), 7), "pending-keys"));
}

TEST(ReportKeys, HoweverManyArePendingTheyAreCountedAndBounded) {
  std::vector<CertificateBody> bodies(5000, ForgetBody());
  for (size_t i = 10; i < bodies.size(); i += 10)
    bodies[i] = ShreddedBody(SequenceSpan{i - 5, i - 5});
  const std::string page = PageOf(bodies);
  const std::string section = Section(page, "attention");
  // 5,000 without 499 destructions and the 499 that they are of.
  EXPECT_TRUE(Says(section, "The keys of <strong>4,002 erasures</strong> are pending."));
  EXPECT_TRUE(Says(section, "of those with pending keys 100 of 4,002, the numbers of all below"));
  EXPECT_TRUE(Says(section, "<p>Keys of 4,002 erasures are pending: "));
  EXPECT_TRUE(Says(section, "and others; all are in"));
  EXPECT_LT(page.size(), size_t{1} << 20);
}

TEST(ReportKeys, ARestorationCountsApartFromTheRequests) {
  const std::string page =
      PageOf({ForgetBody(), ShreddedBody(SequenceSpan{0, 0}), RestoredBody(0, 2, 5)});
  EXPECT_TRUE(Says(page, "<dt>Tokens erased</dt><dd class=\"\">4</dd>"));
  const std::string erasures = Section(page, "erasures");
  EXPECT_TRUE(Says(erasures, "went on from a copy"));
  EXPECT_TRUE(Says(erasures, "class=\"k-restored\""));
  EXPECT_TRUE(Says(erasures, "Over all requests: 4 tokens matched, 4 erased"));
  EXPECT_TRUE(Says(Row(Section(page, "certificates"), 2), "data-l=\"Erased\">5<"));
  EXPECT_FALSE(Says(page, "pending-keys"));
}

}  // namespace
}  // namespace lethe::audit::testing
