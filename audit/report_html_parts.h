// Pieces that several sections of report.html share. Threads: safe.
#ifndef LETHE_AUDIT_REPORT_HTML_PARTS_H_
#define LETHE_AUDIT_REPORT_HTML_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "audit/summary.h"

namespace lethe::audit {

void OpenSection(std::string& out, absl::string_view id, absl::string_view heading);

// "1 certificate", "2,000 certificates"
std::string CertificatesText(uint64_t count);

// The number of a certificate, leading to its file.
std::string Link(uint64_t sequence);

// "2026-01-31 12:00:05" without the fraction; on paper without the seconds too.
std::string ShortTime(absl::string_view time);

std::string Tags(const std::vector<Concern>& concerns);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_HTML_PARTS_H_
