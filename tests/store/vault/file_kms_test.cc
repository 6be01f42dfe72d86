// KEK files: their bytes, permissions and owners, creation and destruction.
#include "store/vault/file_kms.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/store/vault/file_kms_fixture.h"

namespace {

// Called after the folder of a KMS was made.
std::function<void()> after_mkdir;

}  // namespace

// In the place of the library's, for all of this program.
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  const int result = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0 && after_mkdir != nullptr) after_mkdir();
  return result;
}

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST_F(FileKmsTest, WrapsUnderEpochsThatComeAndGo) {
  auto kms = Create();
  EXPECT_EQ(kms->Location(), folder_);
  EXPECT_THAT(*kms->Epochs(), ElementsAre(1));
  const SecretBytes key = SecretBytes::Random(32);
  const std::string first = Wrap(*kms, 1, key);
  EXPECT_EQ(first.size(), kWrappedKeyBytes);
  EXPECT_EQ(*kms->Rotate(), 2u);
  EXPECT_EQ(*kms->CurrentEpoch(), 2u);
  const std::string second = Wrap(*kms, 2, key);
  kms = Open();
  EXPECT_THAT(*kms->Epochs(), ElementsAre(1, 2));
  EXPECT_TRUE(Unwrap(*kms, 1, first)->Equals(key));
  EXPECT_TRUE(Unwrap(*kms, 2, second)->Equals(key));
  EXPECT_CODE(Unwrap(*kms, 2, first), absl::StatusCode::kDataLoss);  // another key
  EXPECT_CODE(Unwrap(*kms, 1, first, "other"), absl::StatusCode::kDataLoss);
  EXPECT_CODE(Unwrap(*kms, 1, first.substr(1)), absl::StatusCode::kDataLoss);
  EXPECT_CODE(Unwrap(*kms, 3, first), absl::StatusCode::kNotFound);

  EXPECT_CODE(kms->Destroy(2), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(kms->Destroy(3), absl::StatusCode::kNotFound);
  EXPECT_CODE(kms->Destroy(0), absl::StatusCode::kNotFound);
  EXPECT_OK(kms->Destroy(1));
  EXPECT_OK(kms->Destroy(1));  // again is no harm
  EXPECT_CODE(Unwrap(*kms, 1, first), absl::StatusCode::kNotFound);
  EXPECT_THAT(Names(), ElementsAre("kek-0000000002"));
  kms = Open();
  EXPECT_THAT(*kms->Epochs(), ElementsAre(2));
  EXPECT_OK(kms->Destroy(1));
  EXPECT_EQ(*kms->Rotate(), 3u);  // numbers are not used again
  const std::string last = ReadFile(PathOf(3));

  EXPECT_OK(kms->DestroyAll());
  EXPECT_THAT(Names(), ElementsAre(".end-kek-0000000003"));
  EXPECT_EQ(ReadFile(folder_ + "/.end-kek-0000000003"), std::string(64, '\0'));
  EXPECT_CODE(kms->Epochs(), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(kms->Rotate(), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(Unwrap(*kms, 3, second), absl::StatusCode::kNotFound);
  EXPECT_OK(kms->DestroyAll());
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kNotFound);
  // No epoch gets a second key, and none comes back.
  EXPECT_CODE(FileKms::Create(folder_), absl::StatusCode::kFailedPrecondition);
  Plant(PathOf(3), last, 0400);
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(FileKms::Create(folder_), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*FileKms::Remove(folder_), 3u);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(FileKmsTest, ManyKeysAtOnceAndTheWrongOneIsNamed) {
  auto kms = Create();
  std::vector<SecretBytes> keys;
  std::vector<KeyToWrap> to_wrap;
  for (int i = 0; i < 100; ++i) keys.push_back(SecretBytes::Random(32));
  for (const SecretBytes& key : keys) to_wrap.push_back({&key, absl::StrCat(to_wrap.size())});
  auto wrapped = kms->Wrap(1, to_wrap);
  ASSERT_OK(wrapped);
  std::vector<KeyToUnwrap> to_unwrap;
  for (const std::string& bytes : *wrapped)
    to_unwrap.push_back({bytes, absl::StrCat(to_unwrap.size())});
  auto unwrapped = kms->Unwrap(1, to_unwrap);
  ASSERT_OK(unwrapped);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_TRUE(keys[i].Equals(unwrapped->at(i)));
  std::swap(to_unwrap[41].wrapped, to_unwrap[42].wrapped);
  const absl::Status status = kms->Unwrap(1, to_unwrap).status();
  EXPECT_CODE(status, absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("keys[41]"));
  const SecretBytes short_key(16);
  to_wrap[7].key = &short_key;
  EXPECT_THAT(std::string(kms->Wrap(1, to_wrap).status().message()), HasSubstr("keys[7]"));
}

TEST_F(FileKmsTest, TheFileHasTheDocumentedBytes) {
  auto kms = Create();
  const SecretBytes key = SecretBytes::Random(32);
  const std::string wrapped = Wrap(*kms, 1, key);
  const std::string file = ReadFile(PathOf(1));
  ASSERT_EQ(file.size(), 64u);
  EXPECT_EQ(file.substr(0, 16), absl::StrCat("LETHEKEK", FromHex("0100000001000000")));
  const Bytes32 digest =
      OpenSslSha256(absl::StrCat("lethe-kek-file", FromHex("0001"), file.substr(0, 48)));
  EXPECT_EQ(file.substr(48), std::string(digest.begin(), digest.begin() + 16));
  // The key in the file is the one that wraps.
  const SealingKey kek(SecretOf(file.substr(16, 32)));
  EXPECT_TRUE(kek.OpenSecret("context", wrapped)->Equals(key));
  struct stat info {};
  ASSERT_EQ(::stat(PathOf(1).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0400u);
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(FileKmsTest, TheUmaskDecidesNothing) {
  for (mode_t mask : {0000u, 0777u, 0277u}) {
    const mode_t before = ::umask(mask);
    const auto kms = FileKms::Create(folder_);
    ::umask(before);
    ASSERT_OK(kms);
    EXPECT_OK(FileKms::Open(folder_));
    fs::remove_all(folder_);
  }
}

TEST_F(FileKmsTest, OnlyTwoModesOfAFileAreTaken) {
  Create();
  for (mode_t mode = 0; mode <= 07777; ++mode) {
    ASSERT_EQ(::chmod(PathOf(1).c_str(), mode), 0);
    const auto kms = FileKms::Open(folder_);
    ASSERT_EQ(kms.ok(), mode == 0400 || mode == 0600) << std::oct << mode;
    if (!kms.ok() && ::geteuid() == 0) {
      ASSERT_TRUE(absl::IsFailedPrecondition(kms.status()));
      ASSERT_THAT(std::string(kms.status().message()), HasSubstr(PathOf(1)));
    }
  }
}

TEST_F(FileKmsTest, OnlyOneModeOfTheFolderIsTaken) {
  Create();
  for (mode_t mode = 0; mode <= 07777; ++mode) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    ASSERT_EQ(FileKms::Open(folder_).ok(), mode == 0700) << std::oct << mode;
    if (mode != 0700 && mode % 8 == 0) {
      ASSERT_FALSE(FileKms::Create(folder_).ok());
    }
  }
  ::chmod(folder_.c_str(), 0700);
}

TEST_F(FileKmsTest, LinksAndStrangersAreRefused) {
  Create();
  const std::string good = ReadFile(PathOf(1));
  // A symbolic link in the place of the file, of the folder.
  fs::rename(PathOf(1), temp_.path() + "/elsewhere");
  fs::create_symlink(temp_.path() + "/elsewhere", PathOf(1));
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition);
  fs::remove(PathOf(1));
  fs::rename(temp_.path() + "/elsewhere", PathOf(1));
  fs::create_symlink(folder_, temp_.path() + "/link");
  EXPECT_CODE(FileKms::Open(temp_.path() + "/link"), absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(FileKms::Create(temp_.path() + "/link"), absl::StatusCode::kFailedPrecondition);
  // A second name.
  fs::create_hard_link(PathOf(1), temp_.path() + "/second");
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition);
  fs::remove(temp_.path() + "/second");
  EXPECT_OK(FileKms::Open(folder_));
  // What is no file: a FIFO (must not block), a folder.
  ASSERT_EQ(::mkfifo(PathOf(2).c_str(), 0400), 0);
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition);
  fs::remove(PathOf(2));
  fs::create_directory(PathOf(2));
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition);
  fs::remove(PathOf(2));
  // Names that are not ours, among them epochs spelt in another way.
  for (const std::string name : {"kek-1", "kek-0000000000", "kek-00000000001", "kek-+000000001",
                                 "kek-0000000001 ", "kek-4294967296", "notes.txt"}) {
    Plant(absl::StrCat(folder_, "/", name), good, 0400);
    EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition) << name;
    fs::remove(absl::StrCat(folder_, "/", name));
  }
  EXPECT_OK(FileKms::Open(folder_));
}

