// Exports of logs that say which keys were destroyed or what was put back from a copy: what is
// pending, and ranges of nothing.
#include <functional>
#include <optional>
#include <string>

#include "tests/audit/tamper_testing.h"

namespace lethe::audit::testing {
namespace {

class DestructionTest : public TamperTest {
 protected:
  ExportResult Verify(const Files& files, std::optional<uint64_t> first = std::nullopt) {
    ExportExpectations expected = Pinned();
    expected.first = first;
    ExportResult result = VerifyFolder(files, expected);
    EXPECT_TRUE(result.ok()) << Name(result.finding.failure) << " " << result.finding.message;
    return result;
  }
  static Files Made(SampleLog& log) {
    log.SignAgain();
    return Forge(log, log.signers()[0]);
  }
};

TEST_F(DestructionTest, PendingIsWhatNoLaterCertificateDestroys) {
  SampleLog log(0);
  const auto expect = [&](uint64_t erasures, uint64_t pending, std::optional<uint64_t> first) {
    const ExportResult result = Verify(Made(log));
    EXPECT_EQ(result.erasures, erasures);
    EXPECT_EQ(result.keys_pending, pending);
    EXPECT_EQ(result.first_pending, first);
  };
  log.Append(ForgetBody());
  expect(1, 1, 0);
  log.Append(EvictBody());
  log.Append(EditBody());
  expect(3, 3, 0);
  log.Append(ShreddedBody());  // an epoch only
  expect(3, 3, 0);
  log.Append(ShreddedBody(SequenceSpan{1, 1}));
  expect(3, 2, 0);
  log.Append(ShreddedBody(SequenceSpan{0, 1}));
  expect(3, 1, 2);
  log.Append(ForgetBody());
  log.Append(ShreddedBody(SequenceSpan{2, 3}));
  expect(4, 1, 6);
  // A copy that was put back brings no key with it.
  log.Append(RestoredBody(0, 8, 3));
  expect(4, 1, 6);
}

// The end of the tenant ends all of it, if it says so.
TEST_F(DestructionTest, TheEndOfTheTenantDestroysAllKeysOrSaysNot) {
  for (const bool claimed : {true, false}) {
    SampleLog log(0);
    log.Append(ForgetBody());
    CertificateBody closing = ClosedBody();
    if (!claimed) closing.stores = {{"keys", "not-claimed", ""}};
    log.Append(closing);
    const ExportResult result = Verify(Made(log));
    EXPECT_EQ(result.erasures, 1u);
    EXPECT_EQ(result.keys_pending, claimed ? 0u : 1u);
  }
}

TEST_F(DestructionTest, ARequestThatErasedNothingHasNoKeys) {
  SampleLog log(0);
  CertificateBody body = ForgetBody();
  body.counts = {.not_found = 1};
  body.change->partition_after = body.change->partition_before;
  body.change->root_after = body.change->root_before;
  log.Append(body);
  const ExportResult result = Verify(Made(log));
  EXPECT_EQ(result.erasures, 0u);
  EXPECT_EQ(result.keys_pending, 0u);
}

TEST_F(DestructionTest, ADestructionOfNothingIsRefused) {
  const auto refused = [&](SequenceSpan span, bool bad) {
    SampleLog log(0);
    log.Append(ForgetBody());
    log.Append(ShreddedBody());
    log.Append(ShreddedBody());
    log.Append(EvictBody());
    log.Append(ShreddedBody(span));
    const Files files = Made(log);
    if (bad) {
      Refused(files, Failure::kDestructionMismatch, CertificateFile(4, ".envelope.json"));
    } else {
      Accepted(files);
    }
  };
  refused({1, 2}, true);
  refused({1, 1}, true);
  refused({2, 2}, true);
  refused({0, 2}, false);
  refused({1, 3}, false);
  refused({3, 3}, false);
}

TEST_F(DestructionTest, ARestorationThatTookOutWhatNobodyErasedIsRefused) {
  const auto log_with = [](const CertificateBody& restored) {
    SampleLog log(0);
    for (const CertificateBody& body :
         {ForgetBody(), ShreddedBody(SequenceSpan{0, 0}), ShreddedBody()}) {
      log.Append(body);
    }
    log.Append(restored);
    log.Append(EvictBody());
    log.SignAgain();
    return log;
  };
  SampleLog good = log_with(RestoredBody(0, 3, 4));
  Accepted(Forge(good, good.signers()[0]));
  SampleLog nothing = log_with(RestoredBody(1, 2, 0));
  Accepted(Forge(nothing, nothing.signers()[0]));
  for (const uint64_t size : {1u, 2u}) {
    SampleLog bad = log_with(RestoredBody(size, 3 - size, 4));
    Refused(Forge(bad, bad.signers()[0]), Failure::kRestorationMismatch,
            CertificateFile(3, ".envelope.json"));
  }
  // Where the range does not show all that came after the copy, nothing is said.
  SampleLog bad = log_with(RestoredBody(1, 2, 4));
  ExportExpectations expected = Pinned();
  expected.first = 2;
  Accepted(bad.Export({.first = 2}).files(), expected);
  expected.first = 1;
  Refused(bad.Export({.first = 1}).files(), Failure::kRestorationMismatch,
          CertificateFile(3, ".envelope.json"), expected);
}

TEST_F(DestructionTest, ARangeSaysOnlyWhatItCanKnow) {
  SampleLog log(0);
  log.Append(ForgetBody());
  log.Append(EditBody());
  log.Append(ShreddedBody(SequenceSpan{0, 0}));
  log.Append(ShreddedBody(SequenceSpan{1, 1}));
  log.Append(ForgetBody());
  log.SignAgain();
  // To the end of the log: what is destroyed before the range is not its business.
  ExportResult result = Verify(log.Export({.first = 2}).files(), 2);
  EXPECT_EQ(result.erasures, 1u);
  EXPECT_EQ(result.keys_pending, 1u);
  EXPECT_EQ(result.first_pending, 4u);
  ExportExpectations expected = Pinned();
  expected.first = 0;
  expected.last = 2;
  result = VerifyFolder(log.Export({.first = 0, .last = 2}).files(), expected);
  EXPECT_TRUE(result.ok()) << result.finding.message;
  EXPECT_EQ(result.erasures, 2u);
  EXPECT_FALSE(result.keys_pending.has_value());
  EXPECT_FALSE(result.first_pending.has_value());
}

TEST_F(DestructionTest, ManyCertificatesAcrossBatches) {
  SampleLog log(600);
  const ExportResult result = Verify(Made(log));
  uint64_t erasures = 0;
  uint64_t pending = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    if (!log.certificates()[i].body.change.has_value()) continue;
    ++erasures;
    bool destroyed = false;
    for (uint64_t j = i + 1; j < 600 && !destroyed; ++j) {
      const auto& destruction = log.certificates()[j].body.destruction;
      destroyed = destruction.has_value() && destruction->erasures->first <= i &&
                  i <= destruction->erasures->last;
    }
    pending += destroyed ? 0 : 1;
  }
  EXPECT_GT(pending, 0u);
  EXPECT_EQ(result.erasures, erasures);
  EXPECT_EQ(result.keys_pending, pending);
}

}  // namespace
}  // namespace lethe::audit::testing
