// The section about what needs attention.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_parts.h"
#include "audit/report_html_sections.h"

namespace lethe::audit {
namespace {

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
    case Concern::kPendingKeys:
      return "rows are deleted, and no later certificate says that their keys are destroyed";
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

std::string CaseText(const ReportRow& row, const std::vector<Concern>& why) {
  std::vector<std::string> parts;
  for (const Concern concern : why) {
    switch (concern) {
      case Concern::kPendingKeys:
        parts.push_back(absl::StrCat(Grouped(row.counts.erased),
                                     row.counts.erased == 1 ? " token" : " tokens",
                                     " erased; no later certificate says that the keys are "
                                     "destroyed"));
        break;
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

// All erasures whose keys are pending, where the cases do not list them all.
void AppendPendingRanges(std::string& out, const ReportData& data) {
  if (data.pending_keys() <= kReportCases) return;
  SequenceRanges ranges;
  for (std::optional<uint64_t> next = data.keys.NextPending(0); next.has_value() && !ranges.cut;
       next = data.keys.NextPending(*next + 1)) {
    ranges.Add(*next);
  }
  absl::StrAppend(&out, "<p>Keys of ", Grouped(data.pending_keys()),
                  " erasures are pending: ", Ranges(ranges), ".</p>\n");
}

// Of a range that ends before the log does: certificates behind it may destroy keys.
void AppendUnknownKeys(std::string& out, const ReportData& data) {
  if (data.to_the_end || data.keys.pending() == 0) return;
  absl::StrAppend(&out, "<p class=\"soft\">Of ", Grouped(data.keys.pending()),
                  data.keys.pending() == 1 ? " erasure" : " erasures",
                  " no certificate here says that the keys are destroyed; one behind this range "
                  "may.</p>\n");
}

void AppendCases(std::string& out, const ReportData& data) {
  const uint64_t all_pending = data.pending_keys();
  uint64_t pending_listed =
      all_pending == 0 ? 0 : std::min<uint64_t>(data.pending.size(), kReportCases);
  uint64_t listed = 0;
  uint64_t all = 0;
  for (size_t i = 0; i < kConcerns; ++i) {
    if (i == static_cast<size_t>(Concern::kExcepted)) continue;
    listed += data.cases[i].size();
    all += data.cases_in_all[i];
  }
  if (all + all_pending == 0) return;
  absl::StrAppend(&out, "<h3>Cases</h3>\n<table class=\"cards\"><caption>The gravest first");
  if (pending_listed < all_pending) {
    absl::StrAppend(&out, "; of those with pending keys ", Grouped(pending_listed), " of ",
                    Grouped(all_pending), ", the numbers of all below the table");
  }
  if (listed < all) {
    absl::StrAppend(&out, all_pending > 0 ? "; of the rest " : "; ", Grouped(listed), " of ",
                    Grouped(all),
                    ", the others are in <a href=\"summary.csv\">summary.csv</a>, column "
                    "<code>attention</code>");
  }
  absl::StrAppend(&out,
                  ".</caption>\n<thead><tr><th scope=\"col\" class=\"n\">No.</th><th scope=\"col\">"
                  "Time (UTC)</th><th scope=\"col\">Kind</th><th scope=\"col\">Why</th><th "
                  "scope=\"col\">What is known</th></tr></thead>\n<tbody>\n");
  const auto append = [&](const ReportRow& row, const std::vector<Concern>& why) {
    absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"n\">", Link(row.sequence),
                    "</th><td class=\"nb\">", ShortTime(row.time), "</td><td class=\"nb\">",
                    Name(row.kind), "</td><td>", Tags(why), "</td><td class=\"full\">",
                    CaseText(row, why), "</td></tr>\n");
  };
  for (auto pending = data.pending.begin(); pending != data.pending.end() && pending_listed > 0;
       ++pending, --pending_listed) {
    append(pending->second, {Concern::kPendingKeys});
  }
  for (const std::vector<ReportRow>& rows : data.cases) {
    for (const ReportRow& row : rows) append(row, row.concerns);
  }
  absl::StrAppend(&out, "</tbody></table>\n");
  AppendPendingRanges(out, data);
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

}  // namespace

void AppendAttention(std::string& out, const ReportData& data) {
  OpenSection(out, "attention", "What needs attention");
  if (data.certificates == 0) {
    absl::StrAppend(&out,
                    "<p class=\"verdict\">There are no certificates, so nothing needs "
                    "attention.</p>\n</section>\n");
    return;
  }
  if (data.concerned == 0 && data.pending_keys() == 0) {
    absl::StrAppend(
        &out, "<p class=\"verdict\"><strong>Nothing.</strong> ",
        data.certificates == 1
            ? "The certificate is not"
            : absl::StrCat("None of the ", Grouped(data.certificates), " certificates is"),
        " uncertified, at odds with a refit, held back in part, only bounded or excepted",
        data.to_the_end ? ", and the keys of every erasure are destroyed" : "", ".</p>\n");
    AppendUnknownKeys(out, data);
    absl::StrAppend(&out, "</section>\n");
    return;
  }
  absl::StrAppend(&out, "<p class=\"verdict bad\">");
  if (const uint64_t pending = data.pending_keys(); pending > 0) {
    absl::StrAppend(&out, "The keys of <strong>", Grouped(pending),
                    pending == 1 ? " erasure" : " erasures", "</strong> are pending. ");
  }
  absl::StrAppend(
      &out, "<strong>", CertificatesText(data.concerned), "</strong> of ",
      Grouped(data.certificates), data.concerned == 1 ? " needs" : " need",
      data.pending_keys() > 0 ? " attention for another reason." : " attention.",
      "</p>\n<table class=\"cards\"><thead><tr><th scope=\"col\">Why</th><th scope=\"col\" "
      "class=\"n\">Certificates</th><th scope=\"col\">Meaning</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < kConcerns; ++i) {
    const Concern concern = static_cast<Concern>(i);
    const bool keys = concern == Concern::kPendingKeys;
    if (keys && !data.to_the_end) continue;
    absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"nb\">", Name(concern),
                    "</th><td class=\"n\" data-l=\"Certificates:\">",
                    Grouped(keys ? data.pending_keys() : data.concerns[i]),
                    "</td><td class=\"full\">", Meaning(concern), "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n");
  AppendCases(out, data);
  AppendUnknownKeys(out, data);
  AppendExceptions(out, data);
  absl::StrAppend(&out, "</section>\n");
}

}  // namespace lethe::audit
