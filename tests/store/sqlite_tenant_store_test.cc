// What is special to the SQLite engine: files that must be refused, damage that must be found,
// quotas, failed commits, and what stands in the columns. Files are looked at and spoilt with the
// plain sqlite3 library, not with the code under test.
#include "store/sqlite_tenant_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/sqlite.h"
#include "store/vault/file_kms.h"
#include "store/vault/key_store.h"
#include "store/vault/sealing.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SqliteTenantStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = CreateTenantStore(folder_.path(), TestTenant(), TestOptions(folder_.path()));
    ASSERT_OK(store);
    store_ = std::move(*store);
    ASSERT_OK(store_->StartLog(TestStart()));
    ASSERT_OK(store_->CreateMemory(memory_));
  }
  SqliteTenantOptions Options() { return TestOptions(folder_.path()); }
  void Open() { Open(Options()); }
  void Open(const SqliteTenantOptions& options) {
    store_.reset();
    auto store = OpenTenantStore(folder_.path(), options);
    ASSERT_OK(store);
    store_ = std::move(*store);
  }
  absl::Status OpenStatus() {
    store_.reset();
    return OpenTenantStore(folder_.path(), Options()).status();
  }
  absl::Status Insert(const std::vector<TokenRow>& rows) {
    return store_->InsertTokens(memory_.uid, rows);
  }
  absl::StatusOr<EraseResult> Erase(std::vector<uint64_t> handles) {
    return store_->EraseTokens(
        {memory_.uid, std::move(handles), NextCertificate(*store_, memory_), std::nullopt});
  }
  // Closes the store, runs the statements, returns the first column of the last row as text.
  std::string Raw(const std::string& sql) {
    store_.reset();
    const RawResult result = RunRaw(file_, sql);
    raw_code_ = result.code;
    return result.text;
  }

  TempFolder folder_;
  const std::string file_ = folder_.path() + "/tenant.db";
  const MemoryRecord memory_ = TestMemory(1);
  std::unique_ptr<TenantStore> store_;
  int raw_code_ = SQLITE_OK;
};

// --- Files that must be refused, untouched.

