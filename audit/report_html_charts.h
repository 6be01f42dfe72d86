// The drawings of report.html: inline SVG without scripts, horizontal places in percent, so that
// one drawing fits a phone, a desk and a sheet of paper with letters of one size. Colours and fonts
// come from the page's style. Each has a title and a description for those who do not see it, and
// every mark says its numbers.
//
// Cost and size: linear in bars and columns, which are bounded. Errors: none. Threads: safe.
#ifndef LETHE_AUDIT_REPORT_HTML_CHARTS_H_
#define LETHE_AUDIT_REPORT_HTML_CHARTS_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "audit/report_html_data.h"

namespace lethe::audit {

// Text for an HTML element or a quoted attribute: mark-up escaped; control characters, malformed
// UTF-8 and the characters that change the direction of text replaced by U+FFFD.
std::string Escape(absl::string_view text);

// "12,345"
std::string Grouped(uint64_t value);
// "4.4 × 10⁻¹⁶" as HTML, "0.25", "0", "not bounded".
std::string NumberHtml(double value, int digits = 3);
// The same as plain text: "4.4e-16".
std::string NumberText(double value, int digits = 3);

// Erased tokens a bar, stacked by kind, over one row of marks for each other kind that occurs.
// Requires at least one certificate.
std::string TimelineChart(const Timeline::Bars& bars);

struct PlotSeries {
  absl::string_view name;
  absl::string_view css_class;  // "s1" or "s2"
  const SequencePlot* plot;
};
// One or two series over the sequence, logarithmic; what has no logarithm and what is infinite has
// a line of its own. `id` is unique in the page. Empty when there is nothing to draw.
std::string LogPlot(absl::string_view id,
                    absl::string_view title,
                    std::span<const PlotSeries> series,
                    absl::string_view not_positive_label);

// Two bars, before above after, in per cent of `most`.
std::string BeforeAfterBars(uint64_t before, uint64_t after, uint64_t most);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_HTML_CHARTS_H_
