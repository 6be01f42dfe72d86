// Crashes between the steps of an erasure and of a close, and vaults that do not fit. A crash is a
// copy of the folder as it stands at that point, opened by itself: what a killed process leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/anchor.h"
#include "store/sqlite.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_store.h"
#include "tests/store/hooked_kms.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ErasureSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(dir_);
    options_ = TestOptions(dir_);
    options_.kms = HookedKmsFactory(hooks_);
    auto store = CreateTenantStore(dir_, TestTenant(), options_);
    ASSERT_OK(store);
    store_ = std::move(*store);
    ASSERT_OK(store_->StartLog(TestStart()));
    ASSERT_OK(store_->CreateMemory(memory_));
    ASSERT_OK(store_->InsertTokens(memory_.uid,
                                   std::vector<TokenRow>{TestRow(1, "a", "x"), TestRow(2, "b", "x"),
                                                         TestRow(3, "c"), TestRow(4, "d")}));
  }
  absl::Status Open() {
    store_.reset();
    auto store = OpenTenantStore(dir_, options_);
    if (store.ok()) store_ = std::move(*store);
    return store.status();
  }
  // What a kill would leave now.
  std::string Crash() {
    const std::string copy = absl::StrCat(folder_.path(), "/crash-", ++crashes_);
    fs::copy(dir_, copy, fs::copy_options::recursive);
    return copy;
  }
  static std::unique_ptr<TenantStore> OpenCopy(const std::string& dir) {
    auto store = OpenTenantStore(dir, TestOptions(dir));
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  // What the anchor holds; closes the store.
  std::vector<AnchorEntry> Anchored() {
    store_.reset();
    std::vector<AnchorEntry> entries;
    const auto anchor = Anchor::Open(anchor_, TestTenant().uid, TestTenant().log_origin);
    EXPECT_OK(anchor);
    if (!anchor.ok()) return entries;
    EXPECT_OK((*anchor)->Visit(0, [&entries](AnchorEntry& entry) {
      entries.push_back(std::move(entry));
      return absl::OkStatus();
    }));
    return entries;
  }
  // Of the KEK, of the closed store.
  uint32_t Epoch() const {
    auto kms = FileKms::Open(vault_ + "/kek");
    EXPECT_OK(kms);
    return *(*kms)->CurrentEpoch();
  }
  // Of the closed store's file of keys.
  std::vector<uint64_t> LiveKeys() const {
    auto kms = FileKms::Open(vault_ + "/kek");
    EXPECT_OK(kms);
    auto keys = KeyStore::Open(vault_ + "/keys.db", TestTenant().uid, kms->get());
    EXPECT_OK(keys);
    return *(*keys)->LiveSlots(0, kMaxPageSize);
  }
  // Both the code and words that tell what to do.
  void ExpectRefused(const std::string& words) {
    const absl::Status status = Open();
    EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }

  TempFolder folder_;
  const std::string dir_ = folder_.path() + "/tenant";
  const std::string vault_ = dir_ + "/vault/" + TestTenant().uid;
  const std::string anchor_ = vault_ + "/anchor.db";
  const MemoryRecord memory_ = TestMemory(1);
  const std::shared_ptr<KmsHooks> hooks_ = std::make_shared<KmsHooks>();
  SqliteTenantOptions options_;
  std::unique_ptr<TenantStore> store_;
  int crashes_ = 0;
};

TEST_F(ErasureSteps, ACrashBetweenAnyTwoStepsIsTakenUp) {
  const auto live = [&](TenantStore& store) { return LoadAll(store, memory_.uid); };
  const TokenRow rest = TestRow(2, "b", "x");
  ASSERT_OK(
      store_->EraseTokens({memory_.uid, {1, 3}, NextCertificate(*store_, memory_), std::nullopt}));
  ASSERT_OK(
      store_->EraseTokens({memory_.uid, {4}, NextCertificate(*store_, memory_), std::nullopt}));

  const std::string after_commit = Crash();
  {
    auto store = OpenCopy(after_commit);
    ASSERT_NE(store, nullptr);
    EXPECT_THAT(live(*store), ElementsAre(rest));
    EXPECT_THAT(*store->PendingErasures(), ElementsAre(PendingErasure{0, 2}, PendingErasure{1, 1}));
    EXPECT_EQ(store->DestroyPendingKeys(1)->destroyed, 3u);
    ASSERT_TRUE(FinishErasures(*store));
    EXPECT_EQ(store->GetLogHead()->count, 3u);
    EXPECT_THAT(live(*store), ElementsAre(rest));
  }
  ASSERT_OK(store_->DestroyPendingKeys(1));
  const std::string after_keys = Crash();
  {
    auto store = OpenCopy(after_keys);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->PendingErasures()->size(), 2u);
    const auto destroyed = store->DestroyPendingKeys(1);
    ASSERT_OK(destroyed);
    EXPECT_EQ(destroyed->destroyed, 0u);
    EXPECT_EQ(destroyed->already_destroyed, 3u);
    EXPECT_OK(destroyed->evidence);
    ASSERT_TRUE(FinishErasures(*store));
    EXPECT_TRUE(store->PendingErasures()->empty());
    EXPECT_THAT(live(*store), ElementsAre(rest));
  }
  ASSERT_OK(store_->AppendShredded(NextCertificate(*store_->GetLogHead()), 1));
  auto store = OpenCopy(Crash());
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->PendingErasures()->empty());
  EXPECT_EQ(store->GetLogHead()->count, 3u);
}

