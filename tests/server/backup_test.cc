// Backups of tenants, and tenants put back from them.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/backup_manifest.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "tests/server/backup_testing.h"

namespace lethe::service {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::StatusCode kPrecondition = absl::StatusCode::kFailedPrecondition;

class BackupTest : public testing::Test {
 protected:
  BackupTest() {
    service_.MakeMemory("m");
    service_.Insert("m", WithSubjects(12));
  }
  // Tokens a0, a1, ... of subjects p0, p1, p2 in turn.
  static std::vector<TokenInput> WithSubjects(int count, const std::string& prefix = "a") {
    std::vector<TokenInput> tokens = Spiral(count, prefix);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i].subject = absl::StrCat("p", i % 3);
    return tokens;
  }
  Harness service_;
};

TEST_F(BackupTest, IsAWholeFileWithAManifestOfTheLogsKey) {
  service_.Forget("m", {"a1"});
  std::vector<size_t> sizes;
  uint64_t said = 0;
  std::string file;
  const auto note = service_->Backup("t", {}, [&](absl::string_view piece, uint64_t bytes) {
    sizes.push_back(piece.size());
    said = bytes;
    file.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  ASSERT_THAT(note, IsOk());
  const TenantInfo tenant = *service_->GetTenant("t");
  const auto key = audit::VerificationKey::Parse(tenant.verification_key);
  const auto manifest = audit::VerifyBackupManifest(*note, *key);
  ASSERT_THAT(manifest, IsOk());
  EXPECT_EQ(manifest->tenant, "t");
  EXPECT_EQ(manifest->origin, tenant.log_origin);
  EXPECT_EQ(manifest->log_size, tenant.certificate_count);
  EXPECT_EQ(audit::Hex(manifest->log_root), service_->GetCheckpoint("t")->root);
  EXPECT_EQ(manifest->file_bytes, file.size());
  EXPECT_EQ(said, file.size());
  EXPECT_EQ(manifest->file_sha256, audit::Sha256(file));
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), kBackupPieceBytes);
  EXPECT_EQ(file.substr(0, 15), "SQLite format 3");
  for (const char* clear : {"a2", "p1"}) {
    // Names of two letters stand in any file by chance; with what surrounds them they do not.
    EXPECT_THAT(file, Not(HasSubstr(absl::StrCat("\"", clear, "\"")))) << clear;
  }
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
}

TEST_F(BackupTest, WhoeverIsNotThereIsNamed) {
  const auto backup = [&](const std::string& tenant) {
    return service_->Backup(tenant, {},
                            [](absl::string_view, uint64_t) { return absl::OkStatus(); });
  };
  EXPECT_THAT(backup("nobody"), Fails(kNotFound, "tenant"));
  EXPECT_THAT(backup("../t"), Fails(kInvalid, "tenant"));
}

