// Fixed certificates for the tests: everything here is deterministic, so that bytes can be golden.
#ifndef LETHE_TESTS_AUDIT_SAMPLE_H_
#define LETHE_TESTS_AUDIT_SAMPLE_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "audit/certificate.h"
#include "audit/commitments.h"
#include "audit/hash.h"
#include "audit/random.h"
#include "audit/signer.h"
#include "core/base/check.h"
#include "gtest/gtest.h"

namespace lethe::audit::testing {

// The vector of the log format: seed 32 x 0x42.
inline constexpr char kOrigin[] = "svmem.example/erasure-log/t-7f3a";

inline Signer VectorSigner(const std::string& name = kOrigin, char seed = 0x42) {
  absl::StatusOr<Signer> signer = Signer::FromSeed(name, std::string(32, seed));
  LETHE_CHECK(signer.ok());
  return *std::move(signer);
}

inline CertificateBody ForgetBody() {
  Salt salt;
  salt.fill(0x11);
  CertificateBody body;
  body.origin = kOrigin;
  body.sequence = 0;
  body.kind = CertificateKind::kForget;
  body.request_commitment = RequestCommitment(salt, "clinic", "request-1");
  body.subject_commitment = SubjectCommitment(salt, "clinic", "patient-17");
  body.build = "lethe 0.1.0";
  body.time = "2026-01-31T12:00:00Z";
  StateChange change;
  change.memory_uid = "000102030405060708090a0b0c0d0e0f";
  change.config = Sha256("config");
  change.partition_before = {.margin = 12, .error = 3, .reserve = 85};
  change.partition_after = {.margin = 11, .error = 3, .reserve = 82};
  change.root_before = Sha256("before");
  change.root_after = Sha256("after");
  change.verdict = VerdictClass::kProven;
  change.residuals.kkt_residual = 0x1p-50;
  change.residuals.duality_gap = 0x1p-40;
  change.residuals.slack = 0.001;
  change.residuals.weight_bound = 0x1p-90;
  change.residuals.decision_bound = 0x1p-52;
  change.residuals.condition = 1024.0;
  change.residuals.precision_bits = 106;
  body.change = change;
  body.counts = {.matched = 4, .erased = 4, .not_found = 1, .already_erased = 0, .held = 0};
  body.stores = {{"tokens", "rows-deleted", "secure_delete, VACUUM"},
                 {"backups", "not-claimed", ""}};
  body.exceptions = {"Backups made before this time are outside the claim."};
  return body;
}

// Ten tokens of weight 0 and two surplus copies.
inline CertificateBody EvictBody() {
  CertificateBody body = ForgetBody();
  body.kind = CertificateKind::kEvict;
  body.subject_commitment.reset();
  body.counts = {.matched = 12, .erased = 12};
  body.change->partition_after = {.margin = 10, .error = 3, .reserve = 75};
  body.change->residuals.gap_bound = 0x1p-60;
  body.change->residuals.readout_bound = 0x1p-51;
  body.change->selection = Selection{.budget = 60, .reserve = 10, .surplus = 2, .retained = 88};
  return body;
}

inline CertificateBody EditBody() {
  CertificateBody body = ForgetBody();
  body.kind = CertificateKind::kEdit;
  body.subject_commitment.reset();
  body.counts = {.matched = 4, .erased = 4};
  body.change->partition_after = {.margin = 13, .error = 3, .reserve = 84};
  body.change->residuals.gap_bound = 0x1p-60;
  body.change->residuals.readout_bound = 0x1p-51;
  return body;
}

// Without a span it can stand anywhere: only the keys of an epoch ended.
inline CertificateBody ShreddedBody(std::optional<SequenceSpan> erasures = std::nullopt) {
  CertificateBody body = ForgetBody();
  body.kind = CertificateKind::kShredded;
  body.subject_commitment.reset();
  body.change.reset();
  body.counts = {};
  body.destruction =
      KeyDestruction{.erasures = erasures, .epochs = {2}, .keys = erasures.has_value() ? 4u : 0u};
  body.stores = {{"keys", "key-destroyed", "slots overwritten and read back"},
                 {"write-ahead-log", "truncated", ""},
                 {"backups", "unreadable-without-key", ""}};
  body.exceptions.clear();
  return body;
}

// At sequence `size` + `reapplied`.
inline CertificateBody RestoredBody(uint64_t size = 9,
                                    uint64_t reapplied = 3,
                                    uint64_t removed = 5) {
  CertificateBody body = ShreddedBody();
  body.kind = CertificateKind::kRestored;
  body.destruction.reset();
  body.restoration = Restoration{.size = size, .reapplied = reapplied, .removed = removed};
  body.counts = {.matched = removed, .erased = removed};
  body.stores = {{"tokens", "rows-deleted", ""}};
  return body;
}

inline CertificateBody ClosedBody() {
  CertificateBody body = ShreddedBody();
  body.kind = CertificateKind::kTenantClosed;
  body.destruction.reset();
  return body;
}

// To be signed by the key that hands over.
inline CertificateBody HandoverBody(const std::string& next_vkey) {
  CertificateBody body = ForgetBody();
  body.kind = CertificateKind::kKeyHandover;
  body.subject_commitment.reset();
  body.change.reset();
  body.counts = {};
  body.stores.clear();
  body.exceptions.clear();
  body.handover = KeyHandover{next_vkey};
  return body;
}

// For place i of a log of several kinds.
inline CertificateBody MixedBody(uint64_t i) {
  CertificateBody body = i % 3 == 1   ? ShreddedBody(SequenceSpan{i < 5 ? 0 : i - 5, i - 1})
                         : i % 4 == 2 ? EvictBody()
                         : i % 5 == 3 ? EditBody()
                                      : ForgetBody();
  if (body.change.has_value()) body.change->root_after = Sha256("after" + std::to_string(i));
  return body;
}

// Certificates 0 to size - 1 of one log.
inline std::vector<SignedCertificate> MakeChain(size_t size, const Signer& signer) {
  std::vector<SignedCertificate> chain;
  for (size_t i = 0; i < size; ++i) {
    CertificateBody body = MixedBody(i);
    body.origin = signer.verification_key().name();
    body.sequence = i;
    if (i > 0) body.previous_leaf_hash = chain.back().leaf_hash;
    absl::StatusOr<SignedCertificate> certificate = BuildCertificate(body, signer);
    LETHE_CHECK(certificate.ok());
    chain.push_back(*std::move(certificate));
  }
  return chain;
}

// A folder of its own that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    path_ = std::filesystem::path(::testing::TempDir()) / ("lethe-audit-" + RandomUid());
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  ASSERT_TRUE(file.good()) << path;
}

}  // namespace lethe::audit::testing

#endif  // LETHE_TESTS_AUDIT_SAMPLE_H_