TEST_F(ErasureSteps, AClosingTenantIsTakenUpWhereverItStopped) {
  const auto finish = [&](const std::string& dir) {
    SCOPED_TRACE(dir);
    auto store = OpenCopy(dir);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->GetTenant()->state, TenantState::kClosing);
    EXPECT_EQ(*store->CountMemories(), 0u);
    EXPECT_TRUE(store->PendingErasures()->empty());
    ASSERT_OK(store->BeginClose());
    ASSERT_OK(store->DestroyAllKeys());
    ASSERT_OK(store->FinishClose(NextCertificate(*store->GetLogHead())));
    store.reset();
    EXPECT_TRUE(fs::is_empty(dir + "/vault"));
    store = OpenCopy(dir);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->GetTenant()->state, TenantState::kClosed);
    EXPECT_EQ(store->GetLogHead()->count, 2u);
  };
  // One erasure is still pending: its keys end with the others.
  ASSERT_OK(
      store_->EraseTokens({memory_.uid, {3}, NextCertificate(*store_, memory_), std::nullopt}));
  ASSERT_OK(store_->BeginClose());
  std::vector<std::string> crashes = {Crash()};
  hooks_->destroyed_all = [&] { crashes.push_back(Crash()); };
  hooks_->before_destroy_all = [] { return absl::UnavailableError("not now"); };
  EXPECT_CODE(store_->DestroyAllKeys(), absl::StatusCode::kUnavailable);
  EXPECT_CODE(store_->FinishClose(NextCertificate(*store_->GetLogHead())),
              absl::StatusCode::kFailedPrecondition);
  hooks_->before_destroy_all = nullptr;
  ASSERT_OK(store_->DestroyAllKeys());
  ASSERT_EQ(crashes.size(), 2u);
  // After the KEKs, in the middle of removing the files.
  crashes.push_back(Crash());
  for (const char* gone : {"/keys.db", "/kek"}) {
    const std::string copy = absl::StrCat(crashes[1], "-without-", gone + 1);
    fs::copy(crashes[1], copy, fs::copy_options::recursive);
    fs::remove_all(copy + "/vault/" + TestTenant().uid + gone);
    fs::remove_all(copy + "/vault/" + TestTenant().uid + gone + "-wal");
    crashes.push_back(copy);
  }
  for (const std::string& crash : crashes) finish(crash);

  CertificateAppend closing = NextCertificate(*store_->GetLogHead());
  ASSERT_OK(store_->FinishClose(closing));
  auto store = OpenCopy(Crash());
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->GetTenant()->state, TenantState::kClosed);
  EXPECT_OK(store->FinishClose(closing));
}

// A vault that is not there proves nothing about the keys in it.
TEST_F(ErasureSteps, TheWrongVaultEndsNoTenant) {
  ASSERT_OK(store_->BeginClose());
  const std::string elsewhere = folder_.path() + "/elsewhere";
  fs::create_directory(elsewhere);
  fs::permissions(elsewhere, fs::perms::owner_all);
  const std::string right = std::exchange(options_.vault, elsewhere);
  ASSERT_OK(Open());
  EXPECT_CODE(store_->DestroyAllKeys(), absl::StatusCode::kFailedPrecondition);
  options_.vault = right;
  ASSERT_OK(Open());
  EXPECT_OK(store_->DestroyAllKeys());
}

