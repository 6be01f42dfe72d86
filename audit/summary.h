// One line a certificate, for spreadsheets (CSV) and for tools (JSON Lines), and the question which
// certificates a reader must look at first.
//
// Both forms have the same columns, in the order of SummaryColumns; docs/certificate_format.md,
// "The export", says what each is. A convenience: neither is signed, and lethe-verify makes them
// anew from the certificates.
//
// CSV: RFC 4180, UTF-8, lines end in CR LF, every text is quoted; a text that a spreadsheet could
// take for a formula gets an apostrophe in front. Doubles are the shortest decimal that reads back
// as the same double; not bounded is "inf". An absent value is an empty field.
// JSON Lines: an object a line, absent values have no member, doubles are numbers except for "inf".
//
// Cost: linear in the text. Errors: none. Threads: safe.
#ifndef LETHE_AUDIT_SUMMARY_H_
#define LETHE_AUDIT_SUMMARY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/hash.h"

namespace lethe::audit {

// Why a certificate belongs on the first page, the gravest first.
enum class Concern : uint8_t {
  kPendingKeys,   // no later certificate says that the keys are destroyed (key_ledger.h)
  kUncertified,   // nothing is claimed of the state after
  kNotIdentical,  // a cold refit gave other bits
  kHeld,          // tokens matched and were held back
  kBounded,       // neither the partition nor the weights are proven, only the gap is known
  kExcepted,      // the certificate names something that it does not cover
};
inline constexpr size_t kConcerns = 6;
// "pending-keys", "uncertified", "not-identical", "held", "bounded", "excepted".
absl::string_view Name(Concern concern);
// In that order, each at most once. Never kPendingKeys, of which the certificates after it decide.
std::vector<Concern> ConcernsOf(const CertificateBody& body);

// A certificate and what is not in its body. `body` must outlive the entry.
struct SummaryEntry {
  const CertificateBody& body;
  std::string id;     // hex SHA256(envelope)
  std::string keyid;  // of the envelope: name "+" hex8
  Digest leaf_hash{};
};

std::vector<std::string> SummaryColumns();
// With the line's end.
std::string SummaryCsvHeader();
std::string SummaryCsvLine(const SummaryEntry& entry);
std::string SummaryJsonLine(const SummaryEntry& entry);

// Quoted, and harmless in a spreadsheet.
std::string CsvText(absl::string_view text);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_SUMMARY_H_