TEST_F(FileKmsTest, AnotherOwnerIsRefused) {
  if (::geteuid() != 0) {
    // Only root can give a file away; others are given root's.
    const absl::Status status = FileKms::Open("/").status();
    EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("chown"));
    return;
  }
  Create();
  ASSERT_EQ(::chown(PathOf(1).c_str(), 65534, 0), 0);
  absl::Status status = FileKms::Open(folder_).status();
  EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chown"));
  ASSERT_EQ(::chown(PathOf(1).c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 0), 0);
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileKmsTest, WorksForAUserWithoutPrivileges) {
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::chown(temp_.path().c_str(), 65534, 65534), 0);
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (root && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(1);
    auto kms = FileKms::Create(folder_);
    if (!kms.ok() || !(*kms)->Rotate().ok()) ::_exit(2);
    if (!(*kms)->Destroy(1).ok()) ::_exit(3);  // a file of mode 0400 is overwritten
    if (!FileKms::Open(folder_).ok()) ::_exit(4);
    if (!(*kms)->DestroyAll().ok()) ::_exit(5);
    ::_exit(FileKms::Remove(folder_).ok() ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(FileKmsTest, EveryFlippedBitAndEveryOtherLengthIsRefused) {
  Create();
  const std::string good = ReadFile(PathOf(1));
  const std::string key_hex = absl::BytesToHexString(good.substr(16, 32));
  auto expect_refused = [&](const std::string& bytes) {
    Plant(PathOf(1), bytes, 0400);
    const absl::Status status = FileKms::Open(folder_).status();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(1)));
    EXPECT_EQ(std::string(status.message()).find(key_hex), std::string::npos);
    EXPECT_EQ(std::string(status.message()).find(good.substr(16, 32)), std::string::npos);
  };
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    expect_refused(bytes);
  }
  for (size_t size = 0; size < good.size(); ++size) expect_refused(good.substr(0, size));
  expect_refused(good + '\0');
  expect_refused(std::string(63, '\0'));
  expect_refused(std::string(65, '\0'));
  // Whole, in the place of another epoch.
  Plant(PathOf(1), good, 0400);
  Plant(PathOf(2), good, 0400);
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kDataLoss);
}