TEST_F(ErasureSteps, MissingKeysAreRefusedWithWhatToDo) {
  store_.reset();
  const auto without = [&](const std::string& path, const std::string& words) {
    SCOPED_TRACE(path);
    fs::rename(path, folder_.path() + "/aside");
    ExpectRefused(words);
    ExpectRefused(options_.vault);
    fs::rename(folder_.path() + "/aside", path);
    ASSERT_OK(Open());
    store_.reset();
  };
  without(vault_ + "/keys.db", "put this tenant's keys back");
  without(vault_ + "/kek", "put this tenant's keys back");
  without(vault_ + "/kek/kek-0000000001", "back from");
  without(vault_, "give the server the right vault");
  without(options_.vault, "give the server the right vault");
  fs::permissions(vault_, fs::perms::owner_all | fs::perms::group_read);
  ExpectRefused("0700");
}

TEST_F(ErasureSteps, KeysOfAnotherTenantAreRefused) {
  TenantRecord other = TestTenant();
  other.name = "other";
  other.uid = Uid(0x99);
  const std::string other_dir = folder_.path() + "/other";
  fs::create_directory(other_dir);
  ASSERT_OK(CreateTenantStore(other_dir, other, options_));
  store_.reset();
  const std::string keys = ReadFile(vault_ + "/keys.db");
  const std::string kek = vault_ + "/kek/kek-0000000001";
  // The other's file of keys.
  fs::copy_file(options_.vault + "/" + other.uid + "/keys.db", vault_ + "/keys.db",
                fs::copy_options::overwrite_existing);
  ExpectRefused("another tenant");
  WriteFile(vault_ + "/keys.db", keys);
  ASSERT_OK(Open());
  store_.reset();
  // The other's rows under this tenant's name.
  fs::rename(dir_ + "/tenant.db", folder_.path() + "/aside");
  fs::copy_file(other_dir + "/tenant.db", dir_ + "/tenant.db");
  options_.expected_name = TestTenant().name;
  ExpectRefused("another tenant");
  fs::rename(folder_.path() + "/aside", dir_ + "/tenant.db");
  EXPECT_OK(Open());
}

// One of the two files is put back from a copy without the other.
TEST_F(ErasureSteps, FilesOfDifferentTimesAreRefused) {
  store_.reset();
  const std::string old_keys = ReadFile(vault_ + "/keys.db");
  const std::string old_rows = ReadFile(dir_ + "/tenant.db");
  ASSERT_OK(Open());
  std::vector<TokenRow> rows;
  for (uint64_t handle = 5; handle <= 1500; ++handle) {
    rows.push_back(TestRow(handle, absl::StrCat(handle)));
  }
  ASSERT_OK(store_->InsertTokens(memory_.uid, rows));
  ASSERT_OK(store_->EraseTokens(
      {memory_.uid, {1, 2, 20}, NextCertificate(*store_, memory_), std::nullopt}));
  ASSERT_TRUE(FinishErasures(*store_));
  store_.reset();
  const std::string new_keys = ReadFile(vault_ + "/keys.db");
  WriteFile(vault_ + "/keys.db", old_keys);
  ExpectRefused("put the present keys.db back");
  WriteFile(vault_ + "/keys.db", new_keys);
  const std::string new_rows = ReadFile(dir_ + "/tenant.db");
  WriteFile(dir_ + "/tenant.db", old_rows);
  ExpectRefused("put the present tenant.db back");
  WriteFile(dir_ + "/tenant.db", new_rows);
  ASSERT_OK(Open());
  EXPECT_EQ(LoadAll(*store_, memory_.uid).size(), 1497u);
}

TEST_F(ErasureSteps, AFileOfKeysThatIsUsedByAnotherIsRefused) {
  store_.reset();
  auto kms = FileKms::Open(vault_ + "/kek");
  ASSERT_OK(kms);
  auto keys = KeyStore::Open(vault_ + "/keys.db", TestTenant().uid, kms->get());
  ASSERT_OK(keys);
  EXPECT_CODE(Open(), absl::StatusCode::kUnavailable);
}

// --- The anchor of the log.

