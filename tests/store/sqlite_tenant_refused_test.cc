// What the SQLite engine must refuse, untouched, and the damage that it must find. Files are spoilt
// with the plain sqlite3 library, not with the code under test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/schema.h"
#include "tests/store/sqlite_tenant_fixture.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// --- Files that must be refused, untouched.

TEST_F(SqliteTenantStoreTest, OlderFormatsAreRefused) {
  for (const char* version : {"1", "2", "3"}) {
    Raw(absl::StrCat("PRAGMA user_version=", version));
    const std::string before = ReadFile(file_);
    const absl::Status status = OpenStatus();
    EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("older release"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("export the log"));
    EXPECT_EQ(ReadFile(file_), before);
  }
}

TEST_F(SqliteTenantStoreTest, ANewerFormatIsRefused) {
  Raw(absl::StrCat("PRAGMA user_version=", kTenantIdentity.user_version + 1));
  const std::string before = ReadFile(file_);
  const absl::Status status = OpenStatus();
  EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("run the newer release"));
  EXPECT_EQ(ReadFile(file_), before);
}

TEST_F(SqliteTenantStoreTest, AForeignFileIsRefused) {
  Raw("PRAGMA application_id=1");
  const std::string before = ReadFile(file_);
  const absl::Status status = OpenStatus();
  EXPECT_CODE(status, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a file of Lethe"));
  EXPECT_EQ(ReadFile(file_), before);
}

TEST_F(SqliteTenantStoreTest, AMissingFileIsNotFound) {
  store_.reset();
  std::filesystem::remove(file_);
  EXPECT_CODE(OpenStatus(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(SqliteTenantStoreTest, GarbageIsRefused) {
  store_.reset();
  for (const std::string& bytes :
       {std::string(10'000, 'x'), std::string(10'000, '\0'),
        std::string("SQLite format 3\0", 16) + std::string(9'000, 'y')}) {
    WriteFile(file_, bytes);
    const absl::Status status = OpenStatus();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
  }
  WriteFile(file_, "");
  EXPECT_CODE(OpenStatus(), absl::StatusCode::kFailedPrecondition);  // an empty database, not ours
}

TEST_F(SqliteTenantStoreTest, ATruncatedFileIsRefused) {
  std::vector<TokenRow> rows;
  for (uint64_t i = 1; i <= 300; ++i) rows.push_back(TestRow(i, absl::StrCat(i)));
  ASSERT_OK(Insert(rows));
  store_.reset();
  const std::string whole = ReadFile(file_);
  ASSERT_GT(whole.size(), 60'000u);
  for (size_t size : {whole.size() - 4096, whole.size() - 1, whole.size() / 2, size_t{4096},
                      size_t{1000}, size_t{50}}) {
    WriteFile(file_, whole.substr(0, size));
    const absl::Status status = OpenStatus();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
  }
  WriteFile(file_, whole);
  EXPECT_OK(OpenStatus());
}

TEST_F(SqliteTenantStoreTest, ASecondProcessIsRefused) {
  const pid_t child = ::fork();
  if (child == 0) {
    const absl::Status status = OpenTenantStore(folder_.path(), Options()).status();
    ::_exit(absl::IsUnavailable(status) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_OK(Insert({TestRow(1, "a")}));
}

TEST_F(SqliteTenantStoreTest, AFileInPlaceOfTheFolderIsRefused) {
  WriteFile(folder_.path() + "/plain", "x");
  TenantRecord other = TestTenant();
  other.uid = Uid(5);
  EXPECT_CODE(CreateTenantStore(folder_.path() + "/plain", other, Options()),
              absl::StatusCode::kFailedPrecondition);
  EXPECT_CODE(CreateTenantStore(folder_.path() + "/none", other, Options()),
              absl::StatusCode::kNotFound);
  // Nothing of its vault remains.
  EXPECT_FALSE(std::filesystem::exists(Options().vault + "/" + other.uid));
  EXPECT_CODE(OpenTenantStore(folder_.path() + "/plain", Options()),
              absl::StatusCode::kFailedPrecondition);
}

TEST_F(SqliteTenantStoreTest, ABadTenantIsRefusedAndMakesNoFile) {
  TempFolder other;
  TenantRecord tenant = TestTenant();
  tenant.uid = "short";
  const SqliteTenantOptions options = Options();
  EXPECT_CODE(CreateTenantStore(other.path(), tenant, options), absl::StatusCode::kInvalidArgument);
  tenant = TestTenant();
  tenant.uid = Uid(5);
  tenant.state = TenantState::kClosed;
  EXPECT_CODE(CreateTenantStore(other.path(), tenant, options), absl::StatusCode::kInvalidArgument);
  tenant.state = TenantState::kOpen;
  EXPECT_CODE(CreateTenantStore(other.path(), tenant, {}), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(other.path()));
  EXPECT_FALSE(std::filesystem::exists(options.vault + "/" + tenant.uid));
}

// --- Damage.

TEST_F(SqliteTenantStoreTest, AFlippedBitInTheFileIsFoundAndTheRowIsNamed) {
  TokenRow row = TestRow(41, "an-id", "a-subject");
  row.payload = std::string(600, 'P');
  ASSERT_OK(Insert({row}));
  const std::string body = absl::HexStringToBytes(Raw("SELECT hex(body) FROM tokens"));
  std::string bytes = ReadFile(file_);
  const size_t at = bytes.find(body);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 300] = static_cast<char>(bytes[at + 300] ^ 0x10);
  WriteFile(file_, bytes);
  Open();
  const absl::Status load =
      store_->LoadTokens(memory_.uid, [](TokenRow&) { return absl::OkStatus(); });
  const absl::Status get = store_->GetTokens(memory_.uid, std::vector<uint64_t>{41}).status();
  for (const absl::Status& status : {load, get}) {
    EXPECT_CODE(status, absl::StatusCode::kDataLoss);
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(file_));
    EXPECT_THAT(message, HasSubstr(memory_.uid));
    EXPECT_THAT(message, HasSubstr("handle 41"));
    EXPECT_THAT(message, Not(HasSubstr("an-id")));
    EXPECT_THAT(message, Not(HasSubstr("a-subject")));
    EXPECT_THAT(message, Not(HasSubstr("PPP")));
  }
}

TEST_F(SqliteTenantStoreTest, ColumnsThatDisagreeWithTheRowAreFound) {
  ASSERT_OK(Insert({TestRow(1, "a", "x"), TestRow(2, "b")}));
  const std::vector<std::string> damages = {
      "UPDATE tokens SET id_key = zeroblob(16) WHERE handle = 1",
      "UPDATE tokens SET subject_key = zeroblob(16) WHERE handle = 1",
      "UPDATE tokens SET subject_key = NULL WHERE handle = 1",
      "UPDATE tokens SET subject_key = zeroblob(16) WHERE handle = 2",
      "UPDATE tokens SET body = (SELECT body FROM tokens WHERE handle = 2) WHERE handle = 1",
      "UPDATE tokens SET handle = 3 WHERE handle = 2",
      "UPDATE tokens SET slot = 2 WHERE handle = 2",
      "UPDATE tokens SET slot = 4 WHERE handle = 2",
      "UPDATE tokens SET slot = 1000000 WHERE handle = 2",
      "UPDATE memories SET uid = '000000000000000000000000000000aa'",
      "UPDATE tokens SET body = x'' WHERE handle = 2",
  };
  store_.reset();
  const std::string good = ReadFile(file_);
  for (const std::string& damage : damages) {
    SCOPED_TRACE(damage);
    WriteFile(file_, good);
    Raw(damage);
    ASSERT_EQ(raw_code_, SQLITE_OK);
    Open();
    const bool moved = damage.find("memories") != std::string::npos;
    EXPECT_CODE(store_->LoadTokens(moved ? Uid(0xaa) : memory_.uid,
                                   [](TokenRow&) { return absl::OkStatus(); }),
                absl::StatusCode::kDataLoss);
    store_.reset();
  }
}

// As a flipped bit in a page of the index can make it.
TEST_F(SqliteTenantStoreTest, ARowThatAnIndexHasLostIsMissed) {
  ASSERT_OK(Insert({TestRow(1, "a"), TestRow(2, "b"), TestRow(3, "c")}));
  const auto load = [this] {
    return store_->LoadTokens(memory_.uid, [](TokenRow&) { return absl::OkStatus(); });
  };
  const std::vector<std::pair<std::string, std::string>> indexes = {{"tokens_by_handle", "handle"},
                                                                    {"tokens_by_id", "id_key"}};
  for (const auto& [name, column] : indexes) {
    ASSERT_OK(load());
    const std::string sql =
        absl::StrCat("CREATE UNIQUE INDEX ", name, " ON tokens (memory, ", column, ")");
    Raw(absl::StrCat("DROP INDEX ", name, ";", sql, " WHERE handle <> 2;",
                     "PRAGMA writable_schema = ON;"
                     "UPDATE sqlite_schema SET sql = '",
                     sql, "' WHERE name = '", name, "'"));
    ASSERT_EQ(raw_code_, SQLITE_OK);
    Open();
    const absl::Status status = load();
    EXPECT_CODE(status, absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("an index"));
    Raw("REINDEX");
    Open();
  }
}

TEST_F(SqliteTenantStoreTest, ADamagedConfigurationIsFound) {
  for (const char* damage :
       {"UPDATE memories SET config = x'00'", "UPDATE memories SET name = 'other'",
        "UPDATE memories SET create_time = 0"}) {
    SCOPED_TRACE(damage);
    store_.reset();
    const std::string good = ReadFile(file_);
    Raw(damage);
    Open();
    EXPECT_CODE(store_->GetMemory(memory_.uid), absl::StatusCode::kDataLoss);
    EXPECT_CODE(store_->ListMemories("", 10), absl::StatusCode::kDataLoss);
    store_.reset();
    WriteFile(file_, good);
  }
}

TEST_F(SqliteTenantStoreTest, AGapInTheLogIsFound) {
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_OK(Insert({TestRow(i, absl::StrCat(i))}));
    ASSERT_OK(Erase({i}));
  }
  Raw("DELETE FROM certificates WHERE sequence = 1");
  EXPECT_CODE(OpenStatus(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteTenantStoreTest, TheSchemaItselfForbidsAFork) {
  for (uint64_t i = 1; i <= 2; ++i) {
    ASSERT_OK(Insert({TestRow(i, absl::StrCat(i))}));
    ASSERT_OK(Erase({i}));
  }
  const std::string copy =
      "INSERT INTO certificates SELECT $, 'a' || substr(id, 2), kind, memory_uid, memory_name,"
      " create_time, randomblob(32), previous_leaf_hash, leaf, envelope FROM certificates"
      " WHERE sequence = 1";
  auto with = [&](const std::string& sequence) {
    return std::string(copy).replace(copy.find('$'), 1, sequence);
  };
  Raw(with("1"));
  EXPECT_EQ(raw_code_, SQLITE_CONSTRAINT);  // the sequence is taken
  Raw(with("2"));
  EXPECT_EQ(raw_code_, SQLITE_CONSTRAINT);  // the previous leaf is taken
  EXPECT_EQ(Raw("SELECT count(*) FROM certificates"), "2");
}

}  // namespace
}  // namespace lethe::store
