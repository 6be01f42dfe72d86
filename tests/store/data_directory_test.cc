// The data folder: layout, lock, atomic appearance and disappearance of tenants.
#include "store/data_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/sqlite_tenant_store.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    data_.reset();
    auto data = DataDirectory::Open(path_);
    ASSERT_OK(data);
    data_ = std::move(*data);
  }
  absl::Status Create(const std::string& name) {
    TenantRecord tenant = TestTenant();
    tenant.name = name;
    tenant.uid = Uid(++tenants_);
    return data_->CreateTenant(name, [&](const std::string& dir) {
      return CreateTenantStore(dir, tenant, Options()).status();
    });
  }

  SqliteTenantOptions Options() const {
    SqliteTenantOptions options;
    options.vault = data_->vault_path();
    return options;
  }

  TempFolder folder_;
  uint64_t tenants_ = 0;
  const std::string path_ = folder_.path() + "/data";
  std::unique_ptr<DataDirectory> data_;
};

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST_F(DataDirectoryTest, OthersCannotReadIt) {
  ASSERT_OK(Create("acme"));
  EXPECT_EQ(ModeOf(path_), 0700u);
  EXPECT_EQ(ModeOf(data_->keys_path()), 0700u);
  EXPECT_EQ(ModeOf(path_ + "/tenants/acme"), 0700u);
  EXPECT_EQ(ModeOf(path_ + "/tenants/acme/tenant.db"), 0600u);
  EXPECT_EQ(data_->vault_path(), path_ + "/vault");
  EXPECT_EQ(ModeOf(data_->vault_path()), 0700u);
  EXPECT_EQ(ModeOf(data_->vault_path() + "/" + Uid(1)), 0700u);
  EXPECT_EQ(ModeOf(data_->vault_path() + "/" + Uid(1) + "/keys.db"), 0600u);
  ::chmod(data_->keys_path().c_str(), 0755);
  ::chmod(data_->vault_path().c_str(), 0755);
  Open();
  EXPECT_EQ(ModeOf(data_->keys_path()), 0700u);
  EXPECT_EQ(ModeOf(data_->vault_path()), 0700u);
}

TEST_F(DataDirectoryTest, TwoServersOnOneFolderAreRefused) {
  const absl::Status status = DataDirectory::Open(path_).status();
  EXPECT_CODE(status, absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("process ", ::getpid())));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(absl::IsUnavailable(DataDirectory::Open(path_).status()) ? 0 : 1);
  int child_status = -1;
  ASSERT_EQ(::waitpid(child, &child_status, 0), child);
  EXPECT_EQ(child_status, 0);
  Open();  // which closes the first: the lock goes with its holder
}

TEST_F(DataDirectoryTest, TenantsAppearWholeAndOnce) {
  ASSERT_OK(Create("zeta"));
  ASSERT_OK(Create("acme"));
  EXPECT_CODE(Create("acme"), absl::StatusCode::kAlreadyExists);
  Open();
  EXPECT_THAT(*data_->ListTenants(), ElementsAre("acme", "zeta"));
  EXPECT_OK(OpenTenantStore(data_->tenant_path("acme"), Options()));
}

TEST_F(DataDirectoryTest, AFailedBuildLeavesNothing) {
  const absl::Status status = data_->CreateTenant("acme", [](const std::string& dir) {
    WriteFile(dir + "/half", "x");
    return absl::AbortedError("no");
  });
  EXPECT_CODE(status, absl::StatusCode::kAborted);
  EXPECT_TRUE(fs::is_empty(path_ + "/tenants"));
  EXPECT_OK(Create("acme"));
}