TEST_F(ErasureSteps, ACrashBeforeTheAnchorFollowedIsTakenUp) {
  const MemoryRecord other = TestMemory(2);
  ASSERT_OK(store_->CreateMemory(other));
  ASSERT_OK(store_->InsertTokens(other.uid, std::vector<TokenRow>{TestRow(1, "z")}));
  const std::vector<std::function<void()>> changes = {
      [&] {
        ASSERT_OK(store_->EraseTokens(
            {memory_.uid, {3, 1}, NextCertificate(*store_, memory_), std::nullopt}));
      },
      [&] {
        CertificateAppend hand_over = NextCertificate(*store_->GetLogHead());
        hand_over.next_vkey = "key two";
        ASSERT_OK(store_->AppendCertificate(hand_over));
      },
      [&] {
        ASSERT_OK(store_->DeleteMemory({other.uid, NextCertificate(*store_, other), std::nullopt}));
      },
      [&] { ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead()))); },
  };
  for (const std::function<void()>& change : changes) {
    store_.reset();
    const std::string behind = ReadFile(anchor_);
    ASSERT_OK(Open());
    change();
    const std::vector<AnchorEntry> written = Anchored();
    WriteFile(anchor_, behind);
    ASSERT_OK(Open());
    // The same entries, the last made from what the database kept.
    EXPECT_EQ(Anchored(), written);
    ASSERT_OK(Open());
  }
  const std::vector<AnchorEntry> all = Anchored();
  ASSERT_EQ(all.size(), changes.size());
  EXPECT_EQ(all[0].erased, (ErasedTokens{memory_.uid, false, {1, 3}}));
  EXPECT_EQ(all[1].next_vkey, "key two");
  EXPECT_EQ(all[2].erased, (ErasedTokens{other.uid, true, {}}));
}

// Put back from a copy of whatever age, it follows the log again.
TEST_F(ErasureSteps, AnOlderAnchorCatchesUp) {
  store_.reset();
  const std::string old = ReadFile(anchor_);
  ASSERT_OK(Open());
  ASSERT_OK(
      store_->EraseTokens({memory_.uid, {1}, NextCertificate(*store_, memory_), std::nullopt}));
  ASSERT_TRUE(FinishErasures(*store_));
  CertificateAppend hand_over = NextCertificate(*store_->GetLogHead());
  hand_over.next_vkey = "key two";
  ASSERT_OK(store_->AppendCertificate(hand_over));
  for (int i = 0; i < 300; ++i) {  // more than it takes at a time
    ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
  }
  ASSERT_OK(
      store_->EraseTokens({memory_.uid, {4}, NextCertificate(*store_, memory_), std::nullopt}));
  const std::vector<AnchorEntry> written = Anchored();
  ASSERT_EQ(written.size(), 304u);
  WriteFile(anchor_, old);
  ASSERT_OK(Open());
  const std::vector<AnchorEntry> caught_up = Anchored();
  ASSERT_EQ(caught_up.size(), written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(caught_up[i].record, written[i].record) << i;
    EXPECT_EQ(caught_up[i].next_vkey, written[i].next_vkey) << i;
  }
  // What is still pending is known in full.
  EXPECT_EQ(caught_up.back(), written.back());
  ASSERT_OK(Open());
  EXPECT_TRUE(FinishErasures(*store_));
}

