// A new key-encryption key: asked for, cut short at every step, and by itself where an erasure's
// evidence needs it.
#include <sqlite3.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/stores.h"
#include "tests/server/service_testing.h"
#include "tests/store/hooked_kms.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

std::string VaultOf(const std::string& data) {
  for (const auto& entry : std::filesystem::directory_iterator(data + "/vault")) {
    return entry.path().string();
  }
  return "";
}

// The epochs whose files are there.
std::vector<uint64_t> EpochsOf(const std::string& data) {
  std::set<uint64_t> epochs;
  for (const auto& entry : std::filesystem::directory_iterator(VaultOf(data) + "/kek")) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(name.rfind("kek-", 0), 0u) << name;
    epochs.insert(std::stoull(name.substr(4)));
  }
  return {epochs.begin(), epochs.end()};
}

// Epoch by epoch, how many certificates name it.
std::map<uint64_t, int> NamedIn(const std::vector<audit::CertificateBody>& log) {
  std::map<uint64_t, int> named;
  for (const audit::CertificateBody& body : log) {
    if (!body.destruction.has_value()) continue;
    for (const uint64_t epoch : body.destruction->epochs) ++named[epoch];
  }
  return named;
}

// One KEK is left, and the log names every one before it once.
void ExpectEveryEpochNamedOnce(Harness& service) {
  const std::vector<uint64_t> epochs = EpochsOf(service.data());
  ASSERT_EQ(epochs.size(), 1u);
  std::map<uint64_t, int> expected;
  for (uint64_t epoch = 1; epoch < epochs[0]; ++epoch) expected[epoch] = 1;
  EXPECT_EQ(NamedIn(VerifiedLog(service)), expected);
}

// Runs statements on the file of keys, without secure_delete; the service must be stopped.
void TamperKeys(const Harness& service, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open((VaultOf(service.data()) + "/keys.db").c_str(), &handle), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(
      sqlite3_exec(handle, ("PRAGMA secure_delete=OFF;" + sql).c_str(), nullptr, nullptr, &error),
      SQLITE_OK)
      << error;
  sqlite3_free(error);
  sqlite3_close(handle);
}

class RewrapTest : public testing::Test {
 protected:
  RewrapTest() {
    service_.options().tenant.kms = store::HookedKmsFactory(kms_);
    service_.Restart();
    service_.MakeMemory("m");
    std::vector<TokenInput> tokens = Spiral(12);
    for (int i = 0; i < 4; ++i) tokens[static_cast<size_t>(i)].subject = "anna";
    service_.Insert("m", tokens);
    digest_ = service_.Digest("m");
  }

  // Rows are readable: a start solves from them.
  void ExpectReadable() {
    service_.Restart();
    EXPECT_EQ(service_.Digest("m"), digest_);
    EXPECT_THAT(service_->Verify("t", "m", {}), IsOk());
  }

  std::shared_ptr<store::KmsHooks> kms_ = std::make_shared<store::KmsHooks>();
  Harness service_;
  std::string digest_;
};

TEST_F(RewrapTest, EveryCallEndsAnEpochAndTheLogNamesIt) {
  EXPECT_THAT(EpochsOf(service_.data()), ElementsAre(1));
  const auto first = service_->RewrapKeys("t", {});
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->epoch, 2u);
  EXPECT_GE(first->keys, 9u);  // eight tokens, one subject, the tenant's own; and the reserve
  EXPECT_THAT(EpochsOf(service_.data()), ElementsAre(2));
  std::vector<audit::CertificateBody> log = VerifiedLog(service_);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].kind, audit::CertificateKind::kShredded);
  EXPECT_FALSE(log[0].destruction->erasures.has_value());
  EXPECT_THAT(log[0].destruction->epochs, ElementsAre(1));
  EXPECT_EQ(log[0].destruction->keys, 0u);
  EXPECT_EQ(service_->ListCertificates("t", "", {})->items[0].id, first->certificate_id);
  ExpectReadable();
  EXPECT_EQ(service_->RewrapKeys("t", {})->epoch, 3u);
  ExpectEveryEpochNamedOnce(service_);
  // Erasures and insertions go on.
  EXPECT_EQ(service_.Forget("m", {"a5"}).erased, 1u);
  EXPECT_EQ(service_.Insert("m", Spiral(3, "b")).inserted, 3u);
  ExpectEveryEpochNamedOnce(service_);
  EXPECT_THAT(service_->RewrapKeys("nobody", {}), HasCode(kNotFound));
  EXPECT_THAT(service_->RewrapKeys("", {}), Fails(kInvalid, "tenant"));
}

