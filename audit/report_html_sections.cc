#include "audit/report_html_sections.h"

#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "audit/encoding.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_parts.h"

namespace lethe::audit {
namespace {

// A line may end before it where a cell is narrow.
constexpr absl::string_view kArrow = "<wbr><span class=\"to\">\xE2\x86\x92</span>";

std::string FromTo(uint64_t before, uint64_t after) {
  return before == after ? Grouped(after) : absl::StrCat(Grouped(before), kArrow, Grouped(after));
}

void AppendRow(std::string& out, const ReportRow& row, bool keys_judged) {
  std::vector<Concern> concerns = row.concerns;
  if (keys_judged && row.erases() && !row.destroyed.has_value()) {
    concerns.insert(concerns.begin(), Concern::kPendingKeys);
  }
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
  absl::StrAppend(&out, "<td class=\"full\"",
                  row.destroyed.has_value() ? " data-l=\"Keys destroyed\"" : "", ">");
  if (row.destroyed.has_value()) {
    absl::StrAppend(&out, "in ", Link(row.destroyed->sequence), ", ",
                    ShortTime(row.destroyed->time));
  }
  absl::StrAppend(&out, "</td><td>", Tags(concerns), "</td></tr>\n");
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
      "destroyed the keys of earlier erasures",
      "compared the served state with one solved from scratch",
      "removed the tenant with all its memories",
      "handed the log over to its next key",
      "went on from a copy and took out again what had come back with it"};
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
      "Keys destroyed</th><th scope=\"col\">Attention</th></tr></thead>\n<tbody>\n");
  for (auto row = data.newest.rbegin(); row != data.newest.rend(); ++row) {
    AppendRow(out, *row, data.to_the_end);
  }
  absl::StrAppend(&out, "</tbody></table>\n</section>\n");
}

}  // namespace lethe::audit