// The writer is free while a reader takes its time, and so is the key.
TEST_F(BackupTest, NothingWaitsForASlowReader) {
  bool inserted = false;
  std::string file;
  const auto note = service_->Backup("t", {}, [&](absl::string_view piece, uint64_t) {
    file.append(piece.data(), piece.size());
    if (!std::exchange(inserted, true)) {
      service_.Insert("m", WithSubjects(3, "late"));
      EXPECT_THAT(service_->CreateTenant("u", {}), IsOk());
      const auto rotated = service_->RotateKey({});
      EXPECT_THAT(rotated, IsOk());
      EXPECT_TRUE(rotated->complete);
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(inserted);
  ASSERT_THAT(note, IsOk());
  // The key that the log had then is gone, so the one that it was handed over to has signed.
  const auto key = audit::VerificationKey::Parse(service_->GetTenant("t")->verification_key);
  const auto manifest = audit::VerifyBackupManifest(*note, *key);
  ASSERT_THAT(manifest, IsOk());
  EXPECT_EQ(manifest->log_size, 0u) << "from before the hand-over";
  EXPECT_EQ(manifest->file_sha256, audit::Sha256(file));
}

TEST_F(BackupTest, ErrorsLeaveNothingBehind) {
  int pieces = 0;
  const auto cut = service_->Backup("t", {}, [&](absl::string_view, uint64_t) {
    ++pieces;
    EXPECT_THAT(TemporaryFiles(service_), IsEmpty()) << "the copy has lost its name";
    return absl::CancelledError("the caller is gone");
  });
  EXPECT_THAT(cut, HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(pieces, 1);
  FailOnce(service_, "CopyTo", absl::ResourceExhaustedError("full"));
  const auto full = service_->Backup("t", {}, [](absl::string_view, uint64_t) {
    ADD_FAILURE() << "nothing to send";
    return absl::OkStatus();
  });
  EXPECT_THAT(full, HasCode(absl::StatusCode::kResourceExhausted));
  const CallOptions gone{.still_wanted = [] { return absl::CancelledError("gone"); }};
  EXPECT_THAT(
      service_->Backup("t", gone, [](absl::string_view, uint64_t) { return absl::OkStatus(); }),
      HasCode(absl::StatusCode::kCancelled));
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
  service_.Insert("m", WithSubjects(2, "after"));
}

TEST_F(BackupTest, WhileWritersWriteEachIsOfOneMoment) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop.load(); ++i) service_.Insert("m", Spiral(1, absl::StrCat("w", i, "-")));
  });
  std::vector<BackupCopy> copies;
  for (int i = 0; i < 3; ++i) copies.push_back(TakeBackup(service_));
  stop.store(true);
  writer.join();
  uint64_t before = Tokens(service_, "m");
  // The newest first: what a restore loses has lost its keys, and a newer backup with it.
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    ASSERT_THAT(PutBack(service_, *copy, /*replace=*/true), IsOk());
    const uint64_t tokens = Tokens(service_, "m");
    EXPECT_LE(tokens, before);
    EXPECT_GE(tokens, 12u);
    before = tokens;
    // What is served is proven, as after any opening, and can be written to.
    EXPECT_TRUE(service_->Verify("t", "m", {})->bits_equal);
  }
  VerifiedLog(service_);
}

TEST_F(BackupTest, TheDataFolderIsLostAndWhatWasForgottenSinceStaysForgotten) {
  const std::string whole = service_.Digest("m");
  const BackupCopy copy = TakeBackup(service_);
  ASSERT_THAT(service_->Forget(ForgetSubjectOf("m", "p1"), {}), IsOk());
  const std::string without = service_.Digest("m");
  const uint64_t certificates = service_->GetTenant("t")->certificate_count;
  service_.Stop();
  std::filesystem::remove_all(service_.data() + "/tenants");
  service_.Restart();
  EXPECT_THAT(service_->GetTenant("t"), HasCode(kNotFound));

  const auto reply = PutBack(service_, copy);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->tenant, "t");
  EXPECT_EQ(reply->copy_size, 0u);
  EXPECT_EQ(reply->reapplied, certificates);
  EXPECT_EQ(reply->removed, 4u);
  EXPECT_EQ(reply->unreadable, 0u);
  EXPECT_EQ(service_.Digest("m"), without);
  EXPECT_NE(service_.Digest("m"), whole);
  const std::vector<audit::CertificateBody> log = VerifiedLog(service_);
  ASSERT_EQ(log.size(), certificates + 1);
  const audit::CertificateBody& last = log.back();
  EXPECT_EQ(last.kind, audit::CertificateKind::kRestored);
  ASSERT_TRUE(last.restoration.has_value());
  EXPECT_EQ(*last.restoration,
            (audit::Restoration{.size = 0, .reapplied = certificates, .removed = 4}));
  EXPECT_EQ(last.counts.erased, 4u);
  EXPECT_THAT(last.exceptions, IsEmpty());
  EXPECT_EQ(service_->GetCertificate("t", reply->certificate_id)->sequence, last.sequence);
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
  // It is a tenant like any other: writes, erasures, a restart.
  service_.Insert("m", WithSubjects(3, "new"));
  service_.Forget("m", {"a0"});
  const std::string after = service_.Digest("m");
  service_.Restart();
  EXPECT_EQ(service_.Digest("m"), after);
  ErasureLog(service_);
}