// Each step of the way, as a crash there leaves the files: copied while everything is open.
TEST_F(RewrapTest, ACrashAtAnyStepIsTakenUpByTheNextOpening) {
  service_.options().tenant.keys.rewrap_batch = 100;
  service_.Restart();
  const TempDir images;
  std::vector<std::string> steps;
  const auto image = [&](const std::string& step) {
    std::filesystem::copy(service_.data(), absl::StrCat(images.path(), "/", steps.size()),
                          std::filesystem::copy_options::recursive);
    steps.push_back(step);
    return absl::OkStatus();
  };
  kms_->at = image;
  service_.hooks().after = [&](const std::string& step, const absl::Status& status) {
    const std::set<std::string> steps_of_it = {"RotateKeys", "AppendCertificate",
                                               "ForgetEndedEpochs"};
    if (steps_of_it.count(step) != 0) image(absl::StrCat("after ", step)).IgnoreError();
    return status;
  };
  ASSERT_THAT(service_->RewrapKeys("t", {}), IsOk());
  kms_->at = [](const std::string&) { return absl::OkStatus(); };
  service_.hooks() = {};
  const std::set<std::string> seen(steps.begin(), steps.end());
  for (const char* step :
       {"before rotate", "after rotate", "before wrap", "before destroy", "after destroy",
        "after RotateKeys", "after AppendCertificate", "after ForgetEndedEpochs"}) {
    EXPECT_TRUE(seen.count(step)) << step;
  }
  int unfinished = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(i, ": ", steps[i]));
    const std::string data = absl::StrCat(images.path(), "/", i);
    unfinished += EpochsOf(data).size() > 1 ? 1 : 0;
    service_.options().data = data;
    service_.Restart();
    EXPECT_EQ(service_.Digest("m"), digest_);
    ExpectEveryEpochNamedOnce(service_);
    EXPECT_THAT(service_->RewrapKeys("t", {}), IsOk());
    ExpectEveryEpochNamedOnce(service_);
    EXPECT_EQ(service_.Forget("m", {"a5"}).erased, 1u);
  }
  EXPECT_GE(unfinished, 4);
}

// The same steps failing, with the server going on and with a restart.
TEST_F(RewrapTest, AStepThatFailsIsUnavailableAndRepeatingEndsIt) {
  for (const std::string step :
       {"before rotate", "after rotate", "before wrap", "before destroy", "after destroy",
        "FinishRotation", "RotateKeys", "EndedEpochs", "AppendCertificate",
        "AppendCertificate lies", "ForgetEndedEpochs"}) {
    for (const bool restart : {false, true}) {
      SCOPED_TRACE(absl::StrCat(step, restart ? ", restart" : ""));
      if (step == "AppendCertificate lies") {
        LieOnce(service_, "AppendCertificate");
      } else if (step == "FinishRotation") {
        // Not as an erasure would say it: something may have been changed.
        FailOnce(service_, step, absl::ResourceExhaustedError("no room"));
      } else if (step.find(' ') == std::string::npos) {
        FailOnce(service_, step, absl::UnavailableError("not now"));
      } else {
        kms_->at = [step, fired = false](const std::string& called) mutable -> absl::Status {
          if (fired || called != step) return absl::OkStatus();
          fired = true;
          return absl::UnavailableError("no key service");
        };
      }
      const auto first = service_->RewrapKeys("t", {});
      if (step == "ForgetEndedEpochs") {
        EXPECT_THAT(first, IsOk());  // the certificate names them; the list is the vault's own
      } else {
        EXPECT_THAT(first, HasCode(kUnavailable));
      }
      if (restart) service_.Restart();
      EXPECT_EQ(service_.Digest("m"), digest_);
      EXPECT_THAT(service_->RewrapKeys("t", {}), IsOk());
      ExpectEveryEpochNamedOnce(service_);
      service_.hooks() = {};
    }
  }
}

TEST_F(RewrapTest, AnOlderCopyOfTheFileOfKeysIsRefused) {
  service_.Stop();
  const TempDir copies;
  const std::string old = copies.path() + "/keys.db";
  std::filesystem::copy_file(VaultOf(service_.data()) + "/keys.db", old);
  service_.Restart();
  ASSERT_THAT(service_->RewrapKeys("t", {}), IsOk());
  service_.Stop();
  const std::string present = VaultOf(service_.data()) + "/keys.db";
  const std::string kept = copies.path() + "/present.db";
  std::filesystem::rename(present, kept);
  std::filesystem::copy_file(old, present);
  service_.Restart();
  EXPECT_THAT(service_->Describe("t", "m", false, {}), HasCode(kUnavailable));
  service_.Stop();
  std::filesystem::rename(kept, present);
  ExpectReadable();
}

