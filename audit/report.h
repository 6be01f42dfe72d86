// What a verification found, for people (80 columns, plain ASCII frames) and for machines (JSON).
//
// Free text of a certificate is shown with control characters replaced, so that it cannot steer a
// terminal. Cost: linear in the text. Errors: none. Threads: safe.
#ifndef LETHE_AUDIT_REPORT_H_
#define LETHE_AUDIT_REPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/json.h"
#include "audit/verify.h"

namespace lethe::audit {

// One line a check of VerifyCertificate: "ok", "FAILED", or "-" for those after the failure.
// Without a leaf the line of the leaf says "not given".
std::string DescribeChecks(const CertificateResult& result, bool leaf_given);

// The content: partition before and after, verdict, what an eviction selected and its scope, the
// five counts, keys destroyed, what was restored, stores, exceptions.
std::string DescribeBody(const CertificateBody& body);

// One line of at most 80 columns: sequence, time, kind, erased tokens, partition sizes (S/E/R).
std::string DescribeInOneLine(const CertificateBody& body);

// The word of a failure and where it is: "sequence-gap at entry 2". An empty chain has no place.
std::string FailureWords(const ChainResult& result);

// "REFUSED" with the word of the failure, and the sentence under it.
std::string DescribeFailure(absl::string_view words, absl::string_view message);

// {"failure":...,"message":...} and, when verified, "id", "leafHash" and the whole "statement".
Json ReportJson(const CertificateResult& result);
// {"entries":...,"failure":...,"message":...,"root":...}; with a failure "failedIndex", and with at
// least one accepted entry "lastLeafHash".
Json ReportJson(const ChainResult& result);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_REPORT_H_
