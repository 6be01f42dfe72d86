// What cannot be restored is refused with what to do, and nothing has changed; what stopped on the
// way is repeated.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/store/restore_fixture.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RestoreRefused : public RestoreFixture {
 protected:
  void SetUp() override {
    RestoreFixture::SetUp();
    ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b", "x"), TestRow(3, "c")}));
    ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
  }
  // One certificate on, with an erasure.
  std::string CopyThenErase() {
    std::string copy = Copy();
    EXPECT_OK(Erase({3}));
    EXPECT_TRUE(FinishErasures(*store_));
    return copy;
  }
  // The words tell what to do; the vault has the bytes that it had.
  void ExpectRefused(const std::string& copy, absl::StatusCode code, const std::string& words) {
    store_.reset();
    const auto before = VaultBytes();
    const auto report = Restore(copy);
    EXPECT_CODE(report, code);
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(words));
    EXPECT_TRUE(VaultBytes() == before) << "the vault has changed";
  }
  void ExpectRefused(const std::string& copy, const std::string& words) {
    ExpectRefused(copy, absl::StatusCode::kFailedPrecondition, words);
  }
};

TEST_F(RestoreRefused, ACopyOfAnotherTenant) {
  const std::string dir = NewFolder();
  TenantRecord other = TestTenant();
  other.name = "other";
  other.uid = Uid(0x99);
  const std::string copy = NewPath();
  {
    const auto store = CreateTenantStore(dir, other, options_);
    ASSERT_OK(store);
    ASSERT_OK((*store)->StartLog(TestStart()));
    ASSERT_OK((*store)->CopyTo(copy));
  }
  options_.expected_name = TestTenant().name;
  ExpectRefused(copy, "another tenant");
  // Under its own name, with this tenant's keys in the place of its own.
  options_.expected_name.clear();
  fs::copy_file(KeysFile(), vault_ + "/" + other.uid + "/keys.db",
                fs::copy_options::overwrite_existing);
  ExpectRefused(copy, "another tenant");
  EXPECT_OK(Open());
}

TEST_F(RestoreRefused, ACopyOfAnotherLog) {
  store_.reset();
  const std::string rows = ReadFile(dir_ + "/tenant.db");
  const std::string anchor = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_, memory_)));
  const std::string copy = Copy();
  store_.reset();
  WriteFile(dir_ + "/tenant.db", rows);
  WriteFile(AnchorFile(), anchor);
  ASSERT_OK(Open());
  for (int more = 0; more < 2; ++more) {
    ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
    ExpectRefused(copy, "certificate 1 differs; restore a copy of the log that was written");
    ASSERT_OK(Open());
  }
}

TEST_F(RestoreRefused, ACopyThatIsNewerThanTheAnchor) {
  store_.reset();
  const std::string anchor = ReadFile(AnchorFile());
  ASSERT_OK(Open());
  const std::string copy = [&] {
    EXPECT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
    return Copy();
  }();
  store_.reset();
  WriteFile(AnchorFile(), anchor);
  ExpectRefused(copy, "the server starts with it as it is");
  EXPECT_OK(Open());
}

TEST_F(RestoreRefused, ACopyOfATenantThatWasDeletedOrIsBeing) {
  const std::string open = Copy();
  ASSERT_OK(store_->BeginClose());
  store_.reset();
  const std::string closing = NewPath();
  fs::copy_file(dir_ + "/tenant.db", closing);
  ExpectRefused(closing, "that was deleted");
  ASSERT_OK(Open());
  ASSERT_OK(CloseWith(*store_, NextCertificate(*store_->GetLogHead())));
  store_.reset();
  ExpectRefused(dir_ + "/tenant.db", "that was deleted");
  // A copy from before has its rows, and nobody has the keys.
  ExpectRefused(open, "nobody can bring it back");
}