// Copies of slots that stand in the gaps of the file: where it can be written anew they are
// removed; where it cannot, the KEK ends by itself.
TEST_F(RewrapTest, AnErasureWhoseEvidenceFailsEndsTheKeyEncryptionKey) {
  for (const bool can_rewrite : {true, false}) {
    SCOPED_TRACE(can_rewrite);
    service_.options().tenant.keys.max_rewrite_bytes = can_rewrite ? uint64_t{256} << 20 : 1;
    service_.Stop();
    TamperKeys(service_, "CREATE TABLE copy AS SELECT * FROM slots; DROP TABLE copy");
    service_.Restart();
    const std::vector<uint64_t> before = EpochsOf(service_.data());
    ForgetInput forget = ForgetOf("m", {can_rewrite ? "a5" : "a6"});
    forget.request_id = can_rewrite ? "r5" : "r6";
    const auto reply = service_->Forget(forget, {});
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->erased, 1u);
    const std::vector<audit::CertificateBody> log = VerifiedLog(service_);
    const audit::KeyDestruction& destruction = *log.back().destruction;
    ASSERT_TRUE(destruction.erasures.has_value());
    EXPECT_EQ(destruction.keys, 1u);
    std::string evidence;
    for (const StoreLevel& store : reply->destruction->stores) {
      if (store.store == audit::kStoreKeys) evidence = store.evidence;
    }
    EXPECT_THAT(evidence, HasSubstr("1 slots overwritten"));
    if (can_rewrite) {
      EXPECT_EQ(EpochsOf(service_.data()), before);
      EXPECT_THAT(destruction.epochs, IsEmpty());
      EXPECT_THAT(evidence, Not(HasSubstr("copies found")));
    } else {
      EXPECT_EQ(EpochsOf(service_.data()), (std::vector<uint64_t>{before[0] + 1}));
      EXPECT_EQ(destruction.epochs, before);
      EXPECT_THAT(evidence, HasSubstr("wrapped under is destroyed"));
    }
    ExpectEveryEpochNamedOnce(service_);
    const auto again = service_->Forget(forget, {});
    ASSERT_THAT(again, IsOk());
    EXPECT_TRUE(again->replayed);
    EXPECT_EQ(again->destruction->certificate_id, reply->destruction->certificate_id);
    digest_ = service_.Digest("m");
    ExpectReadable();
  }
}

// What an opening cannot finish waits; the tenant does not, though it may have cost the store its
// connection.
TEST_F(RewrapTest, AnOpeningThatCannotFinishARotationServes) {
  for (const std::string step : {"FinishRotation", "EndedEpochs"}) {
    SCOPED_TRACE(step);
    service_.Stop();
    LieOnce(service_, step);
    service_.Restart();
    EXPECT_EQ(service_.Digest("m"), digest_);
    ExpectReadable();
    service_.hooks() = {};
  }
}

// The change of the KEK that an erasure needs, cut short at each step: finished by repeating.
TEST_F(RewrapTest, AnErasureThatNeedsItIsFinishedWhereverItStopped) {
  service_.options().tenant.keys.max_rewrite_bytes = 1;
  int round = 0;
  for (const std::string step : {"before rotate", "after rotate", "before wrap", "before destroy",
                                 "after destroy", "AppendShredded", "AppendShredded lies"}) {
    for (const bool restart : {false, true}) {
      SCOPED_TRACE(absl::StrCat(step, restart ? ", restart" : ""));
      const std::string id = absl::StrCat("round", ++round);
      service_.Insert("m", {MakeToken(id, round, -round)});
      service_.Stop();
      TamperKeys(service_, "CREATE TABLE copy AS SELECT * FROM slots; DROP TABLE copy");
      service_.Restart();
      if (step == "AppendShredded lies") {
        LieOnce(service_, "AppendShredded");
      } else if (step == "AppendShredded") {
        FailOnce(service_, step, absl::UnavailableError("not now"));
      } else {
        kms_->at = [step, fired = false](const std::string& called) mutable -> absl::Status {
          if (fired || called != step) return absl::OkStatus();
          fired = true;
          return absl::UnavailableError("no key service");
        };
      }
      ForgetInput forget = ForgetOf("m", {id});
      forget.request_id = id;
      EXPECT_THAT(service_->Forget(forget, {}), HasCode(kUnavailable));
      if (restart) service_.Restart();
      const auto again = service_->Forget(forget, {});
      ASSERT_THAT(again, IsOk());
      EXPECT_EQ(again->erased, 1u);
      EXPECT_EQ(ErasureLog(service_).size(), static_cast<size_t>(round));
      ExpectEveryEpochNamedOnce(service_);
      EXPECT_EQ(service_.Digest("m"), digest_);
      service_.hooks() = {};
    }
  }
}

}  // namespace
}  // namespace lethe::service
