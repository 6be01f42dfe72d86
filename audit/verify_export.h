// Verifies an export: bytes and pinned keys in, a verdict that names the failing check out.
// docs/certificate_format.md, section 5, lists the checks in their order.
//
// A key is trusted when it is pinned, or when a hand-over that a trusted key signed names it; keys
// in the export are only compared. Everything else of an export is checked against the signed
// checkpoint or made anew from the certificates, so that no byte of it is left unchecked.
//
// Signatures, proofs and bundles are checked by several threads, 256 certificates at a time; what
// is reported is the first failure in the order of the log, however many threads there are. Memory:
// the report and one entries file (at most 16 MiB each), 8 bytes a certificate of a .tar, the names
// of 1,024 files and of one more per 64 certificates, three bits a certificate, and the files of
// the certificates that are being checked, which end at 256 or at 32 MiB and one certificate (at
// most 6 MiB) a thread, with what is parsed of them. Honest exports need some 10 MiB. No network,
// no clock.
#ifndef LETHE_AUDIT_VERIFY_EXPORT_H_
#define LETHE_AUDIT_VERIFY_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/signer.h"
#include "audit/verify.h"
#include "audit/verify_export_input.h"
#include "audit/verify_receipt.h"
#include "audit/witness.h"

namespace lethe::audit {

struct ExportExpectations {
  // At least one, all of one name, oldest first. The one that signed the first certificate must be
  // among them. Of a whole log each must be one of its keys. Of a range the last one must be one
  // that the range shows or the one that signed the checkpoint.
  std::vector<VerificationKey> keys;
  std::optional<std::string> origin;
  // The certificates that must be there. Without either: the whole log. A range has no tiles and
  // says nothing about the rest of the log but its size.
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
  std::optional<WitnessPolicy> policy;
  std::optional<Receipt> receipt;
  // The note of an earlier checkpoint that the log must extend. Of a whole log only.
  std::optional<std::string> earlier;
  // The report is not looked at: one that another version of Lethe made cannot be made anew.
  bool skip_report = false;
  // Of files of certificates that are read before they are judged; each thread may add one more.
  size_t batch_bytes = size_t{32} << 20;
  int threads = 0;  // 0: twice as many as there are processors, at most 16
};

struct ExportResult {
  Finding finding;
  // What was established; complete when nothing failed.
  Checkpoint checkpoint;
  bool whole = false;
  uint64_t first = 0;
  uint64_t verified = 0;  // certificates accepted before the failure
  Digest last_leaf_hash{};
  std::vector<ChainVerifier::KeyPeriod> keys;
  std::vector<Cosignature> cosignatures;
  std::optional<uint64_t> receipt_sequence;  // the certificate that the receipt opens
  uint64_t erasures = 0;                     // certificates that erased at least one token
  // Those of them of which no certificate says that the keys are destroyed (key_ledger.h), and the
  // first of these. A range that ends before the log does cannot tell and has neither.
  std::optional<uint64_t> keys_pending;
  std::optional<uint64_t> first_pending;

  bool ok() const { return finding.ok(); }
};

// A folder or a .tar. Requires expectations.keys not to be empty.
ExportResult VerifyExport(const std::string& path, const ExportExpectations& expectations);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_EXPORT_H_
