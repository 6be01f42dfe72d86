#include "audit/verify_receipt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/commitments.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kMaxReceiptBytes = size_t{1} << 20;

absl::StatusOr<Salt> SaltOf(const Json& value, absl::string_view name) {
  const std::string* text = value.as_string();
  if (text != nullptr) {
    const absl::StatusOr<std::string> bytes = DecodeHex(*text);
    Salt salt;
    if (bytes.ok() && bytes->size() == salt.size()) {
      std::copy(bytes->begin(), bytes->end(), salt.begin());
      return salt;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": not 64 lower-case hex digits"));
}

}  // namespace

absl::StatusOr<Receipt> ParseReceipt(absl::string_view json) {
  JsonLimits limits;
  limits.max_bytes = kMaxReceiptBytes;
  LETHE_ASSIGN_OR_RETURN(const Json answer, ParseJson(json, JsonForm::kAnyForm, limits));
  const Json* salts = answer.Find("receipt");
  const Json* request_salt = salts == nullptr ? nullptr : salts->Find("request_salt");
  if (request_salt == nullptr) {
    return absl::InvalidArgumentError("receipt.request_salt: is missing");
  }
  Receipt receipt;
  LETHE_ASSIGN_OR_RETURN(receipt.request_salt, SaltOf(*request_salt, "receipt.request_salt"));
  const Json* subject_salt = salts->Find("subject_salt");
  if (subject_salt != nullptr &&
      (subject_salt->as_string() == nullptr || !subject_salt->as_string()->empty())) {
    LETHE_ASSIGN_OR_RETURN(receipt.subject_salt, SaltOf(*subject_salt, "receipt.subject_salt"));
  }
  const Json* id = answer.Find("certificate_id");
  if (id != nullptr && id->as_string() != nullptr && !id->as_string()->empty()) {
    receipt.certificate_id = *id->as_string();
  }
  const Json* request_id = answer.Find("request_id");
  if (request_id != nullptr && request_id->as_string() != nullptr) {
    receipt.request_id = *request_id->as_string();
  }
  return receipt;
}

ReceiptMatch MatchReceipt(const Receipt& receipt,
                          const CertificateBody& body,
                          absl::string_view id) {
  const bool named = receipt.certificate_id.has_value() && *receipt.certificate_id == id;
  if (body.kind == CertificateKind::kShredded ||
      body.request_commitment !=
          RequestCommitment(receipt.request_salt, receipt.tenant, receipt.request_id)) {
    return named ? ReceiptMatch::kOtherCertificate : ReceiptMatch::kNo;
  }
  if (receipt.certificate_id.has_value() && !named) return ReceiptMatch::kOtherCertificate;
  if (!receipt.subject.has_value()) return ReceiptMatch::kYes;
  if (!receipt.subject_salt.has_value() ||
      body.subject_commitment !=
          SubjectCommitment(*receipt.subject_salt, receipt.tenant, *receipt.subject)) {
    return ReceiptMatch::kOtherSubject;
  }
  return ReceiptMatch::kYes;
}

}  // namespace lethe::audit