TEST_F(RestoreRefused, AVaultThatIsNotThereOrDoesNotFit) {
  ASSERT_OK(Open());
  store_.reset();
  const std::string old_keys = ReadFile(KeysFile());
  ASSERT_OK(Open());
  std::vector<TokenRow> rows;
  for (uint64_t handle = 4; handle <= 1500; ++handle) {
    rows.push_back(TestRow(handle, absl::StrCat(handle)));
  }
  ASSERT_OK(Insert(rows));
  const std::string copy = Copy();
  ASSERT_OK(Erase({3}));
  ASSERT_TRUE(FinishErasures(*store_));
  store_.reset();
  const std::string aside = NewPath();
  fs::rename(VaultOfTenant(), aside);
  ExpectRefused(copy, "give the server the right vault");
  fs::rename(aside, VaultOfTenant());
  const std::string keys = ReadFile(KeysFile());
  WriteFile(KeysFile(), old_keys);
  ExpectRefused(copy, "put the present keys.db back");
  WriteFile(KeysFile(), keys);
  const std::string anchor = ReadFile(AnchorFile());
  fs::remove(AnchorFile());
  ExpectRefused(copy, "put anchor.db back from a copy of this vault");
  WriteFile(AnchorFile(), anchor);
  // The anchor knows a key that the vault lacks, though the copy does not need it.
  RunRaw(AnchorFile(), "UPDATE entries SET slots = x'ffff03' WHERE sequence = 1");
  ExpectRefused(copy, "keys.db is an older copy");
  // What stands in it does not continue the copy.
  WriteFile(AnchorFile(), anchor);
  RunRaw(AnchorFile(), "UPDATE entries SET leaf = x'00' WHERE sequence = 1");
  ExpectRefused(copy, absl::StatusCode::kDataLoss, "anchor.db: its certificates do not continue");
  WriteFile(AnchorFile(), anchor);
  MustRestore(copy);
}

TEST_F(RestoreRefused, ATenantThatIsOpenElsewhere) {
  const std::string copy = Copy();
  const std::string dir = NewFolder();
  fs::copy_file(copy, dir + "/tenant.db");
  EXPECT_CODE(RestoreTenantStore(dir, options_, Certifier(), 0), absl::StatusCode::kUnavailable);
  ASSERT_OK(Insert({TestRow(4, "d")}));
  EXPECT_EQ(Rows().size(), 4u);
}

TEST_F(RestoreRefused, ALogThatWasNotBegun) {
  fs::remove_all(vault_);
  fs::create_directory(vault_);
  fs::permissions(vault_, fs::perms::owner_all);
  dir_ = NewFolder();
  auto store = CreateTenantStore(dir_, TestTenant(), options_);
  ASSERT_OK(store);
  store_ = std::move(*store);
  ExpectRefused(Copy(), "take a later copy");
}