TEST_F(FileKmsTest, CreateMakesNoSecondKeyAndTakesWhatACrashLeft) {
  Create();
  const std::string good = ReadFile(PathOf(1));
  EXPECT_CODE(FileKms::Create(folder_), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(PathOf(1)), good);
  EXPECT_CODE(FileKms::Create(temp_.path() + "/none/kek"), absl::StatusCode::kNotFound);
  EXPECT_CODE(FileKms::Open(temp_.path() + "/none"), absl::StatusCode::kNotFound);
  WriteFile(temp_.path() + "/file", "");
  EXPECT_FALSE(FileKms::Create(temp_.path() + "/file").ok());
  fs::remove(PathOf(1));
  EXPECT_CODE(FileKms::Open(folder_), absl::StatusCode::kNotFound);
  EXPECT_OK(FileKms::Create(folder_));
}

TEST_F(FileKmsTest, OpenFinishesWhatACrashLeft) {
  auto kms = Create();
  ASSERT_OK(kms->Rotate());
  const std::string second = ReadFile(PathOf(2));
  const std::string first = ReadFile(PathOf(1));
  fs::remove(PathOf(1));
  Plant(folder_ + "/.old-kek-0000000001", first, 0400);  // to be destroyed, not yet overwritten
  Plant(folder_ + "/.new-0123", second, 0400);           // created, not yet renamed
  Plant(folder_ + "/.new-4567", second.substr(0, 20), 0400);
  Plant(folder_ + "/.new-89ab", "", 0400);
  kms = Open();
  EXPECT_THAT(*kms->Epochs(), ElementsAre(2));
  EXPECT_THAT(Names(), ElementsAre("kek-0000000002"));
  EXPECT_EQ(ReadFile(PathOf(2)), second);
}