TEST_F(DataDirectoryTest, ACrashWhileBuildingLeavesNothing) {
  data_.reset();
  const pid_t child = ::fork();
  if (child == 0) {
    auto data = DataDirectory::Open(path_);
    if (!data.ok()) ::_exit(1);
    (void)(*data)->CreateTenant("acme", [](const std::string& dir) -> absl::Status {
      WriteFile(dir + "/half", "x");
      ::kill(::getpid(), SIGKILL);
      return absl::OkStatus();
    });
    ::_exit(1);
  }
  int child_status = 0;
  ASSERT_EQ(::waitpid(child, &child_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(child_status));
  ASSERT_FALSE(fs::is_empty(path_ + "/tenants"));
  Open();
  EXPECT_TRUE(fs::is_empty(path_ + "/tenants"));
  EXPECT_OK(Create("acme"));
}

TEST_F(DataDirectoryTest, AReplacedTenantIsTheNewOneAloneAndAFailedBuildLeavesTheOld) {
  const std::string folder = path_ + "/tenants/acme";
  const auto replace = [&](const std::string& content, const absl::Status& outcome) {
    return data_->ReplaceTenant("acme", [&](const std::string& dir) {
      WriteFile(dir + "/" + content, content);
      return outcome;
    });
  };
  ASSERT_OK(replace("first", absl::OkStatus()));  // nothing is there yet
  EXPECT_EQ(ReadFile(folder + "/first"), "first");
  ASSERT_OK(replace("second", absl::OkStatus()));
  EXPECT_EQ(ReadFile(folder + "/second"), "second");
  EXPECT_FALSE(fs::exists(folder + "/first"));
  EXPECT_CODE(replace("third", absl::AbortedError("no")), absl::StatusCode::kAborted);
  EXPECT_EQ(ReadFile(folder + "/second"), "second");
  EXPECT_FALSE(fs::exists(folder + "/third"));
  // Nothing else remains, and what a crash leaves is not taken for a tenant.
  EXPECT_EQ(std::distance(fs::directory_iterator(path_ + "/tenants"), fs::directory_iterator()), 1);
  fs::create_directory(path_ + "/tenants/.new-acme");
  ASSERT_OK(replace("fourth", absl::OkStatus()));
  EXPECT_THAT(*data_->ListTenants(), ElementsAre("acme"));
  EXPECT_EQ(ReadFile(folder + "/fourth"), "fourth");
  EXPECT_CODE(data_->ReplaceTenant("a/b", [](const std::string&) { return absl::OkStatus(); }),
              absl::StatusCode::kInvalidArgument);
}

TEST_F(DataDirectoryTest, TemporaryFilesGoWithTheNextOpenAndNothingElse) {
  const std::string first = data_->NewTemporaryPath();
  const std::string second = data_->NewTemporaryPath();
  EXPECT_NE(first, second);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_EQ(ModeOf(fs::path(first).parent_path()), 0700u);
  WriteFile(first, "x");
  fs::create_directory(second);
  WriteFile(second + "/in-it", "x");
  WriteFile(path_ + "/temporary/somebody-s", "x");
  Open();
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second));
  EXPECT_TRUE(fs::exists(path_ + "/temporary/somebody-s"));
}

TEST_F(DataDirectoryTest, AClosedTenantMovesAndItsNameIsFree) {
  ASSERT_OK(Create("acme"));
  const std::string uid = Uid(1);
  auto closed = data_->CloseTenant("acme", uid);
  ASSERT_OK(closed);
  EXPECT_EQ(*closed, path_ + "/closed/acme-" + uid);
  EXPECT_TRUE(data_->ListTenants()->empty());
  EXPECT_THAT(*data_->ListClosed(), ElementsAre(*closed));
  EXPECT_OK(OpenTenantStore(*closed, Options()));
  EXPECT_CODE(data_->CloseTenant("acme", uid), absl::StatusCode::kNotFound);
  ASSERT_OK(Create("acme"));
  EXPECT_CODE(data_->CloseTenant("acme", uid), absl::StatusCode::kAlreadyExists);
  EXPECT_OK(data_->CloseTenant("acme", Uid(12)));
}

TEST_F(DataDirectoryTest, AVaultElsewhereIsUsed) {
  data_.reset();
  const std::string elsewhere = folder_.path() + "/elsewhere";
  auto data = DataDirectory::Open(path_, elsewhere);
  ASSERT_OK(data);
  data_ = std::move(*data);
  EXPECT_EQ(ModeOf(elsewhere), 0700u);
  ASSERT_OK(Create("acme"));
  EXPECT_TRUE(fs::exists(elsewhere + "/" + Uid(1) + "/keys.db"));
  EXPECT_TRUE(fs::is_empty(path_ + "/vault"));
  data_.reset();
  EXPECT_CODE(DataDirectory::Open(path_, folder_.path() + "/no/parent"),
              absl::StatusCode::kFailedPrecondition);
}

// On another disk, say: both the vault that is named and the default one may be links.
TEST_F(DataDirectoryTest, AVaultBehindALinkIsWhereItReallyIs) {
  const std::string disk = fs::canonical(folder_.path()).string() + "/disk";
  fs::create_directory(disk);
  fs::permissions(disk, fs::perms::owner_all);
  data_.reset();
  fs::remove(path_ + "/vault");
  fs::create_directory_symlink(disk, path_ + "/vault");
  fs::create_directory_symlink(disk, folder_.path() + "/link");
  for (const std::string& named : {std::string(), folder_.path() + "/link"}) {
    auto directory = DataDirectory::Open(path_, named);
    ASSERT_OK(directory);
    EXPECT_EQ((*directory)->vault_path(), disk);
    const std::string tenant = folder_.path() + "/tenant" + (named.empty() ? "1" : "2");
    fs::create_directory(tenant);
    TenantRecord record = TestTenant();
    record.uid = Uid(named.empty() ? 1 : 2);
    EXPECT_OK(CreateTenantStore(tenant, record, {.vault = (*directory)->vault_path()}));
  }
}

