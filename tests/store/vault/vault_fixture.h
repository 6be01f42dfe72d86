// A key store with its KEK folder, and a KMS that can be watched and made to fail.
#ifndef LETHE_TESTS_STORE_VAULT_VAULT_FIXTURE_H_
#define LETHE_TESTS_STORE_VAULT_VAULT_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_store.h"
#include "tests/store/vault/vault_testing.h"

namespace lethe::store {

// Passes everything on; remembers every data key that went through; fails when `refuse` says so.
class WatchedKms final : public Kms {
 public:
  explicit WatchedKms(Kms* inner) : inner_(inner) {}

  std::string Location() const override { return inner_->Location(); }
  absl::StatusOr<std::vector<uint32_t>> Epochs() override { return inner_->Epochs(); }
  absl::StatusOr<std::vector<std::string>> Wrap(uint32_t epoch,
                                                std::span<const KeyToWrap> keys) override {
    if (absl::Status status = Ask("wrap"); !status.ok()) return status;
    for (const KeyToWrap& key : keys) keys_.insert(BytesOf(*key.key));
    auto wrapped = inner_->Wrap(epoch, keys);
    if (spoil_wraps && wrapped.ok()) wrapped->back().back() ^= 1;
    if (after_wrap != nullptr) {
      if (absl::Status status = after_wrap(); !status.ok()) return status;
    }
    return wrapped;
  }
  absl::StatusOr<std::vector<SecretBytes>> Unwrap(uint32_t epoch,
                                                  std::span<const KeyToUnwrap> keys) override {
    if (absl::Status status = Ask("unwrap"); !status.ok()) return status;
    unwrapped_ += keys.size();
    return inner_->Unwrap(epoch, keys);
  }
  absl::StatusOr<uint32_t> Rotate() override {
    if (absl::Status status = Ask("rotate"); !status.ok()) return status;
    return inner_->Rotate();
  }
  absl::Status Destroy(uint32_t epoch) override {
    if (absl::Status status = Ask("destroy"); !status.ok()) return status;
    return inner_->Destroy(epoch);
  }
  absl::Status DestroyAll() override {
    if (absl::Status status = Ask("destroy all"); !status.ok()) return status;
    return inner_->DestroyAll();
  }

  std::function<absl::Status(const std::string& call)> refuse;
  std::function<absl::Status()> after_wrap;  // the keys are wrapped, what is answered?
  bool spoil_wraps = false;                  // a byte of the last of each call is wrong
  const std::set<std::string>& keys() const { return keys_; }
  size_t unwrapped() const { return unwrapped_; }

 private:
  absl::Status Ask(const std::string& call) {
    return refuse == nullptr ? absl::OkStatus() : refuse(call);
  }
  Kms* inner_;
  std::set<std::string> keys_;
  size_t unwrapped_ = 0;
};

class VaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto kms = FileKms::Create(kek_folder());
    ASSERT_OK(kms);
    file_kms_ = *std::move(kms);
    kms_ = std::make_unique<WatchedKms>(file_kms_.get());
    auto store = KeyStore::Create(path(), Uid(1), kms_.get(), options_);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }

  std::string path() const { return temp_.path() + "/keys.db"; }
  std::string wal() const { return path() + "-wal"; }
  std::string kek_folder() const { return temp_.path() + "/kek"; }
  // Every file in which a wrapped key could be.
  std::vector<std::string> files() const { return {path(), wal()}; }

  void Close() {
    store_.reset();
    kms_.reset();
    file_kms_.reset();
  }
  absl::Status TryOpen(const std::string& tenant_uid = Uid(1)) {
    Close();
    auto kms = FileKms::Open(kek_folder());
    if (!kms.ok()) return kms.status();
    file_kms_ = *std::move(kms);
    kms_ = std::make_unique<WatchedKms>(file_kms_.get());
    auto store = KeyStore::Open(path(), tenant_uid, kms_.get(), options_);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }
  void Reopen() { ASSERT_OK(TryOpen()); }

  absl::Status Touch(uint64_t slot) {
    return store_->WithKey(slot, 0, [](SealingKey&) { return absl::OkStatus(); });
  }
  // Runs SQL by the sqlite3 program, on the closed file.
  void Tamper(const std::string& sql) {
    Close();
    RunCommand(absl::StrCat("sqlite3 '", path(), "' \"", sql, "\""));
  }

  // The wrapped keys as they stand, by the sqlite3 program on a copy of the files.
  std::vector<std::string> WrappedKeys() const {
    const TempFolder copy;
    const std::string to = copy.path() + "/keys.db";
    for (const std::string suffix : {"", "-wal"}) {
      if (std::filesystem::exists(path() + suffix))
        WriteFile(to + suffix, ReadFile(path() + suffix));
    }
    std::vector<std::string> wrapped;
    for (const std::string& body : BodiesOf(to)) {
      wrapped.push_back(body.substr(kWrappedOffset, kWrappedKeyBytes));
    }
    return wrapped;
  }

  // One mark a slot, from slot 1.
  std::vector<std::string> MarkAll() {
    std::vector<std::string> marks;
    for (uint64_t slot = 1; slot <= store_->slots(); ++slot)
      marks.push_back(SealMark(*store_, slot));
    return marks;
  }

  TempFolder temp_;
  KeyStoreOptions options_;
  std::unique_ptr<FileKms> file_kms_;
  std::unique_ptr<WatchedKms> kms_;
  std::unique_ptr<KeyStore> store_;
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_VAULT_VAULT_FIXTURE_H_