TEST_F(RestoreRefused, BadCallsAndFilesThatAreNone) {
  store_.reset();
  const std::string dir = NewFolder();
  EXPECT_CODE(RestoreTenantStore(dir, options_, Certifier(), 0), absl::StatusCode::kNotFound);
  EXPECT_CODE(RestoreTenantStore(dir, options_, nullptr, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_CODE(RestoreTenantStore(dir, {}, Certifier(), 0), absl::StatusCode::kInvalidArgument);
  const std::string text = NewPath();
  WriteFile(text, std::string(8192, 'x'));
  ExpectRefused(text, absl::StatusCode::kDataLoss, "");
  EXPECT_OK(Open());
}

TEST_F(RestoreRefused, WhateverTheCertifierOrItsVerifierRefuses) {
  const std::string copy = CopyThenErase();
  store_.reset();
  const auto before = VaultBytes();
  const auto attempt = [&](const RestoreCertifier& certify) {
    const std::string dir = NewFolder();
    fs::copy_file(copy, dir + "/tenant.db");
    const absl::Status status = RestoreTenantStore(dir, options_, certify, 0).status();
    EXPECT_TRUE(VaultBytes() == before);
    return status;
  };
  EXPECT_CODE(attempt([](const auto&, const auto&, auto) -> absl::StatusOr<CertificateAppend> {
                return absl::AbortedError("no");
              }),
              absl::StatusCode::kAborted);
  EXPECT_CODE(
      attempt([](const auto&, const LogHead& head, auto) -> absl::StatusOr<CertificateAppend> {
        CertificateAppend append = NextCertificate(head);
        append.verify = [](const WrittenCertificate&) { return absl::AbortedError("no"); };
        return append;
      }),
      absl::StatusCode::kAborted);
  EXPECT_CODE(attempt([](const auto&, LogHead head, auto) -> absl::StatusOr<CertificateAppend> {
                head.count += 1;
                return NextCertificate(head);
              }),
              absl::StatusCode::kFailedPrecondition);
  EXPECT_OK(Open());
}

// A byte changed anywhere: refused, or it was a byte that means nothing. Nothing in between.
TEST_F(RestoreRefused, ADamagedCopy) {
  ASSERT_OK(store_->CreateMemory(other_));
  std::vector<TokenRow> many;
  for (uint64_t handle = 1; handle <= 40; ++handle) {
    many.push_back(TestRow(handle, absl::StrCat("m", handle), handle % 3 == 0 ? "y" : ""));
    many.back().payload.assign(handle * 40, 'p');
  }
  ASSERT_OK(Insert(many, other_));
  const std::string copy = CopyThenErase();
  store_.reset();
  const std::string whole = ReadFile(copy);
  const std::string kept = vault_ + "-kept";
  fs::copy(vault_, kept, fs::copy_options::recursive);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    const std::string damaged = NewPath();
    WriteFile(damaged, bytes);
    const auto before = VaultBytes();
    if (!Restore(damaged).ok()) {
      ++refused;
      EXPECT_TRUE(VaultBytes() == before);
      return;
    }
    ASSERT_OK(Open());
    EXPECT_EQ(Rows(), (std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "b", "x")}));
    EXPECT_EQ(LoadAll(*store_, other_.uid), many);
    EXPECT_EQ(StateOf("c"), IdState::kErased);
    store_.reset();
    fs::remove_all(vault_);
    fs::copy(kept, vault_, fs::copy_options::recursive);
  };
  for (int i = 0; i < 40; ++i) {
    std::string bytes = whole;
    const size_t at = random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    attempt(bytes);
  }
  EXPECT_GE(refused, 5);
  // In a sealed row, which SQLite does not see into; in the hash of an id, which stands in the row
  // and in an index.
  const std::string where = " FROM tokens WHERE handle = 1 AND memory = 1";
  std::string hex = absl::BytesToHexString(whole);
  const auto flip = [&](const std::string& what, const std::string& words) {
    const std::string bytes =
        absl::AsciiStrToLower(RunRaw(copy, absl::StrCat("SELECT hex(", what, ")", where)).text);
    int found = 0;
    for (size_t at = hex.find(bytes); at != std::string::npos; at = hex.find(bytes, at + 1)) {
      ++found;
      std::string damaged = whole;
      damaged[at / 2 + 3] ^= 1;
      const std::string path = NewPath();
      WriteFile(path, damaged);
      ExpectRefused(path, absl::StatusCode::kDataLoss, words);
    }
    return found;
  };
  EXPECT_EQ(flip("substr(body, 40, 16)", "the copy is damaged, take another"), 1);
  EXPECT_EQ(flip("id_key", "the copy is damaged, take another"), 2);
  const std::string pending = NewPath();
  WriteFile(pending, whole);
  ASSERT_EQ(RunRaw(pending, "INSERT INTO outbox VALUES (0, x'ffffff0000000000', x'')").code, 0);
  // Its certificate is followed by one that ends it; without that it is looked at.
  RunRaw(AnchorFile(), "UPDATE entries SET pending_from = 0");
  ExpectRefused(pending, absl::StatusCode::kDataLoss, "names a key that never was");
  fs::remove_all(vault_);
  fs::copy(kept, vault_, fs::copy_options::recursive);
  WriteFile(copy, whole.substr(0, whole.size() / 2));
  ExpectRefused(copy, absl::StatusCode::kDataLoss, "");
  WriteFile(copy, whole);
  MustRestore(copy);
}

// --- Crashes and errors between the steps.