// Whatever folder is named, nothing in it or about it is changed before it is known to be fit.
TEST_F(DataDirectoryTest, AVaultThatCannotBeOneIsRefusedAndLeftAsItIs) {
  ASSERT_OK(Create("acme"));
  data_.reset();
  const std::string open = folder_.path() + "/open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms(0755));
  const auto wide = DataDirectory::Open(path_, open);
  EXPECT_CODE(wide, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(wide.status().message()), HasSubstr("set its mode to 0700"));
  EXPECT_EQ(ModeOf(open), 0755u);
  fs::create_directory_symlink(path_ + "/keys", folder_.path() + "/link");
  for (const std::string& taken :
       {path_, path_ + "/tenants", path_ + "/tenants/acme", path_ + "/closed/", path_ + "/keys",
        path_ + "/temporary", path_ + "/vault/../keys", folder_.path() + "/link"}) {
    const auto inside = DataDirectory::Open(path_, taken);
    EXPECT_CODE(inside, absl::StatusCode::kFailedPrecondition) << taken;
    EXPECT_THAT(std::string(inside.status().message()), HasSubstr("one of its own")) << taken;
  }
  EXPECT_OK(DataDirectory::Open(path_, path_ + "/vault"));
  // A folder whose name only begins like one of ours.
  fs::create_directory(path_ + "/keys-of-rows");
  EXPECT_OK(DataDirectory::Open(path_, path_ + "/keys-of-rows"));
}

// An empty vault in the place of the one that is missing would have none of the tenants' keys.
TEST_F(DataDirectoryTest, AVaultIsNotMadeWhereThereAreTenants) {
  ASSERT_OK(Create("acme"));
  data_.reset();
  const std::string away = folder_.path() + "/away";
  fs::rename(path_ + "/vault", away);
  const std::string other = folder_.path() + "/other";
  for (const std::string& named : {std::string(), other}) {
    const auto refused = DataDirectory::Open(path_, named);
    EXPECT_CODE(refused, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--vault"));
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr(named.empty() ? path_ + "/vault" : named));
  }
  EXPECT_FALSE(fs::exists(path_ + "/vault"));
  EXPECT_FALSE(fs::exists(other));
  EXPECT_OK(DataDirectory::Open(path_, away));
  // Without tenants there is nothing to lose.
  fs::remove_all(path_ + "/tenants/acme");
  EXPECT_OK(DataDirectory::Open(path_));
}

// A crash between the making of the keys and the appearance of the tenant.
TEST_F(DataDirectoryTest, AVaultOfNoTenantIsListedAndKept) {
  ASSERT_OK(Create("acme"));
  const absl::Status status = data_->CreateTenant("beta", [&](const std::string& dir) {
    TenantRecord tenant = TestTenant();
    tenant.uid = Uid(77);
    EXPECT_OK(CreateTenantStore(dir, tenant, Options()));
    return absl::AbortedError("a crash");
  });
  EXPECT_CODE(status, absl::StatusCode::kAborted);
  fs::create_directories(data_->vault_path() + "/lost+found");
  Open();
  const std::vector<std::string> live = {Uid(1)};
  EXPECT_THAT(*data_->ListOrphanVaults(live), ElementsAre(data_->vault_path() + "/" + Uid(77)));
  EXPECT_TRUE(fs::exists(data_->vault_path() + "/" + Uid(77) + "/keys.db"));
}

TEST_F(DataDirectoryTest, NamesThatLeaveTheFolderAreRefused) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".new-x"),
        std::string("a/b"), std::string("/etc"), std::string("a\nb"), std::string("a\0b", 3),
        std::string(kMaxNameBytes + 1, 'a')}) {
    EXPECT_CODE(Create(name), absl::StatusCode::kInvalidArgument);
    EXPECT_CODE(data_->CloseTenant(name, Uid(1)), absl::StatusCode::kInvalidArgument);
  }
  ASSERT_OK(Create("acme"));
  EXPECT_CODE(data_->CloseTenant("acme", "../../x"), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*data_->ListTenants(), ElementsAre("acme"));
}

TEST_F(DataDirectoryTest, AFolderThatCannotServeIsRefusedWithAReason) {
  WriteFile(folder_.path() + "/file", "x");
  const absl::Status file = DataDirectory::Open(folder_.path() + "/file").status();
  EXPECT_CODE(file, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(file.message()), HasSubstr("must be a folder"));
  EXPECT_CODE(DataDirectory::Open(folder_.path() + "/file/below"),
              absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(DataDirectory::Open(folder_.path() + "/no/parent"),
              absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(DataDirectory::Open(""), absl::StatusCode::kInvalidArgument);
  fs::create_directories(folder_.path() + "/odd");
  WriteFile(folder_.path() + "/odd/keys", "x");
  EXPECT_CODE(DataDirectory::Open(folder_.path() + "/odd"), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lethe::store