TEST_F(SqliteTenantStoreTest, FormatsWithRowsInClearAreRefused) {
  for (const char* version : {"1", "2"}) {
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
  Raw("PRAGMA user_version=4");
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
      "UPDATE tokens SET id_key = zeroblob(32) WHERE handle = 1",
      "UPDATE tokens SET subject_key = zeroblob(32) WHERE handle = 1",
      "UPDATE tokens SET subject_key = NULL WHERE handle = 1",
      "UPDATE tokens SET subject_key = zeroblob(32) WHERE handle = 2",
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

// --- What the file holds.

TEST_F(SqliteTenantStoreTest, IdsAndSubjectsAreIndexedByKeyedHashesOnly) {
  ASSERT_OK(Insert({TestRow(1, "an-id", "a-subject"), TestRow(2, "another-id")}));
  // The secret, with the key of slot 1 and the vault's own code.
  const std::string sealed = absl::HexStringToBytes(Raw("SELECT hex(index_secret) FROM tenant"));
  ASSERT_EQ(sealed.size(), 32u + kSealOverhead);
  std::string secret;
  {
    const std::string vault = Options().vault + "/" + TestTenant().uid;
    auto kms = FileKms::Open(vault + "/kek");
    ASSERT_OK(kms);
    auto keys = KeyStore::Open(vault + "/keys.db", TestTenant().uid, kms->get());
    ASSERT_OK(keys);
    const std::string context = std::string("lethe-index-secret\0\1", 20) + TestTenant().uid +
                                std::string("\1\0\0\0\0\0\0\0", 8);
    ASSERT_OK((*keys)->WithKey(1, 0, [&](SealingKey& key) -> absl::Status {
      auto opened = key.Open(context, sealed);
      if (opened.ok()) secret = *opened;
      return opened.status();
    }));
  }
  ASSERT_EQ(secret.size(), 32u);
  auto hmac = [&](const std::string& message) {
    Bytes32 out;
    unsigned int size = 0;
    HMAC(EVP_sha256(), secret.data(), 32, reinterpret_cast<const unsigned char*>(message.data()),
         message.size(), out.data(), &size);
    return absl::AsciiStrToUpper(Hex(out));
  };
  EXPECT_EQ(Raw("SELECT hex(id_key) FROM tokens WHERE handle = 1"),
            hmac(std::string("lethe-id\0", 9) + memory_.uid + "an-id"));
  EXPECT_EQ(Raw("SELECT hex(subject_key) FROM tokens WHERE handle = 1"),
            hmac(std::string("lethe-subject\0", 14) + memory_.uid + "a-subject"));
  EXPECT_EQ(Raw("SELECT subject_key FROM tokens WHERE handle = 2"), "NULL");
}

// Each search by id, by subject, by handle, by request and by certificate must go through an index.
TEST_F(SqliteTenantStoreTest, NoSearchReadsAWholeTable) {
  ASSERT_OK(Insert({TestRow(1, "a", "s")}));
  store_.reset();
  const std::vector<std::pair<std::string, std::string>> searches = {
      {"SELECT handle FROM tokens WHERE memory = ?1 AND id_key = ?2", "tokens_by_id"},
      {"SELECT handle FROM tokens WHERE memory = ?1 AND subject_key = ?2 ORDER BY handle",
       "COVERING INDEX tokens_by_subject"},
      {"SELECT count(DISTINCT subject_key) FROM tokens WHERE memory = ?1 AND"
       " subject_key IS NOT NULL",
       "COVERING INDEX tokens_by_subject"},
      {"SELECT count(*) FROM tokens WHERE memory = ?1", "COVERING INDEX"},
      {"SELECT body FROM tokens WHERE memory = ?1 ORDER BY handle", "tokens_by_handle"},
      {"SELECT slot FROM tokens WHERE memory = ?1 AND subject_key = ?2 LIMIT 1",
       "tokens_by_subject"},
      {"DELETE FROM tokens WHERE memory = ?1 AND handle = ?2 RETURNING slot", "tokens_by_handle"},
      {"SELECT slots FROM outbox WHERE sequence <= ?1 ORDER BY sequence", "PRIMARY KEY"},
      {"SELECT 1 FROM tombstones WHERE memory = ?1 AND id_key = ?2", "PRIMARY KEY"},
      {"SELECT leaf FROM certificates WHERE id = ?1", "INDEX"},
      {"SELECT leaf FROM certificates WHERE memory_name = ?3 AND sequence > ?1 ORDER BY sequence",
       "certificates_by_memory"},
      {"SELECT answer FROM requests WHERE request_id = ?1", "INDEX"},
  };
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &db), SQLITE_OK);
  for (const auto& [sql, wanted] : searches) {
    SCOPED_TRACE(sql);
    std::string plan;
    auto keep = [](void* out, int, char** columns, char**) {
      *static_cast<std::string*>(out) += absl::StrCat(columns[3], ";");
      return 0;
    };
    ASSERT_EQ(sqlite3_exec(db, ("EXPLAIN QUERY PLAN " + sql).c_str(), keep, &plan, nullptr),
              SQLITE_OK);
    EXPECT_THAT(plan, HasSubstr("SEARCH"));
    EXPECT_THAT(plan, HasSubstr(wanted));
    EXPECT_THAT(plan, Not(HasSubstr("SCAN")));
    EXPECT_THAT(plan, Not(HasSubstr("TEMP")));
  }
  sqlite3_close(db);
}

