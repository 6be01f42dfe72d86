// Opens the commitments of a certificate with the salts of a receipt. Threads: safe.
#ifndef LETHE_AUDIT_VERIFY_RECEIPT_H_
#define LETHE_AUDIT_VERIFY_RECEIPT_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/random.h"

namespace lethe::audit {

// What the requester has of an erasure: the salts, and what they were made for.
struct Receipt {
  std::string tenant;
  std::string request_id;
  Salt request_salt{};
  // Of the person, when the request named one.
  std::optional<std::string> subject;
  std::optional<Salt> subject_salt;
  // Hex; absent when the answer is lost.
  std::optional<std::string> certificate_id;
};

// Reads an answer as `lethe forget -o json` prints it: JSON of which `receipt.request_salt`,
// `receipt.subject_salt` (hex), `certificate_id` and `request_id` are taken. Fills those members;
// the others are the caller's. INVALID_ARGUMENT names the member that is missing or wrong.
absl::StatusOr<Receipt> ParseReceipt(absl::string_view json);

// Whether a certificate is about this request: "yes", "no" or why it only seems to be.
enum class ReceiptMatch : uint8_t { kNo, kYes, kOtherSubject, kOtherCertificate };
// `id`: of the certificate. A `shredded` certificate, which is about keys, is never the one.
ReceiptMatch MatchReceipt(const Receipt& receipt,
                          const CertificateBody& body,
                          absl::string_view id);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_RECEIPT_H_
