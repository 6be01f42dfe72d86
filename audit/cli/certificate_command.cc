#include <algorithm>

#include "absl/strings/str_cat.h"
#include "audit/certificate.h"
#include "audit/cli/commands.h"
#include "audit/cli/input.h"
#include "audit/cli/output.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/report.h"
#include "audit/verify.h"
#include "audit/verify_proof.h"

namespace lethe::audit::cli {
namespace {

constexpr size_t kMaxProofFile = size_t{4} << 20;

// The pinned key that the envelope names, else the first.
const VerificationKey& KeyOf(absl::string_view envelope, const Pins& pins) {
  const absl::StatusOr<Envelope> parsed = ParseEnvelope(envelope);
  const auto named = std::find_if(
      pins.keys.begin(), pins.keys.end(),
      [&](const VerificationKey& key) { return parsed.ok() && parsed->keyid == key.short_name(); });
  return named == pins.keys.end() ? pins.keys.front() : *named;
}

// What is beside the certificate itself: the proof that the log has it, and the receipt.
ProofResult CheckBeside(const std::optional<std::string>& proof,
                        absl::string_view envelope,
                        const CertificateResult& certificate,
                        const VerificationKey& key,
                        const Pins& pins) {
  ProofResult result;
  if (proof.has_value()) {
    result = VerifyCertificateProof(*proof, envelope, certificate, key, pins.keys,
                                    pins.policy_or_null());
    if (!result.ok()) return result;
  }
  if (pins.receipt.has_value() &&
      MatchReceipt(*pins.receipt, *certificate.body, certificate.id) != ReceiptMatch::kYes) {
    result.failure = Failure::kReceiptMismatch;
    result.message = "The certificate is not of the receipt's request and subject.";
  }
  return result;
}

}  // namespace

int RunCertificate(const Options& options, const Pins& pins) {
  const absl::StatusOr<std::string> envelope = ReadFile(options.path, kMaxEnvelopeBytes);
  if (!envelope.ok()) return ReadFailure(envelope.status());
  std::optional<std::string> leaf;
  if (!options.leaf.empty()) {
    absl::StatusOr<std::string> bytes = ReadFile(options.leaf, kMaxLeafBytes);
    if (!bytes.ok()) return ReadFailure(bytes.status());
    leaf = *std::move(bytes);
  }
  std::optional<std::string> proof;
  if (!options.proof.empty()) {
    absl::StatusOr<std::string> bytes = ReadFile(options.proof, kMaxProofFile);
    if (!bytes.ok()) return ReadFailure(bytes.status());
    proof = *std::move(bytes);
  }
  std::optional<absl::string_view> leaf_view;
  if (leaf.has_value()) leaf_view = *leaf;
  std::optional<absl::string_view> origin;
  if (pins.origin.has_value()) origin = *pins.origin;

  const VerificationKey& key = KeyOf(*envelope, pins);
  const CertificateResult result = VerifyCertificate(*envelope, leaf_view, key, origin);
  ProofResult beside;
  if (result.ok()) beside = CheckBeside(proof, *envelope, result, key, pins);
  const Failure failure = result.ok() ? beside.failure : result.failure;
  const bool proven = proof.has_value() && failure == Failure::kNone;
  if (options.json()) {
    CertificateResult told = result;
    if (result.ok() && !beside.ok()) {
      told.failure = beside.failure;
      told.message = beside.message;
    }
    Json json = ReportJson(told);
    if (proven) {
      json.Set("checkpoint", CheckpointJson(beside.checkpoint));
      json.Set("cosignatures", CosignaturesJson(beside.cosignatures));
    }
    PrintJson(json);
    return ExitCode(failure);
  }
  if (!options.quiet) {
    Print(DescribeChecks(result, leaf.has_value()));
    const bool own = beside.failure == Failure::kReceiptMismatch;
    const auto line = [&](absl::string_view name, absl::string_view words, bool reached,
                          bool failed) {
      Print(absl::StrCat("  ",
                         !reached ? "-       "
                         : failed ? "FAILED  "
                                  : "ok      ",
                         name, words, "\n"));
    };
    if (proof.has_value()) {
      line("proof       ", "leads to a signed checkpoint of the log", result.ok(),
           !beside.ok() && !own);
    }
    if (pins.receipt.has_value()) {
      line("receipt     ", "opens the commitments of this certificate",
           result.ok() && (beside.ok() || own), own);
    }
  }
  if (failure != Failure::kNone) {
    Print(DescribeFailure(Name(failure), result.ok() ? beside.message : result.message));
    return ExitCode(failure);
  }
  Print(absl::StrCat("VERIFIED  ", result.id, "\n"));
  if (!options.quiet) {
    Print(DescribeBody(*result.body));
    Print(Field("leaf hash", Hex(result.leaf_hash)));
    if (proven) Print(DescribeCheckpoint(beside.checkpoint, beside.cosignatures));
  }
  return kVerified;
}

}  // namespace lethe::audit::cli