TEST_F(SqliteTenantStoreTest, TwoTenantsHaveTwoSecrets) {
  TempFolder other;
  ASSERT_OK(CreateTenantStore(other.path(), TestTenant(), TestOptions(other.path())));
  const std::string mine = Raw("SELECT hex(index_secret) FROM tenant");
  std::filesystem::copy_file(other.path() + "/tenant.db", file_,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(Raw("SELECT hex(index_secret) FROM tenant"), mine);
}

TEST_F(SqliteTenantStoreTest, AClosedTenantHoldsNoSecretAndNoRows) {
  ASSERT_OK(Insert({TestRow(1, "an-id", "a-subject")}));
  ASSERT_OK(CloseWith(*store_, NextCertificate(*store_->GetLogHead())));
  EXPECT_EQ(Raw("SELECT hex(index_secret) FROM tenant"), "");
  EXPECT_EQ(Raw("SELECT (SELECT count(*) FROM tokens) + (SELECT count(*) FROM tombstones) +"
                " (SELECT count(*) FROM memories)"),
            "0");
  EXPECT_EQ(Raw("PRAGMA freelist_count"), "0");
}

TEST_F(SqliteTenantStoreTest, TheFileStaysSound) {
  std::vector<TokenRow> rows;
  for (uint64_t i = 1; i <= 500; ++i) rows.push_back(TestRow(i, absl::StrCat(i), "s"));
  ASSERT_OK(Insert(rows));
  ASSERT_OK(Erase({3, 77, 500}));
  EXPECT_EQ(Raw("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(Raw("PRAGMA foreign_key_check"), "");
}

// --- The write-ahead log, quotas, failures.

TEST_F(SqliteTenantStoreTest, AnEraseEmptiesTheWriteAheadLog) {
  const std::string wal = file_ + "-wal";
  ASSERT_OK(Insert({TestRow(1, "a")}));
  ASSERT_GT(std::filesystem::file_size(wal), 0u);
  auto result = Erase({1});
  ASSERT_OK(result);
  EXPECT_OK(result->checkpoint);
  EXPECT_EQ(std::filesystem::file_size(wal), 0u);
}

TEST_F(SqliteTenantStoreTest, TheWriteAheadLogIsBounded) {
  SqliteTenantOptions options = Options();
  options.wal_checkpoint_bytes = 100'000;
  Open(options);
  for (uint64_t i = 1; i <= 40; ++i) {
    TokenRow row = TestRow(i, absl::StrCat(i));
    row.payload.resize(20'000);
    ASSERT_OK(Insert({row}));
    EXPECT_LT(std::filesystem::file_size(file_ + "-wal"), 300'000u);
  }
  EXPECT_EQ(LoadAll(*store_, memory_.uid).size(), 40u);
}

TEST_F(SqliteTenantStoreTest, AFullQuotaStopsInsertsAndNotErasures) {
  SqliteTenantOptions options = Options();
  options.max_bytes = 400'000;
  Open(options);
  uint64_t next = 1;
  auto batch = [&] {
    std::vector<TokenRow> rows;
    for (uint64_t i = 0; i < 3; ++i) {
      rows.push_back(TestRow(next + i, absl::StrCat(next + i)));
      rows.back().payload.resize(10'000);
    }
    return rows;
  };
  absl::Status status;
  while ((status = Insert(batch())).ok()) {
    next += 3;
    ASSERT_LT(next, 1000u);
  }
  EXPECT_CODE(status, absl::StatusCode::kResourceExhausted);
  EXPECT_OK(store_->Health());
  EXPECT_EQ(LoadAll(*store_, memory_.uid).size(), next - 1);  // of the refused batch nothing
  EXPECT_EQ(store_->GetMemory(memory_.uid)->next_handle, next);
  EXPECT_LE(std::filesystem::file_size(file_), options.max_bytes);
  // Small rows fill what is left, so that the next erasure finds no free page.
  while (Insert({TestRow(next, absl::StrCat(next))}).ok()) ++next;
  // A certificate of five pages against a row of a fraction of one: the file must outgrow the
  // quota.
  EraseRequest request{memory_.uid, {next - 1}, NextCertificate(*store_, memory_), std::nullopt};
  request.certificate.record.envelope.resize(20'000, 'e');
  auto erased = store_->EraseTokens(request);
  ASSERT_OK(erased);
  EXPECT_OK(erased->checkpoint);
  EXPECT_EQ(store_->GetLogHead()->count, 1u);
  EXPECT_GT(std::filesystem::file_size(file_), options.max_bytes);
  EXPECT_CODE(Insert(batch()), absl::StatusCode::kResourceExhausted);
  ASSERT_OK(Erase({1, 2, 3, 4, 5, 6}));
  EXPECT_OK(Insert(batch()));
  Open(options);
  EXPECT_EQ(store_->GetLogHead()->count, 2u);
}

// The commit fails at every possible size of the write-ahead log; what the reopened store says of
// the request is then the truth, and the other contents agree with it.
TEST_F(SqliteTenantStoreTest, AfterAFailedCommitTheRequestTellsWhatHappened) {
  int failed = 0;
  uint64_t handle = 1;
  for (uint64_t limit_bytes = 0; limit_bytes < 60'000; limit_bytes += 3'000) {
    SCOPED_TRACE(limit_bytes);
    const std::string id = absl::StrCat("id-", handle);
    ASSERT_OK(Insert({TestRow(handle, id)}));
    ASSERT_OK(store_->Checkpoint());
    const uint64_t before = store_->GetLogHead()->count;
    EraseRequest request{memory_.uid,
                         {handle},
                         NextCertificate(*store_, memory_),
                         TestRequest(absl::StrCat("r-", handle))};
    absl::StatusOr<EraseResult> result = absl::UnknownError("");
    {
      const ScopedFileLimit limit(limit_bytes);
      result = store_->EraseTokens(request);
    }
    if (!result.ok()) {
      ++failed;
      EXPECT_TRUE(IsIndeterminate(result.status())) << result.status();
      EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
      EXPECT_CODE(store_->GetLogHead(), absl::StatusCode::kUnavailable);
      EXPECT_CODE(Insert({TestRow(handle + 1, "x")}), absl::StatusCode::kUnavailable);
    } else if (!result->checkpoint.ok()) {
      EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
    }
    Open();
    const bool done = store_->FindRequest(request.request->request_id)->has_value();
    EXPECT_TRUE(done || !result.ok());
    EXPECT_EQ(store_->GetLogHead()->count, before + (done ? 1 : 0));
    EXPECT_EQ(store_->FindByIds(memory_.uid, std::vector<std::string>{id})->at(0).state,
              done ? IdState::kErased : IdState::kLive);
    if (!done) {
      ASSERT_OK(store_->EraseTokens(request));  // the very same request passes now
    }
    ++handle;
  }
  EXPECT_GE(failed, 3);
  ExpectLogIsChained(WholeLog(*store_));
}

TEST_F(SqliteTenantStoreTest, AnEraseStandsWhenItsCheckpointFails) {
  std::vector<TokenRow> rows;
  for (uint64_t i = 1; i <= 40; ++i) {
    rows.push_back(TestRow(i, absl::StrCat(i)));
    rows.back().payload.resize(20'000);
  }
  ASSERT_OK(Insert(rows));
  ASSERT_OK(store_->Checkpoint());
  ASSERT_GT(std::filesystem::file_size(file_), 600'000u);
  absl::StatusOr<EraseResult> result = absl::UnknownError("");
  {
    const ScopedFileLimit limit(300'000);  // room for the log, none at the end of the database
    result = Erase({40});
  }
  ASSERT_OK(result);
  EXPECT_FALSE(result->checkpoint.ok());
  EXPECT_CODE(store_->Health(), absl::StatusCode::kUnavailable);
  Open();
  EXPECT_EQ(store_->CountMemory(memory_.uid)->tokens, 39u);
  EXPECT_OK(store_->Checkpoint());
}

}  // namespace
}  // namespace lethe::store
