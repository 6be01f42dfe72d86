#include "audit/report_html_sections.h"

#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "audit/encoding.h"
#include "audit/report_html_charts.h"

namespace lethe::audit {
namespace {

// A line may end before it where a cell is narrow.
constexpr absl::string_view kArrow = "<wbr><span class=\"to\">\xE2\x86\x92</span>";

void OpenSection(std::string& out, absl::string_view id, absl::string_view heading) {
  absl::StrAppend(&out, "<section id=\"", id, "\" aria-labelledby=\"", id, "-h\">\n<h2 id=\"", id,
                  "-h\">", heading, "</h2>\n");
}

std::string Certificates(uint64_t count) {
  return absl::StrCat(Grouped(count), count == 1 ? " certificate" : " certificates");
}

// The number of a certificate, leading to its file.
std::string Link(uint64_t sequence) {
  return absl::StrCat("<a href=\"", CertificateStem(sequence), ".envelope.json\">#", sequence,
                      "</a>");
}

// "2026-01-31 12:00:05" without the fraction; on paper without the seconds too.
std::string ShortTime(absl::string_view time) {
  return absl::StrCat(time.substr(0, 10), " ", time.substr(11, 5), "<span class=\"sec\">",
                      time.substr(16, 3), "</span>");
}

std::string FromTo(uint64_t before, uint64_t after) {
  return before == after ? Grouped(after) : absl::StrCat(Grouped(before), kArrow, Grouped(after));
}

std::string Ranges(const SequenceRanges& ranges) {
  std::string out = absl::StrJoin(ranges.ranges, ", ", [](std::string* text, const auto& range) {
    absl::StrAppend(text, Link(range.first));
    if (range.second > range.first) {
      absl::StrAppend(text, "\xE2\x80\x93", Link(range.second));
    }
  });
  if (ranges.cut) {
    absl::StrAppend(&out, " and others; all are in <a href=\"summary.csv\">summary.csv</a>");
  }
  return out;
}

absl::string_view Meaning(Concern concern) {
  switch (concern) {
    case Concern::kUncertified:
      return "nothing is claimed of the state after the change";
    case Concern::kNotIdentical:
      return "a memory solved from scratch gave other bits";
    case Concern::kHeld:
      return "matching tokens were held back and not erased";
    case Concern::kBounded:
      return "only the duality gap is known; partition and weights are not proven";
    case Concern::kExcepted:
      return "the certificate names something that it does not cover";
  }
  return "";
}

std::string CaseText(const ReportRow& row) {
  std::vector<std::string> parts;
  for (const Concern concern : row.concerns) {
    switch (concern) {
      case Concern::kUncertified:
      case Concern::kBounded:
        parts.push_back(absl::StrCat("duality gap ", NumberHtml(row.change->residuals.duality_gap),
                                     ", KKT residual ",
                                     NumberHtml(row.change->residuals.kkt_residual)));
        break;
      case Concern::kNotIdentical:
        parts.push_back(absl::StrCat("a weight differs from the refit by at most ",
                                     NumberHtml(row.change->refit->deviation)));
        break;
      case Concern::kHeld:
        parts.push_back(absl::StrCat(Grouped(row.counts.held), " of ", Grouped(row.counts.matched),
                                     " matching tokens held"));
        break;
      case Concern::kExcepted:
        parts.push_back("has exceptions, below");
        break;
    }
  }
  return absl::StrJoin(parts, "; ");
}

std::string Tags(const std::vector<Concern>& concerns) {
  return absl::StrJoin(concerns, ", ", [](std::string* out, Concern concern) {
    absl::StrAppend(out, "<span class=\"tag", concern == Concern::kExcepted ? "" : " bad", "\">",
                    Name(concern), "</span>");
  });
}

void AppendCases(std::string& out, const ReportData& data) {
  uint64_t listed = 0;
  uint64_t all = 0;
  for (size_t i = 0; i < kConcerns; ++i) {
    if (i == static_cast<size_t>(Concern::kExcepted)) continue;
    listed += data.cases[i].size();
    all += data.cases_in_all[i];
  }
  if (all == 0) return;
  absl::StrAppend(&out, "<h3>Cases</h3>\n<table class=\"cards\"><caption>The gravest first");
  if (listed < all) {
    absl::StrAppend(&out, "; ", Grouped(listed), " of ", Grouped(all),
                    ", the others are in <a href=\"summary.csv\">summary.csv</a>, column "
                    "<code>attention</code>");
  }
  absl::StrAppend(&out,
                  ".</caption>\n<thead><tr><th scope=\"col\" class=\"n\">No.</th><th scope=\"col\">"
                  "Time (UTC)</th><th scope=\"col\">Kind</th><th scope=\"col\">Why</th><th "
                  "scope=\"col\">What is known</th></tr></thead>\n<tbody>\n");
  for (const std::vector<ReportRow>& rows : data.cases) {
    for (const ReportRow& row : rows) {
      absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"n\">", Link(row.sequence),
                      "</th><td class=\"nb\">", ShortTime(row.time), "</td><td class=\"nb\">",
                      Name(row.kind), "</td><td>", Tags(row.concerns), "</td><td class=\"full\">",
                      CaseText(row), "</td></tr>\n");
    }
  }
  absl::StrAppend(&out, "</tbody></table>\n");
}

void AppendExceptions(std::string& out, const ReportData& data) {
  if (data.exceptions.empty()) return;
  absl::StrAppend(
      &out,
      "<h3>Exceptions</h3>\n<table class=\"cards\"><caption>What certificates say they do not "
      "cover, in their own words.</caption>\n<thead><tr><th scope=\"col\">Exception</th><th "
      "scope=\"col\" class=\"n\">Certificates</th><th scope=\"col\">Which</th></tr></thead>\n"
      "<tbody>\n");
  for (const auto& [text, ranges] : data.exceptions) {
    absl::StrAppend(&out, "<tr><td class=\"any full\"><bdi>", Escape(text),
                    "</bdi></td><td class=\"n\" data-l=\"Certificates:\">", Grouped(ranges.count),
                    "</td><td class=\"any\">", Ranges(ranges), "</td></tr>\n");
  }
  if (data.other_exceptions.count > 0) {
    absl::StrAppend(&out,
                    "<tr><td class=\"full\">Other texts; they are in <a "
                    "href=\"summary.csv\">summary.csv</a></td><td class=\"n\" "
                    "data-l=\"Certificates:\">",
                    Grouped(data.other_exceptions.count), "</td><td class=\"any\">",
                    Ranges(data.other_exceptions), "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n");
}

void AppendRow(std::string& out, const ReportRow& row) {
  const StateChange* change = row.change.has_value() ? &*row.change : nullptr;
  absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"n\">", Link(row.sequence),
                  "</th><td class=\"nb\">", ShortTime(row.time), "</td><td class=\"nb\">",
                  Name(row.kind), "</td><td class=\"n br\" data-l=\"Erased\">",
                  Grouped(row.counts.erased), "</td>");
  if (change == nullptr) {
    absl::StrAppend(&out, "<td></td><td></td><td></td><td></td><td></td><td></td>");
  } else {
    const PartitionSizes& before = change->partition_before;
    const PartitionSizes& after = change->partition_after;
    absl::StrAppend(
        &out, "<td class=\"n br\" data-l=\"Margin\">", FromTo(before.margin, after.margin),
        "</td><td class=\"n br\" data-l=\"Error\">", FromTo(before.error, after.error),
        "</td><td class=\"n br\" data-l=\"Reserve\">", FromTo(before.reserve, after.reserve),
        "</td><td class=\"nb\">", Name(change->verdict), "</td><td class=\"n\" data-l=\"KKT\">",
        NumberHtml(change->residuals.kkt_residual, 2), "</td><td class=\"n\" data-l=\"Slack\">",
        NumberHtml(change->residuals.slack, 2), "</td>");
  }
  absl::StrAppend(&out, "<td>", Tags(row.concerns), "</td></tr>\n");
}

void AppendSmallest(std::string& out,
                    absl::string_view name,
                    const SequencePlot& plot,
                    bool largest) {
  const std::optional<SequencePlot::Extreme> extreme = largest ? plot.largest() : plot.smallest();
  if (!extreme.has_value()) return;
  absl::StrAppend(&out, largest ? "Largest " : "Smallest ", name, ": ", NumberHtml(extreme->value),
                  ", in ", Link(extreme->sequence), ". ");
}

void AppendVerdicts(std::string& out, const ReportData& data) {
  constexpr std::array<absl::string_view, 4> kMeanings = {
      "a cold refit was run and every published bit agreed",
      "partition and rounding of every weight are proven",
      "the duality gap is known, the partition is not proven", "nothing is claimed"};
  absl::StrAppend(&out,
                  "<table class=\"cards\"><thead><tr><th scope=\"col\">Verdict</th><th "
                  "scope=\"col\" class=\"n\">"
                  "Certificates</th><th scope=\"col\">It says of the state after</th></tr></thead>"
                  "<tbody>\n");
  for (size_t i = 0; i < kMeanings.size(); ++i) {
    absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"nb\">", Name(static_cast<VerdictClass>(i)),
                    "</th><td class=\"n\" data-l=\"Certificates:\">", Grouped(data.verdicts[i]),
                    "</td><td class=\"full\">", kMeanings[i], "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n");
}

void AppendPlot(std::string& out,
                absl::string_view id,
                absl::string_view heading,
                std::span<const PlotSeries> series,
                absl::string_view not_positive,
                absl::string_view caption) {
  const std::string plot = LogPlot(id, heading, series, not_positive);
  absl::StrAppend(&out, "<figure><h3>", heading, "</h3>");
  if (series.size() > 1) {
    absl::StrAppend(&out, "<ul class=\"legend\"><li class=\"c-forget\"><i class=\"o\"></i><b>",
                    series[0].name, "</b></li><li class=\"c-edit\"><i class=\"ring\"></i><b>",
                    series[1].name, "</b></li></ul>");
  }
  absl::StrAppend(&out, plot, "<figcaption>", caption);
  const auto [first, last] = series[0].plot->RangeOf(0);
  if (last > first) {
    absl::StrAppend(&out, "A stroke spans lowest and highest of about ", Grouped(last - first + 1),
                    " certificates.");
  }
  absl::StrAppend(&out, "</figcaption></figure>\n");
}

}  // namespace

