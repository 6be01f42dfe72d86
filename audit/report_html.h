// report.html: one page about an export, for the officer who answers for the erasures and for the
// auditor who asks. The cases that need attention come first, then the state of the log, what was
// erased when, and how to verify all of it without this page.
//
// Self-contained: no script, nothing loaded from elsewhere (a content security policy says so too).
// It reads on paper, on a phone, in light and dark. Free text of certificates is escaped. The page
// is a function of what it is given, so that lethe-verify makes it anew and compares; nothing on it
// is proof by itself.
//
// Cost: linear in the certificates. Memory and size: bounded (report_html_data.h); what is cut is
// said and counted. Errors: none but those stated. Threads: compatible.
#ifndef LETHE_AUDIT_REPORT_HTML_H_
#define LETHE_AUDIT_REPORT_HTML_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/checkpoint.h"
#include "audit/note.h"
#include "audit/report_html_data.h"
#include "audit/signer.h"
#include "audit/summary.h"

namespace lethe::audit {

inline constexpr int64_t kMaxReportTime = 253402300799;  // the end of the year 9999

struct ReportFacts {
  Checkpoint checkpoint;
  Note note;  // of the checkpoint, with all its signature lines
  // The log's keys and the first certificate that each signs, ascending; the first from 0 on.
  std::vector<std::pair<uint64_t, VerificationKey>> keys;
  uint64_t first = 0;  // certificates first to first + count - 1 are reported
  uint64_t count = 0;
  int64_t created_unix = 0;  // when the page says it was made: 0 to kMaxReportTime
};

class HtmlReport {
 public:
  explicit HtmlReport(ReportFacts facts);

  // The certificates first to first + count - 1, in order.
  void Add(const SummaryEntry& entry);
  // The page. Requires all of them to have been added.
  std::string Html() const;

 private:
  ReportFacts facts_;
  ReportData data_;
};

// The time that such a page gives as its own, from its first kilobyte. INVALID_ARGUMENT when it
// gives none.
absl::StatusOr<int64_t> ReportTime(absl::string_view html);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_HTML_H_
