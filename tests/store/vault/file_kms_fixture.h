// A folder of KEKs and what its tests do with it.
#ifndef LETHE_TESTS_STORE_VAULT_FILE_KMS_FIXTURE_H_
#define LETHE_TESTS_STORE_VAULT_FILE_KMS_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/vault/file_kms.h"
#include "tests/store/vault/vault_testing.h"

namespace lethe::store {

class FileKmsTest : public ::testing::Test {
 protected:
  std::string PathOf(uint32_t epoch) const {
    std::string digits = absl::StrCat(epoch);
    return absl::StrCat(folder_, "/kek-", std::string(10 - digits.size(), '0'), digits);
  }
  std::unique_ptr<FileKms> Create() {
    auto kms = FileKms::Create(folder_);
    EXPECT_OK(kms);
    return kms.ok() ? *std::move(kms) : nullptr;
  }
  std::unique_ptr<FileKms> Open() {
    auto kms = FileKms::Open(folder_);
    EXPECT_OK(kms);
    return kms.ok() ? *std::move(kms) : nullptr;
  }
  std::string Wrap(FileKms& kms, uint32_t epoch, const SecretBytes& key) {
    const KeyToWrap to_wrap{&key, "context"};
    auto wrapped = kms.Wrap(epoch, std::span(&to_wrap, 1));
    EXPECT_OK(wrapped);
    return wrapped.ok() ? wrapped->at(0) : "";
  }
  absl::StatusOr<SecretBytes> Unwrap(FileKms& kms,
                                     uint32_t epoch,
                                     const std::string& wrapped,
                                     const std::string& context = "context") {
    const KeyToUnwrap to_unwrap{wrapped, context};
    auto keys = kms.Unwrap(epoch, std::span(&to_unwrap, 1));
    if (!keys.ok()) return keys.status();
    return std::move(keys->at(0));
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  // A file with these bytes and this mode in the place of what was there.
  void Plant(const std::string& path, const std::string& bytes, mode_t mode) {
    std::filesystem::remove(path);
    WriteFile(path, bytes);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }

  TempFolder temp_;
  std::string folder_ = temp_.path() + "/kek";
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_VAULT_FILE_KMS_FIXTURE_H_