std::string CertificateStem(uint64_t sequence) {
  return absl::StrFormat("certificates/%03d/%06d", sequence / 1000, sequence);
}

void AppendAttention(std::string& out, const ReportData& data) {
  OpenSection(out, "attention", "What needs attention");
  if (data.certificates == 0) {
    absl::StrAppend(&out,
                    "<p class=\"verdict\">There are no certificates, so nothing needs "
                    "attention.</p>\n</section>\n");
    return;
  }
  if (data.concerned == 0) {
    absl::StrAppend(
        &out, "<p class=\"verdict\"><strong>Nothing.</strong> ",
        data.certificates == 1
            ? "The certificate is not"
            : absl::StrCat("None of the ", Grouped(data.certificates), " certificates is"),
        " uncertified, at odds with a refit, held back in part, only bounded or "
        "excepted.</p>\n</section>\n");
    return;
  }
  absl::StrAppend(
      &out, "<p class=\"verdict bad\"><strong>", Certificates(data.concerned), "</strong> of ",
      Grouped(data.certificates), data.concerned == 1 ? " needs" : " need",
      " attention.</p>\n<table class=\"cards\"><thead><tr><th scope=\"col\">Why</th><th "
      "scope=\"col\" "
      "class=\"n\">Certificates</th><th scope=\"col\">Meaning</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < kConcerns; ++i) {
    const Concern concern = static_cast<Concern>(i);
    absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"nb\">", Name(concern),
                    "</th><td class=\"n\" data-l=\"Certificates:\">", Grouped(data.concerns[i]),
                    "</td><td class=\"full\">", Meaning(concern), "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n");
  AppendCases(out, data);
  AppendExceptions(out, data);
  absl::StrAppend(&out, "</section>\n");
}

