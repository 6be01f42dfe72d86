// The style sheet of report.html: screen wide and narrow, light and dark, A4. Threads: safe.
#ifndef LETHE_AUDIT_REPORT_HTML_STYLE_H_
#define LETHE_AUDIT_REPORT_HTML_STYLE_H_

#include "absl/strings/string_view.h"

namespace lethe::audit {

absl::string_view ReportStyle();

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_HTML_STYLE_H_
