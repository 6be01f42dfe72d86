// Rotation of the signing key: complete, interrupted at each step, with a log that cannot hand
// over.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/signer.h"
#include "audit/verify.h"
#include "tests/server/log_testing.h"

namespace lethe::service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::set<std::string> KeyFiles(const Harness& service) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(service.data() + "/keys")) {
    names.insert(entry.path().filename().string());
    struct stat info {};
    EXPECT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0400u) << entry.path();
  }
  return names;
}

std::string ReadKey(const Harness& service, const std::string& name = "signing.pem") {
  std::ifstream file(service.data() + "/keys/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The base64 of a PEM file's key.
std::string Secret(const std::string& pem) {
  const size_t begin = pem.find('\n') + 1;
  return pem.substr(begin, pem.find('\n', begin) - begin);
}

class RotationTest : public testing::Test {
 protected:
  RotationTest() {
    for (const char* tenant : {"t", "u", "v"}) {
      if (tenant != std::string("t")) {
        EXPECT_THAT(service_->CreateTenant(tenant, {}), IsOk());
      }
      EXPECT_THAT(service_->CreateMemory(tenant, "m", SmallConfig(), {}), IsOk());
      EXPECT_THAT(service_->Insert(tenant, "m", Spiral(8), {}), IsOk());
      // "v" has an empty log: it hands over all the same, since its key may be pinned already.
      if (tenant != std::string("v")) Erase(tenant, "a0");
      pinned_.push_back(service_->GetTenant(tenant)->verification_key);
    }
    old_key_ = ReadKey(service_);
  }

  void Erase(const std::string& tenant, const std::string& id) {
    ForgetInput input = ForgetOf("m", {id});
    input.tenant = tenant;
    EXPECT_THAT(service_->Forget(input, {}), IsOk());
  }

  // The log from the key that was pinned when the tenant was made; how many keys it has had.
  size_t KeysFromPinned(const std::string& tenant, const std::string& vkey) {
    audit::ChainVerifier verifier(*audit::VerificationKey::Parse(vkey), {});
    const auto page = service_->ListCertificates(tenant, "", {});
    EXPECT_THAT(page, IsOk());
    for (const CertificateInfo& info : page->items) {
      const audit::CertificateResult result =
          verifier.Add({.envelope = info.envelope, .leaf = info.leaf, .sequence = info.sequence});
      EXPECT_TRUE(result.ok()) << tenant << " " << info.sequence << ": " << result.message;
    }
    const CheckpointInfo checkpoint = *service_->GetCheckpoint(tenant);
    const audit::CheckpointResult signed_root =
        audit::VerifyCheckpoint(checkpoint.note, verifier.key());
    EXPECT_TRUE(signed_root.ok()) << signed_root.message;
    EXPECT_EQ(signed_root.checkpoint.size, page->items.size());
    EXPECT_EQ(service_->GetTenant(tenant)->verification_key, verifier.key().vkey());
    EXPECT_EQ(checkpoint.keys.size(), verifier.keys().size());
    return verifier.keys().size();
  }

  void ExpectRotatedOnce() {
    EXPECT_THAT(KeyFiles(service_), ElementsAre("signing.pem"));
    EXPECT_NE(ReadKey(service_), old_key_);
    EXPECT_FALSE(FilesHold(service_, Secret(old_key_)));
    const std::vector<std::string> tenants = {"t", "u", "v"};
    for (size_t i = 0; i < tenants.size(); ++i) {
      Erase(tenants[i], "a3");
      EXPECT_EQ(KeysFromPinned(tenants[i], pinned_[i]), 2u) << tenants[i];
    }
  }

  Harness service_;
  std::vector<std::string> pinned_;
  std::string old_key_;
};

TEST_F(RotationTest, EveryLogHandsOverAndTheOldKeyIsGone) {
  const auto reply = service_->RotateKey({});
  ASSERT_THAT(reply, IsOk());
  EXPECT_TRUE(reply->complete);
  EXPECT_EQ(reply->handed_over, 3u);
  EXPECT_THAT(reply->pending, IsEmpty());
  ExpectRotatedOnce();
  const std::vector<audit::CertificateBody> log = ErasureLog(service_);
  EXPECT_EQ(log[1].kind, audit::CertificateKind::kKeyHandover);
  EXPECT_EQ(log[1].handover->next, service_->GetTenant("t")->verification_key);
  service_.Restart();
  EXPECT_EQ(KeysFromPinned("t", pinned_[0]), 2u);
  // A tenant made afterwards begins with the new key, and the next rotation is another one.
  ASSERT_THAT(service_->CreateTenant("w", {}), IsOk());
  EXPECT_EQ(KeysFromPinned("w", service_->GetTenant("w")->verification_key), 1u);
  EXPECT_EQ(service_->RotateKey({})->handed_over, 4u);
  EXPECT_EQ(KeysFromPinned("t", pinned_[0]), 3u);
}

TEST_F(RotationTest, AnInterruptedRotationIsFinishedAtTheNextStart) {
  // The n-th time that a rotation passes a step, it ends there.
  const std::vector<std::pair<std::string, int>> ends = {
      {"begun", 1},   {"handed-over", 1}, {"handed-over", 2}, {"handed-over", 3},
      {"retired", 1}, {"promoted", 1},    {"wiped", 1}};
  for (const auto& [step, times] : ends) {
    SCOPED_TRACE(absl::StrCat(step, " ", times));
    Harness fresh;
    for (const char* tenant : {"u", "v"}) {
      EXPECT_THAT(fresh->CreateTenant(tenant, {}), IsOk());
    }
    fresh.MakeMemory("m");
    fresh.Insert("m", Spiral(6));
    fresh.Forget("m", {"a0"});
    const std::string pinned = fresh->GetTenant("t")->verification_key;
    const std::string secret = Secret(ReadKey(fresh));
    int left = times;
    fresh.options().rotation_fault = [&left, end = step](absl::string_view reached) {
      return reached == end && --left == 0 ? absl::AbortedError("the power is gone")
                                           : absl::OkStatus();
    };
    fresh.Restart();
    EXPECT_THAT(fresh->RotateKey({}), HasCode(absl::StatusCode::kInternal));
    fresh.Restart();
    EXPECT_THAT(KeyFiles(fresh), ElementsAre("signing.pem"));
    EXPECT_FALSE(FilesHold(fresh, secret));
    fresh.Forget("m", {"a1"});
    EXPECT_EQ(ErasureLog(fresh).size(), 3u);
    for (const char* tenant : {"t", "u", "v"}) {
      const CheckpointInfo checkpoint = *fresh->GetCheckpoint(tenant);
      EXPECT_EQ(checkpoint.keys.size(), 2u) << tenant << ": handed over once";
      VerifiedCheckpoint(checkpoint);
    }
    EXPECT_EQ(fresh->GetCheckpoint("t")->keys[0].vkey, pinned);
  }
}

TEST_F(RotationTest, AnInterruptedRotationIsContinuedByTheNextCall) {
  for (const std::string end : {"begun", "handed-over", "retired", "promoted", "wiped"}) {
    SCOPED_TRACE(end);
    Harness fresh;
    EXPECT_THAT(fresh->CreateTenant("u", {}), IsOk());
    int left = 1;
    fresh.options().rotation_fault = [&left, end](absl::string_view reached) {
      return reached == end && --left == 0 ? absl::AbortedError("an I/O error") : absl::OkStatus();
    };
    fresh.Restart();
    EXPECT_THAT(fresh->RotateKey({}), HasCode(absl::StatusCode::kInternal));
    // Whatever the files look like now, what exists is served and what is new is signed.
    EXPECT_THAT(fresh->GetCheckpoint("t"), IsOk());
    const auto reply = fresh->RotateKey({});
    ASSERT_THAT(reply, IsOk());
    EXPECT_TRUE(reply->complete);
    EXPECT_THAT(KeyFiles(fresh), ElementsAre("signing.pem"));
    EXPECT_EQ(fresh->GetCheckpoint("t")->keys.size(), 2u);
    EXPECT_EQ(fresh->GetCheckpoint("u")->keys.size(), 2u);
    fresh.Restart();
    EXPECT_EQ(VerifiedLog(fresh).size(), 1u);
  }
}

TEST_F(RotationTest, AHandOverThatFailsOrLiesIsFinishedLater) {
  for (const bool lie : {false, true}) {
    SCOPED_TRACE(lie);
    Harness fresh;
    EXPECT_THAT(fresh->CreateTenant("u", {}), IsOk());
    if (lie) {
      LieOnce(fresh, "AppendCertificate");
    } else {
      FailOnce(fresh, "AppendCertificate", absl::ResourceExhaustedError("disk full"));
    }
    const auto first = fresh->RotateKey({});
    ASSERT_THAT(first, IsOk());
    EXPECT_FALSE(first->complete);
    EXPECT_THAT(first->pending, ElementsAre("t"));
    EXPECT_THAT(KeyFiles(fresh), ElementsAre("signing.next.pem", "signing.pem"));
    const auto second = fresh->RotateKey({});
    ASSERT_THAT(second, IsOk());
    EXPECT_TRUE(second->complete);
    EXPECT_EQ(second->handed_over, lie ? 0u : 1u) << "what was committed is not done again";
    EXPECT_EQ(fresh->GetCheckpoint("t")->keys.size(), 2u);
    EXPECT_EQ(VerifiedLog(fresh).size(), 1u);
    EXPECT_THAT(KeyFiles(fresh), ElementsAre("signing.pem"));
  }
}

// A log that cannot be opened may need the old key: it stays until the tenant is back or is taken
// out of the data folder.
TEST_F(RotationTest, AQuarantinedTenantKeepsTheOldKeyAlive) {
  service_.Stop();
  const std::string file = service_.data() + "/tenants/u/tenant.db";
  const std::string kept = service_.data() + "/kept.db";
  std::filesystem::copy_file(file, kept);
  std::ofstream(file, std::ios::trunc) << "this is no database";
  service_.Restart();
  for (int round = 0; round < 2; ++round) {
    const auto reply = service_->RotateKey({});
    ASSERT_THAT(reply, IsOk());
    EXPECT_FALSE(reply->complete);
    EXPECT_EQ(reply->handed_over, round == 0 ? 2u : 0u) << "continued, not begun anew";
    EXPECT_THAT(reply->pending, ElementsAre("u"));
    EXPECT_THAT(KeyFiles(service_), ElementsAre("signing.next.pem", "signing.pem"));
    EXPECT_EQ(ReadKey(service_), old_key_);
    service_.Restart();
    EXPECT_THAT(KeyFiles(service_), ElementsAre("signing.next.pem", "signing.pem"));
  }
  // Everybody else works with the new key; a new tenant is handed over at once.
  Erase("t", "a1");
  EXPECT_EQ(KeysFromPinned("t", pinned_[0]), 2u);
  ASSERT_THAT(service_->CreateTenant("w", {}), IsOk());
  EXPECT_EQ(service_->GetCheckpoint("w")->keys.size(), 2u);
  EXPECT_EQ(audit::Signer::LoadFile(service_->GetTenant("w")->log_origin,
                                    service_.data() + "/keys/signing.next.pem")
                ->verification_key()
                .vkey(),
            service_->GetTenant("w")->verification_key);

  service_.Stop();
  std::filesystem::copy_file(kept, file, std::filesystem::copy_options::overwrite_existing);
  service_.Restart();
  std::filesystem::remove(kept);
  ExpectRotatedOnce();
}

TEST_F(RotationTest, ATenantThatIsTakenAwayNoLongerCounts) {
  service_.Stop();
  std::ofstream(service_.data() + "/tenants/u/tenant.db", std::ios::trunc) << "no database";
  service_.Restart();
  EXPECT_FALSE(service_->RotateKey({})->complete);
  service_.Stop();
  std::filesystem::remove_all(service_.data() + "/tenants/u");
  service_.Restart();
  EXPECT_THAT(KeyFiles(service_), ElementsAre("signing.pem"));
  EXPECT_NE(ReadKey(service_), old_key_);
}

TEST_F(RotationTest, AClosedLogIsNotTouched) {
  ASSERT_THAT(service_->DeleteTenant("u", {}), IsOk());
  const auto reply = service_->RotateKey({});
  ASSERT_THAT(reply, IsOk());
  EXPECT_TRUE(reply->complete);
  EXPECT_EQ(reply->handed_over, 2u);
  service_.Restart();
  EXPECT_EQ(KeysFromPinned("t", pinned_[0]), 2u);
}

// A deleted tenant whose folder cannot be moved away: a rotation destroys the key that its log was
// signed with, and must neither wait for that log nor lose it.
TEST_F(RotationTest, AClosedLogWhoseFolderStaysNeedsNoPrivateKey) {
  service_.Stop();
  const std::string uid = RawText(service_, "SELECT uid FROM tenant", "u");
  const std::string obstacle = absl::StrCat(service_.data(), "/closed/u-", uid);
  const std::string live = service_.data() + "/tenants/u";
  std::filesystem::create_directory(obstacle);
  service_.Restart();
  ASSERT_THAT(service_->DeleteTenant("u", {}), IsOk());
  EXPECT_TRUE(std::filesystem::exists(live));
  const auto reply = service_->RotateKey({});
  ASSERT_THAT(reply, IsOk());
  EXPECT_TRUE(reply->complete);
  EXPECT_EQ(reply->handed_over, 2u);
  EXPECT_FALSE(FilesHold(service_, Secret(old_key_)));
  // It stays deleted over a start that cannot move it either, and holds nothing up.
  service_.Restart();
  EXPECT_THAT(service_->GetTenant("u"), HasCode(kNotFound));
  EXPECT_EQ(service_->ListTenants({})->items.size(), 2u);
  const auto second = service_->RotateKey({});
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE(second->complete);
  EXPECT_THAT(second->pending, IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(live));
  // The next start finds the way free.
  std::filesystem::remove(obstacle);
  service_.Restart();
  EXPECT_FALSE(std::filesystem::exists(live));
  EXPECT_TRUE(std::filesystem::exists(obstacle + "/tenant.db"));
  EXPECT_THAT(service_->CreateTenant("u", {}), IsOk()) << "its name is free";
  EXPECT_EQ(KeysFromPinned("t", pinned_[0]), 3u);
}

TEST_F(RotationTest, ARotationTriesAgainToMoveAClosedTenant) {
  service_.Stop();
  const std::string uid = RawText(service_, "SELECT uid FROM tenant", "u");
  const std::string obstacle = absl::StrCat(service_.data(), "/closed/u-", uid);
  std::filesystem::create_directory(obstacle);
  service_.Restart();
  ASSERT_THAT(service_->DeleteTenant("u", {}), IsOk());
  std::filesystem::remove(obstacle);
  EXPECT_TRUE(service_->RotateKey({})->complete);
  EXPECT_TRUE(std::filesystem::exists(obstacle + "/tenant.db"));
  EXPECT_THAT(service_->CreateTenant("u", {}), IsOk());
}

// Nobody else sees a tenant whose deletion has begun, so its name among those that are pending
// would help nobody: the rotation makes the end of it.
TEST_F(RotationTest, ADeletionThatStoppedOnTheWayIsFinished) {
  for (const bool restart : {false, true}) {
    SCOPED_TRACE(restart);
    Harness fresh;
    fresh.MakeMemory("m");
    fresh.Insert("m", Spiral(6));
    EXPECT_THAT(fresh->CreateTenant("u", {}), IsOk());
    int left = restart ? 2 : 1;  // a start tries too
    fresh.hooks().before = [&left](const std::string& called) {
      return called == "FinishClose" && left-- > 0 ? absl::UnavailableError("not now")
                                                   : absl::OkStatus();
    };
    EXPECT_THAT(fresh->DeleteTenant("t", {}), HasCode(absl::StatusCode::kUnavailable));
    EXPECT_THAT(fresh->GetTenant("t"), HasCode(kNotFound));
    if (restart) fresh.Restart();
    EXPECT_TRUE(std::filesystem::exists(fresh.data() + "/tenants/t"));
    const auto reply = fresh->RotateKey({});
    ASSERT_THAT(reply, IsOk());
    EXPECT_TRUE(reply->complete);
    EXPECT_THAT(reply->pending, IsEmpty());
    EXPECT_EQ(reply->handed_over, 1u);
    EXPECT_FALSE(std::filesystem::exists(fresh.data() + "/tenants/t"));
    EXPECT_TRUE(std::filesystem::exists(fresh.data() + "/closed"));
    EXPECT_THAT(fresh->CreateTenant("t", {}), IsOk());
  }
}

// Its folder and its log are there, signed with the old key, so the rotation has to know of it.
TEST_F(RotationTest, ATenantThatIsMadeButNotOpenedKeepsTheOldKeyAlive) {
  FailOnce(service_, "StartLog", absl::InternalError("/a/path: an I/O error"));
  const auto created = service_->CreateTenant("w", {});
  EXPECT_THAT(created, HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(std::string(created.status().message()).find("/a/path"), std::string::npos);
  EXPECT_THAT(service_->GetTenant("w"), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(service_->CreateTenant("w", {}), HasCode(kExists));
  const auto reply = service_->RotateKey({});
  ASSERT_THAT(reply, IsOk());
  EXPECT_FALSE(reply->complete);
  EXPECT_THAT(reply->pending, ElementsAre("w"));
  EXPECT_EQ(ReadKey(service_), old_key_);
  service_.Restart();
  EXPECT_THAT(service_->GetTenant("w"), IsOk());
  ExpectRotatedOnce();
}

TEST_F(RotationTest, ALogThatWasStartedByAFailedCreateIsNotLost) {
  LieOnce(service_, "StartLog");  // committed, and the tenant does not open
  EXPECT_THAT(service_->CreateTenant("w", {}), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(service_->RotateKey({})->pending, ElementsAre("w"));
  service_.Restart();
  EXPECT_EQ(service_->GetCheckpoint("w")->keys.size(), 2u) << "handed over, not lost";
  ExpectRotatedOnce();
}

TEST_F(RotationTest, ATenantThatIsNotMadeAtAllLeavesNothing) {
  const std::string folder = service_.data() + "/tenants";
  // A file in the place of the folder that a tenant is built in.
  std::filesystem::rename(folder, folder + ".away");
  std::ofstream(folder) << "no folder";
  const auto created = service_->CreateTenant("w", {});
  EXPECT_FALSE(created.ok());
  EXPECT_EQ(std::string(created.status().message()).find(service_.data()), std::string::npos)
      << created.status();
  std::filesystem::remove(folder);
  std::filesystem::rename(folder + ".away", folder);
  service_.Restart();
  EXPECT_THAT(service_->CreateTenant("w", {}), IsOk());
}

// No file is called signing.pem then, and every log is signed with the next key.
TEST_F(RotationTest, ATenantCanBeMadeWhereARotationStoppedBetweenItsRenames) {
  for (const std::string end : {"retired", "promoted", "wiped"}) {
    SCOPED_TRACE(end);
    Harness fresh;
    int left = 1;
    fresh.options().rotation_fault = [&left, end](absl::string_view reached) {
      return reached == end && --left == 0 ? absl::AbortedError("an I/O error") : absl::OkStatus();
    };
    fresh.Restart();
    EXPECT_THAT(fresh->RotateKey({}), HasCode(absl::StatusCode::kInternal));
    ASSERT_THAT(fresh->CreateTenant("w", {}), IsOk());
    EXPECT_EQ(fresh->GetCheckpoint("w")->keys.size(), 1u) << "made with the new key";
    const auto reply = fresh->RotateKey({});
    ASSERT_THAT(reply, IsOk());
    EXPECT_TRUE(reply->complete);
    EXPECT_EQ(reply->handed_over, 0u);
    fresh.Restart();
    EXPECT_THAT(fresh->GetCheckpoint("w"), IsOk());
    EXPECT_THAT(KeyFiles(fresh), ElementsAre("signing.pem"));
  }
}

TEST_F(RotationTest, ACallerWhoIsGoneBeginsNothing) {
  CallOptions call;
  call.still_wanted = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(service_->RotateKey(call), HasCode(absl::StatusCode::kCancelled));
  EXPECT_THAT(KeyFiles(service_), ElementsAre("signing.pem"));
  EXPECT_EQ(ReadKey(service_), old_key_);
}

}  // namespace
}  // namespace lethe::service