// Whatever else is wrong, what was to be destroyed is.
TEST_F(FileKmsTest, OpenErasesWhatIsLeftAlsoWhenItRefusesTheFolder) {
  for (const std::string wrong : {"/aaa", "/.old-folder", "/kek-0000000002", "/zzz"}) {
    Create();
    const std::string first = ReadFile(PathOf(1));
    for (const std::string left : {"/.new-1", "/.old-kek-0000000007", "/.old-kek-0000000009"}) {
      Plant(folder_ + left, first, 0400);
    }
    if (wrong == "/.old-folder") {
      fs::create_directory(folder_ + wrong);
    } else {
      Plant(folder_ + wrong, "no key", 0400);
    }
    EXPECT_FALSE(FileKms::Open(folder_).ok());
    EXPECT_THAT(Names(), UnorderedElementsAre("kek-0000000001", wrong.substr(1)));
    fs::remove_all(folder_);
  }
}

// Between making the folder and setting its mode, somebody puts a link in its place.
TEST_F(FileKmsTest, ALinkInThePlaceOfTheNewFolderIsNotFollowed) {
  const std::string victim = temp_.path() + "/victim";
  fs::create_directory(victim);
  ASSERT_EQ(::chmod(victim.c_str(), 0755), 0);
  after_mkdir = [&] {
    fs::remove(folder_);
    fs::create_directory_symlink(victim, folder_);
  };
  // So that there is a mode to be set.
  const mode_t before = ::umask(0777);
  const auto kms = FileKms::Create(folder_);
  ::umask(before);
  after_mkdir = nullptr;
  EXPECT_CODE(kms, absl::StatusCode::kFailedPrecondition);
  struct stat info {};
  ASSERT_EQ(::stat(victim.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_TRUE(fs::is_empty(victim));
}

TEST_F(FileKmsTest, RemoveNeedsNoKeyThatCanBeRead) {
  EXPECT_EQ(*FileKms::Remove(folder_), 0u);  // was never there
  EXPECT_EQ(*FileKms::Remove(folder_ + "/none/kek"), 0u);
  auto kms = Create();
  ASSERT_OK(kms->Rotate());
  kms.reset();
  Plant(PathOf(2), "damaged", 0400);
  EXPECT_FALSE(FileKms::Open(folder_).ok());
  EXPECT_EQ(*FileKms::Remove(folder_), 2u);
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_EQ(*FileKms::Remove(folder_), 0u);
  // What is not ours stays, the keys do not.
  Create();
  WriteFile(folder_ + "/notes.txt", "mine");
  EXPECT_CODE(FileKms::Remove(folder_), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Names(), UnorderedElementsAre("notes.txt", ".end-kek-0000000001"));
  fs::remove(folder_ + "/notes.txt");
  EXPECT_EQ(*FileKms::Remove(folder_), 1u);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(FileKmsTest, TooManyEpochsAreRefused) {
  auto kms = Create();
  for (size_t i = 1; i < FileKms::kMaxEpochs; ++i) ASSERT_OK(kms->Rotate());
  EXPECT_CODE(kms->Rotate(), absl::StatusCode::kResourceExhausted);
  EXPECT_OK(kms->Destroy(1));
  EXPECT_OK(kms->Rotate());
}

}  // namespace
}  // namespace lethe::store