// As many keys, so nothing else tells; the anchor of the same age beside it or not.
TEST_F(ErasureSteps, AnOlderFileOfKeysBringsNoKeyBack) {
  for (const bool older_anchor : {false, true}) {
    store_.reset();
    const std::string old_keys = ReadFile(vault_ + "/keys.db");
    const std::string old_anchor = ReadFile(anchor_);
    uint64_t revived = 0;
    options_.on_revived_keys = [&revived](uint64_t keys) { revived += keys; };
    ASSERT_OK(Open());
    const uint64_t handle = older_anchor ? 4 : 1;
    ASSERT_OK(store_->EraseTokens(
        {memory_.uid, {handle}, NextCertificate(*store_, memory_), std::nullopt}));
    ASSERT_TRUE(FinishErasures(*store_));
    // One more is pending: its keys wait for DestroyPendingKeys.
    if (older_anchor) {
      ASSERT_OK(
          store_->EraseTokens({memory_.uid, {3}, NextCertificate(*store_, memory_), std::nullopt}));
    }
    const std::vector<TokenRow> rows = LoadAll(*store_, memory_.uid);
    store_.reset();
    const std::vector<uint64_t> live = LiveKeys();
    EXPECT_EQ(revived, 0u);

    WriteFile(vault_ + "/keys.db", old_keys);
    if (older_anchor) WriteFile(anchor_, old_anchor);
    ASSERT_NE(LiveKeys(), live);
    // Destroyed at once; not served before the KEK that wraps whatever copies there are has ended,
    // however often that takes.
    hooks_->at = [](const std::string& step) {
      return step == "before rotate" ? absl::UnavailableError("no key service") : absl::OkStatus();
    };
    for (int i = 0; i < 2; ++i) {
      EXPECT_CODE(Open(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(revived, 1u);
      EXPECT_EQ(LiveKeys(), live);
    }
    hooks_->at = [](const std::string&) { return absl::OkStatus(); };
    const uint32_t epoch = Epoch();
    ASSERT_OK(Open());
    EXPECT_EQ(revived, 1u);
    EXPECT_EQ(LoadAll(*store_, memory_.uid), rows);
    EXPECT_EQ(store_->PendingErasures()->size(), older_anchor ? 1u : 0u);
    store_.reset();
    EXPECT_EQ(LiveKeys(), live);
    EXPECT_EQ(Epoch(), epoch + 1);
    ASSERT_OK(Open());
    EXPECT_EQ(revived, 1u);
    store_.reset();
    EXPECT_EQ(Epoch(), epoch + 1);
  }
}

// What is refused for another reason has not been written into the anchor.
TEST_F(ErasureSteps, AFileThatDoesNotFitItsKeysLeavesTheAnchorAsItIs) {
  store_.reset();
  const std::string old_keys = ReadFile(vault_ + "/keys.db");
  const std::string behind = ReadFile(anchor_);
  ASSERT_OK(Open());
  std::vector<TokenRow> rows;
  for (uint64_t handle = 5; handle <= 1500; ++handle) {
    rows.push_back(TestRow(handle, absl::StrCat(handle)));
  }
  ASSERT_OK(store_->InsertTokens(memory_.uid, rows));
  ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
  store_.reset();
  WriteFile(anchor_, behind);
  WriteFile(vault_ + "/keys.db", old_keys);
  ExpectRefused("put the present keys.db back");
  EXPECT_TRUE(Anchored().empty());
}

TEST_F(ErasureSteps, AnotherLogOfTheSameLengthIsRefused) {
  ASSERT_OK(
      store_->EraseTokens({memory_.uid, {1}, NextCertificate(*store_, memory_), std::nullopt}));
  const std::string fork = Crash();
  ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_, memory_)));
  {
    auto store = OpenCopy(fork);
    ASSERT_NE(store, nullptr);
    ASSERT_OK(store->AppendCertificate(NextCertificate(*store->GetLogHead())));
  }
  store_.reset();
  const std::string present = ReadFile(dir_ + "/tenant.db");
  ASSERT_NE(present, ReadFile(fork + "/tenant.db"));
  WriteFile(dir_ + "/tenant.db", ReadFile(fork + "/tenant.db"));
  ExpectRefused("certificate 1 differs; put the present tenant.db back");
  WriteFile(dir_ + "/tenant.db", present);
  EXPECT_OK(Open());
}

TEST_F(ErasureSteps, AnOlderLogIsRefusedThoughItsKeysAreThere) {
  store_.reset();
  const std::string old = ReadFile(dir_ + "/tenant.db");
  ASSERT_OK(Open());
  ASSERT_OK(store_->AppendCertificate(NextCertificate(*store_->GetLogHead())));
  store_.reset();
  WriteFile(dir_ + "/tenant.db", old);
  ExpectRefused("its log has 0 certificates, but 1 were written");
}

TEST_F(ErasureSteps, AMissingAnchorIsRefusedWithWhatToDo) {
  store_.reset();
  const std::string anchor = ReadFile(anchor_);
  fs::remove(anchor_);
  ExpectRefused("put anchor.db back from a copy of this vault");
  WriteFile(anchor_, anchor);
  EXPECT_OK(Open());
}

// The certificate is committed and nobody may be told: as after a failed commit, the caller has to
// ask again, and finds what was done.
TEST_F(ErasureSteps, AnAnchorThatCannotFollowMakesTheOutcomeUnknown) {
  store_.reset();
  ASSERT_EQ(RunRaw(anchor_,
                   "CREATE TRIGGER full BEFORE INSERT ON entries BEGIN"
                   " SELECT RAISE(ABORT, 'no room'); END")
                .code,
            0);
  ASSERT_OK(Open());
  const auto erased =
      store_->EraseTokens({memory_.uid, {1}, NextCertificate(*store_, memory_), TestRequest("r")});
  EXPECT_TRUE(IsIndeterminate(erased.status())) << erased.status();
  EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
  EXPECT_CODE(store_->PendingErasures(), absl::StatusCode::kUnavailable);
  // It is not served while the anchor cannot follow.
  EXPECT_FALSE(Open().ok());
  ASSERT_EQ(RunRaw(anchor_, "DROP TRIGGER full").code, 0);
  ASSERT_OK(Open());
  EXPECT_TRUE((*store_->FindRequest("r")).has_value());
  EXPECT_EQ(store_->PendingErasures()->size(), 1u);
  EXPECT_EQ(Anchored().size(), 1u);
}

}  // namespace
}  // namespace lethe::store