class RestoreSteps : public RestoreRefused {
 protected:
  void SetUp() override {
    RestoreRefused::SetUp();
    copy_ = CopyThenErase();
    ASSERT_OK(Insert({TestRow(9, "late")}));
    log_ = WholeLog(*store_);
    store_.reset();
  }
  // With as many certificates of restores behind the log that was given out.
  void ExpectRestored(size_t restores) {
    ASSERT_NE(store_, nullptr);
    std::vector<CertificateRecord> log = WholeLog(*store_);
    ASSERT_EQ(log.size(), log_.size() + restores);
    for (size_t i = log_.size(); i < log.size(); ++i) EXPECT_EQ(log[i].kind, "restored");
    log.resize(log_.size());
    EXPECT_EQ(log, log_);
    EXPECT_EQ(Rows(), (std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "b", "x")}));
    EXPECT_EQ(StateOf("c"), IdState::kErased);
    ExpectLateKeyIsGone();
    ExpectGoesOn();
  }
  // Slots 1 to 3 are those of the tenant, of x and of "c"; all others came later or were free.
  void ExpectLateKeyIsGone() {
    store_.reset();
    EXPECT_EQ(RunRaw(KeysFile(), "SELECT body = zeroblob(96) FROM slots WHERE slot = 4").text, "1");
    ASSERT_OK(Open());
  }
  std::string copy_;
  std::vector<CertificateRecord> log_;
};

TEST_F(RestoreSteps, NothingIsWrittenToTheVaultBeforeTheCertificateIsMade) {
  const auto before = VaultBytes();
  const std::string dir = NewFolder();
  fs::copy_file(copy_, dir + "/tenant.db");
  std::map<std::string, std::string> then;
  const auto status = RestoreTenantStore(
      dir, options_,
      [&](const RestoreReport& report, const LogHead& head, std::span<const LogKey>) {
        then = VaultBytes();
        EXPECT_EQ(report.reapplied, 2u);
        EXPECT_EQ(head.count, log_.size());
        return absl::StatusOr<CertificateAppend>(absl::AbortedError("a crash"));
      },
      0);
  EXPECT_CODE(status, absl::StatusCode::kAborted);
  for (const auto& [path, bytes] : before) EXPECT_TRUE(then[path] == bytes) << path;
  MustRestore(copy_);
  ExpectRestored(1);
}

TEST_F(RestoreSteps, AnAnchorThatCannotFollowIsTriedAgain) {
  ASSERT_EQ(RunRaw(AnchorFile(),
                   "CREATE TRIGGER full BEFORE INSERT ON entries BEGIN"
                   " SELECT RAISE(ABORT, 'no room'); END")
                .code,
            0);
  EXPECT_FALSE(Restore(copy_).ok());
  ASSERT_EQ(RunRaw(AnchorFile(), "DROP TRIGGER full").code, 0);
  // The tenant that was there is still the present one.
  ASSERT_OK(Open());
  EXPECT_EQ(Rows().size(), 3u);
  MustRestore(copy_);
  ExpectRestored(1);
}

TEST_F(RestoreSteps, KeysThatCannotBeDestroyedAreAnErrorThatIsTriedAgain) {
  ASSERT_EQ(RunRaw(KeysFile(),
                   "CREATE TRIGGER full BEFORE UPDATE ON slots BEGIN"
                   " SELECT RAISE(ABORT, 'no room'); END")
                .code,
            0);
  EXPECT_FALSE(Restore(copy_).ok());
  ASSERT_EQ(RunRaw(KeysFile(), "DROP TRIGGER full").code, 0);
  // The restore is in the anchor: what was there before is an older copy now.
  const absl::Status older = Open();
  EXPECT_CODE(older, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(older.message()), HasSubstr("or restore a backup"));
  MustRestore(copy_);
  ExpectRestored(2);
}

// The vault as a crash leaves it after each of its two writes.
TEST_F(RestoreSteps, ACrashAfterAnyWriteIsRepeated) {
  const auto before = VaultBytes();
  ASSERT_OK(Restore(copy_));
  const std::string anchor = ReadFile(AnchorFile());
  const std::string keys = ReadFile(KeysFile());
  ASSERT_NE(before.at(AnchorFile()), anchor);
  ASSERT_NE(before.at(KeysFile()), keys);
  // After the anchor, before the keys.
  WriteFile(KeysFile(), before.at(KeysFile()));
  const RestoreReport report = MustRestore(copy_);
  EXPECT_EQ(report.reapplied, 3u);
  EXPECT_GE(report.keys_destroyed, 1u);
  ExpectLateKeyIsGone();
  // After both, before the folder was moved.
  store_.reset();
  WriteFile(AnchorFile(), anchor);
  WriteFile(KeysFile(), keys);
  EXPECT_EQ(MustRestore(copy_).keys_destroyed, 0u);
  ExpectRestored(2);
}

