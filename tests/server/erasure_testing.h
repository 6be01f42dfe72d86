// What the tests of erasure requests and holds share.
#ifndef LETHE_TESTS_SERVER_ERASURE_TESTING_H_
#define LETHE_TESTS_SERVER_ERASURE_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "audit/certificate.h"
#include "audit/commitments.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "tests/server/service_testing.h"

namespace lethe::service {

inline constexpr char kAnna[] = "subject-17-canary";
inline constexpr char kBert[] = "subject-18-canary";

inline TokenInput TokenOf(const std::string& id, double x, const std::string& subject) {
  TokenInput token = MakeToken(id, x, x / 2);
  token.subject = subject;
  return token;
}

// A service whose clock the test moves. Memories "m1", "m2" and "m3"; the first two have 2 tokens
// each of kAnna and of kBert, and 3 of nobody; the third has none of them.
class ErasureHarness : public Harness {
 public:
  ErasureHarness() {
    options().tenant.now = [this] { return now_; };
    Restart();
    for (const char* memory : {"m1", "m2", "m3"}) {
      MakeMemory(memory);
      std::vector<TokenInput> tokens = Spiral(3);
      if (std::string(memory) != "m3") {
        tokens.push_back(TokenOf("k1", 0.25, kAnna));
        tokens.push_back(TokenOf("k2", 0.5, kBert));
        tokens.push_back(TokenOf("k3", 0.75, kAnna));
        tokens.push_back(TokenOf("k4", 1.0, kBert));
      }
      Insert(memory, tokens);
    }
  }

  void Pass(absl::Duration time) { now_ += time; }
  absl::Time now() const { return now_; }

  static Identity Raw(const std::string& subject) {
    return {.type = "controller_customer_id", .format = IdentityFormat::kRaw, .value = subject};
  }
  static ErasureRequestInput InputFor(std::vector<Identity> identities) {
    ErasureRequestInput input;
    input.tenant = "t";
    input.identities = std::move(identities);
    return input;
  }
  // Asks for it.
  std::string Ask(const ErasureRequestInput& input) {
    const auto made = (**this).CreateErasureRequest(input, {});
    EXPECT_THAT(made, IsOk());
    return made.ok() ? made->id : "";
  }
  std::string Ask(const std::string& subject) { return Ask(InputFor({Raw(subject)})); }
  ErasureRequestInfo Get(const std::string& id) {
    const auto info = (**this).GetErasureRequest("t", id);
    EXPECT_THAT(info, IsOk());
    return info.ok() ? *info : ErasureRequestInfo{};
  }
  void Run() { (**this).RunDueErasures(); }
  std::string Hold(const std::string& subject) {
    const auto hold =
        (**this).PlaceHold({.tenant = "t", .subject = subject, .reason = "a case"}, {});
    EXPECT_THAT(hold, IsOk());
    return hold.ok() ? hold->id : "";
  }
  audit::CertificateBody BodyOf(const std::string& certificate_id) {
    const auto certificate = (**this).GetCertificate("t", certificate_id);
    EXPECT_THAT(certificate, IsOk());
    const auto envelope = audit::ParseEnvelope(certificate->envelope);
    EXPECT_TRUE(envelope.ok());
    auto body = audit::ParseStatement(envelope->payload);
    EXPECT_TRUE(body.ok());
    return *std::move(body);
  }
  // That the certificates of a request are what it says, and that the receipts open them.
  void ExpectProven(const std::string& id, const std::vector<std::string>& subjects) {
    const ErasureRequestInfo info = Get(id);
    const auto receipts = (**this).TakeErasureReceipts("t", id, false);
    ASSERT_THAT(receipts, IsOk());
    ASSERT_EQ(receipts->size(), info.certificates.size());
    uint64_t erased = 0;
    for (size_t i = 0; i < receipts->size(); ++i) {
      const ErasureReceipt& receipt = (*receipts)[i];
      const ErasureCertificate& made = info.certificates[i];
      EXPECT_EQ(receipt.certificate_id, made.id);
      const audit::CertificateBody body = BodyOf(made.id);
      erased += body.counts.erased;
      const auto salt = [](const std::string& bytes) {
        audit::Salt result{};
        EXPECT_EQ(bytes.size(), result.size());
        std::copy_n(bytes.begin(), std::min(bytes.size(), result.size()), result.begin());
        return result;
      };
      EXPECT_EQ(
          body.request_commitment,
          audit::RequestCommitment(salt(receipt.receipt.request_salt), "t", receipt.request_id));
      EXPECT_EQ(body.subject_commitment,
                audit::SubjectCommitment(salt(receipt.receipt.subject_salt), "t",
                                         subjects.at(receipt.identity)));
      EXPECT_EQ(made.sha256,
                audit::Hex(audit::Sha256((**this).GetCertificate("t", made.id)->envelope)));
      EXPECT_EQ(BodyOf(made.shredded_id).kind, audit::CertificateKind::kShredded);
    }
    EXPECT_EQ(erased, info.counts.erased);
  }

 private:
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_ERASURE_TESTING_H_