// A key is one subject's, so the rest of a subject was sealed anew when a part of it was forgotten.
TEST_F(BackupTest, TokensLostWithAPartOfTheirSubjectAreSaid) {
  const BackupCopy copy = TakeBackup(service_);
  service_.Forget("m", {"a1"});  // of p1, which has four
  const auto reply = PutBack(service_, copy, /*replace=*/true);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->removed, 1u);
  EXPECT_EQ(reply->unreadable, 3u);
  EXPECT_EQ(Tokens(service_, "m"), 8u);
  const std::vector<audit::CertificateBody> log = VerifiedLog(service_);
  ASSERT_EQ(log.back().exceptions.size(), 1u);
  EXPECT_THAT(log.back().exceptions[0], HasSubstr("3 tokens of the copy"));
}

TEST_F(BackupTest, ATenantThatIsServedIsReplacedOnlyOnRequest) {
  const BackupCopy copy = TakeBackup(service_);
  const std::string then = service_.Digest("m");
  service_.Insert("m", WithSubjects(4, "since"));
  const std::string now = service_.Digest("m");
  bool asked = false;
  const auto refused = PutBack(service_, copy, false, {}, [&] {
    asked = true;
    return absl::OkStatus();
  });
  EXPECT_THAT(refused, Fails(kPrecondition, "tenant"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("is served"));
  EXPECT_FALSE(asked) << "refused before anything is received";
  EXPECT_EQ(service_.Digest("m"), now);
  // Also one that nobody has opened yet.
  service_.Restart();
  EXPECT_THAT(PutBack(service_, copy), Fails(kPrecondition, "tenant"));
  EXPECT_EQ(service_.Digest("m"), now);

  const auto replaced = PutBack(service_, copy, /*replace=*/true);
  ASSERT_THAT(replaced, IsOk());
  EXPECT_GT(replaced->keys_destroyed, 0u) << "of the rows that are lost";
  EXPECT_EQ(service_.Digest("m"), then);
  service_.Restart();
  EXPECT_EQ(service_.Digest("m"), then);
  EXPECT_EQ(VerifiedLog(service_).back().kind, audit::CertificateKind::kRestored);
}

TEST_F(BackupTest, AQuarantinedTenantIsReplaced) {
  const BackupCopy copy = TakeBackup(service_);
  const std::string then = service_.Digest("m");
  service_.Stop();
  {
    std::fstream file(service_.data() + "/tenants/t/tenant.db",
                      std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(4096, 'x');
  }
  service_.Restart();
  EXPECT_THAT(service_->GetMemory("t", "m"), HasCode(absl::StatusCode::kUnavailable));
  // A backup that is refused leaves it as it is.
  BackupCopy bad = copy;
  bad.file.back() ^= 1;
  EXPECT_THAT(PutBack(service_, bad), Fails(kInvalid, "file-sha256"));
  EXPECT_THAT(service_->GetMemory("t", "m"), HasCode(absl::StatusCode::kUnavailable));
  ASSERT_THAT(PutBack(service_, copy), IsOk());
  EXPECT_EQ(service_.Digest("m"), then);
}

// An older file is sound by itself: the server notices when it opens it, and a restore is the way
// on.
TEST_F(BackupTest, AnOlderFilePutBackByHandIsRefusedAndRestored) {
  const BackupCopy copy = TakeBackup(service_);
  service_.Stop();
  std::filesystem::copy_file(service_.data() + "/tenants/t/tenant.db",
                             service_.data() + "/tenant.db.older");
  service_.Restart();
  ASSERT_THAT(service_->Forget(ForgetSubjectOf("m", "p2"), {}), IsOk());
  const std::string without = service_.Digest("m");
  service_.Stop();
  std::filesystem::rename(service_.data() + "/tenant.db.older",
                          service_.data() + "/tenants/t/tenant.db");
  service_.Restart();
  EXPECT_THAT(service_->GetMemory("t", "m"), HasCode(absl::StatusCode::kUnavailable));
  ASSERT_THAT(PutBack(service_, copy), IsOk());
  EXPECT_EQ(service_.Digest("m"), without);
}

TEST_F(BackupTest, WhatIsNotTheCopyOfTheManifestIsRefused) {
  const BackupCopy copy = TakeBackup(service_);
  const std::string now = service_.Digest("m");
  const auto refused = [&](absl::StatusCode code, const std::string& field, BackupCopy bad) {
    EXPECT_THAT(PutBack(service_, bad, /*replace=*/true), Fails(code, field));
    EXPECT_THAT(TemporaryFiles(service_), IsEmpty()) << field;
    EXPECT_EQ(service_.Digest("m"), now) << field;
  };
  BackupCopy bad = copy;
  bad.file.pop_back();
  refused(kInvalid, "file-bytes", bad);
  bad.file = copy.file + "x";
  refused(kInvalid, "file-bytes", bad);
  for (const size_t at : {size_t{0}, copy.file.size() / 2, copy.file.size() - 1}) {
    bad.file = copy.file;
    bad.file[at] ^= 1;
    refused(kInvalid, "file-sha256", bad);
  }
  bad = copy;
  bad.manifest = "no note";
  refused(kInvalid, "manifest", bad);
  bad.manifest = service_->GetCheckpoint("t")->note;
  refused(kInvalid, "manifest", bad);
  // A changed line, and the same text signed by a stranger.
  bad.manifest = copy.manifest;
  bad.manifest.replace(bad.manifest.find("time 20"), 7, "time 21");
  refused(kPrecondition, "signature", bad);
  const audit::BackupManifest text = *audit::ReadBackupManifest(copy.manifest);
  const auto stranger = audit::Signer::Generate(text.origin);
  bad.manifest = *audit::SignBackupManifest(text, *stranger);
  refused(kPrecondition, "signature", bad);
  audit::BackupManifest other = text;
  other.uid = std::string(32, '0');
  bad.manifest = *audit::SignBackupManifest(other, *stranger);
  refused(kPrecondition, "uid", bad);
  EXPECT_EQ(service_->GetTenant("t")->certificate_count, 0u) << "the log says nothing of it";
}

TEST_F(BackupTest, ABackupOfAnotherServerIsRefused) {
  Harness other;
  other.MakeMemory("m");
  const BackupCopy copy = TakeBackup(other);
  EXPECT_THAT(PutBack(service_, copy, /*replace=*/true), Fails(kPrecondition, "uid"));
  service_.Stop();
  std::filesystem::remove_all(service_.data() + "/tenants");
  service_.Restart();
  EXPECT_THAT(PutBack(service_, copy), Fails(kPrecondition, "signature"));
  EXPECT_THAT(service_->GetTenant("t"), HasCode(kNotFound));
  EXPECT_FALSE(std::filesystem::exists(service_.data() + "/tenants/t"));
}

TEST_F(BackupTest, ADeletedTenantStaysDeleted) {
  const BackupCopy copy = TakeBackup(service_);
  ASSERT_THAT(service_->DeleteTenant("t", {}), IsOk());
  const auto gone = PutBack(service_, copy);
  EXPECT_THAT(gone, HasCode(kPrecondition));
  EXPECT_THAT(std::string(gone.status().message()), HasSubstr("deleted"));
  EXPECT_THAT(service_->GetTenant("t"), HasCode(kNotFound));
  // A namesake is another tenant.
  ASSERT_THAT(service_->CreateTenant("t", {}), IsOk());
  EXPECT_THAT(PutBack(service_, copy, /*replace=*/true), Fails(kPrecondition, "uid"));
}

// A backup outlives the key that signed it: the log says whose key it was.
TEST_F(BackupTest, ARetiredKeyIsKnownByItsHandOver) {
  const BackupCopy old = TakeBackup(service_);
  service_.Forget("m", {"a5"});
  const BackupCopy newer = TakeBackup(service_);
  ASSERT_TRUE(service_->RotateKey({})->complete);
  const BackupCopy newest = TakeBackup(service_);
  ASSERT_TRUE(service_->RotateKey({})->complete);
  for (const BackupCopy& copy : {newest, old, newer}) {
    const auto reply = PutBack(service_, copy, /*replace=*/true);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(VerifiedLog(service_).back().kind, audit::CertificateKind::kRestored);
  }
  // A stranger's is not, whatever it says.
  const audit::BackupManifest text = *audit::ReadBackupManifest(old.manifest);
  const auto stranger = audit::Signer::Generate(text.origin);
  EXPECT_THAT(PutBack(service_, {*audit::SignBackupManifest(text, *stranger), old.file},
                      /*replace=*/true),
              Fails(kPrecondition, "signature"));
}

// From the moment that the old one is unloaded until the new one is in its place.
TEST_F(BackupTest, CallsWaitAndSeeAllOfItOrNothing) {
  Door door;
  std::atomic<bool> armed{false};
  service_.options().tenant.kms = [&](store::KmsUse use, const std::string& folder,
                                      const std::string& uid) {
    if (armed.exchange(false)) door.WaitHere();
    return store::MakeFileKms(use, folder, uid);
  };
  service_.Restart();
  const BackupCopy copy = TakeBackup(service_);
  const std::string then = service_.Digest("m");
  service_.Insert("m", WithSubjects(3, "since"));
  armed.store(true);
  absl::StatusOr<RestoreReply> reply = absl::UnknownError("not yet");
  std::thread restoring([&] { reply = PutBack(service_, copy, /*replace=*/true); });
  door.WaitUntilSomebodyWaits();
  std::atomic<int> answered{0};
  std::string seen;
  std::thread asking([&] {
    seen = service_.Digest("m");
    ++answered;
  });
  std::thread writing([&] {
    service_.Insert("m", WithSubjects(1, "waited"));
    ++answered;
  });
  std::thread making([&] {
    EXPECT_THAT(service_->CreateTenant("u", {}), IsOk());
    ++answered;
  });
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(answered.load(), 0);
  // Whoever gives up need not wait, and lists open nothing.
  const CallOptions gone{.still_wanted = [] { return absl::CancelledError("gone"); }};
  EXPECT_THAT(service_->Describe("t", "m", false, gone), HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(service_->ListTenants({})->items.size(), 1u);
  EXPECT_THAT(service_->GetTenant("t"), IsOk());
  door.Open();
  for (std::thread* thread : {&restoring, &asking, &writing, &making}) thread->join();
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(Tokens(service_, "m"), 13u);
  const std::string with_waited = service_.Digest("m");
  // Before or after the write that waited beside it; never of the tenant that was replaced.
  EXPECT_TRUE(seen == then || seen == with_waited) << seen;
}

TEST_F(BackupTest, WhileACallHoldsTheTenantItIsNotReplaced) {
  service_.options().limits.patience = absl::Milliseconds(300);
  service_.Restart();
  const BackupCopy copy = TakeBackup(service_);
  const std::string then = service_.Digest("m");
  service_.Insert("m", WithSubjects(2, "since"));
  const std::string now = service_.Digest("m");
  auto log = service_->OpenLog("t");  // as an export does
  ASSERT_THAT(log, IsOk());
  EXPECT_THAT(PutBack(service_, copy, /*replace=*/true),
              Fails(absl::StatusCode::kResourceExhausted, "tenant"));
  EXPECT_EQ(service_.Digest("m"), now) << "it is served as before";
  log->reset();
  EXPECT_THAT(PutBack(service_, copy, /*replace=*/true), IsOk());
  EXPECT_EQ(service_.Digest("m"), then);
}

// The vault cannot be read just then: an error after the file has arrived changes nothing, and the
// same call succeeds later.
TEST_F(BackupTest, AFailedRestoreCanBeBegunAgain) {
  std::atomic<int> failures{0};
  service_.options().tenant.kms =
      [&](store::KmsUse use, const std::string& folder,
          const std::string& uid) -> absl::StatusOr<std::unique_ptr<store::Kms>> {
    if (failures.load() > 0 && failures.fetch_sub(1) > 0) return absl::UnavailableError("no kms");
    return store::MakeFileKms(use, folder, uid);
  };
  service_.Restart();
  const BackupCopy copy = TakeBackup(service_);
  const std::string then = service_.Digest("m");
  service_.Insert("m", WithSubjects(2, "since"));
  const std::string now = service_.Digest("m");
  failures.store(1);
  EXPECT_THAT(PutBack(service_, copy, /*replace=*/true), Not(IsOk()));
  EXPECT_EQ(failures.load(), 0);
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
  EXPECT_EQ(service_.Digest("m"), now);
  ASSERT_THAT(PutBack(service_, copy, /*replace=*/true), IsOk());
  EXPECT_EQ(service_.Digest("m"), then);
  // The same where nothing of the tenant is left.
  service_.Stop();
  std::filesystem::remove_all(service_.data() + "/tenants");
  service_.Restart();
  failures.store(1);
  EXPECT_THAT(PutBack(service_, copy), Not(IsOk()));
  EXPECT_THAT(service_->GetTenant("t"), HasCode(kNotFound));
  ASSERT_THAT(PutBack(service_, copy), IsOk());
  EXPECT_EQ(service_.Digest("m"), then);
}

TEST_F(BackupTest, AFileThatHasNoRoomIsNotBegun) {
  const BackupCopy copy = TakeBackup(service_);
  audit::BackupManifest huge = *audit::ReadBackupManifest(copy.manifest);
  huge.file_bytes = uint64_t{1} << 62;
  const auto stranger = audit::Signer::Generate(huge.origin);
  bool asked = false;
  EXPECT_THAT(PutBack(service_, {*audit::SignBackupManifest(huge, *stranger), copy.file},
                      /*replace=*/true, {},
                      [&] {
                        asked = true;
                        return absl::OkStatus();
                      }),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(asked);
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
}

TEST_F(BackupTest, AStreamThatBreaksLeavesNothing) {
  const BackupCopy copy = TakeBackup(service_);
  const std::string now = service_.Digest("m");
  int pieces = 0;
  const auto broken = PutBack(service_, copy, /*replace=*/true, {}, [&] {
    return ++pieces == 2 ? absl::CancelledError("gone") : absl::OkStatus();
  });
  EXPECT_THAT(broken, HasCode(absl::StatusCode::kCancelled));
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
  EXPECT_EQ(service_.Digest("m"), now);
  int asked = 0;
  const CallOptions gone{.still_wanted = [&asked]() -> absl::Status {
    return ++asked > 3 ? absl::CancelledError("gone") : absl::OkStatus();
  }};
  EXPECT_THAT(PutBack(service_, copy, /*replace=*/true, gone),
              HasCode(absl::StatusCode::kCancelled));
  EXPECT_THAT(TemporaryFiles(service_), IsEmpty());
  EXPECT_EQ(service_.Digest("m"), now);
  EXPECT_EQ(service_->GetTenant("t")->certificate_count, 0u);
}

}  // namespace
}  // namespace lethe::service
