#include "audit/report_html.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_sections.h"
#include "audit/report_html_style.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kCreated = "<meta name=\"created\" content=\"";

std::string Dates(const ReportData& data) {
  // The fraction and the seconds say nothing here.
  const std::string first = LongTime(UnixSeconds(data.first_time));
  const std::string last = LongTime(UnixSeconds(data.last_time));
  return first == last ? first : absl::StrCat(first, " to ", last);
}

std::string Covered(const ReportFacts& facts) {
  const uint64_t size = facts.checkpoint.size;
  if (size == 0) return "The log is empty.";
  if (facts.count == size) {
    return size == 1 ? "The one certificate of the log."
                     : absl::StrCat("All ", Grouped(size), " certificates of the log.");
  }
  return absl::StrCat(facts.count == 1 ? absl::StrCat("Certificate #", facts.first)
                                       : absl::StrCat("Certificates #", facts.first, " to #",
                                                      facts.first + facts.count - 1),
                      ", of a log of ", Grouped(size), ". The others are not in this export.");
}

void AppendFigure(std::string& out,
                  absl::string_view name,
                  absl::string_view value,
                  absl::string_view css_class = "") {
  absl::StrAppend(&out, "<div><dt>", name, "</dt><dd class=\"", css_class, "\">", value,
                  "</dd></div>");
}

void AppendHead(std::string& out, const ReportFacts& facts, const ReportData& data) {
  absl::StrAppend(
      &out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n", kCreated,
      facts.created_unix,
      "\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>Deletion log "
      "report: ",
      Escape(facts.checkpoint.origin), "</title>\n<style>", ReportStyle(),
      "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"eyebrow\">Deletion log "
      "report</p>\n<h1>",
      Escape(facts.checkpoint.origin), "</h1>\n<p>", Covered(facts));
  if (data.certificates > 0) absl::StrAppend(&out, " ", Dates(data), ".");
  absl::StrAppend(&out, "</p>\n<p class=\"soft\">Made ", LongTime(facts.created_unix),
                  " with the export that this page lies in. Nothing on this page is proof: the "
                  "signed files beside it are, and <a href=\"#verify\">anyone can check "
                  "them</a>.</p>\n<dl class=\"figures\">\n");
  AppendFigure(out, "Certificates", Grouped(data.certificates));
  AppendFigure(out, "Tokens erased", Grouped(data.counts.erased));
  AppendFigure(out, "Memories",
               absl::StrCat(Grouped(data.memories.size()), data.more_memories ? "+" : ""));
  AppendFigure(out, "Need attention", Grouped(data.concerned), data.concerned > 0 ? "bad" : "good");
  if (data.to_the_end) {
    AppendFigure(out, "Keys pending", Grouped(data.pending_keys()),
                 data.pending_keys() > 0 ? "bad" : "good");
  }
  absl::StrAppend(&out, "</dl>\n</header>\n");
}

}  // namespace

HtmlReport::HtmlReport(ReportFacts facts)
    : facts_(std::move(facts)),
      data_(facts_.first,
            facts_.count,
            /*at_end=*/facts_.first + facts_.count == facts_.checkpoint.size) {
  LETHE_CHECK(!facts_.keys.empty());
  LETHE_CHECK(facts_.created_unix >= 0 && facts_.created_unix <= kMaxReportTime);
}

void HtmlReport::Add(const SummaryEntry& entry) {
  LETHE_CHECK(entry.body.sequence == facts_.first + data_.certificates);
  data_.Add(entry);
}

std::string HtmlReport::Html() const {
  LETHE_CHECK(data_.certificates == facts_.count);
  std::string out;
  AppendHead(out, facts_, data_);
  AppendAttention(out, data_);
  AppendChain(out, facts_, data_);
  AppendErasures(out, data_);
  AppendPartitions(out, data_);
  AppendResiduals(out, data_);
  AppendStores(out, data_);
  AppendCertificates(out, data_);
  AppendVerifying(out, facts_);
  AppendWords(out);
  absl::StrAppend(&out, "<footer>", Escape(data_.last_build),
                  data_.last_build.empty() ? "" : " wrote the newest certificate. ",
                  "docs/certificate_format.md of Lethe describes every byte of the export.</footer>"
                  "\n</main>\n</body>\n</html>\n");
  return out;
}

absl::StatusOr<int64_t> ReportTime(absl::string_view html) {
  const absl::string_view head = html.substr(0, 1024);
  const size_t start = head.find(kCreated);
  if (start != absl::string_view::npos) {
    const absl::string_view rest = head.substr(start + kCreated.size());
    const absl::string_view digits = rest.substr(0, rest.find('"'));
    int64_t seconds = 0;
    // One text for one time, as everywhere.
    if (absl::SimpleAtoi(digits, &seconds) && absl::StrCat(seconds) == digits && seconds >= 0 &&
        seconds <= kMaxReportTime) {
      return seconds;
    }
  }
  return absl::InvalidArgumentError("report: it does not say when it was made");
}

}  // namespace lethe::audit
