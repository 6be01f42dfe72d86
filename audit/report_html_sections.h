// The sections of report.html, each a <section> with its heading. Parts of HtmlReport. Threads:
// safe.
#ifndef LETHE_AUDIT_REPORT_HTML_SECTIONS_H_
#define LETHE_AUDIT_REPORT_HTML_SECTIONS_H_

#include <string>

#include "audit/report_html.h"
#include "audit/report_html_data.h"

namespace lethe::audit {

void AppendAttention(std::string& out, const ReportData& data);
void AppendChain(std::string& out, const ReportFacts& facts, const ReportData& data);
void AppendErasures(std::string& out, const ReportData& data);
void AppendPartitions(std::string& out, const ReportData& data);
void AppendResiduals(std::string& out, const ReportData& data);
void AppendStores(std::string& out, const ReportData& data);
void AppendCertificates(std::string& out, const ReportData& data);
void AppendVerifying(std::string& out, const ReportFacts& facts);
void AppendWords(std::string& out);

// certificates/<K>/<S>: where the files of a certificate are in an export, without the suffix.
std::string CertificateStem(uint64_t sequence);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_HTML_SECTIONS_H_
