// Verify: a cold refit on request, what it writes into the log, and a state that went wrong.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/log_testing.h"

namespace lethe::service {
namespace {

using ::testing::IsEmpty;

TEST(VerifyTest, AnEqualRefitIsWrittenAsBitIdentical) {
  Harness service;
  service.MakeMemory("m");
  for (const int count : {0, 2, 12}) {  // empty, warming, active
    SCOPED_TRACE(count);
    if (count > 0) service.Insert("m", Spiral(count));
    const std::string digest = service.Digest("m");
    const auto reply = service->Verify("t", "m", {});
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->verdict, Verdict::kBitIdentical);
    EXPECT_TRUE(reply->bits_equal);
    EXPECT_EQ(reply->deviation, 0.0);
    EXPECT_EQ(reply->state_digest, digest);
    EXPECT_EQ(Total(reply->partition), static_cast<uint64_t>(count));
    const audit::CertificateBody body = VerifiedLog(service).back();
    EXPECT_EQ(body.sequence, reply->sequence);
    EXPECT_EQ(body.kind, audit::CertificateKind::kRetrainCheck);
    ASSERT_TRUE(body.change.has_value());
    EXPECT_EQ(body.change->verdict, audit::VerdictClass::kBitIdentical);
    EXPECT_TRUE(body.change->refit->bits_equal);
    EXPECT_EQ(body.change->refit->deviation, 0.0);
    EXPECT_EQ(body.change->root_before, body.change->root_after);
    EXPECT_EQ(body.change->partition_before.total(), static_cast<uint64_t>(count));
    EXPECT_THAT(body.stores, IsEmpty()) << "nothing was erased, nothing is claimed";
    EXPECT_THAT(body.exceptions, IsEmpty());
    EXPECT_EQ(body.counts, audit::ErasureCounts{});
    EXPECT_EQ(service->GetCertificate("t", reply->certificate_id)->memory, "m");
  }
  // The root that was checked is the one that the next erasure starts from.
  service.Forget("m", {"a1"});
  const std::vector<audit::CertificateBody> log = ErasureLog(service);
  EXPECT_EQ(log[log.size() - 2].change->root_after, log.back().change->root_before);
}

TEST(VerifyTest, AStateThatDiffersIsSaidSoAndReplaced) {
  Harness service;
  bool broken = false;
  service.options().tenant.refit = [&broken](const svdd::ExactMemory& memory) {
    std::shared_ptr<const svdd::Snapshot> good = memory.Refit();
    if (!broken || good->supports.empty()) return good;
    auto other = std::make_shared<svdd::Snapshot>(*good);
    other->supports.front().alpha += 0.125;
    return std::shared_ptr<const svdd::Snapshot>(std::move(other));
  };
  service.Restart();
  service.MakeMemory("m");
  service.Insert("m", Spiral(12));
  const std::string digest = service.Digest("m");
  broken = true;
  const auto reply = service->Verify("t", "m", {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->verdict, Verdict::kUncertified);
  EXPECT_FALSE(reply->bits_equal);
  EXPECT_EQ(reply->deviation, 0.125);
  EXPECT_EQ(reply->state_digest, digest) << "solved afresh from the stored tokens";
  const audit::CertificateBody body = VerifiedLog(service).back();
  EXPECT_EQ(body.change->verdict, audit::VerdictClass::kUncertified);
  EXPECT_FALSE(body.change->refit->bits_equal);
  EXPECT_EQ(body.change->refit->deviation, 0.125);
  ASSERT_EQ(body.exceptions.size(), 1u);
  EXPECT_NE(body.exceptions[0].find("replaced"), std::string::npos);
  broken = false;
  EXPECT_TRUE(service->Verify("t", "m", {})->bits_equal);
  service.Forget("m", {"a1"});
  service.Restart();
  EXPECT_EQ(ErasureLog(service).size(), 3u);
}

// What readers are given is really another state than that of the tokens.
class WrongStateTest : public testing::Test {
 protected:
  WrongStateTest() {
    TenantOptions& options = service_.options().tenant;
    options.publish_fault = [this](std::shared_ptr<const Published> good) {
      if (!distort_ || good->snapshot->supports.empty()) return good;
      distort_ = false;
      auto snapshot = std::make_shared<svdd::Snapshot>(*good->snapshot);
      snapshot->supports.front().alpha += 0.125;
      auto wrong = std::make_shared<Published>(*good);
      wrong->snapshot = std::move(snapshot);
      return std::shared_ptr<const Published>(std::move(wrong));
    };
    options.checker = [this](const svdd::Snapshot& snapshot, std::span<const double> keys,
                             std::span<const svdd::TokenHandle> handles) {
      svdd::KktReport report = svdd::CheckKkt(snapshot, keys, handles);
      if (checks_fail_) report.labels_match_weights = false;
      return report;
    };
    service_.Restart();
    service_.MakeMemory("right");
    service_.Insert("right", Spiral(12));
    service_.MakeMemory("m");
    distort_ = true;
    service_.Insert("m", Spiral(12));
    EXPECT_NE(*Answer("m"), *Answer("right"));
  }

  // The readout of a query; nothing while the memory is not served.
  std::optional<double> Answer(const std::string& memory) {
    QueryInput input;
    input.tenant = "t";
    input.memory = memory;
    input.queries = {{0.25, 0.5}};
    const auto reply = service_->Query(input, {});
    if (absl::IsUnavailable(reply.status())) return std::nullopt;
    EXPECT_THAT(reply, IsOk());
    return reply->results.front().readout.front();
  }

  Harness service_;
  bool distort_ = false;
  bool checks_fail_ = false;
};

TEST_F(WrongStateTest, IsReplacedAndThenCertifiedAsReplaced) {
  const std::string wrong = service_.Digest("m");
  const auto reply = service_->Verify("t", "m", {});
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->verdict, Verdict::kUncertified);
  EXPECT_FALSE(reply->bits_equal);
  EXPECT_EQ(reply->deviation, 0.125);
  EXPECT_EQ(*Answer("m"), *Answer("right")) << "readers are given the right state";
  EXPECT_NE(service_.Digest("m"), wrong);
  EXPECT_EQ(reply->state_digest, service_.Digest("m"));
  const audit::CertificateBody body = VerifiedLog(service_).back();
  EXPECT_EQ(body.change->verdict, audit::VerdictClass::kUncertified);
  EXPECT_EQ(body.change->root_before, body.change->root_after);
  ASSERT_EQ(body.exceptions.size(), 1u);
  EXPECT_NE(body.exceptions[0].find("was replaced"), std::string::npos);
  EXPECT_TRUE(service_->Verify("t", "m", {})->bits_equal);
}

TEST_F(WrongStateTest, IsWithdrawnWhenItCannotBeReplacedAndTheLogSaysSo) {
  for (const bool store_fails : {false, true}) {
    SCOPED_TRACE(store_fails);
    const size_t before = VerifiedLog(service_).size();
    if (store_fails) {
      FailOnce(service_, "LoadTokens", absl::DataLossError("a damaged row"));
    } else {
      checks_fail_ = true;
    }
    EXPECT_THAT(service_->Verify("t", "m", {}),
                HasCode(store_fails ? absl::StatusCode::kDataLoss : absl::StatusCode::kInternal));
    checks_fail_ = false;
    EXPECT_EQ(Answer("m"), std::nullopt) << "the wrong state is served to nobody";
    EXPECT_THAT(service_->Describe("t", "m", false, {}), HasCode(absl::StatusCode::kUnavailable));
    const std::vector<audit::CertificateBody> log = VerifiedLog(service_);
    ASSERT_EQ(log.size(), before + 1);
    EXPECT_EQ(log.back().change->verdict, audit::VerdictClass::kUncertified);
    ASSERT_EQ(log.back().exceptions.size(), 1u);
    EXPECT_EQ(log.back().exceptions[0].find("replaced"), std::string::npos);
    EXPECT_NE(log.back().exceptions[0].find("not served"), std::string::npos);
    // The next write loads it.
    service_.Insert("m", {MakeToken(absl::StrCat("b", before), 3.0, -2.0)});
    EXPECT_TRUE(Answer("m").has_value());
    EXPECT_TRUE(service_->Verify("t", "m", {})->bits_equal);
    service_.Forget("m", {absl::StrCat("b", before)});
    EXPECT_EQ(*Answer("m"), *Answer("right"));
    // Once more, and this time it is the store that fails.
    distort_ = true;
    ASSERT_THAT(service_->Describe("t", "m", true, {}), IsOk());
    EXPECT_NE(*Answer("m"), *Answer("right"));
  }
}

TEST_F(WrongStateTest, IsReplacedAlsoWhenTheLogCannotBeWritten) {
  FailOnce(service_, "AppendCertificate", absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(service_->Verify("t", "m", {}), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(VerifiedLog(service_).empty());
  EXPECT_EQ(*Answer("m"), *Answer("right"));
}

TEST(VerifyTest, AStateThatFailsItsOwnCheckIsNotCertified) {
  Harness service;
  bool broken = false;
  service.options().tenant.checker = [&broken](const svdd::Snapshot& snapshot,
                                               std::span<const double> keys,
                                               std::span<const svdd::TokenHandle> handles) {
    svdd::KktReport report = svdd::CheckKkt(snapshot, keys, handles);
    if (broken) report.labels_match_weights = false;
    return report;
  };
  service.Restart();
  service.MakeMemory("m");
  service.Insert("m", Spiral(12));
  broken = true;
  EXPECT_THAT(service->Verify("t", "m", {}), HasCode(absl::StatusCode::kInternal));
  EXPECT_EQ(service->GetCheckpoint("t")->size, 0u) << "nothing true could be signed";
  EXPECT_THAT(service->Describe("t", "m", false, {}), HasCode(absl::StatusCode::kUnavailable));
  broken = false;
  EXPECT_TRUE(service->Verify("t", "m", {})->bits_equal) << "loaded afresh";
  EXPECT_THAT(service->Describe("t", "m", false, {}), IsOk());
}

TEST(VerifyTest, AFailedAppendChangesNothing) {
  Harness service;
  service.MakeMemory("m");
  service.Insert("m", Spiral(8));
  const std::string digest = service.Digest("m");
  FailOnce(service, "AppendCertificate", absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(service->Verify("t", "m", {}), HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(service->GetCheckpoint("t")->size, 0u);
  EXPECT_EQ(service.Digest("m"), digest);
  LieOnce(service, "AppendCertificate");
  EXPECT_THAT(service->Verify("t", "m", {}), HasCode(absl::StatusCode::kUnavailable));
  // It was committed, and the log goes on from there.
  EXPECT_EQ(service->GetCheckpoint("t")->size, 1u);
  EXPECT_TRUE(service->Verify("t", "m", {})->bits_equal);
  EXPECT_EQ(VerifiedLog(service).size(), 2u);
  EXPECT_EQ(service.Digest("m"), digest);
}

TEST(VerifyTest, NamesAreChecked) {
  Harness service;
  EXPECT_THAT(service->Verify("t", "none", {}), HasCode(kNotFound));
  EXPECT_THAT(service->Verify("none", "m", {}), HasCode(kNotFound));
  EXPECT_THAT(service->Verify("t", "Bad Name", {}), Fails(kInvalid, "memory"));
  service.MakeMemory("m");
  CallOptions gone;
  gone.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service->Verify("t", "m", gone), HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(service->GetCheckpoint("t")->size, 0u);
}

}  // namespace
}  // namespace lethe::service
