// Logs that go on behind the certificate that closes them.
#include <functional>
#include <string>
#include <vector>

#include "audit/verify_proof.h"
#include "tests/audit/tamper_testing.h"

namespace lethe::audit::testing {
namespace {

class ClosingTest : public TamperTest {
 protected:
  // Three certificates, the last of which closes the log, and `behind` of it.
  static SampleLog Closed(const std::vector<CertificateBody>& behind) {
    SampleLog log(2);
    log.Append(ClosedBody());
    for (const CertificateBody& body : behind) log.Append(body);
    log.SignAgain();
    return log;
  }
  static std::vector<CertificateBody> Bodies() {
    return {ForgetBody(), ShreddedBody(), ClosedBody(), RestoredBody(1, 2, 0)};
  }
};

TEST_F(ClosingTest, AnExportThatGoesOnIsRefused) {
  SampleLog good = Closed({});
  Accepted(Forge(good, good.signers()[0]));
  for (const CertificateBody& body : Bodies()) {
    SCOPED_TRACE(Name(body.kind));
    SampleLog log = Closed({body});
    Refused(Forge(log, log.signers()[0]), Failure::kAfterClosing,
            CertificateFile(2, ".envelope.json"));
  }
  // By another key, which the closed log cannot hand over to.
  SampleLog log = Closed({HandoverBody(VectorSigner(kOrigin, 0x43).verification_key().vkey())});
  Refused(Forge(log, log.signers()[0]), Failure::kAfterClosing,
          CertificateFile(2, ".envelope.json"));
}

TEST_F(ClosingTest, ARangeThatShowsTheClosingIsRefused) {
  SampleLog log = Closed({ForgetBody(), ForgetBody()});
  const auto expected = [](uint64_t first, uint64_t last) {
    ExportExpectations range = Pinned();
    range.first = first;
    range.last = last;
    return range;
  };
  for (const auto& [first, last] : {std::pair(0, 2), std::pair(2, 2), std::pair(1, 4)}) {
    const auto from = static_cast<uint64_t>(first);
    const auto to = static_cast<uint64_t>(last);
    Refused(log.Export({.first = from, .last = to}).files(), Failure::kAfterClosing,
            CertificateFile(2, ".envelope.json"), expected(from, to));
  }
  // What a range does not show it cannot judge.
  Accepted(log.Export({.first = 0, .last = 1}).files(), expected(0, 1));
  Accepted(log.Export({.first = 3, .last = 4}).files(), expected(3, 4));
  SampleLog good = Closed({});
  Accepted(good.Export({.first = 1, .last = 2}).files(), expected(1, 2));
}

TEST_F(ClosingTest, AProofOfAClosingNeedsTheCheckpointThatEndsWithIt) {
  const auto failure = [](SampleLog& log, uint64_t sequence, const char* suffix) {
    const Files files = Forge(log, log.signers()[0]);
    const std::vector<VerificationKey> keys = {log.signers()[0].verification_key()};
    const std::string& envelope = files.at(CertificateFile(sequence, ".envelope.json"));
    const CertificateResult certificate = VerifyCertificate(envelope, std::nullopt, keys[0]);
    EXPECT_TRUE(certificate.ok()) << certificate.message;
    return VerifyCertificateProof(files.at(CertificateFile(sequence, suffix)), envelope,
                                  certificate, keys[0], keys, nullptr)
        .failure;
  };
  SampleLog good = Closed({});
  SampleLog bad = Closed({ForgetBody()});
  for (const char* suffix : {".tlog-proof", ".sigstore.json"}) {
    EXPECT_EQ(failure(good, 2, suffix), Failure::kNone);
    EXPECT_EQ(failure(bad, 2, suffix), Failure::kAfterClosing);
    // Of the others a proof says nothing of what is behind them.
    EXPECT_EQ(failure(good, 1, suffix), Failure::kNone);
    EXPECT_EQ(failure(bad, 3, suffix), Failure::kNone);
  }
}

TEST_F(ClosingTest, AChainThatGoesOnIsRefused) {
  const auto failure = [](const SampleLog& log) {
    std::vector<ChainEntry> entries;
    for (const SignedCertificate& certificate : log.certificates()) {
      entries.push_back({certificate.envelope, certificate.leaf, certificate.body.sequence});
    }
    const ChainResult result = VerifyChain(entries, log.signers()[0].verification_key());
    EXPECT_EQ(result.verified, 3u);
    EXPECT_TRUE(result.ok() || result.failed_index == 3u);
    return result.failure;
  };
  EXPECT_EQ(failure(Closed({})), Failure::kNone);
  for (const CertificateBody& body : Bodies()) {
    EXPECT_EQ(failure(Closed({body})), Failure::kAfterClosing) << Name(body.kind);
  }
}

TEST_F(ClosingTest, ItIsWellSignedButNotTheLogExpected) {
  EXPECT_EQ(ClassOf(Failure::kAfterClosing), FailureClass::kChain);
  EXPECT_EQ(ClassOf(Failure::kRestorationMismatch), FailureClass::kChain);
}

}  // namespace
}  // namespace lethe::audit::testing