void AppendErasures(std::string& out, const ReportData& data) {
  OpenSection(out, "erasures", "Erasures over time");
  if (data.certificates == 0) {
    absl::StrAppend(&out, "<p>Nothing was erased yet.</p>\n</section>\n");
    return;
  }
  const Timeline::Bars bars = data.timeline.Draw();
  absl::StrAppend(&out, "<figure><ul class=\"legend\">");
  for (const CertificateKind kind :
       {CertificateKind::kForget, CertificateKind::kEvict, CertificateKind::kEdit}) {
    absl::StrAppend(&out, "<li class=\"c-", Name(kind), "\"><i></i><b>", Name(kind), "</b></li>");
  }
  absl::StrAppend(&out, "</ul>", TimelineChart(bars), "<figcaption>Tokens erased; a bar is ",
                  Name(bars.step), ", UTC.</figcaption></figure>\n");
  absl::StrAppend(
      &out,
      "<table class=\"cards\"><thead><tr><th scope=\"col\">Kind</th><th scope=\"col\" class=\"n\">"
      "Certificates</th><th scope=\"col\" class=\"n\">Tokens erased</th><th "
      "scope=\"col\">What it does</th></tr></thead><tbody>\n");
  constexpr std::array<absl::string_view, kReportKinds> kMeanings = {
      "erased tokens on request",
      "replaced the content of tokens under the same ids",
      "took tokens out to keep a budget",
      "destroyed the keys of an earlier erasure",
      "compared the served state with one solved from scratch",
      "removed the tenant with all its memories",
      "handed the log over to its next key"};
  for (size_t i = 0; i < kReportKinds; ++i) {
    if (data.kinds.certificates[i] == 0) continue;
    absl::StrAppend(
        &out, "<tr><th scope=\"row\" class=\"nb\">", Name(static_cast<CertificateKind>(i)),
        "</th><td class=\"n\" data-l=\"Certificates:\">", Grouped(data.kinds.certificates[i]),
        "</td><td class=\"n\" data-l=\"Tokens erased:\">", Grouped(data.kinds.erased[i]),
        "</td><td class=\"full\">", kMeanings[i], "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n<p class=\"soft small\">Over all requests: ",
                  Grouped(data.counts.matched), " tokens matched, ", Grouped(data.counts.erased),
                  " erased, ", Grouped(data.counts.held), " held, ", Grouped(data.counts.not_found),
                  " not found, ", Grouped(data.counts.already_erased),
                  " already erased.</p>\n</section>\n");
}

void AppendPartitions(std::string& out, const ReportData& data) {
  OpenSection(out, "partition", "Partition before and after");
  if (data.changes.empty()) {
    absl::StrAppend(&out, "<p>No certificate here erased a token.</p>\n</section>\n");
    return;
  }
  std::array<uint64_t, 3> most{};
  for (const ReportRow& row : data.changes) {
    for (const PartitionSizes& sizes :
         {row.change->partition_before, row.change->partition_after}) {
      most[0] = std::max(most[0], sizes.margin);
      most[1] = std::max(most[1], sizes.error);
      most[2] = std::max(most[2], sizes.reserve);
    }
  }
  absl::StrAppend(
      &out,
      "<p>Tokens in the margin and in the error set carry weight; those in the reserve do not. "
      "Each "
      "column has its own scale.</p>\n<ul class=\"legend\"><li class=\"c-before\"><i></i><b>before"
      "</b></li><li class=\"c-forget\"><i></i><b>after</b></li></ul>\n<table class=\"cards bars\">"
      "<caption>",
      data.changes.size() == kReportChanges
          ? absl::StrCat("The newest ", kReportChanges, " changes")
          : std::string("Every change"),
      ", the latest first.</caption><thead><tr><th scope=\"col\" class=\"n\">No.</th><th "
      "scope=\"col\">Kind</th><th scope=\"col\">Margin</th><th scope=\"col\">Error</th><th "
      "scope=\"col\">Reserve</th></tr></thead><tbody>\n");
  for (auto row = data.changes.rbegin(); row != data.changes.rend(); ++row) {
    const PartitionSizes& before = row->change->partition_before;
    const PartitionSizes& after = row->change->partition_after;
    absl::StrAppend(
        &out, "<tr><th scope=\"row\" class=\"n\">", Link(row->sequence),
        "</th><td class=\"nb\" style=\"width:auto\">", Name(row->kind),
        "</td><td data-l=\"Margin\">", FromTo(before.margin, after.margin),
        BeforeAfterBars(before.margin, after.margin, most[0]), "</td><td data-l=\"Error\">",
        FromTo(before.error, after.error), BeforeAfterBars(before.error, after.error, most[1]),
        "</td><td class=\"full\" data-l=\"Reserve\">", FromTo(before.reserve, after.reserve),
        BeforeAfterBars(before.reserve, after.reserve, most[2]), "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n</section>\n");
}

void AppendResiduals(std::string& out, const ReportData& data) {
  OpenSection(out, "residuals", "Residuals and margin");
  if (data.kkt_residual.empty()) {
    absl::StrAppend(&out,
                    "<p>No certificate here concerns the state of a memory.</p>\n</section>\n");
    return;
  }
  AppendVerdicts(out, data);
  const std::array<PlotSeries, 2> measured = {
      {{"KKT residual", "s1", &data.kkt_residual}, {"duality gap", "s2", &data.duality_gap}}};
  std::string caption = "By certificate; below is better. Measured over all tokens retained. ";
  AppendSmallest(caption, "KKT residual", data.kkt_residual, true);
  AppendSmallest(caption, "duality gap", data.duality_gap, true);
  AppendPlot(out, "measured", "Measured residuals", measured, "0", caption);
  const std::array<PlotSeries, 2> proven = {
      {{"weights", "s1", &data.weight_bound}, {"decision function", "s2", &data.decision_bound}}};
  caption = "By certificate; below is better. \xE2\x88\x9E stands for not bounded. ";
  AppendSmallest(caption, "bound on the weights", data.weight_bound, true);
  AppendSmallest(caption, "bound on the decision function", data.decision_bound, true);
  AppendPlot(out, "proven", "Proven bounds on the error", proven, "0", caption);
  const std::array<PlotSeries, 1> slack = {{{"slack", "s1", &data.slack}}};
  caption =
      "By certificate; above is better. A lower bound on how far the state is from one with "
      "another "
      "partition; 0 or less means that none was shown. ";
  AppendSmallest(caption, "slack", data.slack, false);
  AppendPlot(out, "slack", "Margin: slack of the partition", slack, "\xE2\x89\xA4 0", caption);
  absl::StrAppend(&out, "</section>\n");
}

void AppendStores(std::string& out, const ReportData& data) {
  OpenSection(out, "stores", "Where the bytes were");
  if (data.stores.empty()) {
    absl::StrAppend(&out, "<p>No certificate here names a store.</p>\n</section>\n");
    return;
  }
  absl::StrAppend(
      &out,
      "<table class=\"cards\"><caption>What is claimed of each place that held the "
      "bytes.</caption><thead><tr><th scope=\"col\">Store</th><th scope=\"col\">Level"
      "</th><th scope=\"col\" class=\"n\">Certificates</th><th scope=\"col\">Evidence, of "
      "the newest</th></tr></thead><tbody>\n");
  for (const ReportData::StoreLine& line : data.stores) {
    absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"any\">", Escape(line.store),
                    "</th><td class=\"any\">", Escape(line.level),
                    "</td><td class=\"n\" data-l=\"Certificates:\">", Grouped(line.certificates),
                    "</td><td class=\"any full\">");
    if (!line.evidence.empty()) {
      absl::StrAppend(&out, "<bdi>", Escape(line.evidence), "</bdi>");
    }
    absl::StrAppend(&out, "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n");
  if (data.other_stores > 0) {
    absl::StrAppend(&out, "<p>", Grouped(data.other_stores),
                    " more claims, of other stores or levels, are in <a "
                    "href=\"summary.csv\">summary.csv</a>.</p>\n");
  }
  absl::StrAppend(&out, "</section>\n");
}

void AppendCertificates(std::string& out, const ReportData& data) {
  OpenSection(out, "certificates", "Certificates");
  if (data.certificates == 0) {
    absl::StrAppend(&out, "<p>There are none.</p>\n</section>\n");
    return;
  }
  absl::StrAppend(&out, "<table class=\"cards dense\"><caption>");
  if (data.newest.size() < data.certificates) {
    absl::StrAppend(&out, "<strong>Cut:</strong> the newest ", data.newest.size(), " of ",
                    Grouped(data.certificates),
                    ". All are in <a href=\"summary.csv\">summary.csv</a> and <a "
                    "href=\"summary.jsonl\">summary.jsonl</a>. ");
  } else {
    absl::StrAppend(&out,
                    data.certificates == 1 ? std::string("The only one")
                                           : absl::StrCat("All ", Grouped(data.certificates)),
                    ", also in <a href=\"summary.csv\">summary.csv</a> with more columns. ");
  }
  if (data.certificates > 1) absl::StrAppend(&out, "The latest first.");
  absl::StrAppend(
      &out,
      "</caption>\n<thead><tr><th scope=\"col\" class=\"n\">No.</th><th "
      "scope=\"col\">Time (UTC)</th><th scope=\"col\">Kind</th><th scope=\"col\" class=\"n\">Erased"
      "</th><th scope=\"col\" class=\"n\">Margin</th><th scope=\"col\" class=\"n\">Error</th><th "
      "scope=\"col\" class=\"n\">Reserve</th><th scope=\"col\">Verdict</th><th scope=\"col\" "
      "class=\"n\">KKT residual</th><th scope=\"col\" class=\"n\">Slack</th><th scope=\"col\">"
      "Attention</th></tr></thead>\n<tbody>\n");
  for (auto row = data.newest.rbegin(); row != data.newest.rend(); ++row) AppendRow(out, *row);
  absl::StrAppend(&out, "</tbody></table>\n</section>\n");
}

}  // namespace lethe::audit