// The same copy, over and over, with the process killed at whatever moment.
TEST_F(RestoreSteps, AKilledProcessIsRepeatedAndLeavesACertificateAtMost) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_OK(Restore(copy_));
  auto longest = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  size_t attempts = 1;
  size_t killed = 0;
  for (; killed < 8; ++attempts) {
    ASSERT_LT(attempts, 60u);
    const std::string dir = NewFolder();
    fs::copy_file(copy_, dir + "/tenant.db");
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(RestoreTenantStore(dir, options_, Certifier(), 0).ok() ? 0 : 1);
    }
    std::this_thread::sleep_for(longest * (random() % 1000) / 1000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ++killed;
      continue;
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
    longest = longest * 3 / 4;  // this machine is faster than it was
  }
  MustRestore(copy_);
  ASSERT_NE(store_, nullptr);
  const size_t restores = WholeLog(*store_).size() - log_.size();
  EXPECT_GE(restores, attempts + 1 - killed);
  EXPECT_LE(restores, attempts + 1);
  ExpectRestored(restores);
}

// An older file of keys has the keys that were destroyed since: before the copy, too.
TEST_F(RestoreRefused, AKeyThatWasDestroyedBeforeTheCopyIsDestroyedAgain) {
  store_.reset();
  const std::string keys = ReadFile(KeysFile());
  ASSERT_OK(Open());
  ASSERT_OK(Erase({3}));
  ASSERT_TRUE(FinishErasures(*store_));
  const std::string copy = Copy();
  store_.reset();
  WriteFile(KeysFile(), keys);
  ASSERT_EQ(RunRaw(KeysFile(), "SELECT body = zeroblob(96) FROM slots WHERE slot = 3").text, "0");
  MustRestore(copy);
  store_.reset();
  EXPECT_EQ(RunRaw(KeysFile(), "SELECT body = zeroblob(96) FROM slots WHERE slot = 3").text, "1");
  // What rows have, and what the tenant has, stays.
  EXPECT_EQ(RunRaw(KeysFile(), "SELECT count(*) FROM slots WHERE body <> zeroblob(96)").text, "2");
  // The next opening has nothing to destroy again.
  options_.on_revived_keys = [](uint64_t) { ADD_FAILURE(); };
  ASSERT_OK(Open());
  EXPECT_EQ(Rows().size(), 2u);
  // And a key that ends after the restore, and comes back, is seen by the count that it left.
  store_.reset();
  const std::string restored = ReadFile(KeysFile());
  ASSERT_OK(Open());
  ASSERT_OK(Erase({1, 2}));
  ASSERT_TRUE(FinishErasures(*store_));
  store_.reset();
  WriteFile(KeysFile(), restored);
  uint64_t revived = 0;
  options_.on_revived_keys = [&revived](uint64_t again) { revived = again; };
  ASSERT_OK(Open());
  EXPECT_EQ(revived, 1u);
}

TEST_F(RestoreSteps, AKeyThatWasDestroyedAndIsBackIsDestroyedAgain) {
  const std::string keys = ReadFile(KeysFile());
  ASSERT_OK(Open());
  ASSERT_OK(Erase({1}));
  ASSERT_TRUE(FinishErasures(*store_));
  log_ = WholeLog(*store_);
  store_.reset();
  WriteFile(KeysFile(), keys);
  const RestoreReport report = MustRestore(copy_);
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(report.removed, 2u);
  EXPECT_EQ(report.unreadable, 1u);
  EXPECT_THAT(Rows(), IsEmpty());
  EXPECT_THAT(*store_->PendingErasures(), IsEmpty());
  store_.reset();
  EXPECT_EQ(RunRaw(KeysFile(), "SELECT body = zeroblob(96) FROM slots WHERE slot = 2").text, "1");
}

}  // namespace
}  // namespace lethe::store
